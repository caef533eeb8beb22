"""Models whose forward passes are shared stay the objects that they were."""

from __future__ import annotations

import copy
import io
import pickle
import random
import time
import warnings
from array import array
from contextlib import nullcontext, redirect_stderr
from typing import Any

import distify_runtime as rt
import numpy
import pytest
import torch
from distify_runtime.shared import costs
from distify_runtime.shared.models import shared_model
from ranks import RankFailed, on_ranks
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tests import gpus


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(5, 7), nn.Linear(7, 3)
        self.seen = array("i")  # a list would be noticed: it would have to hold what one process has in it

    def forward(self, samples: Tensor) -> Tensor:
        self.seen.append(len(samples))
        out: Tensor = self.head(self.body(samples).relu())
        return out

    def encode(self, samples: Tensor) -> Tensor:
        self.seen.append(len(samples))
        return self.body(samples).relu()


def whole(size: int = 8) -> Tensor:
    return torch.randn(size, 5, generator=torch.Generator().manual_seed(1))


def _is_what_it_was() -> Any:
    net = Net()
    keys, text, attributes = list(net.state_dict()), repr(net), set(vars(net))
    rt.data_parallel(net)
    net(whole()).sum().backward()
    twin = copy.deepcopy(net)
    file = io.BytesIO()
    torch.save(net, file)
    loaded = pickle.loads(pickle.dumps(net))
    assert type(net) is type(twin) is type(loaded) is Net
    assert (list(net.state_dict()), repr(net), set(vars(net))) == (keys, text, attributes)
    assert b"distify" not in file.getvalue()
    net(whole())
    twin(whole())
    return net.seen[-1], twin.seen[-1]


def test_a_model_is_saved_copied_and_printed_as_before_and_copies_of_it_see_whole_batches() -> None:
    assert on_ranks(_is_what_it_was) == [(4, 8)] * 2


def _hooks() -> Any:
    net, seen = Net(), []
    rt.data_parallel(net)
    net.register_forward_pre_hook(lambda module, args: seen.append(("before", len(args[0]))))
    net.register_forward_hook(lambda module, args, out: seen.append(("after", len(args[0]), len(out))))
    net.head.register_forward_hook(lambda module, args, out: seen.append(("head", len(out))))
    net(whole())
    net(whole())
    seen.clear()
    net(whole())
    return seen


def test_hooks_that_keep_something_see_whole_batches() -> None:
    assert on_ranks(_hooks) == [[("before", 8), ("head", 8), ("after", 8, 8)]] * 2


def _hook_that_looks() -> Any:
    net, seen = Net(), array("i")
    rt.data_parallel(net)
    net.head.register_forward_hook(lambda module, args, out: seen.append(len(out)))
    net(whole())
    del seen[:]
    net(whole()), net(whole())
    return seen[-1]


def test_hooks_of_parts_that_keep_nothing_see_shares() -> None:
    assert on_ranks(_hook_that_looks) == [4] * 2


def _moved() -> Any:
    net = Net()
    rt.data_parallel(net)
    net.double()
    net(whole().double()).sum().backward()
    net.head = nn.Linear(7, 2).double()
    out = net(whole().double())
    out.sum().backward()
    return out.shape, [one.grad.dtype for one in net.parameters()], net.seen[-1]


def test_a_model_can_be_cast_and_changed_afterwards() -> None:
    assert on_ranks(_moved) == [((8, 2), [torch.float64] * 4, 4)] * 2


def _methods() -> Any:
    net = Net()
    rt.data_parallel(net, methods=["encode"])
    net.encode(whole()).sum().backward()
    encoded = net.encode(whole())
    return encoded.shape, net.seen[-1]


def test_own_methods_are_shared_where_they_are_named() -> None:
    assert on_ranks(_methods) == [((8, 7), 4)] * 2


def _evaluation() -> Any:
    net = Net()
    rt.data_parallel([net, None])
    net.eval()
    with torch.no_grad():
        out = net(whole())
        expected = net.head(net.body(whole()).relu())
        net(whole())
    return torch.allclose(out, expected), out.requires_grad, net.seen[-1]


