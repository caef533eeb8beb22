"""MODEL01: each trained model in DistributedDataParallel, once, after all that is done to it before training."""

from __future__ import annotations

import pytest

from tests.rules.scripts import (
    ALIKE,
    APART,
    DATA,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    SHUFFLED,
    WRAP,
    blocked,
    changes,
    converted,
    distributed,
    indented,
    line_of,
    script,
)

TWO_LAYERS = "model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))\n"


@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        'model = nn.Linear(4, 1).to("cpu")\n',
        "model: nn.Module = nn.Linear(4, 1)\n",
        "model, rate = nn.Linear(4, 1), 0.1\n",
        "net = model = nn.Linear(4, 1)\n",
        "model = nn.Sequential(\n    nn.Linear(4, 8),  # in\n    nn.Linear(8, 1),\n).to(\n    'cpu'\n)  # done\n",
        "def build():\n    return nn.Linear(4, 1)\n\n\nmodel = build()\n",
        "if len(IMPORTS) > 1: model = nn.Linear(4, 1)\nelse: model = nn.Linear(4, 1, bias=False)\n",
    ],
)
def test_right_after_it_is_built(model: str) -> None:
    setup = "IMPORTS = [1, 2]\n" if "IMPORTS" in model else ""
    assert converted(script(setup=setup, model=model)) == distributed(setup=setup, model=model)


@pytest.mark.parametrize(
    "last",
    [
        'model.to("cpu")\n',
        'model = model.to("cpu")\n',
        "model.apply(lambda layer: None)\n",
        "nn.init.zeros_(model.weight)\n",
        "model.weight.data.fill_(0.5)\n",
        "model.weight.requires_grad = False\n",
        "model.bias.requires_grad_(False)\n",
        "for parameter in model.parameters():\n    parameter.requires_grad = True\n",
        'model.load_state_dict(torch.load("a.pt", map_location="cpu"))\n',
        "model.register_forward_hook(lambda *given: None)\n",
        "model.extra = nn.Linear(1, 1)\n",
        "model.share_memory()\n",
        "if len(data) > 3:\n    model.weight.requires_grad = False\n",
    ],
)
def test_after_the_last_thing_that_is_done_to_it(last: str) -> None:
    assert converted(script(model=MODEL + last)) == distributed(model=MODEL + last)


@pytest.mark.parametrize(
    "last", ["model.apply(lambda layer: None)\n", 'model.to("cpu")\n', "nn.init.zeros_(model.weight)\n"]
)
def test_after_what_comes_behind_the_optimizer(last: str) -> None:
    after = converted(script(optimizer=OPTIMIZER + last))
    assert after.index(last.strip()) < after.index(WRAP) < after.index("for epoch")


def test_what_leaves_it_as_it_is_comes_after() -> None:
    optimizer = f"{OPTIMIZER}count = sum(p.numel() for p in model.parameters())\nmodel.train()\n"
    assert converted(script(optimizer=optimizer)) == distributed(optimizer=optimizer)


def test_a_compiled_model_keeps_its_keys() -> None:
    """Checkpoints of a compiled model have `_orig_mod.` before each key: the wrap goes around it."""
    before = script(model=f"{MODEL}model = torch.compile(model)\n", after="torch.save(model.state_dict(), 'a.pt')\n")
    after = converted(before)
    assert after.index("torch.compile(") < after.index("DistributedDataParallel(model")
    assert "torch.save(model.module.state_dict(), 'a.pt')" in after


def test_semicolons() -> None:
    before = script(model="", optimizer="").replace(LOOP, f"{MODEL.strip()}; {OPTIMIZER}{LOOP}")
    after = converted(before)
    assert after.index("model = nn.Linear(4, 1)") < after.index(WRAP.strip()) < after.index("for epoch")
    assert after.count("DistributedDataParallel(") == 1


