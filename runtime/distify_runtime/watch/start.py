"""The watch from the process group's beginning to its end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._C._distributed_c10d import Store
from torch.optim.optimizer import register_optimizer_step_post_hook

from distify_runtime import communicator, environment
from distify_runtime.watch import (
    batches,
    checkpoints,
    course,
    cuts,
    files,
    kept,
    loads,
    parameters,
    randomness,
    replicas,
    rows,
    samples,
    shown,
    turns,
    uneven,
    unshared,
)
from distify_runtime.watch.board import Board
from distify_runtime.watch.mode import Mode, mode, patience
from distify_runtime.watch.verdict import InvariantBroken, end_process, say
from distify_runtime.watch.waiting import Waiting
from distify_runtime.watch.watching import Watching, ended_well

#: Seconds that rank 0 gives the others at the end.
_FAREWELL = 5.0


def start(given: str | None, takes_turns: Callable[[], bool]) -> Callable[[], None]:
    """Watch this run as the environment says, else as `given` says; what it gives is to be called at the end.

    takes_turns: whether ranks do what they do one after the other.
    """
    how, seconds = mode(given), patience()
    if how is Mode.OFF:
        return lambda: None
    watching = Watching(how, _board())
    turns.notice((one.before_pass, one.behind_pass) for one in (uneven, randomness, batches, rows))
    replicas.notice()
    uneven.watch(watching)
    randomness.watch(watching)
    batches.watch(watching)
    cuts.watch(watching)
    samples.watch(watching)
    rows.watch(watching)
    kept.watch(watching)
    files.watch(takes_turns)
    checkpoints.watch(watching)
    loads.watch(watching)
    shown.watch()
    watching.courses.append(course.taken)
    watching.after_each += [replicas.check, uneven.check, unshared.check]
    watching.looks += [parameters.look, randomness.look, batches.look, files.look, shown.look]
    hook = register_optimizer_step_post_hook(lambda optimizer, *_: watching.after_step(optimizer))
    waiting = Waiting(_board(), how, seconds, watching)
    waiting.start()

    @functools.cache  # once, however often the process group is left
    def end() -> None:
        hook.remove()
        environment.when_asked(None)
        waiting.end()
        files.stop()
        shown.stop()
        kept.stop()
        if ended_well():
            _end(watching)

    return end


def _board() -> Board:
    """Over a connection of its own, where torch can open one: what waits in the other does not hold this up."""
    store: Store = communicator.store(waits=False)
    clone: Any = getattr(store, "clone", None)
    return Board(clone() if clone else store, communicator.rank(), communicator.world_size())


def _end(watching: Watching) -> None:
    """Compares what is left. Ends the process where that is not as it should be: its exit code is decided already."""
    try:
        uneven.ends(watching)
        for optimizer, steps in watching.not_looked_at():
            parameters.look_at_the_end(watching, optimizer, steps)
        files.exchange(watching, "files/end")
        shown.exchange(watching, "shown/end")
        watching.judge_all(_FAREWELL)
    except RuntimeError:
        pass  # the store has gone with its rank: the launcher says why
    except InvariantBroken as broken:
        say(str(broken))
        end_process()
