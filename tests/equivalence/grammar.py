"""Programs that train, drawn from a grammar: each choice is one that people make, and any may meet any other."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from textwrap import indent

from tests.equivalence.grammar_effects import EFFECTS, IMPORTS

HEAD = """\
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed({seed})
samples = torch.randn(48, 6)
labels = (samples[:, :2].sum(1) > 0).long() + (samples[:, 2] > 1).long()
weights = torch.tensor([1.0, 2.0, 0.5, 1.0])
"""

#: What makes `net`, and how a batch `x` becomes `out`, of the shape (batch, 4).
MODELS = {
    "layers": ("net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))\n", "net(x)"),
    "batch norm": ("net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4))\n", "net(x)"),
    "recurrent": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        h0 = torch.zeros(1, x.size(0), 8)
        out, _ = self.rnn(x.view(x.size(0), 3, 2), (h0, h0))
        return self.head(out[:, -1])


net = Net()
""",
        "net(x)",
    ),
    "two outputs": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh())
        self.head = nn.Linear(8, 4)
        self.unused = nn.Linear(8, 2)

    def forward(self, x):
        features = self.body(x)
        return self.head(features), features


net = Net()
""",
        "net(x)[0]",
    ),
    "a dictionary": (
        """
class Net(nn.Module):
    def __init__(self, width=8):
        super(Net, self).__init__()
        self.first = nn.Linear(6, width)
        self.second = nn.Linear(width, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, scale=1.0):
        if self.training:
            self.calls += 1
        hidden = torch.relu(self.first(x))
        return {"logits": scale * self.second(hidden), "norm": hidden.norm(dim=1)}


net = Net()
""",
        'net(x, scale=2.0)["logits"]',
    ),
    "attention": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(2, 8)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.mix(self.embed((x > 0).long())).mean(dim=1))


net = Net()
""",
        "net(x)",
    ),
    "two models": (
        """
encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
head = nn.Linear(8, 4)
net = nn.ModuleList([encoder, head])
""",
        "head(encoder(x))",
    ),
}

LOSSES = {
    "cross entropy": ("", "F.cross_entropy(out, y)"),
    "a criterion": ("criterion = nn.CrossEntropyLoss()\n", "criterion(out, y)"),
    "weighted": ("criterion = nn.CrossEntropyLoss(weight=weights)\n", "criterion(out, y)"),
    "a sum": ("", 'F.cross_entropy(out, y, reduction="sum") / y.size(0)'),
    "of each sample": ("", '(F.cross_entropy(out, y, reduction="none") * weights[y]).mean()'),
    "with a penalty": ("", "F.cross_entropy(out, y) + 0.01 * sum(p.square().sum() for p in net.parameters())"),
    "what is ignored": ("", "F.nll_loss(F.log_softmax(out, dim=1), y, ignore_index=0)"),
    "mixed": ("", "0.7 * F.cross_entropy(out, y) + 0.3 * F.cross_entropy(out, y.flip(0))"),
    "pairs": ("", "F.cross_entropy(out, y) + torch.exp(-torch.pdist(out)).mean()"),
    "spread": ("", "F.mse_loss(out, F.one_hot(y, 4).to(out.dtype)) - 0.1 * out.std(0).mean()"),
    "a class": (
        """
class Focal(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, out, y):
        ce = F.cross_entropy(out, y, reduction="none")
        return ((1 - torch.exp(-ce)) ** self.gamma * ce).mean()


criterion = Focal()
""",
        "criterion(out, y)",
    ),
    "the hardest": ("", 'F.cross_entropy(out, y, reduction="none").topk(3).values.mean()'),
}

OPTIMIZERS = {
    "momentum": "torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)",
    "decay": "torch.optim.SGD(net.parameters(), lr=0.05, weight_decay=0.01)",
    "Adam": "torch.optim.Adam(net.parameters(), lr=0.01, eps=1e-3)",
    "groups": 'torch.optim.AdamW([{"params": list(net.parameters()), "lr": 0.01}], eps=1e-3)',
}

