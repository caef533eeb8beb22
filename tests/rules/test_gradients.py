"""GRAD01: where gradients go past DistributedDataParallel, a line averages them before anything reads them."""

from __future__ import annotations

import re

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import (
    IMPORTS,
    LOOP,
    MODEL,
    OPTIMIZER,
    blocked,
    conversion_of,
    converted,
    findings,
    indented,
    line_of,
    script,
)

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x)

    def loss(self, x, y):
        return nn.functional.mse_loss(self(x), y)


model = Net()
"""
METHOD = LOOP.replace("nn.functional.mse_loss(model(x), y)", "model.loss(x, y)")
AVERAGED = "rt.all_reduce_gradients(optimizer)"


def training(before: str) -> list[str]:
    """The lines of the converted script from the loss on."""
    lines = [line.strip() for line in converted(before).splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("loss = "))
    return lines[first:]


def test_method_that_calls_the_model_itself() -> None:
    """`self` is never wrapped inside its own method, which would wrap it again at each step."""
    before = script(model=NET, loop=METHOD)
    assert training(before) == [
        "loss = model.loss(x, y)",
        "optimizer.zero_grad()",
        "loss.backward()",
        AVERAGED,
        "optimizer.step()",
    ]
    after = converted(before)
    assert "model = Net()\nrt.broadcast_parameters(model)\n" in after
    assert "DistributedDataParallel" not in after


def test_says_that_it_may_be_slower() -> None:
    (advice,) = findings("GRAD01", script(model=NET, loop=METHOD), Level.ADVICE)
    assert advice.message.startswith("`model` is not in DistributedDataParallel, because it is reached in more than")
    assert advice.message.endswith("which is right, and may be slower")


@pytest.mark.parametrize(
    "reader",
    [
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "norm = max(p.grad.norm() for p in model.parameters())",
        "for p in model.parameters(): p.grad.clamp_(-1, 1)",
        "for name, p in model.named_parameters():\n            if p.grad is not None: p.grad.mul_(0.5)",
        "for group in optimizer.param_groups:\n            for p in group['params']: p.grad.mul_(0.5)",
        "flat = torch.cat([p.grad.flatten() for g in optimizer.param_groups for p in g['params']])",
        "for p in strange.watched(): p.grad.mul_(0.5)",
    ],
)
def test_before_whatever_reads_gradients(reader: str) -> None:
    loop = METHOD.replace("        optimizer.step()", f"        {reader}\n        optimizer.step()")
    lines = training(script(model=NET, loop=loop))
    assert lines.count(AVERAGED) == 1
    assert lines[lines.index("loss.backward()") + 1] == AVERAGED


SURGERY = """\
class Surgery:
    def __init__(self, inner):
        self._inner = inner

    def zero_grad(self): return self._inner.zero_grad()
    def step(self): return self._inner.step()

    def backward(self, losses):
        slopes = []
        for loss in losses:
            self._inner.zero_grad()
            loss.backward(retain_graph=True)
            slopes.append(torch.cat([p.grad.flatten() for g in self._inner.param_groups for p in g["params"]]))
        apart = torch.dot(slopes[0], slopes[1]).clamp(max=0) / slopes[1].square().sum()
        total, start = slopes[0] - apart * slopes[1], 0
        for group in self._inner.param_groups:
            for p in group["params"]:
                p.grad = total[start : start + p.numel()].view_as(p)
                start += p.numel()


optimizer = Surgery(torch.optim.SGD(model.parameters(), lr=0.1))
"""


def test_gradients_of_several_losses_that_are_compared() -> None:
    """What is made of them is no mean: each is averaged where it is read. The class steps in one line."""
    loop = LOOP.split("        loss")[0] + (
        "        losses = [nn.functional.mse_loss(model(x), y), model(x).square().mean()]\n"
        "        optimizer.backward(losses)\n        optimizer.step()\n"
    )
    lines = [line.strip() for line in converted(script(optimizer=SURGERY, loop=loop)).splitlines()]
    read = next(number for number, line in enumerate(lines) if line.startswith("slopes.append"))
    assert lines[read - 2 : read] == ["loss.backward(retain_graph=True)", "rt.all_reduce_gradients(self._inner)"]


BY_FUNCTION = """\
        slopes = torch.autograd.grad(loss, model.parameters())
        for parameter, slope in zip(model.parameters(), slopes):
            parameter.grad = slope
        optimizer.step()
