"""Sets that keep an order, beside sets that keep none."""

from __future__ import annotations

from distify_codemods.ordered import EMPTY, Ordered


def test_what_is_joined_stays_what_it_was() -> None:
    one = joined = Ordered("ab")
    joined |= Ordered("c")
    assert [*one] == ["a", "b"]
    assert [*joined] == ["a", "b", "c"]
    assert one | Ordered("a") is one
    assert EMPTY | one is one


def test_is_compared_with_sets_of_any_kind() -> None:
    small, large = Ordered("a"), Ordered("ab")
    assert small <= large
    assert small < large
    assert large >= {"a"}
    assert large > {"a"}
    assert {"a"} <= large
    assert not large < {"a", "b"}
    assert large.isdisjoint("c")
    assert not large.isdisjoint({"b"})
    assert {"c"}.isdisjoint(large)


def test_with_a_plain_set_on_the_left_the_result_is_one() -> None:
    plain = {"a"}
    assert plain | Ordered("b") == {"a", "b"}
    assert type(plain | Ordered("b")) is set
    assert plain & Ordered("ab") == {"a"}
    assert {"a", "c"} - Ordered("ab") == {"c"}
    plain |= Ordered("b")
    assert type(plain) is set
    assert [*(Ordered("abc") & {"c", "a"})] == ["a", "c"]
    assert [*(Ordered("abc") - {"b"})] == ["a", "c"]
