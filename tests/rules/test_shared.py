"""SHARE01: from which line on which forward passes are shared, and what else of a script then stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from distify_codemods import Conversion, Level, Outcome, SourceFile, Strategy, convert
from distify_codemods.results import OptionError, Options

from distify.files import read_script
from distify.resolver import LocalModules
from tests.rules.scripts import (
    DATA,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    PRINT,
    RUNTIME,
    WHOLE_GROUP,
    conversion_of,
    converted,
    indented,
    line_of,
    script,
)

CODE = "SHARE01"
SHARED = Options(strategy="shared")
AUTO = Options()
HEADLINE = (
    "shared forward passes: every rank runs the script as it stands, and computes its part of a batch wherever the run "
    "finds that parts make up the whole"
)
SHARE = "rt.data_parallel(model)\n"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 2)
        self.decoder = nn.Linear(2, 1)

    def encode(self, x):
        return self.encoder(x)

    def loss(self, x, y):
        return nn.functional.mse_loss(self.decoder(self.encode(x)), y)

    def forward(self, x):
        return self.decoder(self.encode(x))

    def size(self, unit):
        return sum(p.numel() for p in self.parameters()) / unit


model = Net()
"""
#: A loss that looks at the samples of a batch as a whole, in a way that no gathering is known for.
COUPLED = LOOP.replace("mse_loss(model(x), y)", "mse_loss(model(x), y) + strange.spread(model(x))")
STRANGE = f"{IMPORTS}import strange\n"
FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*/train.py"))
PROJECTS = sorted((Path(__file__).parents[2] / "fixtures" / "projects").glob("*/train.py"))


def shared(
    imports: str = IMPORTS,
    ours: str = RUNTIME,
    setup: str = "",
    group: str = WHOLE_GROUP,
    data: str = DATA,
    loader: str = LOADER,
    model: str = MODEL,
    share: str = SHARE,
    optimizer: str = OPTIMIZER,
    loop: str = LOOP,
    after: str = "",
) -> str:
    """What `script` must become: itself, but for a few lines."""
    return f"{imports}{ours}\n{setup}{group}{data}{loader}{model}{share}{optimizer}{loop}{after}"


def lines(before: str, options: Options = SHARED) -> list[str]:
    """The lines that are added to a script, of which all others stay."""
    after = converted(before, options).splitlines()
    for line in before.splitlines():
        after.remove(line)
    return [line for line in after if line and line != RUNTIME.strip()]


def blocking(before: str, options: Options = SHARED) -> list[tuple[str, str]]:
    conversion = conversion_of(before, options=options)
    assert bool(conversion.of(Level.BLOCKING)) == (conversion.outcome is Outcome.REFUSED)
    return [(one.code, one.message) for one in conversion.of(Level.BLOCKING)]


# ---- where it stands, and what it names


def test_nothing_else_changes() -> None:
    assert converted(script(), SHARED) == shared()


@pytest.mark.parametrize("backend", ["allreduce", "ddp"])
def test_over_torch_alike(backend: str) -> None:
    assert converted(script(), Options(strategy="shared", backend=backend)) == shared()


def test_over_horovod() -> None:
    ours = "import distify_runtime as rt\nimport horovod.torch as hvd\n"
    after = converted(script(), Options(strategy="shared", backend="horovod"))
    assert after == shared(ours=ours, group=f"hvd.init()\n{WHOLE_GROUP}")


def test_what_is_done_once_is_done_once() -> None:
    after = 'print("done")\ntorch.save(model.state_dict(), "model.pt")\n'
    once = 'print("done")\nif rt.is_main_process():\n    torch.save(model.state_dict(), "model.pt")\n'
    assert converted(script(after=after), SHARED) == shared(ours=RUNTIME + PRINT, after=once)


def test_after_the_last_thing_that_is_done_to_it() -> None:
    later = 'model.load_state_dict(torch.load("old.pt", map_location="cpu"))\n'
    assert converted(script(optimizer=OPTIMIZER + later), SHARED) == shared(
        share="", optimizer=f"{OPTIMIZER}{later}{SHARE}"
    )


def test_several_models() -> None:
    model = "first = nn.Linear(4, 2)\nsecond = nn.Linear(2, 1)\n"
    optimizer = "optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)\n"
    before = script(model=model, optimizer=optimizer, loop=LOOP.replace("model(x)", "second(first(x))"))
    assert lines(before) == [WHOLE_GROUP.strip(), "rt.data_parallel(first)", "rt.data_parallel(second)"]


def test_a_list_of_models() -> None:
    model = "models = [nn.Linear(4, 1) for _ in range(3)]\n"
    optimizer = "optimizer = torch.optim.SGD([p for one in models for p in one.parameters()], lr=0.1)\n"
    before = script(model=model, optimizer=optimizer, loop=LOOP.replace("model(x)", "sum(one(x) for one in models)"))
    assert lines(before) == [WHOLE_GROUP.strip(), "rt.data_parallel(models)"]


