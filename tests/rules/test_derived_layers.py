"""Classes derived from layers and losses of torch: what `super().forward` does to a batch is what the base does."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, script

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class Related(nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x.t(), 1) @ x


class Residual(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return x + self.layer(x)


class Block(nn.Sequential):
    def __init__(self, size):
        {made}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = Block(4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.block(x))


loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(2, (64,))), batch_size=16, shuffle=True)
model, criterion = Net(), nn.CrossEntropyLoss()
{loss}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch)
"""


@pytest.mark.parametrize(
    "made",
    [
        "super().__init__(nn.Linear(size, size), nn.ReLU())",
        "layers = [nn.Linear(size, size)]; layers.append(nn.Dropout(0.1)); super().__init__(*layers)",
    ],
)
def test_layers_of_the_library(made: str) -> None:
    conversion = conversion_of(SCRIPT.format(made=made, loss=""), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert not [one for one in conversion.of(Level.ADVICE) if one.code != "BATCH01"]


@pytest.mark.parametrize(
    "made",
    [
        "super().__init__(nn.Linear(size, size), Related())",
        "super().__init__(*[nn.Linear(size, size), Related()])",
        "super().__init__(); self.append(Related())",
        "super().__init__(nn.ReLU()); self.append(Related())",
        "super().__init__(nn.ReLU()); self.more = Related()",
        "super().__init__(Residual(nn.ReLU()), Residual(Related()))",
    ],
)
def test_layers_that_relate_samples_and_layers_that_come_later(made: str) -> None:
    conversion = conversion_of(SCRIPT.format(made=made, loss=""), options=Options())
    assert conversion.strategy is Strategy.SHARED


LOSS = """
class Loss(nn.CrossEntropyLoss):
    def __init__(self, *args, **options):
        super().__init__({given})

    def forward(self, out, y):
        return super().forward(2 * out, y){after}


criterion = Loss()
"""


@pytest.mark.parametrize(
    ("given", "after", "becomes"),
    [
        ("", "", "loss.backward()"),
        ("label_smoothing=0.1", "", "loss.backward()"),
        ("reduction='sum'", "", "(loss * rt.world_size()).backward()"),
        ("reduction='none'", ".mean()", "loss.backward()"),
    ],
)
def test_a_loss_that_asks_its_base(given: str, after: str, becomes: str) -> None:
    text = SCRIPT.format(made="super().__init__(nn.ReLU())", loss=LOSS.format(given=given, after=after))
    conversion = conversion_of(text, options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert f"        {becomes}\n" in conversion.files[0].after.decode()


def test_a_loss_whose_base_weighs_samples() -> None:
    loss = LOSS.format(given="weight=torch.tensor([1.0, 2.0])", after="")
    conversion = conversion_of(SCRIPT.format(made="super().__init__(nn.ReLU())", loss=loss), options=Options())
    assert conversion.strategy is Strategy.SHARED


def test_a_layer_that_asks_its_base() -> None:
    layer = (
        "class Wide(nn.LayerNorm):\n    def forward(self, x):\n        return super().forward(x.float()).type_as(x)\n"
    )
    text = SCRIPT.format(made="super().__init__(nn.ReLU(), Wide(4))", loss="").replace(
        "class Block", f"{layer}\n\nclass Block"
    )
    assert conversion_of(text, options=Options()).strategy is Strategy.SHARDED


def test_a_layer_that_takes_a_mean_over_samples() -> None:
    conversion = conversion_of(SCRIPT.format(made="super().__init__(nn.ReLU(), Centred())", loss=""), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert b"return x - rt.mean_over_ranks(x.mean(0))" in conversion.files[0].after


@pytest.mark.parametrize("call", ["model(x)", "model.forward(x)"])
def test_a_model_whose_base_nobody_has_seen(call: str) -> None:
    """Its `forward` is called as a function, or by its name: it is shared either way."""
    model = "class Net(Base):\n    def forward(self, x):\n        return self.run(x)\n\n\nmodel = Net(4)\n"
    before = script(
        imports=IMPORTS + "from flows import Base\n", model=model, loop=LOOP.replace("model(x)", call)
    )  # fmt: skip
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert b"rt.data_parallel(model)" in conversion.files[0].after


def test_a_plain_object_with_a_forward_is_no_model() -> None:
    helper = "class Scaled:\n    def forward(self, x):\n        return x * 2\n\n\nscaled = Scaled()\n"
    text = converted(script(setup=helper, loop=LOOP.replace("model(x)", "model(scaled.forward(x))")))
    assert "DistributedDataParallel(model" in text
