"""Models of libraries, of which a step may leave parameters without gradients: DistributedDataParallel is told."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS as PLAIN_IMPORTS
from tests.rules.scripts import conversion_of, converted, findings, script

HEAD = """\
import torch
import torchvision
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizer, ViTModel
import timm
import segmentation_models_pytorch as smp

data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
loader = DataLoader(data, batch_size=8, shuffle=True)
"""
PART = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = {made}
        self.out = nn.Linear(8, 2)
        {more}

    def forward(self, x):
        return self.out({taken})


model = Net()
"""
STEPS = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        {step}
        optimizer.step()
"""
PLAIN = "F.cross_entropy(model(x), y).backward()"
TOLD = "find_unused_parameters=True"


def part(made: str, taken: str, more: str = "pass") -> str:
    return HEAD + PART.format(made=made, taken=taken, more=more) + STEPS.format(step=PLAIN)


def whole(made: str, step: str) -> str:
    return f"{HEAD}model = {made}\n{STEPS.format(step=step)}"


@pytest.mark.parametrize(
    ("made", "taken"),
    [
        ('ViTModel.from_pretrained("a")', "self.body(pixel_values=x).last_hidden_state[:, 0]"),
        ("BertModel(BertConfig())", "self.body(x)[0].mean(1)"),
        ("BertModel(BertConfig())", 'self.body(x)["last_hidden_state"].mean(1)'),
        ('BertForSequenceClassification.from_pretrained("a")', "self.body(x).hidden_states[-1].mean(1)"),
        ('timm.create_model("resnet18")', "self.body.forward_features(x).mean((2, 3))"),
        ('timm.create_model("resnet18", features_only=True)', "self.body(x)[2].mean((2, 3))"),
        ("torchvision.models.resnet18()", "self.body.layer1(x).mean((2, 3))"),
        ('torch.hub.load("facebookresearch/dinov2", "dinov2_vits14")', "self.body(x)"),
        ('smp.Unet("resnet18", encoder_depth=3, classes=8)', "self.body(x).mean((2, 3))"),
        ('smp.PSPNet("resnet18", classes=8)', "self.body(x).mean((2, 3))"),
    ],
)
def test_what_may_leave_parameters_out_is_told(made: str, taken: str) -> None:
    text = part(made, taken)
    assert TOLD in converted(text)
    [said] = [one for one in findings("MODEL01", text, Level.ADVICE) if "without gradients" in one.message]
    assert "`self.body` is a library's" in said.message


@pytest.mark.parametrize(
    ("made", "taken"),
    [
        ('ViTModel.from_pretrained("a")', "self.body(pixel_values=x).pooler_output"),
        ('BertModel.from_pretrained("a", add_pooling_layer=False)', "self.body(x).last_hidden_state[:, 0]"),
        ('BertForSequenceClassification.from_pretrained("a")', "self.body(x).logits"),
        ('timm.create_model("resnet18", num_classes=8)', "self.body(x)"),
        ('timm.create_model("resnet18", num_classes=8)', "self.body(x).view(x.shape[0], -1)[:, :8]"),
        ("torchvision.models.resnet18(num_classes=8)", "torch.relu(self.body(x))"),
        ("nn.LSTM(4, 8, batch_first=True)", "self.body(x[:, None])[0][:, 0]"),
        ("nn.Linear(4, 8)", "self.body(x)"),
    ],
)
def test_what_needs_all_is_wrapped_as_it_is(made: str, taken: str) -> None:
    assert TOLD not in converted(part(made, taken))


def test_what_is_asked_of_a_model_without_gradients_is_no_use_of_it() -> None:
    used = "self.body(x)"
    more = 'self.tokens = BertTokenizer.from_pretrained("a")'
    text = part('timm.create_model("resnet18", num_classes=8)', used, more).replace(
        "        return self", "        self.tokens.decode(x[0])\n        return self"
    )
    assert TOLD not in converted(text)


@pytest.mark.parametrize(
    "frozen",
    ["self.body.requires_grad_(False)", "for one in self.body.parameters():\n            one.requires_grad = False"],
)
def test_what_is_frozen_needs_no_gradients(frozen: str) -> None:
    taken = "self.body(pixel_values=x).last_hidden_state[:, 0]"
    assert TOLD not in converted(part('ViTModel.from_pretrained("a")', taken, frozen))


def test_of_several_results_one_may_leave_the_rest_out() -> None:
    made = 'torchvision.models.segmentation.deeplabv3_resnet50(weights="DEFAULT")'
    assert TOLD in converted(whole(made, 'F.cross_entropy(model(x)["out"], y).backward()'))
    assert TOLD not in converted(whole("torchvision.models.resnet18()", PLAIN))


@pytest.mark.parametrize(
    "made",
    [
        "models.resnet18() if sys.argv[1:] else models.vgg11()",
        "{'small': models.resnet18, 'large': models.vgg11}[sys.argv[1]]()",
        "getattr(models, sys.argv[1])(num_classes=2)",
        "models.__dict__[sys.argv[1]](num_classes=2)",
    ],
)
def test_one_of_several_of_torchvision_needs_all_of_its_parameters(made: str) -> None:
    before = script(imports=f"import sys\nimport torchvision.models as models\n{PLAIN_IMPORTS}")
    after = converted(before.replace("nn.Linear(4, 1)", made))
    assert f"model = {made}\n" in after
    assert TOLD not in after


@pytest.mark.parametrize(
    ("put", "used"),
    [
        ("self.body.conv1 = nn.Conv2d(3, 64, 3)", True),
        ("self.body.conv1, self.body.fc = nn.Conv2d(3, 64, 3), nn.Linear(512, 8)", True),
        ("body = self.body\n        body.fc = nn.Sequential(nn.Linear(512, 8), nn.ReLU())", True),
        ("self.other = nn.Linear(4, 4)", False),  # it holds one, which nothing calls
        ("self.out.other = nn.Linear(4, 4)", False),  # torch's own layers call what they were made with
        ("self.spare = torchvision.models.resnet18()\n        self.spare.conv1 = nn.Conv2d(3, 64, 3)", False),
    ],
)
def test_what_a_model_of_a_library_is_given_to_hold_is_called_by_it(put: str, used: bool) -> None:
    before = part("torchvision.models.resnet18(num_classes=8)", "torch.relu(self.body(x))", put)
    assert (TOLD not in converted(before)) is used


OF_THE_SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from {library} import {base}


class Net({bases}):
    def __init__(self, {given}):
        super().__init__({passed})
        print("made")
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x)


loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(2, (64,))), batch_size=8, shuffle=True)
model = {made}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("library", "base", "bases", "given", "passed", "made"),
    [
        ("transformers", "PreTrainedModel", "PreTrainedModel", "config", "config", 'Net.from_pretrained("here")'),
        ("transformers", "BertPreTrainedModel", "BertPreTrainedModel", "config, size=2", "config",
         'eval("Net").from_pretrained("here", size=3)'),
        ("huggingface_hub", "PyTorchModelHubMixin", "nn.Module, PyTorchModelHubMixin", "size=2", "",
         'Net.from_pretrained("here")'),
    ],
)  # fmt: skip
def test_a_class_of_the_script_that_is_made_with_weights_that_were_saved(
    library: str, base: str, bases: str, given: str, passed: str, made: str
) -> None:
    before = OF_THE_SCRIPT.format(library=library, base=base, bases=bases, given=given, passed=passed, made=made)
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARDED
    after = conversion.files[0].after.decode()
    assert f"model = {made}\n" in after
    assert "DistributedDataParallel(model" in after


def test_of_a_class_that_is_not_seen_to_have_it_nothing_is_taken_for_granted() -> None:
    before = OF_THE_SCRIPT.format(
        library="somewhere", base="Base", bases="Base", given="config", passed="config", made='Net.from_pretrained("x")'
    )
    assert conversion_of(before, options=Options()).strategy is not Strategy.SHARDED
