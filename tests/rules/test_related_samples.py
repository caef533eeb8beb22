"""What relates the samples of a batch where that is easily overlooked: each rank would relate those of its share."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import DATA, LOOP, conversion_of, converted, script

IMPORTS = """\
import copy
import statistics

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
OWN = """\
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a=1.0):
        ctx.save_for_backward(x)
        ctx.a = a
        return {}

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return {}, None


"""


def of_a_loader(turn: str, setup: str = "", loss: str = "F.mse_loss(model(x), y)") -> str:
    turn = turn.replace("\n", "\n        ")
    loop = LOOP.replace("        loss = nn.functional.mse_loss(model(x), y)", f"        {turn}\n        loss = {loss}")
    return script(imports=IMPORTS, setup=setup, loop=loop, data=DATA)


def strategy(before: str) -> Strategy:
    return conversion_of(before, options=Options()).strategy


@pytest.mark.parametrize(
    "turn",
    [
        "x = x / max(x[:, 0]).item()",
        "x = x + torch.fft.fft(x[:, 0]).real[:, None]",
        "x = x + torch.from_numpy(np.convolve(x[:, 0].numpy(), np.ones(3), 'same')[:, None]).float()",
        "x = x / max(x[:, 0].tolist())",
        "x = x - statistics.mean(x[:, 0].tolist())",
        "x = x - sorted(x[:, 0].tolist())[len(x) // 2]",
        "x = x / len(set(y[:, 0].tolist()))",
        "x = x / len(torch.unique(y))",
        "x = x - float(np.percentile(x.numpy(), 50))",
        "x = x / float(np.ptp(x.numpy()))",
        "x = x - torch.from_numpy(np.nanmax(x.numpy(), 0))",
        "x = torch.gradient(x)[0]",
        "x = x / torch.nuclear_norm(x)",
    ],
)
def test_functions_of_all_samples(turn: str) -> None:
    assert strategy(of_a_loader(turn)) is Strategy.SHARED


@pytest.mark.parametrize(
    "turn",
    [
        "x = x / torch.max(x, dim=1, keepdim=True)[0]",
        "x = x * max(0.5, 1 / (1 + epoch))",
        "x = x - torch.quantile(x, 0.5, dim=1, keepdim=True)",
        "x = x - torch.from_numpy(np.percentile(x.numpy(), 50, axis=1, keepdims=True))",
        "sorted(y[:, 0].tolist()), max(y[:, 0].tolist()), len(set(y[:, 0].tolist()))",
        "x = torch.gradient(x, dim=1)[0]",
        "x = torch.fft.fft(x, dim=1).real",
        "x = torch.fft.fft(x[:, None, :]).real[:, 0]",
        "x = x + F.softmax(torch.bmm(x[:, :, None], x[:, None]), dim=-1).sum(2)",
        "x = x + torch.baddbmm(torch.zeros(1, 4, 4), x[:, :, None], x[:, None]).softmax(-1).sum(2)",
    ],
)
def test_functions_of_each_sample(turn: str) -> None:
    assert strategy(of_a_loader(turn)) is Strategy.SHARDED


@pytest.mark.parametrize(
    ("loss", "relates"),
    [
        ("torch.max(0.9 * e, -0.1 * e)", False),
        ("torch.max(0.9 * e, other=-0.1 * e)", False),
        ("(0.9 * e).min(-0.1 * e)", False),
        ("torch.min(torch.max(e, -e), torch.zeros(1))", False),
        ("torch.max(torch.zeros(1), e)", False),
        ("torch.max(e, dim=1)[0]", False),
        ("torch.max(e, 1)[0]", False),
        ("torch.max(e, e.flip(0))", True),
        ("e.max(torch.cumsum(e, 0))", True),
        ("torch.max(e, 0)[0]", True),
        ("torch.max(e, epoch)[0]", True),
        ("e * torch.max(e)", True),
        ("e * e.max()", True),
    ],
)
def test_the_larger_of_two_tensors_is_of_each_sample(loss: str, relates: bool) -> None:
    """`torch.max(a, b)` goes entry by entry; with a dimension, or nothing, it goes through one tensor."""
    turn = f"        e = model(x) - y\n        loss = ({loss}).mean()"
    loop = LOOP.replace("        loss = nn.functional.mse_loss(model(x), y)", turn)
    after = converted(script(imports=IMPORTS, loop=loop, data=DATA), options=Options())
    alone = "DistributedDataParallel(model" in after and "rt.gather" not in after
    assert alone is not relates


