"""Files that Python would import in place of a library: what lies beside a script comes first."""

from __future__ import annotations

import os
import re

from distify.errors import DistifyError

_USES_TORCH = re.compile(rb"^\s*(?:import|from)\s+torch\b", re.MULTILINE)


def check_libraries(folder: str, source: bytes) -> None:
    """Raises DistifyError where a script started in `folder`, or from there, would not get torch or our runtime.

    A package `distify_runtime` may have been put there on purpose, for machines on which it is not installed.
    """
    if not _USES_TORCH.search(source):
        return
    for library, name in (
        ("torch", "torch.py"),
        ("torch", os.path.join("torch", "__init__.py")),
        ("distify_runtime", "distify_runtime.py"),
    ):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            raise DistifyError(f"{path}: is imported by the script in place of the library {library}: rename it")
