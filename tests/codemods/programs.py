"""Training programs of known content, each in many spellings: what the property tests draw.

A `Unit` says what a program trains; a `Spelling` says how that is written. Whatever is allocated, every loop and every
checkpoint carries a four-digit number of its own, a *tag*, that no spelling changes: facts are compared by tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

Ref: TypeAlias = Callable[[str], str]

HEAD = """\
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm
"""
KINDS = ("linear", "sequential", "own")
OPTIMIZERS = ("each", "joint", "groups")
ITERATIONS = ("plain", "numbered", "bar")
SHAPES = ("flat", "function", "helpers", "trainer", "injected", "bag", "closure", "flag")
SPLITS = ("none", "names", "star", "module")


@dataclass(frozen=True)
class Unit:
    """One training: its models, what steps them, and what happens besides."""

    models: int = 1
    kind: str = "linear"
    optimizers: str = "each"
    iteration: str = "plain"
    evaluated: bool = False
    saved: bool = False


@dataclass(frozen=True)
class Spelling:
    shape: str = "flat"
    split: str = "none"  # how definitions are imported from another file
    order: int = 0  # of what does not depend on one another
    names: Callable[[str], str] = field(default=str)


@dataclass(frozen=True)
class Truth:
    """What must be found, by tags."""

    models: frozenset[int]
    optimizers: frozenset[tuple[int, frozenset[int]]]  # with their models
    loaders: frozenset[int]  # that train
    loops: frozenset[tuple[int, frozenset[int], bool, frozenset[int]]]  # loaders, trains?, models called
    saves: frozenset[int]


def program(units: list[Unit], spelling: Spelling) -> dict[str, str]:
    """The files of a program that does all of this one after the other; the entry is `train.py`."""
    files = {"train.py": HEAD}
    for number, unit in enumerate(units):
        definitions, body = _Writer(unit, number, spelling).written()
        if spelling.split == "none" or not definitions:
            files["train.py"] += definitions + body
            continue
        module = spelling.names(f"parts{number}")
        files[f"{module}.py"] = HEAD + definitions
        named = [line.split("(")[0].split(":")[0].split()[1] for line in definitions.splitlines() if _defines(line)]
        lines = {"names": f"from {module} import {', '.join(named)}", "star": f"from {module} import *"}
        files["train.py"] += lines.get(spelling.split, f"import {module}") + "\n"
        files["train.py"] += _qualified(body, module, named) if spelling.split == "module" else body
    return files


def _defines(line: str) -> bool:
    return line.startswith(("def ", "class "))


def _qualified(body: str, module: str, named: Iterable[str]) -> str:
    for name in named:
        body = body.replace(f"{name}(", f"{module}.{name}(")
    return body


def truth(units: list[Unit]) -> Truth:
    models, optimizers, loaders, loops, saves = [], [], [], [], []
    for number, unit in enumerate(units):
        tags = _Tags(number)
        own = [tags.model(at) for at in range(unit.models)]
        models += own
        if unit.optimizers == "each":
            optimizers += [(tags.optimizer(at), frozenset({tag})) for at, tag in enumerate(own)]
        else:
            optimizers.append((tags.optimizer(0), frozenset(own)))
        loaders.append(tags.loader)
        loops.append((tags.loop, frozenset({tags.loader}), True, frozenset(own)))
        if unit.evaluated:
            loops.append((tags.evaluation, frozenset({tags.other_loader}), False, frozenset(own[:1])))
        if unit.saved:
            saves.append(tags.save)
    return Truth(frozenset(models), frozenset(optimizers), frozenset(loaders), frozenset(loops), frozenset(saves))


@dataclass(frozen=True)
class _Tags:
    number: int

    def _tag(self, place: int) -> int:
        return 1000 + 100 * self.number + place

    def model(self, at: int) -> int:
        return self._tag(10 + at)

    def optimizer(self, at: int) -> int:
        return self._tag(20 + at)

    loader = property(lambda self: self._tag(30))
    other_loader = property(lambda self: self._tag(31))
    loop = property(lambda self: self._tag(40))
    evaluation = property(lambda self: self._tag(41))
    save = property(lambda self: self._tag(50))


def indented(text: str, by: str = "    ") -> str:
    return "".join(f"{by}{line}" if line.strip() else line for line in text.splitlines(keepends=True))


class _Writer:
    def __init__(self, unit: Unit, number: int, spelling: Spelling) -> None:
        self.unit, self.tags = unit, _Tags(number)
        self.spelling, self.chance = spelling, Random(spelling.order)
        self.name: Ref = lambda key: spelling.names(f"{key}{number}")

    def written(self) -> tuple[str, str]:
        """Definitions, and what runs at module level."""
        definitions, body = getattr(self, f"_{self.spelling.shape}")()
        return self._model_class() + definitions, body

    # ---- parts; `ref` spells a thing that the program made

    def _model_class(self) -> str:
        if self.unit.kind != "own":
            return ""
        cls, layer, own, x = map(self.name, ("Net", "layer", "own", "x"))
        return (
            f"class {cls}(nn.Module):\n    def __init__({own}, width):\n        super().__init__()\n"
            f"        {own}.{layer} = nn.Linear(width, 1)\n"
            f"    def forward({own}, {x}):\n        return {own}.{layer}({x})\n"
        )

    def _keys(self) -> list[str]:
        """What the program makes, in an order that could run."""
        models, optimizers = self._models(), self._optimizers()
        loaders = ["loader", "held"] if self.unit.evaluated else ["loader"]
        waiting = [*models, *optimizers, *loaders]
        self.chance.shuffle(waiting)
        done: list[str] = []
        while waiting:
            key = next(key for key in waiting if key not in optimizers or set(models) <= set(done))
            waiting.remove(key)
            done.append(key)
        return done

    def _models(self) -> list[str]:
        return [f"net{at}_" for at in range(self.unit.models)]

    def _optimizers(self) -> list[str]:
        return [f"opt{at}_" for at in range(self.unit.models if self.unit.optimizers == "each" else 1)]

    def _made(self, key: str, ref: Ref) -> str:
        """The expression that makes a thing."""
        if key in ("loader", "held"):
            tag, shuffle = (self.tags.loader, True) if key == "loader" else (self.tags.other_loader, False)
            data = "TensorDataset(torch.randn(64, 4), torch.randn(64, 1))"
            return f"DataLoader({data}, batch_size={tag}, shuffle={shuffle})"
        at = int(key[3])
        if key.startswith("net"):
            tag = self.tags.model(at)
            linear = f"nn.Linear({tag}, 1)"
            kinds = {"linear": linear, "sequential": f"nn.Sequential({linear}, nn.ReLU())"}
            return kinds.get(self.unit.kind, f"{self.name('Net')}({tag})")
        given = f"{ref(self._models()[at])}.parameters()"
        if self.unit.optimizers == "joint":
            given = " + ".join(f"list({ref(model)}.parameters())" for model in self._models())
        elif self.unit.optimizers == "groups":
            groups = [f'{{"params": {ref(model)}.parameters()}}' for model in self._models()]
            given = f"[{', '.join(groups)}]"
        return f"optim.SGD({given}, lr={self.tags.optimizer(at)})"

    def _setup(self, ref: Ref) -> str:
        return "".join(f"{ref(key)} = {self._made(key, ref)}\n" for key in self._keys())

    def _training(self, ref: Ref) -> str:
        x, y, loss, epoch, step = map(self.name, ("x", "y", "loss", "epoch", "step"))
        over, target = {
            "plain": (ref("loader"), f"{x}, {y}"),
            "numbered": (f"enumerate({ref('loader')})", f"{step}, ({x}, {y})"),
            "bar": (f"tqdm({ref('loader')})", f"{x}, {y}"),
        }[self.unit.iteration]
        forward = " + ".join(f"{ref(model)}({x})" for model in self._models())
        body = f"{self.name('seen')} = {self.tags.loop}\n{loss} = F.mse_loss({forward}, {y})\n"
        body += "".join(f"{ref(one)}.zero_grad()\n" for one in self._optimizers())
        body += f"{loss}.backward()\n" + "".join(f"{ref(one)}.step()\n" for one in self._optimizers())
        return f"for {epoch} in range(2):\n    for {target} in {over}:\n{indented(body, ' ' * 8)}"

    def _evaluation(self, ref: Ref) -> str:
        if not self.unit.evaluated:
            return ""
        x, y, total, model = self.name("x"), self.name("y"), self.name("total"), ref(self._models()[0])
        return (
            f"{model}.eval()\n{total} = 0\nwith torch.no_grad():\n    for {x}, {y} in {ref('held')}:\n"
            f"        {self.name('seen')} = {self.tags.evaluation}\n"
            f'        {total} += F.mse_loss({model}({x}), {y}, reduction="sum").item()\n'
            f"print({total} / len({ref('held')}.dataset))\n"
        )

    def _saving(self, ref: Ref) -> str:
        model = ref(self._models()[0])
        return f'torch.save({model}.state_dict(), "{self.tags.save}.pt")\n' if self.unit.saved else ""

    def _rest(self, ref: Ref) -> str:
        return self._training(ref) + self._evaluation(ref) + self._saving(ref)

    # ---- shapes

    def _flat(self) -> tuple[str, str]:
        return "", self._setup(self.name) + self._rest(self.name)

    def _function(self) -> tuple[str, str]:
        main = self.name("main")
        return f"def {main}():\n{indented(self._setup(self.name) + self._rest(self.name))}", f"{main}()\n"

    def _helpers(self) -> tuple[str, str]:
        """A function that makes each thing, and one for each thing done, with keywords or without."""
        definitions, body, made = "", "", []
        for key in self._keys():
            make = self.name(f"make_{key}")
            needs = self._models() if key in self._optimizers() else []
            given = ", ".join(map(self.name, needs))
            definitions += f"def {make}({given}):\n    return {self._made(key, self.name)}\n"
            keywords = ", ".join(f"{self.name(one)}={self.name(one)}" for one in reversed(needs))
            body += f"{self.name(key)} = {make}({keywords if self.chance.random() < 0.5 else given})\n"
            made.append(self.name(key))
        for verb, text in (("train", self._training), ("test", self._evaluation), ("keep", self._saving)):
            if text(self.name):
                function = self.name(verb)
                definitions += f"def {function}({', '.join(made)}):\n{indented(text(self.name))}"
                body += f"{function}({', '.join(made)})\n"
        return definitions, body

    def _trainer(self, given: list[str] | None = None) -> tuple[str, str]:
        own, cls, run, prepare = map(self.name, ("own", "Trainer", "run", "prepare"))

        def ref(key: str) -> str:
            return f"{own}.{self.name(key)}"

        parameters = "".join(f", {self.name(key)}" for key in given or ())
        setup = self._setup(ref) if given is None else "".join(f"{ref(key)} = {self.name(key)}\n" for key in given)
        began = f"{own}.{prepare}()\n" if given is None else setup
        text = f"class {cls}:\n    def __init__({own}{parameters}):\n{indented(began, ' ' * 8)}"
        if given is None:
            text += f"    def {prepare}({own}):\n{indented(setup, ' ' * 8)}"
        text += f"    def {run}({own}):\n{indented(self._rest(ref), ' ' * 8)}"
        return text, f"{cls}({', '.join(map(self.name, given or ()))}).{run}()\n"

    def _injected(self) -> tuple[str, str]:
        definitions, body = self._trainer(self._keys())
        return definitions, self._setup(self.name) + body

    def _bag(self) -> tuple[str, str]:
        """Everything in one dictionary, which is handed around."""
        bag, run = self.name("bag"), self.name("run")

        def ref(key: str) -> str:
            return f'{bag}["{key}"]'

        return f"def {run}({bag}):\n{indented(self._rest(ref))}", f"{bag} = {{}}\n{self._setup(ref)}{run}({bag})\n"

    def _closure(self) -> tuple[str, str]:
        outer, inner = self.name("outer"), self.name("inner")
        text = self._setup(self.name) + f"def {inner}():\n{indented(self._rest(self.name))}return {inner}\n"
        return f"def {outer}():\n{indented(text)}", f"{outer}()()\n"

    def _flag(self) -> tuple[str, str]:
        """Training under a test whose outcome is not known."""
        text = self._setup(self.name) + f"if torch.rand(1) < 2:\n{indented(self._rest(self.name))}"
        return f"def {self.name('main')}():\n{indented(text)}", f"{self.name('main')}()\n"
