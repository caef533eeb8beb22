"""OTHER01: what no rule handles is said, and stops the conversion."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome, Said, SourceFile, Strategy, convert

from tests.rules.scripts import (
    IMPORTS,
    LOOP,
    MODEL,
    WRAP,
    blocked,
    changes,
    conversion_of,
    converted,
    findings,
    line_of,
    script,
)

BY_HAND = LOOP.replace("optimizer.zero_grad()", "model.zero_grad()").replace(
    "optimizer.step()", "for p in model.parameters(): p.data -= 0.1 * p.grad"
)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("import strange\nw = strange.weight()\n", "[w]"),
        ("import strange\nw = strange.weight()\n", "[{'params': [w], 'lr': 0.1}]"),
    ],
)
def test_parameters_of_no_module(model: str, given: str) -> None:
    optimizer = f"optimizer = torch.optim.SGD({given}, lr=0.1)\n"
    before = script(model=model, optimizer=optimizer, loop=LOOP.replace("model(x)", "x @ w"))
    assert ("OTHER01", line_of(before, "optimizer = ")) in blocked(before)


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ("ps = list(model.parameters()) + [tau]\n", "ps"),
        ("ps = list(model.parameters())\nps.append(tau)\n", "ps"),
        ("ps = [*model.parameters(), *[tau]]\n", "ps"),
        ("ps = [{'params': model.parameters()}, {'params': [tau]}]\n", "ps"),
        ("from itertools import chain\n", "chain(model.parameters(), [tau])"),
        ("def each():\n    yield from model.parameters()\n    yield tau\n\n\n", "each()"),
    ],
)
def test_a_tensor_beside_the_parameters_of_a_module(made: str, given: str) -> None:
    """Nothing would average its gradient with sharded data; where forward passes are shared, each rank has it whole."""
    tau = "tau = torch.zeros((), requires_grad=True)\n"
    loop = LOOP.replace("model(x), y)", "model(x) * tau.exp(), y)")
    before = script(
        model=f"model = nn.Linear(4, 1)\n{tau}{made}",
        optimizer=f"optimizer = torch.optim.SGD({given}, lr=0.1)\n",
        loop=loop,
    )
    assert "OTHER01" in {code for code, _ in blocked(before)}
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED


@pytest.mark.parametrize(
    "given",
    [
        "list(model.parameters())",
        "[p for p in model.parameters() if p.requires_grad]",
        "filter(lambda p: p.requires_grad, model.parameters())",
        "[{'params': model.parameters()}]",
        "[p for n, p in model.named_parameters() if 'bias' in n] + [model.weight]",
    ],
)
def test_parameters_of_a_module_however_they_are_listed(given: str) -> None:
    optimizer = f"ps = {given}\noptimizer = torch.optim.SGD(ps, lr=0.1)\n"
    assert "DistributedDataParallel(model" in converted(script(optimizer=optimizer))


AROUND = """\
class Around(torch.optim.Optimizer):
    def __init__(self, inner):
        {made}

    def step(self, closure=None):
        self.inner.step(closure)


optimizer = Around(torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    "made",
    [
        "self.inner, self.param_groups, self.defaults = inner, inner.param_groups, {}",
        "super().__init__(inner.param_groups, {}); self.inner = inner",
    ],
)
def test_an_optimizer_around_anothers_parameters(made: str) -> None:
    assert WRAP in converted(script(optimizer=AROUND.format(made=made)))


@pytest.mark.parametrize("given", ["[*model.parameters(), w]", "list(model.parameters()) + [w]"])
def test_free_parameter_beside_a_model(given: str) -> None:
    """Nothing averages its gradient, and the ranks part."""
    before = script(
        model="model = nn.Linear(4, 1)\nw = nn.Parameter(torch.zeros(1))\n",
        optimizer=f"optimizer = torch.optim.SGD({given}, lr=0.1)\n",
        loop=LOOP.replace("model(x)", "model(x) + w"),
    )
    assert ("OTHER01", line_of(before, "optimizer = ")) in blocked(before)


def test_parameters_updated_by_hand() -> None:
    """Whoever reads a model's gradients trains it; DistributedDataParallel averages them."""
    assert WRAP in converted(script(optimizer="", loop=BY_HAND))


UNHEARD = f"from unheard import instantiate, config\n{IMPORTS}"
MADE = "optimizer = instantiate(config, params=model.parameters())\n"
SCALED = LOOP.replace("loss.backward()", "scaler.scale(loss).backward()").replace("optimizer.step()", "{}")


