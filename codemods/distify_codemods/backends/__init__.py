"""How a step is spelled."""

from distify_codemods.backends.ddp import DDP, Backend

BACKENDS: dict[str, Backend] = {"ddp": DDP}

__all__ = ["BACKENDS", "Backend"]
