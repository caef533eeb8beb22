"""OLD01: nn.DataParallel goes, and checkpoints keep the keys that they had."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import (
    GROUP,
    IMPORTS,
    LOOP,
    MODEL,
    OPTIMIZER,
    WRAP,
    blocked,
    changes,
    converted,
    distributed,
    line_of,
    script,
)

SAVE = 'torch.save(model.state_dict(), "a.pt")\n'
INNER_SAVE = 'torch.save(model.module.state_dict(), "a.pt")\n'
ON_MAIN = "if rt.is_main_process():\n    "


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{MODEL}model = nn.DataParallel(model)\n", MODEL),
        (f"{MODEL}model = nn.DataParallel(model, device_ids=[0, 1])  # all\n", MODEL),
        (f"{MODEL}model = nn.DataParallel(\n    model,\n    [0, 1],\n)\n", MODEL),
        ("model = nn.DataParallel(nn.Linear(4, 1))\n", MODEL),
        ("model = nn.DataParallel(nn.Linear(4, 1)).cuda()\n", "model = nn.Linear(4, 1).cuda()\n"),
        ("net = nn.Linear(4, 1)\nmodel = nn.DataParallel(net)\n", "net = nn.Linear(4, 1)\nmodel = net\n"),
        ("net = nn.Linear(4, 1)\nmodel = nn.DataParallel(module=net)\n", "net = nn.Linear(4, 1)\nmodel = net\n"),
        (
            "net = nn.Linear(4, 1)\nmodel = nn.DataParallel(device_ids=[0], module=net)\n",
            "net = nn.Linear(4, 1)\nmodel = net\n",
        ),
        (f"{MODEL}model = nn.DataParallel(model); rate = 0.1\n", f"{MODEL}rate = 0.1\n"),
        (f"{MODEL}if torch.cuda.device_count() > 1: model = nn.DataParallel(model)\n", MODEL),
        (f"{MODEL}if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n", MODEL),
        (
            f"{MODEL}if len(data) > 1:\n    model = nn.DataParallel(model)\nelse:\n    rate = 0.1\n",
            f"{MODEL}if len(data) > 1:\n    pass\nelse:\n    rate = 0.1\n",
        ),
    ],
)
def test_gives_way(before: str, after: str) -> None:
    new = converted(script(model=before))
    wrapped = distributed(model=after)
    # The wrap may stand behind anything that leaves the model as it is.
    assert new.replace(WRAP, "") == wrapped.replace(WRAP, "")
    assert new.count(WRAP) == 1


KEPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, deep):
        if deep:
            self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        else:
            self.net = nn.Linear(4, 1)
        {kept}
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8, shuffle=True)

    def train(self):
        for x, y in self.loader:
            loss = nn.functional.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Trainer(torch.cuda.is_available()).train()
"""
MANY = "if torch.cuda.device_count() > 1:\n            "
AROUND = "self.net = nn.DataParallel(self.net)"
OWN_WRAP = "        self.net = DistributedDataParallel(self.net, device_ids=rt.device_ids(self.net))\n"


@pytest.mark.parametrize(
    "kept",
    [
        AROUND,
        f"{MANY}{AROUND}",
        f"{MANY}print(1)\n            {AROUND}",
        f"{MANY}if not deep:\n                print(1)\n            {AROUND}",
        f"if deep:\n            if torch.cuda.device_count() > 1:\n                {AROUND}",
    ],
)
def test_one_of_two_models_is_wrapped_on_all_ways(kept: str) -> None:
    new = converted(KEPT.format(kept=kept))
    assert "nn.DataParallel" not in new
    assert new.count("= DistributedDataParallel(") == 1
    assert OWN_WRAP in new


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("from torch.nn import DataParallel\n", "DataParallel"),
        ("from torch.nn import DataParallel as DP\n", "DP"),
        ("from torch.nn.parallel import DataParallel\n", "DataParallel"),
        ("", "torch.nn.DataParallel"),
    ],
)
def test_under_any_name(imports: str, name: str) -> None:
    imports = IMPORTS + imports
    before = script(imports=imports, model=f"{MODEL}model = {name}(model)\n")
    assert converted(before) == distributed(imports=imports)


