"""Batches of graphs have a row for each node: shared out only where one of each graph is made again before the loss."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import torch
from torch import nn
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, LayerNorm, MLP, global_add_pool, global_mean_pool
from torch_scatter import scatter_mean

loader = DataLoader(TUDataset("data", "MUTAG"), 8, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GINConv(MLP([7, 8, 8]))
        self.norm = LayerNorm(8)
        self.last = MLP([8, 8, 2], norm=None)

    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index).relu()
        rows = global_add_pool(x, batch)
        return self.last(rows)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(2):
    for data in loader:
        out = model(data.x, data.edge_index, data.batch)
        loss = nn.functional.cross_entropy(out, data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
POOL = "global_add_pool(x, batch)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (POOL, "global_mean_pool(x, batch)"),
        (POOL, "global_mean_pool(x, batch=batch)"),
        (POOL, "torch.cat([global_add_pool(x, batch), global_mean_pool(x, batch)], 1)"),
        (POOL, "scatter_mean(x, batch, dim=0)"),
        ("data.y", "data.label"),
        ("data.batch)", 'getattr(data, "batch", None))'),
        ("data.edge_index, data", 'getattr(data, "edge_index"), data'),
        ("nn.functional.cross_entropy(out, data.y)", "nn.CrossEntropyLoss()(out, data.y)"),
        ("for data in loader:\n", "for data in loader:\n        data = data.to('cpu')\n"),
        ("torch_geometric.loader import", "torch_geometric.data import"),
        ("torch_geometric.loader import", "torch_geometric.data.dataloader import"),
        ("torch_geometric.loader import", "torch_geometric.loader.dataloader import"),
    ],
)
def test_graphs_of_which_each_has_a_row(before: str, after: str) -> None:
    conversion = conversion_of(SCRIPT.replace(before, after), options=Options())
    assert conversion.strategy is Strategy.SHARDED


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (POOL, "x", "how many rows each has is not known"),  # a mean over nodes, of which each rank has another number
        (POOL, "global_add_pool(x, None)", "how many rows each has is not known"),
        (POOL, "global_add_pool(self.norm(x), batch)", "may look at the samples of a batch together"),
        ("cross_entropy(out, data.y)", "mse_loss(out.mean(), data.x.mean())", "how many rows each has is not known"),
        ("loss = ", "loss = data.y.float().mean() * out.mean() + ", "how many rows each has is not known"),
        ("loss = ", "loss = data.x.abs().mean() * out.mean() + ", "how many rows each has is not known"),
    ],
)
def test_nodes_of_all_graphs(before: str, after: str, why: str) -> None:
    conversion = conversion_of(SCRIPT.replace(before, after), options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert [why in one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"] == [True]


EVALUATION = """\
    model.eval()
    preds, labels = [], []
    with torch.no_grad():
        for data in val_loader:
            out = model(data.x, data.edge_index, data.batch)
            preds.extend(out.argmax(1).tolist())
            labels.extend(LABELS)
    print(sum(a == b for a, b in zip(preds, labels)))
"""


def evaluated(labels: str) -> str:
    script = SCRIPT.replace("\n\nclass", '\nval_loader = DataLoader(TUDataset("data", "MUTAG"), 8)\n\nclass', 1)
    script = script.replace("    for data in loader:", "    model.train()\n    for data in loader:")
    return script + EVALUATION.replace("LABELS", labels)


def test_a_batch_of_graphs_is_nothing_to_gather() -> None:
    conversion = conversion_of(evaluated("data.y.tolist()"), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert "gather_batch" not in conversion.files[0].after.decode()
    told = [one.message for one in conversion.of(Level.ADVICE) if one.code == "EVAL01"]
    assert ["`data` is made of a list of samples" in one for one in told] == [True]


def test_but_what_has_a_row_for_each_graph_is() -> None:
    conversion = conversion_of(evaluated("out.max(1).values.tolist()"), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert "out = rt.gather_batch(val_loader, out)" in conversion.files[0].after.decode()


@pytest.mark.parametrize("loss", ["(out - data.y).square().nanmean()", "(data.weights * out).nanmean()"])
def test_nor_is_one_of_training(loss: str) -> None:
    script = SCRIPT.replace(POOL, "x").replace("nn.functional.cross_entropy(out, data.y)", loss)
    conversion = conversion_of(script, options=Options())
    assert conversion.strategy is Strategy.SHARED
    told = [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]
    assert ["how many rows each has is not known" in one for one in told] == [True]


UNPACKED = SCRIPT.replace(
    "x, edge_index, batch):", "data):\n        x, edge_index, batch = data.x, data.edge_index, data.batch"
).replace("model(data.x, data.edge_index, data.batch)", "model(data)")


@pytest.mark.parametrize("layers", [1, 9])
def test_what_is_dropped_of_rows_that_were_pooled_is_of_each_graph(layers: int) -> None:
    """By however many names the rows have come from the batch."""
    steps = "        rows = nn.functional.relu(rows)\n" * layers
    before = UNPACKED.replace("        return", f"{steps}        rows = nn.functional.dropout(rows)\n        return")
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED
