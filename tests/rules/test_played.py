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
