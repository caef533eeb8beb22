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


# ---- rows that are followed through functions, lists and models

POOL = """\
class Pool:
    def __init__(self, size=8):
        self.size = size
        self.images = []

    def query(self, images):
        if self.size == 0:
            return images
        chosen = []
        for image in images:
            image = torch.unsqueeze(image.data, 0)
            if len(self.images) < self.size:
                self.images.append(image)
                chosen.append(image)
            elif random.random() > 0.5:
                place = random.randrange(self.size)
                old = self.images[place].clone()
                self.images[place] = image
                chosen.append(old)
            else:
                chosen.append(image)
        return torch.cat(chosen, 0)


"""
NETS = """\
class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8), nn.ReLU())
        self.wide = nn.ConvTranspose2d(8, 8, 3)
        self.up = nn.Sequential(nn.Conv2d(16, 3, 1), nn.Tanh())

    def forward(self, x):
        y = self.wide(self.down(x))
        y = F.pad(y, (0, x.size(3) - y.size(3), 0, 0))
        return self.up(torch.cat([y, y], dim=1))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 4, 1, 1))

    def forward(self, x):
        return self.body(x)


def hinge(net, real, fake):
    return F.relu(1 - net(real)).mean() + F.relu(1 + net(fake)).mean()


"""
QUERY = "pool.query(fake.detach())"


def adversarial(*changes: tuple[str, str], size: str = "batch_size=1", given: str = QUERY, pool: str = POOL) -> str:
    """A generator and a critic, which is also shown images of earlier steps."""
    data = "data = TensorDataset(torch.rand(24, 3, 16, 16), torch.rand(24, 3, 16, 16))\n"
    made = "make, critic, pool = Generator(), Critic(), Pool()\n"
    optimizers = "".join(f"for_{one} = torch.optim.Adam({one}.parameters())\n" for one in ("make", "critic"))
    loop = f"""\
for a, b in DataLoader(data, {size}, shuffle=True):
    fake = make(a)
    loss = -critic(fake).mean()
    for_make.zero_grad()
    loss.backward()
    for_make.step()
    shown = {given}
    loss = hinge(critic, b, shown)
    for_critic.zero_grad()
    loss.backward()
    for_critic.step()
"""
    script = f"{IMPORTS}import random\n{FUNCTIONS}\n\n{pool}{NETS}{data}{made}{optimizers}{loop}"
    for old, new in changes:
        assert script.count(old) == 1
        script = script.replace(old, new)
    return script


ONCE = "        return torch.cat(chosen, 0)\n"


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (QUERY, []),
        ("fake.detach()", []),
        ("b + 0.1 * torch.randn_like(b)", []),
        ("torch.tanh(fake.detach() * 0.9).clamp(-1, 1)", []),
        ("F.interpolate(fake.detach(), size=(16, 16))", []),
        ("torch.stack([fake.detach()[:, 0]] * 3, dim=1)", []),
        ("torch.cat([fake.detach()], 0)", []),
        ("torch.rand(1, 3, 16, 16)", []),
        ("blur(fake.detach())", [("class Pool", "blur = torchvision.transforms.GaussianBlur(3)\n\n\nclass Pool"),
                                 ("import random\n", "import random\n\nimport torchvision\n")]),
        ("torch.fft.fft2(fake.detach(), dim=(-2, -1)).abs()", []),
        (QUERY, [("        if self.size == 0:\n            return images\n", "")]),
    ],
)  # fmt: skip
def test_what_is_made_of_one_row_has_one(given: str, changes: list[tuple[str, str]]) -> None:
    (message,) = declined(adversarial(*changes, given=given))
    assert message.startswith("each forward pass of `make` is given one sample (")
    (finding,) = conversion_of(adversarial(*changes, given=given), options=SHARED).of(Level.BLOCKING)
    assert "--scale linear" in (finding.fix or "")
    assert declined(adversarial(*changes, given=given), Options(strategy="shared", scale="linear")) == []


SIZES = ["batch_size=2", "batch_size=size", "batch_size=1, collate_fn=together", "batch_sampler=drawn"]


