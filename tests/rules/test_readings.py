"""READ01: where two readings are possible nothing is picked; what the user settles is done, and said."""

from __future__ import annotations

import pytest
from distify_codemods import Finding, Level, OptionError, Options, Outcome, Said, SourceError, SourceFile, convert

from tests.rules.scripts import (
    APART,
    DATA,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    PRINT,
    SHARDED,
    WRAP,
    conversion_of,
    converted,
    distributed,
    findings,
    line_of,
    script,
)

CODE = "READ01"
LIBRARY = f"{IMPORTS}import strange\n"
NO_MODEL = "no model (those that are seen: `model` (train.py:7))"
GROUPS = "optimizer = torch.optim.SGD(strange.groups(model), lr=0.1)\n"


def settled(model: str = "", loader: str = "", everywhere: bool = False) -> Options:
    by = ("[tool.distify] model", "[tool.distify] train-loader") if everywhere else ("--model", "--train-loader")
    return Options(
        models=tuple(Said(name, by[0], everywhere) for name in model.split()),
        train_loaders=tuple(Said(name, by[1], everywhere) for name in loader.split()),
        strategy="sharded",
    )


def said(before: str, options: Options | None = None, level: Level = Level.BLOCKING) -> list[Finding]:
    return [one for one in conversion_of(before, options=options).of(level) if one.code == CODE]


def only(found: list[Finding]) -> tuple[str, str]:
    [one] = found
    return f"{one.place}: {one.message}", one.fix


# ---- models


def test_parameters_from_an_unknown_call() -> None:
    before = script(imports=LIBRARY, optimizer=GROUPS)
    assert only(said(before)) == (
        "train.py:9: parameters of this optimizer come from `strange.groups(model)`: they may be those of `model` "
        "(train.py:8), or not",
        "--model model if it trains that; else write `# distify: not-a-model` behind that line",
    )
    # What the library does with the model it does before the wrap.
    after = distributed(imports=LIBRARY, optimizer=GROUPS + WRAP, wrap="")
    assert converted(before, settled("model")) == after
    assert only(said(before, settled("model"), Level.APPLIED)) == (
        "train.py:8: `model` is a trained model, as you say (`--model model`)",
        "",
    )


@pytest.mark.parametrize("name", ["model@8", "train.py:model", "train.py:model@9"])
def test_a_name_may_say_its_file_and_line(name: str) -> None:
    before = script(imports=LIBRARY, optimizer=GROUPS)
    assert converted(before, settled(name)) == distributed(imports=LIBRARY, optimizer=GROUPS + WRAP, wrap="")


def test_some_parameters_from_an_unknown_call() -> None:
    """Beside parameters that are seen, those of another model would go unnoticed, and would not be averaged."""
    before = script(
        imports=LIBRARY,
        model=f"{MODEL}head = nn.Linear(1, 1)\n",
        optimizer="optimizer = torch.optim.SGD([*model.parameters(), *strange.groups(head)], lr=0.1)\n",
        loop=LOOP.replace("model(x)", "head(model(x))"),
    )
    assert only(said(before)) == (
        "train.py:10: parameters of this optimizer come from `strange.groups(head)`: they may be those of `head` "
        "(train.py:9), or not",
        "--model head if it trains that; else write `# distify: not-a-model` behind that line",
    )
    after = converted(before, settled("head"))
    assert WRAP in after
    assert WRAP.replace("model", "head") in after


def test_an_optimizer_of_which_no_model_is_known() -> None:
    before = script(
        model=f"{MODEL}other = nn.Linear(1, 1)\n",
        optimizer="optimizer = torch.optim.SGD(model.some_of_them, lr=0.1)\n",
        loop=LOOP.replace("model(x)", "other(nn.Softplus()(model(x)))"),
    )
    assert only(said(before)) == (
        "train.py:9: parameters of this optimizer cannot be followed: they may be those of `model` (train.py:7) or "
        "`other` (train.py:8), or not",
        "--model model or --model other if it trains that; else write `# distify: not-a-model` behind that line",
    )
    after = converted(before, settled("model"))
    assert WRAP in after
    assert WRAP.replace("model", "other") not in after


