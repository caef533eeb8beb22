"""SHARE01: models that training calls and does not train."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import LOOP, conversion_of, script

STEP = LOOP.replace("model(x)", "model({inside}(x))")
OWN = """
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def encode(self, x):
        return self.body(x)


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4).eval()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        with torch.no_grad():
            x = self.body(x)
        return self.out(x)


"""


def lines_and_advice(model: str, loop: str) -> tuple[list[str], list[str]]:
    text = script(model=OWN + model, loop=loop)
    conversion = conversion_of(text, options=Options(strategy="shared"))
    (new,) = conversion.files
    said = [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]
    return [one.strip() for one in new.after.decode().splitlines() if "rt.data_parallel(" in one], said


@pytest.mark.parametrize(
    ("model", "inside", "shared"),
    [
        ("eyes = nn.Linear(4, 4).eval()\nmodel = nn.Linear(4, 1)\n", "eyes", "eyes"),
        (
            "eyes = nn.Linear(4, 4)\neyes.requires_grad_(False)\neyes.train(False)\nmodel = nn.Linear(4, 1)\n",
            "eyes",
            "eyes",
        ),
        ("eyes = torch.hub.load('some/where', 'net')\neyes.eval()\nmodel = nn.Linear(4, 1)\n", "eyes", "eyes"),
        ("coder = Coder()\ncoder.eval()\nmodel = nn.Linear(4, 1)\n", "coder.encode", 'coder, methods=("encode",)'),
    ],
)
def test_models_in_evaluation_mode_are_shared(model: str, inside: str, shared: str) -> None:
    lines, said = lines_and_advice(model, STEP.format(inside=inside))
    assert f"rt.data_parallel({shared})" in lines
    assert "rt.data_parallel(model)" in lines
    assert not said


@pytest.mark.parametrize(
    ("model", "inside"),
    [
        ("eyes = nn.Linear(4, 4)\neyes.requires_grad_(False)\nmodel = nn.Linear(4, 1)\n", "eyes"),
        ("eyes = nn.Linear(4, 4).eval()\neyes.train()\nmodel = nn.Linear(4, 1)\n", "eyes"),
        ("import sys\n\neyes = nn.Linear(4, 4)\nif sys.argv[1:]:\n    eyes.eval()\nmodel = nn.Linear(4, 1)\n", "eyes"),
    ],
)
def test_others_are_said_to_be_computed_by_every_rank(model: str, inside: str) -> None:
    lines, said = lines_and_advice(model, STEP.format(inside=inside))
    assert lines == ["rt.data_parallel(model)"]
    (message,) = said
    assert "`eyes` is called in training and not trained" in message
    assert "every rank computes all of it" in message


@pytest.mark.parametrize(
    ("model", "loop"),
    [
        ("model = Whole()\n", LOOP),  # a part of the model, computed with it
        ("model = nn.Linear(4, 1)\n", LOOP.replace("nn.functional.mse_loss", "nn.MSELoss()")),
        ("grow = nn.ReLU().eval()\nmodel = nn.Linear(4, 1)\n", STEP.format(inside="grow")),  # has no parameters
        ("eyes = nn.Linear(4, 4).eval()\nmodel = nn.Linear(4, 1)\n", f"{LOOP}print(eyes(x))\n"),  # after training
        (
            "scaler = torch.amp.GradScaler('cpu')\nmodel = nn.Linear(4, 1)\n",
            LOOP.replace("loss.b", "scaler.scale(loss).b"),
        ),
        ("def eyes(x):\n    return x\n\n\nmodel = nn.Linear(4, 1)\n", STEP.format(inside="eyes")),
        # perhaps another one, which no optimizer has
        ("import sys\n\nmodel = nn.Linear(4, 1)\n", f"if sys.argv[9:]:\n    model = nn.Linear(4, 1)\n{LOOP}"),
    ],
)
def test_nothing_else_is(model: str, loop: str) -> None:
    lines, said = lines_and_advice(model, loop)
    assert lines == ["rt.data_parallel(model)"]
    assert not said


IN_BOTH_ARMS = """\
import sys


class Teacher:
    def __init__(self, width):
        self.net = nn.Linear(4, width)
        {mode}

    def score(self, x):
        return self.net(x)


if sys.argv[1:]:
    teacher = Teacher(4)
else:
    teacher = Teacher(4)
model = nn.Linear(4, 1)
"""


@pytest.mark.parametrize(
    ("mode", "seen"), [("self.net.eval()", True), ("if width > len(sys.argv):\n            self.net.eval()", False)]
)
def test_what_is_made_in_evaluation_mode_is_in_it_on_whichever_way(mode: str, seen: bool) -> None:
    _, said = lines_and_advice(IN_BOTH_ARMS.format(mode=mode), STEP.format(inside="teacher.score"))
    told = ["it is not seen to be in evaluation mode for good" in one for one in said]
    assert any(told) is not seen, said
