"""Progress bars: they hand on what they are given, and draw."""

from __future__ import annotations

BAR, RANGE = "tqdm.tqdm", "tqdm.trange"
#: tqdm's, which can be disabled.
OF_TQDM = frozenset({BAR, RANGE})
#: What hands on what it goes through.
BARS = frozenset(
    [*OF_TQDM, "rich.progress.track", "alive_progress.alive_it", "fastprogress.progress_bar", "progressbar.progressbar"]
)
#: Other libraries' bars, which know no `disable`, or have another word for it.
_OTHERS = (
    "rich.progress.", "progressbar.", "progress.bar.", "progress.spinner.", "alive_progress.", "fastprogress.",
    "enlighten.", "pkbar.", "tqdm.contrib.",
)  # fmt: skip
_OF_OTHERS = frozenset({"click.progressbar", "typer.progressbar"})


def is_of_another(name: str) -> bool:
    """Whether it is a bar that does not know tqdm's words."""
    return name.startswith(_OTHERS) or name in _OF_OTHERS


def writes_beside(name: str) -> bool:
    """`tqdm.write(...)`, which writes even if the bar is not drawn."""
    return name.startswith("tqdm.") and name.endswith(".write")
