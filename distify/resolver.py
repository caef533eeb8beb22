"""Finds the local modules that a script imports, as Python would when the script is started."""

from __future__ import annotations

import os

from distify_codemods import SourceFile


class LocalModules:
    """A resolver over the disk, to be handed to `distify_codemods.convert`.

    Absolute names are looked up in the folder of the entry script (Python's `sys.path[0]`) and, where the
    entry lies in a package, in the folder above the topmost package; relative ones in the importing file's
    own package.
    `found`: what was served, by absolute path; each file is read once.
    """

    def __init__(self, entry: str) -> None:
        self._shown_absolute = os.path.isabs(entry)
        folder = os.path.dirname(os.path.abspath(entry))
        root = _package_root(folder)
        self._roots = [folder] if root == folder else [folder, root]
        self.found: dict[str, SourceFile] = {}

    def __call__(self, importing: str, name: str, level: int) -> SourceFile | None:
        """The file of module `name`, imported by `importing` with `level` leading dots; None if not local."""
        parts = name.split(".") if name else []
        if not all(part.isidentifier() for part in parts):
            return None
        if level == 0:
            return self._absolute(parts) if parts else None
        folder = os.path.dirname(os.path.abspath(importing))
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        return self._module(folder, parts)

    def _absolute(self, parts: list[str]) -> SourceFile | None:
        tops = [os.path.join(root, parts[0]) for root in self._roots]
        regular = [top for top in tops if _is_package(top) or os.path.isfile(f"{top}.py")]
        for top in regular[:1] or tops:  # Python never looks for a submodule behind the first regular package
            if (module := self._module(os.path.dirname(top), parts)) is not None:
                return module
        return None

    def _module(self, folder: str, parts: list[str]) -> SourceFile | None:
        for part in parts[:-1]:
            folder = os.path.join(folder, part)
            if os.path.isfile(f"{folder}.py") and not _is_package(folder):
                return None  # Python takes the module and finds no submodules in it
        path = os.path.join(folder, *parts[-1:])
        if not parts or _is_package(path):
            return self._read(os.path.join(path, "__init__.py"))
        return self._read(f"{path}.py")

    def _read(self, path: str) -> SourceFile | None:
        if path not in self.found:
            if not os.path.isfile(path):  # also: a pipe, which could block for ever
                return None
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError:
                return None
            self.found[path] = SourceFile(path if self._shown_absolute else os.path.relpath(path), data)
        return self.found[path]


def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


def _package_root(folder: str) -> str:
    """The folder above the topmost package that `folder` lies in; `folder` itself where it is no package."""
    while _is_package(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder
