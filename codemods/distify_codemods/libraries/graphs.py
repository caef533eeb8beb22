"""Batches of graphs: a row for each node, until a pooling makes one of each graph."""

from __future__ import annotations

#: Given nodes and the graph of each, they make a row for each graph.
POOLING = frozenset(
    [
        *(f"torch_geometric.nn.global_{how}_pool" for how in "add mean max sort".split()),
        *(f"torch_geometric.nn.pool.global_{how}_pool" for how in "add mean max sort".split()),
        *(f"torch_geometric.nn.glob.global_{how}_pool" for how in "add mean max sort".split()),
        *(
            f"torch_geometric.nn.{name}" for name in """AttentionalAggregation GlobalAttention Set2Set SumAggregation
            MeanAggregation MaxAggregation SoftmaxAggregation SortAggregation SetTransformerAggregation""".split()
        ),
        *(f"torch_scatter.scatter_{how}" for how in "add sum mean max min".split()),
    ]
)  # fmt: skip
#: What each batch has that a loader of graphs makes: the graph of each node.
WHICH = "batch"
#: Where their second argument may be called something else.
INDEX = ("batch", "index")
#: Take the nodes of all graphs together where nobody tells them apart: what stands for each sample is then no longer
#: its own.
MIXING = tuple(
    f"torch_geometric.nn.{name}"
    for name in """LayerNorm InstanceNorm GraphNorm GraphSizeNorm PairNorm MeanSubtractionNorm DiffGroupNorm
    dense_diff_pool dense_mincut_pool""".split()
)
