"""Functions that TorchScript compiles stay as they are: it takes no call of the runtime in them."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import LOOP, conversion_of, converted, indented, script

BODY = """\
spread = torch.std(data, dim=0)
return torch.maximum(spread, torch.tensor(1e-6, device=spread.device))
"""
READ = 'import numpy as np\nx = torch.from_numpy(np.load("d.npz")["x"])\n'
DATA = "data = TensorDataset(x / scale(x), torch.randn(64, 1))\n"
PLAIN = f"def scale(data: torch.Tensor) -> torch.Tensor:\n{indented(BODY)}\n"
DRAWN = """\
def drawn(x: torch.Tensor) -> torch.Tensor:
    return x + torch.randn(1)
"""


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(f"@torch.jit.script\n{PLAIN}", id="a decorator"),
        pytest.param(f"{PLAIN}scale = torch.jit.script(scale)\n", id="a call"),
        pytest.param(f"from torch import jit\n@jit.script\n{PLAIN}", id="by another name"),
        pytest.param(
            f"{PLAIN.replace('scale', 'inner')}\n@torch.jit.script\ndef scale(data: torch.Tensor):\n"
            "    return inner(data)\n",
            id="called by one",
        ),
    ],
)
def test_no_device_is_renamed_in_them(made: str) -> None:
    after = converted(script(setup=made + READ, data=DATA))
    assert indented(BODY) in after


def test_elsewhere_it_is() -> None:
    assert "device=rt.device_kind(spread.device)" in converted(script(setup=PLAIN + READ, data=DATA))


@pytest.mark.parametrize(("decorator", "needed"), [("@torch.jit.script\n", True), ("@torch.compile\n", False)])
def test_what_has_to_be_written_into_them_needs_a_person(decorator: str, needed: bool) -> None:
    loop = LOOP.replace("model(x)", "model(drawn(x))")
    made = conversion_of(script(setup=f"{decorator}{DRAWN}", loop=loop), options=Options(strategy="sharded"))
    said = [one.message for one in made.of(Level.BLOCKING)]
    wanted = "TorchScript compiles this function, and takes none of what the conversion writes into it"
    assert said == [wanted] * needed
