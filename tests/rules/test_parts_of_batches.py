"""`thing[0]`: of a tensor it is one sample, of a tuple a part of the batch; the first is a link to a loss."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, line_of, script

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.GRU(4, 4, batch_first=True)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        {body}


model = Net()
"""
RETURNED = "return self.out(x), x"
MORE = f"{IMPORTS}from torch.nn import functional as F\nfrom transformers import BertModel\nimport timm\n"


def links(before: str) -> list[int]:
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "is one sample of a batch" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return list(dict.fromkeys(one.place.line for one in found if one.place))


def training(lines: str, model: str = "model = nn.Linear(4, 1)\n") -> str:
    body = "".join(f"        {line}\n" for line in lines.splitlines())
    loop = LOOP.replace("        loss = nn.functional.mse_loss(model(x), y)\n", body)
    return script(imports=MORE, model=model, loop=loop)


@pytest.mark.parametrize(
    "line",
    [
        "output = model(x)\nloss = F.mse_loss(output[0], y[0])",
        "loss = F.mse_loss(model(x)[0], y[0])",
        "loss = F.mse_loss(model(x), y) + (model(x) * 2)[1].mean()",
        "x = x.to('cpu')\nloss = F.mse_loss(model(x), y) + x[0].mean()",
        "z = torch.relu(x)\nloss = F.mse_loss(model(x) * z[0, None][0], y) if False else F.mse_loss(model(z[0]), y[0])",
        "a, b = model(x).chunk(2, 1)\nloss = F.mse_loss(a[0], y[0])",
    ],
)
def test_one_sample_of_a_tensor(line: str) -> None:
    """One process would take the first of the batch; each rank takes the first of its share."""
    before = training(line)
    assert len(links(before)) == 1


def test_the_place_is_named() -> None:
    before = training("output = model(x)\nloss = F.mse_loss(output[0], y[0])")
    assert links(before) == [line_of(before, "output[0]")]


@pytest.mark.parametrize(
    "body", ["return self.out(x)", "return self.out(x) + x[:, :1]", "return self.out(self.core(x)[0])"]
)
def test_one_sample_of_what_a_model_of_the_script_returns(body: str) -> None:
    assert len(links(training("loss = F.mse_loss(model(x)[0], y[0])", NET.format(body=body)))) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "loss = F.mse_loss(model(x)[0], y)",
        "output = model(x)\nloss = F.mse_loss(output[0], y) + output[1].mean()",
        "first, second = model(x)\nloss = F.mse_loss(first, y)",
    ],
)
@pytest.mark.parametrize(
    "body", [RETURNED, "return [self.out(x), x]", "h = self.core(x)[0]\n        return self.out(h), x"]
)
def test_parts_of_a_tuple(lines: str, body: str) -> None:
    assert links(training(lines, NET.format(body=body))) == []


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        ("out = model(x)\nloss = F.mse_loss(out[0][:, :1], y)", "model = nn.GRU(4, 4, batch_first=True)\n"),
        ("loss = F.mse_loss(model(x).chunk(2, 1)[0], y)", "model = nn.Linear(4, 2)\n"),
        ("loss = F.mse_loss(model(x).max(1)[0], y[:, 0])", "model = nn.Linear(4, 2)\n"),
        ("loss = F.mse_loss(model(x)[:, 0], y[:, 0])", "model = nn.Linear(4, 2)\n"),
        ("loss = F.mse_loss(model(x)[0].mean(1), y)", 'model = BertModel.from_pretrained("bert-base-uncased")\n'),
        ("loss = F.mse_loss(model(x), y)\nstr(model(x)[0])", "model = nn.Linear(4, 1)\n"),
    ],
)
def test_what_is_seen_to_be_a_tuple_or_does_not_matter(lines: str, model: str) -> None:
    assert links(training(lines, model)) == []


ATTENTION = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(2, 12), nn.Linear(8, 1)

    def forward(self, x):
        h = self.qkv(x.view(-1, 2, 2))
        {line}
        return self.out(h.flatten(1))


