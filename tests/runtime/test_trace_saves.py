"""What a trace keeps of a checkpoint can be read again, whatever classes of numbers the script saves."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from distify_runtime.trace.saves import flat, path_told, with_those_of_libraries
from distify_runtime.trace.traces import Save


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
    contents = dict(flat({"stats": [saved]}, ""))
    torch.save(contents, tmp_path / "trace.pt")
    assert torch.load(tmp_path / "trace.pt", weights_only=True) == {"stats[0]": kept}
    assert type(contents["stats[0]"]) is type(kept)


@pytest.mark.parametrize("dtype", ["uint16", "int64", "float16", "float64", "bool"])
def test_arrays_are_compared_as_tensors(dtype: str) -> None:
    ((_, kept),) = flat(np.array([[1, 0]], dtype=dtype), "scores")
    assert isinstance(kept, torch.Tensor)
    assert kept.tolist() == [[1, 0]]


def test_temporary_folders_are_the_same_in_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert path_told("models/best_one.pt") == "models/best_one.pt"
    assert path_told(tmp_path / "abcdefgh") == "abcdefgh"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path.parent / "elsewhere"))
    first, second = (os.path.join(tempfile.gettempdir(), f"run{end}", "best.pt") for end in ("a1b2c3d4", "_9876543"))
    assert path_told(first) == path_told(second) == str(tmp_path.parent / "elsewhere" / "run*" / "best.pt")


def test_paths_in_the_working_folder_are_the_same_in_each_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name in ("original", "converted"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        found.append(dict(flat({"from": str(folder / "first.pt"), "to": "/data/last.pt"}, "")))
    assert found == [{"from": "./first.pt", "to": "/data/last.pt"}] * 2


BEST, LAST, SENT = Save("best.pt", {"a": 1, "b": 1}), Save("last.pt", {"a": 2, "c": 1}), Save("", {"sent": 0})
FILES = ["best.pt", "last.pt"]


def test_what_a_library_has_saved_into_memory_stands_for_its_file() -> None:
    in_memory = [SENT, *(Save("", one.contents) for one in (BEST, LAST))]
    assert with_those_of_libraries([], in_memory, [BEST, LAST], FILES) == [BEST, LAST]
    assert with_those_of_libraries([LAST, LAST], in_memory, [LAST, BEST, LAST], FILES) == [LAST, BEST, LAST]
    assert with_those_of_libraries([], in_memory, [BEST, LAST], ["last.pt"]) == [LAST]


def test_what_is_saved_into_memory_alone_stands_for_nothing() -> None:
    assert with_those_of_libraries([BEST], [SENT], [BEST], FILES) == [BEST]
    assert with_those_of_libraries([], [SENT], [BEST], FILES) == []
    assert with_those_of_libraries([], [Save("", BEST.contents)], [BEST], []) == []
    assert with_those_of_libraries([BEST, LAST], [SENT], [LAST], FILES) == [BEST, LAST]