def test_evaluation_is_shared_too() -> None:
    assert on_ranks(_evaluation) == [(True, False, 4)] * 2


class Drawing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.drawn = nn.Linear(5, 3), []

    def forward(self, samples: Tensor) -> Tensor:
        self.drawn = [torch.rand(1).item(), float(numpy.random.rand()), random.random()]
        out: Tensor = self.net(samples)
        return nn.functional.dropout(out, 0.5, self.training)


def _streams() -> Any:
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    net = Drawing()
    rt.data_parallel(net)
    net(whole())
    net(whole())
    inside = net.drawn
    return inside, [torch.rand(1).item(), float(numpy.random.rand()), random.random()]


def test_draws_for_the_batch_are_those_of_one_process_and_others_each_ranks_own() -> None:
    """Torch's are for samples, too: dropout. Then nothing that is drawn inside shows in the script's stream."""
    (first, outside), (second, other) = on_ranks(_streams)
    ((inside, of_one),) = on_ranks(_streams, ranks=1)
    assert first[1:] == second[1:] == inside[1:]
    assert first[0] != second[0]
    assert outside == other == [_torchs_first(), *of_one[1:]]


def _torchs_first() -> float:
    torch.manual_seed(1)
    Drawing()
    return torch.rand(1).item()


def _dropout() -> Any:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(5, 64), nn.Dropout(0.5))
    rt.data_parallel(net)
    out = net(whole())
    return (out[:4] == 0).equal(out[4:] == 0), (out == 0).float().mean().item()


def test_dropout_differs_between_the_ranks_parts() -> None:
    everyone = on_ranks(_dropout)
    assert everyone[0] == everyone[1]
    assert everyone[0][0] is False
    assert 0.4 < everyone[0][1] < 0.6


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(5, 3), nn.Linear(5, 3)
        self.idle.weight.requires_grad_()

    def forward(self, samples: Tensor) -> Tensor:
        out: Tensor = self.used(samples)
        return out


def _unused() -> Any:
    net = Unused()
    rt.data_parallel(net)
    net(whole()).sum().backward()
    return [one.grad is None for one in net.parameters()]


def test_a_gradient_that_no_rank_has_stays_none() -> None:
    assert on_ranks(_unused) == [[False, False, True, True]] * 2


def _integers_and_details() -> Any:
    class Many(Net):
        def forward(self, samples: Tensor, scale: float = 1.0, names: Any = None) -> Any:  # type: ignore[override]
            out = super().forward(samples) * scale
            return {"out": out, "classes": out.argmax(1), "names": names, "detached": out.detach(), "none": None}

    net = Many()
    rt.data_parallel(net)
    found = net(whole(), scale=2.0, names=["a", "b"])
    again = net(whole(), scale=2.0, names=["a", "b"])
    assert type(found) is dict
    assert found["names"] == ["a", "b"]
    assert found["none"] is None
    flows = [found["out"].requires_grad, found["classes"].requires_grad, found["detached"].requires_grad]
    return flows, torch.equal(again["classes"], again["out"].argmax(1)), len(again["detached"].cpu().numpy())


def test_outputs_keep_their_structure_and_what_needs_no_gradient_has_none() -> None:
    assert on_ranks(_integers_and_details) == [([True, False, False], True, 8)] * 2


def _accumulated() -> Any:
    torch.manual_seed(1)
    net = Net()
    rt.data_parallel(net)
    for part in whole(12).split(4):  # one copy of the parameters serves three backward passes
        net(part).square().sum().backward()
    return torch.cat([one.grad.flatten() for one in net.parameters()])


def test_gradients_of_several_backward_passes_add_up() -> None:
    (expected,) = on_ranks(_accumulated, ranks=1)
    for found in on_ranks(_accumulated):
        torch.testing.assert_close(found, expected)


def _compiled() -> Any:
    torch.manual_seed(1)
    net = Net()
    rt.data_parallel(net)
    compiled = torch.compile(net, backend="eager")
    compiled(whole()).square().sum().backward()
    compiled(whole()).square().sum().backward()
    return net.seen[-1], torch.cat([one.grad.flatten() for one in net.parameters()])


