"""Synchronised BatchNorm computes what one process computes on the whole batch."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import distify_runtime as rt
import pytest
import torch
from ranks import on_ranks
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

TOLERANCE = 1e-12
CASES: list[tuple[type[nn.Module], dict[str, Any], tuple[int, ...]]] = [
    (nn.BatchNorm1d, {}, ()),
    (nn.BatchNorm1d, {"momentum": None}, (6,)),
    (nn.BatchNorm2d, {"momentum": 0.3, "eps": 1e-3}, (4, 3)),
    (nn.BatchNorm3d, {"affine": False}, (2, 3, 2)),
    (nn.BatchNorm2d, {"track_running_stats": False}, (2, 2)),
]


def _deviation(actual: Tensor, expected: Tensor) -> float:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if not actual.numel():
        return 0.0
    return float(((actual - expected).abs().max() / expected.abs().max().clamp(min=1)).detach())


def _two_passes(layer: nn.Module, inputs: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Output and input gradient of a second training pass, after a first on other values."""
    layer(inputs.square())
    inputs = inputs.clone().requires_grad_()
    output = layer(inputs)
    (output * factors).sum().backward()
    assert inputs.grad is not None
    return output, inputs.grad


def _compare_with_one_process(case: int, shares: list[int]) -> list[float]:
    kind, options, tail = CASES[case]
    torch.manual_seed(0)
    alone = kind(5, dtype=torch.float64, **options)
    for parameter in alone.parameters():
        nn.init.normal_(parameter)
    inputs = torch.randn(sum(shares), 5, *tail, dtype=torch.float64) * 3 + 10
    factors = torch.randn_like(inputs)
    together = rt.convert_sync_batchnorm(copy.deepcopy(alone))

    start = sum(shares[: rt.rank()])
    mine = slice(start, start + shares[rt.rank()])
    expected_output, expected_gradient = _two_passes(alone, inputs, factors)
    output, gradient = _two_passes(together, inputs[mine], factors[mine])
    deviations = [_deviation(output, expected_output[mine]), _deviation(gradient, expected_gradient[mine])]
    for parameter, reference in zip(together.parameters(), alone.parameters(), strict=True):
        assert reference.grad is not None
        deviations.append(_deviation(rt.all_reduce_sum(parameter.grad), reference.grad))
    for buffer, statistic in zip(together.buffers(), alone.buffers(), strict=True):
        deviations.append(_deviation(buffer.double(), statistic.double()))
    together.eval(), alone.eval()
    deviations.append(_deviation(together(inputs), alone(inputs)))
    return deviations


@pytest.mark.parametrize("case", range(len(CASES)))
def test_unequal_shares_give_the_statistics_of_the_whole_batch(case: int) -> None:
    for deviations in on_ranks(_compare_with_one_process, case, [5, 3]):
        assert max(deviations) < TOLERANCE


def _running_statistics_of_one_batch() -> list[float]:
    torch.manual_seed(0)
    alone = nn.BatchNorm1d(5, dtype=torch.float64)
    together = rt.convert_sync_batchnorm({"one": copy.deepcopy(alone)})["one"]
    inputs = torch.randn(6, 5, dtype=torch.float64)
    outputs = [layer(inputs) for layer in (together, alone)]
    buffers = zip(together.buffers(), alone.buffers(), strict=True)
    return [_deviation(*outputs), *(_deviation(buffer.double(), statistic.double()) for buffer, statistic in buffers)]


def test_a_batch_that_all_ranks_see_counts_once() -> None:
    """As in an evaluation on all ranks by a script that does not call `eval()`."""
    for deviations in on_ranks(_running_statistics_of_one_batch):
        assert max(deviations) < TOLERANCE


def test_a_rank_without_samples_takes_part() -> None:
    for deviations in on_ranks(_compare_with_one_process, 2, [4, 0, 1], ranks=3):
        assert max(deviations) < TOLERANCE


def _train(ranks_share: bool) -> list[Tensor]:
    """Three steps of a small network in float64; on this rank's half of each batch if `ranks_share`."""
    torch.manual_seed(1)
    model: nn.Module = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3), nn.BatchNorm1d(3)
    ).double()
    batches = torch.randn(3, 8, 2, 5, 5, dtype=torch.float64)
    parameters = list(model.parameters())
    if ranks_share:
        batches = batches[:, rt.rank() :: rt.world_size()]
        model = DistributedDataParallel(rt.convert_sync_batchnorm(model))
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).pow(3).mean().backward()
        optimizer.step()
    return [tensor.detach() for tensor in rt.unwrap(model).state_dict().values()]