def test_printed_beside_it() -> None:
    block = 'if torch.cuda.device_count() > 1:\n    print("several")\n    model = nn.DataParallel(model)\n'
    left = 'if torch.cuda.device_count() > 1:\n    print("several")\n'
    after = converted(script(model=MODEL + block))
    assert after.replace(WRAP, "") == distributed(model=MODEL + left, prints=True).replace(WRAP, "")


def test_keys_that_always_had_the_prefix_keep_it() -> None:
    """What DistributedDataParallel adds is what nn.DataParallel added."""
    before = script(model=f"{MODEL}model = nn.DataParallel(model)\n", after=SAVE)
    assert converted(before) == distributed(after=ON_MAIN + SAVE)


@pytest.mark.parametrize("backend", ["allreduce", "horovod"])
def test_keys_get_the_prefix_where_nothing_wraps_the_model(backend: str) -> None:
    before = script(model=f"{MODEL}model = nn.DataParallel(model)\n", after=SAVE)
    text = converted(before, Options(backend=backend))
    assert '    torch.save(rt.add_module_prefix(model.state_dict()), "a.pt")\n' in text
    assert "nn.DataParallel" not in text


def test_keys_without_the_prefix_stay_without_it() -> None:
    before = script(model=f"{MODEL}model = nn.DataParallel(model)\n", after=INNER_SAVE)
    assert converted(before) == distributed(after=ON_MAIN + INNER_SAVE)


def test_keys_that_had_the_prefix_on_some_machines() -> None:
    block = "if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n"
    before = script(model=MODEL + block, after=SAVE)
    after = converted(before)
    assert after.replace(WRAP, "") == distributed(after=ON_MAIN + INNER_SAVE).replace(WRAP, "")


def test_checkpoint_with_the_prefix_is_read_without() -> None:
    load = 'model.load_state_dict(torch.load("a.pt", map_location="cpu"))\n'
    stripped = 'model.load_state_dict(rt.strip_module_prefix(torch.load("a.pt", map_location="cpu")))\n'
    before = script(model=f"{MODEL}model = nn.DataParallel(model)\n{load}")
    assert converted(before) == distributed(model=MODEL + stripped)


def test_module_before_the_wrap() -> None:
    """Nothing is wrapped there yet; or the wrap stands above it, and `.module` is right."""
    used = "weight = model.module.weight\n"
    after = converted(script(model=f"{MODEL}model = nn.DataParallel(model)\n{used}"))
    plain = after.index(WRAP) > after.index("weight = ")
    assert ("weight = model.weight\n" in after) == plain
    assert (used in after) != plain


def test_blank_lines_around_stay() -> None:
    before = script(model=f"{MODEL}\nmodel = nn.DataParallel(model)\n", optimizer=f"\n{OPTIMIZER}")
    after = converted(before)
    assert "\n\n\n" not in after
    assert f"\n\n{GROUP}" in after


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            "class DataParallel(nn.Module):\n    def __init__(self, module):\n        super().__init__()\n"
            "        self.module = module\n\n    def forward(self, x):\n        return self.module(x)\n\n\n"
            "model = DataParallel(nn.Linear(4, 1))\n",
            id="own class",
        ),
        pytest.param(
            "def DataParallel(module):\n    return module\n\n\nmodel = DataParallel(nn.Linear(4, 1))\n",
            id="own function",
        ),
        pytest.param(MODEL, id="none"),
    ],
)
def test_left_alone(model: str) -> None:
    assert changes("OLD01", script(model=model)) == []
    assert converted(script(model=model)) == distributed(model=model)


def test_own_attribute_named_module() -> None:
    model = """\
class Holder:
    def __init__(self, module):
        self.module = module


model = nn.Linear(4, 1)
holder = Holder(3)
print(holder.module)
"""
    before = script(model=model)
    assert changes("OLD01", before) == []
    assert "print(holder.module)\n" in converted(before)


