"""One module for each command; `distify.cli` imports a module when its command is called, and not before."""