@pytest.mark.parametrize("name", ["frozen", "one"])
def test_a_list_that_a_loop_fills_whatever_goes_through_it_later(name: str) -> None:
    """The loop's variable is the last of them, though a comprehension has one of that name."""
    made = f"{MODEL}several = []\nfor number in range(3):\n    frozen = nn.Linear(4, 1)\n"
    read = '    frozen.load_state_dict(torch.load(f"{number}.pt"))\n    frozen.eval()\n    several.append(frozen)\n'
    loop = LOOP.replace("(model(x), y)", f"(model(x) - sum({name}(x) for {name} in several), y)")
    new = converted(script(model=made + read, loop=loop), SHARED)
    assert "\n    several.append(frozen)\nrt.data_parallel(several)\n" in new
    assert "data_parallel(frozen)" not in new


def test_each_of_two_branches_that_make_one_around_the_same_part() -> None:
    wrapper = (
        "import sys\n\nclass Wrapper(nn.Module):\n    def __init__(self, backbone):\n        super().__init__()\n"
        "        self.backbone, self.head = backbone, nn.Linear(4, 1)\n\n    def forward(self, x):\n"
        "        return self.head(self.backbone(x))\n\n\nbackbone = nn.Linear(4, 4)\n"
    )
    arm = (
        "    model = Wrapper(backbone)\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    train(model, "
        "optimizer)\n"
    )
    train = "def train(model, optimizer):\n" + indented(LOOP)
    branches = f"if sys.argv[1] == 'short':\n{arm}elif sys.argv[1] == 'long':\n{arm}"
    before = script(model=wrapper, optimizer=train, loop=branches)
    assert lines(before) == [WHOLE_GROUP.strip(), *["    rt.data_parallel(model)"] * 2]


def test_models_of_folds_each_in_its_turn() -> None:
    before = script(model="", optimizer="", loop="for fold in range(3):\n" + indented(MODEL + OPTIMIZER + LOOP))
    assert lines(before) == [WHOLE_GROUP.strip(), "    rt.data_parallel(model)"]


def test_a_model_that_a_trainer_keeps() -> None:
    trainer = (
        "class Trainer:\n    def __init__(self):\n        self.model = nn.Linear(4, 1)\n        self.model.to('cpu')\n"
        "        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n\n    def fit(self):\n"
    )
    fit = indented(LOOP.replace("model(", "self.model(").replace("optimizer.", "self.optimizer."), " " * 8)
    before = script(model=f"{trainer}{fit}\n\nTrainer().fit()\n", optimizer="", loop="")
    assert lines(before) == [WHOLE_GROUP.strip(), "        rt.data_parallel(self.model)"]


def test_a_model_that_only_its_maker_has_a_name_for() -> None:
    model = (
        "def build():\n    net = nn.Sequential(nn.Linear(4, 1), nn.Dropout())\n"
        "    return (lambda x: net(x)), torch.optim.SGD(net.parameters(), lr=0.1)\n\n\n"
    )
    before = script(model=model, optimizer="step, optimizer = build()\n", loop=LOOP.replace("model(x)", "step(x)"))
    assert lines(before) == [WHOLE_GROUP.strip(), "    rt.data_parallel(net)"]


def test_weights_that_belong_to_no_module_stay_as_they_are() -> None:
    before = script(
        model=f"{MODEL}scale = nn.Parameter(torch.ones(1))\n",
        optimizer="optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)\n",
        loop=LOOP.replace("model(x)", "model(x) * scale"),
    )
    assert lines(before) == [WHOLE_GROUP.strip(), SHARE.strip()]


MOVING = f"{MODEL}model = rt.inputs_to_device(model)\n"


@pytest.mark.parametrize(("compiled", "told"), [("model", 1), ("model[0]", 1), ("nn.Linear(2, 2)", 0)])
def test_it_is_said_of_a_model_that_it_is_not_compiled(compiled: str, told: int) -> None:
    before = script(model=f"model = nn.Sequential(nn.Linear(4, 2))\nquick = torch.compile({compiled})\n")
    before = before.replace("model(x)", "quick(x)") if compiled == "model" else before
    said = [one.message for one in conversion_of(before, options=SHARED).of(Level.ADVICE)]
    assert (
        said.count("on several ranks this compiles nothing: a forward pass that is shared runs as it is written")
        == told
    )


def test_nn_data_parallel_goes() -> None:
    wrap = "model = nn.DataParallel(model)\n"
    after = 'torch.save(model.module.state_dict(), "model.pt")\n'
    once = 'if rt.is_main_process():\n    torch.save(model.state_dict(), "model.pt")\n'
    before = script(model=MODEL + wrap, after=after)
    assert converted(before, SHARED) == shared(model=MOVING, after=once)


def test_keys_of_checkpoints_that_nn_data_parallel_wrote_stay() -> None:
    before = script(model=f"{MODEL}model = nn.DataParallel(model)\n", after='torch.save(model.state_dict(), "m.pt")\n')
    once = 'if rt.is_main_process():\n    torch.save(rt.add_module_prefix(model.state_dict()), "m.pt")\n'
    assert converted(before, SHARED) == shared(model=MOVING, after=once)


# ---- methods and parts


def test_a_method_of_its_own() -> None:
    before = script(model=NET, loop=LOOP.replace("nn.functional.mse_loss(model(x), y)", "model.loss(x, y)"))
    assert lines(before) == [WHOLE_GROUP.strip(), 'rt.data_parallel(model, methods=("loss",))']


