"""Parts of timm that are given batches: losses, and what mixes samples."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import IMPORTS, LOOP, converted, script

AUTO = Options()
CLASSES = "data = TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))\n"


def _trained(setup: str, loss: str, mixed: str = "") -> str:
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", loss).replace("        loss =", f"{mixed}        loss =")
    return converted(script(imports=f"{IMPORTS}import timm.data\nimport timm.loss\n", setup=setup, data=CLASSES,
                            model="model = nn.Linear(4, 3)\n", loop=loop), AUTO)  # fmt: skip


@pytest.mark.parametrize(
    "made",
    [
        "timm.loss.LabelSmoothingCrossEntropy(0.1)",
        "timm.loss.LabelSmoothingCrossEntropy(smoothing=0.1)",
        "timm.loss.SoftTargetCrossEntropy()",
        "timm.loss.cross_entropy.SoftTargetCrossEntropy()",
        "timm.loss.BinaryCrossEntropy(smoothing=0.1)",
    ],
)
def test_losses_of_timm_are_means_over_samples(made: str) -> None:
    new = _trained(f"criterion = {made}\n", "criterion(model(x), y)")
    assert "model = DistributedDataParallel(" in new
    assert "gather_samples" not in new
    assert "convert_sync_batchnorm" not in new, "a loss is no model"


@pytest.mark.parametrize(
    "made", ["timm.loss.AsymmetricLossMultiLabel()", "timm.loss.BinaryCrossEntropy(reduction='sum')"]
)
def test_other_losses_are_no_means(made: str) -> None:
    new = _trained(f"criterion = {made}\n", "criterion(model(x), y)")
    assert any(word in new for word in ("gather_samples", "rt.data_parallel(model)", "rt.world_size()"))


@pytest.mark.parametrize("made", ["timm.data.Mixup(num_classes=3)", "timm.data.mixup.Mixup(mixup_alpha=0.2)"])
@pytest.mark.parametrize("loss", ["timm.loss.SoftTargetCrossEntropy()", "nn.CrossEntropyLoss()"])
def test_samples_that_are_mixed_with_each_other_are_of_the_whole_batch(made: str, loss: str) -> None:
    setup = f"mix = {made}\ncriterion = {loss}\n"
    new = _trained(setup, "criterion(model(x), y)", "        x, y = mix(x, y)\n")
    assert "rt.data_parallel(model)" in new
