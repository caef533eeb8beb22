"""What reads what: on examples, and on programs made by chance, which are run and must do nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from textwrap import indent
from typing import Any

import libcst as cst
import pytest
from distify_codemods import SourceFile, tree
from distify_codemods.program import Module, load


def module_of(source: str) -> Module:
    return load(SourceFile("train.py", source.encode()), lambda *given: None).entry


def loop_of(module: Module) -> cst.For | cst.While:
    """The first loop over `test`, or a `while` that asks for it."""
    for node in tree.walk(module.tree):
        if isinstance(node, (cst.For, cst.While)):
            over = node.iter if isinstance(node, cst.For) else node.test
            if tree.code_of(over).startswith("test"):
                return node
    raise AssertionError("no such loop")


def reads_after(source: str) -> list[int]:
    """The lines in which `guess` is read with the value that it has after the loop over `test`."""
    module = module_of(source)
    loop = loop_of(module)
    found = module.flow(loop).reads_after(loop, "guess")
    return sorted({module.place(node).line for node in found})


LOOP = "for x in test:\n    guess = x\n"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (LOOP + "print(guess)\n", [3]),
        ("while test():\n    guess = 1\nprint(guess)\n", [3]),
        (LOOP + "guess += 1\n", [3]),
        (LOOP + "guess.x = 1\n", [3]),
        (LOOP + "guess[0] = 1\n", [3]),
        (LOOP + "print(f'{guess}')\n", [3]),
        (LOOP + "[guess for x in y]\n", [3]),
        (LOOP + "[x for x in guess]\n", [3]),
        (LOOP + "if a:\n    guess = 1\nprint(guess)\n", [5]),  # not always bound anew
        (LOOP + "for guess in []:\n    pass\nprint(guess)\n", [5]),
        (LOOP + "try:\n    guess = f()\nexcept E:\n    print(guess)\n", [6]),
        (LOOP + "try:\n    guess = f()\nfinally:\n    print(guess)\n", [6]),
        (LOOP + "while a:\n    if b:\n        break\n    guess = 1\nelse:\n    guess = 2\nprint(guess)\n", [9]),
        (LOOP + "a and (guess := 1)\nprint(guess)\n", [4]),
        (LOOP + "match a:\n    case guess:\n        pass\nprint(guess)\n", [6]),
        (LOOP + "print(locals())\n", [3]),
        (LOOP + "print(vars())\n", [3]),
        (LOOP + "del guess.x\n", [3]),
        # the next turn of a loop around it
        ("for e in es:\n    print(guess)\n    for x in test:\n        guess = x\n", [2]),
        ("while e:\n    print(guess)\n    for x in test:\n        guess = x\n", [2]),
        ("while f(guess):\n    for x in test:\n        guess = x\n", [1]),
        ("for e in es:\n    for f in fs:\n        print(guess)\n    for x in test:\n        guess = x\n", [3]),
        ("for e in es:\n    print(guess)\n    for x in test:\n        guess = x\n        break\n", [2]),
        ("for e in es:\n    for x in test:\n        f(guess)\n        guess = x\n", [3]),  # begun once more
        # functions that see the name
        ("def f():\n    print(guess)\n\n\n" + LOOP + "f()\n", [2]),
        ("f = lambda: guess\n" + LOOP, [1]),
        ("class A:\n    def f(self):\n        return guess\n\n\n" + LOOP, [3]),
        ("def f():\n    global guess\n    for x in test:\n        guess = x\n", [2]),  # whoever else reads it
        ("def f():\n    guess = 0\n    def g():\n        nonlocal guess\n" + indent(LOOP, " " * 8), [4]),
    ],
)  # fmt: skip
def test_read_after_a_loop(source: str, lines: list[int]) -> None:
    assert reads_after(source) == lines


@pytest.mark.parametrize(
    "source",
    [
        LOOP,
        LOOP + "guess = 1\nprint(guess)\n",
        LOOP + "del guess\nprint(guess)\n",
        LOOP + "if a:\n    guess = 1\nelse:\n    guess = 2\nprint(guess)\n",
        LOOP + "with open(f) as guess:\n    print(guess)\n",
        LOOP + "import guess\nprint(guess)\n",
        LOOP + "import guess.x\nprint(guess)\n",
        LOOP + "from a import b as guess\nprint(guess)\n",
        LOOP + "def guess():\n    pass\n\n\nprint(guess)\n",
        LOOP + "(guess, a), *b = f()\nprint(guess)\n",
        LOOP + "for guess in f():\n    print(guess)\n",
        LOOP + "try:\n    f()\nexcept E as guess:\n    print(guess)\n",
        LOOP + "try:\n    guess = f()\nexcept E:\n    raise\nprint(guess)\n",
        LOOP + "try:\n    pass\nfinally:\n    guess = 1\nprint(guess)\n",
        LOOP + "[guess for guess in y]\n",
        LOOP + "[a for guess in y for a in guess if guess]\n",
        LOOP + "print(x.guess)\n",
        LOOP + "f(guess=1)\n",
        LOOP + "vars(args)\n",
        LOOP + "f(lambda guess: guess)\n",
        LOOP + "def f(guess):\n    return guess\n",
        LOOP + "def f():\n    guess = 1\n    return guess\n",
        LOOP + "def f():\n    for guess in y:\n        print(guess)\n",
        LOOP + "class A:\n    guess = 1\n    a = guess\n",
        "if a:\n    for x in test:\n        guess = x\nelse:\n    print(guess)\n",
        "def f():\n    for x in test:\n        guess = x\n    return\n\n\nprint(guess)\n",
        "for e in es:\n    guess = 0\n    print(guess)\n    for x in test:\n        guess = x\n",
        "for e in es:\n    for x in test:\n        guess = x\n        f(guess)\n",
        "for e in es:\n    for x in test:\n        guess = x\n    break\n    print(guess)\n",
        "print(guess)\n" + LOOP,
    ],
)
def test_not_read_after_a_loop(source: str) -> None:
    assert not reads_after(source)


# ---- what a run does is foretold


class _Writer:
    """Writes a function by chance, in which each binding and each reading of `x` or `y` has a number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0

    def function(self) -> str:
        return "def program():\n" + self.block(1, False, 4)

    def block(self, depth: int, in_loop: bool, length: int) -> str:
        count = self.random.randint(1, length)
        return "".join(self.statement(depth, in_loop) for _ in range(count))

    def statement(self, depth: int, in_loop: bool) -> str:
        self.number += 1
        pad, name, number = "    " * depth, self.random.choice("xy"), self.number
        plain = [f"{name} = {number}", f"read({number}, {name})", f"read({number}, {name})", f"del {name}"]
        plain += [f"may_fail()\n{pad}{name} = {number}", f"c() and ({name} := {number})"]
        if in_loop:
            plain += ["if c(): break", "if c(): continue", "break"]
        plain += ["if c(): return", "if c(): raise KeyError"]
        if depth > 4 or self.random.random() < 0.5:
            return f"{pad}{self.random.choice(plain)}\n"
        head, *rest = self.random.choice(_COMPOUND)
        parts = [head.format(name=name, number=number), *rest]
        loops = head.startswith(("for", "while"))
        inner = [
            self.block(depth + 1, (in_loop or loops) if one != "else:" or not loops else in_loop, 3) for one in parts
        ]
        return "".join(f"{pad}{part}\n{body}" for part, body in zip(parts, inner, strict=True))