def _training_deviation() -> float:
    return max(map(_deviation, _train(ranks_share=True), _train(ranks_share=False)))


@pytest.mark.of_torch
def test_training_with_ddp_follows_one_process() -> None:
    for deviation in on_ranks(_training_deviation):
        assert deviation < TOLERANCE


def _critic(ranks_share: bool) -> list[Tensor]:
    """Steps of a WGAN's critic with BatchNorm: the norm of its gradients is differentiated itself."""
    torch.manual_seed(1)
    critic: nn.Module = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3), nn.BatchNorm1d(3),
        nn.Softplus(), nn.Linear(3, 1),
    ).double()  # fmt: skip
    batches = torch.randn(4, 2, 8, 2, 5, 5, dtype=torch.float64)
    mixed = torch.rand(4, 8, 1, 1, 1, dtype=torch.float64)
    parameters = list(critic.parameters())
    if ranks_share:
        batches, mixed = batches[:, :, rt.rank() :: rt.world_size()], mixed[:, rt.rank() :: rt.world_size()]
        critic = DistributedDataParallel(rt.convert_sync_batchnorm(critic))
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    for (real, fake), weight in zip(batches, mixed, strict=True):
        optimizer.zero_grad()
        between = (weight * real + (1 - weight) * fake).requires_grad_()
        score = critic(between)
        (slope,) = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True)
        penalty = ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()
        (critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
        optimizer.step()
    return [tensor.detach() for tensor in rt.unwrap(critic).state_dict().values()]


def _critic_deviation() -> float:
    return max(map(_deviation, _critic(ranks_share=True), _critic(ranks_share=False)))


@pytest.mark.of_torch
def test_gradients_that_are_differentiated_again_are_those_of_one_process() -> None:
    for deviation in on_ranks(_critic_deviation):
        assert deviation < TOLERANCE


SHARES = ([5, 3], [1, 4], [0, 6])


def _twice(layer: nn.Module, inputs: Tensor, factors: Tensor) -> list[Tensor]:
    """Gradients of a layer's input, and those of their squares, of the input, the weight and the bias."""
    inputs = inputs.clone().requires_grad_()
    scalar = (layer(inputs) * factors).pow(3).sum()
    (slope,) = torch.autograd.grad(scalar, inputs, create_graph=True)
    wanted = [inputs, *layer.parameters()]
    again = torch.autograd.grad((slope * factors).square().sum(), wanted, allow_unused=True, materialize_grads=True)
    return [slope, *again]


def _second_order(shares: list[int], affine: bool) -> list[float]:
    torch.manual_seed(4)
    alone = nn.BatchNorm1d(3, affine=affine, dtype=torch.float64)
    for parameter in alone.parameters():
        nn.init.normal_(parameter)
    inputs = torch.randn(sum(shares), 3, dtype=torch.float64)
    factors = torch.randn_like(inputs)
    together = rt.convert_sync_batchnorm(copy.deepcopy(alone))
    start = sum(shares[: rt.rank()])
    mine = slice(start, start + shares[rt.rank()])
    expected, found = _twice(alone, inputs, factors), _twice(together, inputs[mine], factors[mine])
    of_samples = [_relative(one, other[mine]) for one, other in zip(found[:2], expected[:2], strict=True)]
    pairs = zip(found[2:], expected[2:], strict=True)
    return [*of_samples, *(_relative(rt.all_reduce_sum(one), other) for one, other in pairs)]


def _relative(one: Tensor, other: Tensor) -> float:
    return _deviation(one / other.abs().max(), other / other.abs().max()) if other.any() else _deviation(one, other)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shares", SHARES)
def test_gradients_of_second_order_are_those_of_the_whole_batch(shares: list[int], affine: bool) -> None:
    for deviations in on_ranks(_second_order, shares, affine):
        assert max(deviations) < TOLERANCE


def _mixed_precision(dtype: torch.dtype, parameters: torch.dtype) -> tuple[torch.dtype, float]:
    torch.manual_seed(2)
    layer = rt.convert_sync_batchnorm(nn.BatchNorm1d(4, dtype=parameters))
    inputs = (torch.randn(16, 4) + 2).to(dtype)
    mine = inputs[rt.rank() :: 2].requires_grad_()
    output = layer(mine)
    output.float().square().sum().backward()
    assert mine.grad is not None
    expected = nn.functional.batch_norm(inputs.double(), None, None, training=True)
    return output.dtype, _deviation(output.double(), expected[rt.rank() :: 2])


@pytest.mark.parametrize("parameters", [torch.float32, torch.bfloat16])
def test_half_precision_keeps_its_dtype(parameters: torch.dtype) -> None:
    for dtype, deviation in on_ranks(_mixed_precision, torch.bfloat16, parameters):
        assert dtype == torch.bfloat16
        assert deviation < 0.05


class Renamed(nn.BatchNorm2d):
    """A subclass that keeps torch's forward."""


def _is_scripted_as_in_one_process(layer: nn.Module) -> bool:
    own = nn.BatchNorm2d(layer.num_features)  # type: ignore[arg-type]
    own.load_state_dict(layer.state_dict())
    with warnings.catch_warnings(action="ignore"):
        scripted = torch.jit.script(layer)
    batch = torch.randn(4, layer.num_features, 2, 2)  # type: ignore[call-overload]
    return torch.equal(scripted(batch), own(batch)) and torch.equal(scripted.running_var, own.running_var)


def _identity_of_converted_layers() -> dict[str, Any]:
    plain = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), Renamed(2))
    keys, shown = list(plain.state_dict()), repr(plain)
    model: Any = rt.convert_sync_batchnorm(plain)
    saved = io.BytesIO()
    torch.save(model, saved)
    saved.seek(0)
    synchronised = type(model[1])
    return {
        "same object": model is plain,
        "instances": isinstance(model[1], nn.BatchNorm2d) and isinstance(model[2], Renamed),
        "changed": synchronised is not nn.BatchNorm2d,
        "keys": list(model.state_dict()) == keys,
        "shown": repr(model) == shown,
        "saved as": [type(layer) for layer in torch.load(saved, weights_only=False)],
        "pickled as": [type(pickle.loads(pickle.dumps(model[1], protocol))) for protocol in range(6)],
        "copied": type(copy.deepcopy(model)[1]) is synchronised,
        "scripted": _is_scripted_as_in_one_process(model[1]),
        "twice": type(rt.convert_sync_batchnorm(model[1])) is synchronised,
    }