"""


def test_gradients_that_a_function_takes_in_place_of_a_backward_pass() -> None:
    loop = LOOP.split("        optimizer.zero_grad")[0] + BY_FUNCTION
    assert training(script(loop=loop))[1:] == [
        "slopes = rt.average_gradients(torch.autograd.grad(loss, model.parameters()))",
        "for parameter, slope in zip(model.parameters(), slopes):",
        "parameter.grad = slope",
        AVERAGED,
        "optimizer.step()",
    ]


def test_gradients_by_inputs_train_nothing() -> None:
    loop = LOOP.split("        optimizer.zero_grad")[0] + (
        "        (slope,) = torch.autograd.grad(loss, x.requires_grad_())\n        optimizer.step()\n"
    )
    assert [code for code, _ in blocked(script(loop=loop))] == ["REFUSE02"]


def test_gradients_of_inputs_are_no_parameters() -> None:
    loop = METHOD.replace("        loss =", "        x.requires_grad_()\n        loss =").replace(
        "        optimizer.step()", "        seen = x.grad.abs().amax(1)\n        optimizer.step()"
    )
    lines = training(script(model=NET, loop=loop))
    assert lines[lines.index(AVERAGED) + 1] == "optimizer.step()"


CHAINED = """\
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD({}, lr=0.1)

    def step(self, x, y):
        loss = self.model.loss(x, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


trainer = Trainer(model)
"""


@pytest.mark.parametrize(
    "given",
    ["itertools.chain(model.parameters())", "itertools.chain(self.model.parameters())"],
)
def test_nothing_reads_gradients_before_there_are_any(given: str) -> None:
    """The optimizer that is made of them is not there yet."""
    loop = LOOP.split("        loss")[0] + "        trainer.step(x, y)\n"
    before = script(
        imports=f"import itertools\nimport strange\n{IMPORTS}",
        model=f"{NET}strange.look(model)\n",
        optimizer=CHAINED.format(given),
        loop=loop,
    )
    lines = [line.strip() for line in converted(before).splitlines()]
    assert [line for line in lines if "all_reduce" in line] == ["rt.all_reduce_gradients(self.optimizer)"]
    assert lines[lines.index("rt.all_reduce_gradients(self.optimizer)") + 1] == "self.optimizer.step()"


def test_reader_before_the_backward_pass_of_a_turn() -> None:
    """From the second turn on it reads what the first one left."""
    read = "        strange.look(model.parameters())\n"
    before = script(
        imports=f"import strange\n{IMPORTS}", model=NET, loop=METHOD.replace("        loss =", f"{read}        loss =")
    )
    lines = [line.strip() for line in converted(before).splitlines()]
    assert lines[lines.index("strange.look(model.parameters())") - 1] == AVERAGED


def test_before_gradients_are_unscaled() -> None:
    scaled = """\
        scaler.scale(loss).backward()
        if epoch > 1:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
"""
    loop = METHOD.replace("        loss.backward()\n        optimizer.step()\n", scaled)
    lines = training(script(setup="scaler = torch.amp.GradScaler('cpu')\n", model=NET, loop=loop))
    assert lines.count(AVERAGED) == 1
    assert lines[lines.index("scaler.scale(loss).backward()") + 1] == AVERAGED


def test_once_per_step_where_gradients_are_accumulated() -> None:
    loop = """\
for epoch in range(3):
    for number, (x, y) in enumerate(loader):
        loss = model.loss(x, y) / 4
        loss.backward()
        if (number + 1) % 4 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
"""
    lines = training(script(model=NET, loop=loop))
    assert lines.count(AVERAGED) == 1
    assert lines[lines.index(AVERAGED) - 1] == "if (number + 1) % 4 == 0:"


def test_each_of_two_branches_averages() -> None:
    both = """\
        if epoch > 1:
            loss.backward()
            optimizer.step()
        else:
            (2 * loss).backward()
            optimizer.step()
"""
    loop = METHOD.replace("        loss.backward()\n        optimizer.step()\n", both)
    assert training(script(model=NET, loop=loop)).count(AVERAGED) == 2


def test_a_step_after_a_step_of_another_branch() -> None:
    """No line fits before both steps: the first branch's backward pass would come after it."""
    both = """\
        if epoch > 1:
            loss.backward()
            optimizer.step()
        optimizer.step()
"""
    loop = METHOD.replace("        loss.backward()\n        optimizer.step()\n", both)
    lines = training(script(model=NET, loop=loop))
    assert [lines[number - 1] for number, line in enumerate(lines) if line == "optimizer.step()"] == [AVERAGED] * 2


def test_step_before_the_backward_pass() -> None:
    loop = METHOD.replace("        loss.backward()\n        optimizer.step()\n", "").replace(
        "        loss = ", "        optimizer.step()\n        loss = "
    )
    lines = converted(script(model=NET, loop=f"{loop}        loss.backward()\n")).splitlines()
    assert lines[lines.index("        optimizer.step()") - 1].strip() == AVERAGED


def test_list_of_models() -> None:
    before = script(
        model="models = [nn.Linear(4, 1) for _ in range(2)]\n",
        optimizer="optimizer = torch.optim.SGD([p for one in models for p in one.parameters()], lr=0.1)\n",
        loop=LOOP.replace("model(x)", "sum(one(x) for one in models)"),
    )
    after = converted(before)
    assert "models = [nn.Linear(4, 1) for _ in range(2)]\nrt.broadcast_parameters(models)\n" in after
    assert AVERAGED in training(before)


def test_batchnorm_of_a_model_that_is_not_wrapped() -> None:
    net = NET.replace("nn.Linear(4, 1)", "nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))")
    after = converted(script(model=net, loop=METHOD))
    assert "model = Net()\nrt.convert_sync_batchnorm(model)\nrt.broadcast_parameters(model)\n" in after


def test_optimizer_in_another_function() -> None:
    loop = """\
def step(optimizer):
    optimizer.step()


def train(trainer, loader):
    for epoch in range(3):
        for x, y in loader:
            loss = trainer.model.loss(x, y)
            trainer.optimizer.zero_grad()
            loss.backward()
            step(trainer.optimizer)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


train(Trainer(model), loader)
"""
    after = converted(script(model=NET, optimizer="", loop=loop))
    assert f"    {AVERAGED}\n    optimizer.step()\n" in after


FROZEN_IN_PART = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(4, 4), nn.Linear(4, 1)
        for p in self.body.parameters():
            p.requires_grad = False

    def forward(self, x):
        return self.out(self.body(x))


class Thaw:
    def __init__(self, net):
        for p in net.parameters():
            p.requires_grad = True


"""
IN_FOLDS = f"for fold in range(2):\n    model = Net()\n{indented(OPTIMIZER + LOOP)}"


@pytest.mark.parametrize(("after", "is_wrapped"), [("", True), ("    Thaw(model)\n" + indented(LOOP), False)])
def test_what_a_constructor_freezes_comes_before_each_wrap(after: str, is_wrapped: bool) -> None:
    before = script(model=FROZEN_IN_PART, optimizer="", loop=IN_FOLDS + after)
    assert ("    model = DistributedDataParallel(model" in converted(before)) is is_wrapped


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("for p in model.parameters(): p.requires_grad = True", "parameters are frozen or thawed during training"),
        ("model.out = nn.Linear(4, 1)", "a part of it is replaced during training"),
    ],
)
def test_changed_while_it_trains(line: str, why: str) -> None:
    """DistributedDataParallel knows the parameters that it was given."""
    before = script(model=NET, loop=LOOP.replace("    for x", f"    if epoch == 1:\n        {line}\n    for x"))
    assert why in findings("GRAD01", before, Level.ADVICE)[0].message
    assert training(before).count(AVERAGED) == 1


@pytest.mark.parametrize(
    "line",
    [
        "for p in model.parameters(): p.requires_grad = True",
        "model[0].requires_grad_(True)",
        "for p in model[0].parameters(): p.requires_grad_(True)",
    ],
)
def test_thawed_while_it_trains_or_between_two_loops(line: str) -> None:
    """What was frozen when it was wrapped, DistributedDataParallel never averages."""
    inside = LOOP.replace("    for x", f"    if epoch == 1:\n        {line}\n    for x")
    for loop in (f"{LOOP}{line}\n{LOOP}", f"{LOOP}{inside}", f"{inside}{LOOP}"):
        before = script(model=_FROZEN, loop=loop)
        (advice,) = findings("GRAD01", before, Level.ADVICE)
        assert "parameters are frozen or thawed during training" in advice.message
        assert converted(before).count(AVERAGED) == 2


_LAYERS = "model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))\n"
_FROZEN = f"{_LAYERS}model[0].requires_grad_(False)\n"


DEEP = """\
class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, x):
        return self.body(x)


