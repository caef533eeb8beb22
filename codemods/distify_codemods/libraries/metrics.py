"""Metrics that libraries keep over many batches."""

from __future__ import annotations

#: Where a process group is, these add up what all ranks have kept, whenever they are asked.
OVER_RANKS = ("torchmetrics.",)
