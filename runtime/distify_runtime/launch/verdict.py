"""What is said last of a launch that has ended badly, and its exit code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from distify_runtime.launch.config import LaunchConfig
from distify_runtime.launch.news import Told
from distify_runtime.launch.report import (
    LOST_LINE,
    RankEnd,
    agent_exit_code,
    agent_lines,
    early_line,
    failure_lines,
    far_line,
    first_failure,
    is_consequence,
    left_early,
    read_tail,
)


def verdict(
    config: LaunchConfig, ends: Sequence[RankEnd], agent_code: int, others: Collection[Told] = (), parted: str = ""
) -> tuple[list[str], int]:
    """The lines, the first failing rank's where there is one, and the exit code.

    `ends`: those that are known of. `others`: what launchers of other machines have told. `parted`: how ranks came
    apart before that, as far as they have left word of it.
    """
    here = {end.rank for end in ends}
    far = {told.end.rank: told for told in others if told.end.rank not in here}
    tails = _tails(config, ends) | {rank: told.tail for rank, told in far.items()}
    ends = [*ends, *(told.end for told in far.values())]
    first = first_failure(ends, tails)
    if first is None and not config.here:
        return [far_line(config.launcher, agent_code, config.logs)], agent_exit_code(agent_code)
    if first is None:
        return agent_lines(config.launcher, agent_code, config.agent_log), agent_exit_code(agent_code)
    is_far = first.rank in far
    log = Path(far[first.rank].log) if is_far else config.log(first.rank)
    # What this machine's rank 0 has said is on the screen already, and the last there unless all ranks are.
    repeats = first.rank != 0 or config.tee or is_far
    lines = failure_lines(first, config.world_size, log, tails[first.rank], repeats=repeats, is_far=is_far)
    early = left_early(ends, first, tails)
    if early is not None:
        lines.append(early_line(early, config.world_size, config.log(early.rank)))
    elif config.nodes is not None and is_consequence(first, tails[first.rank]):
        lines.append(LOST_LINE)
    if parted and not any(parted.splitlines()[0] in tail for tail in tails.values()):
        lines.append(f"distify: {parted}")
    return lines, first.exit_code


def cause(config: LaunchConfig, ends: Sequence[RankEnd]) -> Told | None:
    """The failure of this machine's that other machines are to know of: one that says why, or that may be why."""
    tails = _tails(config, ends)
    first = first_failure(ends, tails)
    if first is None or is_consequence(first, tails[first.rank]):
        return None
    return Told(first, tails[first.rank], str(config.log(first.rank).absolute()))


def _tails(config: LaunchConfig, ends: Sequence[RankEnd]) -> dict[int, str]:
    return {end.rank: read_tail(config.log(end.rank)) for end in ends if end.code != 0}
