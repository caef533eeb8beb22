"""Lets torchvision be imported beside a torch for which its compiled operators were not built.

PyPI's wheel of torchvision is built for PyPI's torch, with CUDA; beside the small torch for CPUs its operators cannot
be loaded, and the shapes that it registers for them are those of operators that do not exist. Transforms, models and
data sets need none of them. Where the operators are there, nothing is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Empty(MetaPathFinder):
    """Of what only registers something for operators: a module with nothing in it."""

    names = ("torchvision._meta_registrations", "torchvision._autograd_registrations")

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.names or sys.modules["torchvision.extension"]._has_ops():
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: Any) -> None:
        pass


sys.meta_path.insert(0, _Empty())
