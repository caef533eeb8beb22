"""Runs a script in one process and its conversion on N ranks, and compares what they did.

The conversion runs first. The original then follows the sample order that the conversion's
DistributedSampler drew; nothing else about it is changed. Both compute in float64, so that a right conversion
follows the original to rounding error after every optimizer step, while every known mistake is orders of
magnitude away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.equivalence.processes import run_ranks

TRACER = Path(__file__).with_name("tracer.py")
EVALUATION = re.compile(r"test|val|accuracy|best", re.IGNORECASE)
TRAINING = re.compile(r"train", re.IGNORECASE)


@dataclass(frozen=True)
class Pass:
    """A training pass over a DistributedSampler; `first_step`: optimizer steps taken before it began."""

    sampler: int
    seed: int
    epoch: int
    shuffle: int
    samples: int
    first_step: int


@dataclass(frozen=True)
class Save:
    """One torch.save. `path` is relative to the working folder; `contents` has every tensor, number and text
    inside by its dotted key, and the type's name of anything else."""

    path: str
    contents: dict[str, Any]


@dataclass(frozen=True)
class Trace:
    """What one process did."""

    steps: list[tuple[int, Tensor]]  # after each one: the optimizer's number and its parameters, float64 [n]
    passes: list[Pass]
    saves: list[Save]
    lines: list[str]  # of stdout; a carriage return ends a line too
    files: list[str]  # in the working folder when all processes had ended
    world_size: int
    training_inputs: int  # numbers fed to outermost modules in training
    group_left_open: bool

    @property
    def evaluation_lines(self) -> list[str]:
        return [line for line in self.lines if EVALUATION.search(line) and not TRAINING.search(line)]

    @property
    def final_accuracy(self) -> str:
        lines = [line for line in self.lines if "accuracy" in line.lower()]
        _require(bool(lines), "no printed line has the word 'accuracy'")
        return lines[-1]


# ---- running


def run_converted(
    script: Path, args: Sequence[str], world_size: int, workdir: Path, horovod: bool = False
) -> list[Trace]:
    """One trace per rank of a converted script; a world size of 0 runs it with plain `python`."""
    return _run([], script, args, world_size, workdir, horovod)


def run_original(script: Path, args: Sequence[str], order: Sequence[Pass], workdir: Path) -> Trace:
    """The script in one process; its shuffled training passes follow `order`, the `passes` of a rank."""
    logs = _logs(workdir)
    logs.mkdir(parents=True, exist_ok=True)
    shuffled = [asdict(one) for one in order if one.shuffle]
    (logs / "order.json").write_text(json.dumps(shuffled), encoding="utf-8")
    return _run(["--order", str(logs / "order.json")], script, args, 0, workdir)[0]


def _logs(workdir: Path) -> Path:
    return workdir.resolve().with_name(workdir.name + ".trace")


def _run(
    options: Sequence[str], script: Path, args: Sequence[str], world_size: int, workdir: Path, horovod: bool = False
) -> list[Trace]:
    logs = _logs(workdir)
    command = [str(TRACER), "--out", str(logs / "{rank}.pt"), *options, str(script.resolve()), *args]
    outputs = run_ranks(command, world_size, workdir, logs, forked=True, horovod=horovod)
    files = sorted(str(path.relative_to(workdir)) for path in workdir.rglob("*") if path.is_file())
    return [_load(logs / f"{rank}.pt", output, files) for rank, output in enumerate(outputs)]


def _load(path: Path, output: str, files: list[str]) -> Trace:
    fields = torch.load(path, weights_only=True)
    passes = [Pass(**one) for one in fields.pop("passes")]
    saves = [Save(**one) for one in fields.pop("saves")]
    return Trace(passes=passes, saves=saves, lines=re.split(r"[\r\n]+", output), files=files, **fields)


# ---- comparing


def assert_equivalent(original: Trace, ranks: Sequence[Trace], tolerance: float = 1e-12) -> None:
    """Raises AssertionError with the first difference that would harm a user of the conversion."""
    taken = bool(original.steps or original.saves)  # without an optimizer, what is saved under way shows the steps
    _require(taken, "the original took no optimizer step and saved nothing: there is nothing to compare")
    for rank, trace in enumerate(ranks):
        _check_process_group(f"rank {rank}", trace, len(ranks))
        _check_order(f"rank {rank}", trace, ranks[0])
        _check_steps(f"rank {rank}", trace, original, tolerance)
        _check_steps(f"rank {rank} against rank 0", trace, ranks[0], 0.0)
        _check_share(f"rank {rank}", trace, original, len(ranks))
    _check_saves(original, ranks, tolerance)
    _check_output(original, ranks)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _check_process_group(who: str, trace: Trace, world_size: int) -> None:
    _require(trace.world_size == world_size, f"{who} saw a world of {trace.world_size}, not {world_size}")
    _require(not trace.group_left_open, f"{who} ended without destroying its process group")


