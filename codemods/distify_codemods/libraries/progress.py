"""Progress bars: they hand on what they are given, and draw."""

from __future__ import annotations

RANGE = "tqdm.trange"
#: What hands on what it goes through.
BARS = frozenset(
    "tqdm.tqdm tqdm.trange rich.progress.track alive_progress.alive_it fastprogress.progress_bar "
    "progressbar.progressbar".split()
)
_OWN = frozenset({"tqdm", "trange", "tqdm_notebook", "tnrange", "tqdm_gui"})


def is_of_tqdm(name: str) -> bool:
    """Whether it is a bar that knows tqdm's words, whatever module of tqdm's it is taken from."""
    return name.startswith("tqdm.") and name.rsplit(".", 1)[-1] in _OWN


def writes_beside(name: str) -> bool:
    """`tqdm.write(...)`, which writes even if the bar is not drawn."""
    return name.startswith("tqdm.") and name.endswith(".write")
