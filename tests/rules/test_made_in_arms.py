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


KEPT = """\
import sys


class Training:
    def __init__(self, kind, device="cpu"):
{made}{rest}
    def train(self):
        for x, y in loader:
            loss = nn.functional.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Training(sys.argv[1]).train()
"""
OPTIMIZED = "self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)"
LINE = WRAPPED.format("self.net")
IFS = """\
if kind == "a":
    self.net = nn.Linear(4, 1)
if kind == "b":
    self.net = nn.Linear(4, 1, bias=False)
"""
ELSE = IFS.replace('if kind == "b":', "else:")
ELIF = IFS.replace('\nif kind == "b":', '\nelif kind == "b":')
ATTEMPT = """\
try:
    self.net = nn.Linear(4, int(kind))
except ValueError:
    self.net = nn.Linear(4, 1)
"""
MATCH = """\
match kind:
    case "a":
        self.net = nn.Linear(4, 1)
    case _:
        self.net = nn.Linear(4, 1, bias=False)
"""
ONE_LATER = """\
self.net = nn.Linear(4, 1)
if kind == "b":
    self.net = nn.Linear(4, 1, bias=False)
"""
MOVED = ELSE + "self.net.to(device)\n"


def kept(made: str, rest: str = OPTIMIZED) -> str:
    lines = [line and f"        {line}" for line in (made + rest).splitlines()]
    return script(model="", optimizer="", loop=KEPT.format(made="\n".join(lines), rest="\n"))


@pytest.mark.parametrize(
    "made",
    [
        IFS, ELSE, ELIF, ATTEMPT, MATCH, ONE_LATER, MOVED, "self.net = None\n" + IFS,
        ELIF + "else:\n    raise ValueError(kind)\n", IFS.replace(":\n    ", ": "),
    ],
    ids=["ifs", "else", "elif", "try", "match", "later", "moved", "none", "raise", "one line"],
)  # fmt: skip
def test_an_attribute_is_wrapped_behind_all_places_where_it_is_made(made: str) -> None:
    found = converted(kept(made))
    assert lines_with("self.net", found) == [(8, LINE)]
    assert f"        {LINE}\n        {OPTIMIZED}\n" in found


@pytest.mark.parametrize(
    ("made", "rest"),
    [
        (ELIF, "if self.has_one():\n    " + OPTIMIZED),
        (ELIF + "else:\n    self.net = None\n", "if self.net is not None:\n    " + OPTIMIZED),
        (IFS, "if kind not in ('a', 'b'):\n    return\n" + OPTIMIZED),
    ],
    ids=["elif", "none", "returned"],
)
def test_where_a_run_may_come_by_without_one_it_is_wrapped_in_each_arm(made: str, rest: str) -> None:
    assert lines_with("self.net", converted(kept(made, rest))) == [(12, LINE), (12, LINE)]


@pytest.mark.parametrize(
    ("made", "depth"),
    [
        ("self.net = nn.Linear(4, 1)\n", 8),
        ('if kind == "a":\n    self.net = nn.Linear(4, 1)\n', 12),
        ('if kind == "a":\n    self.net = nn.Linear(4, 1)\nelse:\n    self.net = None\n', 12),
        ('self.net = nn.Linear(4, 1)\nif kind == "b":\n    self.net = nn.DataParallel(self.net)\n', 8),
    ],
)
def test_an_attribute_that_one_place_makes_is_wrapped_there(made: str, depth: int) -> None:
    rest = OPTIMIZED if depth == 8 else "if self.net is not None:\n    " + OPTIMIZED
    assert lines_with("self.net", converted(kept(made, rest))) == [(depth, LINE)]


def test_arms_that_are_taken_by_different_callers_have_one_line() -> None:
    chosen = 'trained = Training("a") if data else Training("b")\ntrained.train()'
    made = kept(ELSE).replace("Training(sys.argv[1]).train()", chosen)
    assert lines_with("self.net", converted(made)) == [(8, LINE)]
    shared = converted(made, Options(strategy="shared"))
    assert {line for _, line in lines_with("self.net", shared)} == {"rt.data_parallel(self.net)"}