@pytest.mark.parametrize("step", ["scaler.step(optimizer)", "optimizer.step()", "stepper.step(optimizer)"])
@pytest.mark.parametrize("optimizer", [MADE, MADE.replace("params=", "")])
def test_an_optimizer_of_an_unknown_maker(optimizer: str, step: str) -> None:
    """It is given a model's parameters and steps, be it by what it is handed to."""
    setup = "scaler = torch.amp.GradScaler()\nstepper = instantiate(config)\n"
    before = script(imports=UNHEARD, setup=setup, optimizer=optimizer, loop=SCALED.format(step))
    assert WRAP in converted(before)
    told = [one.place.line for one in findings("NET01", before, Level.ADVICE) if one.place is not None]
    assert told == [line_of(before, "stepper =")]  # every rank makes the optimizer


def test_what_is_no_optimizer_is_none() -> None:
    """Given a model's parameters, and handed to no step."""
    before = script(imports=UNHEARD, optimizer=MADE, loop=LOOP.replace("optimizer.step()", "optimizer.go()"))
    assert ("OTHER01", line_of(before, "loss.backward()")) in blocked(before)


@pytest.mark.parametrize("model", ["model = nn.Linear(4, 1)\n", "model = instantiate(config)\n"])
def test_a_module_that_no_optimizer_is_seen_to_have_is_named(model: str) -> None:
    """The way out is an option, and nothing is said to be updated by hand."""
    loop = LOOP.replace("optimizer.", "trainer.").replace(".zero_grad", ".clear").replace(".step", ".go")
    before = script(imports=UNHEARD, model=model, optimizer="trainer = instantiate(config, model)\n", loop=loop)
    for strategy in ("sharded", "auto"):
        found = conversion_of(before, options=Options(strategy=strategy)).of(Level.BLOCKING)
        assert any("--model model" in one.fix for one in found), found
        assert not any("by hand" in one.message for one in found)
    assert conversion_of(before, options=Options(models=(Said("model", "--model"),))).outcome is Outcome.CONVERTED


def test_parameters_of_no_module_updated_by_hand() -> None:
    before = script(
        model="w = torch.zeros(4, 1, requires_grad=True)\n",
        optimizer="",
        loop=LOOP.replace("model(x)", "x @ w")
        .replace("optimizer.zero_grad()", "w.grad = None")
        .replace("optimizer.step()", "w.data -= 0.1 * w.grad"),
    )
    assert ("OTHER01", line_of(before, "loss.backward()")) in blocked(before)


@pytest.mark.parametrize(
    "call",
    [
        "torch.multiprocessing.spawn(print, nprocs=2)",
        "torch.multiprocessing.Process(target=print).start()",
    ],
)
def test_what_goes_on_beside_training(call: str) -> None:
    before = script(after=f"{call}\n")
    assert ("OTHER01", line_of(before, call)) in blocked(before)


def test_under_another_name() -> None:
    before = script(after="import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)\n")
    assert ("OTHER01", line_of(before, "mp.spawn")) in blocked(before)


def test_file_beside_it_that_cannot_be_read() -> None:
    def resolver(importer: str, module: str, level: int) -> SourceFile | None:
        return SourceFile("helper.py", b"def broken(:\n") if module == "helper" else None

    before = script(setup="import helper\n")
    conversion = convert(SourceFile("train.py", before.encode()), resolver, Options())
    assert conversion.outcome is Outcome.REFUSED
    assert any(one.code == "OTHER01" and "helper.py" in one.message for one in conversion.of(Level.BLOCKING))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("def spawn(function): pass\n\n\nspawn(print)\n", id="own function"),
        pytest.param("class Process:\n    def start(self): pass\n\n\nProcess().start()\n", id="own class"),
        pytest.param("w = torch.zeros(3, requires_grad=True)\n", id="parameter that is not trained"),
        pytest.param("", id="nothing"),
    ],
)
def test_nothing_else(after: str) -> None:
    before = script(after=after)
    assert blocked(before) == set()
    assert changes("OTHER01", before) == []
    assert len(findings("OTHER01", before, Level.NOT_NEEDED)) == 1


CALL = "torch.multiprocessing.Process(target=len).start()"


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        (script(after=f"{CALL}\n"), CALL),
        (script(after=f"{CALL}\nrate = 0.1\n"), CALL),
        (script(after=f"if len(data) > 3:\n    {CALL}\n"), f"    {CALL}"),
        (script(after=f"# kept\n{CALL}  # too\n"), f"{CALL}  # too"),
        (script(loop=LOOP.replace("(model(x), y)", "(model(x), model(x.flip(0)))")), "        loss.backward()"),
    ],
)
def test_written_all_the_same_with_a_comment_at_the_place(before: str, statement: str) -> None:
    conversion = conversion_of(before, partial=True)
    assert conversion.outcome is Outcome.CONVERTED
    (finding,) = conversion.of(Level.BLOCKING)
    (new,) = conversion.files
    compile(new.after, "train_dist.py", "exec", dont_inherit=True)
    lines = new.after.decode().splitlines()
    comment = lines[lines.index(statement) - 1]
    indent = statement[: len(statement) - len(statement.lstrip())]
    assert comment.startswith(f"{indent}# distify: needs you {finding.code}")


