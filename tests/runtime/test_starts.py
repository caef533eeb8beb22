"""Ranks that torchrun starts anew find nothing in its store of what those before them have left."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from distify_runtime.starts import NotCome, where_to_meet
from torch._C._distributed_c10d import TCPStore


def start(port: int, ranks: int, order: list[int], pause: float = 0.0) -> dict[int, Any]:
    """What each rank meets the others over; they come one after the other."""
    found: dict[int, Any] = {}

    def come(rank: int) -> None:
        environ = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        found[rank] = where_to_meet(False, {**environ, "TORCHELASTIC_USE_AGENT_STORE": "True"})["store"]

    threads = [threading.Thread(target=come, args=(rank,), daemon=True) for rank in order]
    for thread in threads:
        thread.start()
        thread.join(pause)
    for thread in threads:
        thread.join(30)
    assert sorted(found) == list(range(ranks))
    return found


def test_each_start_has_a_store_of_its_own() -> None:
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    before: dict[int, Any] = {}
    for number, (ranks, order) in enumerate([(3, [0, 1, 2]), (3, [2, 1, 0]), (2, [1, 0]), (3, [0, 2, 1])]):
        stores = start(server.port, ranks, order, pause=0.2)
        assert not any(store.check(["left"]) for store in stores.values())
        stores[0].set("left", str(number))
        assert [store.get("left") for store in stores.values()] == [str(number).encode()] * ranks
        assert all(store.get("left") == str(number - 1).encode() for store in before.values())
        before = stores


def test_a_rank_that_came_and_was_gone_is_not_waited_for() -> None:
    """What it has left of itself does not pass for the one that comes in its place."""
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    server.set("distify/came/1", "gone")
    stores = start(server.port, 2, [0, 1], pause=0.2)
    stores[0].set("of rank 0", "here")
    assert stores[1].get("of rank 0") == b"here"


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        (0, r"ranks 1, 2 of 3 not there within 0 s \(--hang-timeout\); rank 0 waits"),
        (2, r"rank 0 has not come within 0 s \(--hang-timeout\), and rank 2 waits for it"),
    ],
)
def test_ranks_that_do_not_come_are_not_waited_for_longer_than_a_run_may_stand_still(rank: int, said: str) -> None:
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    told = {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    with pytest.raises(NotCome, match=said):
        where_to_meet(False, {**told, "TORCHELASTIC_USE_AGENT_STORE": "True"}, patience=0.5)


def test_where_torch_opens_a_new_store_each_time_it_does() -> None:
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    assert where_to_meet(False, environ) == {}
    assert where_to_meet(True, {"TORCHELASTIC_USE_AGENT_STORE": "True"})["world_size"] == 1
