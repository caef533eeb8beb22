"""`--budget`: how much of a program is followed to see whether sharded data are right; beyond it, passes are shared."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level, Options, Outcome, Strategy
from distify_codemods.interpreter import machine

from tests.rules.scripts import DATA, IMPORTS, LOADER, LOOP, MODEL, OPTIMIZER, conversion_of

#: It is followed several times: a figure of training decides what is saved.
KEPT = """\
best = None
for epoch in range(3):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    if best is None or total < best:
        best = total
        torch.save(model.state_dict(), "best.pt")
"""
SCRIPT = f"{IMPORTS}{DATA}{LOADER}{MODEL}{OPTIMIZER}{KEPT}"
BEYOND = "to see whether sharded data are right takes more than the {:,} statements that may be followed"


def result(conversion: Conversion) -> tuple[Strategy | None, tuple[bytes, ...]]:
    return conversion.strategy, tuple(file.after for file in conversion.files)


def with_budget(budget: int, strategy: str = "auto") -> Conversion:
    return conversion_of(SCRIPT, options=Options(strategy=strategy, budget=budget))


def test_a_program_beyond_it_shares_forward_passes_and_says_why() -> None:
    conversion = with_budget(10)
    assert conversion.outcome is Outcome.CONVERTED
    assert result(conversion) == result(with_budget(10, "shared"))
    assert [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"] == [
        f"sharded data would be faster, but {BEYOND.format(10)} (a larger --budget follows more)"
    ]


def test_more_than_enough_changes_nothing() -> None:
    assert with_budget(10**12) == with_budget(Options.budget) == conversion_of(SCRIPT, options=Options())
    assert with_budget(10**12).strategy is Strategy.SHARDED


def test_a_run_that_did_not_come_to_its_end_is_not_believed() -> None:
    """Whatever the budget, what comes out is one of the two; and with a larger one, never the poorer."""
    sharded, shared = result(with_budget(10**9)), result(with_budget(1))
    found = [result(with_budget(budget)) for budget in (*range(20, 400, 19), 1_000)]
    assert found.count(sharded) > 1
    assert found == [shared] * found.count(shared) + [sharded] * found.count(sharded)


def test_where_sharded_data_are_asked_for_there_is_one_clear_line() -> None:
    conversion = with_budget(10, "sharded")
    [needed] = conversion.of(Level.BLOCKING)
    assert (needed.message, needed.fix) == (BEYOND.format(10), "a larger --budget follows more")
    assert not conversion.files


@pytest.mark.parametrize("budget", [1, Options.budget])
def test_shared_forward_passes_need_none(budget: int) -> None:
    assert result(with_budget(budget, "shared")) == result(with_budget(10**9, "shared"))


def test_what_is_no_training_is_declined_as_before() -> None:
    [needed] = conversion_of("import torch\nprint(torch.zeros(1))\n", options=Options(budget=1)).of(Level.BLOCKING)
    assert needed.code == "REFUSE02"


def test_a_program_too_large_for_one_exact_run_may_be_larger_when_few_calls_are_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "MOST_STATEMENTS", 100)
    before = f"{IMPORTS}{DATA}{LOADER}{MODEL}{OPTIMIZER}{LOOP}" + "print(1)\n" * 200
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED
    monkeypatch.setattr(machine, "MOST_SPARINGLY", 100)
    [needed] = conversion_of(before, options=Options()).of(Level.BLOCKING)
    assert needed.message == "the program is too large to be followed to its end"
