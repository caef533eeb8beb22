"""MODEL01: blocks that are left out until a schedule has come so far get no gradients before."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import LOOP, WRAP, converted, findings, script

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.out = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 1)
        self.depth = {depth}

    def forward(self, x):
        {forward}
        return self.out(x)


model = Net()
"""
DEEPER = LOOP.replace("    for x, y", "    model.depth = epoch + 1\n    for x, y", 1)
TOLD = WRAP.replace("(model))", "(model), find_unused_parameters=True)")
LEFT_OUT = {
    "continue": "for i, block in enumerate(self.blocks):\n            if i >= self.depth:\n                continue\n"
    "            x = block(x)",
    "break": "for i, block in enumerate(self.blocks):\n            if i >= self.depth:\n                break\n"
    "            x = block(x)",
    "a test": "for i, block in enumerate(self.blocks):\n            if i < self.depth:\n                x = block(x)",
    "range": "for i in range(self.depth):\n            x = self.blocks[i](x)",
    "slice": "for block in self.blocks[: self.depth]:\n            x = block(x)",
}


@pytest.mark.parametrize("forward", LEFT_OUT.values(), ids=LEFT_OUT)
def test_blocks_that_come_later(forward: str) -> None:
    before = script(model=NET.format(forward=forward, depth=1), loop=DEEPER)
    assert TOLD in converted(before)
    [said] = [one.message for one in findings("MODEL01", before, Level.ADVICE)]
    assert "self.out" not in said


@pytest.mark.parametrize("forward", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_depth_that_stays(forward: str) -> None:
    assert WRAP in converted(script(model=NET.format(forward=forward, depth=3), loop=LOOP))
