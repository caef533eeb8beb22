"""SHARE01: in a run that is resumed, another model may stand for the name that training calls."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import LOOP, conversion_of, indented, script

NET = """
import sys


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x)


"""
BUILT = "    model = Net()\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
READ = """\
    found = torch.load(sys.argv[1], weights_only=False)
    model = found['net']
    optimizer = found['steps']
"""
KEPT = "torch.save({'net': model, 'steps': optimizer}, 'last.pt')\n"


def lines_of(model: str, loop: str = LOOP, after: str = "") -> list[str]:
    text = script(model=NET + model, optimizer="", loop=loop, after=after)
    (new,) = conversion_of(text, options=Options(strategy="shared")).files
    return [line for line in new.after.decode().splitlines() if "rt.data_parallel(" in line]


@pytest.mark.parametrize(
    "model",
    [
        f"if sys.argv[1:]:\n{READ}else:\n{BUILT}",
        f"if not sys.argv[1:]:\n{BUILT}else:\n{READ}",
        f"def start():\n    if sys.argv[1:]:\n{indented(READ)}        return model, optimizer\n{BUILT}"
        "    return model, optimizer\n\n\nmodel, optimizer = start()\n",
    ],
)
def test_whichever_it_is_is_shared(model: str) -> None:
    """A line in the arm that builds it would leave the other one to be computed whole by every rank."""
    lines = lines_of(model, after=KEPT)
    assert "rt.data_parallel(model)" in lines
    assert not any(line.startswith("    ") and "model" in line for line in lines)


@pytest.mark.parametrize(
    ("model", "loop", "lines"),
    [
        (f"if True:\n{BUILT}", LOOP, ["rt.data_parallel(model)"]),
        (
            f"{BUILT.replace('    ', '')}other = Net().eval()\n",
            f"{LOOP}print(other(x))\n",
            ["rt.data_parallel(model)"],
        ),
        (
            f"{BUILT.replace('    ', '')}shape = lambda out: out\n",
            LOOP.replace("model(x)", "(model if epoch else shape)(x)"),
            ["rt.data_parallel(model)"],
        ),
    ],
)
def test_one_line_for_one_model(model: str, loop: str, lines: list[str]) -> None:
    assert lines_of(model, loop) == lines
