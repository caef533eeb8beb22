"""`--strategy shared`: every rank runs the script as it stands, shares its forward passes, and follows one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert

from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT
from tests.equivalence.test_fixtures import FIXTURES
from tests.grid import WAYS, some

#: All of them follow their originals in `test_fixtures.py`, on the rung that they take.
KEPT = ("blobs", "phases", "stream", "training_accuracy", "two_networks", "written_out")


def converted(source: bytes, folder: Path, strategy: str, backend: str = "ddp") -> Path:
    conversion = convert(SourceFile("train.py", source), lambda *_: None, Options(strategy=strategy, backend=backend))
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    path = folder / "train_dist.py"
    path.write_bytes(conversion.files[0].after)
    shares_loading = b"rt.shard_loading(" in conversion.files[0].after
    assert strategy != "shared" or shares_loading or b"time.sleep" not in source
    assert strategy != "shared" or b"rt.data_parallel(" in conversion.files[0].after
    return path


def assert_ranks_follow(
    source: bytes, folder: Path, ranks: int = 2, strategy: str = "shared", backend: str = "ddp"
) -> None:
    original = folder / "train.py"
    original.write_bytes(source)
    script = converted(source, folder, strategy, backend)
    traces = run_converted(script, [], ranks, folder / "dist", horovod=backend == "horovod")
    assert_equivalent(run_original(original, [], folder / "base"), traces)


@pytest.mark.parametrize(("backend", "ranks"), WAYS)
@pytest.mark.parametrize("name", some(FIXTURES, KEPT))
def test_fixtures(name: str, backend: str, ranks: int, tmp_path: Path) -> None:
    assert_ranks_follow((ROOT / "fixtures" / name / "train.py").read_bytes(), tmp_path, ranks, backend=backend)


# ---- ways to train that were refused, or went wrong, when all was sharded

HEAD = """
import random
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
samples = torch.randn(48, 6)
labels = (samples.sum(1) > 0).long()
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
"""

TAIL = """
net.eval()
with torch.no_grad():
    accuracy = (net(samples)[:, :2].argmax(1) == labels).double().mean().item()
print(f"accuracy {100 * accuracy:.2f} %")
torch.save(net.state_dict(), "net.pt")
"""

BODIES = {
    "batches of a generator": """
def batches(size):
    order = torch.randperm(len(samples))
    while len(order):
        chosen, order = order[:size], order[size:]
        yield samples[chosen], labels[chosen]

for epoch in range(3):
    for x, y in batches(12):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "a replay buffer": """
memory = []
for step in range(30):
    with torch.no_grad():
        action = net(samples[step : step + 1]).argmax().item()
    memory.append((samples[step], action, float(labels[step])))
    if len(memory) < 8:
        continue
    chosen = random.Random(step).sample(memory, 8)
    x = torch.stack([one[0] for one in chosen])
    a = torch.tensor([one[1] for one in chosen])
    reward = torch.tensor([one[2] for one in chosen])
    value = net(x).gather(1, a.unsqueeze(1)).squeeze(1)
    loss = F.smooth_l1_loss(value, reward.to(value.dtype))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
""",
    "all pairs of a batch, weighted by their rank": """
loader = DataLoader(TensorDataset(samples, labels), batch_size=12, shuffle=True)
for epoch in range(3):
    for x, y in loader:
        embedded = F.normalize(net(x), dim=1)
        alike = embedded @ embedded.T
        weight = torch.softmax(alike.detach().flatten(), 0).view_as(alike)
        loss = (weight * (alike - (y[:, None] == y[None]).to(alike.dtype)) ** 2).sum() + net[0].weight.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "a critic with a penalty on its slope": """
