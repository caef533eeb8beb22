"""A model computes all there is, and takes what a batch asks for: right on N ranks, and no faster, which is said."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import BY_SHARDING, IMPORTS, conversion_of, script

MODEL = """\
class Nodes(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
        self.table = nn.Parameter(torch.zeros(200, 1))

    def forward(self, index):
        {}

model = Nodes()
"""
DATA = """\
features, labels = torch.randn(200, 16), torch.rand(200, 1)
data = TensorDataset(torch.arange(200), labels)
"""
ALL_AND_SOME = {
    "in one line": "return torch.sigmoid(self.net(features))[index]",
    "by a name": "every = self.net(features)\n        return every[index, :]",
    "index_select": "return self.net(features).index_select(0, index)",
    "torch.index_select": "return torch.index_select(self.net(features), 0, index)",
    "gather": "return torch.gather(self.net(features), 0, index[:, None])",
    "by numbers of all": "return self.net(features * self.table)[index] + self.net(features[index])",
}
ITS_OWN = {
    "the samples first": "return self.net(features[index])",
    "a parameter": "return self.table[index] + self.net(features[index])",
    "a part of it": "return self.net(features[index])[:, :1] + self.net(features[:3])[0]",
    "as many as there are samples": "return self.net(features[index]) + self.net(features)[len(index)]",
    "of the samples' own": "return self.net(features[index])[torch.argsort(index)]",
    "what nobody trains": "return self.net(features.tanh()[index])",
}


def said(forward: str, strategy: str) -> list[str]:
    before = script(IMPORTS, data=DATA, model=MODEL.format(forward))
    found = conversion_of(before, options=BY_SHARDING, strategy=strategy).of(Level.ADVICE)
    return [one.message for one in found if one.message.startswith("every rank computes all of")]


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
@pytest.mark.parametrize("case", ALL_AND_SOME)
def test_what_all_ranks_compute_entirely_is_said_once(case: str, strategy: str) -> None:
    (message,) = said(ALL_AND_SOME[case], strategy)
    assert message.startswith("every rank computes all of `self.net(features")
    assert message.endswith("this part of training gets no faster with more ranks")


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
@pytest.mark.parametrize("case", ITS_OWN)
def test_nothing_is_said_of_what_is_computed_for_the_samples(case: str, strategy: str) -> None:
    assert said(ITS_OWN[case], strategy) == []
