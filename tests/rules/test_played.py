"""Samples that are gathered by playing: what all ranks play alike is trained on, what each plays for itself is not."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import conversion_of, findings

GAME = """\
import random
{imports}
import torch
from torch import nn


class Game:
    def __init__(self):
        self.moves = {moves}

    def reset(self):
        self.place = 0.0
        return [self.place]

    def step(self, move):
        self.place += move
        return [self.place], -abs(self.place), abs(self.place) > 4


game, memory = Game(), []
model = nn.Linear(1, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = game.reset()
for step in range(100):
    move = {draw}
    if step % 2:
        move = model(torch.tensor(state)).argmax().item()
    after, reward, over = game.step(move)
    memory.append((state, move, reward))
    state = game.reset() if over else after
    if len(memory) > 32:
        rows = random.sample(memory, 32)
        x = torch.tensor([row[0] for row in rows])
        taken = torch.tensor([row[1] for row in rows])
        y = torch.tensor([row[2] for row in rows])
        loss = nn.functional.mse_loss(model(x).gather(1, taken[:, None])[:, 0], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_game_that_all_ranks_play_alike() -> None:
    before = GAME.format(imports="", moves="[0, 1]", draw="random.choice(game.moves)")
    assert conversion_of(before).outcome is Outcome.CONVERTED
    (claim,) = findings("DATA05", before, Level.NOT_NEEDED)
    assert claim.message == "all ranks make the same batches, and each keeps its own samples"


@pytest.mark.parametrize("library", ["gym", "gymnasium"])
@pytest.mark.parametrize("strategy", ["auto", "sharded", "shared"])
def test_moves_that_each_process_draws_for_itself(library: str, strategy: str) -> None:
    """A space draws from a generator of its own, which the operating system seeds."""
    moves = f"{library}.spaces.Discrete(2)"
    before = GAME.format(imports=f"import {library}", moves=moves, draw="game.moves.sample()")
    conversion = conversion_of(before, options=Options(strategy=strategy))
    assert conversion.outcome is Outcome.REFUSED
    assert any("from an environment that each rank would play by itself" in one.message for one in conversion.findings)


WITH_LOADER = """\
import gym
import pybullet
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {row}


class Stream(IterableDataset):
    def __init__(self, game):
        self.game = game

    def __iter__(self):
        yield self.play()

    def play(self):
        self.game.reset()
        return self.game.step(1)


game, rows = gym.make("CartPole-v1"), []
state = game.reset()
for move in range(64):
    state, reward, over, _ = game.step(move % 2)
    rows.append({kept})
data = {data}
loader = DataLoader(data, batch_size=8)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
KEPT = "(state, reward)"


@pytest.mark.parametrize("strategy", ["auto", "sharded", "shared"])
@pytest.mark.parametrize(
    ("data", "row", "kept"),
    [
        ("Rows(rows)", "self.rows[index]", KEPT),
        ("Rows(rows)", "self.rows[index]", "torch.as_tensor(state)"),
        ("TensorDataset(torch.stack(rows), torch.ones(64))", "None", "torch.as_tensor(state)"),
        ("Stream(game)", "None", KEPT),
        ("Rows(None)", "pybullet.getBasePositionAndOrientation(index)", KEPT),
    ],
)
def test_games_behind_a_loader(data: str, row: str, kept: str, strategy: str) -> None:
    """Played before the loader is made, or by its data set."""
    before = WITH_LOADER.format(data=data, row=row, kept=kept)
    conversion = conversion_of(before, options=Options(strategy=strategy))
    assert any("from an environment that each rank would play by itself" in one.message for one in conversion.findings)
    assert conversion.outcome is Outcome.REFUSED


@pytest.mark.parametrize("data", ["TensorDataset(torch.ones(64, 4), torch.ones(64))", "Rows([1.0] * 64)"])
def test_games_beside_a_loader(data: str) -> None:
    """What is played is looked at, and not trained on."""
    before = WITH_LOADER.format(row="self.rows[index]", kept=KEPT, data=data)
    assert conversion_of(before, options=Options(strategy="sharded")).outcome is Outcome.CONVERTED
