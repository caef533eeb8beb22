"""Horovod: `hvd.init()`, rank 0's weights on all ranks, and optimizers that average their gradients."""

from __future__ import annotations

from dataclasses import replace

from distify_codemods.backends.base import Backend
from distify_codemods.records import dataclass


@dataclass(frozen=True)
class _Optimizers:
    options: str = ""  # of each of them

    def made(self, optimizer: str, named: str, passes: str, rt: str) -> str:
        names = f", named_parameters={named}.named_parameters()" if named else ""
        after = f", backward_passes_per_step={passes}" if passes else ""
        return f"{rt}.DistributedOptimizer({optimizer}{names}{after}{self.options})"

    def wait_for(self, optimizer: str) -> str:
        return f"{optimizer}.synchronize()"


class Horovod(Backend):
    """Its optimizers average gradients, but where they are not an optimizer's alone: there a line does."""

    def starts(self, engine: str) -> tuple[str, ...]:
        return (f"{engine}.init()",)

    def with_options(self, compression: str, op: str) -> Backend:
        given = {"compression": (compression, "none"), "op": (op, "average")}
        spelled = [f', {name}="{value}"' for name, (value, default) in given.items() if value != default]
        return replace(self, optimizers=_Optimizers("".join(spelled)))


HOROVOD = Horovod(
    "horovod",
    wraps_models=False,
    averages="Horovod",
    headline="sharded data and Horovod's optimizers",
    optimizers=_Optimizers(),
    engine="import horovod.torch as {name}",
)