@pytest.mark.parametrize(
    ("forward", "backward", "relates"),
    [
        ("x - x.mean(0)", "g", True),
        ("x[torch.argsort(x[:, 0])]", "g", True),
        ("x.view_as(x)", "g.neg() * ctx.a", False),
        ("(x > 0).float()", "g", False),
        ("x * x", "2 * x * g", False),
        ("x.sign()", "g * (x.abs() <= 1)", False),
    ],
)
def test_functions_that_autograd_is_told(forward: str, backward: str, relates: bool) -> None:
    """A mean is not put together over the ranks where no gradients are recorded, as in a function's `forward`."""
    before = of_a_loader("x = Own.apply(x)", OWN.format(forward, backward))
    assert (strategy(before) is Strategy.SHARED) is relates


def test_a_gradient_that_relates_samples_sees_all_of_them() -> None:
    before = of_a_loader("out = Own.apply(model(x))", OWN.format("x.clone()", "g / g.norm()"), "F.mse_loss(out, y)")
    after = converted(before, options=Options())
    assert "        out = Own.apply(rt.gather_samples(model(x)))\n" in after


def test_what_a_copy_of_a_module_returns_is_of_each_sample() -> None:
    loop = LOOP.replace("        loss = ", "        t = teacher(x)\n        t = t - t.mean(0)\n        loss = ")
    loop = "teacher = copy.deepcopy(model)\n" + loop.replace("mse_loss(model(x), y)", "mse_loss(model(x), t)")
    after = converted(script(imports=IMPORTS, loop=loop), options=Options())
    assert "        t = t - rt.mean_over_ranks(t.mean(0))\n" in after


@pytest.mark.parametrize(
    "rows",
    [
        "for i in range(len(x)):\n    out[i] = 0.8 * x[i] + 0.2 * x[(i + 1) % len(x)]",
        "for i in range(len(x)):\n    other = x[i - 1]\n    out[i] = x[i] + other",
        "for i in range(len(x)):\n    for j in range(len(x)):\n        out[i] += 0.1 * x[j]",
        "order = torch.randperm(len(x))\nfor i in range(len(x)):\n    out[i, :2] = x[order[i], :2]",
        "for i in range(len(x) - 1):\n    out[i + 1] = 0.5 * out[i] + x[i + 1]",
        "for i in range(len(x)):\n    out[i].copy_(x[len(x) - 1 - i])",
        "last = 0\nfor i in range(len(x)):\n    out[i] = x[i] + last\n    last = x[i]",
        "seen = {}\nfor i, k in enumerate(y[:, 0].tolist()):\n    out[i] = x[i] + seen.get(k, 0)\n    seen[k] = x[i]",
        "seen = []\nfor i in range(len(x)):\n    seen.append(x[i])\n    out[i] = x[i] + seen[-2]",
        "seen = {'last': 0}\nfor i in range(len(x)):\n    out[i] = x[i] + seen['last']\n    seen['last'] = x[i]",
        "first = x[0]\nfor i in range(len(x)):\n    out[i] = x[i] - first",
        "for i, (a, b) in enumerate(zip(x, x.flip(0))):\n    out[i] = a + b",
        "other = x.flip(0)\nfor i in range(len(x)):\n    out[i] = x[i] + other[i]",
        "for i, row in enumerate(x.sort(0)[0]):\n    out[i] = row",
        "rows = list(x)\nfor i in range(len(x)):\n    out[i] = rows[i] + rows[i - 1]",
        "rows = [row for row in x]\nout = torch.stack([rows[i] + rows[i - 1] for i in range(len(rows))])",
        "last = 0\nfor i, row in enumerate(x):\n    out[i] = row + last\n    last = row",
        "def mix(i, j):\n    out[i] = x[i] + x[j]\nfor i in range(len(x)):\n    mix(i, len(x) - 1 - i)",
    ],
)
def test_rows_that_are_made_of_rows_at_other_places(rows: str) -> None:
    assert strategy(of_a_loader(f"out = x.clone()\n{rows}\nx = out")) is Strategy.SHARED


