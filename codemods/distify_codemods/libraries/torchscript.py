"""TorchScript."""

from __future__ import annotations

#: What compiles a function, a class or a module, as a decorator or by a call.
COMPILES = frozenset(f"torch.jit.{name}" for name in "script script_method export script_if_tracing".split())
