"""Metrics of libraries that add up what all ranks have, wherever a process group is.

In a converted script, ranks that keep a metric keep it of the same samples, those of one process: adding up would count
each sample once for every rank.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_ours: set[Callable[..., Any]] = set()


def leave_metrics_alone() -> None:
    """From now on, whether torchmetrics is there already or imported later. Harmless to call twice."""
    found = sys.modules.get(_Finder.name)
    if found is not None:
        _patch(found)
    elif not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Of the module that defines what all metrics are."""

    name = "torchmetrics.metric"

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Patching(spec.loader)
        return spec


class _Patching(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _patch(module)


def _patch(module: Any) -> None:
    """Only what metrics do by themselves: a script that gathers with `dist_sync_fn` has its reasons."""
    sync: Callable[..., Any] = module.Metric.sync
    if sync in _ours:
        return

    def alone(metric: Any, dist_sync_fn: Any = None, *args: Any, **kwargs: Any) -> Any:
        return sync(metric, dist_sync_fn, *args, **kwargs) if dist_sync_fn is not None else None

    _ours.add(alone)
    module.Metric.sync = alone
