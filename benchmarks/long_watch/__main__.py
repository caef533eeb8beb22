"""Whether the watch says something where nothing is wrong: converted scripts train long, on two Gloo ranks.

    python benchmarks/long_watch [NAME ...]

Each fixture is copied, made long by a few words (more epochs), converted, and started with `distify run`, the watch on.
Printed are the steps of the optimizer that takes most, the seconds, and what the watch said: it must be nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FIXTURES = ROOT / "fixtures"
LEAST = 1000


@dataclass(frozen=True)
class Case:
    """`edits`: what stands in place of what. `how`: how it is converted. `arguments`: the script's."""

    name: str
    kind: str
    edits: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    how: tuple[str, ...] = ()


SHARED, AVERAGED, HOROVOD = ("--strategy", "shared"), ("--backend", "allreduce"), ("--backend", "horovod")
CASES = (
    Case("argparse_main", "a schedule, checkpoints", (), ("--epochs", "35")),
    Case("blobs", "gradients clipped", (), ("--epochs", "52")),
    Case("blobs", "the same", (), ("--epochs", "52"), AVERAGED),
    Case("blobs", "the same", (), ("--epochs", "52"), HOROVOD),
    Case("buckets", "a batch sampler of its own", (("range(4)", "range(105)"),)),
    Case("drawn_batches", "batches by hand", (("range(12)", "range(85)"), ("< 0.01", "< 0"))),
    Case("drawn_batches", "the same", (("range(12)", "range(85)"), ("< 0.01", "< 0")), (), AVERAGED),
    Case("endless", "a stream by steps, an optimizer of its own", (("STEPS = 60", "STEPS = 1010"),)),
    Case("flag_function", "BatchNorm, one function for both", (("epochs=9", "epochs=86"),)),
    Case("flat", "convolutions, BatchNorm", (("num_epochs = 3", "num_epochs = 34"),)),
    Case("globals", "DataParallel before, resumes", (("epochs = 4", "epochs = 64"),)),
    Case("loader_class", "a loader of its own", ((".train(6)", ".train(70)"),)),
    Case("logs", "logging", (('"epochs": 3', '"epochs": 102'),)),
    Case("phases", "trains and validates in one loop", (("num_epochs=4", "num_epochs=70"),)),
    Case("rare_classes", "a weighted sampler", (("range(6)", "range(86)"),)),
    Case("settled", "a plan on the command line", (), ("--rounds", "102")),
    Case("stopper", "figures decide", (("Patience(2)", "Patience(9999)"), ("range(25)", "range(130)"))),
    Case("stream", "an iterable data set", (("range(3)", "range(42)"),)),
    Case("stripes", "ImageNet's example", (), ("--epochs", "130")),
    Case("text_columns", "text in columns, an LSTM", (("10, 6\n", "10, 52\n"),)),
    Case("training_accuracy", "Adam, looks at its data", (("range(1, 5)", "range(1, 105)"),)),
    Case("two_networks", "two networks, one optimizer", (("MAX_EPOCHS = 6", "MAX_EPOCHS = 65"),)),
    Case("written_out", "steps written out", (("epochs = 3", "epochs = 35"),)),
    Case("gan", "a GAN, weights clipped"),
    Case("accumulated", "autocast, accumulation, OneCycleLR"),
    Case("accumulated", "the same", (), (), SHARED),
    Case("perturbed", "an attack on each batch, layers that thaw"),
)


def main() -> int:
    wanted = sys.argv[1:]
    print("| script | | way | steps | seconds | the watch |\n| --- | --- | --- | ---: | ---: | --- |")
    quiet = [_row(case) for case in CASES if not wanted or case.name in wanted]
    print(f"{sum(quiet)} of {len(quiet)} ran to their end, and nothing was said")
    return 0 if all(quiet) else 1


def _row(case: Case) -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        way = _converted(case, folder)
        began = time.monotonic()
        words = ("run", "-np", "2", "--oversubscribe", "--logs", "logs", "train_dist.py", *case.arguments)
        done = _distify(folder, *words)
        seconds = time.monotonic() - began
        steps = [int(one.read_text()) for one in folder.glob("steps*")]
        said = _said(folder, done)
    taken = min(steps, default=0)
    short = [] if taken >= LEAST else [f"{taken} steps only"]
    told = "; ".join([*said, *short]).replace("|", "/") or "nothing"
    print(f"| {case.name} | {case.kind} | {way} | {taken} | {seconds:.0f} | {told} |", flush=True)
    return told == "nothing"


def _converted(case: Case, folder: Path) -> str:
    """Which way it went."""
    own = HERE / f"{case.name}.py"
    shutil.copy(own if own.exists() else FIXTURES / case.name / "train.py", folder / "train.py")
    script = folder / "train.py"
    text = script.read_text()
    for old, new in case.edits:
        if old not in text:
            raise SystemExit(f"{case.name}: there is no {old!r}")
        text = text.replace(old, new)
    script.write_text(text)
    done = _distify(folder, "convert", "train.py", "--yes", *case.how)
    if done.returncode:
        raise SystemExit(f"{case.name}: {done.stdout}{done.stderr}")
    text = (folder / "train_dist.py").read_text()
    ways = {"horovod": "Horovod", "rt.data_parallel": "shared passes", "DistributedDataParallel": "DDP"}
    return next((way for sign, way in ways.items() if sign in text), "all-reduce")


def _said(folder: Path, done: subprocess.CompletedProcess[str]) -> list[str]:
    """By any rank, or the launcher's complaint."""
    text = done.stderr + "".join(one.read_text() for one in (folder / "logs").glob("*.log"))
    ours = [line for line in text.splitlines() if "InvariantBroken" in line or line.startswith("distify: ")]
    notes = ("logs in ", "batches of ", "its log is ", "samples do not ", "sharing forward passes costs")
    said = [line for line in dict.fromkeys(ours) if not any(one in line for one in notes)]
    return [*said, *([f"exit code {done.returncode}"] if done.returncode else [])]


def _distify(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = [ROOT / "benchmarks" / "counting", ROOT, ROOT / "codemods", ROOT / "runtime"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "COUNT_STEPS_IN": str(folder)}
    env |= {"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "DISTIFY_WATCH": "on"}
    words = (sys.executable, "-m", "distify", *words)
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
