"""Three sentences: what limits, what it would take, and what is predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distify_runtime.bench.clock import (
    BACKWARD,
    BATCHNORM,
    COMPUTING,
    FIGURES,
    GATHERING,
    GRADIENTS,
    LOADING,
    OTHER,
    SYNCHRONISING,
)

from distify.bench.report import Report
from distify.bench.timings import Timings
from distify.bench.units import size_text, time_text

_SAID = {
    LOADING: "loading",
    COMPUTING: "computing",
    GRADIENTS: "the all-reduce of gradients",
    FIGURES: "reducing figures",
    BATCHNORM: "the statistics of BatchNorm",
    GATHERING: "gathering",
    OTHER: "what else ranks tell each other",
}
#: Times the number of ranks; a little more than that is caches and luck.
_BELIEVED = 1.25
#: Of the time of one rank: what is lost to less than this is as good as ideal.
_LITTLE = 0.05
#: Of what is synchronised: from there on, it is the slowest rank that costs.
_MOST = 0.5
#: Bytes of gradients that any network carries in less time than it takes to begin.
_SMALL = 2**18


def sentences(report: Report) -> Iterator[str]:
    most = report.most
    if report.speed_up(most) > _BELIEVED * most.ranks:
        yield (
            f"{most.ranks} ranks seem {report.speed_up(most):.2f} times as fast as one, which is more than they can "
            "be: something else has slowed one rank down, and nothing follows from these figures. Measure again while "
            "nothing else runs."
        )
        return
    if most.ranks > 1:
        lost = _lost(report)
        worst = max(lost, key=lambda part: lost[part])
        yield _what_limits(report, worst, lost[worst])
        yield _what_it_takes(report, worst, lost[worst])
    yield _what_is_predicted(report)


def _lost(report: Report) -> Mapping[str, float]:
    """Seconds by which each part of a step on most ranks is longer than its share of one rank's."""
    most, one = report.most, report.alone
    share = 1 if report.weak else most.ranks

    def over(*parts: str) -> float:
        return sum(most.parts[part] - one.parts[part] / share for part in parts)

    return {LOADING: over(LOADING), COMPUTING: over(COMPUTING, BACKWARD), **{one: over(one) for one in SYNCHRONISING}}


def _what_limits(report: Report, worst: str, seconds: float) -> str:
    most = report.most
    times = report.speed_up(most)
    faster = f"{times:.2f} times as fast as one" if times >= 1 else f"slower than one ({times:.2f} times as fast)"
    begin = f"{most.ranks} ranks are {faster}"
    if seconds < _LITTLE * most.step:
        return f"{begin}, and nothing limits them much."
    if worst == COMPUTING:
        return (
            f"{begin}: what limits is computing, which takes {time_text(most.computing)} of a step's "
            f"{time_text(most.step)}, and a {most.ranks}th of one rank's would be "
            f"{time_text(report.alone.computing / most.ranks)}."
            if not report.weak
            else f"{begin}: what limits is computing, which takes {time_text(most.computing)} a step, and "
            f"{time_text(report.alone.computing)} on one rank."
        )
    much = f", of {size_text(most.size)}" if worst == GRADIENTS else ""
    waits = worst in SYNCHRONISING and most.waiting > _MOST * most.synchronising
    slowest = f"; {time_text(most.waiting)} of it is waiting for the slowest rank" if waits else ""
    taken = f"{time_text(most.parts[worst])} of {time_text(most.step)}"
    return f"{begin}: what limits is {_SAID[worst]}{much}, {taken}{slowest}."


def _what_it_takes(report: Report, worst: str, seconds: float) -> str:
    if seconds < _LITTLE * report.most.step:
        return "More ranks may still pay: --predict 8,16 says what they would do."
    if worst == COMPUTING and report.most.device == "cpu" and report.most.threads * report.most.ranks > _cores(report):
        return f"It would take cores of their own for the ranks: here they share {_cores(report)}."
    return f"It would take {_advice(report, worst)}{_batch(report, worst)}."


def _advice(report: Report, worst: str) -> str:
    """What the part of a step wants, by what it is made of: waiting, many small messages, or many bytes."""
    most = report.most
    larger = "a larger batch" if report.weak else "a larger batch (--scale linear)"
    if worst in SYNCHRONISING and most.waiting > _MOST * most.synchronising:
        return f"ranks that are as fast as each other (cores of their own, samples of one size), or {larger}"
    if worst == GRADIENTS and most.size < _SMALL:
        return f"{larger}: so few bytes take their time by latency, which neither a wider network nor fp16 changes"
    return _ADVICE[worst].replace("{larger}", larger)


def _cores(report: Report) -> int:
    return report.alone.threads


_ADVICE = {
    LOADING: "more workers of the loaders (num_workers, persistent_workers), or data that are read faster",
    COMPUTING: "a larger share of the batch for each rank: {larger}",
    GRADIENTS: "{larger}, a faster network, or gradients in half precision (--backend horovod --compression fp16)",
    FIGURES: "figures that are reduced less often: once in many steps, where they are shown",
    BATCHNORM: "a larger share of the batch for each rank: {larger}, or another normalisation",
    GATHERING: "sharded data, once what convert names as standing in their way is settled, or {larger}",
    OTHER: "{larger}",
}


def _batch(report: Report, worst: str) -> str:
    """From which batch the ranks would be faster than one, if computing takes the time that samples do."""
    one, most = report.alone, report.most
    if report.weak or report.speed_up(most) >= 1 or worst == LOADING or not one.samples:
        return ""
    fixed = most.synchronising
    gained = (one.step - one.synchronising) - (most.step - fixed)
    if gained <= 0:
        return ""
    return f"; {most.ranks} ranks would pay from a batch of about {_rounded(one.samples * fixed / gained)} on"


def _rounded(number: float) -> int:
    """Two digits: it is no more exact."""
    digits = max(0, len(str(int(number))) - 2)
    return int(round(number, -digits))


def _what_is_predicted(report: Report) -> str:
    if not report.predicted:
        return "--predict 8,16 says what ranks would do that are not here."
    link = report.link
    assert link is not None
    cases = "; ".join(
        f"{one.ranks} ranks {time_text(one.step)} a step, {report.speed_up(one):.2f} times as fast as one"
        for one in report.predicted
    )
    between = f"{link.bandwidth / 1e9:.3g} GB/s and {time_text(link.latency)} between them ({link.how})"
    return f"Predicted, where each rank has what one rank has here ({_having(report.alone)}), with {between}: {cases}."


def _having(one: Timings) -> str:
    return "a GPU" if one.device == "cuda" else f"{one.threads} thread{'s' * (one.threads != 1)}"
