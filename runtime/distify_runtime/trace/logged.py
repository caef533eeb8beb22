"""What a script says on stderr, as `logging` does unless it is told of another place."""

from __future__ import annotations

import sys
from collections.abc import Callable

from distify_runtime.patching import wrap
from distify_runtime.trace.figures import without_clock


def keep_what_is_logged(kept: list[str]) -> None:
    """Puts each line there, once it has ended, without the times in it; but for progress bars."""
    if sys.stderr is None:
        return
    left = ""

    def write(original: Callable[[str], int], text: str) -> int:
        nonlocal left
        if "\r" not in text:
            *lines, left = f"{left}{text}".split("\n")
            kept.extend(filter(None, map(_of_the_script, lines)))
        return original(text)

    wrap(sys.stderr, "write", write)


def _of_the_script(line: str) -> str:
    """Empty for what the run itself says, and for warnings with the line of code that they quote."""
    return "" if line.startswith("distify: ") or "Warning" in line or "warn(" in line else without_clock(line)
