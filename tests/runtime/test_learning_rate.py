"""Scaled learning rates: what a step takes, what the script sees, and how the rate grows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_codemods.decisions import optimizer_rules
from distify_runtime import learning_rate
from ranks import on_ranks, run_script
from torch import nn
from torch.optim import Optimizer


class Watching(torch.optim.SGD):
    """Takes SGD's steps, and notes the rates that they are taken with. What it does besides is its base's."""


def _rates_taken(optimizer: Optimizer, steps: int = 1) -> list[float]:
    """The rate that each step has, read where only a step can: in a closure."""
    taken: list[float] = []

    def closure() -> float:
        taken.append(float(optimizer.param_groups[0]["lr"]))
        return 0.0

    for _ in range(steps):
        optimizer.step(closure)  # type: ignore[arg-type]
    return taken


def _weight() -> nn.Parameter:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    return weight


def _linear_and_root() -> list[tuple[list[float], float]]:
    made: list[Optimizer] = [
        torch.optim.SGD([_weight()], lr=0.1),
        torch.optim.Adam([_weight()], lr=0.1),
        Watching([_weight()], lr=0.1),
    ]
    return [(_rates_taken(rt.scale_learning_rate(one)), one.param_groups[0]["lr"]) for one in made]


def test_steps_take_the_scaled_rate_and_nothing_else_sees_it() -> None:
    for results in on_ranks(_linear_and_root):
        (sgd, _), (adam, _), (own, _) = results
        assert sgd == own == [0.2]
        assert adam == [pytest.approx(0.1 * math.sqrt(2))]
        assert all(kept == 0.1 for _, kept in results)


def test_a_world_of_one_keeps_its_rate() -> None:
    optimizer = rt.scale_learning_rate(torch.optim.SGD([_weight()], lr=0.1))
    assert list(rt.warm_up(range(3))) == [0, 1, 2]
    assert _rates_taken(optimizer) == [0.1]


def _schedules() -> dict[str, Any]:
    optimizer = rt.scale_learning_rate(torch.optim.SGD([_weight()], lr=0.8, momentum=0.9))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    taken = []
    for _ in range(3):
        taken += _rates_taken(optimizer)
        schedule.step()
    optimizer.param_groups[0]["lr"] = 0.3
    optimizer.add_param_group({"params": [_weight()], "lr": 0.7})
    return {
        "taken": [*taken, *_rates_taken(optimizer)],
        "state": [group["lr"] for group in optimizer.state_dict()["param_groups"]],
        "printed": schedule.get_last_lr(),
    }


def test_schedules_and_manual_writes_are_followed() -> None:
    for found in on_ranks(_schedules):
        assert found["taken"] == [1.6, 0.8, 0.4, 0.6]
        assert found["state"] == [0.3, 0.7]
        assert found["printed"] == [0.1]


def _failing() -> tuple[float, list[float]]:
    optimizer = rt.scale_learning_rate(torch.optim.SGD([_weight()], lr=0.1))

    def closure() -> float:
        raise ValueError("no loss today")

    with pytest.raises(ValueError, match="no loss"):
        optimizer.step(closure)  # type: ignore[arg-type]
    return optimizer.param_groups[0]["lr"], _rates_taken(optimizer)


def test_a_step_that_fails_leaves_the_rate_as_it_was() -> None:
    assert on_ranks(_failing) == [(0.1, [0.2])] * 2


def _in_other_hands() -> list[float]:
    """GradScaler, torch.compile, fused kernels and tensors as rates."""
    found = []
    for make in _MAKERS:
        weight = _weight()
        optimizer = rt.scale_learning_rate(make([weight]), rule="linear")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the compiler's own
            _STEPPERS[make](optimizer)()
        found.append(weight[0].item())
    return found


def _by_scaler(optimizer: Optimizer) -> Callable[[], Any]:
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    scaler.scale(torch.ones(()))

    def step() -> None:
        scaler.step(optimizer)
        scaler.update()

    return step


def _compiled(optimizer: Optimizer) -> Callable[[], Any]:
    return torch.compile(lambda: optimizer.step(), backend="eager")


def _sgd(given: Iterable[nn.Parameter]) -> Optimizer:
    return torch.optim.SGD(given, lr=0.1)


def _fused(given: Iterable[nn.Parameter]) -> Optimizer:
    return torch.optim.SGD(given, lr=0.1, fused=True)


def _tensor(given: Iterable[nn.Parameter]) -> Optimizer:
    return torch.optim.Adam(given, lr=torch.tensor(0.1), eps=0.0)


def _for_each(given: Iterable[nn.Parameter]) -> Optimizer:
    return torch.optim.SGD(given, lr=0.1, foreach=True)


_MAKERS = [_sgd, _fused, _tensor, _for_each]
_STEPPERS: dict[Any, Callable[[Optimizer], Callable[[], Any]]] = {
    _sgd: _by_scaler,
    _fused: lambda optimizer: optimizer.step,
    _tensor: lambda optimizer: optimizer.step,
    _for_each: _compiled,
}


def test_however_a_step_is_taken() -> None:
    for found in on_ranks(_in_other_hands):
        assert found == [pytest.approx(0.8)] * len(_MAKERS)


class _AsItLikes(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for weight in group["params"]:
                weight.data -= group["lr"] * weight.grad.sign()
        return super().step(closure)


@pytest.mark.parametrize("kind", ["_AsItLikes", "torch.optim.LBFGS", "torch.optim.Rprop", "torch.optim.ASGD"])
def test_no_rule_is_known(kind: str) -> None:
    script = f"""