def test_comment_beside_a_one_line_suite() -> None:
    """It goes above the whole statement, whose suite stays as it is."""
    conversion = conversion_of(script(after=f"if len(data) > 3: {CALL}\n"), partial=True)
    (new,) = conversion.files
    lines = new.after.decode().splitlines()
    assert lines[-1] == f"if len(data) > 3: {CALL}"
    assert lines[-2].startswith("# distify: needs you OTHER01")


WORK = "def work(*given):\n    {does}\n\n"


@pytest.mark.parametrize(
    "starts",
    [
        "multiprocessing.Process(target=work, args=(1,)).start()",
        "multiprocessing.get_context('spawn').Process(target=work).start()",
        "multiprocessing.Pool(2).map(work, [1, 2])",
        "multiprocessing.get_context('spawn').Pool(2).starmap(work, [1, 2])",
        "concurrent.futures.ProcessPoolExecutor().submit(work, 1)",
    ],
)
@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_processes_that_compute(starts: str, strategy: str) -> None:
    """Whichever library starts them, if they call a model or use a GPU; all else is the script's affair."""
    imports = f"import concurrent.futures\nimport multiprocessing\n{IMPORTS}"
    for does, problem in [("model(torch.ones(4))", True), ("torch.ones(1).cuda()", True), ("len(given)", False)]:
        before = script(imports=imports, model=MODEL + WORK.format(does=does), after=f"{starts}\n")
        expected = {("OTHER01", line_of(before, starts))} if problem else set()
        found = conversion_of(before, options=Options(strategy=strategy)).of(Level.BLOCKING)
        assert {(one.code, one.place.line) for one in found if one.code == "OTHER01" and one.place} == expected


def test_threads_that_compute() -> None:
    imports = f"import concurrent.futures\nfrom multiprocessing.pool import ThreadPool\n{IMPORTS}"
    for starts in ("ThreadPool(2).map(model, [x])", "concurrent.futures.ThreadPoolExecutor().submit(model, x)"):
        assert blocked(script(imports=imports, after=f"{starts}\n")) == set()


SIZED = """\
class Net(nn.Module):
    def __init__(self, size=1{MORE}):
        super().__init__()
        self.out = nn.Linear(4, size)

    def forward(self, x):
        return self.out(x)


model = {CALL}
"""


@pytest.mark.parametrize(
    ("more", "call", "raises"),
    [
        ("", "Net(width=1)", True),
        ("", "Net(1, width=1)", True),
        ("", "Net(size=1)", False),
        (", **more", "Net(width=1)", False),
        (", *, width=1", "Net(width=1)", False),
        ("", 'Net(**{"size": 1})', False),
    ],
)
def test_a_keyword_that_a_class_lacks(more: str, call: str, raises: bool) -> None:
    given = script(model=SIZED.replace("{MORE}", more).replace("{CALL}", call))
    told = [one.message for one in conversion_of(given).of(Level.ADVICE) if one.code == "OTHER01"]
    assert told == (["this raises TypeError whenever it is called: `Net` takes no `width`; what is said of what comes "
                     "after it holds once that is mended"] if raises else [])  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "raises"),
    [
        ("def scaled(x):\n    return x\n\n\nscaled(x=1, by=2)\n", False),
        ("import functools\n\n\n@functools.cache\ndef scaled(x):\n    return x\n\n\nscaled(x=1, by=2)\n", False),
        ("class Made:\n    def __new__(cls, by):\n        return 1\n\n\nMade(by=1)\n", False),
        (
            "class Base:\n    def __init__(self, x):\n        pass\n\n\nclass Made(Base):\n    pass\n\n\nMade(by=1)\n",
            True,
        ),
        ("import dataclasses\n\n\n@dataclasses.dataclass\nclass Made:\n    by: int = 1\n\n\nMade(by=1)\n", False),
        (
            "class Mixin:\n    def __init__(self):\n        self.seen = []\n\n\n"
            "class Made(nn.Linear, Mixin):\n    pass\n\n\nMade(4, 2, bias=False)\n",
            False,
        ),
    ],
)
def test_who_takes_keywords(lines: str, raises: bool) -> None:
    found = conversion_of(script(after=lines))
    assert any("raises TypeError" in one.message for one in found.of(Level.ADVICE)) is raises


