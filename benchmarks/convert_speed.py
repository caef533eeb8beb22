"""Measures what a conversion costs, as a ratio to what libcst alone needs for the same file.

    python benchmarks/convert_speed.py [--lines 100 400 2000] [--repeats 5]

Warm: CPU time of `distify_codemods.convert` against `parse_module` and one `ScopeProvider`, in one process, for
generated training scripts of several lengths and two kinds. Cold: wall time of `distify convert --diff` on a script
of some 150 lines, without a terminal, against `python -c "import libcst"`. Both are ratios, so that they can be
compared between machines, and both are taken from the fastest of several runs. Large: CPU time and peak memory of one
conversion of 10,000 lines against libcst alone, each in a fresh process, after the imports. Exits with 1 when a target
is missed.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import libcst as cst
from distify_codemods import Outcome, SourceFile, convert
from libcst.metadata import MetadataWrapper, ScopeProvider

LINES = (100, 200, 400, 1000, 2000, 5000)
WARM_TARGET = 2.5  # at 400 lines
GROWTH_TARGET = 1.5  # time per line of the longest file, to that at 400 lines
COLD_TARGET = 4.0
LARGE = 10_000
LARGE_CPU_TARGET, LARGE_MEMORY_TARGET = 2.5, 1.5
COLD_RUNS = 7
SCRIPT = Path(__file__).resolve().parent.parent / "fixtures" / "argparse_main" / "train.py"

HEAD = '''"""Train a small network on noisy vectors."""
import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
'''

#: What is repeated; `{n}` is the number of the copy.
PIECES = '''

class Block{n}(nn.Module):
    """Two layers with a shortcut around them."""

    def __init__(self, width, drop=0.1):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        hidden = F.relu(self.inner(self.norm(x)))
        return x + self.drop(self.outer(hidden))


def transform{n}(sample, strength=0.{n}):
    # flips and shifts, as long as they leave the class alone
    if strength > 0.5:
        sample = sample.flip(0)
    sample = sample + strength * sample.abs()
    return sample / (1.0 + strength)


class Meter{n}:
    """A running average with a name and a format."""

    def __init__(self, name, fmt=":f"):
        self.name = name
        self.fmt = fmt
        self.reset()

    def reset(self):
        self.value, self.total, self.count = 0.0, 0.0, 0

    def update(self, value, n=1):
        self.value = value
        self.total += value * n
        self.count += n

    def __str__(self):
        return ("{{name}} {{value" + self.fmt + "}}").format(name=self.name, value=self.total / max(1, self.count))


def net{n}(width):
    """A small network of one block."""
    return nn.Sequential(Block{n}(width), nn.Linear(width, 10))


def topk{n}(output, target, k={n}):
    """How many of the k most likely classes are right."""
    with torch.no_grad():
        _, predicted = output.topk(min(k, output.size(1)), 1)
        hits = predicted.eq(target.view(-1, 1))
        return hits.float().sum().item()
'''

TAIL = """

class Vectors(Dataset):
    def __init__(self, count, width):
        self.data = torch.randn(count, width)
        self.labels = torch.randint(0, 10, (count,))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        sample = self.data[index]
{transforms}
        return sample, self.labels[index]


NETS = {{{nets}}}


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
{blocks}
        self.head = nn.Linear(width, 10)

    def forward(self, x):
{forward}
        return self.head(x)


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for step, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        if step % args.log_interval == 0:
            print("epoch {{}} step {{}} loss {{:.4f}}".format(epoch, step, loss.item()))


