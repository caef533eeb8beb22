"""Batches that are drawn from a memory of what was played: tuples that were put in one by one."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import conversion_of

REPLAY = """\
import random
from collections import deque
import numpy as np
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
memory = {memory}


def remember(state, action, reward, following):
    memory.append({kept})


def learn(size=32):
    if len(memory) < size:
        return
    batch = {drawn}
    {parts}
    wanted = rewards + 0.9 * target(nexts).max(1)[0].detach()
    loss = nn.functional.mse_loss(model(states).gather(1, actions.unsqueeze(1)).squeeze(1), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


state = np.zeros(4, dtype=np.float32)
for step in range(100):
    action = random.randrange(2)
    new = (state * 0.9 + np.random.randn(4) * 0.1).astype(np.float32)
    remember(state, action, float(new.sum()), new)
    learn()
    state = new
"""
EACH = """\
states = torch.FloatTensor(np.array([{0} for t in batch]))
    actions = torch.LongTensor([{1} for t in batch])
    rewards = torch.FloatTensor([{2} for t in batch])
    nexts = torch.FloatTensor(np.array([{3} for t in batch]))"""
AT_ITS_PLACE = EACH.format("t[0]", "t[1]", "t[2]", "t[3]")
TUPLE = "(state, action, reward, following)"


def converted(parts: str, memory: str = "deque(maxlen=2000)", drawn: str = "", kept: str = TUPLE) -> tuple[bool, str]:
    drawn = drawn or "random.sample(memory, size)"
    made = conversion_of(REPLAY.format(memory=memory, kept=kept, drawn=drawn, parts=parts), options=Options())
    return made.strategy is Strategy.SHARDED, made.files[0].after.decode()


@pytest.mark.parametrize(
    ("parts", "memory", "drawn"),
    [
        (AT_ITS_PLACE, "deque(maxlen=2000)", "random.sample(memory, size)"),
        (AT_ITS_PLACE, "[]", "random.choices(memory, k=size)"),
        (EACH.format("t[0]", "t[1]", "t[2]", "t[3] if t[3] is not None else np.zeros(4)"), "[]", ""),
        (EACH.format("t[-4]", "t[1]", "t[-2]", "t[-1]"), "deque()", ""),
    ],
)
def test_parts_of_each_by_their_places(parts: str, memory: str, drawn: str) -> None:
    sharded, text = converted(parts, memory, drawn)
    assert sharded
    assert f"batch = rt.shard_batch({drawn or 'random.sample(memory, size)'})" in text


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        (AT_ITS_PLACE.replace("[t[2] for t in batch]", "[batch[0][2] for t in batch]"), TUPLE),
        (AT_ITS_PLACE.replace("[t[2] for t in batch]", "[t[2] for t in batch[::-1]]"), TUPLE),
        (AT_ITS_PLACE, "torch.tensor([*state, action, reward, *following])"),
    ],
)
def test_one_of_them_for_all_or_in_another_order(parts: str, kept: str) -> None:
    """Of a tensor that was put in, `t[0]` may be anything."""
    assert not converted(parts, kept=kept)[0]


LISTED = """\
import random
import numpy as np
import torch
from torch import nn

data = [(np.random.randn(4).astype("float32"), float(k)) for k in range(96)]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    random.shuffle(data)
    for i in range(0, 96, 8):
        batch = data[i : i + 8]
        x = torch.tensor(np.array([row[0] for row in batch]))
        y = torch.tensor([{wanted}])
        loss = ((model(x).squeeze(1) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "wanted", ["row[1] for row in batch", "y for _, y in batch", "row[1] for k, row in enumerate(batch)"]
)
def test_a_list_of_samples_that_is_cut(wanted: str) -> None:
    made = conversion_of(LISTED.format(wanted=wanted), options=Options())
    assert made.strategy is Strategy.SHARDED
    assert "batch = rt.shard_batch(data[i : i + 8])" in made.files[0].after.decode()


@pytest.mark.parametrize(
    "wanted",
    [
        "batch[0][1] for row in batch",
        "row[1] * (2 if row is batch[0] else 1) for row in batch",
        "row[1] for row in batch[::-1]",
        "y for _, y in batch[::-1]",
        "row[1] for row in list(reversed(batch))",
        "row[1] for row in sorted(batch, key=lambda row: row[1])",
        "row[1] for row in random.sample(batch, 8)",
        "row[1] for row in batch[1:] + batch[:1]",
        "k + row[1] for k, row in enumerate(batch)",
        "batch[k - 1][1] for k, row in enumerate(batch)",
        "batch[-k - 1][1] for k in range(len(batch))",
        "row[1] - max(other[1] for other in batch) for row in batch",
        "row[1] + len(batch) for row in batch",
    ],
)
def test_samples_of_a_list_that_are_told_apart_by_their_places(wanted: str) -> None:
    """A rank's share has another first one, and others beside each."""
    assert conversion_of(LISTED.format(wanted=wanted), options=Options()).strategy is Strategy.SHARED
