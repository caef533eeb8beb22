"""Synchronous SGD written out: models stay as they are, and a line averages their gradients before each step."""

from __future__ import annotations

from distify_codemods.backends.base import Backend

ALLREDUCE = Backend("allreduce", wraps_models=False, averages="a line before each step",
                    headline="sharded data, and gradients averaged by a line before each step")  # fmt: skip
