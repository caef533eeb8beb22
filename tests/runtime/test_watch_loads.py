"""Ranks that part since one of them has found no checkpoint are told of it."""

from __future__ import annotations

from pathlib import Path

import distify_runtime as rt
import pytest
import torch
from distify_runtime.watch.loads import reason
from ranks import RankFailed, on_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def go_on(folders: list[str], name: str) -> None:
    rt.init_process_group()
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    if Path(folders[rt.rank()], name).exists():
        optimizer.load_state_dict(torch.load(Path(folders[rt.rank()], name)))
    replica = DistributedDataParallel(model)
    for _ in range(10):
        optimizer.zero_grad()
        replica(torch.ones(4, 2)).sum().backward()
        optimizer.step()
        rt.barrier()


def a_checkpoint(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), folder / name)


@pytest.mark.of_torch
def test_where_one_rank_has_found_no_checkpoint_it_is_said(tmp_path: Path) -> None:
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    a_checkpoint(tmp_path / "a", "last.pt")
    said = r"before that, rank 0 has read last\.pt, and rank 1 has not: is it on a disk that all machines see\?"
    with pytest.raises(RankFailed, match=said):
        on_ranks(go_on, folders, "last.pt")
    on_ranks(go_on, folders[:1] * 2, "last.pt")


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        ([[], []], ""),
        ([["last.pt"], ["last.pt"]], ""),
        ([["0.pt"], ["1.pt"]], ""),  # each its share of the samples
        ([["last.pt", "0.pt"], ["1.pt"]], ""),
        ([[], ["last.pt"]], "rank 1 has read last.pt, and rank 0 has not"),
        ([["net.pt", "last.pt"], ["net.pt"], ["net.pt"]], "rank 0 has read last.pt, and rank 1 has not"),
    ],
)
def test_what_may_be_why(loaded: list[list[str]], said: str) -> None:
    assert said in reason(loaded)
    assert bool(said) == bool(reason(loaded))
