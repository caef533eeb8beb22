"""Trainings that compute on GPUs, as people write them: ranks over NCCL follow the one process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.equivalence.conversions import converted
from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import run_ranks
from tests.gpus import on_gpus

pytestmark = on_gpus

HEAD = """\
import copy
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images = torch.randn(48, 3, 8, 8)
labels = (images.mean((1, 2, 3)) > 0).long()
loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True, pin_memory=True)


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.dropout, self.last = nn.Dropout(dropout), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.dropout(torch.relu(self.norm(self.first(x))).mean((2, 3))))

"""
TAIL = """
net.eval()
right = 0
with torch.no_grad():
    for x, y in DataLoader(TensorDataset(images, labels), batch_size=16):
        right += (net(x.to(device)).argmax(1) == y.to(device)).sum().item()
print(f"accuracy {100 * right / len(images):.2f} %")
torch.save(net.state_dict(), "net.pt")
"""
PLAIN = """
net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for epoch in range(3):
    net.train()
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
"""
TRAININGS = {
    "plain": PLAIN,
    "cuda by methods": PLAIN.replace(".to(device)", ".cuda()").replace(".to(device, ", ".cuda("),
    "channels last": PLAIN.replace("Net().to(device)", "Net().to(device, memory_format=torch.channels_last)"),
    "moved layer by layer": PLAIN.replace(
        "net = Net().to(device)", "net = Net()\nfor part in net.children():\n    part.to(device)"
    ),
    "averaged weights": PLAIN.replace(
        "optimizer = ", "average = torch.optim.swa_utils.AveragedModel(net)\noptimizer = "
    ) + "        average.update_parameters(net)\n",
    "gradients accumulated": """
net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for epoch in range(3):
    net.train()
    for turn, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x.to(device)), y.to(device)) / 2
        loss.backward()
        if turn % 2 == 1:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
""",
    "batches on a stream of their own": """
net = Net().to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01, eps=1e-3)
side = torch.cuda.Stream()

def fetched(loader):
    ready = None
    for x, y in loader:
        with torch.cuda.stream(side):
            batch = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        if ready is not None:
            yield ready
        torch.cuda.current_stream().wait_stream(side)
        ready = batch
    yield ready

for epoch in range(3):
    net.train()
    for x, y in fetched(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
""",
    "batches by hand on the GPU": """
net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
everything, answers = images.to(device), labels.to(device)
for step in range(18):
    net.train()
    chosen = torch.randint(len(everything), (12,), device=device)
    loss = F.cross_entropy(net(everything[chosen]), answers[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a gan": """
net = Net().to(device)
generator = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 192), nn.Unflatten(1, (3, 8, 8))).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
other = torch.optim.SGD(generator.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        x = x.to(device)
        noise = torch.randn(len(x), 6, device=device)
        false = generator(noise)
        loss = F.cross_entropy(net(x), torch.ones(len(x), dtype=torch.long, device=device))
        loss = loss + F.cross_entropy(net(false.detach()), torch.zeros(len(x), dtype=torch.long, device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        against = F.cross_entropy(net(false), torch.ones(len(x), dtype=torch.long, device=device))
        other.zero_grad()
        against.backward()
        other.step()
""",
    "a penalty on gradients": """
net = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device).requires_grad_(), y.to(device)
        out = net(x)
        slope, = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = F.cross_entropy(out, y) + 0.1 * (slope.flatten(1).norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "recurrent": """
class Read(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(24, 12, num_layers=2, batch_first=True), nn.Linear(12, 2)

    def forward(self, x):
        out, _ = self.lstm(x.flatten(1, 2).transpose(1, 2).contiguous().view(len(x), 8, 24))
        return self.last(out[:, -1])

net = Read().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    net.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
""",
    "attention": """
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 2, 32, 0.0, batch_first=True), 2)
        self.last = nn.Linear(24, 2)

    def forward(self, x):
        return self.last(self.encoder(x.reshape(len(x), 8, 24)).mean(1))

net = Attend().to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.001, eps=1e-3)
for epoch in range(2):
    net.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
""",
}  # fmt: skip
WAYS = [("ddp", "auto"), ("ddp", "shared"), ("allreduce", "auto")]


@pytest.mark.parametrize(("backend", "strategy"), WAYS, ids=["ddp", "shared", "allreduce"])
@pytest.mark.parametrize("name", TRAININGS)
def test_ranks_follow(name: str, backend: str, strategy: str, tmp_path: Path) -> None:
    source = HEAD + TRAININGS[name] + TAIL
    (tmp_path / "train.py").write_text(source)
    ranks = run_converted(converted(source, tmp_path, backend=backend, strategy=strategy), [], 2, tmp_path / "ranks")
    assert_equivalent(run_original(tmp_path / "train.py", [], tmp_path / "one"), ranks, 1e-9)
    said = (tmp_path / "ranks.trace" / "0.err").read_text()
    assert "contiguous" not in said, said  # what torch says of recurrent layers that it has to copy in each call


MIXED = """
net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cuda")
for epoch in range(4):
    net.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
BFLOAT = """
net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(4):
    net.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
"""
IN_HALVES = {
    "scaled": (MIXED, 0.02),
    "bfloat16": (BFLOAT, 0.02),
    "compiled": (PLAIN.replace("net = Net().to(device)\n", "net = Net().to(device)\nnet = torch.compile(net)\n"), 1e-3),
    "compiled in place": (PLAIN.replace("net = Net().to(device)\n", "net = Net().to(device)\nnet.compile()\n"), 1e-3),
    "single precision": (PLAIN, 1e-4),
}


def learnt(script: Path, ranks: int, folder: Path) -> dict[str, Tensor]:
    run_ranks([str(script)], ranks, folder, folder.with_name(f"{folder.name}.logs"))
    found: dict[str, Tensor] = torch.load(folder / "net.pt", map_location="cpu")
    return found


@pytest.mark.parametrize("strategy", ["auto", "shared"])
@pytest.mark.parametrize("name", IN_HALVES)
def test_ranks_follow_as_far_as_they_round(name: str, strategy: str, tmp_path: Path) -> None:
    body, apart = IN_HALVES[name]
    source = (HEAD + body + TAIL).replace("shuffle=True", "shuffle=False")  # ranks draw another order
    (tmp_path / "train.py").write_text(source)
    ranks = learnt(converted(source, tmp_path, strategy=strategy), 2, tmp_path / "ranks")
    one = learnt(tmp_path / "train.py", 0, tmp_path / "one")
    assert ranks.keys() == one.keys()
    for key, weights in one.items():
        assert (ranks[key].double() - weights.double()).abs().max() < apart, key
