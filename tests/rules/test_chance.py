"""SEED01: inside of a shared forward pass ranks draw apart, but for what is drawn once for the whole batch."""

from __future__ import annotations

import pytest
from distify_codemods import OptionError, Options

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, script

SHARED = Options(strategy="shared")
IMPORTED = f"{IMPORTS}import random\nimport numpy as np\n"
ALIKE = "with rt.draw_alike():"
KEPT = "for b in [b for b, d in zip(self.blocks, drop) if not d]:\n    x = b(x)"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
{body}        return self.out(x)


model = Net()
"""


def forward(body: str) -> str:
    return script(imports=IMPORTED, model=NET.format(body="".join(f"        {line}\n" for line in body.splitlines())))


def body_of(text: str) -> str:
    """What became of the forward pass."""
    lines = text.partition("def forward(self, x):\n")[2].partition("        return self.out(x)\n")[0].splitlines()
    return "\n".join(line.removeprefix("        ") for line in lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "if random.random() < 0.5:\n    x = x * 2",
            f"{ALIKE}\n    drawn = random.random() < 0.5\nif drawn:\n    x = x * 2",
        ),
        (
            "if self.training and random.random() < 0.5:\n    x = x * 2",
            f"{ALIKE}\n    drawn = self.training and random.random() < 0.5\nif drawn:\n    x = x * 2",
        ),
        (
            "x = self.blocks[0](x) if torch.rand(1) < 0.5 else x",
            f"{ALIKE}\n    drawn = torch.rand(1) < 0.5\nx = self.blocks[0](x) if drawn else x",
        ),
        (
            "for _ in range(random.randint(1, 3)):\n    x = x * 2",
            f"{ALIKE}\n    drawn = range(random.randint(1, 3))\nfor _ in drawn:\n    x = x * 2",
        ),
        ("x = x * np.random.uniform(0.9, 1.1)", f"{ALIKE}\n    x = x * np.random.uniform(0.9, 1.1)"),
        (
            "scale = torch.empty(1).uniform_(0.9, 1.1)\nx = x * scale",
            f"{ALIKE}\n    scale = torch.empty(1).uniform_(0.9, 1.1)\nx = x * scale",
        ),
        (
            "scale = x.new_zeros((1, 1)).normal_()\nx = x * scale",
            f"{ALIKE}\n    scale = x.new_zeros((1, 1)).normal_()\nx = x * scale",
        ),
        (
            "scale = self.scale.uniform_(0.9, 1.1).item()\nx = x * scale",
            f"{ALIKE}\n    scale = self.scale.uniform_(0.9, 1.1).item()\nx = x * scale",
        ),
        ("x = random.choice(self.blocks)(x)", f"{ALIKE}\n    drawn = random.choice(self.blocks)\nx = drawn(x)"),
        ("order = torch.randperm(4)\nx = x[:, order]", f"{ALIKE}\n    order = torch.randperm(4)\nx = x[:, order]"),
        (
            f"drop = torch.zeros(3).uniform_() < 0.5\n{KEPT}",
            f"{ALIKE}\n    drop = torch.zeros(3).uniform_() < 0.5\n{KEPT}",
        ),
        (
            "if all(torch.rand(3) < 0.5):\n    keep = random.randrange(3)\n    x = x * keep",
            f"{ALIKE}\n    drawn = all(torch.rand(3) < 0.5)\n"
            f"if drawn:\n    {ALIKE}\n        keep = random.randrange(3)\n    x = x * keep",
        ),
        (
            "if self.training: x = x * random.random()",
            f"{ALIKE}\n    if self.training: x = x * random.random()",
        ),
        (  # what is computed of it draws nothing
            "keep = random.random() < 0.5\nif keep:\n    x = torch.cat([x, x * keep])[:8]",
            f"{ALIKE}\n    keep = random.random() < 0.5\nif keep:\n    x = torch.cat([x, x * keep])[:8]",
        ),
        (
            "scale = random.random()\nif scale > 0.5: x = x.view(-1, 4) * scale",
            f"{ALIKE}\n    scale = random.random()\nif scale > 0.5: x = x.view(-1, 4) * scale",
        ),
    ],
)
def test_one_draw_for_the_batch_is_alike(before: str, after: str) -> None:
    assert body_of(converted(forward(before), SHARED)) == after


@pytest.mark.parametrize(
    "body",
    [
        "x = x + torch.randn_like(x)",
        "x = x * (torch.rand(x.shape[0], 1) > 0.1)",
        "x = x * torch.empty(x.shape[0], 1).uniform_(0.9, 1.1)",
        "x = x * torch.empty_like(x).uniform_(0.9, 1.1)",
        "x = torch.stack([row * random.random() for row in x])",
        "x = nn.functional.dropout(x)",
        "e = torch.rand_like(x)\nif e is not None:\n    x = x + e",
        "if x.mean() > 0:\n    x = x * random.random()",
        "x = x * 2",
    ],
)
def test_each_rank_draws_for_its_own_samples(body: str) -> None:
    """And where only some ranks may come, none waits for a draw of the others."""
    assert body_of(converted(forward(body), SHARED)) == body


BY_HAND = """\
for step in range(3):
    x = torch.randn(8, 4)
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def of_no_batch(body: str) -> str:
    """What a model is given is no batch that is recognised."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return script(imports=IMPORTED, data="", loader="", model=NET.format(body=lines), loop=BY_HAND)


USED = "if mask.sum() > 0:\n    x = x * mask[:, None]"


@pytest.mark.parametrize(
    "body",
    [
        f"b, l = x.shape\nmask = torch.rand(b, l).mean(1) < 0.5\n{USED}",
        f"mask = torch.rand(x.shape[0]) < 0.5\n{USED}",
        f"mask = torch.rand(x.shape[:1]) < 0.5\n{USED}",
        f"h = self.out(x)\nmask = torch.randint(0, 2, (len(h),))\n{USED}",
        f"mask = torch.rand_like(x).mean(1) < 0.5\n{USED}",
        f"n = x.size(0)\nmask = torch.empty((n,) + (1,) * 0).uniform_() < 0.5\n{USED}",
        f"mask = torch.bernoulli(torch.full((x.shape[0],), 0.5))\n{USED}",
    ],
)
def test_a_draw_for_each_row_is_no_draw_for_all(body: str) -> None:
    """Else sample k of each rank's part would have the same."""
    assert body_of(converted(of_no_batch(body), SHARED)) == body


