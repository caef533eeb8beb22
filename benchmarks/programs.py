"""Times the conversion of real programs, each in a process of its own, beside what libcst alone takes for its files.

    python benchmarks/programs.py FOLDER [--only NAME ...] [--json FILE] [--beside FILE] [--drawn N --seed S]

FOLDER holds OWNER+NAME for each repository: a work tree, a git directory, or a folder with one in `repo`. Which
programs, at which commits, stands in `programs.json`; `--drawn` prints N more from the tables of `docs/draws.md`.
CPU seconds: other work on the machine changes them by a quarter at most. *Floor* is libcst's parse and one
ScopeProvider of each file that is reached. *Runs* is how often a program was followed, *statements* those of all runs.
`--beside` is the `--json` of another tree: its seconds are printed, and how many times as fast this tree is. What ends
a row stands for all that was written and said: alike in two trees if nothing changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO, StringIO
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT = 600  # seconds of a conversion, before it is given up
_ROW = re.compile(r"^\| \d+ \| \d+ \| (\S+/\S+) \| `([0-9a-f]{40})` \| `([^`]+)` \|", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--drawn", type=int)
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_measured(options.folder)))
        return 0
    if options.drawn:
        print(_drawn(options.folder, options.drawn, options.seed))
        return 0
    before = json.loads(options.beside.read_text()) if options.beside else {}
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    found: dict[str, dict[str, Any]] = {}
    print(f"{'program':22}  lines files  floor     CPU     x runs statements  outcome")
    for program in json.loads((HERE / "programs.json").read_text()):
        name = program["name"]
        if options.only and name not in options.only:
            continue
        found[name] = one = _in_a_process(options.folder, program)
        was = before.get(name, {}).get("seconds")
        faster = f"  before {was:.1f}, {was / one['seconds']:.1f} times as fast" if was and "seconds" in one else ""
        print(f"{name:22} {_row(one)}{faster}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(known | found))
    measured = [name for name in found if "seconds" in before.get(name, {}) and "seconds" in found[name]]
    both = [before[name]["seconds"] / found[name]["seconds"] for name in measured]
    if both:
        print(f"median of {len(both)}: {median(both):.1f} times as fast")
    return 0


def _row(one: dict[str, Any]) -> str:
    if "error" in one:
        return str(one["error"])
    times = one["seconds"] / one["floor"]
    return (
        f"{one['lines']:6} {one['files']:5} {one['floor']:6.2f} {one['seconds']:7.1f} {times:5.1f} {one['runs']:4} "
        f"{one['statements']:10}  {one['outcome']} {one['digest']}{' (cut)' * one['cut']}"
    )


def _in_a_process(folder: Path, program: dict[str, str]) -> dict[str, Any]:
    """What one conversion takes, from a work tree of that commit."""
    with tempfile.TemporaryDirectory() as scratch:
        root = _unpacked(folder / program["repository"].replace("/", "+"), program["commit"], Path(scratch))
        if root is None:
            return {"error": "not in the folder, or not with this commit"}
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--one", str(root / program["entry"])],
                capture_output=True, text=True, timeout=LIMIT, cwd=root, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error": f"no answer in {LIMIT} s"}
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1]}
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def _unpacked(mirror: Path, commit: str, scratch: Path) -> Path | None:
    places = (mirror / "repo/.git", mirror / "repo", mirror / ".git", mirror)
    git = next((one for one in places if (one / "HEAD").is_file()), None)
    if git is None:
        return None
    command = ["git", f"--git-dir={git}", "archive", commit, "--", ":(glob)**/*.py"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        return None
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as packed:
        packed.extractall(scratch, filter="data")
    return scratch


def _measured(entry: Path) -> dict[str, Any]:
    import libcst as cst
    from distify_codemods import Options, SourceFile, convert
    from distify_codemods.interpreter.machine import Machine
    from libcst.metadata import MetadataWrapper, ScopeProvider

    from distify.resolver import LocalModules

    machines: list[Machine] = []
    initialised = Machine.__init__

    def counted(self: Machine, *arguments: Any, **keywords: Any) -> None:
        initialised(self, *arguments, **keywords)
        machines.append(self)

    Machine.__init__ = counted  # type: ignore[method-assign]
    modules = LocalModules(str(entry))
    start = time.process_time()
    made = convert(SourceFile(str(entry), entry.read_bytes()), modules, Options(twins=True))
    seconds = time.process_time() - start
    others = {path: one.data for path, one in modules.found.items() if path != str(entry)}
    sources = [entry.read_bytes(), *others.values()]
    start = time.process_time()
    for source in sources:
        MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True).resolve(ScopeProvider)
    floor = time.process_time() - start
    said = StringIO()
    for file in made.files:
        said.write(file.after.decode(errors="replace"))
    for finding in made.findings:
        said.write(f"{finding.level} {finding.code} {finding.message}\n")
    strategy = f" {made.strategy.value}" if made.strategy is not None else ""
    return {
        "lines": sum(source.count(b"\n") for source in sources), "files": len(sources), "floor": floor,
        "seconds": seconds, "runs": len(machines), "statements": sum(machine.statements for machine in machines),
        "cut": any(not machine.complete for machine in machines),
        "outcome": f"{made.outcome.name.lower()}{strategy}",
        "digest": hashlib.sha256(said.getvalue().replace(str(entry.parent), "").encode()).hexdigest()[:8],
    }  # fmt: skip


def _drawn(folder: Path, number: int, seed: int) -> str:
    """Of all rows of the draws' tables, in a random order, the first that are in the folder."""
    rows = sorted(set(_ROW.findall((HERE.parent / "docs/draws.md").read_text())))
    random.Random(seed).shuffle(rows)
    kept = [row for row in rows if (folder / row[0].replace("/", "+")).is_dir()][:number]
    named = ("name", "repository", "commit", "entry")
    return "\n".join(
        json.dumps(dict(zip(named, (row[0].split("/")[1][:22].lower(), *row), strict=True))) for row in kept
    )


if __name__ == "__main__":
    sys.exit(main())
