"""The two runs: first the original in one process, then its conversion on N ranks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from distify_runtime.addresses import LOOPBACK_INTERFACE
from distify_runtime.launch.report import LAST_LINES, RankEnd, first_failure, traceback_of
from distify_runtime.launchers import usable_cores
from distify_runtime.trace import traces
from distify_runtime.trace.processes import Ranks, RunError, read_log
from distify_runtime.trace.rendezvous import rendezvous
from distify_runtime.trace.traces import Trace
from distify_runtime.watch import uneven, waiting

from distify.terminal import is_terminal
from distify.verification.copies import Copy

#: Which part of the steps one pass over a loader has at most: two passes, and a look at the third.
PART_OF_PASS = 0.4
#: How many times the steps are taken where some training has not begun by then.
_TIMES_THE_STEPS = 3
_TYPES = re.compile(r"\b(?:dtypes?|scalar type|Float|Double|float64|float32)\b")
#: Paths that lead out of a project, or into what is hidden in it: neither is in a copy.
_ELSEWHERE = re.compile(r"[\"']((?:\.\.[/\\]|(?:[^\"'/\\]+[/\\])*\.[^\"'./\\])[^\"']+)[\"']")
_RANK = re.compile(r"^\[rank\d+\]: ?")
#: For all runs: nothing is shown, sent or compiled.
_QUIET = {
    "MPLBACKEND": "Agg", "WANDB_MODE": "disabled", "TORCHDYNAMO_DISABLE": "1", "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONFAULTHANDLER": "1", "TORCH_CPP_LOG_LEVEL": "ERROR",
}  # fmt: skip


#: What the watch says of a run in which nobody gets on; why comes first.
_WAITED = (uneven.APART, waiting.NOBODY)


@dataclass(frozen=True)
class Plan:
    """How both are run. `gpus`: how many there are for the ranks, 0 where they run on the CPU."""

    ranks: int
    steps: int
    dtype: str
    args: tuple[str, ...]
    gpus: int
    limit: float
    spare: Path  # the user's project
    each_sample: bool = False  # noise is drawn for each sample, and not one row for all
    chance: bool = False  # random numbers are as they are, and what is drawn is written down
    mixed: bool = False  # precision is, where the script says so
    nudged: bool = False  # parameters are changed a little after the first step
    workers: int = 0  # of loaders that ask for some
    whole_passes: bool = False  # over the data: none ends early
    short_after: int = 0  # so many steps, passes end after one
    own_random: tuple[str, ...] = ()  # packages that draw by themselves in the conversion, and so in the original

    @property
    def steps_of_pass(self) -> int:
        """0: passes over the data are not cut short."""
        steps = min(self.short_after or self.steps, self.steps)
        return max(2, int(steps * PART_OF_PASS)) if steps and not self.whole_passes else 0


class Failed(Exception):
    """A run that did not end well: `reason` in one line, and its own last lines."""

    def __init__(self, reason: str, lines: Sequence[str] = ()) -> None:
        self.reason, self.lines = reason, list(lines)
        super().__init__(reason)


class AnotherWay(Failed):
    """The original does not bear how it was run, and is to be run by `plan`; `said`: what the user is told of that."""

    def __init__(self, plan: Plan, said: str, reason: str, lines: Sequence[str]) -> None:
        self.plan, self.said = plan, said
        super().__init__(reason, lines)


def run_original(plan: Plan, copy: Copy, logs: Path, filled_up: bool = True) -> Trace:
    """Raises Failed, with what the script itself said last; AnotherWay where it may run if it is run otherwise.

    filled_up: last batches that the ranks cannot share evenly, as where each rank has samples of its own.
    """
    return _run(plan, copy, logs, 0, ["--stands-for", str(plan.ranks if filled_up else 1)])[0]


def run_converted(plan: Plan, copy: Copy, logs: Path, horovod: bool) -> list[Trace]:
    """One trace for each rank. Raises Failed, with what the rank said that failed first."""
    if not horovod:
        return _run(plan, copy, logs, plan.ranks, [])
    with rendezvous(plan.ranks) as worlds:
        return _run(plan, copy, logs, plan.ranks, [], worlds)


def _run(
    plan: Plan, copy: Copy, logs: Path, world_size: int, more: list[str], worlds: Sequence[Mapping[str, str]] = ()
) -> list[Trace]:
    options = [
        *("--out", str(logs / "{rank}.pt"), "--dtype", plan.dtype),
        *("--steps", str(plan.steps), "--steps-of-pass", str(plan.steps_of_pass)),
        *("--short-after", str(plan.short_after if plan.steps_of_pass else 0)),
        *("--root", str(copy.folder), "--spare", str(plan.spare), *more),
        *(["--chance"] if plan.chance else ["--steady"]),
        *(["--each-sample"] if plan.each_sample else []),
        *(["--mixed"] if plan.mixed else []),
        *(["--nudged"] if plan.nudged else []),
        *("--workers", str(plan.workers)),
        *(f"--own-random={name}" for name in plan.own_random),
    ]
    command = [str(traces.PROGRAM), *options, *copy.words, *plan.args]
    env = environment(plan, copy, world_size)
    runs = Ranks(command, world_size, copy.workdir, logs, env, plan.limit, worlds=worlds)
    before = _states(copy.folder)
    title = f"converted, {world_size} ranks" if world_size else "original"
    try:
        with bar(title, plan.steps, logs / "0.steps") as watch:
            outputs = runs.run(watch=watch)
    except RunError as error:
        raise failure_of(error, plan, copy, world_size) from None
    files = sorted(name for name, state in _states(copy.folder).items() if before.get(name) != state)
    return [traces.load(logs / f"{rank}.pt", output, files) for rank, output in enumerate(outputs)]


def _states(folder: Path) -> dict[str, tuple[int, int]]:
    """By which a file that was written is known from one that was copied."""
    found = ((name, (folder / name).stat()) for name in traces.files_in(folder))
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in found}


def environment(plan: Plan, copy: Copy, world_size: int) -> dict[str, str]:
    runtime = str(Path(traces.PROGRAM).parents[2])
    env = {
        **_QUIET,
        "PYTHONPATH": os.pathsep.join([*copy.python_path, runtime]),
        "OMP_NUM_THREADS": str(max(1, usable_cores() // max(1, world_size))),
        "GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE,
    }
    if plan.gpus:
        env["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(plan.gpus))))
        env["NCCL_SOCKET_IFNAME"] = LOOPBACK_INTERFACE
    return env


@contextmanager
def bar(title: str, steps: int, file: Path) -> Iterator[Callable[[], None]]:
    """A bar on the terminal, of the steps that have been taken."""
    if not is_terminal(sys.stderr):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(title, total=steps or None)
        yield lambda: progress.update(task, completed=_steps_in(file))


def _steps_in(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def failure_of(error: RunError, plan: Plan, copy: Copy, world_size: int) -> Failed:
    who = "the converted script" if world_size else "the original"
    refused = sorted(error.logs.glob("*.refused"))
    if refused:
        path = refused[0].read_text(encoding="utf-8")
        return Failed(f"{who} writes to {path}, outside of its folder: give it another place by an argument behind --")
    tails = {rank: read_log(error.logs / f"{rank}.err") for rank in range(len(error.codes))}
    ends = [RankEnd(rank, code, 0.0) for rank, code in enumerate(error.codes) if code]
    first = first_failure(ends, tails)
    if first is None:
        steps = [_steps_in(error.logs / f"{rank}.steps") for rank in range(len(error.codes))]
        said = [line for tail in tails.values() for line in tail.splitlines()]
        waited = next((line for mark in _WAITED for line in said if mark in line), "")
        told = f"; {waited.removeprefix('distify: ')}" if waited else ""
        done = f"after {steps[0]} steps" if len(set(steps)) == 1 else f"after {steps} steps of its ranks"
        return Failed(f"{who} was stopped {done}: {plan.limit:.0f} seconds were over (--timeout){told}")
    tail = tails[first.rank]
    lines = traceback_of(tail) or tail.splitlines()[-LAST_LINES:] or _printed(error.logs, first.rank)
    rank = f"rank {first.rank} of {who}" if world_size else who
    missed = traces.missed_of(error.logs / f"{first.rank}.pt")
    told = _left_behind(lines, plan, copy) or (f": {looked_for(plan, copy, missed)}" if missed else "")
    watched = next(filter(None, (traces.watched_of(error.logs / f"{one}.pt") for one in tails)), "")
    told += f"; before that the watch has said: {watched}" if watched else ""
    reason = f"{rank} {first.describe()}{told}"
    told_last = _without_program(lines)
    if plan.dtype == "float64" and lines and _TYPES.search(lines[-1]):
        why = f"float64 does not suit the original ({lines[-1].strip()}): both ran in float32"
        return AnotherWay(in_float32(plan), why, reason, told_last)
    if plan.steps_of_pass and not world_size and _steps_in(error.logs / f"{first.rank}.steps"):
        why = f"passes over the data were not cut short: the original fails then ({(lines or [reason])[-1].strip()})"
        return AnotherWay(replace(plan, whole_passes=True), why, reason, told_last)
    return Failed(reason, told_last)


def _left_behind(lines: Sequence[str], plan: Plan, copy: Copy) -> str:
    """Says so where a script fails for a path that is not in a copy of its project."""
    there = plan.spare / os.path.relpath(copy.workdir, copy.folder)
    for path in _ELSEWHERE.findall(lines[-1] if lines else ""):
        if (there / path).exists() and not (copy.workdir / path).exists():
            where = "outside of that" if path.startswith("..") else "hidden, and so not in it"
            return (
                f": it runs in a copy of {plan.spare}, and {path} is {where}: name it by its whole path, "
                f"{os.path.realpath(there / path)}, in the script or by an argument behind --"
            )
    return ""


def looked_for(plan: Plan, copy: Copy, missed: Sequence[str]) -> str:
    """What is said of these whole paths, which the way out of a copy of the project does not lead to."""
    there = plan.spare / os.path.relpath(copy.workdir, copy.folder)
    named = ", ".join(os.path.relpath(path, there) for path in missed)
    one = len(missed) == 1
    return (
        f"it ran in a copy of {plan.spare}, and looked in vain for {named}, which {'lies' if one else 'lie'} outside "
        f"of that: name {'it by its whole path' if one else 'them by their whole paths'}, {', '.join(missed)}, in the "
        "script or by an argument behind --"
    )


def _printed(logs: Path, rank: int) -> list[str]:
    return read_log(logs / f"{rank}.out").splitlines()[-LAST_LINES:]


def _without_program(lines: Sequence[str]) -> list[str]:
    """A traceback from the script's own first line on, without the rank that torch puts before each line."""
    lines = [_RANK.sub("", line) for line in lines]
    ours = (*(f"{os.sep}distify_runtime{os.sep}{one}{os.sep}" for one in ("trace", "bench")), "runpy")
    inner = [number for number, line in enumerate(lines) if any(one in line for one in ours)]
    if not inner or not lines[0].startswith("Traceback"):
        return lines
    below = next((n for n in range(inner[-1] + 1, len(lines)) if lines[n].lstrip().startswith("File ")), len(lines))
    return [lines[0], *lines[below:]] if below < len(lines) else [lines[-1]]


def longer(plan: Plan) -> Plan:
    """By which training may begin that comes behind other training."""
    return replace(plan, steps=_TIMES_THE_STEPS * plan.steps, short_after=plan.steps)


def in_float32(plan: Plan) -> Plan:
    return replace(plan, dtype="float32")
