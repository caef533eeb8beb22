"""MODEL03: state, attributes and evaluation go to the model inside the wrap; training goes through it."""

from __future__ import annotations

import pytest

from tests.rules.scripts import (
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    OPTIMIZER,
    SHUFFLED,
    blocked,
    changes,
    converted,
    distributed,
    script,
)

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)
        self.steps = 0

    def forward(self, x):
        return self.out(x)

    def describe(self):
        return "net"


model = Net()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("weights = model.state_dict()\n", "weights = model.module.state_dict()\n"),
        ("names = [name for name, _ in model.named_parameters()]\n",
         "names = [name for name, _ in model.module.named_parameters()]\n"),
        ("name = model.describe()\n", "name = model.module.describe()\n"),
        ("model.steps += 1\n", "model.module.steps += 1\n"),
        ("model.steps = 2; rate = 0.1\n", "model.module.steps = 2; rate = 0.1\n"),
        ("size = model.out.weight.shape\n", "size = model.module.out.weight.shape\n"),
        ("del model.steps\n", "del model.module.steps\n"),
        ("weights = {'net': model.state_dict()}\n", "weights = {'net': model.module.state_dict()}\n"),
        ("if isinstance(model, Net): rate = 0.1\n", "if isinstance(model.module, Net): rate = 0.1\n"),
        ("steps = getattr(model, 'steps')\n", "steps = getattr(model.module, 'steps')\n"),
        ("from copy import deepcopy as copy\nkept = copy(model)\n",
         "from copy import deepcopy as copy\nkept = copy(model.module)\n"),
        ("same = model\nweights = same.state_dict()\n", "same = model\nweights = same.module.state_dict()\n"),
        ("weights = model \\\n    .state_dict()\n", "weights = model.module \\\n    .state_dict()\n"),
        ("weights = (model  # mine\n    .state_dict())\n", "weights = (model.module  # mine\n    .state_dict())\n"),
    ],
)  # fmt: skip
def test_what_is_the_models_own(before: str, after: str) -> None:
    assert converted(script(model=NET, after=before)) == distributed(model=NET, after=after)


@pytest.mark.parametrize(
    "after",
    [
        "model.train()\n",
        "model.eval()\n",
        "total = sum(p.numel() for p in model.parameters())\n",
        "model.zero_grad()\n",
        "training = model.training\n",
        "other = model\n",
    ],
)
def test_what_the_wrap_passes_on(after: str) -> None:
    assert converted(script(model=NET, after=after)) == distributed(model=NET, after=after)


def test_evaluation_goes_past_the_wrap() -> None:
    """The wrap would broadcast its buffers and wait for ranks that do not evaluate."""
    evaluation = "model.eval()\nwith torch.no_grad():\n    best = model(torch.ones(1, 4))\n"
    assert converted(script(after=evaluation)) == distributed(after=evaluation.replace("model(", "model.module("))


@pytest.mark.parametrize("guard", ["@torch.no_grad()\n", "@torch.inference_mode()\n"])
def test_evaluation_in_a_decorated_function(guard: str) -> None:
    own = f"{guard}def look(net):\n    net.eval()\n    return net(torch.ones(1, 4))\n\n\n"
    after = converted(script(setup=own, after="value = look(model)\n"))
    assert "    return net.module(torch.ones(1, 4))\n" in after


def test_training_forward_stays() -> None:
    assert SHUFFLED in converted(script())


def test_forward_in_training_that_leads_to_no_backward() -> None:
    """All ranks make it alike, so that it may go either way; the other one must go through the wrap."""
    line = "with torch.no_grad(): guess = model(x)"
    loop = LOOP.replace("        loss =", f"        {line}\n        loss =")
    new = SHUFFLED.replace("        loss =", f"        {line}\n        loss =")
    after = converted(script(loop=loop)).replace("guess = model.module(x)", "guess = model(x)")
    assert after == distributed(loop=new)


HELPERS = {
    "function": """\
def compute(x, y):
    return nn.functional.mse_loss(model(x), y)


""",
    "function that is given the model": """\
def compute(x, y, net=None):
    net = net or model
    return nn.functional.mse_loss(net(x), y)


""",
    "method": """\
class Steps:
    def compute(self, x, y):
        return nn.functional.mse_loss(model(x), y)


compute = Steps().compute
""",
}


