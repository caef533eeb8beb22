"""Hands a script and the modules beside it to the codemods."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import distify_codemods.backends
from distify_codemods import Conversion, Level, OptionError, Options, Outcome, SourceError, SourceFile, Strategy

from distify.errors import DistifyError
from distify.hidden import check_libraries
from distify.notebooks import NotebookScript
from distify.progress import progress
from distify.project_commands import commands_of
from distify.resolver import LocalModules, text_beside

#: What `--backend` takes; the first one is the default.
BACKENDS = tuple(distify_codemods.backends.BACKENDS)
#: What `--strategy` takes; the first one is the default.
STRATEGIES = ("auto", *(one.value for one in Strategy))


def convert_script(script: SourceFile, modules: LocalModules, options: Options) -> Conversion:
    """The conversion of `script`.

    Raises DistifyError where it, or a module of its own, is not Python 3, or where what the user has settled cannot
    be followed.
    """
    book = script if isinstance(script, NotebookScript) else None
    try:
        with progress(modules) as seen:
            commands = partial(commands_of, script.path, modules.projects)
            here = replace(
                options, installed=modules.installs, commands=commands, listed=modules.listed, beside=text_beside,
                beyond=modules.beyond,
            )  # fmt: skip
            conversion = distify_codemods.convert(script, modules, here, seen)
    except SourceError as error:
        raise DistifyError(book.problem(error) if book else str(error)) from None
    except OptionError as error:
        raise DistifyError(book.text(str(error)) if book else str(error)) from None
    check_libraries(modules.root if modules.as_module else os.path.dirname(script.path), script.data)
    return book.relocated(conversion, options) if book else conversion


def needs_person(conversion: Conversion) -> bool:
    """Whether the result would be wrong, or is unfinished, without the user's answer."""
    return conversion.outcome is Outcome.REFUSED or bool(conversion.of(Level.BLOCKING))
