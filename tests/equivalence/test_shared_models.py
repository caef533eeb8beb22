"""Models that training reaches in other ways than by a call of a variable: each shared, and equal to one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.test_shared import HEAD, TAIL, assert_ranks_follow
from tests.grid import WAYS

LOADER = "loader = DataLoader(TensorDataset(samples, labels), batch_size=10, shuffle=True)\n"
STEP = """
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
AUTOENCODER = """
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh())
        self.decoder = nn.Linear(4, 6)

    def encode(self, x):
        return self.encoder(x)

    def loss(self, x):
        return F.mse_loss(self.decoder(self.encode(x)), x)

    def forward(self, x):
        return self.decoder(self.encode(x))


coder = Autoencoder()
optimizer = torch.optim.SGD([*coder.parameters(), *net.parameters()], lr=0.05)
"""

BODIES = {
    "a method of its own, and a part": f"""{AUTOENCODER}{LOADER}
for epoch in range(3):
    for x, y in loader:
        codes = coder.encode(x)
        loss = F.mse_loss(coder.decoder(codes), x) + torch.pdist(codes).mean() + F.cross_entropy(net(x), y){STEP}""",
    "a loss that it computes itself": f"""{AUTOENCODER}{LOADER}
for epoch in range(3):
    for x, y in loader:
        loss = coder.loss(x) + F.cross_entropy(net(x), y) * coder(x).std(){STEP}""",
    "a trainer that keeps it": f"""
class Trainer:
    def __init__(self, model):
        self.model = model
        self.model.to(torch.get_default_dtype())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def step(self, x, y):
        out = self.model(x)
        loss = F.cross_entropy(out, y) + out.std(0).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

{LOADER}
trainer = Trainer(net)
for epoch in range(3):
    for x, y in loader:
        trainer.step(x, y)
""",
    "a plain object that calls it": f"""
class Classifier:
    def __init__(self):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def __call__(self, x):
        return self.net(x)


model = Classifier()
optimizer = model.optimizer
{LOADER}
for epoch in range(3):
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y) + out.std(0).sum(){STEP}""",
    "a list of models": f"""
nets = [net, *(nn.Sequential(nn.Linear(6, 4), nn.Tanh()) for _ in range(2))]
optimizer = torch.optim.SGD([p for one in nets for p in one.parameters()], lr=0.05)
{LOADER}
for epoch in range(3):
    for x, y in loader:
        outs = torch.stack([one(x) for one in nets])
        loss = F.cross_entropy(outs.mean(0), y) - outs.std(0).max(){STEP}""",
    "only its maker has a name for it": f"""
def build():
    inner = nn.Sequential(net, nn.Tanh())
    return (lambda x: inner(x)), torch.optim.SGD(inner.parameters(), lr=0.05)


step, optimizer = build()
{LOADER}
for epoch in range(3):
    for x, y in loader:
        loss = F.cross_entropy(step(x), y, label_smoothing=0.1) + step(x).max(){STEP}""",
    "a model for each fold": """
for fold in range(2):
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    rest = torch.arange(48) % 2 == fold
    loader = DataLoader(TensorDataset(samples[rest], labels[rest]), batch_size=7, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y) + net(x).std(0).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
""",
    "a frozen backbone": f"""
backbone = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())
backbone.requires_grad_(False)
backbone.eval()
{LOADER}
for epoch in range(3):
    for x, y in loader:
        with torch.no_grad():
            found = backbone(x)
        out = net(found)
        loss = F.cross_entropy(out, y) + out.std(0).sum(){STEP}""",
    "a loss of a frozen network, and a teacher that follows": f"""
{AUTOENCODER}
import copy
judge = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3)).eval()
for p in judge.parameters():
    p.requires_grad = False
teacher = copy.deepcopy(coder)
teacher.eval()
{LOADER}
for epoch in range(3):
    for x, y in loader:
        made = coder(x)
        with torch.no_grad():
            codes = teacher.encode(x)
        loss = F.mse_loss(judge(made), judge(x)) + F.mse_loss(coder.encode(x), codes) + F.cross_entropy(net(x), y){STEP}
        with torch.no_grad():
            for p, q in zip(teacher.parameters(), coder.parameters()):
                p.mul_(0.9).add_(q, alpha=0.1)
""",
    "nn.DataParallel around it": f"""
net = nn.DataParallel(net)
optimizer = torch.optim.SGD(net.module.parameters(), lr=0.05)
{LOADER}
for epoch in range(3):
    for x, y in loader:
        loss = F.cross_entropy(net(x), y) + net.module[0].weight.norm() * net(x).std(){STEP}
net = net.module
""",
    "nn.DataParallel around a part of it": f"""
net = nn.Sequential(nn.DataParallel(net), nn.Tanh())
assert "0.module.0.weight" in net.state_dict()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
{LOADER}
for epoch in range(3):
    for x, y in loader:
        loss = F.cross_entropy(net(x), y) + net[0].module[0].weight.norm() * net(x).std(){STEP}""",
}


@pytest.mark.parametrize(("backend", "ranks"), WAYS)
@pytest.mark.parametrize("name", BODIES)
def test_models(name: str, backend: str, ranks: int, tmp_path: Path) -> None:
    assert_ranks_follow((HEAD + BODIES[name] + TAIL).encode(), tmp_path, ranks, backend=backend)
