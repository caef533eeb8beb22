"""MODEL01, SHARE01: a model that is made in one arm of a branch, and has no name in a run that takes the other."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import converted, script

TWO = """\
import sys
kind = sys.argv[1]
if kind == "a":
    body = nn.Linear(4, 4)
    one = nn.Linear(4, 1)
else:
    body = nn.Linear(4, 4)
    two = nn.Linear(4, 1, bias=False)
"""
OPTIMIZER = """\
parts = [*body.parameters(), *(one if kind == "a" else two).parameters()]
optimizer = torch.optim.SGD(parts, lr=0.1)
"""
LOOP = """\
for x, y in loader:
    if kind == "a":
        loss = nn.functional.mse_loss(one(body(x)), y)
    else:
        loss = nn.functional.mse_loss(two(body(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WRAPPED = "{0} = DistributedDataParallel({0}, device_ids=rt.device_ids({0}))"


def lines_with(name: str, after: str) -> list[tuple[int, str]]:
    """What a conversion does with a model: how far in each line stands, and the line."""
    found = [line for line in after.splitlines() if f"({name}" in line and "rt." in line]
    return [(len(line) - len(line.lstrip()), line.strip()) for line in found]


@pytest.mark.parametrize(
    ("strategy", "line"), [("sharded", WRAPPED), ("shared", "rt.data_parallel({0})")], ids=["sharded", "shared"]
)
def test_what_one_arm_makes_is_wrapped_there(strategy: str, line: str) -> None:
    before = script(model=TWO, optimizer=OPTIMIZER, loop=LOOP)
    after = converted(before, Options(strategy=strategy))  # type: ignore[arg-type]
    assert lines_with("one", after) == [(4, line.format("one"))]
    assert lines_with("two", after) == [(4, line.format("two"))]
    assert lines_with("body", after) == [(0, line.format("body"))]


@pytest.mark.parametrize(
    "model",
    [
        'if len(str(data)) > 3:\n    model = nn.Linear(4, 1)\nelse:\n    raise SystemExit("no")\n',
        "if len(str(data)) > 3:\n    model = nn.Linear(4, 1)\n",  # without it, the script fails as it is
        "if len(str(data)) > 3:\n    model = nn.Linear(4, 1)\nelif data:\n    model = nn.Linear(4, 1, bias=False)\n"
        'model.to("cpu")\n',
        "model = nn.Linear(4, 1)\nif len(str(data)) > 3:\n    model = nn.Linear(4, 1, bias=False)\n",
    ],
)
def test_what_training_has_in_each_run_is_wrapped_behind_the_branch(model: str) -> None:
    assert lines_with("model", converted(script(model=model))) == [(0, WRAPPED.format("model"))]


EITHER = """\
import sys
kind = sys.argv[1]
if kind == "a":
    first = nn.Linear(4, 1)
    model = first
else:
    second = nn.Linear(4, 1, bias=False)
    model = second
if len(sys.argv) > 2:
    if kind == "a":
        first.load_state_dict(torch.load(sys.argv[2]))
    else:
        second.load_state_dict(torch.load(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("strategy", "line"), [("sharded", WRAPPED), ("shared", "rt.data_parallel({0})")], ids=["sharded", "shared"]
)
def test_of_two_names_that_is_wrapped_which_each_run_has(strategy: str, line: str) -> None:
    after = converted(script(model=EITHER), Options(strategy=strategy))  # type: ignore[arg-type]
    found = [lines_with(name, after) for name in ("first", "second", "model")]
    assert found == [[], [], [(0, line.format("model"))]]


ONLY_SOME = """\
def train(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if len(sys.argv) > 1:
    model.double()
    train(model)
else:
    print(len(data))
"""


def test_a_model_that_only_some_runs_train_is_wrapped_where_they_do() -> None:
    model = "import sys\nif len(sys.argv) > 1:\n    model = nn.Linear(4, 1)\nprint(len(data))\n"
    after = converted(script(model=model, optimizer="", loop=ONLY_SOME))
    assert lines_with("model", after) == []
    assert lines_with("net", after) == [(4, WRAPPED.format("net"))]
