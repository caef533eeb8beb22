"""How many dimensions a tensor has at least: what is counted from the end is then seen not to be the samples'."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, 1)
        self.flat = nn.Sequential(nn.Linear(36, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 36))

    def forward(self, x):
        h = self.a(x)
        {body}
        return self.b(h.mean(dim=(2, 3)))


loader = DataLoader(TensorDataset(torch.randn(64, 1, 6, 6), torch.randn(64, 1)), batch_size=16)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def is_sharded(body: str) -> bool:
    return conversion_of(SCRIPT.format(body=body), options=Options()).strategy is Strategy.SHARDED


@pytest.mark.parametrize(
    "body",
    [
        "h = h / h.abs().flatten(2).max(-1, keepdim=True).values.unsqueeze(-1)",
        "h = h / torch.norm(torch.flatten(h, start_dim=-2), p=2, dim=-1, keepdim=True).unsqueeze(-1)",
        "h = h * F.softmax(h.flatten(-2), dim=-1).view_as(h)",
        "h = h.flatten(2, 3).softmax(-1).view(len(h), 4, 6, 6)",
        "h = torch.roll(h, shifts=(1, 1), dims=(-2, -1))",
        "h = h.flip(-1).rot90(1, (-2, -1))",
        "h = h.unflatten(1, (2, 2)).softmax(-1).flatten(1, 2)",
        "h = torch.stack([one * 2 for one in h.unbind(1)], 1).softmax(-1)",
        "a, b = h.chunk(2, dim=1)\n        h = torch.cat([a * b.softmax(-1), b], dim=1)",
        "h = torch.cat([h, torch.zeros(len(h), 1, *h.shape[2:])], 1)[:, :4].softmax(-1)",
        "h = torch.gather(h, 1, h.argsort(1)).softmax(-1)",
        "h = h - h.mean((2, 3), keepdim=True).softmax(-3)",
        "h = h - h.amax((2, 3), True).softmax(-2)",
        "h = h - h.mean((2, 3)).mean(-1)[:, None, None, None]",
        "h = h.repeat_interleave(2, 1).softmax(-1)[:, :4]",
        "h = h * F.normalize(self.flat(x.flatten(1)), dim=-1).view(-1, 1, 6, 6)",
    ],
)
def test_along_what_is_not_the_samples(body: str) -> None:
    assert is_sharded(body)


@pytest.mark.parametrize(
    "body",
    [
        "h = h - h.mean((2, 3)).mean(-2)[None, :, None, None]",
        "h = h - h.std(1, True).std((1, 2)).std(-1)",
        "h = h.flatten(1)\n        h = (h - h.mean(-2)).view(-1, 4, 6, 6)",
        "h = h - h.flatten(1, 3).amax(-2).sum()",
        "h = h - h.amax((-1, -4), keepdim=True)",
        "h = torch.roll(h, shifts=(1, 1), dims=(-1, -4))",
        "h = h.roll(1, -4)",
        "h = h * h.mean((2, 3)).flip(-1, -2)[..., None, None]",
        "h = h * h.mean((2, 3)).unflatten(1, (4,)).softmax(-2)[..., None, None]",
        "h = h - h.flatten(2).max(-1)[0].mean(-2)[None, :, None, None]",
        "h = h - h.unbind(1)[0].flatten(1).mean(-2).sum()",
        "h = h * F.normalize(self.flat(x.flatten(1)), dim=-2).view(-1, 1, 6, 6)",
        "h = h * nn.Sequential(nn.Flatten(0), nn.ReLU())(h).softmax(-1).view(-1, 4, 6, 6)",
    ],
)
def test_along_what_may_be_the_samples(body: str) -> None:
    assert not is_sharded(body)


TOKENS = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.key, self.out = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        {asked}
        h = self.words(x)
        {body}
        return self.out(h.flatten(1)[:, :4])


loader = DataLoader(TensorDataset(torch.randint(0, 9, (64, 5)), torch.randint(0, 3, (64,))), batch_size=16)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OF_THE_LAST_TWO = [
    "h = (h @ self.key(h).transpose(-2, -1)).softmax(-1) @ h",
    "h = h * self.key(h).mean(-1).softmax(-1).unsqueeze(-1)",
    "h = h * F.softmax(torch.bmm(h, h.mean(1).unsqueeze(-1)).squeeze(-1), dim=-1).unsqueeze(-1)",
]


@pytest.mark.parametrize("asked", ["n = x.size(1)", "n = x.shape[1]", "n = x.shape[-2]", "b, n = x.shape"])
@pytest.mark.parametrize("body", OF_THE_LAST_TWO)
def test_what_is_asked_of_a_size_tells_that_it_is_there(asked: str, body: str) -> None:
    assert conversion_of(TOKENS.format(asked=asked, body=body), options=Options()).strategy is Strategy.SHARDED


@pytest.mark.parametrize("asked", ["n = x.size(0)", "n = len(x)", "n = x.shape[0]", "n = x.dim()"])
def test_the_number_of_samples_tells_of_one_dimension(asked: str) -> None:
    before = TOKENS.format(asked=asked, body=OF_THE_LAST_TWO[0])
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED


ROWS = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        {body}
        return self.out(x)


loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=16)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "asked",
    [
        "n = x.shape[2] if x.dim() > 2 else 1",
        "n = x.dim() > 2 and x.size(2)",
        "n = [x.size(2) for _ in range(x.dim() - 2)]",
        "n = lambda: x.shape[2]",
        "assert x.dim() == 2, x.shape[2]",
        "b, c, *others = x.shape",
        "x = x[:, :, None]\n        shape = x.shape\n        x = x.flatten(1)\n        n = shape[2]",
        "shape, x = x[:, :, None].shape, x[:, :4]\n        n = shape[2]",
        "sizes = x.view(-1, 2, 2).shape\n        b, n, m = sizes",
    ],
)
def test_what_may_not_be_asked_of_a_size_tells_nothing(asked: str) -> None:
    before = ROWS.format(body=f"{asked}\n        x = x * x.softmax(-2)")
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED


LISTED = """\
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

layers = [{first}]
for _ in range(int(sys.argv[1])):
    layers.append({each})
model = nn.Sequential(*layers)
loader = DataLoader(TensorDataset(*torch.load("rows.pt")), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    out = model(x).masked_fill(y > 0, 0.0)
    loss = -(y * out.clamp(min=1e-7).log()).sum(dim=-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "each", "is_seen"),
    [
        ("nn.Linear(4, 8), nn.ReLU()", "nn.Linear(8, 8)", True),
        ("nn.Flatten(), nn.Linear(16, 8)", "nn.Dropout(0.1)", True),
        ("nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 8)", "nn.LayerNorm(8)", True),
        ("nn.ReLU()", "nn.PReLU()", False),
        ("nn.Flatten(0), nn.Linear(16, 8)", "nn.Dropout(0.1)", False),
        ("nn.Linear(4, 8), nn.Flatten(0, 1)", "nn.Linear(8, 8)", False),
        ("nn.Linear(4, 8)", "made_of(nn.Linear(8, 8))", False),
    ],
)
def test_layers_of_a_list_in_whatever_order(first: str, each: str, is_seen: bool) -> None:
    """What all of them keep, and one of them asks for, is there."""
    before = LISTED.format(first=first, each=each)
    if "made_of" in each:
        before = "from unknown import made_of\n" + before
    made = conversion_of(before, options=Options())
    reduced = made.strategy is Strategy.SHARDED and "rt.gather_samples" not in made.files[0].after.decode()
    assert reduced is is_seen
