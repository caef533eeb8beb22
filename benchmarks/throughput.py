"""Compares converted trainings with the same written by hand: with DistributedDataParallel, Accelerate and Fabric.

python benchmarks/throughput.py [-np 2,4] [--rounds K] [--only TEXT] [--ways TEXT,...] [--no-profile] [--json]

The trainings are in benchmarks/throughput_trainings, as they are for one process. `make throughput` makes an
environment with Accelerate and Lightning Fabric and runs this in it; a way whose library is not there is left out.
Each round runs every way once, one after the other, so that what else the machine does falls on all of them; a way's
speed is the time of a step by hand with DistributedDataParallel over its own, of the same round, and what is shown is
the median over the rounds with the least and the largest. Beside it: the CPU time of a step, against that by hand, and
the share of the time that is spent in the runtime's own code, by cProfile (which makes calls dear: an upper bound).
Everything runs on this machine's CPUs over Gloo, one thread for each rank. torch has no synchronised BatchNorm there:
all ways use the runtime's.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pstats
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from distify_codemods import Options, Outcome, Strategy, convert

from distify.files import read_script

ROOT = Path(__file__).resolve().parents[1]
TRAININGS = ROOT / "benchmarks" / "throughput_trainings"
NAMES = ("mlp", "cnn", "transformer", "meters", "gan")
LIMIT_S = 600

#: What a person writes, as parts of the script and what takes their place.
_HEAD = "from clock import Clock\n"
_SEED = "torch.manual_seed(0)\n"
_LOADER = "loader = DataLoader(data, batch_size=BATCH, shuffle=True)\n"
_CLOCK = "clock = Clock(EPOCHS)\n"
_SHARE = "loader = DataLoader(data, batch_size=BATCH // dist.get_world_size(), shuffle=True)\n"
_NORMED = "model = convert_sync_batchnorm(model)\n"
_SHOW = "            print("
_TOGETHER = """\


def together(*meters):
    found = torch.tensor([[float(one.val), float(one.sum), one.count] for one in meters], dtype=torch.float64)
    dist.all_reduce(found)
    for one, (val, total, count) in zip(meters, found.tolist()):
        one.val, one.avg = val / dist.get_world_size(), total / count


