"""Loaders of which a run uses one: another takes its place where it cannot be made."""

from __future__ import annotations

import pytest
from distify_codemods import Options
from distify_codemods.results import Strategy

from tests.rules.scripts import conversion_of, script

MAKE = """
def make(workers):
    return DataLoader(data, batch_size=8, shuffle=True, num_workers=workers)


def both(workers):
    return make(workers), DataLoader(data, batch_size=8, num_workers=workers)


other = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
kept = []
"""


def converted_with(loader: str) -> tuple[Strategy | None, str]:
    conversion = conversion_of(script(loader=MAKE + loader), options=Options())
    (new,) = conversion.files
    return conversion.strategy, new.after.decode()


@pytest.mark.parametrize(
    "loader",
    [
        "try:\n    loader = make(2)\nexcept RuntimeError:\n    loader = make(0)\n",
        "try:\n    loader = make(2)\nexcept (OSError, RuntimeError) as error:\n    print(error)\n"
        "    loader = make(0)\n",
        "try:\n    loader, tests = both(2)\nexcept RuntimeError:\n    loader, tests = both(0)\n",
        "try:\n    loader = make(2)\n    tests = make(2)\nexcept RuntimeError:\n"
        "    loader = make(0)\n    tests = make(0)\n",
        "try:\n    loader = make(2)\n    print(len(loader))\nexcept RuntimeError:\n    loader = make(0)\n",
        "try:\n    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=2, pin_memory=True)\n"
        "except RuntimeError:\n    loader = DataLoader(data, 8, True)\n",
    ],
)
def test_a_loader_in_place_of_one_that_fails_is_sharded_as_that_would_be(loader: str) -> None:
    strategy, text = converted_with(loader)
    assert strategy is Strategy.SHARDED
    assert text.count("sampler=rt.TrainingSampler(data)") == (2 if "DataLoader" in loader else 1)
    assert "    loader.sampler.set_epoch(epoch)\n" in text


@pytest.mark.parametrize(
    "loader",
    [
        # one rank may fail where the others do not, and would be dealt other batches
        "try:\n    loader = DataLoader(data, batch_size=16, shuffle=True)\n"
        "except RuntimeError:\n    loader = DataLoader(data, batch_size=8, shuffle=True)\n",
        "try:\n    loader = DataLoader(data, batch_size=8, shuffle=True)\n"
        "except RuntimeError:\n    loader = DataLoader(other, batch_size=8, shuffle=True)\n",
        "try:\n    loader = DataLoader(data, batch_size=8, shuffle=True)\n"
        "except RuntimeError:\n    loader = DataLoader(data, batch_size=8)\n",
        "try:\n    loader = DataLoader(data, batch_size=8, shuffle=True)\n"
        "except RuntimeError:\n    loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)\n",
        "options = {'num_workers': 2}\ntry:\n    loader = DataLoader(data, batch_size=8, shuffle=True, **options)\n"
        "except RuntimeError:\n    loader = DataLoader(data, batch_size=8, shuffle=True)\n",
        # both may be there
        "first = make(2)\ntry:\n    kept.append(make(2))\n    kept.append(make(0))\nexcept RuntimeError:\n"
        "    kept.append(make(1))\nloader = kept[0]\n",
        "try:\n    loader = make(2)\n    kept.append(loader)\n    next(iter(loader))\n"
        "except RuntimeError:\n    loader = make(0)\n",
        "loader = make(0)\ntry:\n    first = make(2)\n    next(iter(first))\n"
        "except RuntimeError:\n    second = loader\nelse:\n    second = first\nloader = second\n",
    ],
)
def test_loaders_that_deal_otherwise_or_may_both_be_there_are_in_doubt(loader: str) -> None:
    strategy, _ = converted_with(loader)
    assert strategy is Strategy.SHARED
