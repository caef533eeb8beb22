"""Where the samples of a batch lie, and which of them count: what layers and functions make of that."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = LAYER
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        PASS
        return self.out(x)


data = TensorDataset(torch.randn(48, 5, 6), torch.randint(0, 3, (48,)), torch.rand(48) > 0.5)
loader = DataLoader(data, batch_size=8, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y, mask in loader:
        out = model(x)
        LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ENCODER = "nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 12), 1)"
HEADS = "b, t, c = x.shape; q, k, v = self.layer(x).reshape(b, t, 3, 2, 3).permute(2, 0, 3, 1, 4); "


def strategy_of(layer: str, forward: str) -> Strategy | None:
    text = SCRIPT.replace("LAYER", layer).replace("PASS", forward.replace("; ", "\n        "))
    return conversion_of(text.replace("LOSS", "loss = F.cross_entropy(out, y)"), options=Options()).strategy


@pytest.mark.parametrize(
    ("layer", "forward"),
    [
        ("nn.LSTM(6, 6)", "x, _ = self.layer(x); x = x[:, -1]"),
        ("nn.GRU(6, 6, batch_first=False)", "x = self.layer(x)[0][:, -1]"),
        ("nn.MultiheadAttention(6, 2)", "x = self.layer(x, x, x)[0].mean(1)"),
        ("nn.MultiheadAttention(6, 2)", "x, w = self.layer(query=x, key=x, value=x); x = x.mean(1)"),
        (ENCODER, "x = self.layer(x).mean(1)"),
        ("nn.Conv1d(6, 6, 3, padding=1)", "x = self.layer(x[:, 0].t()).t()"),
        ("nn.InstanceNorm1d(6)", "x = self.layer(x[:, 0].t()).t()"),
        ("nn.ReLU()", "x = F.max_pool1d(x[:, 0].t(), 3, 1, 1).t()"),
        ("nn.ReLU()", "x = torch.fft.fftn(x).real.mean(1)"),
        ("nn.ReLU()", "x = torch.fft.fft2(x[:, 0]).real"),
        ("nn.ReLU()", "x = torch.fft.ifft2(torch.zeros(x.size(0), 6) + x[:, 0]).real"),
        ("nn.ReLU()", "x = torch.tril(x[:, 0])"),
        ("nn.ReLU()", "x = x[:, 0] * torch.tril(torch.ones_like(x[:, 0]))"),
        ("nn.ReLU()", "x = x[:, 0]; x = F.scaled_dot_product_attention(x, x, x)"),
        ("nn.ReLU()", "x = x[:, 0]; x = (x @ x.mT).softmax(-1) @ x"),
        ("nn.ReLU()", "x = x[:, 0]; x = (x @ x.transpose(-2, -1)).softmax(-1) @ x"),
        ("nn.ReLU()", "x = x[:, 0]; x = x.gather(0, x.argsort(0))"),
        ("nn.ReLU()", "x = F.interpolate(x[:, 0].t()[None], size=8)[0].t()"),
    ],
)
def test_samples_that_are_mixed(layer: str, forward: str) -> None:
    assert strategy_of(layer, forward) is Strategy.SHARED


@pytest.mark.parametrize(
    ("layer", "forward"),
    [
        ("nn.LSTM(6, 6, batch_first=True)", "x = self.layer(x)[0][:, -1]"),
        ("nn.LSTM(6, 6)", "x = self.layer(x.transpose(0, 1))[0][-1]"),
        ("nn.GRU(6, 6, batch_first=True)", "_, h = self.layer(x); x = h[-1]"),
        ("nn.LSTM(6, 6, batch_first=True)", "_, (h, c) = self.layer(x); x = h.squeeze(0) + c[0]"),
        (ENCODER.replace("12)", "12, batch_first=True)"), "x = self.layer(x).mean(1)"),
        (ENCODER, "x = self.layer(x.permute(1, 0, 2)).permute(1, 0, 2).mean(1)"),
        ("nn.MultiheadAttention(6, 2, batch_first=True)", "x, _ = self.layer(x, x, x); x = x.mean(1)"),
        ("nn.Conv1d(6, 6, 3, padding=1)", "x = self.layer(x.permute(0, 2, 1)).mean(2)"),
        ("nn.AdaptiveAvgPool1d(1)", "x = self.layer(x.transpose(1, 2)).squeeze(-1)"),
        (
            "nn.Linear(6, 18)",
            HEADS + "x = (q @ k.transpose(-2, -1)).softmax(-1) @ v; x = x.transpose(1, 2).mean(1).flatten(1)",
        ),
        ("nn.Linear(6, 6)", "b, t, c = x.shape; x = ((self.layer(x) @ x.transpose(-2, -1)).softmax(-1) @ x).mean(1)"),
        (
            "nn.Linear(6, 6)",
            "k = self.layer(x).view(x.size(0), 5, 2, 3).transpose(1, 2); s = k @ k.transpose(-2, -1); "
            "s = s.masked_fill(torch.triu(torch.ones_like(s), 1) > 0, -9.0); x = (s @ k).mean(2).flatten(1)",
        ),
        ("nn.Linear(6, 6)", "b, t, c = x.shape; x = F.scaled_dot_product_attention(self.layer(x), x, x).mean(1)"),
        ("nn.Conv2d(1, 6, 1)", "x = torch.fft.rfft2(self.layer(x[:, None])).real.mean((2, 3))"),
        (
            "nn.Conv2d(1, 6, 1)",
            "x = self.layer(x[:, None]); f = torch.fft.rfft2(x); o = torch.zeros(x.size(0), 6, 5, 4, dtype=f.dtype); "
            "o[:, :, :3, :3] = f[:, :, :3, :3]; x = torch.fft.rfft2(torch.fft.irfft2(o, s=(5, 6))).real.mean((2, 3))",
        ),
        ("nn.GRUCell(6, 6)", "h = x.new_zeros(x.size(0), 6); h = self.layer(x[:, 0], h); x = self.layer(x[:, 1], h)"),
    ],
)
def test_each_sample_by_itself(layer: str, forward: str) -> None:
    assert strategy_of(layer, forward) is Strategy.SHARDED


def after(loss: str) -> str:
    text = SCRIPT.replace("LAYER", "nn.ReLU()").replace("PASS", "x = x[:, 0]").replace("LOSS", loss)
    conversion = conversion_of(text, options=Options())
    return conversion.files[0].after.decode()


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(out[(y > 0) & (y < 3)], y[(y > 0) & (y < 3)])",
        "loss = F.cross_entropy(out[mask & (y > 0)], y[mask & (y > 0)])",
        "keep = mask.bool(); loss = F.cross_entropy(out[keep], y[keep])",
        "keep = torch.isin(y, torch.tensor([0, 1])); loss = F.cross_entropy(out[keep], y[keep])",
        "y = y.masked_fill(mask, -100); loss = F.cross_entropy(out, y)",
        "y[mask.bool()] = -100; loss = F.cross_entropy(out, y)",
        "loss = F.cross_entropy(out, torch.where(mask, y, -100))",
    ],
)
def test_a_mean_over_some_samples(loss: str) -> None:
    assert "loss = rt.weighted_mean(F.cross_entropy, " in after(loss.replace("; ", "\n        "))


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(out[mask], y[mask])",
        "loss = F.cross_entropy(out[~mask], y[~mask])",
        "loss = F.cross_entropy(out, y, reduction='none')[mask].mean()",
        "loss = F.cross_entropy(out[y], y)",
        "loss = F.cross_entropy(out @ out.mT, torch.arange(len(out)))",
        "some = [i for i in range(len(y)) if y[i] > 0]; loss = F.cross_entropy(out[some], y[some])",
    ],
)
def test_what_is_not_seen_to_be_a_mean_of_ranks_is_computed_on_whole_batches(loss: str) -> None:
    text = after(loss.replace("; ", "\n        "))
    assert "rt.data_parallel(" in text or "rt.gather_samples(" in text


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(out, y)",
        "loss = F.cross_entropy(out[torch.arange(len(out))], y)",
        "loss = F.cross_entropy(out.masked_fill(mask[:, None], -9.0), y)",
        "order = torch.randperm(len(x)); loss = F.cross_entropy(model(0.5 * x + 0.5 * x[order]), y)",
    ],
)
def test_a_plain_mean(loss: str) -> None:
    text = after(loss.replace("; ", "\n        "))
    assert "DistributedDataParallel(model" in text
    assert "weighted_mean" not in text