"""
_IMPORTS = f"{_HEAD}import torch.distributed as dist\nfrom distify_runtime import convert_sync_batchnorm\n"
_OF_METERS = [
    (_SHOW, f"            together(losses, top1, top5)\n            if dist.get_rank() == 0:\n    {_SHOW}"),
    ("\n\ndef train(", f"{_TOGETHER}def train("),
]
_PAST_THE_WRAP = [("score(judge(fake), ones)", "score(judge.module(fake), ones)")]


def by_hand(name: str, text: str) -> str:
    wraps = ["maker", "judge"] if name == "gan" else ["model"]
    wrapped = "".join(f"{one} = DistributedDataParallel({one})\n" for one in wraps)
    imports = f"{_IMPORTS}from torch.nn.parallel import DistributedDataParallel\n"
    imports += "from torch.utils.data.distributed import DistributedSampler\n"
    share = "batch_size=BATCH // dist.get_world_size()"
    sharded = f"sampler = DistributedSampler(data)\nloader = DataLoader(data, {share}, sampler=sampler)\n"
    first = "makers = " if name == "gan" else "optimizer = "
    return _replaced(
        name, text, imports, "dist.init_process_group('gloo')\n", sharded,
        [(first, f"{_normed(name)}{wrapped}{first}"),
         ("    clock.start()\n", "    sampler.set_epoch(epoch)\n    clock.start()\n")],
    )  # fmt: skip


def accelerate(name: str, text: str) -> str:
    parts = "maker, judge, makers, judges, loader" if name == "gan" else "model, optimizer, loader"
    imports = f"{_IMPORTS}from accelerate import Accelerator\n"
    prepared = f"{_normed(name)}{parts} = accelerator.prepare({parts})\n{_CLOCK}"
    return _replaced(
        name, text, imports, "accelerator = Accelerator(cpu=True)\n", _SHARE,
        [(_CLOCK, prepared), ("loss.backward()", "accelerator.backward(loss)")],
    )  # fmt: skip


def fabric(name: str, text: str) -> str:
    pairs = ["maker, makers", "judge, judges"] if name == "gan" else ["model, optimizer"]
    prepared = "".join(f"{pair} = fabric.setup({pair})\n" for pair in pairs)
    start = (
        "fabric = Fabric(accelerator='cpu', devices=int(os.environ['WORLD_SIZE']), strategy='ddp')\nfabric.launch()\n"
    )
    return _replaced(
        name, text, f"{_IMPORTS}import os\nfrom lightning_fabric import Fabric\n", start, _SHARE,
        [(_CLOCK, f"{_normed(name)}{prepared}loader = fabric.setup_dataloaders(loader)\n{_CLOCK}"),
         ("loss.backward()", "fabric.backward(loss)")],
    )  # fmt: skip


def _normed(name: str) -> str:
    return _NORMED if name in ("cnn", "meters") else ""


def _replaced(name: str, text: str, imports: str, start: str, loader: str, others: Sequence[tuple[str, str]]) -> str:
    edits = [(_HEAD, imports), (_SEED, f"{start}{_SEED}"), (_LOADER, loader), *others]
    edits += _OF_METERS if name == "meters" else _PAST_THE_WRAP if name == "gan" else []
    for old, new in edits:
        if old not in text:
            raise SystemExit(f"throughput: {name} has no {old!r} any more")
        text = text.replace(old, new)
    return text


def converted(path: Path, options: Options) -> str:
    script = read_script(str(path))
    conversion = convert(script, lambda *_: None, options)  # what keeps the time is nothing of the training
    if conversion.outcome is not Outcome.CONVERTED:
        raise SystemExit(f"throughput: {path.name} is not converted: {conversion.outcome}")
    return next(one.after for one in conversion.files if Path(one.path).name == path.name).decode()


WAYS = ("DDP by hand", "Accelerate", "Fabric", "converted", "converted, allreduce", "converted, shared")
LIBRARIES = {"Accelerate": "accelerate", "Fabric": "lightning_fabric"}


def text_of(name: str, way: str) -> str:
    path = TRAININGS / f"{name}.py"
    if way == "converted":
        return converted(path, Options(strategy=Strategy.SHARDED))
    if way == "converted, allreduce":
        return converted(path, Options(strategy=Strategy.SHARDED, backend="allreduce"))
    if way == "converted, shared":
        return converted(path, Options(strategy=Strategy.SHARED))
    return {"DDP by hand": by_hand, "Accelerate": accelerate, "Fabric": fabric}[way](name, path.read_text())


@dataclass
class Run:
    training: str
    way: str
    ranks: int
    seconds: float  # of a step, on rank 0's clock
    cpu_seconds: float  # of a step, on all ranks' processors


def run(script: Path, ranks: int, profile: bool = False) -> list[tuple[float, float]]:
    """For each rank the median over the epochs of what a step takes, on the clock and on its CPU."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    clock = str(script.with_suffix(".{rank}.json"))
    shared = {
        **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "throughput", "OMP_NUM_THREADS": "1",
        "CLOCK": clock, "ACCELERATE_USE_CPU": "true", "PYTHONWARNINGS": "ignore", "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    processes = []
    for rank in range(ranks):
        profiled = ["-m", "cProfile", "-o", str(script.with_suffix(".prof"))] if profile and rank == 0 else []
        env = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        command = [sys.executable, *profiled, str(script)]
        processes.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    try:
        for process in processes:
            _, error = process.communicate(timeout=LIMIT_S)
            if process.returncode:
                raise SystemExit(f"throughput: {script.name} failed:\n{error.decode()[-2000:]}")
    finally:
        for process in processes:
            process.kill()
    found = [json.loads(Path(clock.format(rank=rank)).read_text()) for rank in range(ranks)]
    return [(median(wall for wall, _ in one), median(cpu for _, cpu in one)) for one in found]


def own_share(profile: Path) -> float:
    """Of the time of rank 0's training, what is spent in the runtime's own lines."""
    stats = pstats.Stats(str(profile)).stats  # type: ignore[attr-defined]
    imports = sum(one[2] for (file, _, _), one in stats.items() if "importlib" in file)
    own = sum(one[2] for (file, _, _), one in stats.items() if "distify_runtime" in file)
    return own / (sum(one[2] for one in stats.values()) - imports)


def measure(trainings: Sequence[str], ways: Sequence[str], ranks: int, rounds: int, folder: Path) -> list[Run]:
    runs: list[Run] = []
    scripts = {
        (name, way): folder / f"{name}_{number}.py"
        for name in trainings
        for number, way in enumerate(WAYS)
        if way in ways
    }
    for (name, way), path in scripts.items():
        path.write_text(text_of(name, way))
    for number in range(rounds):
        for (name, way), path in scripts.items():
            times = run(path, ranks)
            runs.append(Run(name, way, ranks, times[0][0], sum(cpu for _, cpu in times)))
            print(f"round {number + 1}, {name}, {way}: {times[0][0] * 1e3:.2f} ms", file=sys.stderr)
    return runs


def shares(trainings: Sequence[str], ways: Sequence[str], ranks: int, folder: Path) -> dict[tuple[str, str], float]:
    found = {}
    for name in trainings:
        for way in [one for one in ways if one.startswith("converted")]:
            path = folder / f"{name}_{WAYS.index(way)}.py"
            run(path, ranks, profile=True)
            found[name, way] = own_share(path.with_suffix(".prof"))
    return found


def table(runs: Sequence[Run], own: dict[tuple[str, str], float]) -> str:
    lines = ["| training | ranks | way | a step | speed | rounds | CPU | the runtime's own |",
             "| --- | ---: | --- | ---: | ---: | --- | ---: | ---: |"]  # fmt: skip
    for name, ranks, way in dict.fromkeys((one.training, one.ranks, one.way) for one in runs):
        mine = [one for one in runs if (one.training, one.ranks, one.way) == (name, ranks, way)]
        hand = [one for one in runs if (one.training, one.ranks, one.way) == (name, ranks, WAYS[0])]
        ratios = sorted(theirs.seconds / ours.seconds for ours, theirs in zip(mine, hand, strict=False))
        cpu = median(ours.cpu_seconds / theirs.cpu_seconds for ours, theirs in zip(mine, hand, strict=False))
        share = f"{100 * own[name, way]:.1f} %" if (name, way) in own else ""
        lines.append(
            f"| {name} | {ranks} | {way} | {median(one.seconds for one in mine) * 1e3:.1f} ms | {median(ratios):.2f} "
            f"| {ratios[0]:.2f} to {ratios[-1]:.2f} | {cpu:.2f} | {share} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-np", default="2,4", help="numbers of ranks")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="trainings whose name has this text")
    parser.add_argument("--ways", default="", help="ways that begin with one of these, besides DDP by hand")
    parser.add_argument("--no-profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    there = [way for way in WAYS if way not in LIBRARIES or importlib.util.find_spec(LIBRARIES[way])]
    wanted = tuple(args.ways.split(","))
    ways = [way for way in there if way == WAYS[0] or way.startswith(wanted)]
    for way in [one for one in WAYS if one not in there]:
        print(f"{way} is not installed, and left out", file=sys.stderr)
    trainings = [name for name in NAMES if args.only in name]
    runs: list[Run] = []
    own: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "clock.py").write_text((TRAININGS / "clock.py").read_text())
        for ranks in map(int, args.np.split(",")):
            runs += measure(trainings, ways, ranks, args.rounds, folder)
        if not args.no_profile:
            own = shares(trainings, ways, int(args.np.split(",")[0]), folder)
    if args.json:
        told = [{"training": name, "way": way, "share": share} for (name, way), share in own.items()]
        print(json.dumps({"runs": [asdict(one) for one in runs], "own": told}, indent=1))
    else:
        print(table(runs, own))
    print(f"load: {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
