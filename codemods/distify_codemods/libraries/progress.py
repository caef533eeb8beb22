"""Progress bars: they hand on what they are given, and draw."""

from __future__ import annotations

RANGE = "tqdm.trange"
#: tqdm's, which can be disabled.
OF_TQDM = frozenset({"tqdm.tqdm", RANGE})
PARAMETERS = tuple("iterable desc total leave file ncols mininterval maxinterval miniters ascii disable".split())
#: What hands on what it goes through.
BARS = OF_TQDM | frozenset(
    "rich.progress.track alive_progress.alive_it fastprogress.progress_bar progressbar.progressbar".split()
)


def writes_beside(name: str) -> bool:
    """`tqdm.write(...)`, which writes even if the bar is not drawn."""
    return name.startswith("tqdm.") and name.endswith(".write")