@pytest.mark.parametrize("name", HELPERS)
def test_helper_of_training_and_evaluation(name: str) -> None:
    """The line that trains must go through the wrap, whoever else comes by: else no gradient is averaged."""
    evaluation = """\
model.eval()
total = 0.0
with torch.no_grad():
    for x, y in other:
        total += compute(x, y).item() * len(x)
"""
    before = script(
        setup=HELPERS[name],
        loader=f"{LOADER}other = DataLoader(data, batch_size=16)\n",
        loop=LOOP.replace("nn.functional.mse_loss(model(x), y)", "compute(x, y)"),
        after=evaluation,
    )
    if not blocked(before):
        (line,) = [line for line in converted(before).splitlines() if "mse_loss" in line]
        assert "model.module(x)" not in line
        assert "net.module(x)" not in line


@pytest.mark.parametrize("first", ["", "model.eval()\n"])
def test_helper_where_training_goes_on_in_eval_mode(first: str) -> None:
    """`model.eval()` and no `train()` after it: the mode does not tell training from evaluation."""
    validation = """\
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in other:
            total += compute(x, y).item() * len(x)
"""
    before = script(
        setup=HELPERS["function"],
        loader=f"{LOADER}other = DataLoader(data, batch_size=16)\n",
        loop=first + LOOP.replace("nn.functional.mse_loss(model(x), y)", "compute(x, y)") + validation,
    )
    if not blocked(before):
        (line,) = [line for line in converted(before).splitlines() if "mse_loss" in line]
        assert "model.training" not in line
        assert "model.module(x)" not in line


def test_function_that_sees_wrapped_and_plain_models() -> None:
    own = "def weights(net):\n    return net.state_dict()\n\n\n"
    before = script(setup=own, after="one = weights(model)\ntwo = weights(nn.Linear(1, 1))\n")
    after = converted(before)
    assert "    return rt.unwrap(net).state_dict()\n" in after


def test_used_before_and_after_the_wrap() -> None:
    """The same function, called once before the wrap and once after it."""
    own = "def weights():\n    return model.state_dict()\n\n\n"
    model = "model = nn.Linear(4, 1)\nfirst = weights()\nmodel.cpu()\n"
    after = converted(script(setup=own, model=model, after="last = weights()\n"))
    assert "rt.unwrap(model).state_dict()" in after or "model.module.state_dict()" in after
    if "model.module.state_dict()" in after:
        assert after.index("DistributedDataParallel(model") < after.index("first = weights()")


def test_inside_the_model_itself() -> None:
    """`self` in its methods is never the wrap."""
    assert NET in converted(script(model=NET))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('f"{model}"', 'f"{model.module}"'),
        ('f"it: {model!r:>9}"', 'f"it: {model.module!r:>9}"'),
        ('"%s" % model', '"%s" % model.module'),
        ('"%s of %d" % (model, 3)', '"%s of %d" % (model.module, 3)'),
        ('"{}".format(model)', '"{}".format(model.module)'),
        ('"{net} {}".format(3, net=model)', '"{net} {}".format(3, net=model.module)'),
        ('f"{len(data)}"', 'f"{len(data)}"'),
        ('f"{optimizer}" + "%s" % data', 'f"{optimizer}" + "%s" % data'),
    ],
)
def test_models_in_a_text(before: str, after: str) -> None:
    new = converted(script(after=f"text = {before}\n"))
    assert new == distributed(after=f"text = {after}\n")


def test_shown_models() -> None:
    after = converted(script(after="print(model)\n"))
    assert after == distributed(after="print(model.module)\n", prints=True)


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("class Box:\n    steps = 1\n\n\nbox = Box()\nbox.steps += 1\n", id="own class"),
        pytest.param("other = nn.Linear(4, 1)\nweights = other.state_dict()\n", id="model that is not trained"),
        pytest.param("def state(model):\n    return model.state_dict()\n\n\nstate(nn.Linear(1, 1))\n", id="same name"),
        pytest.param("values = [model for model in (1, 2)]\n", id="same name in a comprehension"),
    ],
)
def test_left_alone(setup: str) -> None:
    after = converted(script(setup=setup))
    assert after.replace(GROUP, "") == distributed(setup=setup, group="")


