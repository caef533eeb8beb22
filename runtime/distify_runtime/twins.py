"""Converted files that are imported under the names of their originals."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

SUFFIX = "_dist"


def import_twins(*paths: str) -> None:
    """Have `pkg/model_dist.py` imported wherever this script, or what it imports, asks for `pkg/model.py`.

    paths: of the converted files, relative to the folder of the calling file. What is not among them is imported as
    ever. Modules keep their names, so that pickles, relative imports and `importlib.import_module` mean what they did.
    Raises FileNotFoundError for a path that leads nowhere.
    """
    folder = os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename))
    twins: dict[str, str] = {}
    for path in paths:
        twin = os.path.normpath(os.path.join(folder, path))
        stem, ending = os.path.splitext(twin)
        if not os.path.isfile(twin):
            raise FileNotFoundError(f"{twin}: this converted file is missing; convert the script again")
        twins[os.path.realpath(stem.removesuffix(SUFFIX) + ending)] = twin
    sys.meta_path.insert(0, _Twins(twins))


class _Twins:
    """A finder of `sys.meta_path`, before all others."""

    def __init__(self, twins: dict[str, str]) -> None:
        self._twins = twins

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        twin = self._twins.get(os.path.realpath(found.origin)) if found is not None and found.origin else None
        if found is None or twin is None:
            return None
        return importlib.util.spec_from_file_location(
            name, twin, submodule_search_locations=found.submodule_search_locations
        )
