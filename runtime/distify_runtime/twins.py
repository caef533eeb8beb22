"""Converted files that are imported under the names of their originals."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from distify_runtime.meeting import collective

SUFFIX = "_dist"


@collective
def import_twins(*paths: str, original: str = "") -> None:
    """Have `pkg/model_dist.py` imported wherever this script, or what it imports, asks for `pkg/model.py`.

    paths: of the converted files, relative to the folder of the calling file. What is not among them is imported as
    ever. Modules keep their names, so that pickles, relative imports and `importlib.import_module` mean what they did.
    original: what the calling file was converted from, for files that import the script; `train.py` for
    `train_dist.py` by itself. Python then runs the script once more, as the module of that name, as it always does.
    Raises FileNotFoundError for a path that leads nowhere.
    """
    caller = os.path.abspath(sys._getframe(1).f_code.co_filename)
    folder = os.path.dirname(caller)
    twins = {os.path.realpath(os.path.join(folder, original) if original else _original_of(caller)): caller}
    for path in paths:
        twin = os.path.normpath(os.path.join(folder, path))
        if not os.path.isfile(twin):
            raise FileNotFoundError(f"{twin}: this converted file is missing; convert the script again")
        twins[os.path.realpath(_original_of(twin))] = twin
    sys.meta_path.insert(0, _Twins(twins))
    _forget(twins)


def _forget(twins: dict[str, str]) -> None:
    """`python -m pkg.train_dist` has run `pkg/__init__.py` before this, and with it originals: it runs anew."""
    paths = {name: getattr(module, "__file__", None) for name, module in sys.modules.items() if name != "__main__"}
    packages = {name.partition(".")[0] for name, path in paths.items() if path and os.path.realpath(path) in twins}
    for name in paths:
        if name.partition(".")[0] in packages:
            del sys.modules[name]
    importlib.invalidate_caches()


def _original_of(twin: str) -> str:
    stem, ending = os.path.splitext(twin)
    return stem.removesuffix(SUFFIX) + ending


class _Twins:
    """A finder of `sys.meta_path`, before all others."""

    def __init__(self, twins: dict[str, str]) -> None:
        self._twins = twins
        self._files = set(map(os.path.realpath, twins.values()))

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is None or not found.origin:
            return None
        twin = self._twins.get(os.path.realpath(found.origin))
        if twin is None:
            if os.path.realpath(found.origin) in self._files and name.endswith(SUFFIX):
                return importlib.machinery.ModuleSpec(name, _Same(name.removesuffix(SUFFIX)), origin=found.origin)
            self._is_another(name, found.origin)
            return None
        return importlib.util.spec_from_file_location(
            name, twin, submodule_search_locations=found.submodule_search_locations
        )

    def _is_another(self, name: str, origin: str) -> None:
        """Raises RuntimeError where Python finds a copy of an original, as one that is installed, which has no twin."""
        ending = os.path.join("", *name.split(".")) + ".py"
        for original in self._twins:
            if "." in name and original.endswith(os.sep + ending):
                raise RuntimeError(
                    f"distify: {name} is {origin} here, and converted was {original}: put "
                    f"{original.removesuffix(os.sep + ending)} into PYTHONPATH"
                )


class _Same(importlib.abc.Loader):
    """Loads a twin under its own name, as code does that imports each file of a folder: it is there already."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs a second time."""
        module.__spec__ = self._spec
