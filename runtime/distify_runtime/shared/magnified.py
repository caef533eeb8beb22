"""Models that make a last digit large: of such a call nothing tells a mistake from rounding.

A BatchNorm of numbers that are all the same, padding say, divides what rounding has left of their differences by the
root of its `eps`; several in a row make thousandths of it in double precision, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.shared import comparing
from distify_runtime.shared.check import Check, unseen
from distify_runtime.shared.comparing import Passed
from distify_runtime.shared.plans import Call

if TYPE_CHECKING:
    from distify_runtime.shared.models import SharedModel

#: By how many units of its last digit a parameter is moved: as an order of adding up some numbers moves their sum.
_LAST_DIGITS = 4
WHY = "its last digits decide what it gives, so that no part of a batch gives what the whole one does"


def magnifies(model: SharedModel, call: Call) -> bool:
    """Whether a whole batch gives something else once parameters are moved by their last digits. A collective."""
    whole = _whole(model, call)
    with _nudged([*model.model.parameters(), *model.copies.parameters()]):
        other = _whole(model, call)
    told = isinstance(whole, Passed) and isinstance(other, Passed) and bool(comparing.difference(other, whole))
    return any(communicator.all_gather_object(told))


def _whole(model: SharedModel, call: Call) -> Passed | str:
    with unseen():
        return Check(model, call.cut_off(), None, False).whole(())


@contextmanager
def _nudged(parameters: Iterable[Tensor]) -> Iterator[None]:
    with ExitStack() as stack:
        for one in {id(one): one for one in parameters}.values():
            if one.is_floating_point():
                stack.callback(_set, one, one.data)
                places = torch.arange(one.numel(), device=one.device).view(one.shape)
                signs = (places * 78.233).sin().sign().to(one)
                _set(one, one.data * (1 + _LAST_DIGITS * torch.finfo(one.dtype).eps * signs))
        yield


def _set(parameter: Tensor, data: Tensor) -> None:
    parameter.data = data