def test_two_models() -> None:
    """A generative pair: each with an optimizer of its own."""
    model = "encoder = nn.Linear(4, 2)\ndecoder = nn.Linear(2, 1)\n"
    optimizer = """\
one = torch.optim.SGD(encoder.parameters(), lr=0.1)
two = torch.optim.SGD(decoder.parameters(), lr=0.1)
"""
    loop = LOOP.replace("model(x)", "decoder(encoder(x))").replace("optimizer.step()", "one.step(); two.step()")
    loop = loop.replace("optimizer.zero_grad()", "one.zero_grad(); two.zero_grad()")
    after = converted(script(model=model, optimizer=optimizer, loop=loop))
    for name in ("encoder", "decoder"):
        assert f"{name} = DistributedDataParallel({name}, device_ids=rt.device_ids({name}))\n" in after
    assert after.count("DistributedDataParallel(") == 2


def test_frozen_second_model_stays_as_it_is() -> None:
    model = f"{MODEL}teacher = nn.Linear(4, 1)\n"
    loop = LOOP.replace("loss = ", "target = teacher(x).detach()\n        loss = ")
    after = converted(script(model=model, loop=loop))
    assert after.count("DistributedDataParallel(") == 1
    assert "DistributedDataParallel(teacher" not in after


def test_attribute_of_a_trainer() -> None:
    trainer = f"""\
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.rule = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def run(self):
{indented(LOOP, "        ").replace("model", "self.net").replace("optimizer", "self.rule")}

"""
    after = converted(script(model="", optimizer="", loop=f"{trainer}Trainer().run()\n"))
    line = "self.net = DistributedDataParallel(self.net, device_ids=rt.device_ids(self.net))\n"
    assert after.count("DistributedDataParallel(") == 1
    assert after.index("self.net = nn.Linear(4, 1)\n") < after.index(line) < after.index("for epoch")


@pytest.mark.parametrize("names", [("first", "second"), ("model", "model")])
def test_a_function_that_makes_and_trains_one_in_each_call(names: tuple[str, str]) -> None:
    """Behind the call it would be trained by each rank for itself."""
    body = f"def train():\n{indented(MODEL + OPTIMIZER + LOOP)}    return model\n\n\n"
    calls = "".join(f"{name} = train()\n" for name in names)
    text = converted(script(model="", optimizer="", loop=body + calls))
    assert f"    {WRAP}" in text
    assert text.endswith(f"    return model\n\n\n{calls}")
    assert "rt.seed_ranks_alike()" in text


def test_global_of_a_function_defined_before() -> None:
    train = f"def train(epoch):\n{LOOP.split(chr(10), 1)[1]}\n\n"
    before = script(setup=train, loop="for epoch in range(3): train(epoch)\n")
    after = converted(before)
    assert f"\n{MODEL}{WRAP}{OPTIMIZER}" in after


def test_part_of_a_model() -> None:
    """Only the head is trained; what is called is the whole, and its checkpoint keeps its keys."""
    model = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.body(x))


model = Net()
for parameter in model.body.parameters():
    parameter.requires_grad = False