_COMPOUND = [
    ("if c():",), ("if c():", "else:"), ("while c():",), ("while c():", "else:"), ("for {name} in items({number}):",),
    ("for {name} in items({number}):", "else:"), ("try:", "except KeyError:"), ("try:", "finally:"),
    ("try:", "except KeyError:", "else:", "finally:"), ("with manager({number}) as {name}:",),
]  # fmt: skip


class _Manager:
    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> int:
        return self.number

    def __exit__(self, *given: object) -> None:
        pass


def observed(source: str, seed: int) -> set[tuple[int, int]]:
    """The number of each reading and of the binding that it saw, in a few runs."""
    seen: set[tuple[int, int]] = set()
    for turn in range(30):
        dice, steps = random.Random(f"{seed} {turn}"), [0]

        def choose(chance: float = 0.5, dice: random.Random = dice, steps: list[int] = steps) -> bool:
            steps[0] += 1
            return dice.random() < chance and steps[0] < 200

        def may_fail(choose: Callable[[float], bool] = choose) -> None:
            if choose(0.3):
                raise KeyError

        names: dict[str, Any] = {
            "c": choose, "may_fail": may_fail, "manager": _Manager, "read": lambda *pair: seen.add(pair),
            "items": lambda number, dice=dice: [number] * dice.randint(0, 2),
        }  # fmt: skip
        exec(source, names)
        with suppress(KeyError, NameError):
            names["program"]()
    return seen


@pytest.mark.parametrize("seed", range(150))
def test_what_a_run_reads_is_foretold(seed: int) -> None:
    source = _Writer(seed).function()
    module = module_of(source)
    reads: dict[int, cst.CSTNode] = {}
    for node in tree.walk(module.tree):
        if isinstance(node, cst.Call) and tree.code_of(node.func) == "read":
            reads[int(tree.code_of(node.args[0].value))] = node.args[1].value
    for read, bound in observed(source, seed):
        node = reads[read]
        lines = source.splitlines()
        texts = [lines[module.place(one).line - 1] for one in module.flow(node).reaching(node)]
        assert any(
            str(bound) in text.replace(":", " ").replace("(", " ").replace(")", " ").split() for text in texts
        ), f"{read} reads {bound}\n{source}"


