"""Tables that a turn makes and fills at places which its own samples say are of these samples."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import IMPORTS, conversion_of, converted, script

SETUP = """\
import numpy as np

total = np.zeros(3)


def fill(table, values):
    table[1:] = values[1:]


"""
LOOP = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kinds = (y > 0).long().flatten()
        FILL
        total += np.asarray(counts)
    print(total)
"""
ADDED_UP = {
    "one by one": "counts = np.zeros(3)\nfor kind in kinds.tolist():\n    counts[kind] += 1",
    "numpy": "counts = np.zeros(3)\nnp.add.at(counts, kinds.numpy(), 1)",
    "numpy, of several keys": "counts = np.zeros((3, 3))\nnp.add.at(counts, (kinds.numpy(), kinds.numpy()), 1)",
    "index_add_": "counts = torch.zeros(3)\ncounts.index_add_(0, kinds, torch.ones(len(kinds)))",
    "scatter_add_": "counts = torch.zeros(3)\ncounts.scatter_add_(0, kinds, torch.ones(len(kinds)))",
}
NO_SUMS = {
    "what comes twice counts once": "counts = torch.zeros(3)\ncounts[kinds] += 1",
    "set": "counts = np.zeros(3)\ncounts[kinds.numpy()] = 1",
    "fill": "counts = np.zeros(3)\ncounts.fill(x.max())",
    "copyto": "counts = np.zeros(3)\nnp.copyto(counts, x[0, :3].numpy())",
    "put": "counts = np.zeros(3)\nnp.put(counts, kinds.numpy(), 1)",
    "a slice": "counts = torch.ones(3)\ncounts[:] = x[0, :3]",
    "a mask": "counts = torch.full((8, 4), 2.0)\ncounts[x > 0] = 1",
    "a part that is copied to": "counts = torch.empty(4)\ncounts[:3].copy_(x[0, :3])",
    "a view": "counts = torch.zeros(3)\ncounts.view(-1).add_(x[0, :3])",
    "another name": "counts = torch.zeros(2, 3)\nrow = counts[1]\nrow += x[0, :3]",
    "a function that changes what it is given": "counts = torch.zeros(3)\nfill(counts, x[0, :3])",
    "where it is put, by place": "counts = np.zeros(3)\nnp.add(x[0, :3].numpy(), 1, counts)",
    "where it is put": "counts = torch.zeros(3)\ntorch.add(x[0, :3], 1, out=counts)",
}


def _script(fill: str) -> str:
    return script(imports=IMPORTS + SETUP, loop=LOOP.replace("FILL", fill.replace("\n", "\n        ")))


@pytest.mark.parametrize("fill", ADDED_UP.values(), ids=ADDED_UP)
def test_counts_of_a_turn_are_summed_over_ranks(fill: str) -> None:
    assert "        total += rt.all_reduce_sum(np.asarray(counts))\n" in converted(_script(fill))


@pytest.mark.parametrize("fill", NO_SUMS.values(), ids=NO_SUMS)
def test_what_is_no_sum_needs_whole_batches(fill: str) -> None:
    assert conversion_of(_script(fill), options=Options()).strategy is Strategy.SHARED


@pytest.mark.parametrize(
    "fill", ["counts = np.zeros(3)\ncounts[epoch] += 1", "counts = np.zeros(3)\nfor k in range(3):\n    counts[k] = k"]
)
def test_what_ranks_fill_alike_is_left_as_it_is(fill: str) -> None:
    new = converted(_script(fill))
    assert "all_reduce" not in new


OVERLAPS = """\
def overlaps(kinds):
    found = np.zeros(3)
    for kind in range(3):
        found[kind] = (kinds == kind).sum()
    return found


for epoch in range(3):
    for x, y in loader:
        kinds = (y > 0).long().flatten()
        parts = torch.zeros(2)
        parts[0] += nn.functional.mse_loss(model(x), y)
        parts[1] = model(x).square().mean()
        loss = parts.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += overlaps(kinds)
    print(total)
"""


