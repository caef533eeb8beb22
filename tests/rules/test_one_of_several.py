"""Models of which a run makes one, and a line that makes now a model, now something else."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import LOADER, LOOP, OPTIMIZER, conversion_of, converted, script

BACKENDS = ("allreduce", "horovod")
NETS = """\
class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x)


class Deep(Flat):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def forward(self, x):
        return self.out(torch.relu(self.body(x)))


def flat():
    return Flat()


def deep():
    return Deep()


"""
ARGS = "import sys\n\n"


def after(model: str, backend: str) -> str:
    return converted(script(setup=ARGS, model=NETS + model), Options(backend=backend, strategy="sharded"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "model",
    [
        "if sys.argv[1:]:\n    model = Deep()\nelse:\n    model = Flat()\n",
        "model = Deep() if sys.argv[1:] else Flat()\n",
        "model = globals()[sys.argv[1]]()\n",
        "model = {'deep': deep, 'flat': flat}[sys.argv[1]]()\n",
        "model = {'deep': Deep, 'flat': Flat}[sys.argv[1]]()\n",
    ],
)
def test_whichever_it_is_begins_alike(model: str, backend: str) -> None:
    assert f"{model}rt.broadcast_parameters(model)\n" in after(model, backend)


@pytest.mark.parametrize(
    ("backend", "line"),
    [
        ("horovod", "rt.broadcast_parameters(model)\n"),
        ("ddp", "model = DistributedDataParallel(model, device_ids=rt.device_ids(model))\n"),
    ],
)
def test_or_one_that_was_saved(backend: str, line: str) -> None:
    model = "if sys.argv[1:]:\n    model = torch.load('last.pt')['net']\nelse:\n    model = globals()[sys.argv[2]]()\n"
    batchnorm = "rt.convert_sync_batchnorm(model)\n"  # what was saved may have some
    batchnorm = f"model = {batchnorm}" if line.startswith("model") else batchnorm
    assert f"\nrt.seed_ranks_apart()\n{batchnorm}{line}for epoch in range(3):\n" in after(model, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "model",
    [
        "models = []\nfor make in (flat, deep):\n    model = make()\n    models.append(model)\n",
        "models = [make() for make in (flat, deep)]\nfor model in models:\n    print(model)\n",
        "models = [Deep() if number else Flat() for number in range(2)]\nfor model in models:\n    print(model)\n",
    ],
)
def test_several_that_are_there_at_once_are_all_sent(model: str, backend: str) -> None:
    both = script(
        setup=ARGS, model=NETS + model,
        optimizer="optimizer = torch.optim.SGD([p for one in models for p in one.parameters()], lr=0.1)\n",
        loop=LOOP.replace("model(x)", "models[0](x) + models[1](x)"),
    )  # fmt: skip
    sent = converted(both, Options(backend=backend)).splitlines()
    assert {"rt.broadcast_parameters(models)", "rt.broadcast_parameters(optimizer)"} & set(sent)


MANY = """\
def build(kind):
    if kind == "deep":
        return Deep()
    else:
        return Flat()


def together(kinds):
    return [build(kinds[0]), *together(kinds[1:])] if kinds else []