@pytest.mark.parametrize(
    "rows",
    [
        "for i in range(len(x)):\n    out[i] = 0.8 * x[i] + 0.2 * x[i].abs()",
        "for i, label in enumerate(y):\n    out[i] = x[i] * 2 if label > 0 else x[i]",
        "for i in range(x.size(0)):\n    row = x[i]\n    row = row.flip(0)\n    out[i] = row",
        "for i in range(x.size(0)):\n    if y[i] > 0:\n        out[i] += 0.1 * x[i]",
        "for i, row in enumerate(x):\n    out[i] = row.flip(0)",
        "for i in range(len(x)):\n    out[i].copy_(x[i])\nfor j in range(len(x)):\n    out[j].mul_(y[j])",
        "for i in range(len(x)):\n    out[i, int(y[i]) :] = 0",
        "for i in range(len(x)):\n    pair = [x[i], y[i]]\n    out[i] = pair[0] * pair[1]",
        "for i, (a, b) in enumerate(zip(x, y)):\n    out[i] = a + b",
        "other = x.flip(1)\nfor i in range(len(x)):\n    out[i] = x[i] + other[i]",
        "other = x - x.mean(0)\nfor i in range(len(x)):\n    out[i] = other[i] / other[i].max()",
        "rows = list(x)\nfor i in range(len(x)):\n    out[i] = rows[i] * 2",
        "rows = [row for row in x]\nout = torch.stack([rows[i] * 2 for i in range(len(rows))])",
        "def twice(i):\n    out[i] = x[i] * 2\nfor i in range(len(x)):\n    twice(i)",
    ],
)
def test_rows_that_are_made_of_the_row_at_their_place(rows: str) -> None:
    assert strategy(of_a_loader(f"out = x.clone()\n{rows}\nx = out")) is Strategy.SHARDED


NOISE = """\
noise, bank = torch.randn(8, 4), torch.randn(100, 4)
maker = nn.Linear(4, 4)
"""
BESIDE = "puts rows beside those of a batch"


def of_joined(turn: str, loss: str = "model(z).mean()") -> str:
    return of_a_loader(turn, NOISE, loss)


@pytest.mark.parametrize(
    "turn",
    [
        "z = torch.cat([x, noise])",
        "z = torch.cat((noise, x), 0)",
        "z = torch.cat(tensors=[x, noise])",
        "z = torch.cat([x, torch.rand(8, 4)])",
        "z = torch.cat([x, bank[torch.randint(0, 100, (8,))]], dim=0)",
        "z = torch.cat([x, maker(noise)])",
        "z = torch.cat([x, x.new_zeros(1, 4)])",
        "z = torch.vstack([x, noise])",
        "z = torch.from_numpy(np.concatenate([x.numpy(), noise.numpy()]))",
        "parts = [x]\nparts.append(noise)\nz = torch.cat(parts)",
        "parts = []\nparts.append(x)\nparts.append(noise)\nz = torch.cat(parts)",
        "parts = [noise]\nfor k in range(2):\n    parts.append(x * k)\nz = torch.cat(parts)",
        "z = torch.cat([torch.cat([torch.zeros(0, 4), noise]), x])",
    ],
)
def test_rows_that_are_no_share_beside_those_of_one(turn: str) -> None:
    """Of 8 samples and 8 others, each of two ranks would have 4 and 8."""
    for loss in ("model(z).mean()", "model(z).chunk(2)[0].mean() - model(z).chunk(2)[1].mean()"):
        conversion = conversion_of(of_joined(turn, loss), options=Options())
        assert conversion.strategy is Strategy.SHARED
        assert any(BESIDE in one.message for one in conversion.of(Level.ADVICE))


