"""Converts programs in a process of its own in which plain sets are gone through in some other order.

    PYTHONHASHSEED=7 python tests/determinism/scrambled.py 7 train.py [more.py ...]

Objects, nodes and enumerations hash by their addresses, so that sets of them have an order that memory decides. With a
seed other than 0 their hashes are scattered by it; texts are scattered by PYTHONHASHSEED. The programs come in an order
of the seed's own, too, since what was converted before must not matter either. Prints what came out, as JSON by script.
"""

from __future__ import annotations

import builtins
import enum
import gc
import json
import random
import sys
from typing import Any


def main(seed: int, scripts: list[str]) -> None:
    if seed:
        _scatter(random.Random(seed).getrandbits(61) | 1)
    random.Random(seed).shuffle(scripts)
    json.dump({script: _told(script) for script in scripts}, sys.stdout)


def _told(script: str) -> list[str]:
    """The new files line by line, each change, and each finding: all that a user would see."""
    from distify_codemods import Options, convert

    from distify.files import read_script
    from distify.resolver import LocalModules

    conversion = convert(read_script(script), LocalModules(script), Options(partial=True, why=True))
    files = [line for file in conversion.files for line in (f"== {file.path}", *file.after.decode().split("\n"))]
    changes = [repr(change) for file in conversion.files for change in file.changes]
    return [*files, *changes, *map(repr, conversion.findings), *map(repr, conversion.beliefs), repr(conversion.outcome)]


def _scatter(factor: int) -> None:
    """All that hashes by its address, or by its name as an enumeration does, hashes by something else."""

    def scattered(self: object) -> int:
        return id(self) * factor % (2**61 - 1)

    make = builtins.__build_class__

    def scattering(*args: Any, **options: Any) -> Any:
        # Members are keys of tables from the moment on when their module has been read.
        made = make(*args, **options)
        if isinstance(made, enum.EnumMeta) and made.__module__.startswith("distify_codemods"):
            made.__hash__ = scattered  # type: ignore[method-assign, assignment]
        return made

    builtins.__build_class__ = scattering
    import distify_codemods.conversion  # noqa: F401
    import libcst
    from distify_codemods import records

    import distify.resolver  # noqa: F401

    builtins.__build_class__ = make
    for waiting in list(records._unfinished):
        records.finished(waiting)  # those that hash by what they hold go on to do so
    by_address = (object.__hash__, libcst.CSTNode.__hash__)
    for kind in [one for one in gc.get_objects() if issubclass(type(one), type)]:
        own = kind.__module__.startswith(("distify_codemods", "libcst."))
        if own and kind.__hash__ in by_address and not issubclass(kind, (enum.Enum, type)):  # classes are keys, too
            kind.__hash__ = scattered


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
