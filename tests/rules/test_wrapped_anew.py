"""MODEL01: models that a function makes anew whenever it is called are wrapped there, whichever class it takes."""

from __future__ import annotations

from tests.rules.scripts import converted, script

TRAINER = """
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x)


class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))

    def forward(self, x):
        return self.out(x)


class Trainer:
    def __init__(self, model):
        self.model = {kept}
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(self):
        for x, y in loader:
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()


def train(kind, config):
    if kind == "small":
        model = Small()
    else:
        model = {other}()
    Trainer(model).train()
    torch.save(model.state_dict(), config["name"])


"""
LOOPS = """\
for config in [{"name": "a.pt"}, {"name": "b.pt"}]:
    train("small", config)
for config in [{"name": "c.pt"}]:
    train("large", config)
"""


def wrapped(kept: str, other: str, loop: str = LOOPS) -> str:
    classes = TRAINER.replace("{kept}", kept).replace("{other}", other)
    return converted(script(model=classes, optimizer="", loop=loop))


def test_one_of_two_classes() -> None:
    """A part of the one is called by its own forward, whichever class another call has made."""
    after = wrapped("model", "Large")
    assert "model = DistributedDataParallel(model" in after
    assert "all_reduce_gradients" not in after


def test_moved_before_it_is_trained() -> None:
    loop = "for _ in range(2):\n    Trainer(Small()).train()\n"
    after = wrapped('model.to("cpu")', "Small", loop)
    assert "DistributedDataParallel(self.model" in after
    assert "all_reduce_gradients" not in after


def test_moved_between_two_trainings() -> None:
    """The wrap would not know of it."""
    loop = "model = Small()\nfor config in [1, 2]:\n    Trainer(model).train()\n    model.half().float()\n"
    after = wrapped("model", "Small", loop)
    assert "DistributedDataParallel" not in after
    assert "rt.all_reduce_gradients(self.optimizer)" in after
