"""What DistributedDataParallel waits for at the end of a backward pass. It stamps that itself; nothing is changed."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from torch.nn.parallel import DistributedDataParallel

from distify_runtime.patching import wrap

_live: Any = WeakKeyDictionary()  # the beginnings of their last backward passes, by replicas


def watch_replicas() -> None:
    """Has each replica that is made from here on stamp all of its backward passes."""

    def init(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.reducer._set_ddp_runtime_logging_sample_rate(1)
        _live[self] = 0

    wrap(DistributedDataParallel, "__init__", init)


def waited() -> float:
    """Seconds that replicas waited for gradients at the end of the backward pass that has just ended."""
    total = 0.0
    for replica, last in list(_live.items()):
        if getattr(replica, "logger", None) is None:
            continue
        replica.logger.set_runtime_stats_and_log()
        stamps = replica.logger._get_ddp_logging_data().ints_map
        begun = stamps.get("backward_compute_time_start", 0)
        if begun != last:
            _live[replica] = begun
            total += _exposed(stamps, begun)
    return total


def _exposed(stamps: Any, begun: int) -> float:
    """From the end of computing to the end of the last all-reduce; stamps and what is taken are in nanoseconds."""
    computed = begun + stamps.get("backward_compute_time", 0)
    came = stamps.get("backward_comm_time_start", 0) + stamps.get("backward_comm_time", 0)
    return max(0.0, float(came - computed)) * 1e-9
