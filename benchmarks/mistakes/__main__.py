"""Which of the planted mistakes are seen: by `distify verify`, and by the watch of a converted run.

    python benchmarks/mistakes [--only NAME] [--watch-alone] [WAY ...]

Ways: `converted`, `train.py` as distify converts it; `by_hand`, `by_horovod`, `by_accelerate`, `by_fabric`, as somebody
would with DistributedDataParallel, Horovod, Accelerate or Lightning Fabric (where that is installed); `shapes`, each
script of that folder as distify converts it. Each mistake is put into one of them. Printed is what verify says of the
two runs, what the watch says, whether that names the cause, and at which step the watch ended the run. What is right
comes first: nothing may be said of it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[1:1] = [str(ROOT / one) for one in (".", "codemods", "runtime")]

import planted_shapes  # noqa: E402
from click.testing import CliRunner  # noqa: E402
from distify_runtime.trace import processes  # noqa: E402
from planted import Mistake  # noqa: E402

from distify.cli import cli  # noqa: E402
from tests.equivalence.forks import Fork  # noqa: E402

#: What each way needs beside torch.
WAYS = {
    "converted": "torch", "by_hand": "torch", "by_horovod": "horovod", "by_accelerate": "accelerate",
    "by_fabric": "lightning", "shapes": "torch",
}  # fmt: skip
RIGHT = Mistake("right", (), "")
#: Seconds for a run in which nobody gets on; for a whole run.
PATIENCE, LIMIT = "8", 90.0
STEPS = "steps{rank}.txt"


@dataclass(frozen=True)
class Case:
    """`conversion`: its text; empty: as distify converts the original."""

    mistake: Mistake
    original: str
    conversion: str


@dataclass(frozen=True)
class Row:
    name: str
    by_verify: str
    named: bool
    by_watch: str
    named_by_watch: bool
    step: str


def main() -> int:
    parser = argparse.ArgumentParser(description="which planted mistakes are seen")
    parser.add_argument("ways", nargs="*", metavar="WAY", default=list(WAYS), help=", ".join(WAYS))
    parser.add_argument("--only", help="the mistakes whose names have this in them")
    parser.add_argument("--watch-alone", action="store_true", help="verify is not asked")
    options = parser.parse_args()
    processes._start = Fork  # type: ignore[assignment]  # forks of interpreters that have torch: runs start at once
    for way in options.ways:
        if importlib.util.find_spec(WAYS[way]) is None:
            print(f"{way}: {WAYS[way]} is not installed")
            continue
        _table(way, options.only or "", options.watch_alone)
    return 0


def _table(way: str, only: str, watch_alone: bool) -> None:
    watched = way in ("converted", "shapes")
    print(f"\n{way}\n| mistake | verify | names it | the watch | names it | at step |\n| {' | '.join(6 * ['---'])} |")
    rows = [_row(case, watched, watch_alone) for case in _cases(way) if only in case.mistake.name]
    wrong = [row for row in rows if row.name != RIGHT.name]
    right = [row for row in rows if row.name == RIGHT.name]
    if not watch_alone:
        print(f"right ones proved: {sum(not row.by_verify for row in right)} of {len(right)}")
        print(f"verify sees {sum(bool(row.by_verify) for row in wrong)} of {len(wrong)}", end=", ")
        print(f"and names {sum(row.named for row in wrong)}")
    if watched:
        print(f"the watch sees {sum(bool(row.by_watch) for row in wrong)} of {len(wrong)}", end=", ")
        print(f"and names {sum(row.named_by_watch for row in wrong)}")
        print(f"within ten steps: {sum(bool(row.step) and int(row.step) <= 10 for row in wrong)}", end="; ")
        print(f"of what is right it says something in {sum(bool(row.by_watch) for row in right)}")


# ---- what is run


def _cases(way: str) -> Iterator[Case]:
    original = (HERE / "train.py").read_text()
    if way == "shapes":
        for name, mistake in planted_shapes.MISTAKES.items():
            original = (HERE / "shapes" / f"{name}.py").read_text()
            yield Case(RIGHT, original, "")
            yield Case(mistake, original, _planted(mistake, _converted(original, "--strategy", "sharded", "--partial")))
        return
    if way == "converted":
        right, mistakes = _converted(original), importlib.import_module("planted").MISTAKES
    else:  # torch's own SyncBatchNorm is for GPUs alone: both have another norm
        original = original.replace("BatchNorm1d", "LayerNorm")
        right = (HERE / f"{way}.py").read_text()
        mistakes = importlib.import_module(f"planted_{way}").MISTAKES
    for mistake in (RIGHT, *mistakes):
        yield Case(mistake, original, _planted(mistake, right))


def _planted(mistake: Mistake, text: str) -> str:
    for old, new in mistake.edits:
        if old not in text:
            raise SystemExit(f"{mistake.name}: the conversion has no {old!r}")
        text = text.replace(old, new, 1)
    return text


def _converted(text: str, *how: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(text)
        _distify(folder, "convert", "train.py", "--yes", *how)
        return (folder / "train_dist.py").read_text()


# ---- what is said


def _row(case: Case, watched: bool, watch_alone: bool) -> Row:
    mistake = case.mistake
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(case.original)
        (folder / "train_dist.py").write_text(case.conversion or _converted(case.original))
        by_verify = "" if watch_alone else _verified(folder)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train_dist.py").write_text(case.conversion or _converted(case.original))
        by_watch, step = _watched(folder) if watched else ("", "")
    named, named_too = (bool(mistake.cause and re.search(mistake.cause, said)) for said in (by_verify, by_watch))
    row = Row(mistake.name, by_verify, named, by_watch, named_too, step if by_watch else "")
    told = [row.name, row.by_verify, row.named, row.by_watch, row.named_by_watch, row.step]
    print("| " + " | ".join(str(one).replace("|", "/").replace("\n", " ") for one in told) + " |", flush=True)
    return row


def _verified(folder: Path) -> str:
    """What differs, with what that usually means; empty where nothing does."""
    words = ("train.py", "train_dist.py", "--steps", "0", "--timeout", str(int(LIMIT)), "--json")
    out, err = _distify(folder, "verify", *words)
    if not out.startswith("{"):
        return (err.strip().splitlines() or ["nothing"])[-1]
    told = json.loads(out)
    parted = [check for check in told["checks"] if check["result"] == "differs"]
    said = [f"{one['check']}: {one['message']} {one['usually'] or ''}".strip() for one in parted]
    return "; ".join([*said, *told["last_lines"][-8:]])


def _watched(folder: Path) -> tuple[str, str]:
    """What it said, and at which step: by its own words, else how many rank 0 had taken in the end."""
    command = [str(HERE / "counted.py"), str(folder / STEPS), str(folder / "train_dist.py")]
    env = {"DISTIFY_WATCH": "on", "DISTIFY_HANG_TIMEOUT": PATIENCE}
    ranks = processes.Ranks(command, 2, folder, folder / "logs", env, LIMIT)
    with contextlib.suppress(processes.RunError):
        ranks.run()
    text = "\n".join(processes.read_log(folder / "logs" / f"{rank}.err", whole=True) for rank in range(2))
    notes = ("batches of", "samples do not", "rank 0 of 2", "rank 1 of 2")
    said = [line for line in text.splitlines() if "InvariantBroken: " in line or line.startswith("distify: ")]
    said = [line for line in said if not any(note in line for note in notes)]
    ended = [line for line in said if "the run is ended" in line] or said
    steps = folder / STEPS.format(rank=0)
    last = re.sub(r"^.*?(distify|InvariantBroken): ", "", ended[-1]) if ended else ""
    told = re.search(r"\bstep (\d+)", last)
    return last, told[1] if told else steps.read_text() if steps.exists() else "0"


def _distify(folder: Path, *words: str) -> tuple[str, str]:
    """Its stdout and stderr. In this process: what it starts are forks."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        done: Any = CliRunner().invoke(cli, words, prog_name="distify")
    finally:
        os.chdir(before)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout, done.stderr


if __name__ == "__main__":
    sys.exit(main())
