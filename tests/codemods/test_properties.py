"""What is found out about a program does not depend on how it is written: layout, names, order, functions, files."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import libcst as cst
from distify_codemods import Conversion, Outcome, SourceFile, convert, facts, interpreter
from distify_codemods import program as programs
from distify_codemods.events import Event
from distify_codemods.facts import Facts
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codemods.programs import (
    ITERATIONS,
    KINDS,
    OPTIMIZERS,
    SHAPES,
    SPLITS,
    Spelling,
    Truth,
    Unit,
    program,
    truth,
)
from tests.codemods.respelled import respelled
from tests.test_renaming import tokens

SEEDS = st.integers(0, 2**32)
UNITS = st.builds(
    Unit,
    models=st.integers(1, 2),
    kind=st.sampled_from(KINDS),
    optimizers=st.sampled_from(OPTIMIZERS),
    iteration=st.sampled_from(ITERATIONS),
    evaluated=st.booleans(),
    saved=st.booleans(),
)
PROGRAMS = st.lists(UNITS, min_size=1, max_size=3)
SPELLINGS = st.builds(Spelling, shape=st.sampled_from(SHAPES), split=st.sampled_from(SPLITS), order=SEEDS)
BOUNDED = settings(max_examples=60, deadline=None, derandomize=True)

#: Names that say something else than what they stand for.
MISLEADING = """
    test_loader val_loader criterion scheduler net model optimizer loss train evaluate args device batch epoch_ dataset
    generator discriminator trainer teacher student metrics history logger writer config
""".split()


def infer(files: dict[str, str]) -> Facts:
    def resolve(importing: str, name: str, level: int) -> SourceFile | None:
        text = files.get(f"{name}.py")
        return None if text is None else SourceFile(f"{name}.py", text.encode())

    loaded = programs.load(SourceFile("train.py", files["train.py"].encode()), resolve)
    assert not loaded.unreadable
    return facts.infer(loaded, interpreter.run(loaded))


def found(program: Facts) -> Truth:
    return Truth(
        models=frozenset(_tag(model.site) for model in program.models),
        optimizers=frozenset(
            (_tag(one.made.node), frozenset(_tag(model.site) for model in one.models)) for one in program.optimizers
        ),
        loaders=frozenset(_tag(loader.site) for loader in program.training_loaders),
        loops=frozenset(
            (
                _tag(loop.node.body),
                frozenset(_tag(loader.site) for loader in loop.loaders),
                loop.trains,
                frozenset(_tag(obj.site) for one in loop.forwards for obj in one.receiver.objs),
            )
            for loop in program.loops
        ),
        saves=frozenset(_tag(event.node) for event in _saves(program)),
    )


def _saves(program: Facts) -> list[Event]:
    return program.calls("torch.save")


def _tag(node: cst.CSTNode | None) -> int:
    assert node is not None
    tags = set(re.findall(r"\b[1-9]\d{3}\b", cst.Module(body=()).code_for_node(node)))
    [tag] = tags
    return int(tag)


class _Renaming(dict[str, str]):
    """Filled as names are asked for."""

    def __init__(self, chance: Random, misleading: bool) -> None:
        super().__init__()
        self.chance, self.waiting = chance, MISLEADING.copy() if misleading else []
        chance.shuffle(self.waiting)

    def __missing__(self, name: str) -> str:
        new = self.waiting.pop() if self.waiting else f"q{len(self)}{self.chance.choice('äωabc')}"
        self[name] = new
        return new


# ---- facts


@BOUNDED
@given(PROGRAMS, SPELLINGS)
def test_facts_do_not_depend_on_shape_order_and_files(units: list[Unit], spelling: Spelling) -> None:
    assert found(infer(program(units, spelling))) == truth(units)


@BOUNDED
@given(PROGRAMS, SPELLINGS, SEEDS)
def test_facts_do_not_depend_on_layout(units: list[Unit], spelling: Spelling, seed: int) -> None:
    files = {path: respelled(text, seed) for path, text in program(units, spelling).items()}
    assert found(infer(files)) == truth(units)


@BOUNDED
@given(PROGRAMS, SPELLINGS, SEEDS, st.booleans())
def test_facts_do_not_depend_on_names(units: list[Unit], spelling: Spelling, seed: int, misleading: bool) -> None:
    names = _Renaming(Random(seed), misleading)
    assert found(infer(program(units, replace(spelling, names=names.__getitem__)))) == truth(units)


# ---- conversions


def conversion_of(source: str) -> Conversion:
    return convert(SourceFile("train.py", source.encode()), lambda importer, name, level: None)


def codes(conversion: Conversion) -> list[tuple[str, str]]:
    return [(one.level.value, one.code) for one in conversion.findings]


@settings(BOUNDED, max_examples=25)
@given(UNITS, SPELLINGS, SEEDS, st.booleans())
def test_renaming_renames_the_conversion(unit: Unit, spelling: Spelling, seed: int, misleading: bool) -> None:
    spelling = replace(spelling, split="none")
    names = _Renaming(Random(seed), misleading)
    before = conversion_of(program([unit], spelling)["train.py"])
    after = conversion_of(program([unit], replace(spelling, names=names.__getitem__))["train.py"])
    assert codes(after) == codes(before)
    assert after.outcome is before.outcome
    for old, new in zip(before.files, after.files, strict=True):
        expected = re.sub(r"\w+", lambda one: names.get(one.group(), one.group()), old.after.decode())
        assert tokens(new.after.decode()) == tokens(expected)


@settings(BOUNDED, max_examples=25)
@given(UNITS, SPELLINGS, SEEDS)
def test_layout_changes_no_outcome(unit: Unit, spelling: Spelling, seed: int) -> None:
    source = program([unit], replace(spelling, split="none"))["train.py"]
    before, after = conversion_of(source), conversion_of(respelled(source, seed))
    assert (after.outcome, codes(after)) == (before.outcome, codes(before))
    for new in after.files:
        compile(new.after, "train_dist.py", "exec", dont_inherit=True)
        assert conversion_of(new.after.decode()).outcome is Outcome.ALREADY_CONVERTED


#: No place to wrap is found yet where the model is an item of a dictionary, or belongs to a function that has ended.
WRAPPED = sorted(set(SHAPES) - {"bag", "closure"})


@settings(BOUNDED, max_examples=25)
@given(UNITS, st.sampled_from(WRAPPED), SEEDS)
def test_one_training_converts(unit: Unit, shape: str, order: int) -> None:
    """The properties above would hold, too, if everything were refused."""
    conversion = conversion_of(program([unit], Spelling(shape, order=order))["train.py"])
    assert conversion.outcome is Outcome.CONVERTED, [one.message for one in conversion.findings]
