"""What averages gradients, and how each step is spelled with it."""

from distify_codemods.backends.allreduce import ALLREDUCE
from distify_codemods.backends.base import RUNTIME, Backend
from distify_codemods.backends.ddp import DDP
from distify_codemods.backends.horovod import HOROVOD

#: By the name that `--backend` takes; the first one is the default.
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (DDP, ALLREDUCE, HOROVOD)}

__all__ = ["BACKENDS", "RUNTIME", "Backend"]
