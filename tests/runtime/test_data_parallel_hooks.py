"""Layers whose hooks make something in each call, and what is computed again, where the parts of a model are shared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint


def _weight_norm(layer: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the old one, which scripts still use
        return torch.nn.utils.weight_norm(layer)


WITH_HOOKS: dict[str, Callable[[nn.Module], Any]] = {
    "weight_norm": _weight_norm,
    "spectral_norm": torch.nn.utils.spectral_norm,
    "pruned": lambda layer: prune.random_unstructured(layer, "weight", 0.5),
    "weight_norm, new": parametrizations.weight_norm,
}


class Coupled(nn.Module):
    """Looks at its batch together: its parts are shared in its place."""

    def __init__(self, norm: Callable[[nn.Module], Any]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), norm(nn.Linear(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.second(torch.tanh(self.first(x)))
        return hidden - hidden.mean(dim=0)


class Checkpointed(Coupled):
    def __init__(self, reentrant: bool) -> None:
        super().__init__(lambda layer: layer)
        self.last, self.reentrant = nn.Linear(8, 8), reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = x.requires_grad_()
        hidden = checkpoint(lambda given: self.second(torch.tanh(self.first(given))), x, use_reentrant=self.reentrant)
        return self.last(hidden) - hidden.mean(dim=0)


class Leaf(nn.Module):
    """A frozen layer, of whose output a hook makes a leaf: `enable_input_require_grads` of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8).requires_grad_(False), nn.Linear(8, 8)
        self.first.register_forward_hook(lambda module, given, out: out.requires_grad_(True))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.second(self.first(x)))


def _trained(make: Callable[[], nn.Module]) -> tuple[list[float], nn.Module]:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    net = make()
    rt.data_parallel(net)
    optimizer = torch.optim.SGD([one for one in net.parameters() if one.requires_grad], lr=0.1)
    losses = []
    for step in range(12):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net


def _with_hooks(name: str) -> Any:
    losses, net = _trained(lambda: Coupled(WITH_HOOKS[name]))
    found = shared_model(net.second)
    return losses, found is not None and found.is_shared


@pytest.mark.parametrize("name", WITH_HOOKS)
def test_a_weight_that_a_hook_makes(name: str) -> None:
    expected, _ = _trained(lambda: Coupled(WITH_HOOKS[name]))
    for losses, is_shared in on_ranks(_with_hooks, name):
        assert losses == pytest.approx(expected, rel=1e-9)
        assert is_shared


def _checkpointed(reentrant: bool) -> Any:
    losses, net = _trained(lambda: Checkpointed(reentrant))
    parts = [shared_model(one) for one in (net.first, net.second, net.last)]
    return losses, [one is not None and one.is_shared for one in parts]


@pytest.mark.parametrize("reentrant", [False, True], ids=["without reentrance", "reentrant"])
def test_layers_inside_a_checkpoint_are_computed_whole_both_times(reentrant: bool) -> None:
    expected, _ = _trained(lambda: Checkpointed(reentrant))
    for losses, shared in on_ranks(_checkpointed, reentrant):
        assert losses == pytest.approx(expected, rel=1e-9)
        assert shared == [False, False, True]


def _leaf() -> Any:
    losses, net = _trained(Leaf)
    found = shared_model(net)
    assert found is not None
    return losses, found.given_up


def test_a_leaf_that_the_pass_makes_by_itself() -> None:
    expected, _ = _trained(Leaf)
    for losses, given_up in on_ranks(_leaf):
        assert losses == pytest.approx(expected, rel=1e-9)
        assert given_up == ""