def test_what_may_be_an_optimizer() -> None:
    before = script(
        imports=LIBRARY,
        model=f"{MODEL}head = nn.Linear(1, 1)\nmore = strange.create_optimizer(head)\n",
        loop=f"{LOOP.replace('model(x)', 'head(model(x))')}        more.step()\n",
    )
    assert only(said(before)) == (
        "train.py:10: `more.step()` at train.py:18 may be the step of an optimizer of `head` (train.py:9), which is "
        "made here, or of something that trains nothing",
        "--model head if it trains that; else write `# distify: not-a-model` behind that line",
    )
    assert WRAP.replace("model", "head") in converted(before, settled("head"))
    commented = before.replace("create_optimizer(head)", "create_optimizer(head)  # distify: not-a-model")
    assert WRAP.replace("model", "head") not in converted(commented)


def test_the_only_optimizer_is_from_a_library() -> None:
    optimizer = "optimizer = strange.create_optimizer(model)\n"
    before = script(imports=LIBRARY, optimizer=optimizer)
    assert only(said(before))[0].startswith("train.py:9: `optimizer.step()` at train.py:15 may be the step of")
    assert converted(before, settled("model")) == distributed(imports=LIBRARY, optimizer=optimizer + WRAP, wrap="")


def test_schedulers_and_averages_of_a_library_are_no_optimizers() -> None:
    before = script(
        imports=LIBRARY,
        loop=f"schedule = strange.Schedule(optimizer)\nmean = strange.Average(model)\n{LOOP}"
        "        schedule.step()\n        mean.step()\n",
    )
    assert said(before) == []


def test_a_trained_part_of_two_models() -> None:
    model = (
        "class Whole(nn.Module):\n"
        "    def __init__(self, part):\n        super().__init__()\n        self.part = part\n"
        "    def forward(self, x):\n        return self.part(x)\n"
        "part = nn.Linear(4, 1)\none = Whole(part)\ntwo = Whole(part)\n"
    )
    before = script(
        model=model,
        optimizer="optimizer = torch.optim.SGD(part.parameters(), lr=0.1)\n",
        loop=LOOP.replace("model(x)", "one(x) + two(x)"),
    )
    assert only(said(before)) == (
        "train.py:16: what this optimizer trains is part of `one` (train.py:14) and of `two` (train.py:15): either may "
        "be the model",
        "--model one or --model two if it trains that; else write `# distify: not-a-model` behind that line",
    )


def test_two_models_in_one_variable_are_no_doubt() -> None:
    """Whichever it is, the variable is wrapped."""
    model = "import sys\nif sys.argv:\n    model = nn.Linear(4, 1)\nelse:\n    model = nn.Bilinear(4, 4, 1)\n"
    assert converted(script(model=model)) == distributed(model=model)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (settled("nett"), f"--model nett: {NO_MODEL} is called `nett` in train.py"),
        (settled("model@3"), f"--model model@3: {NO_MODEL} is called `model` in train.py, line 3"),
        (settled("a.py:model"), f"--model a.py:model: {NO_MODEL} is called `model` in a.py"),
        (settled("f(x)"), "--model f(x): is neither a variable nor an attribute, as in `net` or `self.net`"),
        (settled("loader"), f"--model loader: {NO_MODEL} is called `loader` in train.py"),
        (settled(loader="model"), "--train-loader model: no DataLoader (those that are seen: `loader` (train.py:6)) is "
         "called `model` in train.py"),
    ],
)  # fmt: skip
def test_a_name_of_nothing_is_an_error_that_lists_what_there_is(options: Options, says: str) -> None:
    with pytest.raises(OptionError) as error:
        conversion_of(script(), options=options)
    assert str(error.value) == says


