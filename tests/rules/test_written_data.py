"""Training data that training changes by a rank's own samples are not sharded."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, line_of, script

ROWS = """
class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y, self.level = torch.randn(64, 4), torch.zeros(64, 1), 0.0

    def relabel(self, numbers, labels):
        self.y[numbers] = labels

    def __len__(self):
        return 64

    def __getitem__(self, number):
        return self.x[number], self.y[number]


data = Rows()
"""
TENSORS = "x, y = torch.randn(64, 4), torch.zeros(64, 1)\ndata = TensorDataset(x, y)\n"
SAMPLER = "sampler = torch.utils.data.WeightedRandomSampler(torch.ones(64), 64)\n"


def links(data: str, turn: str, after: str = "", loader: str = "") -> tuple[str, list[int]]:
    loop = f"{LOOP}        {turn}\n" + (f"    {after}\n" if after else "")
    loop = loop.replace("    for x, y", "    total = 0.0\n    for a, b").replace("(model(x), y)", "(model(a), b)")
    before = script(data=data, loop=loop, **({"loader": loader} if loader else {}))
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "changes the training data" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return before, [one.place.line for one in found if one.place]


@pytest.mark.parametrize(
    ("data", "turn"),
    [
        (TENSORS, "y[torch.arange(8)] = model(a).detach()"),
        (TENSORS, "data.tensors[1][0] = loss.item()"),
        (TENSORS, "loader.dataset.tensors[0][0] = a.mean(0)"),
        (ROWS, "data.y[0] = model(a).detach()[0]"),
        (ROWS, "data.x[:8].copy_(a)"),
    ],
)
def test_data_that_a_turn_changes(data: str, turn: str) -> None:
    before, found = links(data, turn)
    assert found == [line_of(before, turn)]


def test_a_method_of_the_data() -> None:
    before, found = links(ROWS, "data.relabel(torch.arange(8), model(a).detach())")
    assert found == [line_of(before, "self.y[numbers] = labels")]


def test_a_sampler() -> None:
    loader = f"{SAMPLER}loader = DataLoader(data, batch_size=8, sampler=sampler)\n"
    before, found = links(TENSORS, "sampler.weights[0] = loss.item()", loader=loader)
    assert found == [line_of(before, "sampler.weights[0]")]


BOOST = "def boost(rows, by):\n    rows.index_copy_(0, torch.arange(8), by)\n"


@pytest.mark.parametrize(
    ("before", "turn", "line"),
    [
        ("labels = data.y.numpy()\n", "labels[0] = loss.item()", "labels[0] ="),
        ("rows = data.x\nfirst = rows[:8]\n", "first.copy_(a)", "first.copy_(a)"),
        (BOOST, "boost(data.y, model(a).detach())", "rows.index_copy_"),
        ("import numpy as np\nlabels = data.y.numpy()\n", "np.copyto(labels[:8], model(a).detach())", "np.copyto"),
        ("import os\n", "os.environ['LEVEL'] = str(loss.item())", "os.environ['LEVEL']"),
    ],
    ids=["a view", "a part of a part", "a parameter", "NumPy", "the environment"],
)  # fmt: skip
def test_other_names_of_the_data(before: str, turn: str, line: str) -> None:
    text, found = links(ROWS + before, turn)
    assert found == [line_of(text, line)]


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        ("labels = data.y.clone()\n", "labels[0] = loss.item()"),
        ("labels = data.y.numpy().copy()\n", "labels[0] = loss.item()"),
        ("def fill(rows, by):\n    rows.fill_(by)\nlosses = torch.zeros(3)\n", "fill(losses, loss.item())"),
        ("labels = data.y\nlabels = torch.zeros(4)\n", "labels[0] = loss.item()"),
    ],
)
def test_names_of_what_was_data(before: str, turn: str) -> None:
    assert links(ROWS + before, turn)[1] == []


@pytest.mark.parametrize(
    ("level", "turn", "goes"),
    [
        ("held.value", "held.value = loss.item()", True),
        ("held.value", "held.value = epoch", False),
        ("self.asked()", "seen.append(loss.item())", True),
        ("self.asked()", "total += loss.item()", False),
        ("settings['level']", "settings['level'] = loss.item()", True),
        ("settings['level']", "settings['last'] = loss.item()", False),
    ],
)
def test_samples_that_are_made_of_what_training_keeps(level: str, turn: str, goes: bool) -> None:
    """Elsewhere than in the data set: in a name of the module, or behind a function that it was given."""
    head = "import multiprocessing as mp\nseen, held, settings = [1.0], mp.Value('d', 0.5), {'level': 1.0}\n"
    rows = ROWS.replace("return self.x[number],", f"return self.x[number] * {level},")
    before = script(
        data=head + rows + "data.asked = lambda: max(seen)\n",
        loop=f"total = 0.0\n{LOOP}        {turn}\n",
    )  # fmt: skip
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "samples are made of" in one.message]
    assert [(one.place.line, conversion.strategy) for one in found if one.place] == (
        [(line_of(before, "max(seen)" if "asked" in level else f"* {level}"), Strategy.SHARED)] if goes else []
    )


@pytest.mark.parametrize(
    ("turn", "after"),
    [
        ("total += loss.item()", "data.level = total / len(loader)"),
        ("data.level = epoch", ""),
        ("a[0] = 0", ""),
        ("own = data.x.clone(); own[0] = a[0]", ""),
        ("model(a)[0] = 1", ""),
    ],
)
def test_what_is_the_same_on_all_ranks_or_no_data(turn: str, after: str) -> None:
    assert links(ROWS, turn, after)[1] == []


CUT = """\
x, y = torch.randn(64, 4), torch.zeros(64, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def shown(out):
    mask = torch.zeros(8, 1)
    mask[0] = out[0].detach()
    return mask[out.argmax(1)]


for epoch in range(3):
    order = torch.randperm(64)
    for i in range(0, 64, 8):
        index = order[i : i + 8]
        a, b = x[index], y[index]
        out = model(a)
        loss = nn.functional.mse_loss(out, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {turn}
"""


@pytest.mark.parametrize(
    ("turn", "changes"),
    [
        ("y[index] = out.detach()", True),
        ("y[:8].copy_(out.detach())", True),
        ("own = y.clone(); own[index] = out.detach()", False),
        ("a[0] = 0.0", False),
        ("seen = shown(out)", False),
    ],
)
def test_data_that_batches_are_cut_from(turn: str, changes: bool) -> None:
    conversion = conversion_of(f"{IMPORTS}{CUT.format(turn=turn)}", options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "changes the training data" in one.message]
    assert bool(found) is changes
    assert (conversion.strategy is Strategy.SHARED) is changes


CHOSEN = """\
import pandas as pd
data = TensorDataset(torch.arange(64), torch.randn(64, 4), torch.zeros(64, 1))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hardness, losses, chosen = torch.zeros(64), {}, list(range(64))
noisy, clean, table = set(), {1, 2}, pd.DataFrame({"loss": [0.0] * 64})
for epoch in range(3):
    loader = LOADER
    for index, a, b in loader:
        each = (model(a) - b).square().sum(1)
        hardness[index] = each.detach()
        for one, loss in zip(index.tolist(), each.tolist()):
            losses[one] = loss
            if loss > 1.1:
                noisy.add(one)
        table.loc[index.numpy(), "loss"] = each.detach().numpy()
        optimizer.zero_grad()
        each.mean().backward()
        optimizer.step()
    weights = 0.1 + hardness
    chosen = sorted(losses, key=losses.get)[-32:]
"""


@pytest.mark.parametrize(
    ("loader", "chooses"),
    [
        ("DataLoader(data, 8, sampler=torch.utils.data.WeightedRandomSampler(0.1 + hardness, 64))", True),
        ("DataLoader(torch.utils.data.Subset(data, chosen), 8)", True),
        ("DataLoader(torch.utils.data.Subset(data, [one for one in range(64) if one not in noisy]), 8)", True),
        ("DataLoader(torch.utils.data.Subset(data, [one for one in range(64) if one in losses]), 8)", True),
        ("DataLoader(torch.utils.data.Subset(data, table.nsmallest(32, 'loss').index.tolist()), 8)", True),
        ("DataLoader(torch.utils.data.Subset(data, [one for one in range(64) if one not in clean]), 8)", False),
        ("DataLoader(torch.utils.data.Subset(data, range(epoch, 64)), 8)", False),
        ("DataLoader(data, 8, sampler=torch.utils.data.WeightedRandomSampler(torch.ones(64), 64))", False),
    ],
)
def test_data_that_are_chosen_by_what_was_computed(loader: str, chooses: bool) -> None:
    conversion = conversion_of(f"{IMPORTS}{CHOSEN.replace('LOADER', loader)}", options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "follow from what was computed" in one.message]
    assert bool(found) is chooses
    assert conversion.strategy is Strategy.SHARED  # be it for what is kept for each sample
