"""Whether this machine has room for so many ranks."""

from __future__ import annotations

from distify.errors import DistifyError
from distify.terminal import ask, can_ask

#: Ranks on one core that are still a trial, and no mistake.
RANKS_PER_CORE = 4
#: Bytes that a rank takes before it has done anything: Python and torch.
RANK_BYTES = 250_000_000


def check_room(ranks: int, oversubscribe: bool) -> None:
    """Asks whether to start more ranks than there is room for; raises DistifyError where the answer is not yes."""
    from distify_runtime.launchers import usable_cores  # not above: `distify run --help` has no use for it

    problem = too_many(ranks, usable_cores(), free_memory())
    if not problem or oversubscribe:
        return
    if not can_ask():
        raise DistifyError(f"{problem}; --oversubscribe starts them all the same")
    if not ask(f"{problem}. Start them all the same?"):
        raise DistifyError("nothing was started")


def too_many(ranks: int, cores: int, memory: int) -> str:
    """What there is too little of for so many ranks, with the numbers; "" if nothing. `memory`: free bytes, 0 where
    nobody knows."""
    if ranks > cores * RANKS_PER_CORE:
        return f"-np {ranks} is {ranks} processes on {cores} core{'s' * (cores != 1)}"
    if memory and ranks * RANK_BYTES > memory:
        return f"-np {ranks} takes {ranks * RANK_BYTES / 1e9:.1f} GB to begin with, and {memory / 1e9:.1f} GB are free"
    return ""


def free_memory() -> int:
    """Bytes that processes can still have (Linux); 0 elsewhere."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
