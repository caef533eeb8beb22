"""What a script says on stderr, as `logging` and loguru do unless they are told of another place."""

from __future__ import annotations

import sys
from collections.abc import Callable

from distify_runtime.patching import wrap
from distify_runtime.shared.wholes import IS_WHOLE
from distify_runtime.trace.figures import without_clock

_OURS = "distify: "


def keep_what_is_logged(kept: list[str], whole: list[str]) -> None:
    """Puts each line there, once it has ended, without the times in it; but for progress bars.

    whole: where what the run itself says of models goes that every rank computes whole.
    """
    if sys.stderr is None:
        return
    left = ""

    def write(original: Callable[[str], int], text: str) -> int:
        nonlocal left
        if "\r" not in text:
            *lines, left = f"{left}{text}".split("\n")
            kept.extend(filter(None, map(_of_the_script, lines)))
            whole.extend(line.removeprefix(_OURS) for line in lines if line.startswith(_OURS) and IS_WHOLE in line)
        return original(text)

    wrap(sys.stderr, "write", write)


def _of_the_script(line: str) -> str:
    """Empty for what the run itself says, and for warnings with the line of code that they quote."""
    return "" if line.startswith(_OURS) or "Warning" in line or "warn(" in line else without_clock(line)
