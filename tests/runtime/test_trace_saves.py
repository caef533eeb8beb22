"""What a trace keeps of a checkpoint can be read again, whatever classes of numbers the script saves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from distify_runtime.trace.record import _flatten


@pytest.mark.parametrize(
    ("saved", "kept"),
    [
        (np.float64(2.5), 2.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("best"), "best"),
        (np.array(["a"]), "ndarray"),
        (np.datetime64("2020-01-01"), "date"),
        (object(), "object"),
        (None, "NoneType"),
    ],
)
def test_numbers_and_texts(saved: object, kept: object, tmp_path: Path) -> None:
    contents = dict(_flatten({"stats": [saved]}, ""))
    torch.save(contents, tmp_path / "trace.pt")
    assert torch.load(tmp_path / "trace.pt", weights_only=True) == {"stats[0]": kept}
    assert type(contents["stats[0]"]) is type(kept)


@pytest.mark.parametrize("dtype", ["uint16", "int64", "float16", "float64", "bool"])
def test_arrays_are_compared_as_tensors(dtype: str) -> None:
    ((_, kept),) = _flatten(np.array([[1, 0]], dtype=dtype), "scores")
    assert isinstance(kept, torch.Tensor)
    assert kept.tolist() == [[1, 0]]