DATA = {
    "a loader": "loader = DataLoader(TensorDataset(samples, labels), batch_size=12, shuffle=True)\n",
    "in order": "loader = DataLoader(TensorDataset(samples, labels), 16)\n",
    "a remainder": "loader = DataLoader(TensorDataset(samples, labels), batch_size=10, shuffle=True)\n",
    "dropped": "loader = DataLoader(TensorDataset(samples, labels), batch_size=10, shuffle=True, drop_last=True)\n",
    "a class": """
class Data(Dataset):
    def __init__(self, xs, ys):
        self.xs, self.ys = xs, ys

    def __len__(self):
        return len(self.xs)

    def __getitem__(self, index):
        return self.xs[index] * 2, self.ys[index]


loader = DataLoader(Data(samples, labels), batch_size=8, shuffle=True)
""",
    "a generator": """
class Batches:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return len(samples) // self.size

    def __iter__(self):
        order = torch.randperm(len(samples))
        for start in range(0, len(order), self.size):
            chosen = order[start : start + self.size]
            yield samples[chosen], labels[chosen]


loader = Batches(12)
""",
    "a list": "loader = [(samples[i : i + 12], labels[i : i + 12]) for i in range(0, 48, 12)]\n",
}

HEADERS = ["for x, y in loader:", "for step, (x, y) in enumerate(loader):", "for batch in loader:\n    x, y = batch"]

STEPS = {
    "plain": "optimizer.zero_grad()\nloss.backward()\noptimizer.step()\n",
    "clipped": """\
optimizer.zero_grad()
loss.backward()
torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
optimizer.step()
""",
    "accumulated": """\
(loss / 2).backward()
taken += 1
if taken % 2 == 0:
    optimizer.step()
    optimizer.zero_grad()
""",
    "a schedule": """\
for group in optimizer.param_groups:
    group["lr"] = 0.02 / (1 + 0.1 * taken)
taken += 1
optimizer.zero_grad(set_to_none=True)
loss.backward()
optimizer.step()
""",
    "skipped": """\
optimizer.zero_grad()
loss.backward()
if not torch.isnan(loss):
    optimizer.step()
""",
}

#: What is kept of each step, before the epoch, in the step, and after the epoch.
FIGURES = {
    "a sum": ("total = 0.0\n", "total += loss.item()\n", 'print(f"epoch {epoch} loss {total / len(loader):.6f}")\n'),
    "by size": (
        "total, seen = 0.0, 0\n",
        "total += loss.item() * x.size(0)\nseen += x.size(0)\n",
        'print("epoch %d loss %.6f" % (epoch, total / seen))\n',
    ),
    "a list": (
        "losses = []\n",
        "losses.append(loss.detach().cpu().numpy())\n",
        "print('epoch', epoch, 'loss', round(float(np.mean(losses)), 6))\n",
    ),
    "counts": (
        "right, seen = 0, 0\n",
        "right += (out.argmax(1) == y).sum().item()\nseen += y.size(0)\n",
        'print(f"epoch {epoch} training accuracy {100.0 * right / seen:.2f}")\n',
    ),
    "text": (
        "shown = []\n",
        'shown.append("{:.5f}".format(loss.item()))\n',
        'print(epoch, " ".join(str(one) for one in shown[-1:]))\n',
    ),
    "the last": ("", "last = float(loss)\n", "print(f'epoch {epoch}: {last:.6f}')\n"),
    "none": ("", "", ""),
}

#: Shows one batch: with sharded data, advice says that it is rank 0's share.
SHOWN = frozenset(["the last"])

EVALUATION = {
    "a loop": """\
net.eval()
right = 0
with torch.no_grad():
    for x, y in DataLoader(TensorDataset(samples, labels), batch_size=16):
        out = {out}
        right += out.argmax(dim=1).eq(y).sum().item()
accuracy = right / len(samples)
""",
    "at once": """\
net.eval()
with torch.no_grad():
    x, y = samples, labels
    accuracy = ({out}.argmax(1) == y).double().mean().item()
""",
    "means": """\
net.eval()
found = []
with torch.no_grad():
    for x, y in DataLoader(TensorDataset(samples, labels), batch_size=12, shuffle=False):
        found.append(({out}.argmax(1) == y).double().mean().item())
accuracy = sum(found) / len(found)
""",
}

