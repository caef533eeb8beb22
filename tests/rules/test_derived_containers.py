"""Modules whose class is derived from a list of modules: what it was given is what its forward pass calls."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import IMPORTS, conversion_of, converted, script

CLASSES = """\
class Joiner(nn.Sequential):
    def __init__(self, one, two):
        super().__init__(one, two)

    def forward(self, x):
        return self[1](self[0](x))


class Walk(nn.Sequential):
    def forward(self, x):
        for layer in self:
            x = layer(x)
        return x


class Stack(nn.ModuleList):
    def forward(self, x):
        for layer in self:
            x = layer(x)
        return x


class Grown(nn.ModuleList):
    def __init__(self, *layers):
        super().__init__()
        for layer in layers:
            self.append(layer)

    def forward(self, x):
        for number in range(len(self)):
            x = self[number](x)
        return x


class Heads(nn.ModuleDict):
    def forward(self, x):
        return sum(self[name](x) for name in self)


class Named(nn.ModuleDict):
    def forward(self, x):
        for name, layer in self.items():
            x = layer(x)
        return x


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


"""


def training(made: str) -> str:
    return script(imports=f"{IMPORTS}\n\n{CLASSES}", model=f"model = {made}\n")


EACH = [
    "Joiner({0}, {1})",
    "Walk({0}, {1})",
    "Stack([{0}, {1}])",
    "Grown({0}, {1})",
    'Named({{"one": {0}, "two": {1}}})',
    'Heads({{"one": nn.Sequential({0}, {1}), "two": {1}}})',
]


@pytest.mark.parametrize("made", EACH)
def test_layers_that_are_known(made: str) -> None:
    before = training(made.format("nn.Linear(4, 4)", "nn.Linear(4, 1)"))
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED
    assert "convert_sync_batchnorm" not in converted(before)


@pytest.mark.parametrize("made", EACH)
def test_a_copy_has_what_the_layer_has(made: str) -> None:
    layers = made.format("nn.Linear(4, 4)", "nn.Linear(4, 1)")
    before = training(f"copy.deepcopy({{'net': {layers}}}['net'])").replace(
        "import torch\n", "import copy\nimport torch\n"
    )
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED


@pytest.mark.parametrize("made", EACH)
def test_a_batch_norm_among_them(made: str) -> None:
    assert "model = rt.convert_sync_batchnorm(model)\n" in converted(
        training(made.format("nn.BatchNorm1d(4)", "nn.Linear(4, 1)"))
    )


@pytest.mark.parametrize("made", EACH)
def test_one_that_looks_at_a_batch_as_a_whole(made: str) -> None:
    after = converted(training(made.format("Centred()", "nn.Linear(4, 1)")), Options())
    assert "x - rt.mean_over_ranks(x.mean(0))" in after or "rt.data_parallel(model)" in after
