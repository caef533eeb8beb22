"""Which two scripts are run: the original, and its conversion, made here or there already."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace

from distify_codemods import Conversion, Options, Outcome, SourceFile

from distify.engine import convert_script, needs_person
from distify.errors import DistifyError
from distify.files import read_script
from distify.notebooks import is_notebook
from distify.resolver import LocalModules

_MARK = "_dist"


@dataclass(frozen=True)
class Pair:
    """`conversion`: of the original, made here; None where `converted` names a script that is there already."""

    original: SourceFile
    modules: LocalModules
    conversion: Conversion | None
    converted: str = ""

    @property
    def scripts(self) -> list[str]:
        """Their absolute paths, the original's first."""
        return [os.path.abspath(one) for one in (self.original.path, self.converted) if one]

    @property
    def needs_person(self) -> bool:
        return self.conversion is not None and needs_person(self.conversion)

    @property
    def how_run(self) -> str:
        """Where it is run alone."""
        return "converted here" if self.conversion else "as it is"

    @property
    def how(self) -> str:
        return f"{self.converted}, which is there already" if self.converted else "converted here"


def find_pair(path: str, converted: str, options: Options, anew: bool) -> Pair:
    """What is verified. Raises DistifyError where one of the two is missing or is not what it should be.

    anew: convert, although a conversion is there.
    """
    script, modules = read_script(path), LocalModules(path)
    conversion = convert_script(script, modules, replace(options, twins=False))
    if conversion.outcome is Outcome.ALREADY_CONVERTED:
        if converted:
            raise DistifyError(f"{path}: is converted already: name the original first, then the converted script")
        original = _original_of(path)
        return find_pair(original, path, options, anew=False)
    beside = _beside(path)
    if not converted and not anew and os.path.isfile(beside):
        converted = beside
    if converted:
        _check_converted(converted)
        return Pair(script, modules, None, read_script(converted).path)
    return Pair(script, modules, conversion)


def find_converted(path: str, options: Options) -> Pair:
    """What is run of a script alone: its conversion, or itself where it is distributed already, by whatever tool."""
    script, modules = read_script(path), LocalModules(path)
    conversion = convert_script(script, modules, replace(options, twins=False))
    if conversion.outcome is Outcome.ALREADY_CONVERTED or (
        conversion.outcome is Outcome.REFUSED and _is_distributed(script.path)
    ):
        return Pair(script, modules, None, script.path)
    return Pair(script, modules, conversion)


def _is_distributed(path: str) -> bool:
    from distify_runtime.launch import LaunchError, find_script, looks_distributed

    try:
        return looks_distributed(find_script(path))
    except LaunchError:
        return False


def _beside(path: str) -> str:
    stem, ending = os.path.splitext(path)
    return f"{stem}{_MARK}{'.py' if is_notebook(path) else ending}"


def _original_of(path: str) -> str:
    stem, ending = os.path.splitext(path)
    if stem.endswith(_MARK):
        for name in (stem.removesuffix(_MARK) + one for one in (ending, ".ipynb")):
            if os.path.isfile(name):
                return name
    raise DistifyError(
        f"{path}: is converted already, and its original is not beside it: distify verify ORIGINAL {shlex.quote(path)}"
    )


def _check_converted(path: str) -> None:
    """By whatever tool or hand; how well is what is to be found out."""
    from distify_runtime.launch import LaunchError, find_script, looks_distributed

    try:
        script = find_script(read_script(path).path)
    except LaunchError as error:
        raise DistifyError(str(error)) from None
    if not looks_distributed(script):
        raise DistifyError(f"{path}: is not converted: it knows nothing of ranks (distify convert makes what does)")
