"""Runs a script in one process and its conversion on N ranks, and compares what they did.

Both compute in float64 and see their samples in the same order, so that a right conversion follows the original to
rounding error after every optimizer step, while every known mistake is orders of magnitude away. It is what `distify
verify` does, but that the random numbers of training stay the script's: whether its ranks draw as they should is
among what is tested.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from distify_runtime.trace import compare, traces
from distify_runtime.trace.traces import Pass, Save

from tests.equivalence.processes import run_ranks

__all__ = ["Pass", "Save", "Trace", "assert_equivalent", "meetings", "run_converted", "run_original"]

COUNTING = Path(__file__).with_name("counting.py")


class Trace(traces.Trace):
    @property
    def final_accuracy(self) -> str:
        lines = [line for line in self.lines if "accuracy" in line.lower()]
        assert lines, "no printed line has the word 'accuracy'"
        return lines[-1]


def run_converted(
    script: Path,
    args: Sequence[str],
    world_size: int,
    workdir: Path,
    options: Sequence[str] = (),
    horovod: bool = False,
    counted: bool = False,
) -> list[Trace]:
    """One trace per rank of a converted script; a world size of 0 runs it with plain `python`.

    options: of the tracer, in front of the script. horovod: the launcher is Horovod's, else torch's.
    counted: how often ranks meet for figures can be asked of `meetings`.
    """
    logs = workdir.resolve().with_name(workdir.name + ".trace")
    counting = [str(COUNTING), str(logs / "{rank}.json")] if counted else []
    command = [*counting, str(traces.PROGRAM), "--out", str(logs / "{rank}.pt"), *options, str(script.resolve()), *args]
    outputs = run_ranks(command, world_size, workdir, logs, forked=True, horovod=horovod)
    files = traces.files_in(workdir)
    found = (traces.load(logs / f"{rank}.pt", output, files) for rank, output in enumerate(outputs))
    return [Trace(**vars(one)) for one in found]


def meetings(workdir: Path) -> list[list[int]]:
    """For each rank of a counted run, how often it met the others for figures before, between and after its steps."""
    logs = workdir.resolve().with_name(workdir.name + ".trace")
    return [json.loads(path.read_text()) for path in sorted(logs.glob("*.json"))]


def run_original(script: Path, args: Sequence[str], workdir: Path, options: Sequence[str] = ()) -> Trace:
    """The script in one process."""
    return run_converted(script, args, 0, workdir, options)[0]


def assert_equivalent(original: Trace, ranks: Sequence[Trace], tolerance: float = 1e-12) -> None:
    """Raises AssertionError with the first difference that would harm a user of the conversion."""
    taken = bool(original.steps or original.saves)  # without an optimizer, what is saved under way shows the steps
    assert taken, "the original took no optimizer step and saved nothing: there is nothing to compare"
    for check in compare.compare(original, ranks, compare.Tolerance(tolerance)):
        if check.difference is not None:
            raise AssertionError(check.difference.message)
    got, wanted = ranks[0].final_accuracy, original.final_accuracy
    if got != wanted:
        raise AssertionError(f"printed {got!r}, the original {wanted!r}")