def test(model, device, loader):
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            loss += F.cross_entropy(output, target, reduction="sum").item()
            correct += output.argmax(dim=1).eq(target).sum().item()
    print("loss {{:.4f}} accuracy {{:.4f}}".format(loss / len(loader.dataset), correct / len(loader.dataset)))
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--arch", default="net0")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--save-dir", default="runs")
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(Vectors(4096, args.width), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(Vectors(512, args.width), batch_size=256)
    model = {model}(args.width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    best = 0.0
    for epoch in range(args.epochs):
        train(args, model, device, train_loader, optimizer, epoch)
        accuracy = test(model, device, test_loader)
        if accuracy > best:
            best = accuracy
            torch.save(model.state_dict(), os.path.join(args.save_dir, "best.pt"))


if __name__ == "__main__":
    main()
"""


def script_of(lines: int, by_name: bool) -> str:
    """A training script of about that many lines. Every other repeated piece is used by the training.

    `by_name`: the network is one of many, chosen on the command line; else one network is made of many blocks.
    """
    copies = 0
    text = _script(copies, by_name)
    while text.count("\n") < lines:
        copies += 1
        longer = _script(copies, by_name)
        if longer.count("\n") - lines > lines - text.count("\n"):
            break
        text = longer
    return text


def _script(copies: int, by_name: bool) -> str:
    used = range(0, copies, 2)
    transforms = [f"        sample = transform{n}(sample)" for n in used]
    blocks = [f"        self.block{n} = Block{n}(width)" for n in used]
    forward = [f"        x = self.block{n}(x)" for n in used]
    tail = TAIL.format(
        transforms="\n".join(transforms or ["        sample = sample / 2"]),
        blocks="\n".join(blocks or ["        self.norm = nn.LayerNorm(width)"]),
        forward="\n".join(forward or ["        x = self.norm(x)"]),
        nets=", ".join(f'"net{n}": net{n}' for n in used),
        model="NETS[args.arch]" if by_name and copies else "Net",
    )
    return HEAD + "".join(PIECES.format(n=n) for n in range(copies)) + tail


def cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    """The least CPU time of several runs."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def convert_once(data: bytes) -> None:
    conversion = convert(SourceFile("train.py", data), lambda importer, name, level: None)
    assert conversion.outcome is Outcome.CONVERTED, conversion.findings


def libcst_alone(data: bytes) -> None:
    MetadataWrapper(cst.parse_module(data)).resolve(ScopeProvider)


def warm(lengths: list[int], repeats: int, by_name: bool) -> bool:
    """Prints a line for each length; true when the targets are met."""
    print("a network chosen by name" if by_name else "a network of many blocks")
    print(f"{'lines':>6}  {'convert':>9}  {'libcst':>9}  {'ratio':>5}  {'per line':>9}")
    ratios, per_line = {}, {}
    for wanted in lengths:
        data = script_of(wanted, by_name).encode()
        lines = data.count(b"\n")
        ours = cpu_seconds(lambda data=data: convert_once(data), repeats)  # type: ignore[misc]
        theirs = cpu_seconds(lambda data=data: libcst_alone(data), repeats)  # type: ignore[misc]
        ratios[wanted], per_line[wanted] = ours / theirs, ours / lines
        print(
            f"{lines:>6}  {ours * 1e3:>6.0f} ms  {theirs * 1e3:>6.0f} ms  {ratios[wanted]:>5.2f}"
            f"  {per_line[wanted] * 1e6:>6.0f} us"
        )
    met = True
    if 400 in ratios:
        met = ratios[400] <= WARM_TARGET
        print(f"ratio at 400 lines: {ratios[400]:.2f} (target: at most {WARM_TARGET})")
        growth = per_line[max(lengths)] / per_line[400]
        met = met and growth <= GROWTH_TARGET
        print(f"a line of {max(lengths)} costs {growth:.2f} of a line of 400 (target: at most {GROWTH_TARGET})")
    print()
    return met


def wall_seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - start


def cold() -> bool:
    """Prints what a user waits for; true when the target is met."""
    convert_command = [str(Path(sys.executable).with_name("distify")), "convert", "--diff", str(SCRIPT)]
    import_command = [sys.executable, "-c", "import libcst"]
    ours, theirs = [], []
    for _ in range(COLD_RUNS):
        ours.append(wall_seconds(convert_command))
        theirs.append(wall_seconds(import_command))
    ratio = min(ours) / min(theirs)
    print(
        f"distify convert --diff: {min(ours) * 1e3:.0f} ms; import libcst: {min(theirs) * 1e3:.0f} ms; "
        f"ratio {ratio:.2f} (target: at most {COLD_TARGET:g})"
    )
    return ratio <= COLD_TARGET


def large() -> bool:
    """Prints what one large file costs, in CPU time and in memory; true when the targets are met."""
    print(f"{LARGE} lines, each in a process of its own")
    met = True
    for by_name in (False, True):
        ours, theirs = (
            [float(word) for word in _output([__file__, "--alone", what, "--by-name", str(int(by_name))]).split()]
            for what in ("convert", "libcst")
        )
        cpu, memory = ours[0] / theirs[0], ours[1] / theirs[1]
        kind = "chosen by name" if by_name else "many blocks"
        print(
            f"{kind:>14}  CPU {ours[0]:.2f} s, libcst {theirs[0]:.2f} s, ratio {cpu:.2f}"
            f"  peak {ours[1]:.0f} MiB, libcst {theirs[1]:.0f} MiB, ratio {memory:.2f}"
        )
        met = met and cpu <= LARGE_CPU_TARGET and memory <= LARGE_MEMORY_TARGET
    print(f"targets: at most {LARGE_CPU_TARGET} of the CPU time and {LARGE_MEMORY_TARGET} of the peak memory")
    print()
    return met


def _output(arguments: list[str]) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout


def alone(what: str, by_name: bool) -> None:
    """In a fresh process: CPU seconds and peak memory (MiB) of one conversion, or of libcst alone."""
    data = script_of(LARGE, by_name).encode()
    small = script_of(100, by_name).encode()
    work = convert_once if what == "convert" else libcst_alone
    work(small)  # what is imported when it is first used is no part of the measurement
    start = time.process_time()
    work(data)
    seconds = time.process_time() - start
    unit = 2**20 if sys.platform == "darwin" else 2**10
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def main() -> int:
    parser = argparse.ArgumentParser(description="what a conversion costs, beside libcst alone")
    parser.add_argument("--lines", type=int, nargs="+", default=list(LINES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--alone", choices=("convert", "libcst"), help=argparse.SUPPRESS)
    parser.add_argument("--by-name", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        alone(options.alone, bool(options.by_name))
        return 0
    met = [warm(options.lines, options.repeats, by_name) for by_name in (False, True)]
    return 0 if all([*met, large(), cold()]) else 1


if __name__ == "__main__":
    sys.exit(main())