"""


@pytest.mark.parametrize(
    ("line", "holder"),
    [
        ("model.body = Body()", "model"),
        ("model.body.last = nn.Linear(4, 1)", "model.body"),
        ('setattr(model.body, "last", nn.Linear(4, 1))', "model.body"),
        ('model.body.add_module("last", nn.Linear(4, 1))', "model.body"),
        ("model.body.layers.append(nn.Linear(4, 4))", "model.body.layers"),
        ("model.body.layers[0] = nn.Linear(4, 4)", "model.body.layers"),
    ],
)
def test_part_that_is_replaced_while_it_trains_or_between_two_loops(line: str, holder: str) -> None:
    inside = LOOP.replace("    for x", f"    if epoch == 1:\n        {line}\n    for x")
    for loop in (f"{LOOP}{line}\n{LOOP}", f"{inside}{LOOP}"):
        before = script(model=f"{DEEP}model = Net()\n", loop=loop)
        (advice,) = findings("GRAD01", before, Level.ADVICE)
        assert "a part of it is replaced during training" in advice.message
        after = converted(before)
        assert after.count(AVERAGED) == 2
        assert re.search(rf"{re.escape(line)}\n *rt\.broadcast_parameters\({re.escape(holder)}\)\n", after)


MADE = "def made():\n    net = Net()\n    net.body.last = nn.Linear(4, 1)\n    return net\n\n\n"
FROZEN = "model.body.layers.requires_grad_(False)\n"
TRAINED = f"{OPTIMIZER}{LOOP}"


@pytest.mark.parametrize(
    "parts",
    [
        {"loop": f"model = made()\n{OPTIMIZER}{LOOP}model.body.last = nn.Linear(4, 1)\n"},
        {"loop": f"for fold in range(2):\n{indented(f'model = made(){chr(10)}{TRAINED}')}"},
        {"loop": f"for fold in range(2):\n{indented(f'model = made(){chr(10)}{FROZEN}{TRAINED}')}"},
        {"loop": f"model = made()\n{TRAINED}model.body.note = 1\nmodel.body.extra = len(data)\n{LOOP}"},
        {"loop": f"model = made()\nother = nn.Sequential(nn.Linear(4, 1))\n{TRAINED}other.append(nn.ReLU())\n{LOOP}"},
    ],
)
def test_parts_that_it_has_before_or_that_are_none(parts: dict[str, str]) -> None:
    assert "model = DistributedDataParallel(model" in converted(script(model=f"{DEEP}{MADE}", optimizer="", **parts))


@pytest.mark.parametrize(
    "parts",
    [
        {"model": _FROZEN},
        {"model": f"{_LAYERS}for p in model[0].parameters(): p.requires_grad = False\n", "loop": LOOP + LOOP},
        {"model": _FROZEN, "after": "model.requires_grad_(False)\n"},
        {"model": _FROZEN, "loop": LOOP + LOOP, "after": "for p in model.parameters(): p.requires_grad = False\n"},
        {"model": _LAYERS, "loop": LOOP.replace("        loss =", "        x.requires_grad_()\n        loss =")},
        {"model": f"{_LAYERS}other = nn.Linear(4, 1)\n", "loop": f"{LOOP}other.requires_grad_(False)\n{LOOP}"},
    ],
)
def test_frozen_before_training_or_after_it(parts: dict[str, str]) -> None:
    assert "model = DistributedDataParallel(model" in converted(script(**parts))


def test_part_that_is_replaced_is_sent_to_all() -> None:
    line = "model.out = nn.Linear(4, 1)"
    after = converted(script(model=NET, loop=LOOP.replace("    for x", f"    {line}\n    for x")))
    assert f"    {line}\n    rt.broadcast_parameters(model)\n" in after


# ---- gradients that are taken without a backward pass


def taken(line: str) -> str:
    return script(loop=LOOP.replace("        loss = ", f"        {line}\n        loss = "))


def test_gradient_of_a_mean_by_parameters_is_averaged_where_it_is_taken() -> None:
    line = "slopes = torch.autograd.grad(model(x).mean(), model.parameters())"
    after = converted(taken(line))
    assert "slopes = rt.average_gradients(torch.autograd.grad(model(x).mean(), model.parameters()))" in after
    assert "rt.all_reduce_gradients(optimizer)" in after


def test_gradient_of_each_sample_is_its_own() -> None:
    after = converted(taken("slopes = torch.autograd.grad(model(x.requires_grad_()).sum(), x)"))
    assert "average_gradients" not in after
    assert "rt.all_reduce_gradients(optimizer)" in after


def test_gradient_of_a_sum_by_parameters_is_no_mean() -> None:
    before = taken("slopes = torch.autograd.grad(model(x).sum(), model.parameters())")
    assert blocked(before) == {("GRAD01", line_of(before, "slopes"))}


STEP_ALONG = "x = (x + 0.1 * torch.autograd.grad(model(x.requires_grad_()).mean(), x)[0]{}).detach()"


def test_step_along_the_gradient_of_a_mean_over_the_batch() -> None:
    """Each sample's is divided by the number of samples, of which a rank has fewer; the sign is the same."""
    assert {code for code, _ in blocked(taken(STEP_ALONG.format("")))} == {"LOSS01"}
    assert AVERAGED in converted(taken(STEP_ALONG.format(".sign()")))