def test_a_method_that_calls_the_model_itself() -> None:
    """What it makes of the outputs, it makes of those of the whole batch."""
    step = (
        "    def training_step(self, x, y):\n        return nn.functional.mse_loss(self(x), y) + self.size(9)\n\n"
        "    def size"
    )
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", "model.training_step(x, y)")
    before = script(model=NET.replace("    def size", step), loop=loop)
    assert lines(before) == [WHOLE_GROUP.strip(), SHARE.strip()]


CHOSEN = """\
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 1)

    def forward(self, x):
        return self.body(x)


def build(kind):
    if kind == "net":
        return Net()
    return Wide()


def loss_of(model, x, y):
    return nn.functional.mse_loss(model(x), y)


model = build(kind)
"""


TRAINS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.body.parameters(), lr=0.1)

    def encode(self, x):
        return self.body(x)

    def forward(self, x, y):
        loss = nn.functional.mse_loss(self.{part}(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


model = Net()
"""
STEPS = "for epoch in range(3):\n    for x, y in loader:\n        print(model(x, y))\n"


def test_a_forward_that_takes_the_step_itself() -> None:
    before = script(model=TRAINS.format(part="encode"), optimizer="", loop=STEPS)
    assert 'rt.data_parallel(model, methods=("encode",), forward=False)\n' in converted(before, SHARED)
    before = script(model=TRAINS.format(part="body"), optimizer="", loop=STEPS)
    assert "rt.data_parallel(model.body)\n" in (after := converted(before, SHARED))
    assert "data_parallel(model)" not in after


def test_one_of_several_models() -> None:
    before = script(
        model=NET + CHOSEN, loop=LOOP.replace("nn.functional.mse_loss(model(x), y)", "loss_of(model, x, y)")
    )
    after = converted(before, SHARED)
    assert lines(before) == [WHOLE_GROUP.strip(), "rt.data_parallel(model)"]
    assert after.index("model = build(") < after.index("rt.data_parallel(model)") < after.index("optimizer =")


def test_a_method_beside_forward() -> None:
    before = script(model=NET, loop=LOOP.replace("(model(x), y)", "(model(x), y) + model.encode(x).mean()"))
    assert lines(before) == [WHOLE_GROUP.strip(), 'rt.data_parallel(model, methods=("encode",))']


def test_a_method_of_a_model_that_is_called_in_no_other_way() -> None:
    """It may compute by parameters, its own or those that it is given, without calling a part."""
    method = "    def score(self, x, weights):\n        return x @ weights[0] + weights[1]\n\n\nmodel = Net()\n"
    loop = LOOP.replace("model(x)", "model.score(x, [w.clone() for w in model.parameters()])")
    before = script(model=NET.replace("\n\nmodel = Net()\n", method), loop=loop)
    assert lines(before) == [WHOLE_GROUP.strip(), 'rt.data_parallel(model, methods=("score",))']
    beside = before.replace(
        "        optimizer.zero_grad()", "        loss = loss + model(x).mean()\n        optimizer.zero_grad()"
    )
    assert lines(beside) == [WHOLE_GROUP.strip(), "rt.data_parallel(model)"]


def test_a_part_that_is_called_by_itself() -> None:
    before = script(model=NET, loop=LOOP.replace("(model(x), y)", "(model(x), y) + model.encoder(x).mean()"))
    assert lines(before) == [WHOLE_GROUP.strip(), "rt.data_parallel(model, model.encoder)"]


def test_parts_without_the_whole() -> None:
    before = script(model=NET, loop=LOOP.replace("model(x)", "model.decoder(model.encode(x))"))
    assert lines(before) == [
        WHOLE_GROUP.strip(), 'rt.data_parallel(model, methods=("encode",))', "rt.data_parallel(model.decoder)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "parts",
    [
        "nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 1))",
        "nn.ModuleList([nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 1)])",
    ],
)
def test_parts_by_their_places(parts: str) -> None:
    before = script(model=f"model = {parts}\n", loop=LOOP.replace("model(x)", "model[2](model[0](x))"))
    assert lines(before) == [WHOLE_GROUP.strip(), "rt.data_parallel(model[0], model[2])"]


@pytest.mark.parametrize(
    "made",
    [
        "nn.ModuleList(nn.Linear(4, 4) for _ in range(3))",
        "nn.ModuleList([nn.Linear(4, 1), nn.Tanh()])\nmodel[0] = nn.Linear(4, 1)",
    ],
)
def test_parts_whose_places_are_not_known(made: str) -> None:
    before = script(model=f"model = {made}\n", loop=LOOP.replace("model(x)", "model[0](x)"))
    told = blocking(before)
    assert told
    assert all(code == CODE and message.startswith("no line before training has a name for") for code, message in told)


def test_a_method_of_a_model_that_cannot_be_seen() -> None:
    loop = LOOP.replace("model(x)", "model.decode(model.encode(x))")
    before = script(imports=STRANGE, model="model = strange.Autoencoder()\n", loop=loop)
    assert lines(before) == [WHOLE_GROUP.strip(), 'rt.data_parallel(model, methods=("encode", "decode"))']


def test_a_model_that_a_library_calls() -> None:
    before = script(imports=STRANGE, loop=LOOP.replace("nn.functional.mse_loss(model(x), y)", "strange.loss(model, x)"))
    assert lines(before) == [WHOLE_GROUP.strip(), SHARE.strip()]


def test_a_model_that_a_loss_of_a_library_was_made_with() -> None:
    before = script(
        imports=STRANGE, setup="", model=f"{MODEL}ranking = strange.Ranking(model=model)\n",
        loop=LOOP.replace("nn.functional.mse_loss(model(x), y)", "ranking(x, y)"),
    )  # fmt: skip
    assert lines(before) == [WHOLE_GROUP.strip(), SHARE.strip()]


@pytest.mark.parametrize(
    "call",
    ["model.size(1000)", "model.train()", "model.requires_grad_(True)", "print(model.size(1000))"],
)
def test_methods_that_are_no_forward_passes(call: str) -> None:
    before = script(
        model=NET, loop=LOOP.replace("        optimizer.zero_grad()", f"        {call}\n        optimizer.zero_grad()")
    )
    assert [line for line in lines(before) if "data_parallel" in line] == [SHARE.strip()]


def test_a_method_that_trains_is_none_that_is_shared() -> None:
    """What it calls is."""
    net = NET.replace("    def size", "    def fit(self, loader):\n" + indented(
        LOOP.replace("model(x)", "self(x)").replace("optimizer", "self.optimizer"), " " * 8
    ) + "\n    def size").replace(
        "model = Net()", "model = Net()\nmodel.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    )  # fmt: skip
    before = script(model=net, optimizer="", loop="model.fit(loader)\n")
    assert [line for line in lines(before) if "data_parallel" in line] == [SHARE.strip()]


def test_a_step_that_is_a_method_of_the_model() -> None:
    step = (
        "    def fit(self, x, y):\n        loss = nn.functional.mse_loss(self(x), y)\n"
        "        self.optimizer.zero_grad()\n        loss.backward()\n        self.optimizer.step()\n\n    def size"
    )
    net = NET.replace("    def size", step) + "model.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    before = script(model=net, optimizer="", loop="for x, y in loader:\n    model.fit(x, y)\n")
    assert [line for line in lines(before) if "data_parallel" in line] == [SHARE.strip()]


# ---- what all ranks must do


@pytest.mark.parametrize(
    "call",
    [
        'torch.save(model(torch.ones(1, 4)), "out.pt")',
        'torch.save(model.encode(torch.ones(1, 4)), "out.pt")',
        'torch.save({"codes": [model.encoder(torch.ones(1, 4))]}, "out.pt")',
    ],
)
def test_no_guard_is_around_a_forward_pass(call: str) -> None:
    """All ranks compute it, and rank 0 writes."""
    after = converted(script(model=NET, after=f"{call}\n"), SHARED)
    assert after.endswith(f"{call.replace('torch.save(', 'rt.main_process_only(torch.save)(')}\n")


def test_nor_around_one_of_a_model_that_cannot_be_seen() -> None:
    call = 'torch.save(model.encode(torch.ones(1, 4)), "out.pt")'
    after = converted(script(imports=STRANGE, model="model = strange.Net()\n", after=f"{call}\n"), SHARED)
    assert after.endswith(f"{call.replace('torch.save(', 'rt.main_process_only(torch.save)(')}\n")


@pytest.mark.parametrize("head", ["if time.time() - begin > 60:\n    break\n", ""])
def test_the_time_is_rank_zeros(head: str) -> None:
    setup = "import time\nbegin = time.time()\n"
    test = "time.time() - begin"
    if head:
        before = script(setup=setup, loop=LOOP.replace("    for x", f"{indented(head)}    for x"))
        assert f"    if rt.from_main_process({test} > 60):\n" in converted(before, SHARED)
    else:
        loop = LOOP.replace("for epoch in range(3)", f"while {test} < 60")
        assert f"while rt.from_main_process({test} < 60):\n" in converted(script(setup=setup, loop=loop), SHARED)


@pytest.mark.parametrize(
    "change",
    [
        (
            "        optimizer.zero_grad()",
            "        if loss.item() > 9:\n            break\n        optimizer.zero_grad()",
        ),
        (
            "        optimizer.zero_grad()",
            "        if torch.rand(1) > 0.5:\n            continue\n        optimizer.zero_grad()",
        ),
        ("        optimizer.step()", "        if epoch % 2:\n            optimizer.step()"),
        ("(model(x), y)", "(model(x), y, reduction='sum')"),
        ("x, y in loader", "x, y in DataLoader(data, batch_size=8, shuffle=True)"),
    ],
)
def test_what_is_alike_on_all_ranks_stays(change: tuple[str, str]) -> None:
    loop = LOOP.replace(*change)
    assert converted(script(loop=loop), SHARED) == shared(loop=loop)


# ---- what cannot be shared


def test_nothing_to_share() -> None:
    before = script(
        model="weights = nn.Parameter(torch.zeros(4, 1))\n", loop=LOOP.replace("model(x)", "x @ weights"),
        optimizer="optimizer = torch.optim.SGD([weights], lr=0.1)\n",
    )  # fmt: skip
    [(code, message)] = blocking(before)
    assert code == CODE
    assert message == "no forward pass of a trained module is seen in training: ranks would all do the same work"


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"imports": f"{IMPORTS}from torch import distributed\n", "setup": 'distributed.init_process_group()\n'}, CODE),
        ({"model": 'model = nn.Linear(4, 1).to("cuda:0")\nother = nn.Linear(4, 1).to("cuda:1")\n'}, "DEVICE01"),
        ({"imports": f"{IMPORTS}import torch.multiprocessing as mp\n", "after": "mp.spawn(print)\n"}, CODE),
    ],
)  # fmt: skip
def test_what_goes_another_way_on_each_rank(parts: dict[str, str], code: str) -> None:
    assert blocking(script(**parts))[0][0] == code
    assert conversion_of(script(**parts), options=AUTO).strategy is not Strategy.SHARED


@pytest.mark.parametrize(
    "start",
    [
        "import threading\nthreading.Thread(target=train).start()",
        "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(train)",
    ],
)
def test_threads_that_train(start: str) -> None:
    head, call = start.split("\n")
    train = f"def train():\n{indented(LOOP)}\n\n"
    before = script(imports=f"{IMPORTS}{head}\n", setup=train, loop=f"{call}\n")
    assert (CODE, "a trained model is called in threads or processes of the script's own") in [
        (code, message.partition(", in")[0]) for code, message in blocking(before)
    ]


def test_threads_that_do_something_else() -> None:
    setup = "def watch():\n    print(1)\n\n\nthreading.Thread(target=watch).start()\n"
    conversion = conversion_of(script(imports=f"{IMPORTS}import threading\n", setup=setup), options=SHARED)
    assert conversion.outcome is Outcome.CONVERTED


GRAPH = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 1)

    def forward(self, x, edges):
        return self.conv(x, edges)


model = Net()
"""


@pytest.mark.parametrize("layer", ["GCNConv(4, 1)", "MLPAggregation(4, 1, 8)"])
def test_one_whole_graph(layer: str) -> None:
    step = "nn.functional.mse_loss(model(graph.x, graph.edge_index), graph.y).backward()"
    loop = f"for epoch in range(3):\n    optimizer.zero_grad()\n    {step}\n    optimizer.step()\n"
    imports = f"{IMPORTS}from torch_geometric.nn import GCNConv, MLPAggregation\nfrom graphs import load\n"
    model = GRAPH.replace("GCNConv(4, 1)", layer)
    before = script(imports=imports, data="graph = load()\n", model=model, loop=loop, loader="")
    assert [code for code, message in blocking(before) if message.startswith("each step takes one whole graph")] == [
        CODE
    ]


@pytest.mark.parametrize("layer", ["Linear(4, 1)", "MLP([4, 4, 1])"])
def test_layers_of_each_node_by_itself_take_no_graph(layer: str) -> None:
    step = "nn.functional.mse_loss(model(graph.x), graph.y).backward()"
    loop = f"for epoch in range(3):\n    optimizer.zero_grad()\n    {step}\n    optimizer.step()\n"
    imports = f"{IMPORTS}from torch_geometric.nn import MLP, Linear\nfrom graphs import load\n"
    model = GRAPH.replace("GCNConv(4, 1)", layer).replace("x, edges", "x")
    before = script(imports=imports, data="graph = load()\n", model=model, loop=loop, loader="")
    assert conversion_of(before, options=SHARED).outcome is Outcome.CONVERTED


def test_one_whole_graph_of_whose_edges_a_step_takes_some() -> None:
    """Whoever took a share of these edges would still compute with all of the graph: that is what is told."""
    loop = """\
random.shuffle(graph.edges)
for step in range(10):
    some = graph.edges[step * 8 : step * 8 + 8]
    out = model(graph.x, graph.edge_index)
    loss = nn.functional.mse_loss(out[some], graph.y[some])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    imports = f"{IMPORTS}import random\nfrom torch_geometric.nn import GCNConv\nfrom graphs import load\n"
    before = script(imports=imports, data="graph = load()\n", model=GRAPH, loop=loop, loader="")
    (told,) = conversion_of(before, options=Options()).of(Level.BLOCKING)
    assert told.code == CODE
    assert told.message.startswith("each step takes one whole graph")


GRAPHS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 1))

    def mix(self, x, links):
        return torch.sparse.mm(links, x @ self.weight)

    def forward(self, x, links):
        return self.mix(x, links)


model = Net()


def together(graphs):
    return torch.cat([one.x for one in graphs]), torch.block_diag(*[one.links for one in graphs])
"""
STEP = "optimizer.zero_grad()\n    loss = model(x, links).square().mean()\n    loss.backward()\n    optimizer.step()\n"
LOAD = "from graphs import load\nimport random\n"


@pytest.mark.parametrize(
    ("before", "loop"),
    [
        ("", f"for start in range(0, 50, 10):\n    x, links = together(graphs[start : start + 10])\n    {STEP}"),
        ("at = 0\n", f"while at < 50:\n    x, links = together(graphs[at:])\n    at += 10\n    {STEP}"),
        ("", f"for one in graphs:\n    x, links = one.x, one.links\n    {STEP}"),
        ("", f"for _ in range(9):\n    x, links = together(random.sample(graphs, 5))\n    {STEP}"),
        (
            f"def step(start):\n    x, links = together(graphs[start:])\n    {STEP}\n\n",
            "for start in range(5):\n    step(start)\n",
        ),
    ],
)
def test_graphs_that_are_others_in_each_step(before: str, loop: str) -> None:
    source = script(imports=IMPORTS + LOAD, data="graphs = load()\n", model=GRAPHS, loop=before + loop, loader="")
    assert not [message for _, message in blocking(source) if message.startswith("each step takes one whole graph")]


@pytest.mark.parametrize(
    ("before", "loop"),
    [
        ("x, links = together(graphs)\n", f"for epoch in range(3):\n    print(epoch)\n    {STEP}"),
        (
            f"def step(epoch, x, links):\n    {STEP}\n\nx, links = together(graphs)\n",
            "for epoch in range(3):\n    step(epoch, x, links)\n",
        ),
        ("", f"for epoch in range(3):\n    x, links = together(graphs)\n    {STEP}"),
    ],
)
def test_graphs_that_are_the_same_in_each_step(before: str, loop: str) -> None:
    source = script(imports=IMPORTS + LOAD, data="graphs = load()\n", model=GRAPHS, loop=before + loop, loader="")
    found = [code for code, message in blocking(source) if message.startswith("each step takes one whole graph")]
    assert found == [CODE]


def test_a_whole_batch_of_rows() -> None:
    """Each row by itself: ranks share them."""
    loop = "x, y = data.tensors\nfor epoch in range(3):\n    optimizer.zero_grad()\n"
    loop += "    nn.functional.mse_loss(model(x), y).backward()\n    optimizer.step()\n"
    assert conversion_of(script(loop=loop), options=SHARED).outcome is Outcome.CONVERTED


def test_an_environment_that_is_played() -> None:
    loop = (
        "for episode in range(3):\n    state, done = env.reset(), False\n    while not done:\n"
        "        action = model(state)\n        state, reward, done, info = env.step(action)\n"
        "        loss = -action * reward\n        optimizer.zero_grad()\n        loss.backward()\n"
        "        optimizer.step()\n"
    )
    before = script(imports=f"{IMPORTS}import gym\n", data='env = gym.make("CartPole-v1")\n', loader="", loop=loop)
    [(code, message)] = blocking(before)
    assert (code, message.split(" that")[0]) == (CODE, "the samples come from an environment")
    assert conversion_of(before, options=AUTO).outcome is Outcome.REFUSED


def test_options_of_sharded_data() -> None:
    options: dict[str, str] = {"backend": "horovod", "compression": "fp16"}
    with pytest.raises(OptionError, match="goes with --strategy sharded"):
        conversion_of(script(), options=Options(strategy="shared", **options))  # type: ignore[arg-type]
    conversion = conversion_of(script(imports=STRANGE, loop=COUPLED), options=Options(**options))  # type: ignore[arg-type]
    assert conversion.strategy is Strategy.SHARDED


# ---- the ladder


def test_what_can_be_sharded_is() -> None:
    conversion = conversion_of(script(), options=AUTO)
    assert conversion.strategy is Strategy.SHARDED
    assert conversion.headline == "sharded data and DistributedDataParallel"
    assert conversion.files == conversion_of(script(), options=Options(strategy="sharded")).files
    [finding] = [one for one in conversion.findings if one.code == CODE]
    assert (finding.level, finding.message) == (Level.NOT_NEEDED, "each rank trains on its own samples")


def test_what_cannot_is_shared_with_the_reason() -> None:
    optimizer = "optimizer = torch.optim.SGD(strange.groups(model), lr=0.1)\n"
    before = script(imports=STRANGE, optimizer=optimizer)
    conversion = conversion_of(before, options=AUTO)
    assert (conversion.outcome, conversion.strategy) == (Outcome.CONVERTED, Strategy.SHARED)
    assert conversion.headline == HEADLINE
    [advice] = [one for one in conversion.of(Level.ADVICE) if one.code == CODE]
    assert advice.message.startswith("sharded data would be faster, and need you first: parameters of this optimizer")
    assert advice.place is not None
    assert advice.place.line == line_of(before, "strange.groups")
    assert conversion_of(before, options=Options(strategy="sharded")).outcome is Outcome.REFUSED


POOLED = LOOP.replace("        loss =", "        pool.append(x)\n        loss =")
POOLED = POOLED.replace("y)", "pool[0][:len(x), :1] * y)")
AGAINST = "sharded as asked for, against what was seen: "


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"setup": "pool = []\n", "loop": POOLED}, "pool.append(x)"),
        ({"imports": STRANGE, "loop": LOOP.replace("model(x)", "model(strange.augment(x))")}, "strange.augment"),
        ({"loop": LOOP.replace("model(x), y", "model(x)[0], y")}, "model(x)[0]"),
        ({"setup": "def first(rows):\n    return [torch.stack(one, 1) for one in zip(*rows)]\n\n\n",
          "loader": "loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=first)\n"}, "collate_fn=first"),
    ],
)  # fmt: skip
def test_what_speaks_against_sharded_data_is_said_where_they_are_asked_for(parts: dict[str, str], line: str) -> None:
    before = script(**parts)
    assert conversion_of(before, options=AUTO).strategy is Strategy.SHARED
    conversion = conversion_of(before, options=Options(strategy="sharded"))
    assert (conversion.outcome, conversion.strategy) == (Outcome.CONVERTED, Strategy.SHARDED)
    assert conversion.headline.startswith("sharded data and DistributedDataParallel, as asked for")
    found = [one for one in conversion.findings if one.code == CODE]
    assert all(one.level is Level.ADVICE and one.message.startswith(AGAINST) for one in found)
    assert [one.place.line for one in found if one.place] == [line_of(before, line)]


