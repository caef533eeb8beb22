"""SHARE01: where each forward pass has one sample, ranks have nothing to share, and the checklist says so."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome, Strategy

from tests.rules.scripts import DATA, IMPORTS, MODEL, OPTIMIZER, conversion_of

SHARED = Options(strategy="shared")
TOKENS = "from words import tokenizer\n"
FUNCTIONS = "from torch.nn import functional as F\n"

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


# ---- where it is seen that the model does not take a sample apart

PLAIN = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        x = F.adaptive_avg_pool2d(x, 1)
        BODY
        return self.out(x)


"""
FLAT = "x = x.view(x.size(0), -1)"


def images(
    given: str,
    before: str = "",
    over: str = "x, y in data",
    body: str = FLAT,
    made: str = "Net()",
    after: str = "",
    head: str = "",
) -> str:
    """A training on images of three colours."""
    data = "data = TensorDataset(torch.randn(24, 3, 32, 32), torch.randn(24, 2))\n"
    step = f"    loss = F.mse_loss(model({given}), y)\n    optimizer.zero_grad()\n    loss.backward()\n"
    top = f"{IMPORTS}{FUNCTIONS}{head}\n\n{PLAIN.replace('BODY', body)}{data}model = {made}\n{OPTIMIZER}"
    return f"{top}for {over}:\n{before}{step}    optimizer.step()\n{after}"


def declined(before: str, options: Options = SHARED) -> list[str]:
    found = conversion_of(before, options=options).of(Level.BLOCKING)
    return [one.message for one in found if "which it does not take apart" in one.message]


@pytest.mark.parametrize("options", [SHARED, Options()], ids=["shared", "auto"])
@pytest.mark.parametrize(
    ("given", "more"),
    [
        ("x.unsqueeze(0)", {}),
        ("x[None].to('cpu')", {}),
        ("torch.stack([x])", {}),
        ("noise", {"before": "    noise = torch.randn(1, 3, 32, 32)\n", "over": "_, y in data"}),
        ("x", {"over": "x, y in DataLoader(data)"}),
        ("x.float()", {"over": "x, y in DataLoader(data, batch_size=1, shuffle=True)"}),
        ("x[None]", {"body": "x = x.flatten(1)"}),
        ("x[None]", {"body": "x = torch.flatten(x, 1)"}),
        ("x[None]", {"body": "x = x.view(-1, 8)"}),
        ("x[None]", {"body": "b, c, _, _ = x.shape\n        x = torch.cat([x, x], dim=1)[:, :c].reshape(b, c)"}),
        ("x[None]", {"body": "x, _ = torch.cat([x, x], 1).chunk(2, dim=1)\n        x = x.squeeze(3).squeeze(2)"}),
        ("x[None]", {"made": "nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())"}),
        ("x[None]", {"made": "torchvision.models.resnet18(num_classes=2)", "head": "import torchvision\n"}),
        ("x[None]", {"after": "with torch.no_grad():\n    print(model(data[0][0].unsqueeze(0)))\n"}),
    ],
)
def test_nothing_is_there_to_share(given: str, more: dict[str, str], options: Options) -> None:
    """Every rank would do all of the work: that is no conversion, and the reason is told."""
    (message,) = declined(images(given, **more), options)
    assert message.startswith("each forward pass of `model` is given one sample (")
    assert conversion_of(images(given, **more), options=options).outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("given", "more"),
    [
        # other passes have more, or what they have is not known
        ("x", {"over": "x, y in DataLoader(data, batch_size=8)"}),
        ("x[None]", {"after": "for x, y in DataLoader(data, 8):\n    print(model(x))\n"}),
        ("x[None]", {"before": "    other = model(torch.stack([x, x]))\n"}),
        ("x[None]", {"before": "    other = model(made(x))\n", "head": "from makers import made\n"}),
        ("x[None]", {"before": "    show(model)\n", "head": "from makers import show\n"}),
        ("x", {"over": "x, y in DataLoader(data, batch_size=size)", "head": "from makers import size\n"}),
        ("x[0]", {"over": "x, y in DataLoader(data)"}),  # a sample may be several images
        # the model may take it apart
        ("x[None]", {"body": "x = x.flatten(2).transpose(1, 2).mean(1)"}),
        ("x[None]", {"body": "x = x.permute(0, 2, 3, 1).mean((1, 2))"}),
        ("x[None]", {"body": "b, c, h, w = x.shape\n        x = x.view(b * h, c, w).mean(2)"}),
        ("x[None]", {"body": "x = x.view(-1, 8, 1, 1).flatten(1)"}),
        ("x[None]", {"body": "x = torch.cat([x, x])[:1].flatten(1)"}),
        ("x[None]", {"body": "x = x.repeat(4, 1, 1, 1).flatten(1)"}),
        ("x[None]", {"body": "x = torch.stack(x.unbind(1)).mean((2, 3))"}),
        ("x[None]", {"body": "x = x.squeeze(0).flatten(1).mean(1)[None]"}),
        ("x[None]", {"body": "x = torch.squeeze(x).mean()[None, None].expand(1, 8)"}),
        ("x[None]", {"body": "x = x[0].flatten(1).mean(1)[None]"}),
        ("x[None]", {"made": "nn.Sequential(nn.Flatten(), nn.Linear(3072, 2))"}),  # rows, as far as that is seen
        ("x[None]", {"made": "nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(2), nn.Linear(900, 1), nn.Flatten())"}),
        ("x[None]", {"made": "nets.Unet(classes=2)", "head": "import segmentation_models_pytorch as nets\n"}),
        ("x[None]", {"made": "torchvision.models.vit_b_16(num_classes=2)", "head": "import torchvision\n"}),
    ],
)
def test_where_something_may_be_shared_it_is_no_refusal(given: str, more: dict[str, str]) -> None:
    assert declined(images(given, **more)) == []