def test_double_backward() -> None:
    before = script(loop=LOOP.replace("backward()", "backward(create_graph=True)"))
    (advice,) = findings("GRAD01", before, Level.ADVICE)
    assert "it does not support a double backward pass" in advice.message
    assert AVERAGED in training(before)


def test_nothing_to_do_where_the_model_is_wrapped() -> None:
    (found,) = findings("GRAD01", script(model=MODEL, optimizer=OPTIMIZER), Level.NOT_NEEDED)
    assert found.message == "DistributedDataParallel averages all gradients"


PARTS = """\
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 3)
        self.decoder = nn.Linear(3, 1)

    def forward(self, x):
        return self.decoder(self.encoder(x))


model = Both().double().float()
"""


@pytest.mark.parametrize(
    ("called", "lines"),
    [
        ("model(x)", ["model = DistributedDataParallel(model, device_ids=rt.device_ids(model))"]),
        (
            "model.decoder(model.encoder(x).detach())",
            ["rt.broadcast_parameters(model.decoder)", "    rt.all_reduce_gradients(optimizer)"],
        ),
    ],
)
def test_parts_of_a_module_stay_what_they_are(called: str, lines: list[str]) -> None:
    """In a wrap, they would have other names in checkpoints, and be moved with the module that has them."""
    optimizer = "optimizer = torch.optim.SGD(model.decoder.parameters(), lr=0.1)\n"
    after = converted(script(model=PARTS, optimizer=optimizer, loop=LOOP.replace("model(x)", called)))
    assert "DistributedDataParallel(self." not in after
    assert PARTS.rstrip() in after
    assert [one.removeprefix("    ") for one in after.splitlines() if "l_reduce" in one or "rt.broadcast" in one
            or " = Distributed" in one] == lines  # fmt: skip


