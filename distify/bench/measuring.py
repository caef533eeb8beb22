"""The runs: on each number of ranks, and one process that stands for a rank of many."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from distify_runtime import bench
from distify_runtime.launchers import usable_cores
from distify_runtime.trace.processes import Ranks, RunError, free_port

from distify.bench.timings import Timings, timings_of
from distify.verification.copies import Copy, copy_converted
from distify.verification.pairs import Pair
from distify.verification.running import Plan, bar, environment, failure_of

PROGRAM = Path(bench.__file__).with_name("program.py")
#: As in a run of one's own: compiled where the script says so, and watched.
_AS_IN_LIFE = {"TORCHDYNAMO_DISABLE": "0", "DISTIFY_WATCH": "on"}


@dataclass(frozen=True)
class Bench:
    """How a script is run. `plan`: but for the ranks. `steps`: that count, after `warm_up` others."""

    pair: Pair
    plan: Plan
    steps: int
    warm_up: int
    folder: Path
    trace: bool = False

    def measured(self, ranks: int) -> Timings:
        """On so many ranks. Raises Failed."""
        copy = copy_converted(self.pair, self.folder / f"{ranks}")
        logs = self.folder / f"{ranks}.logs"
        worlds: Sequence[Mapping[str, str]] = () if ranks > 1 else ({},)
        more = ["--trace", str(logs / "traces")] if self.trace else []
        return self._run(ranks, [copy], logs, worlds, more, f"{ranks} rank{'s' * (ranks != 1)}")

    def rehearsed(self, ranks: int, beside: int) -> Timings:
        """One process, or several at once, each as rank 0 of so many ranks. Raises Failed."""
        name = f"{ranks}.alone"
        copies = [copy_converted(self.pair, self.folder / f"{name}.{number}") for number in range(beside)]
        world = {
            "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "RANK": "0", "LOCAL_RANK": "0",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "DISTIFY_WATCH": "off",
        }  # fmt: skip
        more = ["--alone", "--beside", "{rank}", str(beside)]
        title = f"a rank of {ranks}, alone" if beside == 1 else f"{beside} ranks of {ranks}, each alone"
        return self._run(ranks, copies, self.folder / f"{name}.logs", [world] * beside, more, title)

    def _run(
        self,
        ranks: int,
        copies: Sequence[Copy],
        logs: Path,
        worlds: Sequence[Mapping[str, str]],
        more: Sequence[str],
        title: str,
    ) -> Timings:
        copy, processes = copies[0], len(worlds) or ranks
        plan = replace(self.plan, ranks=ranks)
        options = [
            *("--out", str(logs / "{rank}.json"), "--steps", str(self.steps), "--warm-up", str(self.warm_up)),
            *("--root", os.path.relpath(copy.folder, copy.workdir), "--spare", str(plan.spare), *more),
        ]
        words = [os.path.relpath(one, copy.workdir) if one == str(copy.script) else one for one in copy.words]
        env = {**environment(plan, copy, processes), **_AS_IN_LIFE}
        if "OMP_NUM_THREADS" in os.environ:
            env["OMP_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"]
        if worlds:  # what differs between processes
            path = env.pop("PYTHONPATH")
            paths = [path.replace(str(copy.folder), str(one.folder)) for one in copies]
            worlds = [{**env, **world, "PYTHONPATH": path} for world, path in zip(worlds, paths, strict=True)]
            env = {}
        command, places = [str(PROGRAM), *options, *words, *plan.args], [one.workdir for one in copies]
        runs = Ranks(command, ranks, copy.workdir, logs, env, plan.limit, worlds=worlds, places=places[1:] and places)
        try:
            with bar(title, self.warm_up + self.steps, logs / "0.steps") as watch:
                runs.run(watch=watch)
        except RunError as error:
            raise failure_of(error, plan, copy, processes) from None
        return timings_of(ranks, [logs / f"{rank}.json" for rank in range(processes)])


def cores_of(ranks: int) -> int:
    """Cores of this machine that each of so many processes has."""
    return max(1, usable_cores() // ranks)
