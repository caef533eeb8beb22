"""Whether N ranks draw noise for their samples as one process does: as much of it, independently, of the same laws.

Judged is what a rank draws for its own share of the samples: where the original draws M numbers, some M/N of them. What
all draw as often and in the same shapes as the original (a choice for a whole batch, noise on weights) may be alike on
all ranks or not.

Three questions, none of which rounding or the order of the samples can answer wrongly:

- Do two ranks draw from one place of a stream? Then they draw the same.
- Are the numbers of two ranks large together? Fisher's exact test, of numbers of one law.
- Are the ranks' numbers distributed as the original's? Kolmogorov's and Smirnov's distance of two samples, with the
  bound of Dvoretzky, Kiefer and Wolfowitz, which holds for any law and any number of samples.

A chance is given times the number of questions (Bonferroni), and taken for a mistake below `RARE`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from distify_runtime.trace.compare import Check, Difference
from distify_runtime.trace.draws import Drawn
from distify_runtime.trace.hints import DRAWN_ALIKE

RARE = 1e-5
#: Numbers that are looked at of each kind and rank.
_MOST = 20_000
#: A total below that part of the original's, where some rank draws none, is no matter of padding.
_LACKING = 0.75
_WORKERS = (
    "workers draw from what their process has drawn when the pass began, or from what `worker_init_fn` says: seed the "
    "ranks apart before that"
)
_LAW = "a rate, a spread or a bound was divided or multiplied by the number of ranks, or depends on a rank's share"

#: By source: what is drawn of it, in order.
Draws = dict[str, list[Drawn]]


@dataclass(frozen=True)
class _Found:
    chance: float
    message: str
    hint: str = ""
    step: int | None = None


def noise(original: Sequence[Drawn], ranks: Sequence[Sequence[Drawn]], shared: bool = False) -> Check:
    """The original's draws beside those of each rank. shared: where forward passes are, all ranks draw alike but in
    their parts of them.
    """
    everything = original, ranks
    if shared:
        whole = set().union(*({_kind(drawn) for drawn in draws if not drawn.of_a_part} for draws in ranks))
        original = [drawn for drawn in original if _kind(drawn) not in whole]
        ranks = [[drawn for drawn in draws if drawn.of_a_part] for draws in ranks]
    one, parts = _for_samples(original, ranks)
    if not any(parts):
        return Check("noise", found=_unshared(*everything), empty=True)
    found = [*_lacking(one, parts), *_same(parts), *_together(parts), *_other_laws(one, parts)]
    worst = min(found, key=lambda asked: asked.chance, default=None)
    chance = min(1.0, worst.chance * len(found)) if worst else 1.0
    if worst and chance < RARE:
        because = f" (p = {chance:.1g})" if chance else ""
        return Check("noise", Difference(worst.message + because, worst.step, hint=worst.hint))
    amount = sum(drawn.amount for part in parts for draws in part.values() for drawn in draws)
    return Check("noise", found=f"{amount} numbers: each rank draws its own, as one process does (p = {chance:.2g})")


def _unshared(original: Sequence[Drawn], ranks: Sequence[Sequence[Drawn]]) -> str:
    if not original:
        return "nothing is drawn"
    if all(Counter(map(_kind, drawn)) == Counter(map(_kind, original)) for drawn in ranks):
        first, *others = ({one.place for one in drawn if one.amount > 1} for drawn in ranks)
        apart = len(first.difference(*others)) if others else 0
        said = f", {apart} times by each rank for itself: no loss may hang on that" if apart else ""
        return f"what is drawn, is drawn as in the original by all ranks{said}"
    return "ranks draw neither as the original nor a share of it: not judged"


def _for_samples(original: Sequence[Drawn], ranks: Sequence[Sequence[Drawn]]) -> tuple[Draws, list[Draws]]:
    """What is drawn for shares of the samples: of the original, and of each rank."""
    counts = [Counter(map(_kind, drawn)) for drawn in (original, *ranks)]
    alike = {kind for kind, count in counts[0].items() if all(other[kind] == count for other in counts)}
    differing = [[one for one in drawn if _kind(one) not in alike] for drawn in (original, *ranks)]
    everyone = _without_what_all_draw(differing)
    shared = _shared_out(everyone)
    kept = [_by_source(one for one in drawn if shared(one)) for drawn in everyone]
    return kept[0], kept[1:]


def _shared_out(everyone: Sequence[Sequence[Drawn]]) -> Callable[[Drawn], bool]:
    """Of which draws ranks have their shares: of a source as a whole, or in some steps where all draw a probe whole."""
    whole, *shares = [Counter[Hashable]() for _ in everyone]
    for amounts, draws in zip((whole, *shares), everyone, strict=True):
        for one in draws:
            amounts[one.source] += one.amount
            amounts[one.source, one.step] += one.amount

    def shared(one: Drawn) -> bool:
        of_all, of_step = ([part[key] for part in shares] for key in (one.source, (one.source, one.step)))
        most = whole[one.source] / math.sqrt(len(shares)), whole[one.source, one.step] / math.sqrt(len(shares))
        return 0 < max(of_all) <= most[0] or (min(of_step) > 0 and max(of_step) <= most[1])

    return shared


def _without_what_all_draw(everyone: Sequence[Sequence[Drawn]]) -> list[list[Drawn]]:
    """What is left of each source in a step, without what is drawn for a batch that all ranks have whole."""
    groups = [_grouped(drawn) for drawn in everyone]
    left: list[list[Drawn]] = [[] for _ in everyone]
    for group in dict.fromkeys(itertools.chain(*groups)):
        for kept, draws in zip(left, _without_common([one.get(group, []) for one in groups]), strict=True):
            kept += draws
    return left


def _grouped(drawn: Iterable[Drawn]) -> dict[Hashable, list[Drawn]]:
    found: dict[Hashable, list[Drawn]] = defaultdict(list)
    for one in drawn:
        found[one.step, one.source, one.with_gradients].append(one)
    return found


def _without_common(everyone: Sequence[list[Drawn]]) -> Sequence[list[Drawn]]:
    """Without what all ranks draw from the same places in shapes of the original's, if they have drawn the rest of the
    original's among them. Where they have not, they share nothing out.
    """
    original, *ranks = everyone
    places = set.intersection(*({one.place for one in rank} for rank in ranks))
    common, _ = _parted([one for one in ranks[0] if one.place in places], original)
    whole = {one.place for one in common}
    _, left = _parted(original, common)
    lefts = [[one for one in rank if one.place not in whole] for rank in ranks]
    row = max((one.amount // one.shape[0] for one in left if one.shape and one.shape[0]), default=1)
    all_drawn = abs(sum(map(_amount, lefts)) - _amount(left)) < len(ranks) * row
    return [left, *lefts] if all((common, left, *lefts)) and all_drawn else everyone


def _parted(draws: Sequence[Drawn], like: Sequence[Drawn]) -> tuple[list[Drawn], list[Drawn]]:
    """As many as these others are of each shape, from their places if there are such; and the rest."""
    wanted, places = Counter(one.shape for one in like), {one.place for one in like}
    parts: tuple[list[Drawn], list[Drawn]] = [], []
    for one in sorted(draws, key=lambda one: one.place not in places):
        parts[not wanted[one.shape]].append(one)
        wanted[one.shape] -= wanted[one.shape] > 0
    return parts


def _kind(drawn: Drawn) -> Hashable:
    return drawn.step, drawn.source, drawn.shape, drawn.with_gradients


def _by_source(drawn: Iterable[Drawn]) -> Draws:
    found: Draws = defaultdict(list)
    for one in drawn:
        found[one.source].append(one)
    return dict(found)


def _amount(draws: Sequence[Drawn]) -> int:
    return sum(drawn.amount for drawn in draws)


def _lacking(original: Draws, parts: Sequence[Draws]) -> Iterator[_Found]:
    for source, draws in original.items():
        none = [rank for rank, part in enumerate(parts) if source not in part]
        if none and sum(_amount(part.get(source, [])) for part in parts) < _LACKING * _amount(draws):
            message = f"{_ranks(none)} draw{'s' * (len(none) == 1)} none of the noise (`{source}`) of the original"
            yield _Found(0.0, message, "what one rank draws and sends to the others is the same for all their samples")


def _same(parts: Sequence[Draws]) -> Iterator[_Found]:
    """Draws from one place of a stream, at whatever step."""
    for source in _sources(parts):
        ranks_at: dict[str, dict[int, int]] = defaultdict(dict)
        for rank, part in enumerate(parts):
            for drawn in part.get(source, []):
                ranks_at[drawn.place].setdefault(rank, drawn.step)
        met = [ranks for ranks in ranks_at.values() if len(ranks) > 1]
        if met:
            ranks = min(met, key=lambda ranks: min(ranks.values()))
            yield _alike(0.0, sorted(ranks), source, min(ranks.values()))


def _together(parts: Sequence[Draws]) -> Iterator[_Found]:
    """Numbers of one law that two ranks draw at the same time."""
    for source in _sources(parts):
        for one, other in itertools.combinations(range(len(parts)), 2):
            pairs = _pairs(parts[one].get(source, []), parts[other].get(source, []))
            for law, numbers in pairs.items():
                if law:
                    yield _alike(_fisher(numbers), [one, other], source, None)


def _pairs(ours: Sequence[Drawn], theirs: Sequence[Drawn]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    steps = [[_of_laws(draws, step) for draws in (ours, theirs)] for step in sorted({one.step for one in ours})]
    for here, there in steps:
        for law, numbers in here.items():
            found[law].extend(zip(numbers, there.get(law, []), strict=False))
    return {law: numbers[:_MOST] for law, numbers in found.items()}


def _of_laws(draws: Sequence[Drawn], step: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for drawn in draws:
        if drawn.step == step and drawn.numbers:
            found[f"({drawn.law})"].extend(drawn.numbers)
    return found


def _alike(chance: float, ranks: list[int], source: str, step: int | None) -> _Found:
    message = f"{_ranks(ranks)} draw the same noise (`{source}`) for different samples"
    return _Found(chance, message, _WORKERS if " in worker " in source else DRAWN_ALIKE, step)


def _other_laws(original: Draws, parts: Sequence[Draws]) -> Iterator[_Found]:
    for source in original:
        wanted: list[float] = []
        got: list[float] = []
        for theirs, ours in _aligned(original[source], [part.get(source, []) for part in parts]):
            count = min(len(theirs), len(ours))  # so that both are mixed of the same laws
            wanted += theirs[:count]
            got += ours[:count]
        if wanted:
            message = (
                f"what the ranks draw (`{source}`) is distributed otherwise than the original's: a mean of "
                f"{_mean(got):.3g} instead of {_mean(wanted):.3g}, a spread of {_spread(got):.3g} instead of "
                f"{_spread(wanted):.3g}"
            )
            yield _Found(_kolmogorov(wanted[:_MOST], got[:_MOST]), message, _LAW)


def _aligned(original: Sequence[Drawn], parts: Sequence[Sequence[Drawn]]) -> Iterator[tuple[list[float], list[float]]]:
    """The original's numbers of a draw, and those of all ranks; of steps in which all draw equally often."""
    for step in sorted({drawn.step for drawn in original}):
        draws = [[drawn for drawn in one if drawn.step == step] for one in (original, *parts)]
        if len({len(one) for one in draws}) == 1:
            for theirs, *ours in zip(*draws, strict=True):
                of_one_law = len({one.law for one in ours}) == 1  # and not of what is in each rank's batch
                if of_one_law and all(one.numbers for one in (theirs, *ours)):
                    yield list(theirs.numbers), _evenly(ours)


def _evenly(draws: Sequence[Drawn]) -> list[float]:
    least = min(len(drawn.numbers) for drawn in draws)
    return [number for numbers in zip(*(drawn.numbers[:least] for drawn in draws), strict=True) for number in numbers]


def _sources(parts: Sequence[Draws]) -> list[str]:
    return list(dict.fromkeys(source for part in parts for source in part))


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {' and '.join(map(str, ranks))}"


# ---- statistics


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _spread(numbers: Sequence[float]) -> float:
    mean = _mean(numbers)
    return math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / len(numbers))


def _fisher(pairs: Sequence[tuple[float, float]]) -> float:
    """Two-sided: how often independent numbers are above their mean together so much more, or less, often."""
    if not pairs:
        return 1.0
    means = [_mean(side) for side in zip(*pairs, strict=True)]
    above = [(one > means[0], other > means[1]) for one, other in pairs]
    count, ours, theirs = len(above), sum(one for one, _ in above), sum(other for _, other in above)
    both = sum(one and other for one, other in above)
    least, most = max(0, ours + theirs - count), min(ours, theirs)
    whole = _choices(count, ours)
    chances = [
        math.exp(_choices(theirs, k) + _choices(count - theirs, ours - k) - whole) for k in range(least, most + 1)
    ]
    return min(1.0, 2 * min(math.fsum(chances[: both - least + 1]), math.fsum(chances[both - least :])))


def _choices(all_of_them: int, some: int) -> float:
    """The logarithm of a binomial coefficient."""
    return math.lgamma(all_of_them + 1) - math.lgamma(some + 1) - math.lgamma(all_of_them - some + 1)


def _kolmogorov(one: Sequence[float], other: Sequence[float]) -> float:
    """A bound of how often two samples of one law are so far apart."""
    first, second = Counter(one), Counter(other)
    gap, farthest = 0.0, 0.0
    for number in sorted({*first, *second}):
        gap += first[number] / len(one) - second[number] / len(other)
        farthest = max(farthest, abs(gap))
    return min(1.0, math.e * math.exp(-2 * farthest**2 * len(one) * len(other) / (len(one) + len(other))))