def _check_order(who: str, trace: Trace, first: Trace) -> None:
    """The original follows the recorded epochs: that set_epoch was forgotten shows here and nowhere else."""
    _require(trace.passes == first.passes, f"{who} drew its samples in another order than rank 0")
    ends = [*(one.first_step for one in trace.passes[1:]), len(trace.steps)][: len(trace.passes)]
    seen: set[tuple[int, int, int]] = set()
    for one, end in zip(trace.passes, ends, strict=True):
        if one.shuffle and end > one.first_step:  # a peek at one batch trains nothing
            order = (one.sampler, one.seed, one.epoch)
            _require(order not in seen, f"{who} has the same order in two passes: epoch {one.epoch}")
            seen.add(order)


def _check_steps(who: str, trace: Trace, reference: Trace, tolerance: float) -> None:
    """After every step: the same optimizer, and no parameter further away than the tolerance."""
    got, wanted = len(trace.steps), len(reference.steps)
    _require(got == wanted, f"{who}: {got} optimizer steps instead of {wanted}")
    for number, (ours, theirs) in enumerate(zip(trace.steps, reference.steps, strict=True), 1):
        same = ours[0] == theirs[0] and ours[1].shape == theirs[1].shape
        _require(same, f"{who}: step {number} is another optimizer's")
        gap = (ours[1] - theirs[1]).abs().max().item()
        _require(gap <= tolerance, f"{who}: after step {number} parameters differ by {gap:.3g}")


def _check_share(who: str, trace: Trace, original: Trace, world_size: int) -> None:
    """Ranks that all train on the whole batch take the right steps too, and no time is won."""
    share = trace.training_inputs / original.training_inputs
    _require(share <= 1.5 / world_size, f"{who} of {world_size} trained on {share:.0%} of the data")


def _check_saves(original: Trace, ranks: Sequence[Trace], tolerance: float) -> None:
    for path in {save.path for save in original.saves}:
        writers = [rank for rank, trace in enumerate(ranks) if any(save.path == path for save in trace.saves)]
        _require(len(writers) <= 1, f"{path} was written by ranks {writers}")
    saves = [save for trace in ranks for save in trace.saves]
    got, wanted = [save.path for save in saves], [save.path for save in original.saves]
    _require(got == wanted, f"saved {got}, the original {wanted}")
    for ours, theirs in zip(saves, original.saves, strict=True):
        differing = sorted(ours.contents.keys() ^ theirs.contents.keys())
        _require(not differing, f"{ours.path} has other keys than the original's: {differing[:6]}")
        for key, value in theirs.contents.items():
            _require(_close(ours.contents[key], value, tolerance), f"{ours.path}: {key} differs")
    got, wanted = _without_times(ranks[0].files), _without_times(original.files)
    _require(got == wanted, f"left the files {got}, the original {wanted}")


def _without_times(files: list[str]) -> list[str]:
    """A folder named by the time of the run is another one in each run, and one in each."""
    return [re.sub(r"\d{8}-\d{6}", "TIME", path) for path in files]


def _close(got: object, wanted: object, tolerance: float) -> bool:
    if type(got) is not type(wanted):
        return False
    if isinstance(got, Tensor) and isinstance(wanted, Tensor):
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return False
        return got.numel() == 0 or (got.double() - wanted.double()).abs().max().item() <= tolerance
    if isinstance(got, float) and isinstance(wanted, float):
        return got == wanted or abs(got - wanted) <= tolerance * max(1.0, abs(wanted))
    return got == wanted


def _check_output(original: Trace, ranks: Sequence[Trace]) -> None:
    for rank, trace in enumerate(ranks[1:], 1):
        _require(not any(trace.lines), f"rank {rank} printed {next(filter(None, trace.lines), '')!r}")
    got, wanted = ranks[0], original
    _require(
        got.final_accuracy == wanted.final_accuracy,
        f"printed {got.final_accuracy!r}, the original {wanted.final_accuracy!r}",
    )
    pairs = list(zip(got.evaluation_lines, wanted.evaluation_lines, strict=False))
    _require(
        got.evaluation_lines == wanted.evaluation_lines,
        f"evaluation lines differ: {next((pair for pair in pairs if pair[0] != pair[1]), 'their number')}",
    )
    count, expected = len(got.lines), len(wanted.lines)
    _require(count == expected, f"rank 0 printed {count} lines, the original {expected}")
