"""Runs the conversion over every Python file of repositories: what breaks, what it costs, what is understood.

    python benchmarks/corpus.py FOLDER... [--limit SECONDS] [--jobs 1] [--slowest 10] [--training] [--json]

A FOLDER is a work tree, a bare git directory, or a folder of such. Each file is taken for an entry script, with the
local modules that it reaches, in a process of its own that is ended after --limit seconds; lines are those of all
files read for it.

A *training file* is one whose run, taken as the entry, comes to a backward pass and to an optimizer's step. Of those,
the shares for which the model, the optimizer, the training loader and the training loop are found are printed, and
beside them the files whose own text trains while their run does not (a class or function that nothing calls, for the
most part). Ctrl-C ends the run with a report on the files so far. Exits with 1 after a crash or a file that took too
long.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from operator import attrgetter
from pathlib import Path

from distify_codemods import Level, SourceError, SourceFile, convert, facts, interpreter, program
from distify_codemods.events import Kind
from mirrors import python_files

from distify.resolver import LocalModules

TRAINS = (re.compile(rb"\.backward\("), re.compile(rb"\.step\("))
PARTS = ("model", "optimizer", "loader", "loop")
FEW_LINES = 20  # below this, a time per line says little


@dataclass
class Result:
    """What one file came to. `outcome`: converted, refused, needs you, no source, CRASH or TOO LONG."""

    repository: str
    path: str
    outcome: str
    codes: list[str] = field(default_factory=list)  # of blocking findings
    seconds: float = 0.0  # CPU
    lines: int = 0
    mebibytes: float = 0.0  # peak, above what the imports take
    found: list[str] | None = None  # of PARTS; None for what is no training file
    text_trains: bool = False

    @property
    def per_line(self) -> float:
        return 1000 * self.seconds / max(1, self.lines)


def examine(repository: str, path: Path) -> Result:
    data = path.read_bytes()
    modules = LocalModules(str(path))
    result = Result(repository, str(path), "", text_trains=all(mark.search(data) for mark in TRAINS))
    before, began = _peak(), time.process_time()
    try:
        conversion = convert(SourceFile(str(path), data), modules)
        result.codes = sorted({one.code for one in conversion.of(Level.BLOCKING)})
        refused = any(code.startswith("REFUSE") for code in result.codes)
        result.outcome = "refused" if refused else "needs you" if result.codes else conversion.outcome.value
    except SourceError:
        result.outcome = "no Python 3 source"
    except Exception:
        result.outcome = "CRASH"
        print(f"\n{path}\n{traceback.format_exc()}", file=sys.stderr)
    result.seconds = time.process_time() - began
    result.mebibytes = (_peak() - before) / 1024
    result.lines = sum(one.data.count(b"\n") + 1 for one in (*modules.found.values(), SourceFile("", data)))
    if result.outcome not in ("no Python 3 source", "CRASH"):
        result.found = _parts(SourceFile(str(path), data), modules)
    return result


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _parts(file: SourceFile, modules: LocalModules) -> list[str] | None:
    """Which parts of its training are known; None where the run comes to none."""
    loaded = program.load(file, modules)
    run = interpreter.run(loaded)
    found = facts.infer(loaded, run)
    steps = any(event.kind is Kind.METHOD and event.name == "step" for event in run.events)
    if not found.backwards or not steps:
        return None
    known = (found.models, found.optimizers, found.training_loaders, found.training_loops)
    return [name for name, part in zip(PARTS, known, strict=True) if part]


# ---- one process for each file


def _child(pipe: Connection, repository: str, path: Path) -> None:
    pipe.send(examine(repository, path))
    pipe.close()


def examine_all(files: list[tuple[str, Path]], jobs: int, limit: float) -> Iterator[Result]:
    """The results as they come. A process that takes longer than `limit`, or dies, is a result, too."""
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(files))
    running: dict[Connection, tuple[ForkProcess, str, Path, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            repository, path = waiting.pop()
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(theirs, repository, path))
            process.start()
            theirs.close()
            running[ours] = (process, repository, path, time.monotonic() + limit)
        soonest = min(end for *_, end in running.values())
        ready = set(wait(list(running), max(0.0, soonest - time.monotonic())))
        for pipe, (process, repository, path, end) in list(running.items()):
            if pipe in ready or time.monotonic() > end:
                yield _ended(pipe, process, repository, path, limit)
                del running[pipe]


def _ended(pipe: Connection, process: ForkProcess, repository: str, path: Path, limit: float) -> Result:
    result = Result(repository, str(path), "TOO LONG", seconds=limit)
    try:
        if pipe.poll():
            result = pipe.recv()
            assert isinstance(result, Result)
        else:
            process.kill()
    except EOFError:
        result.outcome = "CRASH"
        print(f"\n{path}: the process ended without a result", file=sys.stderr)
    process.join()
    pipe.close()
    return result


def _with_progress(results: Iterable[Result], total: int) -> Iterator[Result]:
    if not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        yield from progress.track(results, total=total, description="converting")


# ---- what is printed


def summary(results: list[Result]) -> dict[str, object]:
    training = [one for one in results if one.found is not None]
    seconds, lines = sum(one.seconds for one in results), sum(one.lines for one in results)
    return {
        "repositories": len({one.repository for one in results}),
        "files": len(results),
        "lines": lines,
        "seconds": round(seconds, 1),
        "milliseconds a line": round(1000 * seconds / max(1, lines), 3),
        "peak mebibytes": round(max((one.mebibytes for one in results), default=0.0), 1),
        "outcomes": dict(Counter(one.outcome for one in results).most_common()),
        "refused by": _codes(results, "refused"),
        "needs you by": _codes(results, "needs you"),
        "training files": len(training),
        **{f"with {part}": sum(part in (one.found or ()) for one in training) for part in PARTS},
        "with all four": sum(one.found == list(PARTS) for one in training),
        "of these converted": sum(one.outcome == "converted" for one in training),
        "only their text trains": sum(one.text_trains and one.found is None for one in results),
    }


def _codes(results: list[Result], outcome: str) -> dict[str, int]:
    return dict(Counter(code for one in results if one.outcome == outcome for code in one.codes).most_common())


def report(results: list[Result], slowest: int, training: bool) -> None:
    for name, value in summary(results).items():
        text = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else value
        print(f"{name}: {text}")
    large = [one for one in results if one.lines >= FEW_LINES]
    for title, measure in (("a line", "per_line"), ("in all", "seconds")):
        print(f"slowest {title}:")
        for one in sorted(large, key=attrgetter(measure), reverse=True)[:slowest]:
            print(
                f"  {one.per_line:7.2f} ms a line  {one.seconds:6.2f} s  {one.lines:6} lines"
                f"  {one.mebibytes:5.0f} MiB  {one.path}"
            )
    for one in results if training else ():
        if one.found is not None and one.found != list(PARTS):
            print(f"lacks {', '.join(part for part in PARTS if part not in one.found)}: {one.path}")
        elif one.found is None and one.text_trains:
            print(f"only its text trains ({one.outcome}): {one.path}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one file (60)")
    parser.add_argument("--jobs", type=int, default=1, help="files at the same time (1)")
    parser.add_argument("--slowest", type=int, default=10, help="how many of the slowest files to name (10)")
    parser.add_argument("--training", action="store_true", help="name the training files of which a part is unknown")
    parser.add_argument("--json", action="store_true", help="print the summary and each file's result as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = python_files(options.folders, Path(scratch))
        results: list[Result] = []
        with suppress(KeyboardInterrupt):  # what is known so far is printed
            for one in _with_progress(examine_all(files, options.jobs, options.limit), len(files)):
                results.append(one)
        for one in results:
            one.path = str(Path(one.path).relative_to(scratch)) if one.path.startswith(scratch) else one.path
    results.sort(key=lambda one: one.path)
    if options.json:
        print(json.dumps({"summary": summary(results), "files": [asdict(one) for one in results]}, indent=2))
    else:
        report(results, options.slowest, options.training)
    return 1 if any(one.outcome in ("CRASH", "TOO LONG") for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
