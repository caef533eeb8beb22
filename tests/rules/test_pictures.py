"""Pictures that training leaves: those of a rank's own samples would be others than those of the batch."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, script

TOOLS = f"import cv2\nimport matplotlib.pyplot as plt\nfrom torchvision.utils import save_image\n{IMPORTS}"
SAID = "keeps or shows what is made of a batch, which would be that of rank 0's samples"


def training(turn: str = "", after: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in turn.splitlines())
    ahead = "fixed, losses = torch.randn(4, 4), []\n"
    return script(imports=TOOLS, setup=ahead, loop=LOOP + lines + "".join(f"    {one}\n" for one in after.splitlines()))


@pytest.mark.parametrize(
    "lines",
    [
        'save_image(x[:4], "a.png")',
        'save_image(model(x).detach(), f"{epoch}.png", nrow=2)',
        'plt.imsave("a.png", x.numpy())',
        'cv2.imwrite("a.png", x.numpy())',
        'plt.imshow(x[0])\nplt.savefig("a.png")',
        'figure, axes = plt.subplots()\naxes.imshow(x)\nfigure.savefig("a.png")',
    ],
)
def test_of_samples(lines: str) -> None:
    """In a turn, and of the batch that is left over behind the loop."""
    for before in (training(turn=lines), training(after=lines)):
        conversion = conversion_of(before, options=Options())
        assert conversion.strategy is Strategy.SHARED
        assert any(SAID in one.message for one in conversion.of(Level.ADVICE))


@pytest.mark.parametrize(
    "lines",
    [
        'save_image(model(fixed), "a.png")',
        'plt.imsave("a.png", fixed.numpy())',
        'losses.append(loss.item())\nplt.plot(losses)\nplt.savefig("a.png")',
        'plt.title(f"{loss.item():.3f}")\nplt.savefig("a.png")',
        'plt.imshow(model.weight.detach())\nplt.savefig("a.png")',
    ],
)
def test_of_what_all_ranks_have(lines: str) -> None:
    conversion = conversion_of(training(turn=lines), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert not any(SAID in one.message for one in conversion.of(Level.ADVICE))
