"""Holds the traces of N ranks against that of the original in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from distify_runtime.trace.figures import different_figure, names_a_time, without_times
from distify_runtime.trace.hints import DRAWN_ALIKE, about_parting, about_steps, about_work
from distify_runtime.trace.reading import first_difference
from distify_runtime.trace.saves import with_those_of_libraries, without_wraps
from distify_runtime.trace.traces import Trace, is_of_an_evaluation


@dataclass(frozen=True)
class Tolerance:
    """How far parameters may be from the original's: `absolute`, and `relative` to how far training has moved them.

    `figures`: by what part printed figures may differ; None where lines have to be equal.
    """

    absolute: float = 1e-12
    relative: float = 0.0
    figures: float | None = None


#: By what part figures of training may differ that are shown with all of their digits.
_SHOWN = 1e-9


@dataclass(frozen=True)
class Difference:
    """`hint`: what that usually means. `step`: the first that differs, from 1."""

    message: str
    step: int | None = None
    parameter: str = ""
    largest: float | None = None
    hint: str = ""


@dataclass(frozen=True)
class Check:
    """`found`: in words, where nothing differs. `empty`: there was nothing to compare."""

    name: str
    difference: Difference | None = None
    found: str = ""
    largest: float | None = None
    empty: bool = False


def compare(original: Trace, ranks: Sequence[Trace], tolerance: Tolerance) -> list[Check]:
    """What was compared, in the order in which a first difference says most."""
    checks: list[tuple[str, Callable[[Trace, Sequence[Trace], Tolerance], Check]]] = [
        ("process group", _process_group),
        ("optimizer steps", _steps),
        ("parameters", _parameters),
        ("ranks agree", _agreement),
        ("work is shared", _work),
        ("samples", _samples),
        ("noise", _noise),
        ("files", _files),
        ("checkpoints", _checkpoints),
        ("printed figures", _figures),
        ("one rank prints", _output),
    ]
    found = [_named(name, check(original, ranks, tolerance)) for name, check in checks]
    said = next((said for trace in ranks for said in trace.watched), "")
    return [Check("the watch", Difference(said)), *found] if said else found


def _named(name: str, check: Check) -> Check:
    return Check(name, check.difference, check.found, check.largest, check.empty)


def _same(found: str, largest: float | None = None) -> Check:
    return Check("", found=found, largest=largest)


def _differs(
    message: str, hint: str = "", step: int | None = None, parameter: str = "", largest: float | None = None
) -> Check:
    return Check("", Difference(message, step, parameter, largest, hint), largest=largest)


def _nothing(found: str) -> Check:
    return Check("", found=found, empty=True)


def _process_group(original: Trace, ranks: Sequence[Trace], _: Tolerance) -> Check:
    for rank, trace in enumerate(ranks):
        if trace.world_size != len(ranks):
            hint = "the script joins no process group: `init_process_group` is missing, or comes too late"
            return _differs(f"rank {rank} saw a world of {trace.world_size}, not {len(ranks)}", hint)
        if trace.group_left_open:
            return _differs(
                f"rank {rank} ended without destroying its process group", "it can abort or hang at its end"
            )
    return _same(f"one of {len(ranks)}, and ended")


def _steps(original: Trace, ranks: Sequence[Trace], _: Tolerance) -> Check:
    if not original.steps:
        return _nothing("the original took none")
    for rank, trace in enumerate(ranks):
        got, wanted = len(trace.steps), len(original.steps)
        if got != wanted:
            message = f"rank {rank}: {got} optimizer steps instead of {wanted}"
            return _differs(message, about_steps(original, ranks), min(got, wanted) + 1)
        for number, (ours, theirs) in enumerate(zip(trace.steps, original.steps, strict=True), 1):
            if ours[0] != theirs[0] or ours[1].shape != theirs[1].shape:
                return _differs(f"rank {rank}: step {number} is another optimizer's", step=number)
    count = len({number for number, _ in original.steps})
    return _same(f"{len(original.steps)}, of {count} optimizer{'s' * (count > 1)}")


def _parameters(original: Trace, ranks: Sequence[Trace], tolerance: Tolerance) -> Check:
    if not original.steps:
        return _nothing("no step")
    parted = [one for one in (_parting(trace, original, tolerance) for trace in ranks) if one[0]]
    if parted:
        step, gap, name = min(parted)
        rank = next(rank for rank, trace in enumerate(ranks) if _parting(trace, original, tolerance)[0] == step)
        message = f"rank {rank}: after step {step} parameters differ by {gap:.3g}"
        return _differs(
            message + (f", most `{name}`" if name else ""), about_parting(original, ranks, step), step, name, gap
        )
    largest = max((_gap(ours, theirs) for trace in ranks for ours, theirs in _pairs(trace, original)), default=0.0)
    return _same(f"the original's after each of {len(original.steps)} steps", largest)


def apart(one: Trace, other: Trace, step: int) -> float:
    """How far parameters are apart after a step, from 1; 0 where one of them has not taken it."""
    if step > min(len(one.steps), len(other.steps)):
        return 0.0
    ours, theirs = one.steps[step - 1][1], other.steps[step - 1][1]
    return _gap(ours, theirs) if ours.shape == theirs.shape else 0.0


def _pairs(trace: Trace, reference: Trace) -> Iterator[tuple[Tensor, Tensor]]:
    for ours, theirs in zip(trace.steps, reference.steps, strict=False):
        if ours[1].shape == theirs[1].shape:
            yield ours[1], theirs[1]


def _gap(one: Tensor, other: Tensor) -> float:
    if not one.numel() or one.equal(other):
        return 0.0
    gap = (one - other).abs().max().item()
    return gap if gap == gap else float("inf")  # one of them is no number


def _parting(trace: Trace, reference: Trace, tolerance: Tolerance) -> tuple[int, float, str]:
    """The first step after which parameters differ (0: none), by how much, and which one does most."""
    for number, ((optimizer, ours), (_, theirs)) in enumerate(zip(trace.steps, reference.steps, strict=False), 1):
        allowed = tolerance.absolute
        if tolerance.relative and optimizer < len(reference.beginnings):
            beginning = reference.beginnings[optimizer]  # parameters that came later stand behind those of then
            known = min(len(theirs), len(beginning))
            allowed += tolerance.relative * _gap(theirs[:known], beginning[:known])
        if ours.shape != theirs.shape or _gap(ours, theirs) <= allowed:
            continue
        difference = (ours - theirs).abs()
        entry = int(difference.nan_to_num(float("inf"), float("inf")).argmax())
        return number, _gap(ours, theirs), reference.name_of(optimizer, entry) if reference.names else ""
    return 0, 0.0, ""


def _agreement(original: Trace, ranks: Sequence[Trace], _: Tolerance) -> Check:
    for rank, trace in enumerate(ranks[1:], 1):
        step, gap, name = _parting(trace, ranks[0], Tolerance(0.0))
        if step:
            message = f"rank {rank} against rank 0: after step {step} parameters differ by {gap:.3g}"
            hint = about_parting(original, ranks, step)
            return _differs(message + (f", most `{name}`" if name else ""), hint, step, name, gap)
        if trace.passes != ranks[0].passes:
            return _differs(f"rank {rank} drew its samples in another order than rank 0")
    return _same("bit for bit", 0.0) if len(ranks) > 1 else _nothing("there is one rank")


def _work(original: Trace, ranks: Sequence[Trace], _: Tolerance) -> Check:
    """Ranks that all train on the whole batch take the right steps too, and no time is won."""
    if not original.training_inputs:
        return _nothing("no model was called with tensors in training mode")
    if all(trace.shares_forwards and not trace.share[1] for trace in ranks):
        return _nothing("of what is shared, no call of a model was seen: methods, or losses, which see whole batches")
    shares = [_share(original, trace) for trace in ranks]
    for rank, share in enumerate(shares):
        if share > 1.5 / len(ranks):
            message = f"rank {rank} of {len(ranks)} trained on {share:.0%} of the data"
            return _differs(message, about_work(ranks))
    return _same(", ".join(f"{share:.0%}" for share in shares))


def _samples(original: Trace, ranks: Sequence[Trace], _: Tolerance) -> Check:
    """The ranks together read each sample as often as one process does, or each rank reads them all."""
    if any(trace.shares_forwards for trace in ranks):
        return _nothing("every rank is given whole batches")
    if any(len(trace.readings) != len(original.readings) for trace in ranks) or not original.readings:
        return _nothing("the passes over loaders are not the original's" if original.readings else "no loader has any")
    seeds = [[one.seed for one in trace.passes] for trace in ranks]
    if seeds.count(seeds[0]) < len(seeds):
        hint = "one seed for all ranks: DistributedSampler(..., seed=...)"
        return _differs("the ranks shuffle by seeds of their own: some samples count twice, others never", hint)
    told = first_difference(original.readings, [trace.readings for trace in ranks])
    if told:
        return _differs(*told)
    count = len(original.readings)
    return _same(f"each as often as in the original, in {count} pass{'es' * (count > 1)}")


def _noise(original: Trace, ranks: Sequence[Trace], _: Tolerance) -> Check:
    """It is taken out of both runs; where dropout would have been drawn from tells whether ranks draw the same.

    `chance.py` says more of it, from runs in which it is real.
    """
    if not any(trace.dropouts for trace in ranks) or any(trace.shares_forwards for trace in ranks):
        drawn = any(trace.drawn for trace in (original, *ranks))
        return _nothing("it was the same for each sample here" if drawn else "nothing is drawn for samples")
    for places in zip(*(trace.dropouts for trace in ranks), strict=False):
        alike = [rank for rank, place in enumerate(places) if places.count(place) > 1]
        if alike and not (len(set(places)) == 1 and places[0] in original.dropouts):  # of a batch that all have whole
            message = f"ranks {' and '.join(map(str, alike))} draw the same dropout"
            return _differs(message, DRAWN_ALIKE, places[0][0])
    return _same("each rank draws its own dropout")


def _share(original: Trace, trace: Trace) -> float:
    of_modules = trace.training_inputs / original.training_inputs
    mine, given = trace.share  # a shared pass may compute with more than its batch, all of which each rank does
    return min(of_modules, mine / given) if given else of_modules


def _files(original: Trace, ranks: Sequence[Trace], _: Tolerance) -> Check:
    for path in sorted({path for trace in ranks for path in (*trace.written, *(save.path for save in trace.saves))}):
        writers = [
            rank
            for rank, trace in enumerate(ranks)
            if path in trace.written or any(save.path == path for save in trace.saves)
        ]
        if len(writers) > 1:
            hint = "put what writes it under `if rt.is_main_process():`"
            return _differs(f"{path} was written by ranks {writers}", hint)
    got, wanted = without_times(ranks[0].files), without_times(original.files)
    if got != wanted:
        other = sorted(set(got) ^ set(wanted))
        return _differs(f"left the files {got}, the original {wanted}", f"only in one of them: {', '.join(other[:5])}")
    each = ", each of one rank" if len(ranks) > 1 else ""
    return _same(f"{len(wanted)}{each}") if wanted else _nothing(f"none{_by_then(original)}")


def _by_then(original: Trace) -> str:
    """Where a run was ended, what comes at its own end was not seen."""
    return f" in the first {len(original.steps)} steps (--steps 0 runs to the end)" if original.cut else ""


def _checkpoints(original: Trace, ranks: Sequence[Trace], tolerance: Tolerance) -> Check:
    but, times = "", 0
    saves = [save for trace in ranks for save in trace.saves]
    in_memory = [save for trace in ranks for save in trace.saves_in_memory]
    saves = with_those_of_libraries(saves, in_memory, original.saves, ranks[0].files)
    got, wanted = [save.path for save in saves], [save.path for save in original.saves]
    if without_times(got) != without_times(wanted):
        return _differs(f"saved {got}, the original {wanted}")
    for ours, theirs in zip(saves, original.saves, strict=True):
        held, plain = theirs.contents, without_wraps(theirs.contents)
        if ours.contents.keys() == plain.keys() != held.keys():
            held, but = plain, " but for `module.`"
        differing = sorted(ours.contents.keys() ^ held.keys())
        if differing:
            hint = "save the model inside of the wrap: `model.module.state_dict()`"
            return _differs(f"{ours.path} has other keys than the original's: {differing[:6]}", hint)
        for key, value in held.items():
            if _close(ours.contents[key], value, tolerance):
                continue
            if not names_a_time(key, value):
                return _differs(f"{ours.path}: {key} differs")
            times += 1
    if not wanted:
        return _nothing(f"none was saved by torch.save or safetensors{_by_then(original)}")
    passed_over = f" but for {times} time{'s' * (times != 1)}" if times else ""
    return _same(f"{len(wanted)}, with the original's keys{but} and values{passed_over}")


def _close(got: object, wanted: object, tolerance: Tolerance) -> bool:
    if type(got) is not type(wanted):
        return False
    allowed = max(tolerance.absolute, tolerance.relative)
    if isinstance(got, Tensor) and isinstance(wanted, Tensor):
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return False
        return got.equal(wanted) or _gap(_wide(got), _wide(wanted)) <= allowed * max(1.0, _size(wanted))
    if isinstance(got, float) and isinstance(wanted, float):
        return (
            got == wanted or (got != got and wanted != wanted) or abs(got - wanted) <= allowed * max(1.0, abs(wanted))
        )
    return got == wanted


def _size(tensor: Tensor) -> float:
    return _wide(tensor).abs().max().item()


def _wide(tensor: Tensor) -> Tensor:
    """In double precision; complex numbers as pairs of real ones."""
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).double()


def _figures(original: Trace, ranks: Sequence[Trace], tolerance: Tolerance) -> Check:
    got, wanted = ranks[0].evaluation_lines, original.evaluation_lines
    if not wanted and not got:
        return _nothing(f"no line about an evaluation was printed{_by_then(original)}")
    for ours, theirs in zip(got, wanted, strict=False):
        if ours != theirs and (tolerance.figures is None or different_figure(ours, theirs, tolerance.figures)):
            hint = "an evaluation that is shared out must be put together: sums over ranks, each sample counted once"
            return _differs(f"printed {ours!r}, the original {theirs!r}", hint)
    if len(got) != len(wanted):
        return _differs(f"printed {len(got)} lines about evaluations, the original {len(wanted)}")
    return _same(f"{len(wanted)} line{'s' * (len(wanted) > 1)} about evaluations")


def _output(original: Trace, ranks: Sequence[Trace], tolerance: Tolerance) -> Check:
    for rank, trace in enumerate(ranks[1:], 1):
        if any(trace.lines):
            message = f"rank {rank} printed {next(filter(None, trace.lines))!r}"
            return _differs(message, "print on rank 0 alone: `rt.rank_zero_print`")
    count, expected = len(ranks[0].lines), len(original.lines)
    if count != expected:
        return _differs(f"rank 0 printed {count} lines, the original {expected}")
    return _same(f"{sum(map(bool, original.lines))} lines of rank 0{_other_figures(original, ranks[0], tolerance)}")


def _other_figures(original: Trace, rank: Trace, tolerance: Tolerance) -> str:
    """Of lines that no evaluation is in: they may be times, or what the checklist says to be of rank 0's share."""
    pairs = zip(rank.lines, original.lines, strict=True)
    others = [one for one in pairs if one[0] != one[1] and different_figure(*one, tolerance.figures or _SHOWN)]
    others = [one for one in others if not is_of_an_evaluation(one[1])]
    if not others:
        return ""
    first = f"{others[0][0]!r}, the original {others[0][1]!r}"
    return f"; {len(others)} with other numbers, unless those are times: {first}"
