"""What a function of the runtime takes for models and parameters, of what it is given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from distify_runtime.members import modules_of, tensors_of
from torch import nn


def test_settings_and_functions_may_stand_beside_a_model() -> None:
    net, fine = nn.Linear(2, 1), nn.Linear(1, 1)
    given = {"net": net, "query": lambda x: x, "samples": 3, "name": "a", "none": None, "more": [fine, 1.5]}
    assert list(modules_of(given)) == [net, fine]
    assert list(tensors_of(given)) == [*net.parameters(), *fine.parameters()]


def test_what_is_held_is_not_gone_through() -> None:
    """A loader in a dictionary gives its batches to nobody but the script."""
    batches = iter([torch.zeros(1)])
    assert list(tensors_of({"batches": batches})) == []
    assert next(batches).shape == (1,)


@pytest.mark.parametrize("given", [lambda x: x, 3, "model"])
def test_by_themselves_they_are_no_model(given: Any) -> None:
    with pytest.raises(TypeError, match="a module, an optimizer or parameters are needed"):
        list(modules_of(given))