DECISIONS = {
    "none": "",
    "the best": """\
if accuracy > best:
    best = accuracy
    torch.save({"net": net.state_dict(), "epoch": epoch, "accuracy": accuracy}, "best.pt")
""",
    "slower": """\
if accuracy <= best:
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
best = max(best, accuracy)
""",
    "early": """\
if accuracy <= best:
    break
best = accuracy
""",
}

TAIL = """\
print(f"accuracy {100 * accuracy:.2f} %")
torch.save(net.state_dict(), "net.pt")
"""


@dataclass(frozen=True)
class Program:
    """One program and the choices that make it."""

    choices: dict[str, str]
    text: str

    def __str__(self) -> str:
        return ", ".join(f"{kind}: {choice}" for kind, choice in self.choices.items())


def program(seed: int, **given: str) -> Program:
    """A script that trains for three epochs and prints its accuracy: `program(3, data="a list").text`."""
    draw = Random(seed)
    tables = {
        "model": MODELS, "loss": LOSSES, "optimizer": OPTIMIZERS, "data": DATA,
        "step": STEPS, "figures": FIGURES, "evaluation": EVALUATION, "decision": DECISIONS,
        "form": FORMS, "beside": EFFECTS,
    }  # fmt: skip
    chosen = {kind: draw.choice(list(table)) for kind, table in tables.items()} | given
    model, out = MODELS[chosen["model"]]
    criterion, loss = LOSSES[chosen["loss"]]
    before, during, after = FIGURES[chosen["figures"]]
    beside = EFFECTS[chosen["beside"]]
    step = f"out = {out}\nloss = {loss}\n{STEPS[chosen['step']]}{during}"
    each = draw.choice(HEADERS) + "\n" + indent(step, "    ")
    after += EVALUATION[chosen["evaluation"]].format(out=out) + beside.epoch + DECISIONS[chosen["decision"]]
    parts = {
        "head": IMPORTS + HEAD.format(seed=seed) + beside.setup, "setup": model + criterion + DATA[chosen["data"]],
        "optimizer": f"optimizer = {OPTIMIZERS[chosen['optimizer']]}\n",
        "epoch": f"net.train()\n{before}{each}{after}", "tail": TAIL + beside.end,
    }  # fmt: skip
    return Program(chosen, FORMS[chosen["form"]](parts))


def _flat(parts: dict[str, str]) -> str:
    loop = "best, taken = 0.0, 0\nfor epoch in range(3):\n" + indent(parts["epoch"], "    ")
    return parts["head"] + parts["setup"] + parts["optimizer"] + loop + parts["tail"]


def _main(parts: dict[str, str]) -> str:
    loop = "best, taken = 0.0, 0\nfor epoch in range(3):\n" + indent(parts["epoch"], "    ")
    body = indent(parts["optimizer"] + loop + parts["tail"], "    ")
    return f'{parts["head"]}{parts["setup"]}\n\ndef main():\n{body}\n\nif __name__ == "__main__":\n    main()\n'


def _trainer(parts: dict[str, str]) -> str:
    fit = "net, loader, optimizer, best, taken = self.net, self.loader, self.optimizer, 0.0, 0\n"
    fit += "for epoch in range(epochs):\n" + indent(parts["epoch"], "    ") + "return accuracy\n"
    return f"""{parts["head"]}{parts["setup"]}{parts["optimizer"]}

class Trainer:
    def __init__(self, net, loader, optimizer):
        self.net = net
        self.loader = loader
        self.optimizer = optimizer

    def fit(self, epochs):
{indent(fit, "        ")}

accuracy = Trainer(net, loader, optimizer).fit(3)
{parts["tail"]}"""


FORMS = {"flat": _flat, "main": _main, "trainer": _trainer}
