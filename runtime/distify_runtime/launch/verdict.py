"""What is said last of a launch that has ended badly, and its exit code."""

from __future__ import annotations

from collections.abc import Sequence

from distify_runtime.launch.config import LaunchConfig
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


def verdict(config: LaunchConfig, ends: Sequence[RankEnd], agent_code: int) -> tuple[list[str], int]:
    """The lines, the first failing rank's where there is one, and the exit code. `ends`: those that are known of."""
    tails = {end.rank: read_tail(config.log(end.rank)) for end in ends if end.code != 0}
    first = first_failure(ends, tails)
    if first is None and not config.here:
        return [far_line(config.launcher, agent_code, config.logs)], agent_exit_code(agent_code)
    if first is None:
        return agent_lines(config.launcher, agent_code, config.agent_log), agent_exit_code(agent_code)
    # What rank 0 has said is on the screen already, and the last there unless all ranks are.
    repeats = first.rank != 0 or config.tee
    lines = failure_lines(first, config.world_size, config.log(first.rank), tails[first.rank], repeats=repeats)
    early = left_early(ends, first, tails)
    if early is not None:
        lines.append(early_line(early, config.world_size, config.log(early.rank)))
    elif config.nodes is not None and is_consequence(first, tails[first.rank]):
        lines.append(LOST_LINE)
    return lines, first.exit_code
