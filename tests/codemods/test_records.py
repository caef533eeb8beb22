"""Data classes that are finished late: like those of the standard library in all that can be seen of an object."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import field
from pathlib import Path

import distify_codemods
import pytest
from distify_codemods.records import dataclass, finished


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True)
class Named(Point):
    name: str = ""
    tags: list[str] = field(default_factory=list, compare=False)


@dataclass(eq=False, repr=False)
class Plain:
    number: int = 1

    def __post_init__(self) -> None:
        self.number += 1


@dataclass(frozen=True, init=False)
class Written(Point):
    def __init__(self) -> None:
        self.__dict__.update(x=1, y=2)


@dataclass
class Changed:
    number: int = 0


class Derived(Named):
    """Not decorated."""


def test_objects_are_compared_shown_and_hashed_by_their_fields() -> None:
    assert Named(1, name="a", tags=["b"]) == Named(1, name="a")
    assert Named(1) != Named(2)
    assert repr(Point(3)) == "Point(x=3, y=0)"
    assert hash(Point(1, 2)) == hash((1, 2))
    assert Named(1).tags is not Named(1).tags


def test_objects_that_are_not_compared_by_their_fields_are_hashed_as_themselves() -> None:
    @dataclass(frozen=True, eq=False)
    class Alone:
        number: int

    assert len({Alone(1), Alone(1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Changed())


def test_objects_of_derived_classes_have_what_their_bases_have() -> None:
    one = Derived(1, 2, "a")
    assert (one.x, one.y, one.name, one.tags) == (1, 2, "a", [])
    assert dataclasses.replace(one, x=5) == Derived(5, 2, "a")
    assert [each.name for each in dataclasses.fields(one)] == ["x", "y", "name", "tags"]


def test_what_a_class_defines_stays() -> None:
    assert Plain().number == 2
    assert Plain() != Plain()
    assert Written() == Written()
    assert repr(Written()) == "Written(x=1, y=2)"


def test_arguments_are_checked_the_first_time_too() -> None:
    @dataclass(frozen=True)
    class Two:
        x: int
        y: int

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        Two(1)  # type: ignore[call-arg]
    assert Two(1, y=2).y == 2


def test_a_pattern_binds_the_fields_of_an_object() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("not a point")


def test_a_class_can_be_finished_before_its_first_object() -> None:
    @dataclass
    class Counted:
        count: int = 3

    assert finished(Counted) is Counted
    assert [each.name for each in dataclasses.fields(Counted)] == ["count"]


def test_the_engine_is_imported_without_finishing_most_of_its_classes() -> None:
    start = "import distify_codemods.conversion; from distify_codemods import records; print(len(records._unfinished))"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 90


def test_all_data_classes_of_the_engine_are_finished_late() -> None:
    """One of the standard library's own would not see the fields of a class from which it derives."""
    folder = Path(distify_codemods.__file__).parent
    others = [path.name for path in folder.rglob("*.py") if "from dataclasses import dataclass" in path.read_text()]
    assert sorted(others) == ["records.py", "results.py"]
