"""Progress bars: they hand on what they are given, and draw."""

from __future__ import annotations

RANGE = "tqdm.trange"
OF_TQDM = frozenset({"tqdm.tqdm", RANGE})
_OF_RICH = frozenset(f"rich.progress.{name}" for name in ("Progress", "track", "open", "wrap_file"))
#: What takes `disable=`.
CAN_BE_DISABLED = OF_TQDM | _OF_RICH
#: Where tqdm takes it.
PARAMETERS = tuple("iterable desc total leave file ncols mininterval maxinterval miniters ascii disable".split())
#: What hands on what it goes through.
BARS = OF_TQDM | frozenset(
    "rich.progress.track alive_progress.alive_it fastprogress.progress_bar progressbar.progressbar".split()
)


#: What a bar has counted, from time to time, if it is drawn.
COUNTS = frozenset("n last_print_n last_print_t start_t format_dict".split())


def parameters(name: str) -> tuple[str, ...]:
    """Those that may be given by position, up to `disable`; nobody gives so many to rich's."""
    return PARAMETERS if name in OF_TQDM else ()


def writes_beside(name: str) -> bool:
    """`tqdm.write(...)`, which writes even if the bar is not drawn."""
    return name.startswith("tqdm.") and name.endswith(".write")