def test_a_configuration_serves_other_scripts_too() -> None:
    assert said(script(), settled("other.py:net", everywhere=True), Level.ADVICE) == []
    [one] = said(script(), settled("net", everywhere=True), Level.ADVICE)
    assert one.message == (
        "[tool.distify] model net: no model (those that are seen: `model` (train.py:7)) is called `net` in train.py"
    )
    with pytest.raises(OptionError, match=r"^\[tool.distify\] model train.py:net: no model"):
        conversion_of(script(), options=settled("train.py:net", everywhere=True))


def test_attributes_and_items_are_names() -> None:
    model = "class Box:\n    pass\nbox = Box()\nbox.net = nn.Linear(4, 1)\nnets = {'a': box.net}\n"
    before = script(
        imports=LIBRARY,
        model=model,
        optimizer="optimizer = torch.optim.SGD(strange.groups(box.net), lr=0.1)\n",
        loop=LOOP.replace("model(x)", "box.net(x)"),
    )
    after = converted(before, settled("box.net"))
    assert "box.net = DistributedDataParallel(box.net, device_ids=rt.device_ids(box.net))\n" in after
    [one] = said(before)
    assert one.fix.startswith("--model box.net if")


# ---- loaders

TWO = f"{LOADER}other = DataLoader(data, batch_size=4)\n"
TWO_SHARDED = f"{SHARDED}other = DataLoader(data, batch_size=4)\n"
EITHER = "import sys\nchosen = loader if sys.argv else other\n"
FLAG = """\
import sys
def go(batches, train):
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
for epoch in range(3):
    go(loader, bool(sys.argv[1]))
    go(other, bool(sys.argv[2]))
"""


def test_a_loop_over_one_loader_or_another() -> None:
    before = script(loader=TWO, loop=EITHER + LOOP.replace("in loader", "in chosen"))
    assert only(said(before)) == (
        "train.py:13: this loop runs over `loader` (train.py:6) or `other` (train.py:7): it may train on each of them, "
        "or on some only",
        "name those that it trains on: --train-loader loader or --train-loader other",
    )
    after = converted(before, settled(loader="loader"))
    assert TWO_SHARDED in after
    assert "    rt.set_epoch(chosen, epoch)\n    for x, y in chosen:\n" in after


ANEW = """\
for epoch in range(3):
    if epoch == 0:
        loader = DataLoader(data, batch_size=4, shuffle=True)
    else:
        loader = DataLoader(data, batch_size=8, shuffle=True)
"""
LATER = """\
loader = DataLoader(data, batch_size=4, shuffle=True)
for epoch in range(3):
    if epoch == 2:
        loader = DataLoader(data, batch_size=8, shuffle=True)
"""


@pytest.mark.parametrize("made", [ANEW, LATER])
@pytest.mark.parametrize("turn", ["", "        if epoch == 1: break\n"])
def test_a_loader_that_is_made_in_several_places_under_one_name(made: str, turn: str) -> None:
    before = script(loader="", loop=LOOP.replace("for epoch in range(3):\n", made) + turn)
    assert said(before) == []
    after = converted(before)
    assert after.count("sampler=rt.TrainingSampler(data)") == 2
    assert "    loader.sampler.set_epoch(epoch)\n    for x, y in loader:\n" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        loss = ", "        if epoch == 1: continue\n        loss = "),
        ("        loss.backward()", "        if epoch > 1: loss.backward()"),
        ("        loader = DataLoader(data, batch_size=8, shuffle=True)", "        loader = other"),
    ],
)
def test_loaders_under_one_name_on_some_of_which_it_may_not_train(old: str, new: str) -> None:
    loop = LOOP.replace("for epoch in range(3):\n", ANEW).replace(old, new)
    before = script(loader="other = DataLoader(data, batch_size=8)\n", loop=loop)
    assert [one.message.rpartition(": ")[2] for one in said(before)] == [
        "it may train on each of them, or on some only"
    ]


def test_both_loaders_of_a_loop_train() -> None:
    before = script(loader=TWO, loop=EITHER + LOOP.replace("in loader", "in chosen"))
    after = converted(before, settled(loader="loader other"))
    assert SHARDED in after
    assert "other = DataLoader(data, batch_size=rt.per_rank_batch_size(4),\n" in after
    assert "    chosen.sampler.set_epoch(epoch)\n    for x, y in chosen:\n" in after


def test_a_function_that_trains_by_a_flag() -> None:
    before = script(loader=TWO, loop=FLAG)
    assert only(said(before)) == (
        "train.py:12: this loop runs over `loader` (train.py:6) or `other` (train.py:7), and trains where `train` "
        "(train.py:14) holds: it may train on each of them, or on some only",
        "name those that it trains on: --train-loader loader or --train-loader other",
    )
    assert TWO_SHARDED in converted(before, settled(loader="loader"))
    assert only(said(before, settled(loader="loader"), Level.ADVICE)) == (
        "train.py:7: `other` shares a loop with `loader` and is not named as a training loader: every rank goes "
        "through all of it",
        "",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("bool(sys.argv[1])", "bool(sys.argv[2])"), ("if train", "if loss > 0"),
     ("            optimizer.step()\n", "            optimizer.step()\n        else:\n            loss.backward()\n")],
)  # fmt: skip
def test_a_flag_that_tells_nothing_apart(old: str, new: str) -> None:
    """The same in each call, of the batch, or a backward pass either way."""
    assert said(script(loader=TWO, loop=FLAG.replace(old, new))) == []


def test_a_comment_names_the_training_loader() -> None:
    commented = LOADER.replace("\n", "  # distify: train-loader\n")
    before = script(loader=TWO.replace(LOADER, commented), loop=FLAG)
    assert said(before) == []
    assert SHARDED.replace("\n", "  # distify: train-loader\n", 2).replace("8),  # distify: train-loader", "8),") in (
        converted(before)
    )


def test_an_answer_against_what_is_seen_is_followed_and_said() -> None:
    evaluation = "model.eval()\nwith torch.no_grad():\n    for x, y in other:\n        model(x)\n"
    before = script(loader=TWO, after=evaluation)
    assert "other = DataLoader(data, batch_size=4)\n" in converted(before)
    answer = settled(loader="other")
    assert "other = DataLoader(data, batch_size=rt.per_rank_batch_size(4)," in converted(before, answer)
    assert only(said(before, answer, Level.ADVICE))[0] == (
        "train.py:7: `other` is dealt out as a training loader, as you say (`--train-loader other`), though no "
        "backward pass of its batches is seen"
    )


SUMS = (
    FLAG.replace("    for x", "    total = 0.0\n    for x")
    .replace("        if train", "        total += loss.item() * len(x)\n        if train")
    .replace("for epoch", "    print(total)\nfor epoch")
)


def test_figures_of_a_loop_that_is_shared() -> None:
    """A sum over a rank's share and a sum over everything must not be all-reduced alike."""
    after = converted(script(loader=TWO, loop=SUMS), settled(loader="loader"))
    assert ("    if rt.is_sharded(batches):\n        total = rt.all_reduce_sum(total)\n    print(total)\n") in after


def test_figures_of_a_loop_whose_loader_has_no_name() -> None:
    loop = SUMS.replace("go(batches, train)", "go(pick, train)").replace("in batches", "in pick()").replace(
        "go(loader,", "go(lambda: loader,").replace("go(other,", "go(lambda: other,")  # fmt: skip
    found = said(script(loader=TWO, loop=loop), settled(loader="loader"))
    assert any(one.message.startswith("figures are summed up here") for one in found)


# ---- comments: skip


def advice(before: str) -> list[str]:
    return [f"{one.place}: {one.message}" for one in findings(CODE, before, Level.ADVICE)]


def test_a_save_is_left_alone() -> None:
    after = 'torch.save(1, "a")  # distify: skip\n'
    assert converted(script(after=after)) == distributed(after=after)
    assert advice(script(after=after)) == [
        "train.py:15: left alone, as you say (`# distify: skip`): not done: one writer (SAVE01)"
    ]


def test_a_print_is_left_alone_and_the_others_are_not() -> None:
    after = "print(1)  # distify: skip\nprint(2)\n"
    assert converted(script(after=after)) == distributed(
        after="print(1)  # distify: skip\nif rt.is_main_process():\n    print(2)\n"
    )
    assert PRINT not in converted(script(after=after))
    assert advice(script(after=after)) == [
        "train.py:15: left alone, as you say (`# distify: skip`): not done: one rank writes to the screen (OUT01)"
    ]


def test_a_comment_above_a_statement() -> None:
    after = '# distify: skip\ntorch.save(\n    1,\n    "a",\n)\n'
    assert converted(script(after=after)) == distributed(after=after)


def test_a_training_loader_is_left_alone() -> None:
    loader = LOADER.replace("\n", "  # distify: skip\n")
    assert converted(script(loader=loader)) == distributed(
        ours="import distify_runtime as rt\nfrom torch.nn.parallel import DistributedDataParallel\n",
        loader=loader,
        loop=LOOP,
    )
    assert advice(script(loader=loader)) == [
        "train.py:6: left alone, as you say (`# distify: skip`): every rank trains on all of `loader`, in batches of "
        "the size given"
    ]


def test_a_summed_loss_over_a_loader_that_is_left_alone_is_not_scaled() -> None:
    loop = LOOP.replace("(model(x), y)", "(model(x), y, reduction='sum')")
    assert "world_size" in converted(script(loop=loop))
    assert "world_size" not in converted(script(loader=LOADER.replace("\n", "  # distify: skip\n"), loop=loop))


def test_an_evaluation_that_is_left_alone_is_done_by_every_rank() -> None:
    """Its loader is not sharded either: half of an evaluation would be wrong."""
    evaluation = (
        "def evaluate():{}\n    total = 0\n    model.eval()\n    with torch.no_grad():\n        for x, y in other:\n"
        "            total += (model(x) - y).abs().sum().item()\n    return total\nevaluate()\n"
    )
    plain = converted(script(loader=TWO, after=evaluation.format("")))
    assert "rt.all_reduce_sum(total)" in plain
    left = evaluation.format("  # distify: skip")
    assert converted(script(loader=TWO, after=left)) == distributed(loader=TWO_SHARDED, after=left)


def test_what_would_need_someone_is_advice_where_it_is_left_alone() -> None:
    after = 'log = open("log.txt", "r+"); lines = [*log]\n'
    before = script(after=after)
    assert conversion_of(before).outcome is Outcome.REFUSED
    left = script(after=after.replace("\n", "  # distify: skip\n"))
    assert "# distify: skip" in converted(left)
    [one] = advice(left)
    assert one.startswith("train.py:15: left alone, as you say (`# distify: skip`): ")


def test_what_must_not_be_left_alone() -> None:
    """Without its wrap a model would train apart on each rank."""
    body = "".join(f"    {line}\n" for line in f"{MODEL}{DATA}{LOADER}".splitlines())
    body += "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    body += "".join(f"    {line}\n" for line in LOOP.splitlines())
    before = f"{IMPORTS}def main():  # distify: skip\n{body}main()\n"
    found = said(before)
    assert {str(one.place) for one in found} == {"train.py:4"}
    assert any("gradients are averaged over the ranks" in one.message for one in found)


def test_an_import_of_a_converted_file_must_not_be_left_alone() -> None:
    """The original of the file would run: every rank would print."""
    files = {"helper.py": "def tell(epoch):\n    print(epoch)\n    return epoch\n"}
    loop = LOOP + "    epoch = tell(epoch)\n"
    before = script(imports=f"{IMPORTS}from helper import tell\n", loop=loop)
    assert conversion_of(before, files=files).outcome is Outcome.CONVERTED
    left = before.replace("import tell\n", "import tell  # distify: skip\n")
    [one] = conversion_of(left, files=files).of(Level.BLOCKING)
    assert (one.code, str(one.place)) == (CODE, "train.py:4")
    assert conversion_of(left, files=files, twins=False).outcome is Outcome.CONVERTED


def test_a_whole_file_is_left_alone() -> None:
    before = "# distify: skip\n" + script()
    conversion = conversion_of(before)
    assert conversion.outcome is Outcome.REFUSED
    [one] = conversion.findings
    assert (one.code, str(one.place), one.message) == (
        "REFUSE04", "train.py:1", "a comment says that this file is not to be converted"
    )  # fmt: skip