def test_nothing_speaks_against_what_is_seen_through() -> None:
    conversion = conversion_of(script(), options=Options(strategy="sharded"))
    assert conversion.headline == "sharded data and DistributedDataParallel"
    assert [one.level for one in conversion.findings if one.code == CODE] == [Level.NOT_NEEDED]


def test_all_or_nothing_also_in_part() -> None:
    before = script(imports=STRANGE, optimizer="optimizer = torch.optim.SGD(strange.groups(model), lr=0.1)\n")
    whole, part = (conversion_of(before, partial=one, options=AUTO) for one in (False, True))
    assert whole.files == part.files
    assert part.strategy is Strategy.SHARED


@pytest.mark.parametrize(
    ("backend", "headline"),
    [
        ("ddp", "sharded data and DistributedDataParallel"),
        ("allreduce", "sharded data, and gradients averaged by a line before each step"),
        ("horovod", "sharded data and Horovod's optimizers"),
    ],
)
def test_the_strategy_is_told_by_its_means(backend: str, headline: str) -> None:
    assert conversion_of(script(), options=Options(backend=backend)).headline == headline


# ---- whole scripts


def _no_modules(importing: str, name: str, level: int) -> None:
    return None


def _is_shared(conversion: Conversion) -> None:
    assert (conversion.outcome, conversion.headline) == (Outcome.CONVERTED, HEADLINE)
    assert not conversion.of(Level.BLOCKING)
    written = "".join(file.after.decode() for file in conversion.files)
    assert "rt.data_parallel(" in written
    for name in ("DistributedDataParallel(", "TrainingSampler", "set_epoch", "seed_ranks", "all_reduce", "gather"):
        assert f"rt.{name}" not in written


