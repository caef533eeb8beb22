"""A file that several processes write and read is whole, or not there."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from distify_runtime.one_piece import in_one_piece


def test_what_a_function_writes_is_where_it_was_to_be(tmp_path: Path) -> None:
    in_one_piece(np.save)(str(tmp_path / "a"), [1, 2])  # which adds an ending
    in_one_piece(torch.save, 1)([3], tmp_path / "b.pt")
    in_one_piece(np.ones(2).tofile)(str(tmp_path / "c"))
    assert np.load(tmp_path / "a.npy").tolist() == [1, 2]
    assert torch.load(tmp_path / "b.pt") == [3]
    assert np.fromfile(tmp_path / "c").tolist() == [1, 1]
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.pt", "c"]


def test_a_file_that_is_open_comes_into_place_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    with in_one_piece(open)(path, "w") as file:
        file.write("after")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_file_that_nobody_closes_comes_into_place_when_it_is_no_longer_used(tmp_path: Path) -> None:
    in_one_piece(open)(tmp_path / "a.txt", "w").write("after")
    assert (tmp_path / "a.txt").read_text() == "after"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npy")
    np.save(path, [1])

    def fail(path: str) -> None:
        Path(path).write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        in_one_piece(fail)(path)
    assert np.load(path).tolist() == [1]
    assert os.listdir(tmp_path) == ["a.npy"]


def test_of_a_folder_that_is_not_there_it_is_said_as_ever(tmp_path: Path) -> None:
    path = str(tmp_path / "none" / "a.npy")
    with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{path}'"):
        in_one_piece(np.save)(path, [1])


def test_what_is_no_path_is_handed_on(tmp_path: Path) -> None:
    with open(tmp_path / "a.npy", "wb") as file:
        in_one_piece(np.save)(file, [1])
    assert os.listdir(tmp_path) == ["a.npy"]


def _write_and_read(path: str, number: int, seen: multiprocessing.Queue[bool]) -> None:
    whole = True
    for turn in range(200):
        in_one_piece(np.save)(path, np.full(100_000, 200 * number + turn))
        found = np.load(path)
        whole = whole and len(found) == 100_000 and bool((found == found[0]).all())
    seen.put(whole)


def test_two_processes_never_read_half_of_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    seen = context.Queue()
    writers = [context.Process(target=_write_and_read, args=(str(tmp_path / "a.npy"), one, seen)) for one in (0, 1)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(120)
    assert [seen.get(timeout=10), seen.get(timeout=10)] == [True, True]
    assert os.listdir(tmp_path) == ["a.npy"]