def test_before_the_wrap() -> None:
    model = "model = nn.Linear(4, 1)\nweights = model.state_dict()\nmodel.to('cpu')\n"
    assert converted(script(model=model)) == distributed(model=model)


def test_attribute_of_a_wrapped_model_named_module() -> None:
    model = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = nn.Linear(4, 1)

    def forward(self, x):
        return self.module(x)


model = Net()
"""
    after = converted(script(model=model, after="size = model.module.weight.shape\n"))
    assert after == distributed(model=model, after="size = model.module.module.weight.shape\n")


def test_nothing_to_reach_for() -> None:
    assert changes("MODEL03", script()) == []


TRAINED_THROUGH = LOOP.replace("model(x)", 'models["net"](x)')


def test_models_that_are_trained_through_what_is_saved_keep_their_wraps() -> None:
    """A dictionary of bare models would train each rank for itself."""
    before = script(
        optimizer=OPTIMIZER + 'models = {"net": model}\n',
        loop=TRAINED_THROUGH,
        after='torch.save(models, "a.pt")\ntorch.save([model, 1], "b.pt")\n',
    )
    after = converted(before)
    assert 'models = {"net": model}\n' in after
    assert 'torch.save(rt.unwrap(models), "a.pt")' in after
    assert 'torch.save([model.module, 1], "b.pt")' in after


HELPER = """\
import copy


def loss_of(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x), y)


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        return sum(loss_of(model, batch).item() for batch in loader)


model = nn.Linear(4, 1)
"""
OF_BATCHES = """\
for epoch in range(2):
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
    evaluate(model, held_out)
"""


@pytest.mark.parametrize(
    ("other", "inside"),
    [
        ("", "model.module"),
        ("evaluate(copy.deepcopy(model), held_out)\n", "rt.unwrap(model)"),
        ("again = nn.Linear(4, 1)\nagain.load_state_dict(torch.load('w.pt'))\nevaluate(again, held_out)\n",
         "rt.unwrap(model)"),
        ("import pickle\nevaluate(pickle.load(open('model.pkl', 'rb')), held_out)\n", "rt.unwrap(model)"),
    ],
)  # fmt: skip
def test_one_function_for_a_wrapped_model_and_for_one_that_is_not(other: str, inside: str) -> None:
    loader = LOADER + "held_out = DataLoader(data, batch_size=8)\n"
    after = converted(script(model=HELPER, loader=loader, loop=OF_BATCHES, after=other))
    assert f"nn.functional.mse_loss((model if model.training else {inside})(x), y)" in after


@pytest.mark.parametrize(
    "best",
    [
        "best = min(runs, key=lambda run: run['loss'])['model']\n",
        "best = max(((-run['loss'], run['model']) for run in runs), key=lambda pair: pair[0])[1]\n",
        "best = min((run['model'] for run in runs), key=lambda net: net.bias.item())\n",
    ],
)
def test_the_best_of_several_models(best: str) -> None:
    one = "        loss = nn.functional.mse_loss(net(x), y)\n        optimizer.zero_grad()\n"
    step = "        loss.backward()\n        optimizer.step()\n        total += loss.item()\n"
    loop = (
        "runs = []\nfor rate in (0.1, 0.3):\n    net, total = nn.Linear(4, 1), 0.0\n"
        "    optimizer = torch.optim.SGD(net.parameters(), lr=rate)\n    for x, y in loader:\n"
        f"{one}{step}    runs.append({{'loss': total / len(loader), 'model': net}})\n"
    )
    after = converted(script(model="", optimizer="", loop=loop, after=best + "weights = best.state_dict()\n"))
    assert "weights = best.module.state_dict()" in after


STEPPED = """\
def step(model, optimizer, batch):
    x, y = batch
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for epoch in range(3):
    {take}
"""


@pytest.mark.parametrize(
    "take",
    [
        "run = functools.partial(step, model, optimizer)\n    for batch in loader:\n        run(batch)",
        "list(map(functools.partial(step, model, optimizer), loader))",
    ],
)
def test_a_step_that_is_made_with_the_model_trains_through_the_wrap(take: str) -> None:
    new = converted(script(imports=f"import functools\n{IMPORTS}", loop=STEPPED.format(take=take)))
    assert "functools.partial(step, model, optimizer)" in new
    assert "model.module" not in new