@pytest.mark.parametrize(
    "turn",
    [
        "z = torch.cat([x, x * 2])",
        "z = torch.cat([x, torch.randn_like(x)])",
        "z = torch.cat([x, torch.rand(x.size())])",
        "z = torch.cat([x, maker(torch.randn(len(x), 4))])",
        "z = torch.cat([x, torch.zeros(x.size(0), 4), torch.ones_like(x)])",
        "z = torch.cat([x, x.new_zeros(x.shape[0], 4)])",
        "z = torch.cat([x, noise[:1].expand(len(x), -1)])",
        "z = torch.cat([x, noise[:1].repeat(len(x), 1)])",
        "z = torch.cat([x, bank[torch.randint(0, 100, (len(x),))]])",
        "z = torch.cat([x, torch.from_numpy(np.random.randn(len(x), 4)).float()])",
        "z = torch.cat([x[:, :2], torch.ones(len(x), 2)], dim=1)",
        "z = torch.cat([x.t()[:2], torch.zeros(2, len(x))]).t()",
        "z = torch.zeros(0, 4)\nfor k in range(2):\n    z = torch.cat([z, x * k])",
        "z = torch.empty((0, 4)).to('cpu')\nfor k in range(2):\n    z = torch.cat((z, x * k), dim=0)",
        "z = torch.tensor([])\nfor k in range(2):\n    z = torch.cat([z, x * k])",
        "z = torch.Tensor()\nfor k in range(2):\n    z = torch.cat([z, x * k])",
        "z = torch.cat([x, x.new_empty(0, 4)])",
        "parts = []\nfor k in range(2):\n    parts.append(x * k)\nz = torch.cat(parts)",
        "str(torch.cat([x, noise]).shape)\nz = x",
    ],
)
def test_rows_of_one_share_beside_each_other(turn: str) -> None:
    assert strategy(of_joined(turn)) is Strategy.SHARDED


RELATED = "real, fake = model(torch.cat([x, {}])).chunk(2)"


@pytest.mark.parametrize("other", ["x * 2", "torch.randn_like(x)", "maker(torch.randn(len(x), 4))"])
def test_parts_of_one_share_are_gathered_as_views(other: str) -> None:
    before = of_joined(RELATED.format(other), "(real.std() - fake.std()).abs()")
    gathered = f"rt.gather_samples(model(torch.cat([x, {other}])), views=2).chunk(2)"
    assert gathered in converted(before, options=Options())


def test_parts_of_two_loaders_are_no_views_of_one_size() -> None:
    """A rank has as many rows of each as their batch sizes say."""
    setup = "more = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=16)\nmore = iter(more)\n"
    before = of_a_loader("(u,) = next(more)\nboth = model(torch.cat([x, u]))", setup, "both.std()")
    assert strategy(before) is Strategy.SHARED  # gathered, they would stand rank by rank


BANK = """\
memory, seen = torch.randn(64, 4), torch.zeros(64)


def update(memory, index, x):
    {update}


class Compared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, memory):
        ctx.save_for_backward(x, y, memory)
        ctx.memory = memory
        return x @ memory.t()

    @staticmethod
    def backward(ctx, g):
        x, y, bank = ctx.saved_tensors
        grad = g @ bank
        {backward}
        return grad, None, None


class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("memory", torch.randn(64, 4))

    def forward(self, x, y):
        return Compared.apply(x, y, self.memory)


bank = Bank()
embed = nn.Linear(1, 4)
"""
WRITE = "memory.index_copy_(0, index, x)"
TURN = "i = y[:, 0].long()\no = embed(model(x))\n"
AGAINST = f"{TURN}o = o @ memory.t()\n"


