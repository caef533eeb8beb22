"""The unit of a conversion: the entry script and the local modules that it reaches."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from distify_codemods import source
from distify_codemods.module import Module as Module
from distify_codemods.records import dataclass
from distify_codemods.results import Options, Resolver, SourceError, SourceFile

if TYPE_CHECKING:
    import libcst as cst

    from distify_codemods.facts import Facts
    from distify_codemods.interpreter import Trial


@dataclass(eq=False)
class Program:
    """The entry and, parsed on demand, what it imports from beside itself."""

    entry: Module
    resolver: Resolver
    options: Options = field(default_factory=Options)
    modules: dict[str, Module] = field(default_factory=dict)  # by path
    unreadable: list[SourceError] = field(default_factory=list)  # local modules that do not parse
    #: Folders that the program has put into `sys.path`; None stands for what was there before.
    search_path: list[str | None] = field(default_factory=lambda: [None])
    on_run: Callable[[int], None] | None = None  # told each time it is followed how often that will be, about
    statements: int = 0  # that all runs have followed
    followed: dict[Trial, Facts] = field(default_factory=dict)  # what each run has told
    constants: dict[cst.CSTNode, object] = field(default_factory=dict)  # what literals are, once they were read

    def local_module(self, importer: Module, name: str, level: int) -> Module | None:
        """The local module of that name as `importer` sees it; None for libraries and unreadable files."""
        file = self._file(importer, name, level)
        if file is None:
            return None
        known = self.modules.get(file.path)
        if known is not None:
            return known
        try:
            module = Module(file, name, source.parse(file))
        except SourceError as problem:
            if all(problem.path != other.path for other in self.unreadable):
                self.unreadable.append(problem)
            return None
        self.modules[file.path] = module
        return module

    def has_file(self, importer: Module, name: str, level: int) -> bool:
        """Whether there is a local file of that name, readable or not."""
        return self._file(importer, name, level) is not None

    def listed(self, importer: Module, package: str, level: int) -> list[str]:
        """The modules that lie in a package, or in a folder that is one."""
        given = self.options.listed
        for place in self._places(importer, package, level) if given is not None else ():
            if found := given(*place) if given is not None else ():
                return list(found)
        return []

    def reads(self, importer: Module, package: str, name: str, level: int) -> bool:
        """Whether there is a module of that name in a package, and can be read. What cannot is not told of."""
        before = len(self.unreadable)
        found = self.local_module(importer, f"{package}.{name}" if package else name, level)
        del self.unreadable[before:]
        return found is not None

    def _file(self, importer: Module, name: str, level: int) -> SourceFile | None:
        found = (self.resolver(*place) for place in self._places(importer, name, level))
        return next((file for file in found if file is not None), None)

    def _places(self, importer: Module, name: str, level: int) -> Iterator[tuple[str, str, int]]:
        """Where a module is looked for. A folder is looked through as for a relative import of a file in it."""
        for folder in [None] if level else self.search_path:
            yield (importer.path, name, level) if folder is None else (os.path.join(folder, "_"), name, 1)


def load(file: SourceFile, resolver: Resolver, options: Options | None = None) -> Program:
    """Raises SourceError when the entry is not Python 3 source."""
    entry = Module(file, "__main__", source.parse(file))
    return Program(entry, resolver, options or Options(), {file.path: entry})
