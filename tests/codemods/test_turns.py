"""Loops over a few known items are followed turn by turn, and a branch is decided only where nothing else can be."""

from __future__ import annotations

import pytest
from distify_codemods.allocation import Const
from distify_codemods.events import Kind
from distify_codemods.facts import Facts

from tests.codemods.test_inference import infer, only


def printed(found: Facts) -> list[object]:
    """What each print gets first, by the order of events."""
    return [event.arguments.positional[0].constant() for event in found.of_kind(Kind.PRINT)]


@pytest.mark.parametrize(
    "loop",
    [
        "for x in ['a', 'b']:\n    print(x)\n",
        "for x in {'a': 1, 'b': 2}:\n    print(x)\n",
        "for x, y in {'a': 1, 'b': 2}.items():\n    print(x)\n",
        "for x, y in zip(('a', 'b'), (1, 2)):\n    print(x)\n",
        "for i, x in enumerate(['a', 'b']):\n    print(x)\n",
        "[print(x) for x in ['a', 'b']]\n",
        "def f(x):\n    print(x)\n\n\nfor x in ['a', 'b']:\n    f(x)\n",
        "names = {}\nfor x in ['a', 'b']:\n    names[x] = 1\nfor x in names:\n    print(x)\n",
    ],
)
def test_each_turn_is_a_context_of_its_own(loop: str) -> None:
    assert printed(infer(loop)) == ["a", "b"]


def test_names_flow_from_turn_to_turn() -> None:
    found = infer("last = 'none'\nfor x in ['a', 'b']:\n    print(last)\n    last = x\nprint(last)\n")
    assert printed(found) == ["none", "a", "b"]


def test_a_turn_that_is_left() -> None:
    body = "    for y in ['a', 'b']:\n        if x > 0:\n            continue\n        print(y)\n"
    assert printed(infer(f"def f(x):\n{body}\n\nf(input())\n")) == ["a", "b"]
    assert printed(infer("def f():\n    for y in ['a', 'b']:\n        print(y)\n        return\n\n\nf()\n")) == ["a"]


@pytest.mark.parametrize("items", ["[input()] * 2", "open('x')", "list(range(9))", "[1, 2, 3, 4, 5, 6, 7, 8, 9]"])
def test_what_is_not_known_or_long_is_taken_as_one(items: str) -> None:
    assert len(infer(f"for x in {items}:\n    print(x)\n").of_kind(Kind.PRINT)) == 1


# ---- branches


@pytest.mark.parametrize(
    ("setup", "test"),
    [
        ("x = None\n", "x is None"),
        ("x = None\n", "not x"),
        ("x = 'a'\n", "x == 'a'"),
        ("x = 'a'\n", "x in ('a', 'b')"),
        ("x = 'c'\n", "x not in ['a', 'b']"),
        ("x = True\n", "x is not False"),
        ("def x(): pass\n", "x is not None"),
    ],
)
def test_decided_branch(setup: str, test: str) -> None:
    found = infer(f"{setup}if {test}:\n    print('yes')\nelse:\n    print('no')\n")
    assert printed(found) == ["yes"]
    assert not only(found.of_kind(Kind.PRINT)).here.conditions()


@pytest.mark.parametrize(
    "script",
    [
        "x = False\nfor i in range(3):\n    if x:\n        print('yes')\n    x = input() == 'y'\n",
        "x = None\nfor i in range(3):\n    if x is not None:\n        print('yes')\n    x = float(input())\n",
        "x = None\nwhile input():\n    if x:\n        print('yes')\n    x = 'set'\n",
        "class A:\n    def __init__(self):\n        self.x = None\n    def __call__(self, y):\n"
        "        if self.x is not None:\n            print('yes')\n        self.x = y\n\n\n"
        "a = A()\nfor i in range(3):\n    a(float(input()))\n",
        "x = None\ndef f():\n    global x\n    if x is not None:\n        print('yes')\n    x = float(input())\n\n\n"
        "for i in range(3):\n    f()\n",
        "t = {'x': None}\nfor i in range(3):\n    if t['x']:\n        print('yes')\n    t['x'] = float(input())\n",
    ],
)
def test_what_changes_in_a_later_turn_is_not_decided(script: str) -> None:
    """The branch is taken, and what happens in it does not always happen."""
    found = infer(script)
    assert printed(found) == ["yes"]
    assert only(found.of_kind(Kind.PRINT)).here.conditions()


def test_a_default_is_what_a_method_gets() -> None:
    script = "class A:\n    def f(self, x='a'):\n        print(x)\n\n\nA().f()\n"
    assert printed(infer(script)) == ["a"]


def test_gradients_by_a_flag() -> None:
    script = """\
import torch


def f(train):
    with torch.set_grad_enabled(train):
        print(train)


f(True)
f(False)
f(input())
"""
    assert [event.grad for event in infer(script).of_kind(Kind.PRINT)] == [True, False, True]


def test_objects_made_alike_by_a_function_are_two() -> None:
    script = "import torch\n\n\ndef make():\n    return torch.nn.Linear(2, 2)\n\n\na = make()\nb = make()\n"
    env = infer(script).run.frames.popitem()[1].env
    assert env["a"].single() is not env["b"].single()
    assert not isinstance(env["a"].single(), Const)


NAMES = """\
import argparse


class Config:
    def __init__(self, args):
        for name, value in vars(args).items():
            {sets}


parser = argparse.ArgumentParser()
{options}
config = Config(parser.parse_args())
print(config.option_7)
"""
OPTIONS = "".join(f"parser.add_argument('--option_{number}', default='value {number}')\n" for number in range(20))


@pytest.mark.parametrize("sets", ["setattr(self, name, value)", "self.__setattr__(name, value)"])
def test_attributes_that_are_set_by_their_names(sets: str) -> None:
    """However many there are: each holds what it was given, and nothing that another was."""
    found = infer(NAMES.format(sets=sets, options=OPTIONS))
    [option] = [event.arguments.positional[0] for event in found.of_kind(Kind.PRINT)]
    assert [str(obj) for obj in option.objs] == ["Setting option_7"]
