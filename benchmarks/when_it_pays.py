"""From which batch on do two ranks pay? LeNet on pictures of 28 x 28, as in texts on synchronous SGD, on this machine.

    python benchmarks/when_it_pays.py [--plot docs/when_it_pays.svg] [--batches 16,32,64] [--rounds 3] [--json]

For each batch `distify bench` measures a step on one and on two ranks, and predicts the one on two. The median of the
rounds counts; all batches are gone through in each round. Two ranks pay where a step of theirs is the shorter one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LENET = """\
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.view(-1, 320)))
        return F.log_softmax(self.fc2(x), dim=1)


torch.manual_seed(0)
batch_size = int(sys.argv[1])
pictures = torch.randn(batch_size * 8, 1, 28, 28)
digits = torch.randint(0, 10, (len(pictures),))
loader = DataLoader(TensorDataset(pictures, digits), batch_size=batch_size, shuffle=True)
model = LeNet()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.85)
model.train()
for epoch in range(20):
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
"""
BATCHES = "8,16,32,64,128,256,512,1024"
SYNCHRONISING = ("gradients", "figures", "batchnorm", "gathering", "other")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", metavar="FILE")
    parser.add_argument("--batches", default=BATCHES)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    batches = [int(word) for word in options.batches.split(",")]
    load = os.getloadavg()[0]
    reports: dict[int, list[dict[str, Any]]] = {batch: [] for batch in batches}
    for _ in range(options.rounds):
        for batch in batches:
            reports[batch].append(benched(batch))
    rows = [row_of(batch, reports[batch]) for batch in batches]
    if options.json:
        print(json.dumps({"load": load, "rows": rows}, indent=2))
    else:
        print(f"{'batch':>6} {'one rank':>9} {'two ranks':>9} {'predicted':>9} {'T_comp':>7} {'T_sync':>7} speed-up")
        for row in rows:
            figures = "".join(
                f"{row[name]:8.2f} " for name in ("one", "two", "predicted", "computing", "synchronising")
            )
            print(f"{row['batch']:6} {figures}{row['one'] / row['two']:6.2f}")
        print(f"milliseconds of a step; load {load:.1f}; two ranks pay from a batch of {crossing(rows, 'two')} on")
        print(f"predicted: from {crossing(rows, 'predicted')} on")
    if options.plot:
        draw(rows, options.plot)
    return 0


def benched(batch: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(LENET, encoding="utf-8")
        network = ["--predict", "4", "--bandwidth", "10Gbit", "--latency", "50us"]  # what is here is predicted with it
        words = [
            sys.executable,
            "-m",
            "distify",
            "bench",
            "train.py",
            "-np",
            "1,2",
            "--steps",
            "60",
            *network,
            "--json",
        ]
        paths = [*map(str, (ROOT, ROOT / "codemods", ROOT / "runtime")), os.environ.get("PYTHONPATH", "")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        done = subprocess.run(
            [*words, "--", str(batch)], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"batch {batch}: {done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def row_of(batch: int, reports: list[dict[str, Any]]) -> dict[str, float]:
    """Milliseconds of a step: medians of the rounds."""
    ones, twos = ([report["measured"][number] for report in reports] for number in (0, 1))
    return {
        "batch": batch,
        "one": median(one["step_ms"] for one in ones),
        "two": median(two["step_ms"] for two in twos),
        "predicted": median(report["checked"][0]["step_ms"] for report in reports),
        "computing": median(two["parts_ms"]["computing"] + two["parts_ms"]["backward"] for two in twos),
        "synchronising": median(sum(two["parts_ms"][part] for part in SYNCHRONISING) for two in twos),
    }


def crossing(rows: list[dict[str, float]], which: str) -> str:
    """The batch at which two ranks begin to stay ahead, between those that were tried (by logarithms)."""
    gains = [math.log(row["one"] / row[which]) for row in rows]
    if gains[-1] <= 0:
        return f"more than {rows[-1]['batch']}"
    behind = [number for number, gain in enumerate(gains) if gain <= 0]
    if not behind:
        return f"{rows[0]['batch']} or fewer"
    last = behind[-1]
    part = -gains[last] / (gains[last + 1] - gains[last])
    below, above = (math.log(rows[number]["batch"]) for number in (last, last + 1))
    return f"about {math.exp(below + part * (above - below)):.0f}"


def draw(rows: list[dict[str, float]], path: str) -> None:
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams.update({"svg.hashsalt": "distify", "svg.fonttype": "none"})  # the same figures are the same small file
    batches = [row["batch"] for row in rows]
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, style, label in (
        ("one", "o-", "one rank"), ("two", "s-", "two ranks"), ("predicted", "s:", "two ranks, predicted"),
        ("synchronising", "^--", "of it T_sync"),
    ):  # fmt: skip
        left.plot(batches, [row[name] for row in rows], style, label=label)
    left.set(xscale="log", yscale="log", xlabel="batch, over all ranks", ylabel="ms a step")
    left.legend(fontsize="small")
    for name, style, label in (("two", "s-", "measured"), ("predicted", "s:", "predicted")):
        right.plot(batches, [row["one"] / row[name] for row in rows], style, label=label)
    right.axhline(1.0, color="black", linewidth=0.8)
    right.set(xscale="log", xlabel="batch, over all ranks", ylabel="two ranks: times as fast as one")
    right.legend(fontsize="small")
    for axes in (left, right):
        axes.set_xticks(batches, [str(batch) for batch in batches])
        axes.minorticks_off()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    sys.exit(main())
