"""`mean(dim=list(range(1, x.dim())))` is a mean for each sample: all dimensions but the first, however many."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, converted, distributed, script
from tests.rules.test_loss import with_loss


def gathers(loss: str) -> bool:
    """Whether whole batches are looked at, in either way."""
    after = converted(with_loss(script(), loss))
    return "gather_samples" in after or "whole_batches=True" in after


HELPER = "def flat_mean(rows):\n    return rows.mean(dim={dims})\n\n\n"


@pytest.mark.parametrize(
    "dims",
    [
        "list(range(1, len(rows.shape)))",
        "list(range(1, rows.dim()))",
        "tuple(range(1, rows.ndim))",
        "[i for i in range(1, rows.ndimension())]",
        "list(range(1, len(rows.size())))",
    ],
)
def test_a_mean_for_each_sample(dims: str) -> None:
    loss = "flat_mean((model(x) - y) ** 2).mean()"
    helper = HELPER.format(dims=dims)
    before = with_loss(script(imports=IMPORTS + helper), loss)
    after = with_loss(distributed(), loss)
    assert converted(before).replace(helper, "") == after


@pytest.mark.parametrize(
    "loss",
    [
        "torch.mean(model(x) - y, dim=tuple(range(1, x.dim()))).pow(2).mean()",
        "(model(x) - y).pow(2).sum(list(range(1, x.dim())), keepdim=True).sqrt().mean()",
        "(model(x) - y).pow(2).amax(tuple(range(1, x.dim()))).mean()",
    ],
)
def test_other_functions_along_them(loss: str) -> None:
    assert not gathers(loss)


@pytest.mark.parametrize(
    "dims",
    [
        "list(range(0, x.dim()))",
        "tuple(range(x.dim()))",
        "list(range(1, -1, -1))",
        "[i - 1 for i in range(1, x.dim() + 1)]",
        "[-i for i in range(1, x.dim() + 1)]",
        "list(range(1, x.dim())) + [0]",
        "list(range(start, x.dim()))",
    ],
)
def test_dimensions_of_which_one_may_be_the_first(dims: str) -> None:
    assert gathers(f"(model(x) - y).pow(2).mean({dims}).sqrt().mean()")


@pytest.mark.parametrize("line", ["dims.insert(0, 0)", "dims[0] = 0", "dims += [0]", "dims.append(-x.dim())"])
def test_a_list_that_is_changed(line: str) -> None:
    changed = f"def along(x):\n    dims = list(range(1, x.dim()))\n    {line}\n    return dims\n\n\n"
    loss = "(model(x) - y).pow(2).mean(along(x)).sqrt().mean()"
    before = script(imports=IMPORTS + changed).replace("nn.functional.mse_loss(model(x), y)", loss)
    assert "gather_samples" in converted(before)