@pytest.mark.parametrize("size", SIZES)
def test_larger_batches_have_more(size: str) -> None:
    head = ("import random\n", "import random\nfrom makers import drawn, size, together\n")
    found = adversarial(head, size=size)
    assert declined(found.replace(", shuffle=True", "") if "sampler" in size else found) == []


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        ("torch.cat([fake.detach(), a])", []),
        ("torch.cat([fake.detach(), a], 0)", []),
        ("torch.cat([fake.detach(), a], where)", [("data = ", "from makers import where\n\ndata = ")]),
        ("torch.stack([fake.detach()[0], a[0]])", []),
        ("fake.detach().repeat(4, 1, 1, 1)", []),
        ("fake.detach().expand(8, -1, -1, -1)", []),
        ("fake.detach().squeeze(0)[:, None].repeat(1, 3, 1, 1)", []),
        ("fake.detach().reshape(-1, 3, 4, 4)", []),
        ("fake.detach().unfold(2, 4, 4).reshape(4, 3, 4, 16)", []),
        ("fake.detach() + torch.randn(8, 3, 16, 16)", []),
        ("fake.detach() * noise", [("data = ", "from makers import noise\n\ndata = ")]),
        ("F.pad(fake.detach(), (0, 0, 0, 0, 0, 0, 0, 3))", []),
        ("torch.fft.fftn(fake.detach(), (8, 3, 16, 16)).real", []),
        ("changed(fake.detach())", [("data = ", "from makers import changed\n\ndata = ")]),
        ("[part for part in fake.detach()][0]", []),
        ("torch.cat(pool.images)", []),
        ("torch.cat([pool.query(fake.detach()) for _ in range(4)])", []),
        # several things are put into the list
        (QUERY, [("                chosen.append(old)\n", "                chosen.append(old)\n" * 2)]),
        (QUERY, [("            else:\n                chosen.append(image)\n", "            chosen.append(image)\n")]),
        (QUERY, [("chosen = []", "chosen = [images]")]),
        (QUERY, [(ONCE, f"        chosen += self.images\n{ONCE}")]),
        (QUERY, [(ONCE, f"        chosen.extend(self.images)\n{ONCE}")]),
        (QUERY, [(ONCE, f"        random.shuffle(chosen)\n{ONCE}")]),
        (QUERY, [("for image in images:", "for image in self.images:")]),
        (QUERY, [("for image in images:", "while len(chosen) < 3:\n            image = images[0]")]),
        (QUERY, [("        for image in images:", "        for image in [*images, *images]:")]),
        # of a bag, of patches
        ("b", [("    fake = make(a)\n", "    b = b.squeeze(0)\n    fake = make(a)\n")]),
        ("b", [("    fake = make(a)\n", "    b = b.view(-1, 3, 4, 4)\n    fake = make(a)\n")]),
        ("b", [("    fake = make(a)\n", "    b = b[0]\n    fake = make(a)\n")]),
        ("b", [("    fake = make(a)\n", "    b.squeeze_(0)\n    fake = make(a)\n")]),
    ],
)  # fmt: skip
def test_what_may_have_more_rows_is_no_refusal(given: str, changes: list[tuple[str, str]]) -> None:
    assert declined(adversarial(*changes, given=given)) == []


def test_a_buffer_that_one_row_is_copied_into_has_its_own() -> None:
    head = ("data = ", "rows = torch.zeros(8, 3, 16, 16)\ndata = ")
    assert declined(adversarial(head, ("    shown = rows", "    rows.copy_(b)\n    shown = rows"), given="rows")) == []


def test_batches_that_an_option_makes_larger_are_told_by_its_name() -> None:
    """By default they are of one sample; whoever gives the option has larger ones."""
    parser = "parser = argparse.ArgumentParser()\nparser.add_argument('--size', type=int, default=1)"
    head = f"import argparse\n\n{parser}\ndata = "
    before = adversarial(("data = ", head), size="batch_size=parser.parse_args().size")
    found = conversion_of(before, options=SHARED)
    assert not found.of(Level.BLOCKING)
    told = [one.message for one in found.of(Level.ADVICE) if "the option `size`" in one.message]
    assert len(told) == 1


@pytest.mark.parametrize(("scale", "count"), [("global", 1), ("linear", 0)])
def test_a_batch_that_grows_is_not_told_to_be_of_one_sample(scale: str, count: int) -> None:
    before = training("x", over="x, y in DataLoader(data, batch_size=1)")
    found = conversion_of(before, options=Options(strategy="shared", scale=scale))
    advice = [one.message for one in found.of(Level.ADVICE) if "is given one sample" in one.message]
    assert len(advice) == count
