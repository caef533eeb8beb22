"""Horovod: `hvd.init()`, rank 0's weights on all ranks, and optimizers that average their gradients."""

from __future__ import annotations

from dataclasses import dataclass

from distify_codemods.backends.base import Backend


@dataclass(frozen=True)
class Horovod(Backend):
    """Its optimizers average gradients where a plain backward pass is followed by a step; else a line does."""

    def starts(self, engine: str) -> tuple[str, ...]:
        return (f"{engine}.init()",)


HOROVOD = Horovod(
    "horovod",
    wraps_models=False,
    averages="Horovod",
    engine="import horovod.torch as {name}",
)
