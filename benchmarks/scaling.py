"""Compares the accuracy that fixtures reach with --scale linear on several ranks with that of one process.

python benchmarks/scaling.py [-np N] [--seeds K] [--larger F] [--longer F] [--only TEXT] [--warmup-epochs E] [--json]

Each fixture is converted and trained on N ranks, where its batch is N times as large, and as it is in one process,
once for each of K seeds, which are added to those that the script sets. Fixtures train for a few dozen steps on a few
hundred samples, so that tests are quick; with N times the batch that is next to none. The rule is for long runs (its
authors scaled 90 epochs over a million pictures, Goyal et al. 2017): here both, the one process and the ranks, get F
times as many samples to train and to test on, and F times as many epochs. The last printed line with the word
"accuracy" is what counts, in percent. Fixtures whose conversion needs a person are listed with what it needs.
Everything runs on this machine's CPUs, one thread for each process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev

from distify_codemods import Level, Options, Outcome, convert

from distify.files import read_script
from distify.resolver import LocalModules

ROOT = Path(__file__).resolve().parents[1]
WITHIN = 1.0  # percentage points between the means

#: Where a fixture says how many epochs it trains, and after how many it lowers its rate: each number in the group.
EPOCHS = {
    "argparse_main": [r"'--epochs', type=int, default=(\d+)"], "blobs": [r'"--epochs", type=int, default=(\d+)'],
    "buckets": [r"for epoch in range\((\d+)\)"], "flag_function": [r"epochs=(\d+)"],
    "flat": [r"num_epochs = (\d+)"], "globals": [r"^epochs = (\d+)"], "kwargs_loaders": [r"EPOCHS = (\d+)"],
    "loader_class": [r"\.train\((\d+)\)"], "logs": [r'"epochs": (\d+)'],
    "phases": [r"num_epochs=(\d+)", r"step_size=(\d+)"],
    "rare_classes": [r"for epoch in range\((\d+)\)"], "settled": [r'"--rounds", type=int, default=(\d+)'],
    "stopper": [r"for epoch in range\((\d+)\)"], "stream": [r"for epoch in range\((\d+)\)"],
    "stripes": [r"'--epochs', default=(\d+)", r"epoch // (\d+)"],
    "training_accuracy": [r"for epoch in range\(1, (\d+)\)"], "written_out": [r"^epochs = (\d+)"],
}  # fmt: skip

#: Where it says how many samples it makes, to train and to test on.
SAMPLES = {
    "argparse_main": [r"= spirals\((\d+)\)"], "blobs": [r"= blobs\((\d+)\)"], "buckets": [r"Walks\((\d+), seed"],
    "flag_function": [r"make_loader\((\d+)"], "flat": [r"num_(?:train|test) = (\d+)"],
    "globals": [r"Blobs\((\d+)\)"], "kwargs_loaders": [r"make_waves\((\d.*)\)", r"random_split\(full, \[(.*)\]\)"],
    "loader_class": [r"RingLoader\((\d+)"], "logs": [r"make_data\((\d+)"], "phases": [r"make_points\((\d+)\)"],
    "rare_classes": [r"counts = \[(.*)\]"], "settled": [r"rings\((\d+)\)"], "stopper": [r"\b(400|320)\b"],
    "stream": [r"Measurements\((\d+)\)", r"number in range\((\d+)\)"], "stripes": [r"Pictures\((\d+)\)"],
    "training_accuracy": [r"randn\((300)\b", r"random_split\(.*, \[(.*)\]\)"], "written_out": [r"bars\((\d+)\)"],
}  # fmt: skip

#: Runs a script whose seeds are moved by the first argument.
SEEDED = """\
import random, runpy, sys
import numpy, torch
offset, script, sys.argv = int(sys.argv[1]), sys.argv[2], sys.argv[2:]
for owner, name in ((torch, "manual_seed"), (random, "seed"), (numpy.random, "seed")):
    def moved(seed=0, *rest, own=getattr(owner, name)):
        return own(seed + 1000 * offset, *rest)
    setattr(owner, name, moved)