def test_of_several_models_each_has_to_be_given_one() -> None:
    """What a model makes of one sample is one."""
    two = "fake = other(torch.randn(1, 3, 32, 32))"
    whole = images("fake", f"    {two}\n", over="_, y in data", made="Net()\nother = nn.Conv2d(3, 3, 3)")
    whole = whole.replace("model.parameters()", "[*model.parameters(), *other.parameters()]")
    assert len(declined(whole)) == 1
    assert declined(whole.replace("torch.randn(1,", "torch.randn(8,")) == []


def test_batches_that_grow_with_the_ranks_are_no_samples() -> None:
    before = images("x", over="x, y in DataLoader(data, batch_size=1)")
    assert len(declined(before)) == 1
    assert declined(before, Options(strategy="shared", scale="linear")) == []


@pytest.mark.parametrize(
    ("rows", "alone"),
    [
        ("i:i + 1", True),
        ("i:1 + i", True),
        ("i:i + 2", False),
        ("2 * i:2 * i + 2", False),
        ("i:i + size", False),
    ],
)
def test_one_row_that_is_cut_out_is_not_dealt_out(rows: str, alone: bool) -> None:
    """A rank's share of it would be nothing, and the run end with its first step."""
    head = f"inputs, outputs = torch.randn(64, 4), torch.randn(64, 1)\nsize = 4\n{MODEL}{OPTIMIZER}"
    step = f"    x = inputs[{rows}]\n    y = outputs[{rows}]\n    loss = F.mse_loss(model(x), y)\n"
    rest = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    conversion = conversion_of(f"{IMPORTS}{FUNCTIONS}{head}for i in range(16):\n{step}{rest}", options=Options())
    assert (conversion.strategy is Strategy.SHARED) is alone
    told = [one.message for one in conversion.findings if "one sample is cut out here" in one.message]
    assert len(told) == alone
    assert any("is given one sample (`inputs[" in one.message for one in conversion.findings) is alone


def test_the_first_row_is_one_sample() -> None:
    assert len(said(training("inputs[:1]"))) == 1
    assert said(training("inputs[:2]")) == said(training("inputs[1:]")) == []