@pytest.mark.parametrize(
    ("count", "is_for_rows"), [("x.shape[0]", True), ("len(x)", True), ("count=x.size(0)", True), ("x.shape[1]", False)]
)
def test_a_method_that_is_told_how_many_rows_there_are(count: str, is_for_rows: bool) -> None:
    draw = (
        "    def draw(self, count):\n        mask = torch.rand(count, 4) < 0.5\n        return mask\n\n    def forward"
    )
    before = of_no_batch(f"mask = self.draw({count})\nif mask.sum() > 0:\n    x = x * mask[:1]").replace(
        "    def forward", draw, 1
    )
    assert (ALIKE not in converted(before, SHARED)) is is_for_rows


@pytest.mark.parametrize(
    "body",
    [
        "mask = torch.rand(x.shape[1]) < 0.5\nif mask.sum() > 0:\n    x = x * mask",
        "mask = torch.rand(self.out.weight.shape[1]) < 0.5\nif mask.sum() > 0:\n    x = x * mask",
        "mask = torch.rand_like(self.out.weight)[0] < 0.5\nif mask.sum() > 0:\n    x = x * mask",
        "mask = torch.randint(0, x.shape[0], (4,))\nif mask.sum() > 0:\n    x = x * mask",
    ],
)
def test_a_draw_that_has_no_row_for_each_is_for_all(body: str) -> None:
    drawn, *rest = body.splitlines()
    assert body_of(converted(of_no_batch(body), SHARED)) == "\n".join([ALIKE, f"    {drawn}", *rest])


def test_outside_of_models_all_is_drawn_alike_anyway() -> None:
    step = "        optimizer.zero"
    loop = LOOP.replace(step, f"        if random.random() < 0.5:\n            continue\n{step}")
    assert ALIKE not in converted(script(imports=IMPORTED, loop=loop), SHARED)


def test_nothing_of_it_with_sharded_data() -> None:
    after = converted(forward("if random.random() < 0.5:\n    x = x * 2"))
    assert ALIKE not in after
    assert "if rt.from_main_process(random.random() < 0.5):" in after


@pytest.mark.parametrize("options", [SHARED, Options()])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "steps = lottery.draw(x)  # distify: draw-alike\nx = x * steps",
            f"{ALIKE}\n    steps = lottery.draw(x)  # distify: draw-alike\nx = x * steps",
        ),
        (
            "if lottery.says():  # distify: draw-alike\n    x = x * 2",
            f"{ALIKE}\n    drawn = lottery.says()\nif drawn:  # distify: draw-alike\n    x = x * 2",
        ),
    ],
)
def test_a_comment_says_that_a_draw_is_alike(options: Options, before: str, after: str) -> None:
    text = forward(before).replace("import random\n", "import random\nimport lottery\n")
    assert body_of(converted(text, options)) == after