@pytest.mark.parametrize("backend", ["ddp", "allreduce", "horovod"])
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.parent.name)
def test_each_fixture(path: Path, backend: str) -> None:
    options = Options(strategy="shared", backend=backend)
    conversion = convert(SourceFile("train.py", path.read_bytes()), _no_modules, options)
    _is_shared(conversion)
    again = convert(SourceFile("train_dist.py", conversion.files[0].after), _no_modules, options)
    assert again.outcome is Outcome.ALREADY_CONVERTED


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_each_project(path: Path) -> None:
    _is_shared(convert(read_script(str(path)), LocalModules(str(path)), SHARED))


# ---- larger batches

SCALED = "loader = rt.scale_batch_size(DataLoader(data, batch_size=8, shuffle=True))\n"


def test_larger_batches() -> None:
    after = converted(script(), Options(strategy="shared", scale="linear"))
    assert SCALED in after
    assert "optimizer = rt.scale_learning_rate(torch.optim.SGD(model.parameters(), lr=0.1))\n" in after
    assert WHOLE_GROUP in after
    after = converted(script(), Options(strategy="shared", scale="none"))
    assert SCALED in after
    assert "scale_learning_rate" not in after
    assert "scale_batch_size" not in converted(script(), SHARED)


@pytest.mark.parametrize(
    ("parts", "place"),
    [
        ({"loop": LOOP.replace("mse_loss(model(x), y)", "mse_loss(model(x), torch.ones(8, 1))").replace("8", "SIZE"),
          "data": f"SIZE = 8\n{DATA}", "loader": LOADER.replace("8", "SIZE")}, "torch.ones(SIZE"),
        ({"loader": "loader = DataLoader(data, batch_sampler=[[1, 2], [3, 4]])\n"}, "batch_sampler"),
        ({"data": "data = torch.randn(64, 4), torch.randn(64, 1)\n", "loader": "",
          "loop": LOOP.replace("    for x, y in loader:", "    for start in range(0, 64, 8):\n"
                               "        x, y = data[0][start:start + 8], data[1][start:start + 8]")}, "loss.backward"),
    ],
)  # fmt: skip
def test_batches_that_cannot_grow(parts: dict[str, str], place: str) -> None:
    before = script(**parts)
    conversion = conversion_of(before, options=Options(strategy="shared", scale="linear"))
    assert conversion.outcome is Outcome.REFUSED
    found = conversion.of(Level.BLOCKING)
    assert ("BATCH01", line_of(before, place)) in {(one.code, one.place.line) for one in found if one.place}
    assert conversion_of(before, options=SHARED).outcome is Outcome.CONVERTED


