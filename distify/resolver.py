"""Finds the local modules that a script imports, as Python would when the script is started."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

from distify_codemods import SourceFile
from distify_codemods.results import SUFFIX


class LocalModules:
    """A resolver over the disk, to be handed to `distify_codemods.convert`.

    Absolute names are looked up in the folder of the entry script (Python's `sys.path[0]`), where the entry lies
    in a package in the folder above the topmost one, in folders above it that PYTHONPATH names, and last in those of
    its project that are put there to be imported (the project's own folder, its `src`, what PYTHONPATH names in it, or
    below the script);
    relative ones in the importing file's own package. `pkg.nets`, imported by `pkg/train.py`, is found from the working
    directory, as under `python -m pkg.train`. Files of installed libraries are never served.
    `projects`: the folders of the project, or of what may be one.
    `found`: what was served, by absolute path; each file is read once.
    `as_module`: whether the script has to be started with `python -m` from `root`.
    `needs_root`: whether it has to be started as a file, with `root` in PYTHONPATH.
    `above`: how many folders above its own it has to be started from, where relative imports make packages of folders
    that do not say that they are.
    """

    def __init__(self, entry: str) -> None:
        self._entry = os.path.abspath(entry)
        self._shown_absolute = os.path.isabs(entry)
        folder = os.path.dirname(self._entry)
        self.root = _package_root(folder)
        named = list(map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))))
        self._named = named
        above = [one for one in named if folder.startswith(os.path.join(one, ""))]
        self._roots = list(dict.fromkeys([folder, self.root, *above]))
        self.projects = projects = _projects(folder)
        around = (folder, *projects)
        inside = [one for one in named if any(one.startswith(os.path.join(project, "")) for project in around)]
        self._of_project = [*inside, *(os.path.join(project, part) for project in projects for part in ("", "src"))]
        self._here, *self._below = _parts_below(os.getcwd(), folder)
        self.found: dict[str, SourceFile] = {}
        self.above = 0
        self._relative = False
        self._imports: dict[str, set[str]] = {}  # by file, and so the next two
        self._of_packages: set[str] = set()  # import what lies below `root` by its full name
        self._bare: set[str] = set()  # import what lies beside the script by its bare name

    @property
    def as_module(self) -> bool:
        return self._relative or (self._names_packages and not self._names_neighbours)

    @property
    def needs_root(self) -> bool:
        return self._names_packages and not self.as_module

    @property
    def project(self) -> str:
        """The folder that a copy of the project is one of: what the script's packages lie in, if it names them.

        Where it names none, an `__init__.py` beside it does not say that its project begins above: a folder that looks
        like a project does, else the one that is worked in.
        """
        if self.as_module or self.needs_root:
            return self.root
        around = [one for one in (*self.projects, os.getcwd()) if one.startswith(os.path.join(self.root, ""))]
        return next((one for one in around if self._entry.startswith(os.path.join(one, ""))), self.root)

    @property
    def _names_packages(self) -> bool:
        return not self._of_packages.isdisjoint(self._started())

    @property
    def _names_neighbours(self) -> bool:
        """What Python finds in the folder of a script, and not when that is started as a module of a package."""
        return self.root != os.path.dirname(self._entry) and not self._bare.isdisjoint(self._started())

    def _started(self) -> set[str]:
        """The files that run when the script is started as a file: not the `__init__` of a package around it."""
        reached, more = set[str](), {self._entry}
        while more:
            reached |= more
            more = {found for path in more for found in self._imports.get(path, ())} - reached
        return reached

    def __call__(self, importing: str, name: str, level: int) -> SourceFile | None:
        """The file of module `name`, imported by `importing` with `level` leading dots; None if not local."""
        parts = name.split(".") if name else []
        if not all(part.isidentifier() for part in parts):
            return None
        importing = os.path.abspath(importing)
        found = self._below_parent(importing, parts, level) if level else self._absolute(importing, parts)
        if found is not None and parts:  # a package of the file's own has run, or is only asked for
            self._imports.setdefault(importing, set()).add(os.path.abspath(found.path))
        return found

    def _below_parent(self, importing: str, parts: list[str], level: int) -> SourceFile | None:
        folder = os.path.dirname(importing)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        found = self._module(folder, parts)
        if found is not None and importing == self._entry:
            self._relative = True
            if not _is_package(os.path.dirname(self._entry)):
                if self._below:
                    self.root = self._here
                else:
                    self.above = max(self.above, level)
        return found

    def start_of(self, script: str) -> str:
        """The folder from which a script in the place of the entry is started with `python -m`."""
        folder = os.path.dirname(os.path.abspath(script))
        for _ in range(self.above):
            folder = os.path.dirname(folder)
        return folder if self.above else self.root

    def installs(self, name: str) -> bool:
        """Whether Python finds a module of that name, where it is no source of the project.

        Below a package with an `__init__.py`, which may make its names as it runs, all are taken for found.
        """
        if name.partition(".")[0] in sys.builtin_module_names:
            return True
        folders = [*self._roots, *sys.path]
        for part in name.split("."):
            spec = PathFinder.find_spec(part, folders)
            if spec is None or (spec.loader is None and spec.submodule_search_locations is None):
                return False
            if spec.origin is not None:
                return True
            folders = list(spec.submodule_search_locations or ())
        return True

    def beyond(self, name: str) -> str | None:
        """Where a module lies that PYTHONPATH names, where that is no part of the project and no installed library."""
        for folder in self._named:
            top = os.path.join(folder, name.partition(".")[0])
            path = os.path.join(top, "__init__.py") if _is_package(top) else f"{top}.py"
            if os.path.isfile(path):
                return None if _is_installed(path) else path
        return None

    def listed(self, importing: str, name: str, level: int) -> list[str]:
        """The modules that lie in package `name`, found as it would be; no twins of others."""
        parts = name.split(".") if name else []
        folder = os.path.dirname(os.path.abspath(importing))
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        for root in [folder] if level else (*self._roots, *self._of_project):
            found = _modules_in(os.path.join(root, *parts)) if parts or level else []
            if found:
                return found
        return []

    def _absolute(self, importing: str, parts: list[str]) -> SourceFile | None:
        if not parts:
            return None
        roots = [*self._roots, self._here] if parts[0] in self._below[:1] else self._roots
        tops = [os.path.join(root, parts[0]) for root in (*roots, *self._of_project)]
        regular = [top for top in tops if _is_package(top) or os.path.isfile(f"{top}.py")]
        for top in regular[:1] or tops:  # Python never looks for a submodule behind the first regular package
            folder = os.path.dirname(top)
            if (module := self._module(folder, parts)) is not None:
                packages = (os.path.join(folder, *parts[:number], "__init__.py") for number in range(1, len(parts)))
                self._imports.setdefault(importing, set()).update(packages)
                if folder == roots[0]:
                    self._bare.add(importing)
                elif folder in roots[1:] and folder in (self.root, self._here):
                    self._of_packages.add(importing)
                    self.root = folder
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
            if _is_installed(path) or not os.path.isfile(path):  # also: a pipe, which could block for ever
                return None
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError:
                return None
            self.found[path] = SourceFile(path if self._shown_absolute else os.path.relpath(path), data)
        return self.found[path]


def text_beside(importing: str, path: str) -> str | None:
    """The text of a file that is no Python, by its path from the folder of what names it."""
    whole = os.path.join(os.path.dirname(os.path.abspath(importing)), path)
    if not os.path.isfile(whole):  # also: a pipe, which could block for ever
        return None
    try:
        with open(whole, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _modules_in(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    files = {name.removesuffix(".py") for name in names if name.endswith(".py")}
    twins = {name for name in files if name.endswith(SUFFIX) and name.removesuffix(SUFFIX) in files}
    packages = {name for name in names if _is_package(os.path.join(folder, name))}
    return sorted(name for name in (files | packages) - twins if name.isidentifier() and not name.startswith("__"))


def _parts_below(folder: str, path: str) -> list[str]:
    """A folder, and the names that lead from it to `path`, where that lies below it."""
    below = path.startswith(os.path.join(folder, ""))
    return [folder, *(os.path.relpath(path, folder).split(os.sep) if below else [])]


def _is_installed(path: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))


def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


def _projects(folder: str) -> list[str]:
    """The nearest folder above that is a project's. Where none is said to be: those near by that look like one."""
    above, home = [folder], os.path.realpath(os.path.expanduser("~"))
    while above[-1] != os.path.dirname(above[-1]) and os.path.realpath(above[-1]) != home:
        above.append(os.path.dirname(above[-1]))
    for one in above:
        if _has_any(one, ("pyproject.toml", ".git")) or _sets_up(os.path.join(one, "setup.py")):
            return [one]
    near = [one for one in above[:4] if os.path.realpath(one) != home]  # a home has its README, and much else
    return [one for one in near if _has_any(one, _OF_A_COPY)]


#: What lies beside a project's packages where it was copied or downloaded without its history.
_OF_A_COPY = (
    "requirements.txt", "setup.cfg", "environment.yml", "environment.yaml", "README.md", "README.rst", "README.txt",
    "README", "LICENSE",
)  # fmt: skip


def _sets_up(path: str) -> bool:
    """Whether a `setup.py` is a project's, and no module of a script's own."""
    try:
        with open(path, "rb") as file:
            return b"setup(" in file.read()
    except OSError:
        return False


def _has_any(folder: str, names: tuple[str, ...]) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in names)


def _package_root(folder: str) -> str:
    """The folder above the topmost package that `folder` lies in; `folder` itself where it is no package."""
    while _is_package(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder
