"""One line in several roles: what it becomes is right in each, or it is left to a person."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import (
    IMPORTS,
    LOOP,
    MODEL,
    OPTIMIZER,
    blocked,
    converted,
    distributed,
    findings,
    indented,
    script,
)

PHASES = """\
for epoch in range(3):
    for phase in ["train", "val"]:
        if phase == "train":
            model.train()
        else:
            model.eval()
        total = 0.0
        for x, y in loaders[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.mse_loss(model(x), y)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            total += loss.item() * x.size(0)
        print(phase, total / 64)
"""
MADE = 'loaders = {x: DataLoader(data, batch_size=8, shuffle=True) for x in ["train", "val"]}\n'


def test_phases() -> None:
    made = """\
loaders = {x: DataLoader(data, batch_size=rt.per_rank_batch_size(8) if x == "train" else 8,
                         sampler=rt.TrainingSampler(data) if x == "train" else \
rt.UnpaddedSampler(data)) for x in ["train", "val"]}
"""
    loop = PHASES.replace("        for x, y", "        rt.set_epoch(loaders[phase], epoch)\n        for x, y")
    loop = loop.replace("model(x)", "(model if model.training else model.module)(x)")
    loop = loop.replace("        print", "        total = rt.all_reduce_sum(total)\n        print")
    assert converted(script(loader=MADE, loop=PHASES)) == distributed(loader=made, loop=loop, prints=True)


#: Other ways to write the same loaders and phases: all end with the figures summed.
LOADERS = [
    'loaders = {"train": DataLoader(data, batch_size=8, shuffle=True), "val": DataLoader(data, batch_size=8)}\n',
    "loaders = dict(train=DataLoader(data, batch_size=8, shuffle=True), val=DataLoader(data, batch_size=8))\n",
    'loaders = {}\nfor x in ("train", "val"):\n    loaders[x] = DataLoader(data, batch_size=8, shuffle=x == "train")\n',
    'parts = {"train": data, "val": data}\n'
    "loaders = {k: DataLoader(v, batch_size=8, shuffle=(k == 'train')) for k, v in parts.items()}\n",
]
HEADS = [
    'for phase in ["train", "val"]:',
    'for phase in ("train", "val"):',
    "for phase in loaders:",
    "for phase in loaders.keys():",
    "for phase, loader in loaders.items():",
    'for turn, phase in enumerate(["train", "val"]):',
]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("made", LOADERS)
def test_phases_in_other_words(made: str, head: str) -> None:
    loop = PHASES.replace('for phase in ["train", "val"]:', head)
    if "loader in" in head:
        loop = loop.replace("loaders[phase]", "loader")
    after = converted(script(loader=made, loop=loop))
    over = "loader" if "loader in" in head else "loaders[phase]"
    assert f"        rt.set_epoch({over}, epoch)\n        for x, y in {over}:\n" in after
    assert "        total = rt.all_reduce_sum(total)\n        print" in after
    assert "(model if model.training else model.module)(x)" in after
    assert after.count("rt.UnpaddedSampler(") == 1
    assert after.count("rt.TrainingSampler(") == 1


FLAG = """\
def run(loader{parameters}):
    {mode}
    total = 0.0
    for x, y in loader:
        with torch.set_grad_enabled({test}):
            loss = nn.functional.mse_loss(model(x), y)
        if {test}:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(x)
    return total / 64


for epoch in range(3):
    run(loader{training})
    print(run(other{evaluation}))
"""
BOTH = "loader = DataLoader(data, batch_size=8, shuffle=True)\nother = DataLoader(data, batch_size=16)\n"
BY_TRAIN = FLAG.format(
    parameters=", train", mode="model.train(train)", test="train", training=", True", evaluation=", False"
)
FLAGS = [
    (", train", "model.train(train)", "train", ", True", ", False"),
    (", train=True", "model.train(mode=train)", "train", "", ", train=False"),
    (", evaluate=False", "model.train(not evaluate)", "not evaluate", "", ", evaluate=True"),
    (", mode='train'", "model.train() if mode == 'train' else model.eval()", "mode == 'train'", "", ", 'eval'"),
    (", optimizer=None", "model.train(optimizer is not None)", "optimizer is not None", ", optimizer", ""),
]


@pytest.mark.parametrize(("parameters", "mode", "test", "training", "evaluation"), FLAGS)
def test_function_that_trains_by_a_flag(parameters: str, mode: str, test: str, training: str, evaluation: str) -> None:
    loop = FLAG.format(parameters=parameters, mode=mode, test=test, training=training, evaluation=evaluation)
    after = converted(script(loader=BOTH, loop=loop))
    assert "    rt.reshuffle(loader)\n    for x, y in loader:\n" in after
    assert "loss = nn.functional.mse_loss((model if model.training else model.module)(x), y)" in after
    assert "    total = rt.all_reduce_sum(total)\n    return total / 64\n" in after
    assert "other = DataLoader(data, batch_size=16, sampler=rt.UnpaddedSampler(data))\n" in after


def test_evaluation_that_cannot_be_shared_out_beside_training() -> None:
    """The mean of batch means: every rank evaluates all, so that only the sum of training may be all-reduced."""
    loop = BY_TRAIN.replace("    total = 0.0\n", "    total, means = 0.0, []\n")
    loop = loop.replace("    return", "        means.append(loss.item())\n    print(means)\n    return")
    after = converted(script(loader=BOTH, loop=loop))
    assert "    if train:\n        total = rt.all_reduce_sum(total)\n    print(means)\n" in after
    assert "other = DataLoader(data, batch_size=16)\n" in after


def test_flag_that_is_computed() -> None:
    loop = BY_TRAIN.replace(", True)", ", 1 + 1 == 2)").replace(", False)", ", input() == 'x')")
    assert blocked(script(loader=BOTH, loop=loop))


# ---- one call, two loaders


def test_loaders_told_apart_by_a_flag() -> None:
    setup = "def batches(part, train):\n    return DataLoader(part, batch_size=8, shuffle=train)\n\n\n"
    made = "loader = batches(data, True)\nother = batches(data, False)\n"
    after = converted(script(setup=setup, loader=made, loop=BY_TRAIN))
    assert (
        "    return DataLoader(part, batch_size=rt.per_rank_batch_size(8) if train else 8,\n"
        "                      sampler=rt.TrainingSampler(part) if train else "
        "rt.UnpaddedSampler(part))\n"
    ) in after


def test_loaders_that_nothing_tells_apart() -> None:
    setup = "def batches(part):\n    return DataLoader(part, batch_size=8, shuffle=True)\n\n\n"
    made = "loader = batches(data)\nother = batches(data)\n"
    after = converted(script(setup=setup, loader=made, loop=BY_TRAIN))
    assert "loader = rt.training_loader(batches(data))\nother = rt.evaluation_loader(batches(data))\n" in after
    assert "    return DataLoader(part, batch_size=8, shuffle=True)\n" in after


def test_loaders_whose_options_are_hidden() -> None:
    made = """\
params = {"batch_size": 8, "num_workers": 0}
loaders = {x: DataLoader(data, shuffle=x == "train", **params) for x in ["train", "val"]}
"""
    new = made.replace("DataLoader(", '(rt.training_loader if x == "train" else rt.evaluation_loader)(DataLoader(')
    new = new.replace("**params)", "**params))")
    assert new in converted(script(loader=made, loop=PHASES))


def test_datasets_made_in_a_comprehension() -> None:
    made = 'loaders = {x: DataLoader(TensorDataset(*data.tensors), 8, x == "train") for x in ["train", "val"]}\n'
    new = made.replace("DataLoader(T", '(rt.training_loader if x == "train" else rt.evaluation_loader)(DataLoader(T')
    new = new.replace('"train") for', '"train")) for')
    assert new in converted(script(loader=made, loop=PHASES))


# ---- over the training loader

TRAIN = """\
for epoch in range(3):
    model.train()
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for part in (loader, other):
        print(test(part))
"""
TEST = """\
def test(part):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in part:
            right += (model(x) > y).sum().item()
    return right / len(part.dataset)


"""


def test_accuracy_on_the_training_data() -> None:
    after = converted(script(loader=BOTH, optimizer=OPTIMIZER + TEST, loop=TRAIN))
    assert "        for x, y in rt.evaluation_loader(part):\n            right += (model.module(x) > y)" in after
    assert "    right = rt.all_reduce_sum(right)\n" in after


def test_figures_on_the_training_data_that_are_no_sums() -> None:
    test = TEST.replace("right +=", "right = right * 0.9 +")
    after = converted(script(loader=BOTH, optimizer=OPTIMIZER + test, loop=TRAIN))
    assert "        for x, y in rt.whole_loader(part):\n" in after
    assert "all_reduce_sum" not in after


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("x, y = next(iter(loader))\n", "x, y = next(iter(rt.whole_loader(loader)))\n"),
        (
            "batches = iter(loader)\nx, y = next(batches)\nx, y = next(batches)\n",
            "batches = iter(rt.whole_loader(loader))\nx, y = next(batches)\nx, y = next(batches)\n",
        ),
        ("means = [x.mean() for x, y in loader]\n", "means = [x.mean() for x, y in rt.whole_loader(loader)]\n"),
        ("seen = list(loader)\n", "seen = list(rt.whole_loader(loader))\n"),
        ("for x, y in loader:\n    pass\n", "for x, y in rt.whole_loader(loader):\n    pass\n"),
        ("steps = 3 * len(loader)\n", "steps = 3 * len(loader)\n"),
        ("samples = len(loader.sampler)\n", "samples = len(rt.whole_loader(loader).sampler)\n"),
        ("size = loader.batch_size\n", "size = rt.whole_loader(loader).batch_size\n"),
        ("names = sorted({'a': loader})\n", "names = sorted({'a': loader})\n"),
    ],
)
def test_training_loader_used_for_something_else(line: str, new: str) -> None:
    before = script(model=line + MODEL)
    assert new in converted(before)
    done = [one.message for one in findings("EVAL01", before, Level.APPLIED)]
    whole = "what does not train sees all samples, on every rank, which is right but no faster"
    assert done == ([whole] if "whole_loader" in new else [])


def test_training_loader_given_to_a_library() -> None:
    imports = f"from torch_lr_finder import LRFinder\n{IMPORTS}"
    before = script(imports=imports, optimizer=f"{OPTIMIZER}LRFinder(model, optimizer).range_test(loader)\n")
    assert "DATA01" in {code for code, _ in blocked(before)}


def test_evaluation_that_shuffles_does_so_alike() -> None:
    """Batch means depend on the order: ranks of different orders would take different decisions."""
    loop = TRAIN.replace("    for part in (loader, other):\n        print(test(part))\n", "    print(test(other))\n")
    test = TEST.replace("(model(x) > y).sum().item()", "nn.functional.mse_loss(model(x), y).item()")
    made = BOTH.replace("batch_size=16", "batch_size=16, shuffle=True")
    after = converted(script(loader=made, optimizer=OPTIMIZER + test, loop=loop))
    assert "other = rt.whole_loader(DataLoader(data, batch_size=16, shuffle=True))\n" in after


def test_loader_passed_over_in_two_turns() -> None:
    loop = "def fit():\n" + "".join(f"    {line}\n" for line in TRAIN.splitlines()[1:7]) + "\n\nfit()\nfit()\n"
    assert "rt.reshuffle(loader)" in converted(script(loop=loop))


def test_function_that_also_evaluates_what_is_no_loader() -> None:
    """Every rank has all of a list: its figures must not be added up over the ranks."""
    loop = TRAIN.replace("(loader, other)", "(other, [data.tensors])")
    test = TEST.replace("part.dataset", "data")
    after = converted(script(loader=BOTH, optimizer=OPTIMIZER + test, loop=loop))
    assert "all_reduce_sum" not in after
    assert "other = DataLoader(data, batch_size=16)\n" in after


def test_progress_bar_with_a_name() -> None:
    loop = PHASES.replace(
        "        for x, y in loaders[phase]:", "        bar = tqdm(loaders[phase])\n        for x, y in bar:"
    )
    after = converted(script(imports=f"from tqdm import tqdm\n{IMPORTS}", loader=MADE, loop=loop))
    assert "        rt.set_epoch(loaders[phase], epoch)\n        for x, y in bar:\n" in after


@pytest.mark.parametrize("loss", ["mse_loss(model(x), y)", "cross_entropy(model(x), y, weight=weights)"])
@pytest.mark.parametrize("decides", ["if not reached:", "if held_out < 0.9:", "while held_out < 0.9:"])
def test_an_evaluation_that_decides_whether_training_goes_on(loss: str, decides: str) -> None:
    """Its own loader is not trained on."""
    evaluation = """\
held_out, reached = 0, False
with torch.no_grad():
    for x, y in other:
        held_out += (model(x) > y).sum().item()
reached = held_out >= 0.9
"""
    loop = LOOP.replace("mse_loss(model(x), y)", loss)
    more = f"{decides}\n{indented(loop + evaluation)}"
    setup = "weights = torch.tensor([1.0, 2.0])\n"
    before = script(setup=setup, loader=BOTH, loop=f"model.train()\n{loop}model.eval()\n{evaluation}{more}")
    after = converted(before, Options())
    assert after.count("TrainingSampler(") == 1
    assert after.count("rt.weighted_mean(") == (2 if "weight" in loss else 0)