def test_tables_of_sums_and_of_means_are_that() -> None:
    new = converted(script(imports=IMPORTS + SETUP, loop=OVERLAPS))
    assert "        total += rt.all_reduce_sum(overlaps(kinds))\n" in new
    assert "loss = parts.sum()\n" in new
    assert new.count("all_reduce") == 1


WEIGHTED = """\
def weights(kinds):
    counts = np.zeros(3)
    np.add.at(counts, kinds.numpy(), 1)
    return torch.as_tensor(1 / (counts + 1)).float()


for epoch in range(3):
    for x, y in loader:
        kinds = (y > 0).long().flatten()
        loss = nn.functional.cross_entropy(model(x).expand(-1, 3), kinds, weight=weights(kinds))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_weights_that_a_function_makes_of_counts_are_those_of_all_samples() -> None:
    new = converted(script(imports=IMPORTS + SETUP, loop=WEIGHTED))
    assert "1 / (rt.sum_over_ranks(counts) + 1)" in new
    assert "loss = rt.weighted_mean(nn.functional.cross_entropy, " in new


def test_counts_of_all_batches_are_no_tally_of_a_turn() -> None:
    loop = LOOP.replace("FILL", "np.add.at(total, kinds.numpy(), 1)").replace("total += np.asarray(counts)", "pass")
    before = script(imports=IMPORTS + SETUP, loop=loop)
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED


PROTOTYPES = """\
def spread(z, kinds):
    rows = torch.zeros(3, 1)
    for kind in range(3):
        rows[kind] = z[kinds == kind].sum(0)
    return torch.pdist(rows).mean()


for epoch in range(3):
    for x, y in loader:
        kinds = (y > 0).long().flatten()
        loss = nn.functional.mse_loss(model(x), y) - spread(model(x), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_what_is_filled_with_its_gradient_is_not_summed_without() -> None:
    conversion = conversion_of(script(imports=IMPORTS + SETUP, loop=PROTOTYPES), options=Options())
    new = "".join(one.after.decode() for one in conversion.files)
    assert "all_reduce" not in new
    assert "    return torch.pdist(rt.sum_over_ranks(rows)).mean()\n" in new  # which has a gradient


IN_PLACE = """\
def standardise_(z):
    z -= z.mean(0)
    z /= {by}


for epoch in range(3):
    for x, y in loader:
        x = x.clone()
        standardise_(x)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_function_relates_the_samples_that_it_is_given() -> None:
    before = script(loop=IN_PLACE.format(by="z.std(0) + 1e-3"))
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED


def test_a_function_changes_each_sample_by_itself() -> None:
    before = script(loop=IN_PLACE.format(by="2").replace("z.mean(0)", "1"))
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        ("torch.pdist(x.mean(0, keepdim=True).T).mean()", "torch.pdist(rt.mean_over_ranks(x.mean(0, keepdim=True).T))"),
        ("torch.pdist(x.sum(0, keepdim=True)).sum()", "torch.pdist(rt.sum_over_ranks(x.sum(0, keepdim=True)))"),
        ("torch.cov(x.mean(0)).sum()", "torch.cov(rt.mean_over_ranks(x.mean(0)))"),
        ("x.mean(0)[x.mean(0).argmax()]", "x.mean(0)[rt.mean_over_ranks(x.mean(0)).argmax()]"),
        ("x.mean(0)[x.mean(0) > 0].sum()", "rt.gather_samples("),
    ],
)
def test_distances_and_choices_of_means_are_no_means(term: str, wanted: str) -> None:
    loop = LOOP.replace("FILL", "pass").replace("total += np.asarray(counts)", "pass")
    before = script(
        imports=IMPORTS + SETUP, loop=loop.replace("mse_loss(model(x), y)", f"mse_loss(model(x), y) - {term}")
    )
    assert wanted in converted(before)
