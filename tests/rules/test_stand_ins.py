"""EVAL01 where one function evaluates a trained model and, in another call, something else: each sample counts once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from distify_codemods import Options, SourceFile, facts, interpreter, program
from distify_codemods.backends import BACKENDS
from distify_codemods.decisions import decide, decide_cuts
from distify_codemods.decisions.base import Decisions, Sharding, View
from distify_codemods.decisions.contradictions import contradictions

from tests.rules.scripts import LOADER, MODEL, converted, resolver_of, script

OTHER = "other = DataLoader(data, batch_size=16)\n"
TEACHER = "teacher = nn.Linear(4, 1)\n"
SUMS = """\
def accuracy(net):
    {}
    right = 0
    with torch.no_grad():
        for x, y in other:
            right += (net(x) > y).sum().item()
    return right / len(data)
"""
OUTPUTS = """\
def spread(net):
    net.eval()
    guesses = []
    with torch.no_grad():
        for x, y in other:
            guess = net(x)
            guesses.append(guess)
    return torch.cat(guesses).std()
"""


def both(function: str, made: str, name: str, after: str = "") -> str:
    """Whatever has the name of the second is evaluated by the same function as the model."""
    call = function[4 : function.index("(")]
    last = f"{after}print({call}(model))\nprint({call}({name}))\n"
    return script(model=made, loader=LOADER + OTHER, loop=function + LOOP, after=last)


LOOP = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "mode", "name"),
    [
        pytest.param(MODEL + TEACHER, "net.eval()", "teacher", id="a teacher"),
        pytest.param(
            MODEL + "average = torch.optim.swa_utils.AveragedModel(model)\n", "net.eval()", "average", id="an average"
        ),
        pytest.param(MODEL + "def zeros(x):\n    return x[:, :1] * 0\n", "model.eval()", "zeros", id="a function"),
    ],
)
def test_sums(made: str, mode: str, name: str) -> None:
    """Summed over the ranks, each has to have its own share, whatever is evaluated."""
    after = converted(both(SUMS.format(mode), made, name))
    assert "UnpaddedSampler(data)" in after
    assert after.count("right = rt.all_reduce_sum(right)") == 1
    assert "whole_loader" not in after


def test_outputs_are_gathered() -> None:
    after = converted(both(OUTPUTS, MODEL + TEACHER, "teacher"))
    assert "ShardedBatchSampler(data, 16)" in after
    assert after.count("guess = rt.gather_batch(other, guess)") == 1
    assert "whole_loader" not in after


@pytest.mark.parametrize(
    ("made", "mode", "name", "after"),
    [
        pytest.param(
            MODEL + "teacher = nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1))\n", "model.eval()", "teacher", "",
            id="in training mode",
        ),
        pytest.param(MODEL, "net.eval()", "fresh", "fresh = nn.Linear(4, 1)\n", id="made where ranks drew apart"),
        pytest.param(
            MODEL + "import scorers\n", "model.eval()", "scorers.score", "", id="nobody knows what it does to a batch"
        ),
    ],
)  # fmt: skip
def test_every_rank_evaluates_all_of_it(made: str, mode: str, name: str, after: str) -> None:
    """Then nothing is summed of either, as the loop stands there once."""
    text = converted(both(SUMS.format(mode), made, name, after))
    assert "all_reduce_sum" not in text
    assert "gather_batch" not in text
    assert OTHER in text


def test_a_loop_that_evaluates_no_model_is_left_alone() -> None:
    """It sees all samples, beside an evaluation of the same loader that is shared out."""
    before = both(SUMS.format("net.eval()"), MODEL + TEACHER, "teacher", "for x, y in other:\n    print(x.mean())\n")
    after = converted(before)
    assert after.count("in rt.whole_loader(other):\n    print") == 1
    assert after.count("rt.all_reduce_sum(right)") == 1


# ---- whatever is decided


def decided(before: str) -> Decisions:
    loaded = program.load(SourceFile("train.py", before.encode()), resolver_of({"train.py": before}), Options())
    return decide(decide_cuts(facts.infer(loaded, interpreter.run(loaded))), BACKENDS["ddp"])


def test_decisions_that_go_together_are_written() -> None:
    assert not list(contradictions(decided(both(SUMS.format("net.eval()"), MODEL + TEACHER, "teacher"))))


def test_a_sum_over_what_every_rank_sees_needs_a_person() -> None:
    made = decided(both(SUMS.format("net.eval()"), MODEL + TEACHER, "teacher"))
    over = made.reductions[0].loop.passing
    assert over is not None
    made.views += (View(made.reductions[0].loop.module, over.iter, Sharding.REPLICATED),)
    assert [one.code for one in contradictions(made)] == ["EVAL01"]


def test_two_sums_of_one_loop_that_differ_need_a_person() -> None:
    made = decided(both(SUMS.format("net.eval()"), MODEL + TEACHER, "teacher"))
    made.reductions += (replace(made.reductions[0], names=("right", "seen")),)
    assert [one.code for one in contradictions(made)] == ["EVAL01"]


def test_a_loader_that_is_dealt_out_otherwise_needs_a_person() -> None:
    made = decided(both(OUTPUTS, MODEL + TEACHER, "teacher"))
    made.loaders = tuple(
        replace(one, sharding=Sharding.SUMS) if one.sharding is Sharding.GATHERED else one for one in made.loaders
    )
    assert [one.code for one in contradictions(made)] == ["EVAL01"]
