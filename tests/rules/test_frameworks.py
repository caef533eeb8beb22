"""Trainings with another framework than PyTorch are none of ours: the refusal says whose they are."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Outcome

from tests.rules.scripts import IMPORTS, conversion_of, script

PADDLE = """\
import {library} as lib

net = lib.nn.Linear(4, 1)
opt = lib.{optimizer}(learning_rate=0.1, parameters=net.parameters())
for step in range(3):
    loss = net(lib.randn([8, 4])).mean()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("library", "optimizer", "name"),
    [
        ("paddle", "optimizer.Adam", "PaddlePaddle"),
        ("mindspore", "nn.optim.Momentum", "MindSpore"),
        ("jittor", "optim.SGD", "Jittor"),
    ],
)
def test_another_framework(library: str, optimizer: str, name: str) -> None:
    before = PADDLE.format(library=library, optimizer=optimizer)
    [said] = conversion_of(before).of(Level.BLOCKING)
    assert (said.code, said.message) == ("REFUSE06", f"this script trains with {name}")
    assert said.place is not None
    assert said.place.line == 4


def test_a_framework_beside_torch_is_no_reason() -> None:
    before = script(imports=IMPORTS + "import paddle\npaddle.set_device('cpu')\n")
    assert conversion_of(before).outcome is Outcome.CONVERTED
