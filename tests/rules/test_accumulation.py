"""ACCUM01: accumulated gradients are averaged in the backward pass before a step alone."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import IMPORTS, LOOP, changes, converted, findings, indented, script

FLAG = "require_backward_grad_sync"
MODULUS = """\
for epoch in range(3):
    for number, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y) / 2
        loss.backward()
        if (number + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
TURNS = """\
batches = iter(loader)
for step in range(4):
    optimizer.zero_grad()
    for turn in range(turns):
        x, y = next(batches)
        loss = nn.functional.mse_loss(model(x), y) / 2
        loss.backward()
    optimizer.step()
"""


def flags(before: str) -> list[str]:
    return [line.strip() for line in converted(before).splitlines() if FLAG in line]


def test_before_the_forward_pass() -> None:
    after = converted(script(loop=MODULUS))
    flag = f"        model.{FLAG} = (number + 1) % 2 == 0\n"
    assert flag + "        loss = nn.functional.mse_loss(model(x), y) / 2\n        loss.backward()\n" in after


@pytest.mark.parametrize(
    "test",
    [
        "number % every == every - 1",
        "(number + 1) % 2 == 0 or number == len(loader) - 1",
        "not (number + 1) % every",
        "number % args.every == 0 and epoch > 0",
    ],
)
def test_tests_that_can_be_asked_before(test: str) -> None:
    setup = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--every', type=int, default=2)\n"
    setup += "args = parser.parse_args()\nevery = 2\n"
    assert flags(script(setup=setup, loop=MODULUS.replace("(number + 1) % 2 == 0", test))) == [f"model.{FLAG} = {test}"]


def test_counter_that_moves_before_the_forward_pass() -> None:
    loop = MODULUS.replace("        loss = ", "        count += 1\n        loss = ").replace("(number + 1)", "count")
    assert flags(script(setup="count = 0\n", loop=loop)) == [f"model.{FLAG} = count % 2 == 0"]


@pytest.mark.parametrize("turns", ["4", "args_turns"])
def test_last_turn_of_a_range(turns: str) -> None:
    before = script(setup="args_turns = 4\n", loop=TURNS.replace("(turns)", f"({turns})"))
    last = "3" if turns == "4" else "args_turns - 1"
    assert flags(before) == [f"model.{FLAG} = turn == {last}"]


def test_each_of_two_models() -> None:
    loop = MODULUS.replace("model(x)", "head(model(x))")
    model = "model, head = nn.Linear(4, 4), nn.Linear(4, 1)\n"
    optimizer = "optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)\n"
    wanted = [f"{name}.{FLAG} = (number + 1) % 2 == 0" for name in ("model", "head")]
    assert flags(script(model=model, optimizer=optimizer, loop=loop)) == wanted


def test_in_a_trainer() -> None:
    body = MODULUS.replace("model(", "self.model(").replace("optimizer", "self.optimizer")
    trainer = f"""\
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self, loader):
{indented(body, "        ")}

Trainer(model).fit(loader)
"""
    after = converted(script(optimizer="", loop=trainer))
    name = next(name for name in ("self.model", "model") if f"{name} = DistributedDataParallel({name}" in after)
    assert name in ("self.model", "model")
    assert f"                self.model.{FLAG} = (number + 1) % 2 == 0\n" in after


NOT_KNOWN = {
    "counter that moves later": MODULUS.replace("(number + 1)", "count")
    .replace("        loss.backward()", "        count += 1\n        loss.backward()")
    .replace("for epoch", "count = 0\nfor epoch"),
    "something else reads gradients": MODULUS.replace(
        "        if (", "        norm = max(p.grad.norm() for p in model.parameters())\n        if ("
    ),
    "clipped in each turn": MODULUS.replace(
        "        if (", "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        if ("
    ),
    "what is left over": f"{MODULUS}    optimizer.step()\n    optimizer.zero_grad()\n",
    "a test that is called": MODULUS.replace("(number + 1) % 2 == 0", "due(number % 2)").replace(
        "for epoch", "def due(number):\n    return number == 1\n\n\nfor epoch"
    ),
    "a second loop steps each time": MODULUS + MODULUS.replace("if (number + 1) % 2 == 0", "if True"),
    "turns that end early": TURNS.replace("turns)", "2)").replace(
        "        loss.backward()\n", "        loss.backward()\n        if turn > step:\n            break\n"
    ),
    "a backward pass in some turns": MODULUS.replace(
        "        loss.backward()", "        if number > 1:\n            loss.backward()"
    ),
}  # fmt: skip


@pytest.mark.parametrize("loop", NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_averaged_each_time_where_the_last_one_is_not_known(loop: str) -> None:
    assert flags(script(loop=loop)) == []


def test_says_that_it_is_slower() -> None:
    (advice,) = findings("ACCUM01", script(loop=NOT_KNOWN["what is left over"]), Level.ADVICE)
    assert "which is right" in advice.message


def test_parts_that_some_turns_leave_unused_are_averaged_each_time() -> None:
    """DistributedDataParallel leaves alone what no rank used in the last turn, and an earlier one may have."""
    net = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 1)
        self.other = nn.Linear(4, 1)

    def forward(self, x, number):
        return self.one(x) if number % 2 else self.one(x) + self.other(x)


model = Net()
"""
    after = converted(script(model=net, loop=MODULUS.replace("model(x)", "model(x, number)")))
    assert "find_unused_parameters=True" in after
    assert FLAG not in after


def test_without_accumulation() -> None:
    assert changes("ACCUM01", script()) == []
    (found,) = findings("ACCUM01", script(imports=IMPORTS), Level.NOT_NEEDED)
    assert found.message == "each backward pass is followed by a step"


def test_a_step_that_is_passed_over() -> None:
    """Nothing may say that a step follows where the turn goes on without one."""
    loop = LOOP.replace(
        "        optimizer.step()\n", "        if len(x) < 8:\n            continue\n        optimizer.step()\n"
    )
    assert loop != LOOP
    (found,) = findings("ACCUM01", script(loop=loop), Level.NOT_NEEDED)
    assert found.message == "gradients are averaged before each step, whatever was added up"


NO_SYNC = (
    "gradients are averaged after each backward pass, which is right; under `model.no_sync()` for all but the last "
    "before a step it would be faster"
)
JUDGE = """\
model = nn.Linear(4, 4)
judge = nn.Linear(4, 1)
"""
JUDGES = """\
other = torch.optim.SGD(judge.parameters(), lr=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
CRITIC = """\
for number, (x, y) in enumerate(loader):
    other.zero_grad()
    loss = judge(model(x).detach()).mean() - judge(x).mean()
    loss.backward()
    other.step()
    if number % 5 == 0:
        optimizer.zero_grad()
        second = -judge(model(x)).mean()
        second.backward()
        optimizer.step()
"""


def slower(loop: str) -> list[str]:
    before = script(model=JUDGE, optimizer=JUDGES, loop=loop)
    return [one.message for one in findings("ACCUM01", before, Level.ADVICE)]


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(CRITIC, id="set to zero before its own backward pass"),
        pytest.param(CRITIC.replace("        optimizer.zero", "        model.zero"), id="by the model"),
    ],
)
def test_a_step_with_a_backward_pass_of_its_own_adds_nothing_up(loop: str) -> None:
    assert slower(loop) == []


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(CRITIC.replace("        optimizer.zero_grad()\n", "") + "        optimizer.zero_grad()\n",
                     id="set to zero behind the step"),
        pytest.param(CRITIC.replace("        optimizer.zero", "        other.zero"), id="another's are set to zero"),
    ],
)  # fmt: skip
def test_a_step_on_what_was_added_up_before(loop: str) -> None:
    assert slower(loop) == [NO_SYNC]