def test_a_compiled_model_is_shared() -> None:
    ((_, expected),) = on_ranks(_compiled, ranks=1)
    for seen, found in on_ranks(_compiled):
        assert seen == 4
        torch.testing.assert_close(found, expected)


def _exported_by_one_rank() -> Any:
    net = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    rt.data_parallel(net)
    net(whole())
    if rt.rank() == 0:
        with warnings.catch_warnings(action="ignore"):  # of what torch would not have people use any more
            torch.jit.trace(net, whole(), check_trace=False)
            torch.jit.trace(net.eval(), whole())
            torch.jit.script(net)
        torch.export.export(net.eval(), (whole(),))
        net.train()
    return net(whole()).shape, torch.rand(1).item()


def test_one_rank_alone_can_export_a_model() -> None:
    first, second = on_ranks(_exported_by_one_rank, timeout=90)
    assert first == second


# ---- what must not go on


def _other_batches() -> None:
    net = Net()
    rt.data_parallel(net)
    net(whole() + rt.rank())


def test_ranks_with_different_batches_end_with_the_arguments_name() -> None:
    with pytest.raises(RankFailed, match=r"tensor 1 of the arguments of Net .call 1. is not the same on all ranks"):
        on_ranks(_other_batches)


def _other_losses() -> None:
    net = Net()
    rt.data_parallel(net)
    (net(whole()).sum() * (1 + rt.rank())).backward()


def test_ranks_with_different_losses_end_with_both() -> None:
    with pytest.raises(RankFailed, match="in backward pass 1 they go back from different losses"):
        on_ranks(_other_losses)


def _one_rank_calls() -> None:
    net = Net()
    rt.data_parallel(net)
    net(whole())
    if rt.rank() == 0:
        net.eval()
        net(whole())
    net.train()
    net(whole())


def test_a_call_that_one_rank_makes_ends_the_run() -> None:
    with pytest.raises(RankFailed, match="the ranks have come apart"):
        on_ranks(_one_rank_calls, timeout=30)


def _kept_outside(from_step: int) -> Any:
    torch.manual_seed(1)
    net, kept = Net(), []
    rt.data_parallel(net)
    found = []
    for step in range(8):
        if step == from_step:
            net.body.register_forward_hook(lambda module, args, out: kept.append(out))
        kept.clear()
        net.zero_grad()
        out = net(whole())
        (out.sum() + sum(one.square().sum() for one in kept)).backward()
        found.append(torch.cat([one.grad.flatten() for one in net.parameters()]))
    return torch.stack(found)


@pytest.mark.parametrize("from_step", [0, 5])
def test_what_a_hook_keeps_can_be_trained_on(from_step: int) -> None:
    (expected,) = on_ranks(_kept_outside, from_step, ranks=1)
    for found in on_ranks(_kept_outside, from_step):
        torch.testing.assert_close(found, expected)


class Sometimes(Net):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] = []

    def forward(self, samples: Tensor) -> Tensor:
        hidden = self.body(samples)
        if len(self.seen) > 9:
            self.kept.append(hidden)
        self.seen.append(len(samples))
        out: Tensor = self.head(hidden)
        return out


def _trained_on_part() -> None:
    net = Sometimes()
    rt.data_parallel(net)
    for _ in range(9):
        out = net(whole())
        (out.sum() + sum(one.square().sum() for one in net.kept)).backward()


def test_a_part_that_is_kept_between_two_checks_cannot_be_trained_on() -> None:
    with pytest.raises(RankFailed, match="kept from inside of a shared forward pass"):
        on_ranks(_trained_on_part)


def _lists_of_models() -> tuple[list[list[int]], list[float]]:
    nets = nn.ModuleList([Net(), Net()])
    later = nn.ModuleList()
    rt.data_parallel(nets, nn.ModuleDict({"inner": nets}), later)
    later.append(nn.Linear(3, 1))
    optimizer = torch.optim.SGD([*nets.parameters(), *later.parameters()], lr=0.1)
    for _ in range(25):
        optimizer.zero_grad()
        loss = torch.stack([later[0](net(whole())).square().mean() for net in nets]).sum()
        loss.backward()
        optimizer.step()
    return [list(net.seen)[-3:] for net in nets if isinstance(net, Net)], [loss.item()]