def of_a_bank(turn: str, update: str = "pass", backward: str = "pass") -> str:
    setup = BANK.replace("{update}", update.replace("\n", "\n    ")).replace("{backward}", backward)
    return of_a_loader(turn, setup, "F.cross_entropy(o, i)")


@pytest.mark.parametrize(
    ("turn", "update", "backward"),
    [
        (f"{AGAINST}memory.index_copy_(0, i, x)", "", ""),
        (f"{AGAINST}update(memory, i, x)", WRITE, ""),
        (f"{AGAINST}update(x=x, memory=memory, index=i)", "memory[index] = 0.5 * memory[index] + 0.5 * x", ""),
        (f"{AGAINST}update(memory.data, i, x)", f"memory = memory.view(64, 4)\n{WRITE}", ""),
        (f"{AGAINST}other = memory\nother[i] = x", "", ""),
        (f"{AGAINST}other, count = memory, seen\nother[i] = x", "", ""),
        (f"{AGAINST}other: torch.Tensor = memory\nother[i] = x", "", ""),
        (f"{AGAINST}half = memory[:32]\nhalf.index_add_(0, i, x)", "", ""),
        (f"{AGAINST}memory.scatter_reduce_(0, i[:, None].expand(-1, 4), x, 'mean')", "", ""),
        (f"{TURN}o = Compared.apply(o, i, memory)", "", "bank.index_copy_(0, y, x)"),
        (f"{TURN}o = Compared.apply(o, i, memory)", "", "ctx.memory.index_copy_(0, y, x)"),
        (f"{TURN}o = Compared.apply(o, i, memory)", WRITE, "update(bank, y, x)"),
        (f"{TURN}o = bank(o, i)", "", "bank[y] = x"),
    ],
)
def test_what_is_written_into_a_tensor_by_another_name_of_it(turn: str, update: str, backward: str) -> None:
    """A parameter, an attribute, what autograd keeps for a backward pass: each rank would keep what is of its share."""
    conversion = conversion_of(of_a_bank(turn, update or "pass", backward or "pass"), options=Options())
    gathered = "what the models return is gathered: all ranks compute the loss of the whole batch"
    seen = [one.message for one in conversion.findings]
    assert gathered in seen or any("what earlier batches left behind" in one for one in seen)


@pytest.mark.parametrize(
    ("turn", "update", "backward"),
    [
        (AGAINST, "", ""),
        (f"{AGAINST}update(memory, i, x)", f"memory = memory.clone()\n{WRITE}", ""),
        (f"{AGAINST}update(torch.zeros(64, 4), i, x)", WRITE, ""),
        (f"{AGAINST}mine = torch.zeros(64, 4)\nupdate(mine, i, x)", WRITE, ""),
        (f"{AGAINST}update(memory[:2], i, x)", "rows = memory * 1\nrows[index] = x", ""),
        (f"{AGAINST}update(memory, i, x)", "memory.mul_(0.9)", ""),
        (f"{TURN}o = Compared.apply(o, i, memory)", "", "grad[x < 0] = 0"),
        (f"{TURN}o = Compared.apply(o, i, memory)", "", "grad = grad * (x > 0) * ctx.memory.sum()"),
        (f"{TURN}o = bank(o, i)", "", "bank = bank + 1"),
    ],
)
def test_what_is_written_into_another_tensor(turn: str, update: str, backward: str) -> None:
    conversion = conversion_of(of_a_bank(turn, update or "pass", backward or "pass"), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert not [one for one in conversion.findings if one.code == "GATHER01" and one.level is Level.APPLIED]


def test_gradients_of_weights_are_sums_over_samples() -> None:
    own = OWN.format("x @ a", "g @ ctx.a.t(), x.t() @ g").replace(", None", "")
    before = of_a_loader("x = Own.apply(x, torch.eye(4))", own)
    assert strategy(before) is Strategy.SHARDED
