"""Compares what is inferred about public training scripts with what a person has read there.

python benchmarks/accuracy.py MIRRORS [--annotations FILE] [--json] [--only TEXT]

MIRRORS holds a clone of each repository in a folder `owner+name` (or `owner+name/repo`; bare or not). The Python files
of the commit that was read are written to a temporary folder, and each annotated script is taken for the entry.

annotations.json says for each script where, in it or in the local modules that it reaches, trained models, optimizers
and training loaders are made, training loops begin and checkpoints are written. Each is a list of places `path:line`:
all of them where one of several is chosen as the program runs, and `a|b` where either reading is right. Loops are those
over the batches of a data set, however they are drawn; a pass over the whole data set at once, or over what an agent
has met, is none. What is inferred agrees with a place if it lies in the same simple statement, or in the same header of
a compound one. A thing counts as found when all of its places are; each place that is in no annotation is a false find.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libcst as cst
from distify_codemods import facts, interpreter, program
from distify_codemods.facts import Facts
from distify_codemods.program import Module

from distify.files import read_script
from distify.resolver import LocalModules

KINDS = ("models", "optimizers", "loaders", "loops", "saves")
Place = tuple[str, int, int]  # path, first and last line


@dataclass
class Count:
    found: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.found / (self.found + len(self.false) or 1)

    @property
    def recall(self) -> float:
        return self.found / (self.found + len(self.missed) or 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("--annotations", type=Path, default=Path(__file__).with_name("annotations.json"))
    parser.add_argument("--only", default="", help="scripts whose repository or path has this in it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scripts = json.loads(options.annotations.read_text(encoding="utf-8"))
    scripts = [one for one in scripts if options.only in f"{one['repository']}/{one['entry']}"]
    counts = {kind: Count() for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        for script in _with_progress(scripts):
            root = Path(folder, script["repository"].replace("/", "+"))
            if not root.exists():
                _check_out(_git_folder(options.mirrors / root.name), script["commit"], root)
            inferred = _inferred(root, script["entry"])
            for kind in KINDS:
                _compare(counts[kind], f"{script['repository']} ({script['entry']})", script[kind], inferred[kind])
    if options.json:
        print(json.dumps({kind: _as_json(count) for kind, count in counts.items()}, indent=2))
    else:
        _print(counts, len(scripts))
    return 0


def _git_folder(clone: Path) -> Path:
    for folder in (clone, clone / ".git", clone / "repo", clone / "repo" / ".git"):
        if (folder / "HEAD").is_file():
            return folder
    raise SystemExit(f"{clone}: no git repository here")


def _check_out(git_folder: Path, commit: str, target: Path) -> None:
    """Writes the Python files of a commit. A partial clone may lack large files: those are left out."""
    git = ["git", "--git-dir", str(git_folder)]
    listed = subprocess.run([*git, "ls-tree", "-rz", commit], check=True, capture_output=True).stdout
    entries = [entry.split("\t", 1) for entry in listed.decode().split("\0") if entry.endswith(".py")]
    target.mkdir()
    for about, name in entries:
        shown = subprocess.run([*git, "cat-file", "blob", about.split()[2]], capture_output=True)
        if shown.returncode == 0:
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(shown.stdout)


def _inferred(root: Path, entry: str) -> dict[str, set[Place]]:
    path = str(root / entry)
    loaded = program.load(read_script(path), LocalModules(path))
    found = facts.infer(loaded, interpreter.run(loaded))
    sites = {
        "models": [(model.module, model.site) for model in found.models],
        "optimizers": [(one.made.module, one.made.node) for one in found.optimizers],
        "loaders": [(one.module, one.site) for one in found.training_loaders],
        "loops": [(loop.module, loop.node) for loop in found.training_loops],
        "saves": _saves(found),
    }
    return {
        kind: {_place(root, module, node) for module, node in found if module is not None and node is not None}
        for kind, found in sites.items()
    }


def _saves(found: Facts) -> list[tuple[Module | None, cst.CSTNode | None]]:
    return [(event.module, event.node) for event in found.calls("torch.save")]


def _place(root: Path, module: Module, node: cst.CSTNode) -> Place:
    """The lines of the statement that a node stands in; of a compound one, those of its header."""
    statement = module.statement(node)
    lines = module.positions[statement]
    last = lines.end.line
    if isinstance(statement, cst.BaseCompoundStatement):
        last = max(module.positions[statement.body].start.line - 1, lines.start.line)
    return str(Path(module.path).resolve().relative_to(root.resolve())), lines.start.line, last


def _compare(count: Count, script: str, annotated: list[list[str]], inferred: set[Place]) -> None:
    agreed: set[Place] = set()
    for things in annotated:
        missing = []
        for choices in things:
            met = {place for place in inferred if any(_is_in(choice, place) for choice in choices.split("|"))}
            agreed |= met
            if not met:
                missing.append(choices)
        if missing:
            count.missed.append(f"{script}: {', '.join(missing)}")
        else:
            count.found += 1
    count.false += [f"{script}: {path}:{first}" for path, first, _ in sorted(inferred - agreed)]


def _is_in(annotated: str, place: Place) -> bool:
    path, line = annotated.rsplit(":", 1)
    return path == place[0] and place[1] <= int(line) <= place[2]


def _with_progress(scripts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        shown: Iterable[dict[str, Any]] = scripts
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            progress = stack.enter_context(Progress(console=Console(file=sys.stderr), transient=True))
            shown = progress.track(scripts, description="reading")
        yield from shown


def _print(counts: dict[str, Count], scripts: int) -> None:
    print(f"{scripts} scripts\n\n| kind | annotated | precision | recall |\n| --- | ---: | ---: | ---: |")
    whole = Count()
    for kind, count in counts.items():
        print(_row(kind, count))
        whole.found += count.found
        whole.missed += [f"{kind}: {one}" for one in count.missed]
        whole.false += [f"{kind}: {one}" for one in count.false]
    print(_row("all", whole))
    print("\nmissed:", *whole.missed, "\nfalse:", *whole.false, sep="\n  ")


def _row(kind: str, count: Count) -> str:
    return f"| {kind} | {count.found + len(count.missed)} | {count.precision:.3f} | {count.recall:.3f} |"


def _as_json(count: Count) -> dict[str, Any]:
    return {
        "found": count.found,
        "precision": round(count.precision, 4),
        "recall": round(count.recall, 4),
        "missed": count.missed,
        "false": count.false,
    }


if __name__ == "__main__":
    sys.exit(main())
