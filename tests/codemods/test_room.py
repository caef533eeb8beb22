"""Programs that are deeper than Python's own limit, and what a conversion leaves behind."""

from __future__ import annotations

import gc
import sys

import pytest
from distify_codemods import Outcome, SourceError, SourceFile, convert

from tests.rules.scripts import script


def none(importing: str, name: str, level: int) -> SourceFile | None:
    return None


def test_a_long_sum_is_followed_and_rewritten() -> None:
    source = script(setup=f"total = {' + '.join('1' for _ in range(600))}\n")
    conversion = convert(SourceFile("train.py", source.encode()), none)
    assert conversion.outcome is Outcome.CONVERTED
    [new] = conversion.files
    assert b" + ".join([b"1"] * 600) in new.after


def test_a_long_chain_of_imports_is_followed() -> None:
    def chain(importing: str, name: str, level: int) -> SourceFile | None:
        if not name.startswith("part"):
            return None
        number = int(name.removeprefix("part"))
        text = (
            f"from part{number + 1} import model\n"
            if number < 250
            else "from torch import nn\nmodel = nn.Linear(4, 1)\n"
        )
        return SourceFile(f"{name}.py", text.encode())

    source = script(model="from part0 import model\n")
    conversion = convert(SourceFile("train.py", source.encode()), chain)
    assert conversion.outcome is Outcome.CONVERTED
    assert b"model = DistributedDataParallel(model" in conversion.files[0].after


def test_what_is_deeper_than_that_is_one_clear_error() -> None:
    source = script(setup=f"total = {' + '.join('1' for _ in range(4000))}\n")
    with pytest.raises(SourceError, match="too deeply"):
        convert(SourceFile("train.py", source.encode()), none)


DEEP = {
    "parentheses": f"x = {'(' * 2000}1{')' * 2000}",
    "parentheses that nobody closes": "x = " + "(" * 2000,
    "lists": f"x = {'[' * 2000}{']' * 2000}",
    "calls, a line each": "x = " + "print(\n" * 2000 + ")" * 2000,
    "tables in calls": f"x = {'print({1: [' * 200}{']})' * 200}",
    "a sum": "x = " + "+".join(["x"] * 8000),
    "a sum over lines": "x = (" + "\n+ ".join(["x"] * 8000) + ")",
    "a sum over continued lines": "x = " + " \\\n+ ".join(["x"] * 8000),
    "a sum in what is computed within a string": 'x = f"{' + "+".join(["x"] * 8000) + '}"',
    "a sum of strings": "x = " + " + ".join(["'a, )'"] * 8000),
    "strings side by side": "x = (" + "\n".join(["'a'"] * 8000) + ")",
    "both of two": "x = " + " and ".join(["x"] * 8000),
    "powers": "x = " + "**".join(["x"] * 8000),
    "negations": f"x = {'not ' * 8000}1",
    "functions of functions": f"x = {'lambda: ' * 8000}1",
    "choices": f"x = {'1 if x else ' * 8000}1",
    "attributes": "x = torch" + ".x" * 8000,
    "calls of what was returned": "x = ''" + ".strip()" * 8000,
    "items of items": "x = {}" + "[0]" * 8000,
}


@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP)
def test_what_the_parser_would_crash_on_is_one_clear_error(deep: str) -> None:
    with pytest.raises(SourceError, match=r"^train\.py:\d+:1: nests (brackets|operators) too deeply to be parsed$"):
        convert(SourceFile("train.py", f"{script()}\n{deep}\n".encode()), none)


FLAT = {
    "a long list": f"x = [{', '.join(['-1.5'] * 9000)}]",
    "a long table": "x = {" + ",\n".join(f"'a)(': ({number} + 1, [2])" for number in range(1500)) + "}",
    "a string of brackets": f"x = '{'(' * 5000}'",
    "a text of brackets": f"x = '''\n{'([{' * 2000}\n'''",
    "brackets in a comment": f"x = 1  # {'(' * 5000}",
    "many calls": "\n".join(["print(len('(('))"] * 400),
    "a chain of tests": "if torch.e == 0:\n    pass\n" + "\n".join(
        f"elif torch.e == {number}:\n    pass" for number in range(200)
    ),
    "as many brackets as Python takes": f"x = {'(' * 200}1{')' * 200}",
}  # fmt: skip


@pytest.mark.parametrize("flat", FLAT.values(), ids=FLAT)
def test_what_is_long_and_not_deep_is_converted(flat: str) -> None:
    converted = convert(SourceFile("train.py", script(setup=f"{flat}\n").encode()), none)
    assert converted.outcome is Outcome.CONVERTED


def test_limits_are_put_back() -> None:
    before = gc.get_threshold(), sys.getrecursionlimit()
    convert(SourceFile("train.py", script().encode()), none)
    with pytest.raises(SourceError):
        convert(SourceFile("train.py", b"("), none)
    assert (gc.get_threshold(), sys.getrecursionlimit()) == before


OVERRIDES = """
import sys


class Part:
    def __init__(self):
        self.width = 8


class Config:
    def __init__(self):
        self.out, self.part = "runs", Part()


def overridden(words):
    config = Config()
    for word in words:
        key, value = word.split("=")
        node = config
        for step in key.split(".")[:-1]:
            node = getattr(node, step)
        last = key.split(".")[-1]
        setattr(node, last, type(getattr(node, last))(value))
    return config


config = overridden(sys.argv[1:])
print(config.out.upper())
"""


def test_settings_of_objects_under_names_that_are_not_known_may_hold_themselves() -> None:
    assert convert(SourceFile("train.py", script(setup=OVERRIDES).encode()), none).outcome is Outcome.CONVERTED