def test_model_that_is_not_trained() -> None:
    before = script(setup="other = nn.DataParallel(nn.Linear(4, 1))\n")
    assert "other = nn.Linear(4, 1)\n" in converted(before)


# ---- written out by hand

COPIES = """def on_all(net, x):
    ids = list(range(torch.cuda.device_count()))
    nets = nn.parallel.replicate(net, ids)
    parts = nn.parallel.scatter(x, ids)
    return nn.parallel.gather(nn.parallel.parallel_apply(nets[:len(parts)], parts), 0)


"""


def by_hand(test: str, first: str = "on_all(model, x)", second: str = "model(x)") -> str:
    choice = f"        if {test}:\n            out = {first}\n        else:\n            out = {second}\n"
    head, tail = LOOP.replace("model(x)", "out").split("        loss = ")
    return f"{head}{choice}        loss = {tail}"


@pytest.mark.parametrize(
    ("test", "after"),
    [
        ("torch.cuda.device_count() > 1", "min(torch.cuda.device_count(), 1) > 1"),
        ("2 <= torch.cuda.device_count()", "2 <= min(torch.cuda.device_count(), 1)"),
        ("gpus > 1", "min(gpus, 1) > 1"),
        ("cuda and gpus > 1", "cuda and min(gpus, 1) > 1"),
        ("gpus != 1", "min(gpus, 1) != 1"),
    ],
)
def test_copies_on_several_gpus_are_left_out(test: str, after: str) -> None:
    """Their forward passes would go past the wrap, where a machine has several GPUs."""
    setup = f"{COPIES}gpus = torch.cuda.device_count()\ncuda = torch.cuda.is_available()\n"
    new = converted(script(setup=setup, loop=by_hand(test)))
    assert (
        f"        if {after}:\n            out = on_all(model, x)\n        else:\n            out = model(x)\n" in new
    )
    assert COPIES in new
    assert WRAP in new


def test_copies_in_the_other_arm() -> None:
    new = converted(
        script(setup=COPIES, loop=by_hand("torch.cuda.device_count() <= 1", "model(x)", "on_all(model, x)"))
    )
    assert "        if min(torch.cuda.device_count(), 1) <= 1:\n            out = model(x)\n" in new


@pytest.mark.parametrize(
    "test",
    [
        pytest.param("several", id="a flag"),
        pytest.param("torch.cuda.device_count() > 0", id="one GPU goes there, too"),
        pytest.param("cuda or torch.cuda.device_count() > 1", id="not alone"),
        pytest.param("len(x) > 1", id="another number"),
    ],
)
def test_copies_that_a_rank_may_come_to_need_a_person(test: str) -> None:
    setup = f"{COPIES}import os\ncuda, several = torch.cuda.is_available(), bool(os.getenv('SEVERAL'))\n"
    before = script(setup=setup, loop=by_hand(test))
    assert ("OLD01", line_of(before, "parallel.replicate")) in blocked(before)


@pytest.mark.parametrize("given", ["model, x", "model, (x,), [0, 1]", "inputs=x, module=model, device_ids=[0]"])
def test_function_that_calls_a_model_in_parallel(given: str) -> None:
    before = script(loop=LOOP.replace("model(x)", f"nn.parallel.data_parallel({given})"))
    assert converted(before) == distributed()


@pytest.mark.parametrize(
    "given", ["model, batch", "model, x, module_kwargs={}", "*given"], ids=["tuple made elsewhere", "more", "unseen"]
)
def test_function_whose_arguments_are_not_seen_needs_a_person(given: str) -> None:
    loop = LOOP.replace("        loss = ", "        batch = (x,)\n        given = (model, x)\n        loss = ")
    before = script(loop=loop.replace("model(x)", f"nn.parallel.data_parallel({given})"))
    assert "OLD01" in {code for code, _ in blocked(before)}


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("if torch.cuda.device_count() > 1:\n    print('several')\n", id="a count alone"),
        pytest.param(COPIES, id="never called"),
        pytest.param("def replicate(net, ids):\n    return [net]\n\n\nreplicate(1, 2)\n", id="own function"),
    ],
)
def test_no_copies(setup: str) -> None:
    assert changes("OLD01", script(setup=setup)) == []