model = Net()
"""


SEVERAL = [
    "q, k, v = (t.view(-1, 2, 2, 2).transpose(1, 2) for t in h.split(4, dim=2)); h = q @ k.transpose(-2, -1) @ v",
    "q, k, v = [t.transpose(1, 2) for t in h.chunk(3, dim=-1)]; h = (q * k + v).transpose(1, 2)",
    "q, k, v = map(lambda t: t.view(-1, 2, 2, 2), h.chunk(3, dim=-1)); h = F.softmax(q @ k.mT, dim=-1) @ v",
]
PARTS = [
    "h = torch.cat([t - t.mean(0) for t in h.chunk(2)])[:, :, :4]",
    "h = torch.stack([t - h.mean(0) for t in h])[:, :, :4]",
    "a, b = (t for t in h.chunk(2)); h = torch.cat([a, b - a])[:, :, :4]",
]


@pytest.mark.parametrize("line", [*SEVERAL, *PARTS])
def test_what_a_comprehension_goes_through(line: str) -> None:
    """Several tensors, each with all samples; or parts of a batch."""
    before = script(imports=MORE, model=ATTENTION.format(line=line))
    rung = Strategy.SHARDED if line in SEVERAL else Strategy.SHARED
    assert conversion_of(before, options=Options()).strategy is rung


@pytest.mark.parametrize(
    "head",
    [
        'for batch in loader:\n        x, y = batch["x"], batch["y"][0]',
        "for batch in loader:\n        x, y = batch[0], batch[1][0]",
        "for x, y in loader:\n        y = y[0]",
    ],
)
def test_one_sample_of_a_part_of_what_a_loader_gives(head: str) -> None:
    assert len(links(script(imports=MORE, loop=LOOP.replace("for x, y in loader:", head)))) == 1


@pytest.mark.parametrize(
    "head",
    [
        "for batch in loader:\n        x, y = batch[0], batch[1]",
        "for batch in loader:\n        x = batch[0]\n        y = batch[1]",
    ],
)
def test_parts_of_what_a_loader_gives(head: str) -> None:
    loop = LOOP.replace("for x, y in loader:", head)
    assert links(script(imports=MORE, loop=loop)) == []


VIEWS = """\
class Views(Dataset):
    def __init__(self, two=True, transform=None):
        self.x, self.y = torch.randn(64, 4), torch.randn(64, 1)
        self.two, self.transform = two, transform

    def __len__(self):
        return len(self.y)

    def look(self, x):
        return [x * 0.9, x * 1.1]

    def __getitem__(self, i):
        x, y = self.x[i], self.y[i]
        {body}


class Pair:
    def __init__(self, base):
        self.base = base

    def __call__(self, x):
        return {pair}


data = {data}
"""
OF_BOTH = "F.mse_loss(model(x[0]), y) + F.mse_loss(model(x[1]), y)"


def of_views(body: str, data: str = "Views()", pair: str = "[self.base(x), self.base(x)]", loss: str = OF_BOTH) -> str:
    imports = f"{MORE}import torchvision\nfrom torch.utils.data import Dataset, Subset\n"
    made = VIEWS.format(body=body.replace("\n", "\n        "), data=data, pair=pair)
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", loss)
    return script(imports=imports, data=made, loop=loop)


PAIR = "Views(transform=Pair(torch.relu))"


@pytest.mark.parametrize(
    ("body", "data"),
    [
        ("return [x, x * 2], y", "Views()"),
        ("return (x, x * 2), y", "Subset(Views(), range(32))"),
        ("views = [x, x * 2]\nreturn views, y", "Views()"),
        ("views = []\nfor k in range(2):\n    views.append(x * k)\nreturn views, y", "Views()"),
        ("return [x * k for k in range(2)], y", "Views()"),
        ("return self.look(x), y", "Views()"),
        ("if self.two:\n    return [x, x * 2], y\nreturn x, y", "Views()"),
        ("if not self.two:\n    return x, y\nelse:\n    return [x, x * 2], y", "Views()"),
        ("if self.transform is not None:\n    return self.transform(x), y\nreturn x, y", PAIR),
        ("x = self.transform(x)\nreturn x, y", PAIR),
        ("with torch.no_grad():\n    return self.transform(x), y", PAIR),
        ("", "torchvision.datasets.FakeData(transform=Pair(torch.relu))"),
    ],
)
def test_parts_of_what_a_data_set_returns_for_a_sample(body: str, data: str) -> None:
    """Of a list of two views for each sample, a batch has a list of two tensors."""
    assert links(of_views(body or "return x, y", data)) == []


@pytest.mark.parametrize(
    ("body", "data", "pair"),
    [
        ("return x, y", "Views()", "x"),
        ("return torch.stack([x, x * 2]), y", "Views()", "x"),
        ("views = [x, x * 2]\nviews = torch.stack(views)\nreturn views, y", "Views()", "x"),
        ("if self.two:\n    return [x, x * 2], y\nreturn x, y", "Views(two=False)", "x"),
        ("if i > 3:\n    x = [x, x * 2]\nreturn x, y", "Views()", "x"),
        ("if len(x) > 3:\n    return [x, x * 2], y\nreturn x, y", "Views()", "x"),
        ("return self.transform(x), y", PAIR, "torch.stack([self.base(x), self.base(x)])"),
        ("", "torchvision.datasets.FakeData(transform=torchvision.transforms.ToTensor())", "x"),
        ("", "torchvision.datasets.VOCDetection('voc', transform=Pair(torch.relu))", "[x, x]"),
    ],
)
def test_one_sample_of_what_is_not_seen_to_be_a_list(body: str, data: str, pair: str) -> None:
    assert len(links(of_views(body or "return x, y", data, pair))) == 1


def test_one_sample_of_a_view() -> None:
    before = of_views("return [x, x * 2], y", loss="F.mse_loss(model(x[0]), y) + x[1][0].mean()")
    assert links(before) == [line_of(before, "x[1][0]")]


@pytest.mark.parametrize("listed", ["x", "list(x)", "tuple(x)", "[*x]"])
def test_views_behind_each_other(listed: str) -> None:
    loss = f"model(torch.cat({listed})).chunk(2)[0].std()"
    assert links(of_views("return [x, x * 2], y", loss=loss)) == []


def test_a_table_of_views() -> None:
    before = of_views('return {"views": [x, x * 2], "y": y}')
    before = before.replace("for x, y in loader:", 'for batch in loader:\n        x, y = batch["views"], batch["y"]')
    assert links(before) == []
