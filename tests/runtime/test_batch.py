"""Batches that all ranks hold alike, shared out; random numbers of a rank's own inside a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import distify_runtime as rt
import numpy as np
import pytest
import torch
from ranks import on_ranks, run_script
from torch import nn


class Pair(NamedTuple):
    inputs: torch.Tensor
    targets: torch.Tensor


def _shares() -> dict[str, Any]:
    rows = torch.arange(12)
    table = torch.arange(24).view(3, 8)
    pair = rt.shard_batch(Pair(rows, rows + 100))
    return {
        "rows": rt.shard_batch(rows).tolist(),
        "columns": rt.shard_batch(table, dim=1).tolist(),
        "contiguous": rt.shard_batch(table, dim=1).is_contiguous(),
        "array": rt.shard_batch(np.arange(8)).tolist(),
        "samples": rt.shard_batch(["a", "b", "c", "d"]),
        "pair": (type(pair).__name__, pair.targets.tolist()),
        "table": rt.shard_batch({"x": rows[:4], "length": 7, "none": None})["x"].tolist(),
        "states": [part.tolist() for part in rt.shard_batch([table, table], dim=1)],
        "ragged": rt.shard_batch(rows[:5]).tolist(),
    }


def test_ranks_share_a_batch() -> None:
    first, second = on_ranks(_shares)
    assert first["rows"] + second["rows"] == list(range(12))
    assert [a + b for a, b in zip(first["columns"], second["columns"], strict=True)] == [
        list(range(8)), list(range(8, 16)), list(range(16, 24)),
    ]  # fmt: skip
    assert first["contiguous"]
    assert first["array"] + second["array"] == list(range(8))
    assert first["samples"] + second["samples"] == ["a", "b", "c", "d"]
    assert first["pair"] == ("Pair", [100, 101, 102, 103, 104, 105])
    assert second["table"] == [2, 3]
    assert second["states"][1] == second["columns"]
    assert first["ragged"] + second["ragged"] == [0, 1, 2, 3, 4, 0]


def test_one_process_keeps_all() -> None:
    batch = torch.arange(5)
    assert rt.shard_batch(batch) is batch


@pytest.mark.parametrize("size", [5, 7])
def test_first_batch_must_divide(size: int) -> None:
    script = f"import torch, distify_runtime as rt\nrt.init_process_group()\nrt.shard_batch(torch.ones({size}))\n"
    ended = run_script(script)
    assert all(one.code != 0 for one in ended)
    assert f"use a batch size of {size - 1} or {size + 1}" in "".join(one.err for one in ended)


def _draws() -> list[Any]:
    model = nn.Dropout(0.5)
    rt.seed_ranks_apart(model)
    inside = [model(torch.ones(64)).tolist() for _ in range(2)]
    return [inside, torch.rand(4).tolist()]


def test_only_what_the_model_draws_differs() -> None:
    first, second = on_ranks(_draws)
    assert first[0] != second[0]
    assert first[0][0] != first[0][1]
    assert first[1] == second[1]


def _failing() -> list[float]:
    class Broken(nn.Module):
        def forward(self) -> None:
            torch.rand(3)
            raise RuntimeError("broken")

    model = Broken()
    rt.seed_ranks_apart(model)
    with pytest.raises(RuntimeError, match="broken"):
        model()
    return torch.rand(2).tolist()


def test_common_numbers_go_on_after_a_forward_that_fails() -> None:
    first, second = on_ranks(_failing)
    assert first == second


def _squeezed(_: None) -> Any:
    one, several = torch.zeros(1, 1, 3, 1), np.zeros((1, 2, 1))
    given = (rt.squeeze(one), rt.squeeze(several), rt.squeeze(several, dim=2), rt.squeeze(torch.ones(())))
    return [tuple(each.shape) for each in given]


def test_squeezed_but_for_the_samples() -> None:
    assert on_ranks(_squeezed, None) == [[(1, 3), (1, 2), (2, 1), ()]] * 2


def test_in_one_process_all_of_it_is_squeezed() -> None:
    (ended,) = run_script("import torch, distify_runtime as rt\nprint(rt.squeeze(torch.ones(1, 1)).dim())", ranks=0)
    assert ended.out == "0\n"
