"""What a class makes is no None: where something is handed in, what stands in for it otherwise is not made."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import DATA, IMPORTS, LOADER, LOOP, OPTIMIZER, conversion_of, converted, indented

OTHER = """\
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)


"""
SAVED = 'torch.save(model.state_dict(), "a.pt")\n'


def handing_in(test: str, made: str, setup: str = "") -> str:
    """A function that trains what it is given, or another model if it is given none."""
    body = indented(f"{test}    model = Other()\n{LOADER}{OPTIMIZER}{LOOP}{SAVED}")
    train = f"def train(model=None):\n{body}\n\n"
    return f"{IMPORTS}\n\n{OTHER}{setup}{train}{DATA}net = {made}\ntrain(net)\n"


@pytest.mark.parametrize(
    ("test", "made"),
    [
        ("if model is None:\n", "nn.Linear(4, 1)"),
        ("if model is None:\n", "nn.Sequential(nn.Linear(4, 1))"),
        ("if model is None:\n", "Other()"),
        ("if model is not None:\n        pass\n    else:\n    ", "Other()"),
        ("if model is None:\n", "torch.compile(Other())"),
        ("if not model:\n", "Other()"),
        ("if not model:\n", "nn.Linear(4, 1)"),
        ("if model == None:\n", "Other()"),
    ],
)
def test_the_default_is_not_made(test: str, made: str) -> None:
    after = converted(handing_in(test.replace("\n    ", "\n"), made))
    assert after.count("DistributedDataParallel(") == 1
    assert "net = DistributedDataParallel(net, " in after
    assert "torch.save(model.module.state_dict()" in after


@pytest.mark.parametrize(
    ("test", "made"),
    [
        ("if model is None:\n", "None"),
        ("if model is None:\n", "Other() if data else None"),
        ("if not model:\n", "Long()"),
        ("if not model:\n", "nn.Sequential()"),
    ],
)
def test_it_may_be_made(test: str, made: str) -> None:
    """None, or what may count as false: there the model is wrapped where it is one or the other."""
    long = "class Long(Other):\n    def __len__(self):\n        return 0\n\n\n"
    after = converted(handing_in(test, made, long))
    assert "    model = DistributedDataParallel(model, " in after
    assert after.count("DistributedDataParallel(") == 1
    assert "torch.save(model.module.state_dict()" in after or "torch.save(rt.unwrap(model).state_dict()" in after


def test_the_second_call_gives_what_the_first_has_made() -> None:
    """A function that makes a model once."""
    get = """\
kept = None


def get():
    global kept
    if kept is None:
        kept = Other()
    return kept


"""
    after = converted(f"{IMPORTS}\n\n{OTHER}{get}{DATA}{LOADER}model = get()\n{OPTIMIZER}{LOOP}print(get())\n")
    assert after.count("DistributedDataParallel(") == 1


CREATES = """\
class Trainer:
    def __init__(self):
        self.model = None

    def create(self):
        self.model = nn.Linear(4, 1)

    def load(self, path):
        if self.model is None:
            self.create()
        self.model.load_state_dict(torch.load(path))


"""
LOADS = 'import os\nif os.path.exists("last.pt"):\n    trainer.load("last.pt")\n'
TRAINS = f"model = trainer.model\n{LOADER}{OPTIMIZER}{LOOP}{SAVED}"


@pytest.mark.parametrize(
    "made",
    [
        "trainer.create()\n",
        "if trainer.model is None:\n    trainer.create()\n",
        "if not trainer.model:\n    trainer.create()\n",
        "trainer.model = Other()\n",
    ],
)
def test_an_attribute_that_has_been_set_is_no_longer_none(made: str) -> None:
    """What reads a checkpoint makes no second model, so that there is one to wrap."""
    after = converted(f"{IMPORTS}\n\n{OTHER}{CREATES}{DATA}trainer = Trainer()\n{made}{LOADS}{TRAINS}")
    assert after.count("DistributedDataParallel(") == 1
    assert "rt.unwrap(" not in after


@pytest.mark.parametrize(
    "made",
    [
        'if os.environ.get("NEW"):\n    trainer.create()\n',
        "for _ in range(count):\n    trainer.create()\n",
        "trainer.create()\ntrainer.model = None\n",
        "try:\n    trainer.create()\nexcept RuntimeError:\n    pass\n",
        "(Trainer() if count else trainer).create()\n",
    ],
)
def test_an_attribute_may_be_none_still(made: str) -> None:
    """It is one model or the other that is trained: each is wrapped."""
    creates = CREATES.replace("            self.create()", "            self.model = Other()")
    setup = f"import os\n{IMPORTS}\n\n{OTHER}{creates}{DATA}count = int(input())\ntrainer = Trainer()\n"
    after = converted(f"{setup}{made}{LOADS}{TRAINS}", Options())
    assert after.count("= DistributedDataParallel(self.model, ") == 2


WEIGHTED = """\
class Weighted(nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        if weight is not None:
            self.register_buffer("weight", weight)
        else:
            self.weight = None

    def forward(self, logits, labels):
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
        if self.weight is None:
            return losses.mean()
        weights = self.weight[labels]
        return (weights * losses).sum() / weights.sum()


criterion = Weighted({weight})
"""


@pytest.mark.parametrize(
    ("weight", "is_plain"), [("torch.tensor([1.0, 9.0])", False), ("weight=torch.ones(2)", False), ("", True)]
)
def test_a_buffer_that_is_registered_is_no_none(weight: str, is_plain: bool) -> None:
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", "criterion(model(x).expand(-1, 2), y.flatten().long())")
    before = f"{IMPORTS}{WEIGHTED.format(weight=weight)}{DATA}{LOADER}model = nn.Linear(4, 1)\n{OPTIMIZER}{loop}"
    assert (conversion_of(before, options=Options()).strategy is Strategy.SHARDED) is is_plain
