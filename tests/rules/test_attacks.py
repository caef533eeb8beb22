"""Backward passes for the gradients of inputs: an evaluation under attack counts no sample twice."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import LOOP, blocked, conversion_of, converted, script

ATTACK = """\
other = DataLoader(TensorDataset(torch.randn(19, 4), torch.randn(19, 1)), batch_size=6)


def attack(x, y):
    x = x.clone().requires_grad_()
    loss = nn.functional.mse_loss(model(x), y)
    model.zero_grad()
    loss.backward()
    return (x + 0.1 * x.grad.sign()).detach()


"""
ROBUST = """\
    right = 0
    for x, y in other:
        x = attack(x, y)
        with torch.no_grad():
            right += (model(x) > y).sum().item()
    print(right)
"""


def is_sharded_for_training(before: str) -> bool:
    """Whether the loader `other` is one whose samples count twice where they do not divide."""
    made = conversion_of(before, options=Options(strategy="sharded", partial=True))
    text = made.files[0].after.decode()
    line = text[text.index("other = ") : text.index("def attack")]
    return "TrainingSampler" in line


@pytest.mark.parametrize(
    "robust",
    [
        ROBUST,
        ROBUST.replace("attack(x, y)", "attack(x, y)\n        x = attack(x, y)"),
        ROBUST.replace("        x = attack(x, y)\n", "        for _ in range(3):\n            x = attack(x, y)\n"),
    ],
)
def test_evaluation_under_attack_is_no_training(robust: str) -> None:
    before = script(setup=ATTACK, loop=LOOP + robust)
    assert "TrainingSampler" not in converted(before, Options())


def test_attack_within_training() -> None:
    """The loop takes its steps on what it has attacked."""
    loop = LOOP.replace("    for x, y in loader:\n", "    for x, y in loader:\n        x = attack(x, y)\n")
    before = script(setup=ATTACK, loop=loop)
    assert not blocked(before)
    assert converted(before).count("rt.TrainingSampler(") == 1


@pytest.mark.parametrize(
    "loop",
    [
        # gradients are added up over the whole loop, and a step follows
        "for epoch in range(3):\n    optimizer.zero_grad()\n    for x, y in other:\n"
        "        nn.functional.mse_loss(model(x), y).backward()\n    optimizer.step()\n",
        # the next turn begins with the step
        "for epoch in range(3):\n    optimizer.step()\n    optimizer.zero_grad()\n    for x, y in other:\n"
        "        nn.functional.mse_loss(model(x), y).backward()\n",
        # they may be set to zero, or not
        "for epoch in range(3):\n    for x, y in other:\n        nn.functional.mse_loss(model(x), y).backward()\n"
        "    if epoch % 2:\n        optimizer.zero_grad()\n    optimizer.step()\n",
        "for epoch in range(3):\n    for x, y in other:\n        optimizer.zero_grad()\n"
        "        nn.functional.mse_loss(model(x), y).backward()\n        optimizer.step()\n",
    ],
)
def test_what_a_step_takes_is_training(loop: str) -> None:
    assert is_sharded_for_training(script(setup=ATTACK, loop=loop))
