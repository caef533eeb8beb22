"""Parts of torchvision and timm that are given batches: losses, what mixes samples, and parts of models."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Outcome

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, script

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


OF_PICTURES = (
    "import kornia\nimport pytorch_msssim\nfrom kornia.losses import SSIMLoss\nfrom pytorch_msssim import SSIM, ssim\n"
)


def _compared(loss: str, setup: str = "") -> str:
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", loss)
    return converted(script(imports=IMPORTS + OF_PICTURES, setup=setup, loop=loop), AUTO)


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        ("", "1 - ssim(model(x), y, data_range=1, size_average=True)"),
        ("", "1 - pytorch_msssim.ms_ssim(model(x), y)"),
        ("", "1 - ssim(model(x), y, size_average=False).mean()"),
        ("", "kornia.losses.ssim_loss(model(x), y, 5)"),
        ("criterion = SSIM(1.0, size_average=False)", "1 - criterion(model(x), y).mean()"),
        ("criterion = SSIMLoss(5)", "criterion(model(x), y)"),
    ],
)
def test_how_alike_pictures_are_is_a_mean_over_them(made: str, loss: str) -> None:
    new = _compared(loss, f"{made}\n")
    assert "DistributedDataParallel(" in new
    assert "gather_samples" not in new
    assert "rt.sum_over_ranks" not in new


@pytest.mark.parametrize(
    "loss",
    [
        "1 - ssim(model(x), y, size_average=False).min()",
        "1 - ssim(model(x), y, size_average=averages).mean()",
        "kornia.losses.ssim_loss(model(x), y, 5, reduction='sum') / 8",
        "kornia.losses.psnr_loss(model(x), y, 1.0)",
    ],
)
def test_what_else_is_made_of_pictures_is_none(loss: str) -> None:
    new = _compared(loss, "averages = bool(len(data) % 2)\n")
    assert any(word in new for word in ("gather_samples", "rt.data_parallel(model)", "rt.world_size()"))


@pytest.mark.parametrize("made", ["timm.data.Mixup(num_classes=3)", "timm.data.mixup.Mixup(mixup_alpha=0.2)"])
@pytest.mark.parametrize("loss", ["timm.loss.SoftTargetCrossEntropy()", "nn.CrossEntropyLoss()"])
def test_samples_that_are_mixed_with_each_other_are_of_the_whole_batch(made: str, loss: str) -> None:
    setup = f"mix = {made}\ncriterion = {loss}\n"
    new = _trained(setup, "criterion(model(x), y)", "        x, y = mix(x, y)\n")
    assert "rt.data_parallel(model)" in new


NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = <made>
        self.pool = self.body.maxpool

    def forward(self, x):
        return <called>


"""
BODY = "torchvision.models.resnet18(num_classes=1)"


def _of_parts(called: str, made: str = BODY, loop: str = LOOP) -> str:
    setup = NET.replace("<made>", made).replace("<called>", called)
    return script(
        imports=f"{IMPORTS}import timm\nimport torchvision\n", setup=setup, model="model = Net()\n", loop=loop
    )


@pytest.mark.parametrize(
    ("called", "made"),
    [
        ("self.body.fc(self.body.avgpool(self.body.layer1(self.pool(self.body.conv1(x)))).flatten(1))", BODY),
        ("self.body.classifier(self.body.features(x).flatten(1))", "torchvision.models.vgg11(num_classes=1)"),
        ("self.body.forward_head(self.body.forward_features(x))", "timm.create_model('resnet18', num_classes=1)"),
    ],
)
def test_parts_of_models_take_each_sample_by_itself(called: str, made: str) -> None:
    assert "model = DistributedDataParallel(" in converted(_of_parts(called, made), AUTO)


@pytest.mark.parametrize(
    ("called", "made"),
    [
        ("self.body.something(x)", BODY),
        ("self.body.layer1(x)", "unknown.models.resnet18(num_classes=1)"),
        ("self.body.layer1(x)", "torch.hub.load('a/b', 'resnet18')"),
        ("self.body.backbone(x)", "torchvision.models.detection.fasterrcnn_resnet50_fpn()"),
        ("self.body.fc(x.mean(0, keepdim=True)) + self.body.fc(x)", BODY),
    ],
)
def test_other_parts_are_not_known(called: str, made: str) -> None:
    assert "DistributedDataParallel" not in converted(_of_parts(called, made), AUTO)


@pytest.mark.parametrize(
    ("called", "unused"),
    [
        ("self.body(x)", False),
        ("self.body.forward(x)", False),
        ("torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False)", False),
        ("self.body.layer1(self.pool(x))", True),
        ("self.body.fc(x) + nn.functional.relu(x)", True),
    ],
)
def test_what_is_called_in_parts_may_leave_others_without_gradients(called: str, unused: bool) -> None:
    """DistributedDataParallel would wait for them, and average none that share a bucket with them."""
    before = _of_parts(f"self.own({called})")
    new = converted(before.replace("    self.pool = ", "    self.own = nn.Linear(1, 1)\n        self.pool = "), AUTO)
    assert "model = DistributedDataParallel(" in new
    assert ("find_unused_parameters=True" in new) is unused


def test_parts_that_are_called_past_the_model() -> None:
    """Only gradients of its own forward would be averaged."""
    before = _of_parts("self.body(x)", loop=LOOP.replace("model(x)", "model.body.fc(x)"))
    assert conversion_of(before, options=AUTO).outcome is Outcome.REFUSED