LIBRARYS = """
from transformers import GPT2Model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = GPT2Model.from_pretrained("gpt2")
        self.head = nn.Linear(768, 1)

    def forward(self, x):
        return self.head(self.body(inputs_embeds=x).last_hidden_state)


model = Net()
"""


@pytest.mark.parametrize(
    ("line", "thaws"),
    [
        ("for block in model.body.h[-2:]:\n        for p in block.parameters(): p.requires_grad = True", True),
        ("x.requires_grad = True", False),
        ("x.requires_grad_(True)", False),
    ],
)
def test_layers_of_a_library_that_are_thawed(line: str, thaws: bool) -> None:
    before = script(model=LIBRARYS, loop=LOOP.replace("    for x", f"    {line}\n    for x"))
    advice = conversion_of(before, options=Options(strategy="sharded")).of(Level.ADVICE)
    said = [one.message for one in advice if one.code == "GRAD01"]
    assert any("frozen or thawed" in one for one in said) is thaws


TRAINER = """\
class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks

    def freeze(self):
        {freeze}

    def fit(self):
        {first}
        optimizer = torch.optim.SGD([p for p in self.model.parameters() if p.requires_grad], lr=0.1)
        for x, y in loader:
            loss = nn.functional.mse_loss(self.model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {last}


Trainer(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)), []).fit()
"""
FREEZE = "for p in self.model[0].parameters(): p.{}"