torch.manual_seed(0)
random.seed(0)
numpy.random.seed(0)
sys.path[0] = script.rpartition("/")[0] or "."
runpy.run_path(script, run_name="__main__")
"""


@dataclass
class Result:
    fixture: str
    needs: str = ""
    one_process: tuple[float, ...] = ()
    ranks: tuple[float, ...] = ()

    @property
    def gap(self) -> float:
        return mean(self.ranks) - mean(self.one_process)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-np", type=int, default=4, dest="ranks")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--larger", type=int, default=8, help="times as many samples as the fixture has")
    parser.add_argument("--longer", type=int, default=2, help="times as many epochs as the fixture has")
    parser.add_argument("--only", default="", help="fixtures with this in their name")
    parser.add_argument("--warmup-epochs", type=int, default=Options.warmup_epochs)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = [path.parent.name for path in sorted((ROOT / "fixtures").glob("*/train.py"))]
    names = [name for name in names if options.only in name]
    with tempfile.TemporaryDirectory() as folder:
        results = [
            measured(name, grown(name, options.larger, options.longer), options.ranks, seeds, options.warmup_epochs,
                     Path(folder))
            for name, seeds in _with_progress(names, options.seeds)
        ]  # fmt: skip
    if options.json:
        print(json.dumps([asdict(one) for one in results], indent=2))
    else:
        _print(results)
    return int(any(not one.needs and one.gap < -WITHIN for one in results))


def measured(name: str, text: str, ranks: int, seeds: Iterator[int], warmup: int, folder: Path) -> Result:
    here = folder / name
    here.mkdir()
    script = here / "train.py"
    script.write_text(text, encoding="utf-8")
    options = Options(scale="linear", warmup_epochs=warmup)
    conversion = convert(read_script(str(script)), LocalModules(str(script)), options)
    if conversion.outcome is not Outcome.CONVERTED:
        found = conversion.of(Level.BLOCKING)
        return Result(name, "; ".join(f"{one.code} at line {one.place.line if one.place else 0}" for one in found))
    (here / "train_dist.py").write_bytes(conversion.files[0].after)
    (here / "seeded.py").write_text(SEEDED, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    pairs = [(_accuracy([sys.executable], "train.py", seed, here), _accuracy(launch, "train_dist.py", seed, here))
             for seed in seeds]  # fmt: skip
    return Result(name, "", tuple(one for one, _ in pairs), tuple(several for _, several in pairs))


def grown(name: str, larger: int, longer: int) -> str:
    """The fixture, with so many times as many samples and epochs. Raises SystemExit where it no longer says them."""
    text = (ROOT / "fixtures" / name / "train.py").read_text(encoding="utf-8")
    growing = [(larger, pattern) for pattern in SAMPLES.get(name, ())]
    for times, pattern in [*growing, *((longer, pattern) for pattern in EPOCHS.get(name, ()))]:
        places = [match.span(1) for match in re.finditer(pattern, text, flags=re.MULTILINE)]
        if not places:
            raise SystemExit(f"{name}: {pattern} is not in it any more")
        for start, end in reversed(places):
            text = text[:start] + _multiplied(text[start:end], times) + text[end:]
    return text


def _multiplied(numbers: str, times: int) -> str:
    return re.sub(r"\d+", lambda number: str(int(number[0]) * times), numbers)


def _accuracy(launch: list[str], script: str, seed: int, folder: Path) -> float:
    """In percent. Raises SystemExit, with the end of what it said, where the run fails."""
    work = folder / f"{script}.{seed}"
    work.mkdir()
    command = [*launch, str(folder / "seeded.py"), str(seed), str(folder / script)]
    paths = [str(ROOT / "runtime"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {
        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    ended = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    lines = [line for line in re.split(r"[\r\n]+", ended.stdout) if "accuracy" in line.lower()]
    if ended.returncode or not lines:
        said = ended.stderr[-2000:]
        raise SystemExit(f"{script} of {folder.name}, seed {seed}, ended with {ended.returncode}:\n{said}")
    number, percent = re.findall(r"(\d+\.\d+)\s*(%?)", lines[-1])[-1]
    return float(number) * (1 if percent else 100)


def _with_progress(names: list[str], seeds: int) -> Iterator[tuple[str, Iterator[int]]]:
    """Each fixture with its seeds, and on a terminal a line that says how far this has come."""
    total = len(names) * seeds
    shown = sys.stderr.isatty()

    def numbered(name: str, done: int) -> Iterator[int]:
        for seed in range(seeds):
            if shown:
                filled = 30 * (done + seed) // total
                bar = "#" * filled + "." * (30 - filled)
                print(f"\r\033[K[{bar}] {done + seed}/{total} {name}, seed {seed}", end="", file=sys.stderr)
            yield seed

    for number, name in enumerate(names):
        yield name, numbered(name, number * seeds)
    if shown:
        print("\r\033[K", end="", file=sys.stderr)


def _print(results: list[Result]) -> None:
    print(f"{'fixture':20} {'one process':>16} {'ranks':>16} {'gap':>7}")
    for one in results:
        if one.needs:
            print(f"{one.fixture:20} needs you: {one.needs}")
        else:
            texts = [f"{mean(found):.1f} ± {_spread(found):.1f}" for found in (one.one_process, one.ranks)]
            print(f"{one.fixture:20} {texts[0]:>16} {texts[1]:>16} {one.gap:>+7.1f}")


def _spread(found: tuple[float, ...]) -> float:
    return stdev(found) if len(found) > 1 else 0.0


if __name__ == "__main__":
    sys.exit(main())