def test_converted_layers_look_and_save_like_the_originals() -> None:
    for seen in on_ranks(_identity_of_converted_layers):
        assert seen.pop("saved as") == [nn.Conv2d, nn.BatchNorm2d, Renamed]
        assert seen.pop("pickled as") == [nn.BatchNorm2d] * 6
        assert all(seen.values()), seen


class OwnForward(nn.BatchNorm1d):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).relu()


def _refusals() -> list[str]:
    patched = nn.BatchNorm1d(2)
    patched.forward = nn.Identity().forward  # type: ignore[method-assign]
    messages = []
    for model in (nn.Sequential(OwnForward(2)), patched, nn.LazyBatchNorm1d()):
        with pytest.raises(SystemExit) as stopped:
            rt.convert_sync_batchnorm(model)
        messages.append(str(stopped.value))
    with pytest.raises(ValueError, match="more than one value per channel, all ranks have 1"):
        rt.convert_sync_batchnorm(nn.BatchNorm1d(2))(torch.ones(1 - rt.rank(), 2))
    return messages


def test_layers_that_cannot_be_synchronised_stop_the_run_on_all_ranks() -> None:
    first, second = on_ranks(_refusals)
    assert "OwnForward is a BatchNorm with a forward of its own" in first[0]
    assert "BatchNorm1d is a BatchNorm with a forward of its own" in first[1]
    assert "LazyBatchNorm1d has no parameters yet" in first[2]
    assert second == ["1", "1", "1"]


@pytest.mark.of_torch
def test_a_world_of_one_and_models_without_batchnorm_stay_as_they_are() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), OwnForward(2))
    assert rt.convert_sync_batchnorm(model) is model
    assert type(model[0]) is nn.BatchNorm1d
    assert on_ranks(_groups_of_a_model_without_batchnorm) == [1, 1]


def _groups_of_a_model_without_batchnorm() -> int:
    rt.convert_sync_batchnorm(nn.Linear(2, 2))
    return len(torch.distributed.distributed_c10d._world.pg_map)


def _compiled() -> float:
    torch.manual_seed(3)
    inputs = torch.randn(8, 4, dtype=torch.float64)
    layer = rt.convert_sync_batchnorm(nn.BatchNorm1d(4, dtype=torch.float64))
    output = torch.compile(layer, backend="eager")(inputs[rt.rank() :: 2])
    expected = nn.functional.batch_norm(inputs, None, None, training=True)
    return _deviation(output, expected[rt.rank() :: 2])


def test_a_compiled_model_stays_synchronised() -> None:
    for deviation in on_ranks(_compiled):
        assert deviation < TOLERANCE
