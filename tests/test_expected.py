"""Each fixture converts to the text that stands beside it: read as a review, kept by this test."""

from __future__ import annotations

from pathlib import Path

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert

from distify.files import read_script
from distify.resolver import LocalModules

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").glob("*/train.py"))
FOR_HOROVOD = [path for path in FIXTURES if (path.parent / "expected_horovod.py").exists()]
LIBRARIES = sorted((Path(__file__).parent.parent / "fixtures" / "libraries").glob("*/train.py"))
PROJECTS = sorted((Path(__file__).parent.parent / "fixtures" / "projects").glob("*/train.py"))


def _no_modules(importing: str, name: str, level: int) -> None:
    return None


@pytest.mark.parametrize("script", [*FIXTURES, *LIBRARIES], ids=lambda path: path.parent.name)
def test_converts_to_what_stands_beside_it(script: Path) -> None:
    conversion = convert(SourceFile("train.py", script.read_bytes()), _no_modules)
    assert conversion.outcome is Outcome.CONVERTED
    assert not conversion.of(Level.BLOCKING)
    after = conversion.files[0].after
    assert after.decode() == (script.parent / "expected_ddp.py").read_text(encoding="utf-8")
    compile(after, "train_dist.py", "exec")


@pytest.mark.parametrize("script", FOR_HOROVOD, ids=lambda path: path.parent.name)
def test_converts_for_horovod_to_what_stands_beside_it(script: Path) -> None:
    options = Options(backend="horovod")
    conversion = convert(SourceFile("train.py", script.read_bytes()), _no_modules, options)
    after = conversion.files[0].after
    assert after.decode() == (script.parent / "expected_horovod.py").read_text(encoding="utf-8")
    assert convert(SourceFile("train_dist.py", after), _no_modules, options).outcome is Outcome.ALREADY_CONVERTED


@pytest.mark.parametrize("script", [*FIXTURES, *LIBRARIES], ids=lambda path: path.parent.name)
def test_a_second_conversion_changes_nothing(script: Path) -> None:
    expected = (script.parent / "expected_ddp.py").read_bytes()
    conversion = convert(SourceFile("train_dist.py", expected), _no_modules)
    assert (conversion.outcome, conversion.files) == (Outcome.ALREADY_CONVERTED, ())


@pytest.mark.parametrize("script", [*FIXTURES, *LIBRARIES], ids=lambda path: path.parent.name)
def test_each_change_says_where_and_why(script: Path) -> None:
    """A line of the diff without a reason beside it is a line that nobody can review."""
    before = script.read_bytes()
    [file] = convert(SourceFile("train.py", before), _no_modules).files
    lines = before.count(b"\n") + 1
    assert all(change.reason and change.code and 1 <= change.place.line <= lines for change in file.changes)
    assert len(file.changes) >= 4


@pytest.mark.parametrize("script", PROJECTS, ids=lambda path: path.parent.name)
def test_a_project_converts_to_the_twins_that_stand_beside_its_files(script: Path) -> None:
    conversion = convert(read_script(str(script)), LocalModules(str(script)))
    assert conversion.outcome is Outcome.CONVERTED
    after = {Path(file.target): file.after.decode() for file in conversion.files}
    expected = {path: path.read_text(encoding="utf-8") for path in script.parent.rglob("*_dist.py")}
    assert after == expected
    twin = str(script.with_name("train_dist.py"))
    assert convert(read_script(twin), LocalModules(twin)).outcome is Outcome.ALREADY_CONVERTED
