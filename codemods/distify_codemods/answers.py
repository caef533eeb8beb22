"""Questions that go through all that happens, and that several rules ask: each is answered once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from distify_codemods.facts import Facts

T = TypeVar("T")


def answered_once(question: Callable[[Facts], T]) -> Callable[[Facts], T]:
    """Keeps the answer with the facts; nobody is to change it."""

    @wraps(question)
    def answer(facts: Facts) -> T:
        if question not in facts.answers:
            facts.answers[question] = question(facts)
        found: T = facts.answers[question]
        return found

    return answer