import torch
import distify_runtime as rt
class _AsItLikes(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
rt.init_process_group(per_rank_batch=True)
rt.scale_learning_rate({kind}([torch.ones(2, requires_grad=True)], lr=0.1))
"""
    first, second = run_script(script)
    assert first.code
    assert second.code
    assert "no rule is known for how the learning rate of" in first.err
    assert 'rule="square root"' in first.err
    assert "Traceback" not in first.err + second.err


def _told() -> list[float]:
    optimizer = rt.scale_learning_rate(_AsItLikes([weight := _weight()], lr=0.1), rule="linear")
    optimizer.step()
    return weight.tolist()


def test_a_step_inside_of_a_step_is_scaled_once() -> None:
    assert on_ranks(_told) == [[pytest.approx(0.6)] * 3] * 2


# ---- warm-up


def _grown(epochs: Any, steps: int, batches: int = 0, first: float = 5, by_step: bool = False) -> list[float]:
    """The factor of each step."""
    optimizer = rt.scale_learning_rate(torch.optim.SGD([_weight()], lr=1.0))
    learning_rate.pass_begins(batches)
    return [rate for _ in rt.warm_up(epochs, first, by_step) for rate in _rates_taken(optimizer, steps)]


@pytest.mark.parametrize(
    ("epochs", "steps", "batches", "first", "grown"),
    [
        pytest.param(range(10), 2, 2, 5, [1, 1.25, 1.5, 1.75, *[2] * 16], id="a fifth of the run"),
        pytest.param(range(40), 1, 1, 2, [1, 1.5, *[2] * 38], id="as many epochs as are asked for"),
        pytest.param(range(1, 11), 1, 1, 5, [1, 1.5, *[2] * 8], id="counted from one"),
        pytest.param(range(7, 10), 1, 1, 5, [2, 2, 2], id="resumed after it"),
        pytest.param(range(2, 20), 1, 1, 5, [1.5, 1.75, *[2] * 16], id="resumed in it"),
        pytest.param(range(10), 2, 4, 2, [1, 1.125, 1.5, 1.75, *[2] * 16], id="one step for two batches"),
        pytest.param(range(10), 2, 0, 2, [1, 1, 1.5, 1.75, *[2] * 16], id="a loader without length"),
        pytest.param([3, 1, 4, 1, 5], 1, 1, 5, [1, 2, 2, 2, 2], id="a list"),
        pytest.param(range(2), 5, 5, 5, [1, 1.5, *[2] * 8], id="less than an epoch"),
    ],
)
def test_rate_grows(epochs: Any, steps: int, batches: int, first: float, grown: list[float]) -> None:
    assert on_ranks(_grown, epochs, steps, batches, first) == [[pytest.approx(one) for one in grown]] * 2


@pytest.mark.parametrize(("batches", "length"), [(0, 4), (1, 2), (100, 4)])
def test_rate_grows_by_the_step(batches: int, length: int) -> None:
    grown = [min(1 + step / length, 2) for step in range(20)]
    assert on_ranks(_grown, range(20), 1, batches, 2, True) == [[pytest.approx(one) for one in grown]] * 2


def test_without_a_length() -> None:
    script = """
import itertools
import distify_runtime as rt
rt.init_process_group(per_rank_batch=True)
for epoch in rt.warm_up(itertools.count()):
    raise AssertionError
"""
    for ended in run_script(script):
        assert ended.code == 1
        assert "AssertionError" not in ended.err


def _left_early() -> list[float]:
    optimizer = rt.scale_learning_rate(torch.optim.SGD([_weight()], lr=1.0))
    for _ in rt.warm_up(range(10)):
        break
    return _rates_taken(optimizer)


def test_a_loop_that_is_left_warms_up_no_longer() -> None:
    assert on_ranks(_left_early) == [[2.0]] * 2


# ---- what is said


SAYING = """
import torch
import distify_runtime as rt
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
rt.init_process_group(per_rank_batch=True)
data = TensorDataset(torch.ones({samples}, 1))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, seed=rt.common_seed()), drop_last={drop})
weight = torch.ones(2, requires_grad=True)
optimizer = rt.scale_learning_rate(torch.optim.SGD([weight], lr=0.1))
for epoch in rt.warm_up(range(10)):
    rt.set_epoch(loader, epoch)
    for batch in loader:
        optimizer.step()
"""


def test_said_once() -> None:
    first, second = run_script(SAYING.format(samples=32, drop=False))
    assert (first.code, second.code, second.err, first.out) == (0, 0, "", "")
    assert first.err == (
        "distify: batches of 16: 8 samples on each of 2 ranks\n"
        "distify: SGD steps with a learning rate of 0.2 instead of 0.1, reached after 2 of 10 epochs "
        "(times 2, the number of ranks); the script prints and saves its own\n"
    )


def test_no_batch_for_each_rank() -> None:
    """With drop_last, the run would train on nothing, and say nothing."""
    for ended in run_script(SAYING.format(samples=13, drop=True)):
        assert ended.code == 1
        assert not ended.err or "the loader has no batch" in ended.err


def test_checklist_and_runtime_know_the_same_optimizers() -> None:
    said = {name: rule.name for name, rule in optimizer_rules.RULES.items()}
    assert said == learning_rate.RULES
    assert learning_rate._LIBRARIES == optimizer_rules._LIBRARIES
