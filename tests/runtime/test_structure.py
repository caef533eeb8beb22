"""Arguments and outputs taken apart, and put together with other tensors."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
from distify_runtime.shared.structure import Unknown, rebuilt, tensors_in


def graph(edges: Any) -> SimpleNamespace:
    return SimpleNamespace(features=torch.ones(3), edges=edges)


def test_a_mapping_that_cannot_be_written_stays_where_it_holds_no_tensor() -> None:
    """As networkx gives the edges of a graph."""
    edges = MappingProxyType({(0, 1): {"weight": 2}})
    twin = rebuilt([graph(edges)], iter([torch.zeros(3)]))[0]
    assert torch.equal(twin.features, torch.zeros(3))
    assert twin.edges is edges


def test_one_that_holds_tensors_is_named() -> None:
    value = [graph(MappingProxyType({(0, 1): torch.ones(2)}))]
    with pytest.raises(Unknown, match="a mapping of class mappingproxy"):
        rebuilt(value, iter([torch.zeros(3), torch.zeros(2)]))
    assert len(tensors_in([graph({(0, 1): torch.ones(2)})])) == 2
