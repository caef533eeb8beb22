"""Samples of a batch that are changed in place by where they lie in it: in a rank's share others lie there."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import LOOP, conversion_of, script

TOLD = ("says of the places of samples", "takes rows by numbers that are counted")


def of_a_loader(turn: str) -> str:
    turn = turn.replace("\n", "\n        ")
    return script(loop=LOOP.replace("        loss = ", f"        {turn}\n        loss = "))


SOME = [
    "x[:2].zero_()",
    "x[0].mul_(2)",
    "x[0][0] = 0",
    "x[-1].add_(1)",
    "x[::2].mul_(2)",
    "x[len(x) // 2 :].neg_()",
    "x[[0, 1]] = 0",
    "idx = torch.tensor([0, 3])\nx[idx] = 0",
    "x[range(3)] = 0",
    "x.narrow(0, 0, 4).zero_()",
    "x.view(2, 4, 4)[0] = 0",
    "torch.mul(x[:2], 2, out=x[:2])",
    "half = x[: len(x) // 2]\nhalf *= 2",
    "half = x[: len(x) // 2]\nhalf.mul_(2)",
    "a, b = x.chunk(2)\na.mul_(2)",
    "a, b = x.split(4)\nb += 1",
    "rows = x.unbind(0)\nrows[1].zero_()",
    "rows = list(x)\nrows[0].zero_()",
    "first = x[0]\nfor row in x:\n    row.sub_(first)",
    "x[y[:, 0].long()] = -100",
]
IN_TURNS = [
    "for row in x[:3]:\n    row.zero_()",
    "for row in x[::2]:\n    row.mul_(2)",
    "for i, row in enumerate(x):\n    row.mul_(i)",
    "for i, row in enumerate(x):\n    row += i",
    "for i, row in enumerate(x):\n    if i % 2:\n        row.zero_()",
    "for i in range(0, len(x), 2):\n    x[i] *= 2",
    "for i in range(1, len(x)):\n    x[i] = 0",
    "for i in range(len(x) // 2):\n    x[i] = 0",
    "for i in range(4):\n    x[i].mul_(2)",
    "for i in (1, 3):\n    x[i].mul_(3)",
    "for i in range(len(x)):\n    if i == 0:\n        continue\n    x[i] = 0",
    "for i in range(len(x)):\n    if i == 3:\n        break\n    x[i].zero_()",
    "for row, k in zip(x, range(100)):\n    row.mul_(k)",
    "for row, other in zip(x, x.flip(0)):\n    row.copy_(other)",
    "last = torch.zeros(4)\nfor row in x:\n    row.add_(last)\n    last = row",
    "m = torch.ones_like(x)\nfor i, row in enumerate(m):\n    row.mul_(i)\nx = x * m",
    "m = torch.ones(len(x), 1)\nfor i in range(0, len(x), 2):\n    m[i] = 0\nx = x * m",
]
EACH = [
    "x[:, :2].zero_()",
    "x[:, 0].mul_(2)",
    "x[y[:, 0] > 0] = -100",
    "a, b = x.chunk(2, 1)\na.mul_(2)",
    "for row in x:\n    row.mul_(2)",
    "for row in list(x):\n    row += 1",
    "for row in x:\n    if row[0] > 0:\n        row.zero_()",
    "for row, t in zip(x, y):\n    row.mul_(t)",
    "for i, row in enumerate(x):\n    row.mul_(y[i])",
    "for i in range(len(x)):\n    x[i] *= 2",
    "for i in range(0, x.size(0)):\n    x[i].mul_(2)",
    "for i in range(x.shape[0]):\n    if y[i] > 0:\n        x[i] = 0",
    "for j in range(x.size(1)):\n    x[:, j] *= j",
    "for j in range(4):\n    if j == 2:\n        continue\n    x[:, j] = 0",
    "w = torch.linspace(0, 1, 4)\nfor i in range(len(x)):\n    x[i] *= w",
    "m = torch.zeros_like(x)\nfor i in range(len(x)):\n    m[i] = x[i] * 2\nx = m",
]
#: The same under other names: views, lists, records, what functions return; by functions in place of methods.
NAMES = """
def first(t):
    return t[:1]
def swap(t):
    t[0], t[1] = t[1].clone(), t[0].clone()
def alias(t):
    u = t
    u[0] = 0
def each(*ts):
    for t in ts:
        t[0] = 0
class Mask:
    def __call__(self, t):
        t[0] = 0
class Holder:
    def take(self, t):
        self.t = t
    def go(self):
        self.t[0], self.t[1] = 0, 0
holder = Holder()
class Box:
    def __init__(self, t):
        self.t = t
    @property
    def row(self):
        return self.t[0]
"""
ELSEWHERE = [
    "first(x).zero_()",
    "rows = first(x)\nrows *= 2",
    'batch = {"x": x}\nbatch["x"][0] = 0',
    "pair = [x, y]\npair[0][0] = 0",
    "for t in (x, y):\n    t[0] = 0",
    "Box(x).t[0] = 0",
    "Box(x).row.mul_(2)",
    "next(iter(x)).zero_()",
    "head, *rest = x\nhead.zero_()",
    "[row.zero_() for row in list(x)[:2]]",
    "for row in list(x)[:2]:\n    row.zero_()",
    "rows = [row for row in x][1:]\nfor row in rows:\n    row.zero_()",
    "for row in itertools.islice(x, 2):\n    row.zero_()",
    "rows = {i: row for i, row in enumerate(x)}\nrows[0].zero_()",
    "for a, b in zip(x, list(x)[::-1]):\n    a.copy_(b)",
    "v = x.float()\nv[0] = 0",
    "v = x.to(torch.float64)\nv[0] = 0",
    "v = torch.as_tensor(x)\nv[0] = 0",
    "a = np.asarray(x)\na[0] = 0",
    "v = x.swapdims(0, 1)\nv[:, 0] = 0",
    "torch.unbind(x)[0].zero_()",
    "(v := x)[0] = 0",
    "zero = x[0].zero_\nzero()",
    'getattr(x[0], "zero_")()',
    "torch.Tensor.zero_(x[0])",
    "list(map(torch.Tensor.zero_, x[:2]))",
    "operator.setitem(x, 0, 0.0)",
    "operator.imul(first(x), 2.0)",
    "x.tril_()",
    "x.t_()",
    'setattr(x, "data", x.flip(0))',
    "x.fill_diagonal_(0)",
    "h = x * 2\nfirst(h).zero_()\nx = h",
    "torch.neg_(x[0])",
    "nn.functional.relu(x[:3], inplace=True)",
    "nn.ReLU(inplace=True)(x[:3])",
    "a = x.numpy()\na.sort(0)",
    "a = x.numpy()\na[0].fill(0)",
    "a = x.numpy()\nnp.put(a, [0], 1)",
    "a = x.numpy()\nnp.cumsum(x.numpy(), 0, out=a)",
    "a = x.numpy()\nnp.random.default_rng(0).shuffle(a)",
    "a = x.numpy()\na[...] = a[::-1].copy()",
    "x.index_copy_(0, torch.tensor([0]), torch.zeros(1, 4))",
    "x.scatter_(0, torch.zeros(1, 4, dtype=torch.long), 0.0)",
    "swap(x)",
    "alias(x)",
    "each(x, y)",
    "Mask()(x)",
    "holder.take(x)\nholder.go()",
]
#: All samples alike, or a tensor that has memory of its own, or what no loss hangs on.
ELSEWHERE_EACH = [
    'batch = {"x": x}\nbatch["x"][:, 0] = 0',
    "for t in (x, y):\n    t.mul_(2)",
    "v = x.float()\nv.mul_(2)",
    "for row in iter(x):\n    row.mul_(2)",
    "v = x * 2\nfirst(v).zero_()",
    "v = torch.relu(x)\nv[0] = 0",
    "v = x.clone()\nv[0] = 0",
    "shown = x.detach().clone()\nshown[0] = 0",
    "operator.imul(x, 2.0)",
    "torch.neg_(x)",
    "nn.functional.relu(x, inplace=True)",
    "a = x.numpy()\na.sort(1)",
    "x.scatter_(1, torch.zeros(len(x), 1, dtype=torch.long), 0.0)",
    "x.view(-1, 2, 2).tril_()",
]
TURNED = [
    "x = x.permute(1, 0).reshape(-1, 4)",
    "x = x.t().contiguous().view(-1, 4)",
    "x = x.mT.reshape(-1, 4)",
    "x = x.swapaxes(0, 1).reshape(-1, 4)",
    "x = torch.einsum('ij->ji', x).reshape(-1, 4)",
    "x = torch.as_strided(x, (8, 4), (1, 8))",
    "x = x.t()[:, ::2].sum() + x",
    "x = x.transpose(0, 1)[:, ::-1].t()",
    "x = x.transpose(-2, -1).reshape(-1, 4)",
    "x = x * nn.functional.one_hot(y.long()).size(-1)",
]
TURNED_BACK = [
    "z = x.view(-1, 2, 2).unsqueeze(0)\nz[..., 0, :] = 0\nx = z.squeeze(0).flatten(1)",
    "z = torch.zeros(2, len(x), 4)\nfor s in range(4):\n    z[..., s] = x[:, s]\nx = x * z[0]",
    "x = x.t().contiguous().t()",
    "x = x.view(-1, 2, 2).mT.reshape(-1, 4)",
    "x = x.view(-1, 1, 4).transpose(0, 1).reshape(-1, 4)",
]


@pytest.mark.parametrize("turn", [*SOME, *IN_TURNS])
def test_some_samples_are_changed_with_the_whole_batch_there(turn: str) -> None:
    conversion = conversion_of(of_a_loader(turn), options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert any(why in one.message for one in conversion.of(Level.ADVICE) for why in TOLD)


@pytest.mark.parametrize("turn", [*EACH, *TURNED_BACK])
def test_each_sample_is_changed_on_its_own_rank(turn: str) -> None:
    assert conversion_of(of_a_loader(turn), options=Options()).strategy is Strategy.SHARDED


def under_other_names(turn: str) -> str:
    return "import itertools\nimport operator\nimport numpy as np\n" + of_a_loader(turn).replace(
        "import torch\n", f"import torch\n{NAMES}", 1
    )


@pytest.mark.parametrize("turn", ELSEWHERE)
def test_some_samples_are_changed_under_another_name(turn: str) -> None:
    conversion = conversion_of(under_other_names(turn), options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert any(why in one.message for one in conversion.of(Level.ADVICE) for why in TOLD)


@pytest.mark.parametrize("turn", ELSEWHERE_EACH)
def test_what_is_changed_under_another_name_is_of_each_sample_or_of_none_that_trains(turn: str) -> None:
    assert conversion_of(under_other_names(turn), options=Options()).strategy is Strategy.SHARDED


@pytest.mark.parametrize("turn", TURNED)
def test_rows_of_a_turned_batch_are_of_several_samples(turn: str) -> None:
    assert conversion_of(of_a_loader(turn), options=Options()).strategy is Strategy.SHARED


@pytest.mark.parametrize(
    "turn",
    [
        "x = x.clone()\nx[0] = 0",
        "x = x + 0.0\nx[0].zero_()",
        "x[0], x[1] = x[1].clone(), x[0].clone()",
        "x[:, 0][0] = 1",
    ],
)
def test_of_a_batch_that_is_cut_by_hand(turn: str) -> None:
    """A rank takes its share where the batch is cut, and the first sample of that is another one."""
    loop = """\
inputs, targets = torch.randn(64, 4), torch.randn(64, 1)
for epoch in range(3):
    for i in range(0, 64, 8):
        x, y = inputs[i : i + 8].clone(), targets[i : i + 8]
        {turn}
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    before = script(data="", loader="", loop=loop.format(turn=turn.replace("\n", "\n        ")))
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED
