"""What passes decide, by what they read out of their part of the batch or by whatever else, held against what has been
checked.

Where the ranks come to other outcomes than in any call that was compared with the whole batch, or compute what none of
those has computed, the call is compared, before its outputs are used; calls in which that made a difference are
computed whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from distify_runtime.shared.graph import Computed, Operation
from distify_runtime.shared.readings import Mixture, Words

_MOST_WORDS = 10_000
_MOST_COURSES = 10_000

#: The same without telling apart the readings at one place.
_Combination = frozenset[tuple[int, frozenset[int]]]


#: The words of all ranks, and whether they have read different numbers.
_Said = tuple[frozenset[int], bool]


@dataclass
class Decided:
    """Of the calls of one form. `differing_numbers`: ranks have read different ones. `operations`: what calls that were
    compared have computed."""

    differing_numbers: bool = False
    operations: set[Operation] = field(default_factory=set)
    _courses: set[int] = field(default_factory=set)  # of nothing but these
    _combinations: dict[_Combination, bool] = field(default_factory=dict)
    _outcomes: set[tuple[int, int, frozenset[int]]] = field(default_factory=set)
    _words: dict[_Said, bool] = field(default_factory=dict)

    @property
    def reads(self) -> bool:
        """Whether anything has been read."""
        return bool(self._outcomes)

    def new_in(self, computed: Computed) -> frozenset[Operation]:
        """What no call that was compared has computed."""
        if computed.course in self._courses:
            return frozenset()
        new = computed.operations - self.operations
        if not new:
            if len(self._courses) >= _MOST_COURSES:
                self._courses.clear()
            self._courses.add(computed.course)
        return new

    def seen(self, everyone: Sequence[Words]) -> bool | None:
        """Whether calls in which ranks read this are right in parts; None: not known."""
        words, differ = said = _said(everyone)
        self.differing_numbers |= differ
        return self._words.get(said, None if any(words) else True)

    def verdict(self, mixture: Mixture) -> bool | None:
        """The same, of all that was read. New is an outcome, and a new combination of those that were there."""
        known = self._combinations.get(_combination(mixture))
        return None if known and not mixture <= self._outcomes else known

    def learn(self, mixture: Mixture, verdict: bool, everyone: Sequence[Words] = ()) -> None:
        combination = _combination(mixture)
        self._combinations[combination] = verdict and self._combinations.get(combination, True)
        self._outcomes |= mixture
        if everyone:
            if len(self._words) >= _MOST_WORDS:
                self._words.clear()
            self._words[_said(everyone)] = verdict


def _said(everyone: Sequence[Words]) -> _Said:
    return frozenset(word for word, _ in everyone), len({numbers for _, numbers in everyone}) > 1


def _combination(mixture: Mixture) -> _Combination:
    return frozenset((place, outcomes) for place, _, outcomes in mixture)