maker = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6))
critic = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
making = torch.optim.SGD(maker.parameters(), lr=0.02)
judging = torch.optim.SGD([*critic.parameters(), *net.parameters()], lr=0.02)
loader = DataLoader(samples, batch_size=12, shuffle=True)
for epoch in range(2):
    for step, x in enumerate(loader):
        fake = maker(torch.randn(len(x), 3)).detach()
        share = torch.rand(len(x), 1)
        mixed = (share * x + (1 - share) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        loss = critic(fake).mean() - critic(x).mean() + 0.1 * ((slope.norm(dim=1) - 1) ** 2).mean()
        loss = loss + net(x).square().mean()
        judging.zero_grad()
        loss.backward()
        judging.step()
        if step % 2 == 0:
            making.zero_grad()
            (-critic(maker(torch.randn(12, 3))).mean()).backward()
            making.step()
""",
    "parameters that belong to no module": """
log_vars = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([*net.parameters(), log_vars], lr=0.05)
loader = DataLoader(TensorDataset(samples, labels), batch_size=12, shuffle=True)
for epoch in range(3):
    for x, y in loader:
        out = net(x)
        parts = torch.stack([F.cross_entropy(out[:, :2], y), out[:, 2:].square().mean()])
        loss = (torch.exp(-log_vars) * parts + log_vars).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "training and evaluation in one loop": """
loader = DataLoader(TensorDataset(samples, labels), batch_size=10, shuffle=True)
best = 0.0
for epoch in range(4):
    for x, y in DataLoader(TensorDataset(samples, labels), batch_size=12, shuffle=True):
        net.train()
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            found = (net(samples[:7]).argmax(1) == labels[:7]).double().mean().item()
        if found > best:
            best = found
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
""",
    "weights that a network makes": """
class Made(nn.Module):
    def __init__(self):
        super().__init__()
        self.maker = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 24))

    def forward(self, x, noise):
        return x @ self.maker(noise).view(6, 4)

made = Made()
optimizer = torch.optim.SGD([*made.parameters(), *net.parameters()], lr=0.05)
loader = DataLoader(TensorDataset(samples, labels), batch_size=12, shuffle=True)
for epoch in range(3):
    for x, y in loader:
        out = made(x, torch.ones(1, 5))
        loss = F.cross_entropy(out, y) + out.std(0).sum() + F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "samples that take long to load": """
import time
from torch.utils.data import Dataset

class Slow(Dataset):
    def __len__(self):
        return len(samples)

    def __getitem__(self, index):
        time.sleep(0.01)
        return samples[index], labels[index]

stacked = lambda rows: [torch.stack(one) for one in zip(*rows)]
loader = DataLoader(Slow(), batch_size=6, shuffle=True, collate_fn=stacked)
for epoch in range(4):
    for x, y in loader:
        out = net(x)
        loss = F.cross_entropy(out, y) + torch.cdist(out, out).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "steps by a closure": """
lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=4)
for epoch in range(3):
    chosen = torch.randperm(len(samples))[:20]
    def closure():
        lbfgs.zero_grad()
        out = net(samples[chosen])
        loss = (F.cross_entropy(out, labels[chosen], reduction="none") ** 2).mean().sqrt() + out.std(0).mean()
        loss.backward()
        return loss
    lbfgs.step(closure)
""",
}


#: Draws noise for each sample: with sharded data, each rank draws its own, as another seed would.
NOISY = "a critic with a penalty on its slope"


@pytest.mark.parametrize(("backend", "ranks"), WAYS)
@pytest.mark.parametrize("name", BODIES)
def test_ways_to_train(name: str, backend: str, ranks: int, tmp_path: Path) -> None:
    assert_ranks_follow((HEAD + BODIES[name] + TAIL).encode(), tmp_path, ranks, backend=backend)


@pytest.mark.parametrize("name", [name for name in BODIES if name != NOISY])
def test_what_is_chosen_for_them(name: str, tmp_path: Path) -> None:
    source = (HEAD + BODIES[name] + TAIL).encode()
    chosen, shared = (converted(source, tmp_path, strategy).read_bytes() for strategy in ("auto", "shared"))
    if chosen != shared:  # else it is what `test_ways_to_train` runs
        assert_ranks_follow(source, tmp_path, strategy="auto")