class Captured(nn.Module):
    """Puts hooks on its layers in its first pass, as encoders of transformers do that are asked for hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.states: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if not getattr(self, "is_hooked", False):
            for layer in self.layers:
                layer.register_forward_hook(lambda module, given, out: self.states.append(out))
            self.head, self.is_hooked = nn.Linear(4, 4), True
        self.states.clear()
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(torch.stack(self.states).sum(0))


def _captured() -> Any:
    losses, net = _trained(Captured)
    return losses, torch.rand(()).item(), [len(layer._forward_hooks) for layer in net.layers]


def test_hooks_and_layers_that_the_first_pass_makes_are_made_once() -> None:
    losses, drawn, hooks = _captured()
    assert hooks == [1, 1, 1]
    for found in on_ranks(_captured):
        assert found == (pytest.approx(losses, rel=1e-9), drawn, hooks)


def _heard() -> Any:
    of_parameters: list[float] = []
    of_parts: list[float] = []

    def make() -> nn.Module:
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
        for one in net.parameters():
            one.register_hook(lambda gradient: of_parameters.append(gradient.norm().item()))
            one.register_post_accumulate_grad_hook(lambda held: of_parameters.append(held.grad.norm().item()))
        net[2].register_full_backward_hook(lambda module, given, out: of_parts.append(len(out[0])))
        return net

    _trained(make)
    return sorted(of_parameters), sum(of_parts)


def test_hooks_hear_of_each_gradient_of_the_training_and_of_no_other() -> None:
    """As `wandb.watch(model, log="gradients")` sets them; also in the steps that a pass is checked in."""
    norms, samples = _heard()
    for heard, mine in on_ranks(_heard):
        assert heard == pytest.approx(norms, rel=1e-9)
        assert mine == samples  # what is told of gradients inside is told of whole batches


class Watched(nn.Module):
    """Keeps the gradient of what it computes inside, as Grad-CAM does."""

    def __init__(self, kept: list[float]) -> None:
        super().__init__()
        self.first, self.second, self.kept = nn.Linear(4, 8), nn.Linear(8, 4), kept
        self.gradient = torch.zeros(())

    def keep(self, gradient: Tensor) -> None:
        self.gradient = gradient
        self.kept.append(gradient.norm().item())

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = torch.tanh(self.first(x))
        if hidden.requires_grad:
            hidden.register_hook(self.keep)
        out: Tensor = self.second(hidden)
        return out


def _watched(by_module: bool) -> Any:
    kept: list[float] = []

    def make() -> nn.Module:
        if not by_module:
            return Watched(kept)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
        net[2].register_full_backward_hook(lambda module, given, out: kept.append(out[0].norm().item()))
        return net

    losses, net = _trained(make)
    found = shared_model(net[0] if by_module else net.second)
    return losses, kept, found is not None and found.is_shared, getattr(net, "gradient", torch.zeros(())).shape


@pytest.mark.parametrize("by_module", [False, True], ids=["of a tensor", "of a module"])
def test_what_a_hook_keeps_of_gradients_inside_is_of_whole_batches(by_module: bool) -> None:
    losses, kept, _, shape = _watched(by_module)
    for found in on_ranks(_watched, by_module):
        assert found == (pytest.approx(losses, rel=1e-9), pytest.approx(kept, rel=1e-9), True, shape)


class Scaled(nn.Module):
    """Changes a gradient inside, and keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = torch.tanh(self.first(x))
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: 0.5 * gradient)
        out: Tensor = self.second(hidden)
        return out


def _scaled() -> Any:
    losses, net = _trained(Scaled)
    found = shared_model(net)
    return losses, found is not None and found.is_shared


def test_a_hook_that_changes_gradients_inside_stays_there() -> None:
    losses, _ = _scaled()
    for found in on_ranks(_scaled):
        assert found == (pytest.approx(losses, rel=1e-9), True)


class Once(nn.Module):
    """A hook that takes keywords, and is gone after the first pass."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 4)
        self.handle = self.body.register_forward_pre_hook(self.first, with_kwargs=True)

    def first(self, module: nn.Linear, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            module.weight.div_(module.weight.norm())
        self.handle.remove()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.tanh(self.body(x)))
        return out


def _once() -> list[float]:
    return _trained(Once)[0]


def test_a_hook_that_the_first_pass_removes() -> None:
    expected = _once()
    for losses in on_ranks(_once):
        assert losses == pytest.approx(expected, rel=1e-9)