PARALLEL = f"{MODEL}model = nn.DataParallel(model).cuda()\n"
MOVING = "model = rt.inputs_to_device(model).cuda()\n"
EVALUATION = """\
model.eval()
with torch.no_grad():
    for x, y in loader:
        print(model(x).mean())
"""


def moved_by(way: str) -> str:
    return LOOP.replace("        loss", f"        {way}\n        loss", 1)


@pytest.mark.parametrize(
    "loop",
    [
        LOOP,
        moved_by("y = y.cuda()"),
        moved_by("x = x * 2"),
        f"def forward(x):\n    return model(x)\n\n\n{LOOP.replace('model(x)', 'forward(x)')}",
        moved_by("x = x.float()"),
        moved_by("x = x.to(torch.float32)"),
    ],
)
def test_what_it_moved_is_moved_where_forward_passes_are_shared(loop: str) -> None:
    assert MOVING in converted(script(model=PARALLEL, loop=loop), Options(strategy="shared"))


@pytest.mark.parametrize(
    "loop",
    [
        moved_by("x = x.cuda()"),
        moved_by("x, y = x.to(0), y.to(0)"),
        moved_by("x: torch.Tensor = x.cuda()"),
        moved_by("b = {'x': x.cuda()}").replace("model(x)", "model(b['x'])"),
        LOOP.replace("model(x)", "model(x.to('cuda'))"),
        LOOP.replace("model(x)", "model(torch.zeros(8, 4, device='cuda'))"),
    ],
)
def test_what_the_script_moves_itself_needs_no_more(loop: str) -> None:
    after = converted(script(model=PARALLEL, loop=loop), Options(strategy="shared"))
    assert "inputs_to_device" not in after
    assert "rt.data_parallel(model)" in after


def test_training_by_the_wrap_needs_no_more_and_evaluation_does() -> None:
    assert "inputs_to_device" not in converted(script(model=PARALLEL))
    assert MOVING in converted(script(model=PARALLEL, after=EVALUATION))
    placed = EVALUATION.replace("        print", "        x = x.cuda()\n        print")
    assert "inputs_to_device" not in converted(script(model=PARALLEL, loop=moved_by("x = x.cuda()"), after=placed))


def test_frozen_models_and_backends_without_a_wrap_move_inputs() -> None:
    teacher = "teacher = nn.DataParallel(nn.Linear(4, 1)).cuda().requires_grad_(False)\n"
    taught = LOOP.replace("mse_loss(model(x), y)", "mse_loss(model(x), teacher(x))")
    moving = "teacher = rt.inputs_to_device(nn.Linear(4, 1)).cuda().requires_grad_(False)\n"
    assert moving in converted(script(model=MODEL + teacher, loop=taught))
    assert MOVING in converted(script(model=PARALLEL), Options(backend="allreduce"))


# ---- what walks through it saw the wrapper

OTHER = "other = nn.DataParallel(nn.Linear(4, 1))\n"
BARE = "other = nn.Linear(4, 1)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("print(list(other.children())[0].weight)", "print(list(iter([other]))[0].weight)"),
        ("print(next(other.children()).weight)", "print(next(iter([other])).weight)"),
        ("print(dict(other.named_children()))", 'print(dict(iter([("module", other)])))'),
        ('print(other._modules["module"].weight)', 'print({"module": other}["module"].weight)'),
        ("print(other._modules.items())", 'print({"module": other}.items())'),
        ('print(getattr(other, "module").weight)', "print(other.weight)"),
        ("print(other.module.weight)", "print(other.weight)"),
        (
            "print(dict(other.named_parameters()))",
            'print(dict((("module." + name, part) for name, part in other.named_parameters())))',
        ),
        (
            'for name, p in other.named_parameters():\n    p.requires_grad = name == "module.bias"',
            'for name, p in (("module." + name, part) for name, part in other.named_parameters()):\n'
            '    p.requires_grad = name == "module.bias"',
        ),
    ],
)
def test_who_walks_through_it_finds_the_model_where_it_was(before: str, after: str) -> None:
    assert f"{BARE}{after}\n" in converted(script(setup=f"{OTHER}{before}\n"))


