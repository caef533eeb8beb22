"""One rank's watch: which steps have been taken, what is looked at after them, and what rank 0 still has to compare."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.optim import Optimizer

from distify_runtime import one_rank
from distify_runtime.environment import is_a_ranks_child
from distify_runtime.watch.board import Board
from distify_runtime.watch.mode import Mode
from distify_runtime.watch.verdict import broken

#: What speaks against what all ranks have left, by rank; empty where nothing does.
Judge = Callable[[list[Any]], str]

_FIRST, _EVERY = (1, 2, 5, 10, 20, 50, 100, 200, 500), 1000
#: Where a script makes so many optimizers, as in inner loops, the later ones are looked at by the steps of all.
_MANY = 16
#: What other ranks never come to is given up when so much else is asked.
_MOST_QUESTIONS = 64
#: So many steps lie between a close look and one that a checkpoint asks for: a part of those before, and these at most.
_APART_BY, _MOST_APART = 4, 100


def is_due(step: int) -> bool:
    """Whether it is looked closely after this step, counted from 1."""
    return step in _FIRST or step % _EVERY == 0


class Steps:
    """Of one optimizer. `number`: in which order they have taken their first step, alike on all ranks."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.taken = 0
        self.looked = 0  # after which it was last looked closely
        self.course: object = None  # by which the last one came
        self.turns = 0  # how often that has changed


class _Question:
    """What all ranks are to answer. Asked for in longer and longer intervals: some rank may never come to it."""

    def __init__(self, judge: Judge, step: int) -> None:
        self.judge = judge
        self.waited = False
        self._asked, self._again = step, step

    def is_due(self, step: int) -> bool:
        if step < self._again:
            return False
        self._again = step + 1 + (step - self._asked)
        return True


class Watching:
    """`board`: for the thread that trains."""

    def __init__(self, mode: Mode, board: Board) -> None:
        self.mode = mode
        self.board = board
        self.steps = 0  # of all optimizers
        self.optimizers: WeakKeyDictionary[Optimizer, Steps] = WeakKeyDictionary()
        #: After each step: has to cost next to nothing.
        self.after_each: list[Callable[[Watching], None]] = []
        #: In each step: by which course it came. One that comes by another than the one before is due, too.
        self.courses: list[Callable[[], object]] = []
        #: After the steps that are due, with the optimizer.
        self.looks: list[Callable[[Watching, Optimizer, Steps], None]] = []
        #: What may be why ranks have parted, to be said behind that they have.
        self.reasons: list[Callable[[], str]] = []
        self._pending: dict[str, _Question] = {}
        self._numbered = 0

    def after_step(self, optimizer: Optimizer) -> None:
        if torch.compiler.is_compiling() or one_rank.is_alone() or is_a_ranks_child():
            return  # a step that is compiled is left as it is; and what one rank does alone, the others do not
        steps = self.optimizers.get(optimizer)
        if steps is None:
            steps = self.optimizers[optimizer] = Steps(self._numbered)
            self._numbered += 1
        self.steps += 1
        steps.taken += 1
        turns = self._turns(steps)
        for each in self.after_each:
            each(self)
        if turns or is_due(steps.taken if steps.number < _MANY else self.steps):
            self.look(optimizer, steps)
        if self._pending and any(question.is_due(self.steps) for question in self._pending.values()):
            self._judge()

    def _turns(self, steps: Steps) -> bool:
        """Whether this step is due by its course; where that changes again and again, it is not each time."""
        course = [one() for one in self.courses]
        before, steps.course = steps.course, course
        if steps.taken == 1 or course == before:
            return False
        steps.turns += 1
        return is_due(steps.turns)

    def before_checkpoint(self) -> None:
        """Where every rank comes before rank 0 writes one, and elsewhere: looks at what has taken many steps since."""
        if one_rank.is_alone() or is_a_ranks_child():
            return
        for optimizer, steps in list(self.optimizers.items()):
            if steps.taken - steps.looked >= min(max(1, steps.looked // _APART_BY), _MOST_APART):
                self.look(optimizer, steps)

    def not_looked_at(self) -> list[tuple[Optimizer, Steps]]:
        """What has taken steps since it was looked at last, and is still there."""
        found = [(one, steps) for one, steps in self.optimizers.items() if steps.taken > steps.looked]
        return [(one, steps) for one, steps in found if steps.number < _MANY]

    def look(self, optimizer: Optimizer, steps: Steps) -> None:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return  # what is recorded to be done again cannot be waited for
        steps.looked = steps.taken
        for look in self.looks:
            look(self, optimizer, steps)

    def next_is_due(self) -> bool:
        """Whether it will be looked closely after the step that comes, of some optimizer."""
        return not self.optimizers or any(is_due(one.taken + 1) for one in self.optimizers.values())

    def exchange(self, topic: str, value: Any, judge: Judge) -> None:
        """Leave a value for rank 0, which judges those of all ranks once they are there."""
        if is_a_ranks_child():
            return
        self.board.post(topic, value)
        if self.board.rank == 0:
            if len(self._pending) >= _MOST_QUESTIONS:
                del self._pending[next(iter(self._pending))]
            self._pending[topic] = _Question(judge, self.steps)

    def _judge(self) -> None:
        """What was asked first comes first: that is where ranks have parted."""
        late: list[str] = []
        for topic in list(self._pending):
            said = self._said_of(topic)
            if said is None:
                late.append(topic)
            elif said:  # answers to what was asked before it may have come meanwhile
                kind = topic.partition("/")[0]
                earlier = (self._said_of(one) for one in late if one.startswith(f"{kind}/"))
                message = next(filter(None, earlier), said)
                broken(kind, message + "".join(one() for one in self.reasons), self.mode)

    def _said_of(self, topic: str) -> str | None:
        """None where some rank has not answered yet."""
        values = self.board.everyone(topic)
        if values is None:
            return None
        judge = self._pending.pop(topic).judge
        self.board.forget(topic)
        return judge(values)

    def judge_all(self, seconds: float) -> None:
        """Also what the others are still on their way to. So long is waited once for each question."""
        until = time.monotonic() + seconds
        while not all(one.waited for one in self._pending.values()) and time.monotonic() < until:
            self._judge()
            time.sleep(0.02)
        for one in self._pending.values():
            one.waited = True


def ended_well() -> bool:
    """Whether the script has come to its end without an error."""
    return getattr(sys, "last_value", None) is None
