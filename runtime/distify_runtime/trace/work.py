"""Who does which share of the work, by the numbers that models are given in training."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from distify_runtime.environment import world_size
from distify_runtime.shared.models import shared_model
from distify_runtime.shared.region import current, is_comparing


class Work:
    """`share`: numbers that this process has computed with, of those that models were given and could be dealt out.

    A pass that is shared and one that is computed whole count alike: by what the model is given, not by its layers.
    """

    def __init__(self) -> None:
        self.share = (0, 0)
        self._outermost: _Called | None = None

    def enter(self, module: nn.Module, numbers: int) -> None:
        does_work = is_split(module) or (not module._modules and module._parameters)  # no loss
        if current() is None and self._outermost is None and does_work:
            self._outermost = _Called(module, numbers)

    def leave(self, module: nn.Module) -> None:
        if self._outermost is not None and self._outermost.module is module and not is_comparing():
            mine, given = self._outermost.share()
            self.share = (self.share[0] + mine, self.share[1] + given)
            self._outermost = None

    def step(self) -> None:
        self._outermost = None  # if it has raised an error


@dataclass
class _Called:
    """The outermost call of a module, by the numbers that it was given."""

    module: nn.Module
    numbers: int

    def __post_init__(self) -> None:
        self._before = self._counted()

    def _counted(self) -> tuple[int, int]:
        """Calls that were shared; and those in which it has shown that there is nothing to share."""
        model = shared_model(self.module)
        return (0, 0) if model is None else (model.forms.shared, model.forms.small + bool(model.given_up))

    def share(self) -> tuple[int, int]:
        """This rank's part of the numbers, and all that could be dealt out: of a batch that is too small, nothing."""
        shared, none = (now - before for now, before in zip(self._counted(), self._before, strict=True))
        return (0, 0) if none else (self.numbers // world_size() if shared else self.numbers, self.numbers)


def is_split(module: nn.Module) -> bool:
    """Whether these numbers are those of a whole batch, of which the module itself gets this rank's part."""
    shared = shared_model(module)
    return shared is not None and not shared.given_up and current() is None