"""


@pytest.mark.parametrize("backend", ["ddp", *BACKENDS])
@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("models = []\nfor _ in sys.argv:\n    one = Deep()\n    models += [one]\nfirst, second = models\n", "models"),
        ("models = [Deep() for _ in sys.argv]\nfirst, second = models[0], models[1]\n", "models"),
        ("models = {}\nfor n in sys.argv:\n    models[n] = net = Deep()\nfirst, second = models.values()\n", "models"),
        ("first, second = [Deep() for _ in sys.argv]\n", "optimizer"),
        ("first, second = map(build, ['deep', 'flat'])\n", "optimizer"),
        ("first, second = map(build, sys.argv)\n", "optimizer"),
        ("first, second = together(['deep', 'flat'])\n", "optimizer"),
    ],
)  # fmt: skip
def test_one_name_does_not_stand_for_as_many_as_are_asked_for(model: str, sent: str, backend: str) -> None:
    both = script(
        setup=ARGS, model=NETS + MANY + model,
        optimizer="optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)\n",
        loop=LOOP.replace("model(x)", "first(x) + second(x)"),
    )  # fmt: skip
    lines = converted(both, Options(backend=backend)).splitlines()
    assert [line for line in lines if "broadcast_parameters" in line] == [f"rt.broadcast_parameters({sent})"]


@pytest.mark.parametrize(
    ("model", "loop", "before"),
    [
        ("def train(model):\n", "    ", "for _ in sys.argv:\n    train(Deep())\n"),
        ("for model in [Deep() for _ in sys.argv]:\n", "    ", ""),
    ],
)
def test_each_in_its_turn(model: str, loop: str, before: str) -> None:
    """Of several that are trained one after the other, each is sent where it is trained."""
    inside = "".join(f"{loop}{line}\n" for line in (LOADER + OPTIMIZER + LOOP).splitlines())
    text = script(setup=ARGS + NETS, loader="", model=model, optimizer=inside, loop=before)
    assert f"{loop}rt.broadcast_parameters(model)\n" in converted(text, Options(backend="allreduce"))


def test_the_last_of_several_that_are_not_kept() -> None:
    model = NETS + "for _ in range(3):\n    model = Deep()\n    if model.out.bias.sum() > 0:\n        break\n"
    text = converted(script(setup=ARGS, model=model), Options(backend="allreduce"))
    assert "\nrt.broadcast_parameters(model)\n" in text


def test_optimizer_of_a_line_that_makes_models_too() -> None:
    made = "def make(where, name, *args):\n    return getattr(where, name)(*args)\n\n\n"
    model = f"{NETS}{made}model = make(sys.modules[__name__], 'Deep')\n"
    optimizer = "optimizer = make(torch.optim, 'SGD', model.parameters(), 0.1)\n"
    options = Options(backend="horovod", strategy="sharded")
    text = converted(script(setup=ARGS, model=model, optimizer=optimizer), options)
    assert made in text
    assert "\noptimizer = rt.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())\n" in text


def test_a_name_that_stands_for_another_model_after_training() -> None:
    loop = "for i in range(0, 64, 8):\n    x, y = points[i:i + 8], goals[i:i + 8]\n" + "\n".join(
        line[4:] for line in LOOP.splitlines()[2:]
    )
    before = script(
        data="points, goals = torch.randn(64, 4), torch.randn(64, 1)\n", loader="",
        model="model = nn.Sequential(nn.Linear(4, 1), nn.Dropout())\n",
        loop=f"{loop}\ntorch.save(model, 'last.pt')\n", after="model = torch.load('other.pt')\nprint(model(points))\n",
    )  # fmt: skip
    text = converted(before, Options(backend="horovod"))
    assert "nn.Dropout())\nrt.broadcast_parameters(model)\nrt.seed_ranks_apart(model)\n" in text


def test_a_model_that_no_variable_holds_cannot_draw_apart() -> None:
    loop = "for i in range(0, 64, 8):\n    x, y = points[i:i + 8], goals[i:i + 8]\n" + "\n".join(
        line[4:] for line in LOOP.replace("model(x)", "step(x)").splitlines()[2:]
    )
    before = script(
        data="points, goals = torch.randn(64, 4), torch.randn(64, 1)\n", loader="",
        model="def build():\n    model = nn.Sequential(nn.Linear(4, 1), nn.Dropout())\n"
        "    return (lambda x: model(x)), torch.optim.SGD(model.parameters(), lr=0.1)\n\n\n",
        optimizer="step, optimizer = build()\n", loop=f"{loop}\n",
    )  # fmt: skip
    conversion = conversion_of(before, options=Options(backend="horovod", strategy="sharded"))
    assert conversion.outcome is not Outcome.CONVERTED
    said = [one.message for one in conversion.of(Level.BLOCKING)]
    assert "no variable here holds the model, whose dropout should differ from rank to rank" in said
    assert OPTIMIZER not in before


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_optimizer_that_some_runs_do_without(backend: str) -> None:
    optimizer = "if sys.argv[1:]:\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    steps = """\
        loss = nn.functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if sys.argv[1:]:
            optimizer.step()
        else:
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-0.1)
"""
    before = script(setup=ARGS, optimizer=optimizer, loop="\n".join(LOOP.splitlines()[:2]) + f"\n{steps}")
    text = converted(before, Options(backend=backend))
    assert "loss.backward()\n        rt.all_reduce_gradients(model)\n        nn.utils.clip" in text
    assert text.count("all_reduce_gradients") == 1
    assert "DistributedOptimizer" not in text


HELD = """\
class Trainer:
    def prepare(self, name):
        self.net = {CHOSEN}
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def chosen(name):
    model = {"deep": Deep, "flat": Flat}[name]
    if name == "deep":
        model = model()
    elif name == "flat":
        model = model()
    else:
        raise ValueError(name)
    return model


def made(name):
    trainer = None
    if len(name) > 1:
        trainer = Trainer()
    trainer.prepare(name)
    return trainer


trainer = made(sys.argv[1])
"""
STEPS = "for epoch in range(3):\n    for x, y in loader:\n        trainer.step(x, y)\n"


def shared(chosen: str) -> str:
    setup = ARGS + NETS + HELD.replace("{CHOSEN}", chosen)
    given = script(setup=setup, model="", optimizer="", loop=STEPS)
    (new,) = conversion_of(given, partial=True, options=Options(strategy="shared")).files
    return new.after.decode()


@pytest.mark.parametrize("chosen", ["chosen(name)", "Deep() if name else Flat()"])
def test_an_attribute_is_a_place_for_whichever_of_several_it_is_given(chosen: str) -> None:
    after = shared(chosen)
    assert f"        self.net = {chosen}\n        rt.data_parallel(self.net)\n" in after
    assert "needs you" not in after


def test_but_not_for_what_may_be_no_model() -> None:
    assert "self.net = chosen(name) if name else None\n        rt.data_parallel" not in shared(
        "chosen(name) if name else None"
    )
