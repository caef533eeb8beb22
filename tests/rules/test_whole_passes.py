"""DECIDE01: what every rank evaluates whole is the same on all ranks, whatever draws random numbers for it."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import IMPORTS, LOOP, converted, findings, indented, script

DRAWING = f"""{IMPORTS}import random
import numpy as np
import albumentations as A
import torch.nn.functional as F


class Rows(torch.utils.data.Dataset):
    def __init__(self, transform=None):
        self.x, self.transform = torch.randn(64, 4), transform

    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = self.x[index]
        GET
        return x, x[:1]


"""
LOADERS = """\
loader = DataLoader(data, batch_size=8, shuffle=True)
other = DataLoader(REST, batch_size=8)
"""
PLATEAU = "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
MEAN = """\
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in other:
            total += nn.functional.mse_loss(model(x), y).item()
    sched.step(total / len(other))
    model.train()
"""
ALIKE = "in rt.alike(other):\n"
SENT = "in rt.from_main_process_each(other):\n"


def rows(get: str, rest: str = "Rows()", loop: str = LOOP + MEAN, loaders: str = LOADERS) -> str:
    imports = DRAWING.replace("GET", get)
    return script(imports=imports, loader=loaders.replace("REST", rest), loop=PLATEAU + loop)


@pytest.mark.parametrize(
    "get",
    [
        "x = x.flip(-1) if np.random.rand() > 0.5 else x",
        "x = x * random.random()",
        "x = x + torch.randn_like(x)",
        "x = x + torch.empty(4).uniform_()",
        "x = flipped(x)",
        "x = AUGMENT(x)",
        "x = self.transform(x)",
    ],
)
def test_samples_that_are_drawn(get: str) -> None:
    """By the data set, a function that it calls, an object that it names, or one that it was given."""
    before = rows(get, "Rows(T.RandomCrop(4))" if "transform" in get else "Rows()")
    more = "import torchvision.transforms as T\nAUGMENT = T.RandomCrop(4)\n"
    more += "def flipped(x):\n    return x if random.random() < 0.5 else -x\n\n\n"
    after = converted(before.replace("class Rows", f"{more}class Rows"))
    assert ALIKE in after
    assert "for x, y in loader:\n" in after


@pytest.mark.parametrize(
    ("get", "rest"),
    [
        ("x = x / x.norm()", "Rows()"),
        ("x = self.transform(x)", "Rows(torch.abs)"),
        ("x = torch.from_numpy(np.sqrt(x.numpy()))", "torch.utils.data.Subset(Rows(), range(8))"),
        ("x = x + torch.randn_like(x)", "TensorDataset(torch.randn(8, 4), torch.randn(8, 1))"),
    ],
)
def test_samples_that_are_not_drawn(get: str, rest: str) -> None:
    before = rows(get, rest)
    after = converted(before)
    assert MEAN.replace("model(x)", "model.module(x)") in after
    assert "every decision is the same" in findings("DECIDE01", before, Level.NOT_NEEDED)[0].message


def test_an_evaluation_in_shares_is_left_alone() -> None:
    """Its sums are over all ranks."""
    loop = LOOP + MEAN.replace("y).item()", 'y, reduction="sum").item()').replace("len(other)", "64")
    after = converted(rows("x = x * random.random()", loop=loop))
    assert "rt.all_reduce_sum(total)" in after
    assert "rt.alike" not in after


@pytest.mark.parametrize(
    ("old", "new", "alike"),
    [
        ("    model.eval()\n", "", True),
        ("    model.eval()\n", "    model.train()\n", True),
        ("model(x)", "F.dropout(model(x))", True),
        ("model(x)", "F.dropout(model(x), training=False)", False),
        ("model(x)", "model(x + torch.rand(1))", True),
        ("model(x)", "F.relu(model(x))", False),
    ],
)
def test_what_is_drawn_beside_the_samples(old: str, new: str, alike: bool) -> None:
    """Dropout of a model that nobody has put into eval mode; noise that is added."""
    before = rows("pass", loop=LOOP + MEAN.replace(old, new))
    after = converted(before.replace("nn.Linear(4, 1)", "nn.Sequential(nn.Linear(4, 1), nn.Dropout())"))
    assert (ALIKE in after) is alike


def test_a_function_that_is_called_before_training_too() -> None:
    function = "def validate(rest):\n    model.eval()\n    return sum(model(x).mean().item() for x, y in rest)\n\n\n"
    loop = f"{function}validate(other)\n{LOOP}    sched.step(validate(other))\n"
    assert "for x, y in rt.alike(rest))" in converted(rows("x = x * random.random()", loop=loop))


def test_functions_and_comprehensions() -> None:
    function = "def validate(rest):\n    model.eval()\n    return sum(model(x).mean().item() for x, y in rest)\n\n\n"
    loop = f"{function}{LOOP}    sched.step(validate(other))\n"
    assert "for x, y in rt.alike(rest))" in converted(rows("x = x * random.random()", loop=loop))


@pytest.mark.parametrize(("mode", "alike"), [("train", True), ("eval", False)])
def test_samples_without_a_loader(mode: str, alike: bool) -> None:
    loop = LOOP + MEAN.replace("in other", "in rest.split(8)").replace("x, y in", "x in").replace(", y)", ", x[:, :1])")
    setup = LOADERS + "rest = torch.ones(16, 4)\n"
    before = rows(
        "pass", loop=loop.replace("model.eval()", f"model.{mode}()").replace("len(other)", "2"), loaders=setup
    )
    after = converted(before.replace("nn.Linear(4, 1)", "nn.Sequential(nn.Linear(4, 1), nn.Dropout())"))
    assert ("for x in rt.alike(rest.split(8)):\n" in after) is alike


def test_the_training_data() -> None:
    loop = LOOP + MEAN.replace("other", "loader")
    before = rows("x = x * random.random()", loop=loop).replace("data = Tensor", "data = Rows() or Tensor")
    assert "in rt.alike(rt.whole_loader(loader)):\n" in converted(before)


BY_HAND = MEAN.replace("for x, y in other:", "rest = iter(other)\n        for _ in range(4):").replace(
    "            total", "            x, y = next(rest)\n            total"
)
IN_STEPS = (
    "        x, y = next(iter(other))\n        with torch.no_grad():\n            sched.step(model(x).mean().item())\n"
)


@pytest.mark.parametrize(
    ("loop", "after"),
    [
        (LOOP + BY_HAND, "x, y = rt.from_main_process(next(rest))\n"),
        (LOOP + IN_STEPS, "x, y = rt.from_main_process(next(iter(other)))\n"),
    ],
)
def test_batches_that_are_taken_by_hand(loop: str, after: str) -> None:
    assert after in converted(rows("x = x.flip(-1) if random.random() > 0.5 else x", loop=loop))
    plain = rows("x = x.flip(-1)", loop=loop).replace("nn.Linear(4, 1)", "nn.Sequential(nn.Linear(4, 1), nn.Dropout())")
    assert "from_main_process" not in converted(plain)
    assert bool(findings("DECIDE01", plain, Level.ADVICE)) is False


def test_what_is_drawn_beside_batches_that_are_taken_by_hand() -> None:
    before = rows("pass", loop=LOOP + BY_HAND.replace("model(x)", "F.dropout(model(x))"))
    told = [one.message for one in findings("DECIDE01", before, Level.ADVICE)]
    assert told == ["random numbers are drawn while it goes on, on each rank for itself: what is decided by figures of "
                    "this may differ"]  # fmt: skip


@pytest.mark.parametrize("strategy", ["shared", "sharded"])
@pytest.mark.parametrize(
    ("transform", "sent"),
    [
        ("A.Compose([A.HorizontalFlip()])", True),
        ("A.Compose([A.Normalize(), A.Resize(4, 4)])", False),
        ("A.Compose([A.HorizontalFlip()], seed=7)", False),
        ("None", False),
    ],
)
def test_libraries_with_random_numbers_of_their_own(transform: str, sent: bool, strategy: str) -> None:
    before = rows("x = self.transform(image=x)['image']", f"Rows({transform})")
    if "seed" not in transform:
        before = before.replace("data = Tensor", "data = Rows(A.HorizontalFlip()) or Tensor")
    after = converted(before, Options(strategy=strategy))
    assert ("rt.from_main_process_each(other)" in after) is sent
    assert "for x, y in loader:\n" in after


def test_where_all_draw_alike_nothing_is_to_be_done() -> None:
    """Forward passes are shared, or ranks have not gone apart yet."""
    before = rows("x = x * random.random()")
    assert "rt.alike" not in converted(before, Options(strategy="shared"))
    early = rows("x = x * random.random()", loop="".join(f"{line[4:]}\n" for line in MEAN.splitlines()) + LOOP)
    assert "rt.alike" not in converted(early)


def test_output_alone_is_not_sent() -> None:
    shown = indented("for x, y in other:\n    print(x.mean())\n")
    before = rows("x = self.transform(image=x)['image']", "Rows(A.HorizontalFlip())", loop=LOOP + shown)
    assert "from_main_process_each" not in converted(before)