WRITING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 1)

    def forward(self, x):
        {doc}h = self.body(x)
        {line}
        return h


model = Net()
"""


@pytest.mark.parametrize("doc", ["", '"""What it says."""\n        '])
@pytest.mark.parametrize(
    "line", ["print(h.mean())", "log.write(f'{h.mean()}')", "logging.info('%f', h.mean())", "print('here', file=log)"]
)
def test_a_forward_pass_that_writes_is_computed_whole(line: str, doc: str) -> None:
    before = script(
        imports=f"import logging\n{IMPORTS}", setup="log = open('log.txt', 'w')\n",
        model=WRITING.replace("{doc}", doc).replace("{line}", line),
    )  # fmt: skip
    after = f"    def forward(self, x):\n        {doc}rt.compute_whole()\n        h = "
    assert after in converted(before, options=SHARED)


@pytest.mark.parametrize("line", ["h = h + 0", "logging.debug('%f', h.mean())", "assert len(h), h.shape"])
def test_a_forward_pass_that_writes_nothing_is_shared(line: str) -> None:
    before = script(imports=f"import logging\n{IMPORTS}", model=WRITING.replace("{doc}", "").replace("{line}", line))
    assert "compute_whole" not in converted(before, options=SHARED)


def test_what_writes_outside_of_forward_passes_is_left_alone() -> None:
    before = script(model=NET, loop=f"{LOOP}        print(model(x).mean())\n")
    assert "compute_whole" not in converted(before, options=SHARED)


KEEPING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 1)
        self.calls = 0
        self.register_buffer("past", torch.zeros(0, 1))

    def forward(self, x):
        h = self.body(x)
        {test}:
            self.past = torch.cat([self.past, h.detach()])[-64:]
        return h


model = Net()
"""