@pytest.mark.parametrize(
    "walk",
    [
        "for part in other.modules():\n    if isinstance(part, nn.Linear):\n        nn.init.ones_(part.weight)",
        'for name, p in other.named_parameters():\n    p.requires_grad = "bias" not in name',
        "for _, p in other.named_parameters():\n    p.requires_grad = False",
        "print([p.shape for _, p in other.named_parameters()])",
        "print([p.shape for p in other.parameters()])",
    ],
)
def test_who_takes_each_part_for_what_it_is_goes_on(walk: str) -> None:
    assert f"{BARE}{walk}\n" in converted(script(setup=f"{OTHER}{walk}\n"))


@pytest.mark.parametrize(
    "walk",
    [
        "print(list(other.modules())[1])",
        "print(dict(other.named_modules()))",
        'print(other.get_submodule("module"))',
        'other._modules["module"] = nn.Linear(4, 1)',
        "print([*map(str, other.modules())])",
    ],
)
def test_who_counts_on_the_wrapper_needs_a_person(walk: str) -> None:
    before = script(setup=f"{OTHER}{walk}\n")
    assert ("OLD01", line_of(before, walk)) in blocked(before)


@pytest.mark.parametrize(
    "walk", ["next(model.children())", 'getattr(model, "module")', "dict(model.named_parameters())"]
)
def test_what_walks_through_the_wrap_finds_the_same_there(walk: str) -> None:
    """The wrap of torch has the model as its only child, called `module`, just as nn.DataParallel had."""
    after = converted(script(model=f"{MODEL}model = nn.DataParallel(model)\n", after=f"print({walk})\n"))
    assert f"print({walk})\n" in after


@pytest.mark.parametrize(
    "model",
    [
        "model = nn.Sequential(nn.Linear(4, 1))\n",
        "model = nn.Sequential(nn.Linear(4, 1))\nif torch.cuda.device_count() > 1:\n"
        "    model = nn.DataParallel(model)\n",
    ],
    ids=["never", "on some machines"],
)
def test_what_is_not_always_in_it_is_walked_through_as_it_is(model: str) -> None:
    """Without the wrapper the script finds the layers: so it did on a machine with one GPU."""
    walk = "print(list(model.children())[0])\n"
    text = converted(script(model=model, after=walk))
    assert "print(list(model.module.children())[0])\n" in text


DERIVED = """
class Parallel(nn.DataParallel):
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)


"""


def test_a_class_derived_from_it() -> None:
    """It hands out batches in a way of its own, over all GPUs that the process sees."""
    after = 'torch.save(model.module.state_dict(), "a.pt")\n'
    new = converted(script(imports=IMPORTS + DERIVED, model=f"{MODEL}model = Parallel(model)\n", after=after))
    assert "Parallel(model)" not in new.replace("DistributedDataParallel(model", "")
    assert new.endswith('if rt.is_main_process():\n    torch.save(model.module.state_dict(), "a.pt")\n')
    assert new.count("DistributedDataParallel(model") == 1


@pytest.mark.parametrize(
    ("member", "after"),
    [
        ("    def forward(self, x):\n        return super().forward(2 * x)\n", ""),
        ("    def predict(self, x):\n        return self(x).argmax(1)\n", ""),
        ("    pass\n", "print(isinstance(model, Parallel))\n"),
    ],
)
def test_a_class_derived_from_it_of_which_more_is_asked_stays(member: str, after: str) -> None:
    derived = f"class Parallel(nn.DataParallel):\n{member}\n\n"
    before = script(imports=IMPORTS + derived, model=f"{MODEL}model = Parallel(model)\n", after=after)
    assert "model = Parallel(model)\n" in converted(before, Options())


