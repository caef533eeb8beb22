"""Models whose first argument is for all samples: the batch is found behind it, and ranks do what one process does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.batches import batches
from distify_runtime.shared.draws import OneRow
from distify_runtime.shared.models import _shared
from ranks import on_ranks
from torch import Tensor, nn
from torch.nn import functional as F

from tests.grid import RANKS

STEPS = 4


def batch(step: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(100 + step), dtype=torch.float64)


def chosen(step: int, count: int, below: int) -> Tensor:
    return torch.randint(below, (count,), generator=torch.Generator().manual_seed(900 + step))


class Graph(nn.Module):
    """Computes all of the graph, and gives what its last argument asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor, edges: Tensor, nodes: Tensor) -> Tensor:
        h = self.first(x).tanh()
        h = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])
        out: Tensor = self.last(h[nodes])
        return out


X, EDGES = batch(0, 12, 3), torch.stack([chosen(1, 40, 12), chosen(2, 40, 12)])


class Edged(Graph):
    def forward(self, edges: Tensor, nodes: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, edges, nodes)


class Loss(Graph):
    def forward(self, x: Tensor, edges: Tensor, nodes: Tensor, aims: Tensor) -> Tensor:  # type: ignore[override]
        return F.mse_loss(super().forward(x, edges, nodes), aims)


class Placed(nn.Module):
    """Attention with a mask and positions, which come before the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.mix, self.out = nn.Linear(2, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, places: Tensor, mask: Tensor, samples: Tensor) -> Tensor:
        x = samples + self.places(places)
        weights = (self.mix(x) @ x.transpose(1, 2)).masked_fill(mask, -1e9).softmax(2)
        out: Tensor = self.out(weights @ x).mean(1)
        return out


class Named(Placed):
    def forward(self, given: dict[str, Tensor]) -> Tensor:  # type: ignore[override]
        return super().forward(given["places"], given["mask"], given["samples"])


class OfAll(nn.Module):
    """Samples that are held against each other, behind a table."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 3)

    def forward(self, table: Tensor, samples: Tensor) -> Tensor:
        out: Tensor = self.net(samples)
        return (out @ out.T).softmax(1) @ out + table.sum()


class Documents(nn.Module):
    """Reads one document after the other, each of another length, and gives its sentences' scores."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(4, 4), nn.Linear(4, 1)

    def scores(self, document: Tensor) -> Tensor:
        rows = self.mix(document)
        out: Tensor = self.out(rows.mm(rows.t()).softmax(1).mm(rows)).squeeze(1)
        return out

    def forward(self, documents: list[Tensor]) -> list[Tensor]:
        return [self.scores(one) for one in documents]


class Pairs(Documents):
    def forward(self, documents: list[Tensor]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:  # type: ignore[override]
        found = [self.scores(one) for one in documents]
        return torch.stack([one.mean() for one in found]), [(one.max(), one.tanh()) for one in found]


class Labelled(Documents):
    def forward(self, documents: list[Tensor], of_all: Tensor, weights: Tensor) -> Tensor:  # type: ignore[override]
        found = torch.stack([self.scores(one).mean() for one in documents])
        return (found * weights).mean() + of_all.mean()


class Together(Documents):
    """Scores that depend on the documents beside."""

    def forward(self, documents: list[Tensor]) -> list[Tensor]:
        common = torch.cat(documents).mean(0)
        return [self.scores(one - common) for one in documents]


class Told(Documents):
    """What else it says of a document is not a tensor."""

    def forward(self, documents: list[Tensor]) -> list[tuple[Tensor, int]]:  # type: ignore[override]
        return [(self.scores(one), len(one)) for one in documents]


class Inside(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, given: dict[str, list[Tensor]]) -> dict[str, list[Tensor]]:
        return {"scores": self.net(given["documents"])}


class Ahead(nn.Module):
    """Not shared itself: what is, is given documents that gradients flow to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), Documents()

    def forward(self, documents: list[Tensor]) -> list[Tensor]:
        found: list[Tensor] = self.last([self.first(one) for one in documents])
        return found


def documents(step: int, count: int = 5) -> list[Tensor]:
    return [batch(10 * step + index, 2 + (index + step) % 4, 4) for index in range(count)]