# ---- comments: not-a-model


def test_a_model_that_is_not_wrapped() -> None:
    model = f"{MODEL}scale = nn.Linear(1, 1)  # distify: not-a-model\n"
    optimizer = "optimizer = torch.optim.SGD([*model.parameters(), *scale.parameters()], lr=0.1)\n"
    loop = LOOP.replace("model(x)", "scale(model(x))")
    before = script(model=model, optimizer=optimizer, loop=loop)
    after = converted(before)
    assert WRAP in after
    assert WRAP.replace("model", "scale") not in after
    assert advice(before) == [
        "train.py:8: `scale` is not wrapped, as you say (`# distify: not-a-model`): each rank trains it on its own "
        "share, and the ranks' copies drift apart unless its gradients are averaged by hand"
    ]


def test_what_an_optimizer_trains_is_not_wrapped() -> None:
    optimizer = "optimizer = torch.optim.SGD(strange.groups(model), lr=0.1)  # distify: not-a-model\n"
    before = script(imports=LIBRARY, optimizer=optimizer)
    assert said(before) == []
    assert "DistributedDataParallel(" not in converted(before)
    assert advice(before)[0].startswith("train.py:9: what `optimizer` trains is not wrapped, as you say")


# ---- comments that say nothing

NOT_KNOWN = (
    "is not known; after `# distify:` comes one of skip, train-loader, not-a-model, rate-linear, rate-square-root, "
    "draw-alike"
)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x = 1  # distify: skpi",
         f"train.py:15:8: `# distify: skpi` {NOT_KNOWN}"),
        ("x = 1  # distify: skip this line",
         f"train.py:15:8: `# distify: skip this line` {NOT_KNOWN}"),
        ("x = 1\n# distify: skip", "train.py:16:1: `# distify: skip` is not about a statement"),
        ("if x:\n    y = 1\nelse:  # distify: skip\n    y = 2",
         "train.py:17:8: `# distify: skip` is not about a statement"),
    ],
)  # fmt: skip
def test_a_comment_that_says_nothing_is_an_error(line: str, says: str) -> None:
    with pytest.raises(SourceError) as error:
        conversion_of(script(after=f"{line}\n"))
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("train-loader", "makes no DataLoader"),
        ("not-a-model", "makes neither model nor optimizer"),
        ("rate-linear", "makes no optimizer"),
    ],
)
def test_a_comment_about_the_wrong_line_is_an_error(word: str, says: str) -> None:
    with pytest.raises(OptionError) as error:
        conversion_of(script(after=f"x = len([])  # distify: {word}\n"))
    assert str(error.value) == f"train.py:15: `# distify: {word}` is about a line that {says}"


@pytest.mark.parametrize(
    "comment",
    ["# distify: needs you DATA01: it has a sampler", "# noqa  # distify: skip", "#distify:skip  (every rank logs)",
     "# see distify.skip", "# distify makes it distributed"],
)  # fmt: skip
def test_comments_that_are_fine(comment: str) -> None:
    after = f"x = 1  {comment}\n"
    assert converted(script(after=after)) == distributed(after=after)


def test_text_that_looks_like_a_comment_is_none() -> None:
    after = 'x = "# distify: nonsense"\n'
    assert converted(script(after=after)) == distributed(after=after)


def test_a_comment_of_an_imported_file() -> None:
    modules = {"parts": SourceFile("parts.py", b"x = 1  # distify: nonsense\n")}
    with pytest.raises(SourceError, match=r"^parts.py:1:8: "):
        convert(
            SourceFile("train.py", script(setup="import parts\n").encode()),
            lambda importer, module, level: modules.get(module),
        )


def test_nothing_to_settle_is_said() -> None:
    [one] = findings(CODE, script(), Level.NOT_NEEDED)
    assert one.message == "nothing can be read in two ways, and nothing is to be left alone"
    assert APART in converted(script())
    assert line_of(script(), "nn.Linear") == 7