@pytest.mark.parametrize(
    ("test", "whole"),
    [("if self.calls > 9", True), ("if self.training and len(x) > 2", True), ("if self.training", False)],
)
def test_what_a_forward_pass_keeps_in_some_passes_is_of_whole_batches(test: str, whole: bool) -> None:
    """The check of the first pass tells nothing of it."""
    before = script(model=KEEPING.replace("{test}", test), loop=f"{LOOP}print(model.past.sum())\n")
    assert ("        rt.compute_whole()\n        h = " in converted(before, options=SHARED)) is whole


@pytest.mark.parametrize(("test", "whole"), [("self.calls > 9", True), ("not self.training", False)])
def test_what_it_keeps_unless_it_has_returned_before(test: str, whole: bool) -> None:
    model = KEEPING.replace("        {test}:\n    ", f"        if {test}:\n            return h\n")
    assert f"if {test}:\n            return h\n        self.past = " in model
    before = script(model=model, loop=f"{LOOP}print(model.past.sum())\n")
    assert ("        rt.compute_whole()\n        h = " in converted(before, options=SHARED)) is whole


def test_what_a_constant_turns_off_is_whole_where_it_is_turned_on() -> None:
    model = KEEPING.replace("self.calls = 0", "self.keeps = False").replace("{test}", "if self.keeps")
    after = converted(script(model=model, loop=f"{LOOP}print(model.past.sum())\n"), options=SHARED)
    assert "        h = self.body(x)\n        if self.keeps:\n            rt.compute_whole()\n" in after