def test_a_comment_about_a_line_that_cannot_draw_alike_is_an_error() -> None:
    with pytest.raises(OptionError, match="`# distify: draw-alike` is about a line that draws, an `if` or a `for`"):
        converted(forward("while random.random() < 0.5:  # distify: draw-alike\n    x = x * 2"), SHARED)


def decides(body: str) -> bool:
    findings = conversion_of(forward(body), strategy="auto").findings
    return any("decides by chance what the model computes" in one.message for one in findings)


@pytest.mark.parametrize(
    "body",
    [
        "e = x + torch.randn_like(x)\nif e.ndim == 3:\n    e = e.squeeze(1)\nif e.shape != x.shape:\n    x = x * 2",
        "e = torch.rand_like(x)\nif e.dim() == 3:\n    e = e.squeeze(1)\nif len(e.shape) > 2:\n    x = x * 2",
        "e = torch.rand_like(x)\nif e.dtype != x.dtype:\n    e = e * 2\nif e.shape[1] != 4:\n    x = x * 2",
        "places = random.sample(range(4), 2)\nif len(places) > 2:\n    x = x * 2",
        "places = random.choices(range(4), k=2)\nif len(places) > 2:\n    x = x * 2",
        "import einops\ne = einops.rearrange(torch.rand_like(x), 'n (a b) -> n a b', a=2)\n"
        "if e.shape[1] > 2:\n    x = x * 2",
    ],
)
def test_a_form_that_is_not_drawn_decides_nothing_by_chance(body: str) -> None:
    assert not decides(body)


@pytest.mark.parametrize(
    "body",
    [
        "e = torch.zeros(random.randint(1, 3))\nif e.shape[0] > 1:\n    x = x * 2",
        "e = torch.rand(4)\ne = e[e > 0.5]\nif e.shape[0] > 1:\n    x = x * 2",
        "e = (torch.rand(4) > 0.5).nonzero()\nif len(e) > 1:\n    x = x * 2",
        "e = random.sample([torch.zeros(1, 4), torch.zeros(2, 4)], 1)[0]\nif e.shape[0] > 1:\n    x = x * 2",
        "places = random.sample(range(4), random.randint(1, 3))\nif len(places) > 2:\n    x = x * 2",
        "places = random.choices(range(4), k=random.randint(1, 3))\nif len(places) > 2:\n    x = x * 2",
        "import einops\ne = einops.repeat(torch.rand_like(x), 'n f -> n (f k)', k=random.randint(1, 3))\n"
        "if e.shape[1] > 4:\n    x = x * 2",
        "import strange\nis_long = strange.cut(torch.rand_like(x)).shape[1] > 2\nif is_long:\n    x = x * 2",
    ],
)
def test_a_form_that_is_drawn_decides_by_chance(body: str) -> None:
    """Then all take what rank 0 has drawn, or forward passes are shared."""
    after = conversion_of(forward(body), strategy="auto").files[0].after.decode()
    assert decides(body) or "rt.from_main_process(" in body_of(after)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "e = torch.rand_like(x)\nis_long = e[e > 0.5].shape[0] > x.mean()\nif is_long:\n    x = x * 2",
            "`is_long = e[e > 0.5].shape[0] > x.mean()` perhaps decides by chance what the model computes, since "
            "random numbers may say how many entries there are,",
        ),
        (
            "e = torch.rand(4)\nfor row in x[:, e > 0.5].t():\n    x = x + row",
            "`x[:, e > 0.5].t()` perhaps decides by chance what the model computes, since random numbers may say how "
            "many entries there are,",
        ),
    ],
)
def test_what_decides_is_told(body: str, said: str) -> None:
    messages = [one.message for one in conversion_of(forward(body), strategy="auto").findings]
    assert any(said in one for one in messages), messages


DECODER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(1, 1)

    def forward(self, x):
        state = x[0]
        for step in range(1, {count}):
            state = self.cell(x[step], state)
            if random.random() < 0.5:
                state = x[step]
        return state


model = Net()
"""


@pytest.mark.parametrize(
    ("given", "count", "alike"),
    [
        ("x.t().unsqueeze(2)", "x.shape[0]", True),
        ("x.t().unsqueeze(2)", "x.size(0)", True),
        ("x.t().unsqueeze(2)", "len(x)", True),
        ("x.unsqueeze(2)", "x.shape[0]", False),
        ("x.unsqueeze(2)", "len(x)", False),
        ("x.unsqueeze(2)", "x.shape[1]", True),
        ("x.t().unsqueeze(2)", "x.shape[1]", False),
    ],
)
def test_steps_of_time_are_no_samples(given: str, count: str, alike: bool) -> None:
    before = script(
        imports=IMPORTED, model=DECODER.format(count=count), loop=LOOP.replace("model(x)", f"model({given})")
    )
    assert (ALIKE in converted(before, SHARED)) is alike
