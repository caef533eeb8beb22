"""What is looked at before each step of an optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch.optim import Optimizer

from distify_runtime.shared import alike, costs, region
from distify_runtime.shared.messages import RanksParted

if TYPE_CHECKING:
    from distify_runtime.shared.models import SharedModel


def before(optimizer: Optimizer, models: Sequence[SharedModel]) -> None:
    """models: all whose calls are shared. A collective where gradients are made alike."""
    if region.current() is not None or region.computes_whole():
        raise RanksParted(
            "distify: an optimizer takes a step inside of a forward pass that ranks share, and compare: it would be "
            "taken more than once. Share the methods that `forward` calls: rt.data_parallel(model, methods=(...), "
            "forward=False)"
        )
    alike.make_alike(optimizer, [one.model for one in models if one.forms.any_shared and not one.given_up])
    costs.step()