@pytest.mark.parametrize(
    ("lines", "raises"),
    [
        ("def both(x):\n    return x, x\n\n\none, two, three = both(1)\n", True),
        ("def both(x):\n    return x, x\n\n\none, two = both(1)\n", False),
        ("def both(x):\n    return x, x\n\n\none, *two = both(1)\n", False),
        ("def both(x):\n    return (x, x) if len(x) > 1 else (x, x, x)\n\n\none, two = both('a')\n", False),
        ("def both(x):\n    return [x for _ in range(2)]\n\n\none, two, three = both(1)\n", False),
        (
            "def both(x, more=True):\n    if more:\n        return x, x, x\n    return x, x\n\n\nmore = True\n"
            "if more:\n    one, two, three = both(1, more)\nelse:\n    one, two = both(1, more)\n",
            False,
        ),
        ("def both(x):\n    return (*x, 1)\n\n\none, two, three = both((1, 2))\n", False),
    ],
)
def test_what_is_unpacked_into_other_names(lines: str, raises: bool) -> None:
    found = conversion_of(script(after=lines))
    assert any("are unpacked into" in one.message for one in found.of(Level.ADVICE)) is raises


LOOSE = "nn.Parameter(torch.zeros(4))"


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (f"nn.ParameterDict({{'a': {LOOSE}}})", "[{'params': model.parameters()}, {'params': loose.values()}]"),
        (f"nn.ParameterDict({{'a': {LOOSE}}})", "list(model.parameters()) + [v for k, v in loose.items()]"),
        (f"nn.ParameterDict({{'a': {LOOSE}}})", "list(model.parameters()) + [loose.a]"),
        (f"nn.ParameterList([{LOOSE}])", "[*model.parameters(), *loose]"),
        (f"nn.ParameterList([{LOOSE}])", "itertools.chain(model.parameters(), loose)"),
        (f"{{'a': {LOOSE}}}", "list(model.parameters()) + list(loose.values())"),
    ],
)
def test_parameters_of_no_module_beside_those_of_a_model(made: str, given: str) -> None:
    before = script(imports=f"{IMPORTS}import itertools\n", setup=f"loose = {made}\n",
                    optimizer=f"optimizer = torch.optim.SGD({given}, lr=0.1)\n")  # fmt: skip
    assert ("OTHER01", line_of(before, "optimizer = ")) in blocked(before)
    assert "rt.data_parallel(model)" in converted(before, Options())


def test_parameters_that_a_model_holds_are_no_loose_ones() -> None:
    net = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scales = nn.Linear(4, 1), nn.ParameterList([nn.Parameter(torch.ones(1))])

    def forward(self, x):
        return self.layer(x) * self.scales[0]


model = Net()
"""
    groups = "[{'params': model.layer.parameters()}, {'params': model.scales}]"
    after = converted(script(model=net, optimizer=f"optimizer = torch.optim.SGD({groups}, lr=0.1)\n"))
    assert "model = DistributedDataParallel(model" in after


@pytest.mark.parametrize(
    "given",
    [
        "[{'params': model.layer.parameters()}, {'params': [model.token, model.place], 'weight_decay': 0.0}]",
        "[model.token, model.place, *model.layer.parameters()]",
        "[{'params': model.parameters(), 'weight_decay': torch.zeros(1).item()}]",
    ],
)
def test_parameters_of_a_model_that_are_named_one_by_one_are_no_loose_ones(given: str) -> None:
    net = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.token = nn.Linear(4, 1), nn.Parameter(torch.zeros(4))
        self.place = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.layer(x + self.token) + self.place


model = Net()
"""
    before = script(model=net, setup="", optimizer=f"groups = {given}\noptimizer = torch.optim.SGD(groups, lr=0.1)\n")
    assert "model = DistributedDataParallel(model" in converted(before)


HANDED_ON = """\
class Trainer:
    def __init__(self, loader, model, optimizer):
        self.loader, self.model, self.optimizer = loader, model, optimizer

    def train(self):
        for x, y in self.loader:
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
for p in model[0].parameters():
    p.requires_grad = False
"""


def test_what_is_handed_on_in_another_order_is_no_training_that_is_known() -> None:
    before = script(loader="", model=HANDED_ON, loop="Trainer(model, optimizer, 4).train()\n")
    assert ("DATA01", line_of(before, "loss.backward()")) in blocked(before)


def test_a_part_is_frozen_and_batches_are_no_loaders() -> None:
    loader = "loader = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(5)]\n"
    model = HANDED_ON[HANDED_ON.index("model = ") :]
    conversion = conversion_of(script(loader=loader, model=model), options=Options())
    assert conversion.outcome is Outcome.CONVERTED
