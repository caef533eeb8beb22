"""A bench from its beginning to its end: the runs that are asked for, and what came of them."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from distify_runtime.bench.clock import GRADIENTS
from distify_runtime.launch import gpu_count, uses_horovod
from distify_runtime.launchers import usable_cores

from distify.bench.measuring import Bench
from distify.bench.model import Link, link_of, predicted
from distify.bench.report import Report
from distify.bench.timings import Timings
from distify.bench.units import size_text
from distify.collective import CollectiveError, all_reduced
from distify.errors import DistifyError
from distify.terminal import is_terminal
from distify.verification.copies import project_of
from distify.verification.pairs import Pair
from distify.verification.running import Failed, Plan

#: Steps that count, without which a figure of them says nothing.
FEWEST = 4
#: Load for each core, from which on figures are not to be trusted.
_BUSY = 0.5
#: Bytes of the collective that measures, at least.
_LEAST = 2**16


@dataclass(frozen=True)
class Asked:
    """What is to be measured. ranks: in order, one first. bandwidth, latency: of a network that is not here."""

    ranks: Sequence[int]
    predict: Sequence[int]
    steps: int
    warm_up: int
    args: tuple[str, ...]
    timeout: float
    weak: bool
    bandwidth: float | None
    latency: float | None
    traces: str
    horovod: bool = False


def benched(pair: Pair, asked: Asked) -> Report:
    """Raises DistifyError where the script cannot be measured."""
    gpus = gpu_count(sys.executable)
    _check(pair, asked, gpus)
    with tempfile.TemporaryDirectory(prefix="distify-bench-") as name:
        folder = Path(os.path.realpath(name))
        plan = Plan(1, asked.warm_up + asked.steps, "float32", asked.args, gpus, asked.timeout, Path(project_of(pair)))
        bench = Bench(pair, plan, asked.steps, asked.warm_up, folder, bool(asked.traces))
        busy = list(_busy())
        measured = [_measured(bench, ranks) for ranks in asked.ranks]
        if asked.traces:
            _keep_traces(folder, asked)
        report = Report(pair.original.path, pair.how_run, _machine(gpus, measured[0]), asked.weak, measured)
        report = replace(report, notes=(*busy, *_notes(measured, asked)))
        return _with_predictions(bench, asked, report) if asked.predict else report


def _check(pair: Pair, asked: Asked, gpus: int) -> None:
    path = pair.original.path
    if 0 < gpus < max(asked.ranks):
        raise DistifyError(
            f"-np {max(asked.ranks)}: this machine has {gpus} GPU{'s' * (gpus != 1)}; --predict {max(asked.ranks)} "
            "says what more ranks would do"
        )
    if asked.horovod or (pair.conversion is None and uses_horovod(Path(path))):
        raise DistifyError(
            f"{path}: runs over Horovod, whose collectives are not timed: --backend ddp or allreduce are"
        )


def _measured(bench: Bench, ranks: int) -> Timings:
    path = bench.pair.original.path
    try:
        found = bench.measured(ranks)
    except Failed as failed:
        raise DistifyError("\n".join([f"{path}: {failed.reason}", *failed.lines])) from None
    on = f"on {ranks} ranks " * (ranks > 1)
    if not found.taken:
        raise DistifyError(
            f"{path}: {on}no training loop was seen: no optimizer of torch's took a step; does it need arguments "
            "(behind --)?"
        )
    if found.counted < FEWEST:
        raise DistifyError(
            f"{path}: {on}ended after {found.taken} steps, of which the first {bench.warm_up} do not count: it needs "
            "more epochs or smaller batches, by arguments behind --, or a smaller --warm-up"
        )
    if ranks > 1 and not found.joined:
        raise DistifyError(f"{path}: {on}joins no process group: each rank trains on its own")
    return found


def _busy() -> Iterator[str]:
    """Before anything is run: what else the machine does would be taken for the script's own."""
    cores = usable_cores()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > _BUSY * cores:
        yield f"this machine was busy already (load {load:.1f} on {cores} core{'s' * (cores != 1)}): measure again"


