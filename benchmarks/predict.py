"""Holds what `distify bench` predicts against what it measures: three trainings, two and four ranks of this machine.

    python benchmarks/predict.py [--only cnn] [--rounds 3] [--json]

An MLP, a CNN with BatchNorm and a small transformer, each timed on one, two and four ranks, and predicted for two and
four from processes that exchange nothing and one collective. Wanted: within 15 % for two ranks, within 25 % for four.
Of several rounds the median counts. Figures of a busy machine say nothing: the load stands beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WANTED = {2: 0.15, 4: 0.25}
HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
"""
LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(20):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total / len(loader))
"""
MLP = """
x = torch.randn(4096, 256)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=512, shuffle=True)
model = nn.Sequential(
    nn.Linear(256, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 2)
)
"""
CNN = """
x = torch.randn(512, 3, 32, 32)
loader = DataLoader(TensorDataset(x, (x[:, 0].mean((1, 2)) > 0).long()), batch_size=64, shuffle=True)


def block(channels, wider):
    return nn.Sequential(nn.Conv2d(channels, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU(), nn.MaxPool2d(2))


model = nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.Flatten(), nn.Linear(128 * 16, 2))
"""
TRANSFORMER = """
x = torch.randint(0, 500, (512, 64))
loader = DataLoader(TensorDataset(x, (x[:, 0] > 250).long()), batch_size=32, shuffle=True)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(128, 2)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x)).mean(1))


model = Reader()
"""
SCRIPTS = {"mlp": MLP, "cnn": CNN, "transformer": TRANSFORMER}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(SCRIPTS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    if not options.json:
        print(f"{'script':12} {'ranks':>5} {'measured':>9} {'predicted':>9} {'off':>6}  {'rounds':16} load")
    for name in [options.only] if options.only else list(SCRIPTS):
        load = os.getloadavg()[0]
        reports = [benched(name, options.ranks, options.steps) for _ in range(options.rounds)]
        for number in range(len(reports[0]["checked"])):
            checked = [one["checked"][number] for one in reports]
            measured = [one["measured"][number + 1]["step_ms"] for one in reports]
            offs = sorted(one["off"] for one in checked)
            row = {
                "script": name, "ranks": checked[0]["ranks"], "measured_ms": median(measured),
                "predicted_ms": median(one["step_ms"] for one in checked), "off": median(offs), "offs": offs,
                "load": load,
            }  # fmt: skip
            found.append(row)
            if not options.json:
                print(
                    f"{name:12} {row['ranks']:5} {row['measured_ms']:6.1f} ms {row['predicted_ms']:6.1f} ms "
                    f"{row['off']:+6.0%}  {offs[0]:+.0%} to {offs[-1]:+.0%}".ljust(67)
                    + f"{load:.1f}",
                    flush=True,
                )
    if options.json:
        print(json.dumps(found, indent=2))
    return int(any(abs(row["off"]) > WANTED.get(row["ranks"], 1.0) for row in found))


def benched(name: str, ranks: str, steps: int) -> dict[str, Any]:
    """What `distify bench --json` says. Raises SystemExit, with what it said, where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(HEAD + SCRIPTS[name] + LOOP, encoding="utf-8")
        network = ["--predict", "8", "--bandwidth", "10Gbit", "--latency", "50us"]  # what is here is predicted with it
        words = [sys.executable, "-m", "distify", "bench", "train.py", "-np", ranks, "--steps", str(steps), *network]
        paths = [*map(str, (ROOT, ROOT / "codemods", ROOT / "runtime")), os.environ.get("PYTHONPATH", "")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        ended = subprocess.run([*words, "--json"], cwd=folder, env=env, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{name}: {ended.stderr}")
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


if __name__ == "__main__":
    sys.exit(main())