# ---- the other questions


def test_each_place_is_named_once() -> None:
    """What is under `finally` comes by two ways."""
    module = module_of("try:\n    f()\nfinally:\n    x = x + [y for y in x]\n")
    flow = module.flow(module.tree.body[0])
    assert (len(flow.reads(module.tree, "x")), len(flow.bindings(module.tree, "x"))) == (2, 1)


def named(module: Module, text: str) -> cst.CSTNode:
    """The first statement that is spelled so."""
    for node in tree.walk(module.tree):
        if isinstance(node, cst.BaseSmallStatement) and tree.code_of(node) == text:
            return module.statement(node)
    raise AssertionError(text)


@pytest.mark.parametrize(
    ("source", "bound"),
    [
        ("x = 1\nhere()\n", True),
        ("def f(x):\n    here()\n", True),
        ("import x\nhere()\n", True),
        ("def x():\n    pass\n\n\nhere()\n", True),
        ("if a:\n    x = 1\nhere()\n", True),  # there is a way
        ("for x in y:\n    here()\n", True),
        ("while a:\n    x = 1\nhere()\n", True),
        ("try:\n    x = f()\nexcept E:\n    here()\n", True),
        ("here()\nx = 1\n", False),
        ("if a:\n    x = 1\nelse:\n    here()\n", False),
        ("if a:\n    x = 1\n    raise E\nhere()\n", False),
        ("x = 1\ndel x\nhere()\n", False),
        ("for y in z:\n    here()\n    x = 1\n", False),  # not in the first turn
        ("try:\n    pass\nexcept E as x:\n    pass\nhere()\n", False),
        ("[x for x in y]\nhere()\n", False),
        ("f(lambda x: x)\nhere()\n", False),
        ("def f():\n    x = 1\n\n\nhere()\n", False),
        ("x.y = 1\nhere()\n", False),
    ],
)
def test_bound_before(source: str, bound: bool) -> None:
    module = module_of(source)
    here = named(module, "here()")
    assert module.flow(here).is_bound_before(here, "x") is bound


@pytest.mark.parametrize(
    ("source", "may_be"),
    [
        ("if a:\n    net = 1\nlast()\n", True),
        ("if a:\n    net = 1\nprint(net)\nlast()\n", False),  # it ends there if there is none
        ("if a:\n    net = 1\nif b:\n    print(net)\nlast()\n", True),
        ("if a:\n    net = 1\nelse:\n    net.x = 2\nlast()\n", False),
        ("if a:\n    net = 1\ntry:\n    net\nexcept NameError:\n    pass\nlast()\n", True),
        ("if a:\n    net = 1\nwith suppress(NameError):\n    print(net)\nlast()\n", True),
        ("if a:\n    net = 1\ndef f():\n    net\nlast()\n", True),
        ("if a:\n    net = 1\nx = net if b else None\nlast()\n", True),
        ("if a:\n    net = 1\nx = b and net\nlast()\n", True),
        ("if a:\n    net = 1\nx = [net for y in z]\nlast()\n", True),
    ],
)
def test_may_be_unbound(source: str, may_be: bool) -> None:
    module = module_of(source)
    last = next(one for one in module.tree.body if tree.code_of(one).strip() == "last()")
    assert module.flow(last).may_be_unbound(last, "net") is may_be


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("here()\nx = 1\nself.net = f()\nthere()\nz = 1\n", {"x", "self.net"}),
        ("x = 1\nhere()\nthere()\n", set()),
        ("here()\nif a:\n    x = 1\nelse:\n    there()\n", set()),
        ("for e in es:\n    here()\n    there()\n    x = 1\n", set()),
        ("here()\nfor e in es:\n    f()\nthere()\n", {"e"}),
    ],
)
def test_set_between(source: str, names: set[str]) -> None:
    module = module_of(source)
    here = named(module, "here()")
    assert module.flow(here).set_between(here, named(module, "there()")) == names


@pytest.mark.parametrize(
    ("source", "follows", "in_the_same_turn"),
    [
        ("here()\nthere()\n", True, True),
        ("there()\nhere()\n", False, False),
        ("if a:\n    here()\nelse:\n    there()\n", False, False),
        ("for e in es:\n    there()\n    here()\n", True, False),
        ("for e in es:\n    here()\nthere()\n", True, True),
        ("for e in es:\n    if a:\n        here()\n        break\nelse:\n    there()\n", False, False),
        ("for e in es:\n    there()\n    here()\n    break\n", False, False),
        ("try:\n    here()\nexcept E:\n    there()\n", True, True),
    ],
)
def test_follows(source: str, follows: bool, in_the_same_turn: bool) -> None:
    module = module_of(source)
    here, there = named(module, "here()"), named(module, "there()")
    flow = module.flow(here)
    assert flow.follows(here, there) is follows
    assert flow.follows(here, there, turns=False) is in_the_same_turn