"""
    before = script(
        model=model,
        optimizer="optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)\n",
        after='torch.save(model.state_dict(), "a.pt")\n',
    )
    after = converted(before)
    assert after.count("DistributedDataParallel(") == 1
    assert WRAP in after
    assert 'torch.save(model.module.state_dict(), "a.pt")' in after


def test_class_of_that_name_in_the_script() -> None:
    own = "class DistributedDataParallel:\n    pass\n\n\n"
    after = converted(script(setup=own))
    assert own in after
    assert "model = DistributedDataParallel(" not in after
    assert "import DistributedDataParallel as " in after


@pytest.mark.parametrize(
    "given",
    [
        "filter(lambda p: p.requires_grad, model.parameters())",
        "list(model.parameters())",
        "[{'params': model.parameters(), 'lr': 0.2}]",
        "params=model.parameters()",
    ],
)
def test_however_the_optimizer_gets_the_parameters(given: str) -> None:
    optimizer = f"optimizer = torch.optim.SGD({given}, lr=0.1)\n"
    assert converted(script(optimizer=optimizer)) == distributed(optimizer=optimizer)


@pytest.mark.parametrize(
    "imports", ["from torch.optim import SGD as Rule\n", "from torch import optim\nRule = optim.SGD\n"]
)
def test_optimizer_under_another_name(imports: str) -> None:
    imports = IMPORTS + imports
    optimizer = "optimizer = Rule(model.parameters(), lr=0.1)\n"
    after = converted(script(imports=imports, optimizer=optimizer))
    assert f"\n{MODEL}{WRAP}{optimizer}" in after


# ---- left to a person


@pytest.mark.parametrize(
    "line",
    [
        "nn.init.normal_(model.weight)",
        "model.reset_parameters()",
        "nn.utils.prune.random_unstructured(model, 'weight', 0.3)",
        "with torch.no_grad(): model.weight.add_(0.01 * torch.randn_like(model.weight))",
        "model.weight.data += 0.01 * torch.randn_like(model.weight)",
        "for one in model.parameters(): one.grad += torch.randn_like(one)",
    ],
)
def test_weights_drawn_while_it_trains(line: str) -> None:
    """In a pass over the data ranks draw apart; between passes, alike."""
    inside = script(loop=LOOP.replace("        loss.back", f"        {line}\n        loss.back"))
    assert ("MODEL01", line_of(inside, line)) in blocked(inside)
    between = script(loop=LOOP.replace("    for x", f"    if epoch == 1:\n        {line}\n    for x"))
    after = converted(between)
    assert f"    {APART}    loader.sampler.set_epoch(epoch)\n    for x, y in loader:\n" in after
    assert after.endswith(f"        optimizer.step()\n    {ALIKE}")


def test_drawn_anew_for_each_run() -> None:
    """Between the runs all ranks draw alike."""
    turn = indented("model.reset_parameters()\n" + OPTIMIZER + LOOP)
    after = converted(script(optimizer="", loop=f"for fold in range(2):\n{turn}"))
    assert f"    model.module.reset_parameters()\n{indented(OPTIMIZER + APART)}" in after


# ---- not ours


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("spare = nn.Linear(4, 1)\n", id="never trained"),
        pytest.param("class Net(nn.Module):\n    pass\n\n\n", id="never built"),
        pytest.param("class Own:\n    def parameters(self):\n        return []\n\n\nother = Own()\n", id="no module"),
    ],
)
def test_other_models_stay(setup: str) -> None:
    after = converted(script(setup=setup)).replace(GROUP, "")
    assert after == distributed(setup=setup, group="")


def test_places() -> None:
    before = script()
    assert [change.place.line for change in changes("MODEL01", before)] == [line_of(before, "model = nn")]


def test_loop_is_left_alone() -> None:
    assert SHUFFLED in converted(script())


# ---- models that are moved by a statement of its own

TRAINER = """\
class Trainer:
    def __init__(self, flag):
        {made}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def build(self):
        self.model = nn.Linear(4, 1)
        self.model.to("cuda")

    def step(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()


trainer = Trainer(bool(data))
"""
STEPS = "for x, y in loader:\n    trainer.step(x, y)\n"
WRAPPED = "self.model = DistributedDataParallel(self.model, device_ids=rt.device_ids(self.model))"


@pytest.mark.parametrize(
    "made",
    [
        'self.model = nn.Linear(4, 1)\n        self.model.to("cuda")',
        "self.model = nn.Linear(4, 1)\n        self.scale = 2\n        self.model = self.model.cuda()",
        "self.model = nn.Linear(4, 1)\n        if flag:\n            self.model.cuda()",
        'self.model = nn.Linear(4, 1)\n        self.model.to("cuda").train()',
    ],
)
def test_an_attribute_is_wrapped_after_it_is_moved(made: str) -> None:
    before = script(model=TRAINER.format(made=made), optimizer="", loop=STEPS)
    assert f"        {made}\n        {WRAPPED}\n" in converted(before)


def test_in_the_method_that_builds_it() -> None:
    before = script(model=TRAINER.format(made="self.build()"), optimizer="", loop=STEPS)
    assert f'        self.model.to("cuda")\n        {WRAPPED}\n' in converted(before)


@pytest.mark.parametrize(
    "parts",
    [
        {"model": TRAINER.format(made="self.model = nn.Linear(4, 1)") + 'trainer.model.to("cuda")\n', "loop": STEPS},
        {
            "model": f'def train(model, optimizer):\n    model.to("cuda")\n{LOOP.partition(chr(10))[2]}\n\n{MODEL}',
            "loop": f"{OPTIMIZER}for epoch in range(3):\n    train(model, optimizer)\n",
        },
    ],
)
def test_no_wrap_around_what_is_first_moved_later(parts: dict[str, str]) -> None:
    """Its hooks would stay with the gradients that the model had before."""
    after = converted(script(**parts, optimizer=""))
    assert "DistributedDataParallel(" not in after
    assert "rt.all_reduce_gradients(" in after


@pytest.mark.parametrize(
    ("lines", "call"),
    [
        ("", "if len(data) > 9:\n    trainer.load()\n"),
        ("        if self.model is None:\n            self.build()\n", "if len(data) > 9:\n    trainer.load()\n"),
        ("", "trainer.load() if len(data) > 9 else None\n"),
        ("", "while len(data) > 9:\n    trainer.load()\n    break\n"),
        ("        if not data:\n            return\n", "trainer.load()\n"),
    ],
)
def test_no_wrap_where_some_runs_do_not_come(lines: str, call: str) -> None:
    """In a method that those call that resume, say, or behind what ends it: the others' ranks would train apart."""
    load = f"    def load(self):\n{lines}        self.model = self.model.cpu()\n\n"
    trainer = TRAINER.format(made="self.build()").replace('        self.model.to("cuda")\n', "")
    trainer = trainer.replace("    def step", f"{load}    def step")
    after = converted(script(model=f"{trainer}{call}", optimizer="", loop=STEPS))
    assert f"{load}    def step" in after
    assert "rt.all_reduce_gradients(" in after


def test_what_has_been_moved_before_may_be_moved_again() -> None:
    train = f'def train(model, optimizer):\n    model.to("cuda")\n{LOOP.partition(chr(10))[2]}\n\n'
    before = script(
        model=f'{train}model = nn.Linear(4, 1).to("cuda")\n',
        loop="for epoch in range(3):\n    train(model, optimizer)\n",
    )
    assert f"{WRAP}{OPTIMIZER}" in converted(before)


OWN_LOSS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.loss_fn = {loss}

    def forward(self, x):
        return self.layer(x)


model = Net()
"""
BY_ITS_OWN = "model{}.loss_fn(model(x), y)"


def test_a_loss_that_a_model_holds_has_no_gradients_to_miss() -> None:
    model, plain = OWN_LOSS.format(loss="nn.MSELoss()"), "nn.functional.mse_loss(model(x), y)"
    before = script(model=model, loop=LOOP.replace(plain, BY_ITS_OWN.format("")))
    after = distributed(model=model, loop=SHUFFLED.replace(plain, BY_ITS_OWN.format(".module")))
    assert converted(before) == after


def test_a_part_with_parameters_that_is_called_by_itself_is_not_averaged_by_a_wrap() -> None:
    model = OWN_LOSS.format(loss="nn.Bilinear(1, 1, 1)")
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", BY_ITS_OWN.format("") + ".mean()")
    assert "    rt.all_reduce_gradients(optimizer)\n" in converted(script(model=model, loop=loop))


def test_a_line_with_its_def_has_no_place_behind_it() -> None:
    """The gradients of what is kept there are averaged by a line."""
    new = converted(
        f"""{IMPORTS}{DATA}{LOADER}
class Trainer:
    def __init__(self): self.model = nn.Linear(4, 1); self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def fit(self):
        for x, y in loader:
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()


trainer = Trainer()
trainer.fit()
"""
    )
    assert "            rt.all_reduce_gradients(self.optimizer)\n            self.optimizer.step()\n" in new
    assert "trainer = Trainer()\nrt.broadcast_parameters(trainer.model)\n" in new


def test_a_part_that_is_found_by_its_path_is_not_taken_for_the_model() -> None:
    body = "    return functools.reduce(getattr, path.split('.'), model)\n"
    find = f"import functools\n\n\ndef find(model, path):\n{body}\n\n"
    after = converted(script(imports=f"{IMPORTS}{find}", after="print(find(model, 'weight').abs().mean())\n"))
    assert "print(find(model, 'weight').abs().mean())\n" in after