# ---- parts of a model, which have `module.` in their keys on every machine

PART = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {part}
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.{name}(x))


"""
ON_ONE = "device_ids=[rt.gpu_index()])"


@pytest.mark.parametrize("rung", ["parted", "shared"])
@pytest.mark.parametrize(
    ("part", "kept"),
    [
        ("self.body = nn.DataParallel(nn.Linear(4, 4))", f"self.body = nn.DataParallel(nn.Linear(4, 4), {ON_ONE}"),
        (
            "self.body = nn.Linear(4, 4)\n        self.body = nn.DataParallel(self.body, device_ids=[0, 1], dim=0)",
            f"self.body = nn.DataParallel(self.body, {ON_ONE}",
        ),
        (
            "self.body = torch.nn.DataParallel(module=nn.Linear(4, 4), output_device=0)",
            f"self.body = torch.nn.DataParallel(nn.Linear(4, 4), {ON_ONE}",
        ),
        (
            "self.body = nn.Sequential(nn.DataParallel(nn.Linear(4, 4)), nn.ReLU())",
            f"self.body = nn.Sequential(nn.DataParallel(nn.Linear(4, 4), {ON_ONE}, nn.ReLU())",
        ),
        (
            'self.add_module("body", nn.DataParallel(nn.Linear(4, 4)))',
            f'self.add_module("body", nn.DataParallel(nn.Linear(4, 4), {ON_ONE})',
        ),
    ],
)
def test_a_part_of_a_model_stays_in_it_on_one_gpu(part: str, kept: str, rung: str) -> None:
    before = script(imports=IMPORTS + PART.format(part=part, name="body"), model="model = Net()\n", after=SAVE)
    text = converted(before, Options(strategy="shared") if rung == "shared" else Options())
    assert kept in text
    assert "add_module_prefix" not in text
    assert "inputs_to_device" not in text


def test_a_part_that_is_wrapped_from_outside_stays_in_it() -> None:
    net = IMPORTS + PART.format(part="self.body = nn.Linear(4, 4)", name="body")
    model = "model = Net()\nmodel.body = nn.DataParallel(model.body)\nmodel.cuda()\nprint(model.body.module.weight)\n"
    text = converted(script(imports=net, model=model, after=SAVE))
    assert f"model.body = nn.DataParallel(model.body, {ON_ONE}\n" in text
    assert "print(model.module.body.module.weight)\n" in text


def test_a_model_that_a_trainer_holds_gives_way() -> None:
    """Who trains it is no part of it: its keys are those of our wrap."""
    holder = IMPORTS + "class Holder(nn.Module):\n    pass\n\n\n"
    model = "holder = Holder()\nholder.net = nn.DataParallel(nn.Linear(4, 1))\nmodel = holder.net\n"
    assert "nn.DataParallel" not in converted(script(imports=holder, model=model))


def test_one_line_for_models_and_for_parts_needs_a_person() -> None:
    parallel = "def parallel(net):\n    return nn.DataParallel(net)\n\n\n"
    net = IMPORTS + parallel + PART.format(part="self.body = parallel(nn.Linear(4, 4))", name="body")
    before = script(imports=net, model="model = parallel(Net())\n", after=SAVE)
    assert "OLD01" in {code for code, _ in blocked(before)}


def test_one_of_a_library_with_batches_of_its_own_form_stays_on_one_gpu() -> None:
    imports = f"{IMPORTS}from torch_geometric.nn import DataParallel\n"
    before = script(imports=imports, model=f"{MODEL}model = DataParallel(model, device_ids=[0, 1])\n")
    assert f"model = DataParallel(model, {ON_ONE}\n" in converted(before)


def test_only_its_own_comment_goes_with_it() -> None:
    new = converted(script(model=f"{MODEL}\n# a note\n# of mine\n\n# on all devices\nmodel = nn.DataParallel(model)\n"))
    assert "\n\n# a note\n# of mine\n\n" in new
    assert "on all devices" not in new
