"""What is looked at before each step of an optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch.optim import Optimizer

from distify_runtime.shared import alike, costs, later, region
from distify_runtime.shared.messages import RanksParted

if TYPE_CHECKING:
    from distify_runtime.shared.models import SharedModel

_STEPS_TO_SHARE = 20  # by then, something must be

_steps = 0


def before(optimizer: Optimizer, models: Sequence[SharedModel]) -> None:
    """models: all whose calls are shared. A collective where gradients are made alike."""
    if region.current() is not None or region.computes_whole():
        raise RanksParted(
            "distify: an optimizer takes a step inside of a forward pass that ranks share, and compare: it would be "
            "taken more than once. Share the methods that `forward` calls: rt.data_parallel(model, methods=(...), "
            "forward=False)"
        )
    alike.make_alike(optimizer, [one.model for one in models if one.forms.any_shared and not one.given_up])
    _stop_where_nothing_is_shared(models)


def _stop_where_nothing_is_shared(models: Sequence[SharedModel]) -> None:
    """A run in which every rank does the work of all would be no use; unless it trains something else afterwards.

    Steps before any of the models was called, a warm-up of something else, are not counted.
    """
    global _steps
    costs.step()
    if models and not any(one.calls or one.given_up for one in models):
        return
    _steps += 1
    if _steps > _STEPS_TO_SHARE or not models:
        return
    tops = [one for one in models if one.depth == 0]
    judged = tops if _steps == _STEPS_TO_SHARE else [one for one in tops if one.given_up]
    if judged and not any(one.is_shared for one in models) and not later.are_expected():
        nothing = "no call of it had a batch to split"
        why = "; ".join(f"{one.name}: {one.given_up or one.forms.why_whole or nothing}" for one in judged)
        larger = (
            "; of larger batches there may be something to share" if all(one.forms.of_few for one in judged) else ""
        )
        raise RanksParted(f"distify: no model could be shared, so every rank would do all of the work ({why}){larger}")