def test_what_only_holds_models_stands_for_them() -> None:
    [(_, expected)] = on_ranks(_lists_of_models, ranks=1)
    for seen, loss in on_ranks(_lists_of_models):
        assert seen == [[4, 4, 4]] * 2
        assert loss == pytest.approx(expected)


def _only_lists_that_are_filled_later() -> None:
    later = nn.ModuleList()
    rt.data_parallel(later)
    later.append(nn.Linear(5, 1))
    optimizer = torch.optim.SGD(later.parameters(), lr=0.1)
    for _ in range(25):
        later[0](whole()).square().mean().backward()
        optimizer.step()


def test_a_list_that_is_empty_is_no_model_that_could_not_be_shared() -> None:
    """Every rank does all of the work, which is right, and said."""
    on_ranks(_only_lists_that_are_filled_later)


class Bags(nn.Module):
    """Of one bag of instances, most of the work is done for each instance."""

    def __init__(self) -> None:
        super().__init__()
        self.instances = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8))
        self.weight, self.head = nn.Linear(8, 1), nn.Linear(8, 2)

    def forward(self, bag: Tensor) -> Tensor:
        found = self.instances(bag.squeeze(0))
        return self.head((self.weight(found).softmax(0) * found).sum(0, keepdim=True))


def _one_bag_in_each_step(shares: bool) -> list[float]:
    torch.manual_seed(0)
    net = Bags().double()
    if shares:
        rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(25):
        bag = torch.randn(1, 6 + 2 * (step % 3), 4, dtype=torch.float64)
        loss = nn.functional.cross_entropy(net(bag), torch.tensor([step % 2]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [one.sum().item() for one in net.parameters()]


def test_of_a_single_sample_the_parts_share_what_it_is_made_of() -> None:
    first, second = on_ranks(_one_bag_in_each_step, True)
    assert first == second == pytest.approx(_one_bag_in_each_step(False), abs=1e-12)


class Failing(Net):
    calls = 0

    def forward(self, samples: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 12 and rt.rank() == 1:
            raise RuntimeError("out of memory")
        return super().forward(samples)


def _skips_a_batch() -> None:
    net = Failing()
    rt.data_parallel(net)
    for _ in range(20):
        try:
            net(whole()).sum().backward()
        except RuntimeError:
            net.zero_grad()


def test_a_batch_that_one_rank_alone_skips_ends_the_run_with_what_it_failed_with() -> None:
    with pytest.raises(RankFailed, match=r"rank 1 failed: RuntimeError: out of memory"):
        on_ranks(_skips_a_batch, timeout=30)


class Skipping(Net):
    alike, drops = False, False

    def forward(self, samples: Tensor) -> Tensor:
        with rt.draw_alike() if self.alike else nullcontext():
            deep = bool(torch.rand(1) < 0.5)
        hidden = self.norm(self.body(samples)) if deep else self.body(samples)
        out: Tensor = self.last(self.head(hidden))
        return nn.functional.dropout(out, 0.5) if self.drops else out


def _skips_layers(alike: bool, drops: bool = False) -> Any:
    torch.manual_seed(1)
    net = Skipping()
    net.drops = drops
    net.head = nn.Linear(7, 7)
    net.norm, net.last, net.alike = nn.BatchNorm1d(7), nn.BatchNorm1d(7), alike
    rt.data_parallel(net)
    return [net(whole()).tolist() for _ in range(20)]


def test_layers_that_each_rank_skips_by_its_own_chance_end_the_run() -> None:
    """What is drawn for the batch is not told from what is drawn for samples where both come out of torch's stream."""
    with pytest.raises(RankFailed, match="the ranks have come apart"):
        on_ranks(_skips_layers, False, True, timeout=60)


@pytest.mark.parametrize("alike", [True, False])
def test_layers_that_are_skipped_by_chance_are_skipped_alike(alike: bool) -> None:
    """Said or not: a part of a batch tosses as many coins as the whole."""
    first, second = on_ranks(_skips_layers, alike)
    assert first == second
    assert 1 < len({str(one) for one in first}) < 20


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rest = nn.Embedding(7, 4), nn.Linear(4, 2)

    def forward(self, graph: Any) -> Tensor:
        out: Tensor = self.rest(self.embedding(graph.words))
        return out


class Graph:
    def __init__(self) -> None:
        self.words = torch.arange(6)


def _given_something_else() -> Any:
    net = Tokens()
    rt.data_parallel(net)
    for _ in range(3):
        out = net(Graph())
    found = shared_model(net)
    assert found is not None
    return out.shape, found.given_up, [part.is_shared for part in found.parts]


def test_the_parts_of_a_model_are_shared_where_it_is_given_what_cannot_be_taken_apart() -> None:
    why = "it is given an object of class Graph, of which no part can be taken"
    assert on_ranks(_given_something_else) == [((6, 2), why, [True, True])] * 2


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(7, 4), nn.LSTM(4, 5, 2, dropout=0.5), nn.Linear(5, 7)

    def forward(self, words: Tensor) -> Tensor:
        noise = 1 + 0.1 * torch.randn(words.shape[1], 1)
        out, _ = self.lstm(F.dropout(self.embedding(words)) * noise)
        found: Tensor = self.head(F.dropout(out, 0.3)).view(-1, 7)
        return found


class NearlyEven(Dropping):
    def forward(self, words: Tensor) -> Tensor:
        return F.log_softmax(super().forward(words) * 0.01, 1)


def _hardly_differ() -> Any:
    torch.manual_seed(1)
    net = NearlyEven()
    rt.data_parallel(net)
    out = net(torch.arange(6 * 9).view(6, 9) % 7)
    found = shared_model(net)
    assert found is not None
    return out.shape, found.given_up


def test_numbers_that_are_all_nearly_the_same_still_tell_which_is_whose() -> None:
    assert on_ranks(_hardly_differ) == [((54, 7), "")] * 2


def _drops_along_time() -> Any:
    net = Dropping()
    rt.data_parallel(net)
    out = [net(torch.arange(6 * 9).view(6, 9) % 7).shape for _ in range(3)]
    found = shared_model(net)
    assert found is not None
    return out, found.given_up


def test_dropout_and_noise_are_no_reason_to_compute_whole_wherever_the_batch_is() -> None:
    assert on_ranks(_drops_along_time) == [([(54, 7)] * 3, "")] * 2


def _writes_into_its_arguments() -> Any:
    torch.manual_seed(1)
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(5, 3))
    rt.data_parallel(net)
    samples = whole()
    for _ in range(3):
        net(samples).sum().backward()
    found = shared_model(net)
    assert found is not None
    return samples.min().item(), found.given_up, found.is_shared


def test_a_model_that_writes_into_its_arguments_sees_them_whole() -> None:
    assert (
        on_ranks(_writes_into_its_arguments) == [(0.0, "it returns what it has written into its arguments", True)] * 2
    )


def _told(meeting: float, computing: float, loading: float = 0.0, spared: float = 0.0) -> str:
    """Of a step of 30 ms: where its time goes, in ms."""
    costs._steps = 0
    with redirect_stderr(io.StringIO()) as said:
        for _ in range(40):
            costs.step()
            costs._began -= 0.03
            costs._taken[costs.SUMS] += meeting / 2e3
            costs._taken["OUTPUTS"] += meeting / 2e3
            costs._taken["OUTPUTS"] += 1e-4
            costs._taken[costs.COMPUTING] += computing / 1e3
            costs._taken[costs.LOADING] += loading / 1e3
            costs.spared(spared / 1e3)
    return said.getvalue()


@gpus.on_cpus_only("beside a GPU, a rank's own clock says little")
def test_where_sharing_costs_more_than_it_saves_is_said_once() -> None:
    (text, nothing) = on_ranks(_told, 3.0, 1.0)
    assert text.count("exchanging takes 3.1 ms, most of it gathering outputs (1.6 ms)") == 1
    assert "1.0 ms of computing and loading are spared" in text
    assert nothing == ""  # rank 0 speaks
    assert on_ranks(_told, 1.0, 3.0) == ["", ""]
    assert on_ranks(_told, 3.0, 1.0, 5.0, 4.0) == ["", ""]


def test_what_most_of_a_step_goes_to_is_said() -> None:
    (text, _) = on_ranks(_told, 1.0, 3.0, 20.0)
    assert "most of a step is loading: 20.0 of 30." in text


def _loads() -> float:
    before = costs.taken(costs.LOADING)
    rt.data_parallel(nn.Linear(2, 2))
    rows: Any = range(4)
    for _ in DataLoader(rows, collate_fn=lambda row: time.sleep(0.05)):
        pass
    return costs.taken(costs.LOADING) - before


def test_waiting_for_a_loader_is_timed() -> None:
    assert all(found >= 0.2 for found in on_ranks(_loads))


class Target(nn.Module):
    """As in BYOL: each forward pass moves the parameters of a second network."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            for online, target in zip(self.online.parameters(), self.target.parameters(), strict=True):
                target.data = target.data * 0.9 + online.data * 0.1
        return self.online(samples), self.target(samples)


def _follows_a_target(share: bool) -> list[float]:
    torch.manual_seed(0)
    net = Target().double()
    if share:
        rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.online.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        online, target = net(whole().double())
        loss = (online - target.detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_parameters_that_forward_moves_are_moved_once() -> None:
    shared, same = on_ranks(_follows_a_target, True)
    assert shared == same
    assert shared == pytest.approx(_follows_a_target(False), abs=1e-12)


class Trains(nn.Module):
    """Takes the step in its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(5, 3)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def encode(self, samples: Tensor) -> Tensor:
        out: Tensor = self.body(samples)
        return out

    def forward(self, samples: Tensor) -> float:
        loss = self.encode(samples).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def _steps_inside(ranks: bool, forward: bool) -> list[float]:
    torch.manual_seed(0)
    net = Trains().double()
    if ranks:
        rt.data_parallel(net, methods=("encode",), forward=forward)
    return [net(whole().double()) for _ in range(4)]


def test_a_step_inside_of_a_forward_pass_is_taken_once_or_not_at_all() -> None:
    wanted = _steps_inside(False, False)
    assert on_ranks(_steps_inside, True, False) == [pytest.approx(wanted, abs=1e-12)] * 2
    with pytest.raises(RankFailed, match="an optimizer takes a step inside of a forward pass that ranks share"):
        on_ranks(_steps_inside, True, True)


class Scaled(nn.Module):
    """Could be split along any dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.seen = nn.Parameter(torch.tensor(0.5)), array("i")

    def forward(self, samples: Tensor) -> Tensor:
        self.seen.extend(samples.shape)
        return (samples * self.scale).tanh()


def _few_samples(kind: type[Net] | type[Scaled], sizes: list[int]) -> Any:
    net, said = kind(), io.StringIO()
    rt.data_parallel(net)
    out = []
    with redirect_stderr(said):
        for size in sizes:
            before = len(net.seen)
            net(whole(size)).square().mean().backward()
            out.append(net.seen[before:].tolist())
    shared = shared_model(net)
    return out, shared and shared.given_up, said.getvalue().count("fewer samples")


def test_batches_smaller_than_the_world_are_computed_whole_without_a_check_and_say_nothing_about_larger_ones() -> None:
    found, given_up, _ = on_ranks(_few_samples, Net, [1, 1, 8, 8, 1, 1, 1, 8])[0]
    assert given_up == ""
    assert [found[1], *found[4:]] == [[1], [1], [1], [1], [4]]
    for found, given_up, _ in on_ranks(_few_samples, Scaled, [1, 1, 1, 8, 8, 1, 8]):
        assert (given_up, found[-1]) == ("", [4, 5])


def test_batches_in_which_nothing_can_be_split_are_said_once() -> None:
    told = on_ranks(_few_samples, Net, [8, 8, 1, 0, 1])
    assert [said for *_, said in told] == [1, 0]
