"""What is known of all that a value may be, is kept with it, and is right however the value came about."""

from __future__ import annotations

import pytest
from distify_codemods.allocation import Const, Obj
from distify_codemods.ordered import Ordered
from distify_codemods.values import NOTHING, Value, join


def _literal(value: object) -> Value:
    return Value(Const(None, value=value).alone)


_THING = Value(Obj(None).alone)


@pytest.mark.parametrize(
    ("values", "constant", "literals"),
    [
        ([_literal(3), _literal(3)], 3, True),
        ([_literal(3), _literal(4), _literal(3)], None, True),
        ([_literal(1), _literal(True)], None, True),
        ([_literal("a"), _THING], None, False),
        ([_THING, _THING], None, False),
        ([], None, False),
    ],
)
@pytest.mark.parametrize("asked", [False, True])
def test_what_all_are(values: list[Value], constant: object, literals: bool, asked: bool) -> None:
    whole = NOTHING
    for value in values:
        whole = join(whole, value)
        if asked:
            whole.constant()
    assert whole.constant() == constant
    assert whole.are_literals is literals
    alike = Value(Ordered(obj for value in values for obj in value.objs))
    assert (alike.constant(), alike.are_literals) == (constant, literals)


def test_none_is_one_literal_of_its_own() -> None:
    nothing = join(_literal(None), _literal(None))
    assert nothing.is_none
    assert nothing.are_literals
    assert not join(nothing, _literal(False)).is_none
    assert not join(_literal(1), _literal(2)).is_none
    assert not _THING.is_none
    assert not Value(nothing.objs, open=True).is_none
    assert Value(_literal(3).objs, open=True).constant() is None
