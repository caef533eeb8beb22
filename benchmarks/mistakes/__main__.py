"""Which of the planted mistakes are seen: by `distify verify`, and by the watch of a converted run.

    python benchmarks/mistakes [--by-hand] [NAME ...]

`train.py` is converted, and each mistake of `planted.py` put into what distify writes. Printed is, for each, what
verify says of the two runs, and what the watch says, and whether that names the cause. The right conversion comes
first: nothing may be said of it. `--by-hand`: the same in `by_hand.py`, which has no watch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import planted
import planted_by_hand
from planted import Mistake

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

#: Seconds for a run in which nobody gets on.
PATIENCE = "8"


def main() -> int:
    wanted = [one for one in sys.argv[1:] if one != "--by-hand"]
    by_hand = len(wanted) < len(sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        right, mistakes = _by_hand(folder) if by_hand else _converted(folder)
        cases = [Mistake("right", (), ""), *mistakes]
        print("| mistake | verify | names the cause | the watch | names the cause |\n| --- | --- | --- | --- | --- |")
        seen = [_row(folder, right, one, by_hand) for one in cases if not wanted or one.name in wanted]
    rows = [row for row in seen if row[0] != "right"]
    for title, index in (("verify sees", 1), ("and names", 2), ("the watch sees", 3), ("and names", 4)):
        print(f"{title}: {sum(bool(row[index]) for row in rows)} of {len(rows)}")
    return 0


def _converted(folder: Path) -> tuple[str, Sequence[Mistake]]:
    shutil.copy(HERE / "train.py", folder)
    _distify(folder, "convert", "train.py", "--yes")
    return (folder / "train_dist.py").read_text(), planted.MISTAKES


def _by_hand(folder: Path) -> tuple[str, Sequence[Mistake]]:
    """torch's own SyncBatchNorm is for GPUs alone: both have another norm."""
    original = (HERE / "train.py").read_text().replace("BatchNorm1d", "LayerNorm")
    (folder / "train.py").write_text(original)
    return (HERE / "by_hand.py").read_text(), planted_by_hand.MISTAKES


def _row(folder: Path, right: str, mistake: Mistake, by_hand: bool) -> tuple[str, str, bool, str, bool]:
    text = right
    for old, new in mistake.edits:
        if old not in text:
            raise SystemExit(f"{mistake.name}: the conversion has no {old!r}")
        text = text.replace(old, new, 1)
    (folder / "train_dist.py").write_text(text)
    by_verify, by_watch = _verified(folder), "" if by_hand else _watched(folder)
    names = [bool(mistake.cause and re.search(mistake.cause, said)) for said in (by_verify, by_watch)]
    row = (mistake.name, by_verify, names[0], by_watch, names[1])
    print("| " + " | ".join(str(one).replace("|", "/") for one in row) + " |", flush=True)
    return row


def _verified(folder: Path) -> str:
    """What differs, with what that usually means; empty where nothing does."""
    done = _distify(folder, "verify", "train.py", "train_dist.py", "--steps", "0", "--timeout", "50", "--json")
    if not done.stdout.startswith("{"):
        return (done.stderr.strip().splitlines() or ["nothing"])[-1]
    told = json.loads(done.stdout)
    parted = [check for check in told["checks"] if check["result"] == "differs"]
    said = [f"{one['check']}: {one['message']} {one['usually'] or ''}".strip() for one in parted]
    return "; ".join([*said, *told["last_lines"][-1:]])


def _watched(folder: Path) -> str:
    for made in (*folder.glob("*.pt"), *folder.glob("log.txt")):
        made.unlink()
    done = _distify(folder, "run", "-np", "2", "--oversubscribe", "--hang-timeout", PATIENCE, "train_dist.py")
    said = [line for line in done.stderr.splitlines() if _is_of_watch(line)]
    return said[-1].partition("distify: ")[2] or said[-1].partition("InvariantBroken: ")[2] if said else ""


def _is_of_watch(line: str) -> bool:
    ours = ("logs in", "batches of", "its log is", "samples do not", "rank 0 of 2", "rank 1 of 2", "has got on for")
    if "the run is ended" in line:
        return True
    return "InvariantBroken: " in line or (line.startswith("distify: ") and not any(one in line for one in ours))


def _distify(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / one) for one in (".", "codemods", "runtime"))}
    env |= {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "distify", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(main())