@dataclasses.dataclass
class Parts:
    first: Tensor
    second: Tensor | None


class OfParts(Documents):
    def forward(self, documents: list[Parts]) -> list[Tensor]:  # type: ignore[override]
        return [
            self.scores(one.first if one.second is None else torch.cat([one.first, one.second])) for one in documents
        ]


def in_parts(step: int) -> list[Parts]:
    """As many tensors in each step, of which other documents have two."""
    return [Parts(one, one * 2 if (index + step) % 2 else None) for index, one in enumerate(documents(step, 4))]


def flat(value: object) -> list[Tensor]:
    """The tensors of an output, whatever it is."""
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [one for part in parts for one in flat(part)]


PLACES, MASK = batch(7, 5, 2), torch.ones(5, 5, dtype=torch.bool).triu(1)
SIZES = (6, 6, 7, 5)
Given = Callable[[int], tuple[object, ...]]
#: The model, what it is given in each step, and what of it is computed whole.
CASES: dict[str, tuple[Callable[[], nn.Module], Given, set[str]]] = {
    "a graph, and nodes": (Graph, lambda step: (X, EDGES, chosen(step, SIZES[step], 12)), set()),
    "as many nodes as the graph has": (Graph, lambda step: (X, EDGES, chosen(step, 12, 12)), set()),
    "edges first": (Edged, lambda step: (EDGES, chosen(step, SIZES[step], 12), X), set()),
    "nodes and aims": (
        Loss, lambda step: (X, EDGES, chosen(step, SIZES[step], 12), batch(step, SIZES[step], 2)), set(),
    ),
    "nodes and aims, as many as the graph has": (
        Loss, lambda step: (X, EDGES, chosen(step, 12, 12), batch(step, 12, 2)), set(),
    ),
    "positions and a mask": (Placed, lambda step: (PLACES, MASK, batch(step, SIZES[step], 5, 4)), set()),
    "positions as many as samples": (Placed, lambda step: (PLACES, MASK, batch(step, 5, 5, 4)), set()),
    "a dictionary": (
        Named, lambda step: ({"places": PLACES, "mask": MASK, "samples": batch(step, SIZES[step], 5, 4)},), set(),
    ),
    "documents": (Documents, lambda step: (documents(step),), set()),
    "documents, of which some are left over": (Documents, lambda step: (documents(step, 5 - step % 3),), set()),
    "more documents than there are bits": (Documents, lambda step: (documents(step, 70),), set()),
    "documents of one length": (Documents, lambda step: ([batch(step * 9 + one, 3, 4) for one in range(4)],), set()),
    "a tuple of documents, in a dictionary": (
        lambda: Inside(Documents()), lambda step: ({"all": PLACES, "documents": tuple(documents(step))},), set(),
    ),
    "several things of each document": (Pairs, lambda step: (documents(step),), set()),
    "documents that are made by a model": (Ahead, lambda step: (documents(step),), set()),
    "documents, and a tensor with as many rows": (
        Labelled, lambda step: (documents(step), PLACES, batch(step, 5)), set(),
    ),
    "documents of some tensors": (OfParts, lambda step: (in_parts(step),), set()),
    "documents that belong together": (Together, lambda step: (documents(step),), {"Together"}),
    "what is no tensor": (Told, lambda step: (documents(step),), {"Told"}),
    "samples that belong together": (
        OfAll, lambda step: (batch(3, 4, 2), batch(step, SIZES[step], 3)), {"OfAll"},
    ),
}  # fmt: skip