@pytest.mark.parametrize("how", ["requires_grad_(False)", "requires_grad = False"])
@pytest.mark.parametrize(
    ("places", "is_wrapped"),
    [({"first": "self.freeze()"}, False), ({"last": "self.freeze()"}, True)],
)
def test_frozen_behind_where_an_attribute_is_wrapped(how: str, places: dict[str, str], is_wrapped: bool) -> None:
    filled = {"freeze": FREEZE.format(how), "first": "pass", "last": "pass", **places}
    before = script(model="", optimizer="", loop=TRAINER.format(**filled))
    assert ("DistributedDataParallel(" in converted(before)) is is_wrapped


GROWING = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(), nn.Linear(4, 1)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)

    def deepen(self):
        block = nn.Linear(4, 4)
        nn.init.zeros_(block.weight)
        nn.init.zeros_(block.bias)
        self.blocks.append(block)


model = Net()
"""


@pytest.mark.parametrize(("after", "is_wrapped"), [("    model.deepen()\n", False), ("model.deepen()\n", True)])
def test_a_model_that_grows_between_passes(after: str, is_wrapped: bool) -> None:
    new = converted(script(model=GROWING, loop=LOOP + after))
    assert ("DistributedDataParallel(" in new) is is_wrapped


GAIN = """\
class Gain(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, weight):
        return weight * self.gain


"""


@pytest.mark.parametrize(("indent", "is_wrapped"), [("    ", False), ("", True)])
def test_a_parameter_that_is_parametrized_between_passes(indent: str, is_wrapped: bool) -> None:
    line = f'{indent}torch.nn.utils.parametrize.register_parametrization(model, "weight", Gain())\n'
    new = converted(script(setup=GAIN, model="model = nn.Linear(4, 1)\n", loop=LOOP + line))
    assert ("DistributedDataParallel(" in new) is is_wrapped


def test_weights_are_sent_by_what_each_call_of_a_function_has() -> None:
    """`m.student` is there in one of its calls alone."""
    before = script(
        model="""\
class Both(nn.Module):
    def __init__(self, student):
        super().__init__()
        self.student = student

    def forward(self, x):
        return self.student(x)
def fit(m):
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(m(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
first = nn.Sequential(nn.Linear(4, 1)); fit(first)
student = nn.Linear(4, 1); second = Both(student); fit(second)
""",
        optimizer="",
        loop="",
    )
    after = converted(before)
    assert "m.student" not in after