BRANCHES = f"""{IMPORTS}import argparse

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=16)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def epoch(self):
        for x, y in loader:
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def long(self):
        for _ in range(3):
            self.epoch()

    def short(self):
        self.epoch()


def main(args):
    if args.model == "linear":
        model = nn.Linear(4, 1)
    trainer = Trainer({{given}})
    hurry = args.hurry
    if hurry:
        trainer.short()
    else:
        trainer.long()


parser = argparse.ArgumentParser()
parser.add_argument("--model", default="linear")
parser.add_argument("--hurry", action="store_true")
main(parser.parse_args())
"""


@pytest.mark.parametrize(
    ("given", "line"),
    [("model", "rt.data_parallel(model)"), ("model if args else None", "rt.data_parallel(trainer.model)")],
)
def test_each_arm_that_trains_has_forward_passes_shared(given: str, line: str) -> None:
    text = converted(BRANCHES.format(given=given), options=SHARED)
    assert f"    {line}\n    hurry = args.hurry\n" in text, text


FROZEN = """\
def train():
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


model.requires_grad_(False)
model.bias.requires_grad_(True)
train()
model.requires_grad_(True)
train()
"""


def test_the_headline_says_what_averages_gradients() -> None:
    conversion = conversion_of(script(loop=FROZEN), options=Options())
    new = conversion.files[0].after.decode()
    assert ("rt.all_reduce_gradients(optimizer)" in new, "DistributedDataParallel(" in new) == (True, False)
    assert conversion.headline == "sharded data, and gradients averaged by a line before each step"


PARTS_BY_NUMBER = """\
class Parts(nn.Module):
    def __init__(self, count):
        super().__init__()
        for number in range(count):
            setattr(self, "part" + str(number), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)))

    def forward(self, x):
        return self.part0(x) + self.part1(x)

    def save(self, path):
        for number in range(2):
            torch.save(getattr(self, "part" + str(number)).cpu().state_dict(), path)
        torch.save(self.cpu().state_dict(), path)


model = nn.DataParallel(Parts(int(input())))
"""


def test_what_is_set_by_names_that_are_put_together_is_no_method_of_modules() -> None:
    """All ranks move the model, rank 0 alone writes; nobody computes anything with a part there."""
    before = script(model=PARTS_BY_NUMBER, loop=f"{LOOP}    model.module.save(f'{{epoch}}.pt')\n")
    conversion = conversion_of(before, options=SHARED)
    assert conversion.outcome is Outcome.CONVERTED
    after = conversion.files[0].after.decode()
    assert "        rt.main_process_only(torch.save)(self.cpu().state_dict(), path)\n" in after