def follow(name: str) -> tuple[list[list[float]], set[str]]:
    """The loss and the parameters after each step, and what was computed whole."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    make, given, _ = CASES[name]
    model = make()
    rt.data_parallel(model.last if isinstance(model, Ahead) else model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        outputs = flat(model(*given(step)))
        loss = torch.stack([one if one.dim() == 0 else (one - 1).square().mean() for one in outputs]).mean()
        loss.backward()
        optimizer.step()
        found.append([loss.item(), *torch.cat([one.detach().flatten() for one in model.parameters()]).tolist()])
    return found, {one.name for one in _shared.values() if one.given_up}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", CASES)
def test_ranks_follow_one_process(name: str, ranks: int) -> None:
    ((expected, _),) = on_ranks(follow, name, ranks=1)
    everyone = on_ranks(follow, name, ranks=ranks)
    assert all(one == everyone[0] for one in everyone)
    found, whole = everyone[0]
    assert whole == CASES[name][2]
    assert max(abs(a - b) for of, to in zip(found, expected, strict=True) for a, b in zip(of, to, strict=True)) < 1e-12


def test_a_dimension_of_the_first_tensor_is_tried_first() -> None:
    dims = [one.dims for one in batches((), [torch.zeros(8, 3), torch.zeros(8), torch.zeros(5, 8)])]
    assert dims[0] == {0: 0, 1: 0, 2: 1}
    assert {2: 0} in dims


def test_few_are_tried_of_many_tensors() -> None:
    assert len(batches((), [torch.zeros(2 + size, 50 + size) for size in range(40)])) <= 16


# ---- a trial indexes past no end: a GPU does not survive it

ROWS, AT, COLUMN = torch.zeros(4, 3), torch.tensor([0, 5]), torch.tensor([[0], [5]])
SQUARE, TRUE = torch.zeros(4, 4, 2), torch.ones(4, 4, dtype=torch.bool)
PAST: dict[str, Callable[[], object]] = {
    "rows": lambda: ROWS[AT],
    "rows from the end": lambda: ROWS[-AT],
    "columns": lambda: ROWS[:, AT],
    "behind a mask": lambda: SQUARE[TRUE, AT[1:]],
    "written": lambda: ROWS.clone().index_put_((AT,), torch.zeros(())),
    "index_select": lambda: ROWS.index_select(0, AT),
    "index_add": lambda: ROWS.index_add(0, AT, torch.zeros(2, 3)),
    "index_copy": lambda: ROWS.index_copy(0, AT, torch.zeros(2, 3)),
    "gather": lambda: ROWS.gather(0, COLUMN),
    "scatter": lambda: ROWS.scatter(0, COLUMN, 1.0),
    "scatter_add": lambda: ROWS[:, 0].scatter_add(0, AT, torch.ones(2)),
    "scatter_reduce": lambda: ROWS[:, 0].scatter_reduce(0, AT, torch.ones(2), "amax"),
    "take": lambda: ROWS.take(AT + 8),
    "embedding": lambda: F.embedding(AT, ROWS),
    "embedding_bag": lambda: F.embedding_bag(AT[None], ROWS),
    "cross_entropy": lambda: F.cross_entropy(ROWS, torch.tensor([0, 1, 2, 3])),
    "cross_entropy of steps": lambda: F.cross_entropy(SQUARE, torch.full((4, 2), 4)),
}
WITHIN: dict[str, Callable[[], object]] = {
    "rows": lambda: ROWS[torch.tensor([-4, 3])],
    "a mask": lambda: ROWS[ROWS[:, 0] == 0],
    "a mask and columns": lambda: ROWS[ROWS[:, 0] == 0, torch.tensor([0, 1, 2, 2])],
    "behind a mask": lambda: SQUARE[TRUE, AT[:1]],
    "a new dimension": lambda: ROWS[None, torch.tensor([0])],
    "nothing": lambda: ROWS[torch.tensor([], dtype=torch.int64)],
    "gather": lambda: ROWS.gather(1, torch.zeros(4, 1, dtype=torch.int64)),
    "embedding": lambda: F.embedding(torch.tensor([3]), ROWS),
    "what a loss ignores": lambda: F.cross_entropy(ROWS, torch.tensor([0, -100, 2, 1])),
    "a loss of one": lambda: F.cross_entropy(ROWS[0], torch.tensor(2)),
}


@pytest.mark.parametrize("name", PAST)
def test_an_index_past_an_end_is_found_before_it_is_used(name: str) -> None:
    with OneRow(), pytest.raises(IndexError, match=r"out of bounds for \d+ rows"):
        PAST[name]()


@pytest.mark.parametrize("name", WITHIN)
def test_an_index_within_is_none_of_these(name: str) -> None:
    with OneRow():
        WITHIN[name]()
