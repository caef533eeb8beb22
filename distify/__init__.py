"""The command line: finds files, asks, writes and launches. Conversions are made in `distify_codemods`."""

__version__ = "0.1.0"
