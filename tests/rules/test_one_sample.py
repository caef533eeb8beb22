"""SHARE01: where each forward pass has one sample, ranks have nothing to share, and the checklist says so."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import DATA, IMPORTS, MODEL, OPTIMIZER, conversion_of

SHARED = Options(strategy="shared")
TOKENS = "from words import tokenizer\n"

#: Of the script's own.
MAKERS = """\
def alone(row):
    ids = torch.tensor([[float(one) for one in row]])
    return torch.cat([ids, row.unsqueeze(0)], dim=1)


def prepared(row):
    return {"input": alone(row), "mask": torch.ones_like(alone(row))}


def counted(row):
    return prepared(row), len(row)


def sometimes(row):
    if len(row) > 3:
        return row
    return alone(row)


"""


def training(given: str, before: str = "", over: str = "x, y in data") -> str:
    step = f"    loss = (model({given}) - y).square().mean()\n"
    rest = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    return f"{IMPORTS}{TOKENS}\n{MAKERS}{DATA}{MODEL}{OPTIMIZER}for {over}:\n{before}{step}{rest}"


def said(before: str) -> list[str]:
    advice = conversion_of(before, options=SHARED).of(Level.ADVICE)
    return [one.message for one in advice if "is given one sample" in one.message]


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ("x.unsqueeze(0)", ""),
        ("torch.unsqueeze(x, 0)", ""),
        ("torch.unsqueeze(x, dim=0).to('cpu')", ""),
        ("x[None]", ""),
        ("x[None, ...]", ""),
        ("inputs[i:i + 1]", "    i = len(x)\n"),
        ("torch.tensor(inputs[3:4], dtype=torch.float32)", ""),
        ("torch.stack([x])", ""),
        ("batch", "    batch = x.unsqueeze(0)\n"),
        ("batch", "    if len(x) > 2:\n        batch = x[None]\n    else:\n        batch = x.unsqueeze(0)\n"),
        ("batch.input_ids", "    batch = tokenizer([str(x)], return_tensors='pt').to('cpu')\n"),
        ("batch['input_ids']", "    batch = tokenizer([str(x)], return_tensors='pt')\n"),
        ("torch.tensor([[2.0, 3, 4, 5]])", ""),
        ("batch.to('cpu')", "    batch = torch.FloatTensor([[2, 3, 4, 5]])\n"),
        ("**given", "    given = {'input': x[None]}\n"),
        ("**given", "    given = prepared(x)\n"),
        ("**given", "    given, count = counted(x)\n"),
        ("alone(x)", ""),
        ("torch.cat([x[None], x[None]], dim=1)", ""),
        ("x", "", ),
    ],
)  # fmt: skip
def test_one_sample_in_each_pass(given: str, before: str) -> None:
    over = "x, y in DataLoader(data)" if given == "x" else "x, y in data"
    (message,) = said(training(given, before, over))
    assert message.startswith("each forward pass of `model` in training is given one sample (")


@pytest.mark.parametrize(
    ("given", "before", "over"),
    [
        ("x", "", "x, y in DataLoader(data, batch_size=8)"),
        ("x", "", "x, y in DataLoader(data, None)"),
        ("x", "", "x, y in data"),
        ("x[i:i + 2]", "    i = len(x)\n", "x, y in data"),
        ("x[i:j + 1]", "    i = j = len(x)\n", "x, y in data"),
        ("x[0:1:2]", "", "x, y in data"),
        ("torch.stack([x, x])", "", "x, y in data"),
        ("torch.stack([*x])", "", "x, y in data"),
        ("torch.tensor([[2.0, 3, 4, 5], [2, 3, 4, 5]])", "", "x, y in data"),
        ("torch.tensor(x)", "", "x, y in data"),
        ("torch.tensor([*x])", "", "x, y in data"),
        ("torch.tensor([[2.0, 3]]).reshape(2, 1)", "", "x, y in data"),
        ("torch.cat([x])", "", "x, y in DataLoader(data, 8)"),
        ("x.unsqueeze(1)", "", "x, y in data"),
        ("x[:, None]", "", "x, y in data"),
        ("batch", "    batch = x\n    if len(x) > 2:\n        batch = x[None]\n", "x, y in data"),
        ("tokenizer(x)", "", "x, y in data"),
        ("tokenizer([x])", "", "x, y in DataLoader(data, 8)"),  # whatever it is
        ("**given", "    given = {'input': x}\n", "x, y in data"),
        ("**given", "    given = {**prepared(x), 'input': x}\n", "x, y in data"),
        ("given", "    count, given = counted(x)\n", "x, y in data"),
        ("sometimes(x)", "", "x, y in data"),
        ("torch.cat([x[None], x[None]])", "", "x, y in data"),
        ("torch.cat([x[None], x[None]], dim=0)", "", "x, y in data"),
    ],
)
def test_others(given: str, before: str, over: str) -> None:
    assert said(training(given, before, over)) == []


def test_a_pass_of_several_beside_one_of_one() -> None:
    more = "    extra = model(torch.stack([x, x]))\n"
    assert said(training("x[None]", more)) == []


@pytest.mark.parametrize(
    ("rows", "over", "given", "said"),
    [
        ("rows = [(torch.ones(4), 1.0), (torch.zeros(4), 0.0)]\n", "x, y in rows", "x", True),
        ("rows = [(torch.ones(4), 1.0) for _ in range(9)]\n", "x, y in rows", "x.to('cpu')", True),
        ("rows = list(DataLoader(data, batch_size=8))\n", "x, y in rows", "x", False),
        ("rows = torch.ones(9, 4)\ny = 1.0\n", "x in rows", "x", False),
        ("rows = [(torch.ones(4), 1.0)]\n", "x, y in rows", "torch.stack([x, x])", False),
    ],
)
def test_an_item_of_a_list_may_be_one_sample(rows: str, over: str, given: str, said: bool) -> None:
    before = training(given, over=over).replace("for x", f"{rows}for x")
    advice = [one.message for one in conversion_of(before, options=SHARED).of(Level.ADVICE)]
    assert any("is given one item of `rows`" in one for one in advice) is said


@pytest.mark.parametrize(
    ("given", "before", "told"),
    [
        ("batch[0]", "", True),
        ("x.float()", "    x, y = batch\n    x = x.to('cpu')\n", True),
        ("x", "    x = batch[0].squeeze(0)[:, None]\n", False),
        ("x.reshape(-1, 4)", "    x, y = batch\n", False),
        ("rows + x", "    x, y = batch\n    rows = torch.randn(32, 4)\n", False),
    ],
)
def test_what_is_made_of_a_batch_of_one_may_be_more(given: str, before: str, told: bool) -> None:
    """Rays of one picture, patches of one scan: the model is given many."""
    script = training(given, before, "batch in DataLoader(data)").replace("- y)", "- batch[1])")
    assert bool(said(script)) is told


@pytest.mark.parametrize(("size", "shared"), [("", True), (", batch_size=1", True), (", batch_size=2", False)])
def test_batches_of_one_are_not_dealt_out(size: str, shared: bool) -> None:
    before = training("x", over=f"x, y in DataLoader(data{size})")
    conversion = conversion_of(before, options=Options())
    assert (conversion.strategy is Strategy.SHARED) is shared
    told = [one.message for one in conversion.of(Level.ADVICE) if "cannot be dealt out to several ranks" in one.message]
    assert bool(told) is shared
    larger = conversion_of(before, options=Options(scale="linear"))
    assert larger.strategy is Strategy.SHARDED
