"""Folders that a library makes for each run by itself: which of their settings no script and no configuration has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.answers import answered_once
from distify_codemods.events import Event
from distify_codemods.facts import Facts
from distify_codemods.libraries import effects
from distify_codemods.records import dataclass

#: A line of YAML with a key: its indentation, with the dash of a list; the key; the value.
_KEY = re.compile(r"([ ]*(?:-[ ]+)?)([\w.@/ -]+?)\s*:(?:[ ]+(.*?))?\s*(?:#.*)?$")


@dataclass(frozen=True)
class RunFolder:
    """A call that makes one on each rank, and the settings that it lacks: `hydra.run.dir=outputs/NAME`."""

    event: Event
    lacks: tuple[str, ...]

    @property
    def named_by_the_time(self) -> bool:
        return any(one.partition("=")[0].endswith("dir") and "subdir" not in one for one in self.lacks)


@answered_once
def run_folders(facts: Facts) -> list[RunFolder]:
    """Those that lack some of their settings."""
    found = []
    for event in facts.calls(*effects.RUN_FOLDERS):
        wanted = effects.RUN_FOLDERS[event.name].settings.split()
        had = {*_in_the_script(facts, wanted), *_configured(facts, event)}
        if lacks := tuple(one for one in wanted if one.partition("=")[0] not in had):
            found.append(RunFolder(event, lacks))
    return found


def _in_the_script(facts: Facts, wanted: list[str]) -> Iterator[str]:
    literals = (node for node in facts.run.values if isinstance(node, cst.BaseString))
    for text in [text for node in literals if (text := tree.string(node)) is not None]:
        yield from (name for one in wanted if f"{(name := one.partition('=')[0])}=" in text)


def _configured(facts: Facts, event: Event) -> Iterator[str]:
    """The settings that the file has which the call names as its configuration."""
    api = effects.RUN_FOLDERS[event.name]
    names = [event.arguments.get(one) for one in api.config]
    told = [value.constant() if value is not None else None for value in names]
    given = facts.program.options.beside
    if given is None or not all(isinstance(one, str) for one in told):
        return
    path = os.path.join(*map(str, told))
    text = given(event.module.path, path if path.endswith((".yaml", ".yml")) else f"{path}.yaml")
    for name, value in _settings(text or ""):
        if not any(one in value if one.startswith("$") else one == value for one in api.unset.split()):
            yield name


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """The keys of a file in YAML that have a value in their line, each with those that it stands below."""
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        if (found := _KEY.match(line)) is None:
            continue
        within, key, value = len(found[1]), found[2], found[3]
        above = [one for one in above if one[0] < within]
        if value:
            key = key.removeprefix("override ").removeprefix("/")  # an entry of Hydra's list of defaults
            yield (key if "/" in key else ".".join([*(name for _, name in above), key])), value
        above.append((within, key))
