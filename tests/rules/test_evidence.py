"""Sharded data are believed where each link from the batch to the step is seen through; else forwards are shared."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome, Strategy
from distify_codemods.decisions import evidence
from distify_codemods.interpreter import machine

from tests.rules.scripts import (
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    WRAP,
    conversion_of,
    converted,
    line_of,
    script,
)

AUTO = Options()
STRANGE = f"{IMPORTS}import strange\n"
BUT = "sharded data would be faster, but "


def links(before: str) -> list[tuple[int, str]]:
    """What stands in the way of sharded data, though nobody is needed for them."""
    sharded = conversion_of(before)
    assert sharded.outcome is Outcome.CONVERTED, [one.message for one in sharded.of(Level.BLOCKING)]
    conversion = conversion_of(before, options=AUTO)
    found = [one for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]
    assert conversion.outcome is Outcome.CONVERTED
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    if not found:
        assert conversion.files == sharded.files
    assert all(one.message.startswith(BUT) for one in found)
    return [(one.place.line if one.place else 0, one.message.removeprefix(BUT)) for one in found]


def loop_with(text: str) -> str:
    """The training loop with something in place of its loss."""
    return LOOP.replace("nn.functional.mse_loss(model(x), y)", text)


# ---- what is called on the way from the batch to the step


@pytest.mark.parametrize(
    ("parts", "part"),
    [
        ({"loop": loop_with("strange.Loss()(model(x), y)")}, "strange.Loss()"),
        ({"loop": loop_with("nn.functional.mse_loss(model(strange.augment(x)), y)")}, "strange.augment"),
        ({"loop": loop_with("nn.functional.mse_loss(model(x), y) * strange.weight()")}, "strange.weight"),
        ({"model": "model = strange.Net()\n"}, "model(x)"),
        ({"model": 'model = torch.hub.load("someone/something", "net")\n'}, "model(x)"),
        ({"model": f"{MODEL}head = strange.Head()\n", "loop": loop_with("head(model(x)).mean()")}, "head(model(x))"),
    ],
)
def test_something_unknown(parts: dict[str, str], part: str) -> None:
    before = script(imports=STRANGE, **parts)
    [(line, message)] = links(before)
    assert line == line_of(before, part)
    assert f"`{part.split('(')[0]}" in message


IN_TURNS = """\
for part in range(3):
    drawn = np.random.randn(64, 5).astype("float32")
    rows = {}
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        loss = nn.functional.mse_loss(model(rows[:, :4]), rows[:, 4:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def in_turns(rows: str) -> str:
    imports = f"{STRANGE}import numpy as np\nfrom sklearn.preprocessing import MinMaxScaler\n"
    return f"{imports}\n{IN_TURNS.format(rows)}"


@pytest.mark.parametrize(
    "scaled", ["strange.scaled({})", "MinMaxScaler().fit_transform({})", "MinMaxScaler().fit({0}).transform({0})"]
)
def test_something_unknown_before_the_loop_that_trains(scaled: str) -> None:
    """What is dealt out in the turns of a loop around it goes through that, too."""
    before = in_turns(f"torch.from_numpy({scaled.format('drawn')})")
    [(line, message)] = links(before)
    assert line == line_of(before, "    rows = ")
    assert f"`{scaled.split('(')[0]}" in message
    assert links(in_turns("torch.from_numpy(drawn) * 2")) == []


NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        {body}
        return self.out(x)


model = Net()
"""


@pytest.mark.parametrize("body", ["x = strange.attention(x)", "x = strange.Layer(4)(x)", "x = strange.act.apply(x)"])
def test_something_unknown_in_a_model(body: str) -> None:
    before = script(imports=STRANGE, model=NET.format(body=body))
    [(line, _)] = links(before)
    assert line == line_of(before, body)


@pytest.mark.parametrize("ones", ["(1,) * (x.ndim - 1)", "(1,)", "tuple([1] * (x.dim() - 1))"])
def test_whole_samples_that_are_left_out(ones: str) -> None:
    body = f"x = x * x.new_empty((x.shape[0],) + {ones}).bernoulli_(0.9)"
    assert links(script(imports=STRANGE, model=NET.format(body=body))) == []


def test_what_is_drawn_along_an_unknown_dimension() -> None:
    body = "x = x * x.new_empty((1,) * x.ndim + (x.shape[0],)).bernoulli_(0.9).sum()"
    assert links(script(imports=STRANGE, model=NET.format(body=body)))


@pytest.mark.parametrize("more", ["", ", freeze=False"])
def test_a_layer_that_is_made_of_its_weights(more: str) -> None:
    body = "x = self.table(x.abs().long()).mean(1)"
    layer = f"self.table = nn.Embedding.from_pretrained(torch.ones(9, 4){more})"
    model = NET.format(body=body).replace("self.out = ", f"{layer}\n        self.out = ", 1)
    assert links(script(imports=STRANGE, model=model)) == []


def test_a_part_of_something_unknown() -> None:
    model = NET.format(body="x = self.part(x)").replace(
        "self.out = nn.Linear(4, 1)\n", "self.out = nn.Linear(4, 1)\n        self.part = strange.net()[0].block\n", 1
    )
    before = script(imports=STRANGE, model=model)
    [(line, message)] = links(before)
    assert line == line_of(before, "x = self.part(x)")
    assert message == "of `self.part(x)` it is not known what is called, nor what that does to a batch"


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("strange.far(model(x), y).mean()", ["strange.far(model(x), y)"]),
        ("strange.far(model(x), y)[0].sum().sqrt()", ["strange.far(model(x), y)"]),
        (
            "strange.mean(strange.far(model(x), y))",
            ["strange.far(model(x), y)", "strange.mean(strange.far(model(x), y))"],
        ),
        ("(far := strange.far(model(x), y)).mean() + far.to(y.device).odd().sum()", ["strange.far(model(x), y)"]),
        (
            "(far := strange.far(model(x), y)).mean() + strange.mean(far.to(y.device))",
            ["strange.far(model(x), y)", "strange.mean(far.to(y.device))"],
        ),
    ],
)
def test_what_is_unknown_is_told_once(loss: str, told: list[str]) -> None:
    """What is done to its result is no second thing; another function is."""
    conversion = conversion_of(script(imports=STRANGE, loop=loop_with(loss)), options=AUTO)
    said = [one.message for one in conversion.of(Level.ADVICE) if "not known what it does to a batch" in one.message]
    assert sorted(one.split("`")[1] for one in said) == told
    assert conversion.strategy is Strategy.SHARED


@pytest.mark.parametrize(
    ("part", "known"),
    [("torchvision.models.vgg16().features[:16]", True), ("strange.net().features[:16]", False)],
)
def test_some_layers_of_a_librarys_model(part: str, known: bool) -> None:
    model = NET.format(body="x = self.part(x)").replace(
        "self.out = nn.Linear(4, 1)\n", f"self.out = nn.Linear(4, 1)\n        self.part = {part}\n", 1
    )
    found = links(script(imports=f"{STRANGE}import torchvision\n", model=model))
    assert bool(found) is not known


def test_a_model_that_is_trained_and_evaluated() -> None:
    """What is asked of a call is asked of the one that trains, wherever else the same line is run."""
    model = NET.format(body="x = strange.mix(x)")
    before = script(imports=STRANGE, model=model, after="with torch.no_grad():\n    model(torch.zeros(8, 4))\n")
    [(line, _)] = links(before)
    assert line == line_of(before, "strange.mix")


def test_the_loss_that_a_model_of_transformers_computes() -> None:
    """A mean over tokens, of which each rank's share has another number."""
    imports = f"{IMPORTS}from transformers import GPT2LMHeadModel\n"
    model = 'model = GPT2LMHeadModel.from_pretrained("gpt2")\n'
    loss = "model(x, labels=y).loss.mean()"
    [(line, why)] = links(script(imports=imports, model=model, loop=loop_with(loss)))
    assert line == line_of(script(imports=imports, model=model, loop=loop_with(loss)), "labels=y")
    assert why == (
        "`model(x, labels=y)` computes the loss by itself where it is given labels: a mean over all labels but -100, "
        "and each rank's share may have another number of those (without labels it is followed, and the loss can be "
        "computed from what it gives)"
    )
    assert not links(script(imports=imports, model=model, loop=loop_with("nn.functional.mse_loss(model(x).logits, y)")))


LABELLED = (
    "`model(x, labels=y)` is given labels, and of `transformers.{0}` it is not known what loss it makes of them, or "
    "whether it makes one"
)
UNSEEN = (
    "it is not seen whether `model(**x)` is given labels, and of `transformers.{0}` it is not known what loss it makes "
    "of them, or whether it makes one"
)


@pytest.mark.parametrize(
    ("made", "known"),
    [
        ("GPT2LMHeadModel", True),
        ("AutoModelForCausalLM.from_pretrained", True),
        ("BertForTokenClassification.from_pretrained", True),
        ("DetrForObjectDetection.from_pretrained", False),
        ("SegformerForSemanticSegmentation.from_pretrained", False),
        ("NoSuchModel.from_pretrained", False),
    ],
)
@pytest.mark.parametrize("call", ["model(x, labels=y)", "model(**x)"])
def test_of_a_model_of_which_it_is_not_known_no_loss_is_told(made: str, known: bool, call: str) -> None:
    imports = f"{IMPORTS}from transformers import {made.partition('.')[0]}\n"
    before = script(imports=imports, model=f'model = {made}("some")\n', loop=loop_with(f"{call}.loss.mean()"))
    [(line, why)] = links(before)
    assert line == line_of(before, call)
    told = "" if known else (UNSEEN if "**" in call else LABELLED).format(made)
    assert why.startswith(told)
    assert ("-100" in why) is known


OF_WHOLE_SAMPLES = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = {made}("some")

    def forward(self, x, y):
        return self.body(x, labels=y)


model = {made}("some")
"""


@pytest.mark.parametrize("made", ["ViTForImageClassification.from_pretrained", "BertForSequenceClassification"])
@pytest.mark.parametrize(
    "loss",
    [
        "model(x, labels=y).loss",
        "model(x, labels=y).loss / 2",
        'model(x, labels=y)["loss"]',
        "model(x, labels=y)[0]",
        "model(**x).loss",
        "(out := model(x, labels=y)).loss + out.logits.pow(2).mean()",
        "nn.functional.cross_entropy(model(x).logits, y)",
    ],
)
def test_a_model_with_one_label_for_each_sample_makes_their_mean(made: str, loss: str) -> None:
    imports = f"{IMPORTS}from transformers import {made.partition('.')[0]}\n"
    before = script(imports=imports, model=OF_WHOLE_SAMPLES.format(made=made), loop=loop_with(loss))
    assert links(before) == []


def test_what_else_it_returns_is_of_each_sample() -> None:
    imports = f"{IMPORTS}from transformers import BertForSequenceClassification\n"
    made = OF_WHOLE_SAMPLES.format(made="BertForSequenceClassification")

    def text(loss: str) -> str:
        conversion = conversion_of(script(imports=imports, model=made, loop=loop_with(loss)), options=Options())
        return conversion.files[0].after.decode()

    assert "rt.sum_over_ranks(model(x, labels=y).logits.sum(0)).norm()" in text(
        "model(x, labels=y).logits.sum(0).norm()"
    )
    assert "rt.data_parallel(model)" in text("model(x, labels=y)[1].std(0).mean()")  # beside the mean, which is none


@pytest.mark.parametrize(
    "parts",
    [
        {"model": "model = torchvision.models.resnet18()\n", "imports": f"{IMPORTS}import torchvision\n"},
        {"model": 'model = timm.create_model("resnet18")\n', "imports": f"{IMPORTS}import timm\n"},
        {"model": 'model = torch.hub.load("pytorch/vision:v0.10.0", "resnet18")\n'},
        {"model": NET.format(body="x = torch.relu(x) + torch.roll(x, 1, 1)")},
        {"model": NET.format(body="for block in self.blocks:\n            x = x + block(x)")},
        {"model": NET.format(body="x = x + torch.randn_like(x)")},
        {"model": NET.format(body="if x.shape[1] > 3:\n            x = x * 2")},
        {"model": NET.format(body="e = torch.rand_like(x)\n        if e is not None:\n            x = x + e")},
        {"model": NET.format(body="x = x * (torch.rand(x.shape[0], 1) > 0.1)")},
        {"loop": loop_with("nn.functional.mse_loss(model(x), y) + 0.1 * sum(p.norm() for p in model.parameters())")},
        {"loop": f"{LOOP}        strange.log(loss.item())\n"},
        {"loop": f"{LOOP}        meter.update(loss.item(), len(x))\n", "setup": "meter = strange.Meter()\n"},
        {"optimizer": "optimizer = strange.Lamb(model.parameters(), lr=0.1)\n"},
        {"optimizer": f"{OPTIMIZER}schedule = strange.WarmUp(optimizer, 3)\n",
         "loop": LOOP.replace("optimizer.step()", "optimizer.step()\n        schedule.step()")},
        {"data": "data = strange.Points(64)\n"},
        {"after": "strange.evaluate(model)\n"},
    ],
)  # fmt: skip
def test_what_is_known_or_does_not_matter(parts: dict[str, str]) -> None:
    assert not links(script(**{"imports": STRANGE, **parts}))


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        ("", "strange.regularise(model)"),
        ("", "strange.clip(model.parameters())"),
        ("mean = strange.Average(model)\n", "mean.update()"),
    ],
)
def test_something_unknown_has_the_model(setup: str, line: str) -> None:
    loop = LOOP.replace("        optimizer.step()", f"        {line}\n        optimizer.step()")
    before = script(imports=STRANGE, model=MODEL + setup, loop=loop)
    [(number, message)] = links(before)
    assert number == line_of(before, line)
    assert message == f"`{line}` has a trained model, and what it does with that is not known"


# ---- batches of another form on each rank

PADS = """\
def collate(batch):
    longest = max(len(x) for x, _ in batch)
    padded = [nn.functional.pad(x, (0, 0, 0, longest - len(x))) for x, _ in batch]
    return torch.stack(padded), torch.stack([y for _, y in batch])


"""
STACKS = "def collate(batch):\n    return torch.stack([x for x, _ in batch]), torch.stack([y for _, y in batch])\n\n\n"
OWN_COLLATE = LOADER.replace("shuffle=True", "shuffle=True, collate_fn=collate")


@pytest.mark.parametrize(
    "loss", ["nn.functional.mse_loss(model(x), y)", "((model(x) - y) ** 2).mean()",
             "nn.functional.cross_entropy(model(x).view(-1, 2), y.view(-1))"],
)  # fmt: skip
def test_a_mean_over_padded_entries(loss: str) -> None:
    before = script(setup=PADS, loader=OWN_COLLATE, loop=loop_with(loss))
    [(line, message)] = links(before)
    assert line == line_of(before, "collate_fn=collate")
    assert message.startswith("its `collate_fn` may pad each rank's share to another length")


def test_a_mean_over_samples_of_one_form() -> None:
    assert not links(script(setup=STACKS, loader=OWN_COLLATE))


@pytest.mark.parametrize("loss", ["nn.functional.cross_entropy(model(x), y)", "nn.CrossEntropyLoss()(model(x), y)"])
def test_a_mean_over_samples_that_are_padded(loss: str) -> None:
    """What a model makes of a sample may depend on how far it is padded."""
    [(_, message)] = links(script(setup=PADS, loader=OWN_COLLATE, loop=loop_with(loss)))
    assert "the loss may depend on how far a sample is padded" in message


# ---- what chance decides


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (
            "drop = torch.zeros(3).uniform_() < 0.2\n        kept = [b for b, d in zip(self.blocks, drop) if not d]\n"
            "        for block in kept:\n            x = block(x)",
            "if not d",
        ),
        ("for _ in range(numpy.random.poisson(2)):\n            x = torch.relu(x)", "numpy.random.poisson"),
    ],
)
def test_layers_that_are_left_out_at_random(body: str, part: str) -> None:
    before = script(imports=f"{IMPORTS}import numpy\n", model=NET.format(body=body))
    conversion = conversion_of(before, options=AUTO)
    assert conversion.strategy is Strategy.SHARED
    found = [one for one in conversion.of(Level.ADVICE) if "decides by chance what the model computes" in one.message]
    assert [one.place.line for one in found if one.place] == [line_of(before, part)]


def test_one_draw_that_decides_for_the_batch_is_rank_zeros() -> None:
    """All ranks do what it says, as one process would."""
    body = "if random.random() < 0.5:\n            x = torch.relu(x)"
    before = script(imports=f"{IMPORTS}import random\n", model=NET.format(body=body))
    assert "        if rt.from_main_process(random.random() < 0.5):\n" in converted(before)
    assert not links(before)


def test_a_mask_of_each_sample_is_each_ranks_own() -> None:
    body = "x = x * (torch.rand(*x.shape, device=x.device) < 0.9)"
    after = converted(script(model=NET.format(body=body)))
    assert body in after


def test_what_is_chosen_for_each_sample_is_each_ranks_own() -> None:
    choose = (
        "def choose(size):\n    order = numpy.arange(size)\n    numpy.random.shuffle(order)\n    return order\n\n\n"
    )
    body = "x = x * torch.as_tensor(numpy.stack([choose(4) for _ in range(len(x))]) < 2)"
    before = script(imports=f"{IMPORTS}import numpy\n", model=choose + NET.format(body=body))
    assert choose in converted(before)
    assert not links(before)


# ---- steps that fail

GUARDS = """\
import contextlib


class Guard:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        {leaves}


@contextlib.contextmanager
def guard():
    try:
        yield
    except {kind}:
        pass


"""


def _guarded(manager: str, leaves: str = "return False", kind: str = "StopIteration") -> str:
    within = LOOP.replace("        loss =", f"        with {manager}:\n            loss =")
    within = within.replace("        optimizer.", "            optimizer.").replace(
        "        loss.b", "            loss.b"
    )
    return script(imports=IMPORTS + GUARDS.format(leaves=leaves, kind=kind), loop=within)


@pytest.mark.parametrize(
    ("manager", "leaves", "kind"),
    [
        ("contextlib.suppress(RuntimeError)", "pass", "KeyError"),
        ("contextlib.suppress(KeyboardInterrupt, ValueError)", "pass", "KeyError"),
        ("Guard()", "return kind is ValueError", "KeyError"),
        ("Guard()", "if kind is ValueError:\n            return True", "KeyError"),
        ("guard()", "pass", "ValueError"),
    ],
)
def test_a_step_that_fails_under_with_is_passed_over(manager: str, leaves: str, kind: str) -> None:
    before = _guarded(manager, leaves, kind)
    [(line, message)] = links(before)
    assert line == line_of(before, f"with {manager}")
    assert message.startswith("a step that fails on one rank is passed over there")


@pytest.mark.parametrize(
    ("manager", "leaves", "kind"),
    [
        ("contextlib.suppress(KeyboardInterrupt)", "pass", "KeyError"),
        ("contextlib.nullcontext()", "pass", "KeyError"),
        ("Guard()", "print('left')", "KeyError"),
        ("Guard()", "return False", "KeyError"),
        ("Guard()", "if kind:\n            return None\n        return", "KeyError"),
        ("guard()", "return True", "KeyboardInterrupt"),
    ],
)
def test_what_passes_over_no_step_under_with(manager: str, leaves: str, kind: str) -> None:
    assert not links(_guarded(manager, leaves, kind))


# ---- models with other parameters than their own


@pytest.mark.parametrize("given", ["(x,)", "x"])
@pytest.mark.parametrize("name", ["torch.func.functional_call", "torch.nn.utils.stateless.functional_call"])
def test_a_model_with_other_parameters(name: str, given: str) -> None:
    before = script(loop=LOOP.replace("model(x)", f"{name}(model, dict(model.named_parameters()), {given})"))
    [(line, message)] = links(before)
    assert line == line_of(before, "functional_call(")
    assert message.endswith("calls a trained model with other parameters than its own")


# ---- samples that end where their batch says

SIZED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, x):
        size = {size}
        return self.layer(x[:, :size].mean(1, keepdim=True))


model = Net()
"""


@pytest.mark.parametrize("size", ["int(x[:, 0].min())", "max(x[:, 0].tolist())", "sorted(x[:, 0])[0]"])
def test_the_other_samples_decide_how_much_of_one_is_taken(size: str) -> None:
    before = script(model=SIZED.format(size=size))
    [(line, message)] = links(before)
    assert line == line_of(before, "return self.layer(")
    assert message.startswith("how much `x[:, :size]` takes of each sample, the other samples of the batch decide")


def test_a_loss_over_all_of_what_was_taken() -> None:
    related = LOOP.replace("mse_loss(model(x), y)", "mse_loss(torch.cumsum(model(x), 0), y)")
    assert related != LOOP
    before = script(model=SIZED.format(size="int(x[:, 0].min())"), loop=related)
    [(_, message)] = links(before)
    assert message.startswith("how much `x[:, :size]` takes of each sample, the other samples of the batch decide")


@pytest.mark.parametrize("size", ["2", "x.shape[1] // 2", "len(x)"])
def test_each_sample_is_cut_by_itself(size: str) -> None:
    assert not links(script(model=SIZED.format(size=size)))


@pytest.mark.parametrize(
    "handler",
    [
        "except RuntimeError as error:\n            print(error)",
        "except Exception:\n            continue",
        "except (ValueError, RuntimeError):\n            optimizer.zero_grad()",
        "except:\n            pass",
        "except* RuntimeError:\n            pass",
    ],
)
def test_a_step_that_fails_is_passed_over(handler: str) -> None:
    before = script(loop=_tried(handler))
    [(line, message)] = links(before)
    assert line == line_of(before, handler.split("\n")[0])
    assert message.startswith("a step that fails on one rank is passed over there")


@pytest.mark.parametrize(
    "handler",
    [
        "except KeyboardInterrupt:\n            break",
        "except RuntimeError:\n            raise",
        "except RuntimeError as error:\n            raise ValueError(x.shape) from error",
        "except* RuntimeError:\n            raise",
        "except TypeError:  # an older model\n            print('older')",
        "except (AttributeError, NotImplementedError):\n            print('older')",
    ],
)
def test_a_step_that_fails_ends_the_run(handler: str) -> None:
    assert not links(script(loop=_tried(handler)))


def _tried(handler: str) -> str:
    head, body = LOOP.partition("        loss")[0], "        loss" + LOOP.partition("        loss")[2]
    return f"{head}        try:\n" + "".join(f"    {line}\n" for line in body.splitlines()) + f"        {handler}\n"


def test_a_handler_around_all_of_training() -> None:
    """What it passes over ends the run on the other ranks, too: their group has one rank less."""
    loop = "try:\n" + "".join(f"    {line}\n" for line in LOOP.splitlines()) + "except KeyboardInterrupt:\n    pass\n"
    assert not links(script(loop=loop))


# ---- workers that draw alike

WORKERS = LOADER.replace("shuffle=True", "shuffle=True, num_workers=2{more}")
FIXED = "def start(worker):\n    random.seed(42 + worker)\n\n\n"
OF_TORCH = "def start(worker):\n    random.seed(torch.initial_seed() % 2**32)\n\n\n"


@pytest.mark.parametrize(
    ("setup", "more", "seeded"),
    [
        (FIXED, ", worker_init_fn=start", "worker_init_fn=rt.seed_workers_apart(start)"),
        (
            "", ", worker_init_fn=lambda worker: random.seed(worker)",
            "worker_init_fn=rt.seed_workers_apart(lambda worker: random.seed(worker))",
        ),
        ("", ", generator=torch.Generator().manual_seed(0)", "worker_init_fn=rt.seed_workers_apart()"),
    ],
)  # fmt: skip
def test_workers_with_seeds_of_the_scripts_own(setup: str, more: str, seeded: str) -> None:
    before = script(imports=f"{STRANGE}import random\n", setup=setup, loader=WORKERS.format(more=more))
    assert not links(before)
    assert seeded in " ".join(converted(before).split())


OWN = "def start(worker):\n    global RNG\n    random.seed(worker)\n    RNG = {made}\n\n\n"


@pytest.mark.parametrize(
    ("setup", "started"),
    [
        (OWN.format(made="np.random.default_rng(worker)"), "start"),
        (OWN.format(made="random.Random(worker)"), "start"),
        (OWN.format(made="strange.generator(worker)"), "start"),
        (OWN.format(made="np.random.default_rng(worker)").replace("    random.seed(worker)\n", ""), "start"),
        ("def start(worker):\n    data.rng.seed(worker)\n\n\n", "start"),
        ("", "strange.start"),
    ],
)
def test_workers_with_generators_of_their_own_are_not_told_apart(setup: str, started: str) -> None:
    """Only what a process has in common is seeded anew."""
    loader = WORKERS.format(more=f", worker_init_fn={started}")
    before = script(imports=f"{STRANGE}import random\nimport numpy as np\n", setup=setup, loader=loader)
    [(line, message)] = links(before)
    assert line == line_of(before, "loader = DataLoader")
    assert "workers of all ranks the same seeds" in message


def test_workers_of_a_stream_that_all_ranks_read_as_one() -> None:
    stream = "class Stream(IterableDataset):\n    def __iter__(self):\n        yield from zip(X, Y)\n\n\n"
    loader = "loader = DataLoader(Stream(), batch_size=16, num_workers=2, worker_init_fn=start)\n"
    imports = f"{IMPORTS}import random\nfrom torch.utils.data import IterableDataset\n"
    before = script(
        imports=imports, setup=f"{FIXED}X = torch.randn(64, 4)\nY = torch.randn(64, 1)\n{stream}", loader=loader
    )
    [(line, message)] = links(before)
    assert line == line_of(before, "loader = DataLoader")
    assert "workers of all ranks the same seeds" in message


def test_workers_that_are_started_before_the_training_loop() -> None:
    loop = "batches = iter(loader)\nfor step in range(8):\n    x, y = next(batches)\n" + "".join(
        f"{line[4:]}\n" for line in LOOP.splitlines()[2:]
    )
    before = script(loader=WORKERS.format(more=""), loop=loop)
    assert not links(before)
    assert "worker_init_fn=rt.seed_workers_apart()" in converted(before)
    assert "worker_init_fn" not in converted(script(loop=loop))


@pytest.mark.parametrize(
    ("setup", "more"),
    [
        ("", ""),
        (OF_TORCH, ", worker_init_fn=start"),
        ("", ", worker_init_fn=None"),
        ("", ", generator=None"),
        ("", ", worker_init_fn=random.seed()"),
    ],
)
def test_workers_with_seeds_of_torch(setup: str, more: str) -> None:
    before = script(imports=f"{IMPORTS}import random\n", setup=setup, loader=WORKERS.format(more=more))
    assert not links(before)
    assert "seed_workers_apart" not in converted(before)


# ---- parts that no step uses


def test_what_the_last_turn_makes_goes_nowhere() -> None:
    """DistributedDataParallel would stop in the second step."""
    body = (
        "total = 0\n        for each in self.blocks:\n            total = total + self.out(x)\n            x = each(x)"
    )
    model = NET.format(body=body).replace("return self.out(x)", "return total")
    after = converted(script(model=model))
    assert WRAP.replace("(model))", "(model), find_unused_parameters=True)") in after
    assert not links(script(model=model))


@pytest.mark.parametrize(
    "body",
    [
        "for block in self.blocks:\n            x = block(x)",
        "xs = []\n        for b in self.blocks:\n            x = b(x)\n            xs.append(x)\n        x = sum(xs)",
        "for block in self.blocks:\n            h = block(x)\n            x = x + h",
    ],
)
def test_what_the_last_turn_makes_is_used(body: str) -> None:
    assert WRAP in converted(script(model=NET.format(body=body)))


def test_forced_to_sharded_data() -> None:
    """The user knows better."""
    before = script(imports=STRANGE, loop=loop_with("nn.functional.mse_loss(model(strange.augment(x)), y)"))
    for options in (Options(strategy="sharded"), Options(strategy="sharded", scale="linear")):
        forced = conversion_of(before, options=options)
        assert (forced.outcome, forced.strategy) == (Outcome.CONVERTED, Strategy.SHARDED)
    assert conversion_of(before, options=Options(scale="linear")).strategy is Strategy.SHARED


# ---- large programs: what is not seen through is asked for before all else is decided


def runs_of(before: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the program is followed."""
    made = []
    whole = machine.Machine.__init__

    def counted(self: machine.Machine, *args: object, **options: object) -> None:
        made.append(self)
        whole(self, *args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(machine.Machine, "__init__", counted)
        conversion_of(before, options=AUTO)
    return len(made)


UNKNOWN = script(imports=STRANGE, loop=loop_with("strange.Loss()(model(x), y)"))


def test_a_large_program_with_an_unknown_link_is_decided_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    small, runs = conversion_of(UNKNOWN, options=AUTO), runs_of(UNKNOWN, monkeypatch)
    monkeypatch.setattr(evidence, "LARGE", 1)
    assert conversion_of(UNKNOWN, options=AUTO) == small
    assert runs_of(UNKNOWN, monkeypatch) < runs


@pytest.mark.parametrize("before", [script(), script(loop=loop_with("torch.cdist(model(x), y).mean()"))])
def test_a_large_program_without_one_is_converted_as_before(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small, runs = conversion_of(before, options=AUTO), runs_of(before, monkeypatch)
    monkeypatch.setattr(evidence, "LARGE", 1)
    assert conversion_of(before, options=AUTO) == small
    assert runs_of(before, monkeypatch) <= runs + 1


RATIO = script(loop=loop_with("((model(x) - y) ** 2).sum() / (y > 0).sum()"))


def test_what_of_a_loss_could_be_reduced_is_not_tried_out_in_a_vast_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert conversion_of(RATIO, options=AUTO).strategy is Strategy.SHARDED
    runs = runs_of(RATIO, monkeypatch)
    monkeypatch.setattr(evidence, "LARGE", 1)
    monkeypatch.setattr(evidence, "VAST", 1)
    vast = conversion_of(RATIO, options=AUTO)
    assert vast.strategy is Strategy.SHARED
    assert any("not seen at once to be a mean over samples" in one.message for one in vast.of(Level.ADVICE))
    assert runs_of(RATIO, monkeypatch) < runs
    assert conversion_of(script(), options=AUTO).strategy is Strategy.SHARDED


def test_a_large_program_whose_forwards_cannot_be_shared_goes_on_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = script(
        imports=f"{STRANGE}import torch.multiprocessing as mp\n",
        loop=loop_with("strange.Loss()(model(x), y)"),
        after="mp.spawn(print)\n",
    )
    small = conversion_of(before, options=AUTO)
    assert small.outcome is Outcome.REFUSED
    monkeypatch.setattr(evidence, "LARGE", 1)
    assert conversion_of(before, options=AUTO) == small


@pytest.mark.parametrize(("places", "rows"), [(1, 1), (3, 3), (5, 3)])
def test_no_more_than_a_few_rows_tell_the_same(places: int, rows: int) -> None:
    """Each is a call of a library that nobody knows, of which the loss is made."""
    calls = "".join(f"        x = unknown.step{number}(x)\n" for number in range(places))
    loop = LOOP.replace("        loss =", f"{calls}        loss =")
    conversion = conversion_of(script(imports=f"import unknown\n{IMPORTS}", loop=loop), options=Options())
    found = [one.message for one in conversion.of(Level.ADVICE) if "the loss depends on `unknown.step" in one.message]
    assert len(found) == rows
    told = ["(as in 2 more places)" in one for one in found]
    assert told == [places == 5 and one == found[-1] for one in found]


@pytest.mark.parametrize(
    ("transform", "is_link"),
    [
        ("T.RandomAffine(10)", True),
        ("T.Compose([T.Normalize((0.1,), (0.3,)), T.GaussianBlur(3)])", True),
        ("T.Compose([T.Resize(4), T.RandomApply([T.ColorJitter()])])", True),
        ("T.Normalize((0.1,), (0.3,))", False),
        ("T.Compose([T.Resize(4), T.Normalize((0.1,), (0.3,))])", False),
        ("nn.Dropout(0.5)", False),  # draws for each entry
    ],
)
def test_a_transform_that_draws_once_for_a_batch(transform: str, is_link: bool) -> None:
    imports = f"{IMPORTS}import torchvision.transforms as T\n"
    loop = LOOP.replace("        loss =", "        x = augment(x)\n        loss =")
    conversion = conversion_of(script(imports=imports, setup=f"augment = {transform}\n", loop=loop), options=AUTO)
    assert (conversion.strategy is Strategy.SHARED) is is_link
    told = [one for one in conversion.of(Level.ADVICE) if "draws once for all samples of a batch" in one.message]
    assert len(told) == is_link


def test_a_transform_of_each_sample_may_draw() -> None:
    imports = f"{IMPORTS}import torchvision.transforms as T\nfrom torchvision.datasets import FakeData\n"
    data = "data = FakeData(64, transform=T.Compose([T.RandomCrop(4), T.ToTensor()]))\n"
    assert conversion_of(script(imports=imports, data=data), options=AUTO).strategy is Strategy.SHARDED


NETS = """\
import torch
import torch.nn.functional as F
import torch.nn.init as init
from torch import nn


def _start(module):
    if isinstance(module, nn.Linear):
        init.zeros_(module.bias)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width, 1)
        self.apply(_start)

    def forward(self, x):
        return self.last(F.relu(self.first(x)))


def small():
    return Net(4)


def large():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
"""


@pytest.mark.parametrize("model", ["nets.__dict__[args.arch]()", "getattr(nets, args.arch)()", "nets.small()"])
def test_a_model_by_its_name_is_none_of_the_modules_that_its_file_imports(model: str) -> None:
    setup = (
        "names = sorted(name for name in nets.__dict__ if callable(nets.__dict__[name]))\n"
        "parser = argparse.ArgumentParser()\n"
        'parser.add_argument("--arch", default="small", choices=names)\n'
        "args = parser.parse_args()\n"
    )
    before = script(imports=f"{IMPORTS}import argparse\nimport nets\n", model=f"{setup}model = {model}\n")
    assert conversion_of(before, options=AUTO, files={"nets.py": NETS}).strategy is Strategy.SHARDED


# ---- batches that may be filled up with copies

RELATED = loop_with("torch.cdist(model(x), y).mean()")
EPISODES = "loader = DataLoader(data, batch_sampler={})\n"


@pytest.mark.parametrize("sampler", ["[[1, 2, 3], [4, 5, 6]]", "episodes()", "BatchSampler(range(64), 15, False)"])
def test_samples_of_own_batches_that_are_related_to_each_other(sampler: str) -> None:
    """A batch of 15 would be gathered as one of 16, and `out[:9]` would be other samples' rows."""
    imports = f"{IMPORTS}from torch.utils.data import BatchSampler\n\n\ndef episodes():\n    return [[1, 2, 3]]\n\n\n"
    before = script(imports=imports, loader=EPISODES.format(sampler), loop=RELATED)
    [(line, message)] = links(before)
    assert line == line_of(before, "batch_sampler")
    assert "filled up with copies of its own samples" in message


@pytest.mark.parametrize(
    "parts",
    [
        {"loader": EPISODES.format("[[1, 2, 3], [4, 5, 6]]")},  # the loss is a mean: a copy counts twice in it
        {"loop": RELATED},  # all but the last batch divide
        {"loader": f"{LOADER}other = {EPISODES.format('[[1, 2]]').removeprefix('loader = ')}", "loop": RELATED},
        {"loader": EPISODES.format("None").replace("data,", "data, 8,"), "loop": RELATED},
    ],
)
def test_samples_of_batches_that_are_not_filled_up_each_or_not_related(parts: dict[str, str]) -> None:
    assert not links(script(**parts))


@pytest.mark.parametrize(
    ("base", "forward", "strategy"),
    [
        ("torchvision.models.ResNet", "super().forward(x)", Strategy.SHARED),
        ("torchvision.models.ResNet", "super(Net, self).forward(x)", Strategy.SHARED),
        ("mylib.Centred", "torch.tanh(super().forward(x))", Strategy.SHARED),
        ("nn.Linear", "super().forward(x)", Strategy.SHARDED),
        ("nn.Module", "self.last(x)", Strategy.SHARDED),
    ],
)
def test_the_forward_pass_of_a_base_that_is_not_known(base: str, forward: str, strategy: Strategy) -> None:
    """What it makes of a batch is not seen, whatever it is called through."""
    sizes = "" if base == "nn.Module" else "4, 1"
    net = f"class Net({base}):\n    def __init__(self):\n        super().__init__({sizes})\n"
    net += "        self.last = nn.Linear(4, 1)\n\n    def forward(self, x):\n"
    net += f"        return {forward}\n\n\nmodel = Net()\n"
    before = script(imports=f"import mylib\nimport torchvision\n{IMPORTS}", model=net)
    assert conversion_of(before, options=Options()).strategy is strategy