def _notes(measured: Sequence[Timings], asked: Asked) -> Iterator[str]:
    for one in measured:
        if one.counted < asked.steps:
            yield f"{one.ranks} rank{'s' * (one.ranks != 1)}: the script ended after {one.taken} steps"
    if measured[0].device == "cpu" and max(asked.ranks) > usable_cores():
        cores = usable_cores()
        yield f"{max(asked.ranks)} ranks share {cores} core{'s' * (cores != 1)} of this machine"


def _machine(gpus: int, one: Timings) -> str:
    cores = usable_cores()
    here = f"{cores} core{'s' * (cores != 1)} ({platform.machine()})"
    return f"{gpus} GPU{'s' * (gpus != 1)}, {here}, NCCL" if one.device == "cuda" else f"{here}, CPU, Gloo"


def _keep_traces(folder: Path, asked: Asked) -> None:
    for ranks in asked.ranks:
        for rank in range(ranks):
            target = Path(asked.traces) / f"{ranks}_ranks" / f"rank{rank}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / f"{ranks}.logs" / "traces" / f"rank{rank}.json", target)


# ---- predictions


def _with_predictions(bench: Bench, asked: Asked, report: Report) -> Report:
    """Those that were asked for; and for ranks that were measured, what would have been predicted for them."""
    checked, found, notes = [], [], list(report.notes)
    if report.alone.shares:
        said = "nothing was predicted: forward passes that are shared check what the other ranks return"
        return replace(report, notes=(*notes, said))
    is_on_cpu = report.alone.device == "cpu"
    for ranks in asked.ranks[1:]:
        try:
            alone = _rehearsed(bench, ranks, ranks if is_on_cpu else 1)
            checked.append(predicted(alone, _link_here(ranks, alone), here=True))
        except (Failed, CollectiveError) as failed:
            notes.append(f"for {ranks} ranks here nothing was predicted: {failed}")
    link = None
    for ranks in asked.predict:
        try:
            alone = _rehearsed(bench, ranks, 1)
            link = link or _link_elsewhere(asked, alone, report)
            found.append(predicted(alone, link, here=False))
        except (Failed, CollectiveError) as failed:
            notes.append(f"for {ranks} ranks nothing was predicted: {failed}")
    return replace(report, predicted=found, checked=checked, link=link, notes=tuple(notes))


def _rehearsed(bench: Bench, ranks: int, beside: int) -> Timings:
    found = bench.rehearsed(ranks, beside)
    if found.counted < FEWEST:
        raise Failed(f"a rank of {ranks} has {found.taken} steps, and the first {bench.warm_up} do not count")
    return found


def _gradient_bytes(alone: Timings) -> int:
    largest = max((one.size for sent in alone.messages for one in sent if one.part == GRADIENTS), default=0)
    return max(_LEAST, largest)


def _link_here(ranks: int, alone: Timings) -> Link:
    """Between so many ranks of this machine, by an all-reduce of as many bytes as the largest of the gradients'."""
    size = _gradient_bytes(alone)
    with _said(f"an all-reduce of {size_text(size)} on {ranks} ranks"):
        found = all_reduced(ranks, size)
    return link_of(ranks, size, found["latency"], found["large"], f"measured on {ranks} ranks here")


def _link_elsewhere(asked: Asked, alone: Timings, report: Report) -> Link:
    if asked.bandwidth is not None and asked.latency is not None:
        return Link(asked.bandwidth, asked.latency, "given")
    if report.alone.device == "cuda" and report.most.ranks == 1:
        raise CollectiveError("with one GPU there is no collective to measure: --bandwidth and --latency say it")
    here = _link_here(min(2, report.most.ranks) if report.most.ranks > 1 else 2, alone)
    given = asked.bandwidth is not None or asked.latency is not None
    return Link(
        here.bandwidth if asked.bandwidth is None else asked.bandwidth,
        here.latency if asked.latency is None else asked.latency,
        "in part given, in part measured on 2 ranks here" if given else here.how,
    )


@contextmanager
def _said(text: str) -> Iterator[None]:
    """On a terminal, while it lasts."""
    if not is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console

    with Console(file=sys.stderr).status(text):
        yield
