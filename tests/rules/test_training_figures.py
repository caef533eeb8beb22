"""METRIC01: figures of training that are kept are those of all ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from distify_codemods import Level, Options, SourceFile, Strategy, convert

from tests.rules.scripts import (
    IMPORTS,
    LOOP,
    blocked,
    changes,
    conversion_of,
    converted,
    distributed,
    findings,
    line_of,
    script,
)

STEP = """\
        guess = model(x)
        loss = nn.functional.mse_loss(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def counting(start: str, count: str, after: str, told: str = "", head: str = "for x, y in loader:") -> str:
    return f"for epoch in range(3):\n{start}{told}    {head}\n{STEP}        {count}\n{after}"


TOLD = "    loader.sampler.set_epoch(epoch)\n"


@pytest.mark.parametrize(
    ("start", "count", "names"),
    [
        ("    right = 0\n", "right += (guess > y).sum().item()", "right"),
        ("    right = 0\n", "right = right + (guess > y).sum().item()", "right"),
        ("    right, seen = 0, 0\n", "right += (guess > y).sum().item(); seen += len(y)", "right, seen"),
        ("    right = seen = 0\n", "right += (guess > y).sum().item(); seen += y.size(0)", "right, seen"),
        ("    right = 0.0\n", "right += loss.item() * len(x)", "right"),
        ("    right = torch.zeros(1)\n", "right += (guess > y).sum()", "right"),
    ],
)
def test_summed_after_the_loop(start: str, count: str, names: str) -> None:
    before = script(loop=counting(start, count, f"    print({names})\n"))
    after = f"    {names} = rt.all_reduce_sum({names})\n    print({names})\n"
    assert converted(before) == distributed(loop=counting(start, count, after, TOLD), prints=True)


BOTH = "kept.append((guess > y).flatten().tolist()); right += (guess > y).sum().item()"


@pytest.mark.parametrize(
    ("loader", "which"),
    [
        ("DataLoader(data, batch_size=8, shuffle=True)", "the last batch"),
        ("DataLoader(data, batch_size=8, shuffle=True, drop_last=False)", "the last batch"),
        ("DataLoader(data, batch_sampler=[[1, 2, 3], [4, 5, 6]])", "a batch"),
        ("DataLoader(data, batch_size=8, shuffle=True, drop_last=True)", ""),
    ],
)
def test_samples_that_count_twice_are_told_of_sums_and_entries(loader: str, which: str) -> None:
    """An accuracy over the size of the data set may be more than 1, and there may be more entries than samples."""
    loop = counting("    right, kept = 0, []\n", BOTH, "    print(right / len(data), len(kept))\n")
    told = [
        one.message for one in findings("METRIC01", script(loader=f"loader = {loader}\n", loop=loop), Level.APPLIED)
    ]
    count = f"; where {which} is filled up, some samples count twice, but not in the length of the data set"
    entries = f", with those that stand in {which} twice"
    assert told == [
        f"right summed over the ranks after the training loop{count if which else ''}",
        f"kept for the global batch: the entries of all ranks{entries if which else ''}",
    ]


def test_means_of_batches_are_averaged_after_the_loop() -> None:
    before = script(loop=counting("    total = 0.0\n", "total += loss.item()", "    print(total / len(loader))\n"))
    after = "    total = rt.all_reduce_mean(total)\n    print(total / len(loader))\n"
    expected = counting("    total = 0.0\n", "total += loss.item()", after, TOLD)
    assert converted(before) == distributed(loop=expected, prints=True)


UNKNOWN = "right += ((guess.mean(0) if sys.argv[1:] else guess) > y).sum().item()"


@pytest.mark.parametrize(
    "after",
    [
        "    print(right / seen)\n",
        "    print(f'{100 * right / seen:.2f} of {seen}')\n",
        "    figures = right, seen\n    print(figures)\n",
        "    ratio = np.divide(right, seen)\n    print(ratio)\n",
    ],
)
def test_half_of_a_ratio_is_not_summed_alone(after: str) -> None:
    """Of what `right` is a sum is not known: rank 0's own ratio is near the truth, its half of all samples is not."""
    before = script(imports=f"{IMPORTS}import sys\nimport numpy as np\n",
                    loop=counting("    right, seen = 0, 0\n", f"{UNKNOWN}; seen += y.size(0)", after))  # fmt: skip
    assert "all_reduce" not in converted(before, Options(strategy="sharded"))
    assert "rt.data_parallel(model)" in converted(before, Options(strategy="auto"))


def test_a_ratio_beside_one_that_is_known() -> None:
    count = f"{UNKNOWN}; near += (guess > y).sum().item(); seen += y.size(0)"
    after = "    print(right / len(data), near / seen)\n"
    before = script(imports=f"{IMPORTS}import sys\n",
                    loop=counting("    right, near, seen = 0, 0, 0\n", count, after))  # fmt: skip
    assert "    near, seen = rt.all_reduce_sum(near, seen)\n" in converted(before, Options(strategy="sharded"))


METER = """\
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


"""


@pytest.mark.parametrize(
    ("kept", "whole"),
    [
        ("seen += [loss.item()]", "seen += [rt.all_reduce_mean(loss.item())]"),
        ("seen.extend((guess > y).tolist())", "seen.extend(rt.gather_entries((guess > y).tolist()))"),
        ("seen.append(round(loss.item(), 3))", "seen.append(round(rt.all_reduce_mean(loss.item()), 3))"),
        ("seen.append(loss.item() > 0.5)", "seen.append(rt.all_reduce_mean(loss.item()) > 0.5)"),
        ("seen.append((loss > 0.5).item())", "seen.append((rt.all_reduce_mean(loss) > 0.5).item())"),
        ("seen.append(math.exp(loss.item()))", "seen.append(math.exp(rt.all_reduce_mean(loss.item())))"),
        ("swanlab.log({'loss': loss.item()})", "swanlab.log({'loss': rt.all_reduce_mean(loss.item())})"),
        ("view.line([loss.item()])", "view.line([rt.all_reduce_mean(loss.item())])"),
        ("joblib.dump(loss.item(), 'a')", "rt.main_process_only(joblib.dump)(rt.all_reduce_mean(loss.item()), 'a')"),
        ("file.write(f'{loss.item()}')", "file.write(f'{rt.all_reduce_mean(loss.item())}')"),
        ("yaml.dump_all([loss.item()], file)", "yaml.dump_all([rt.all_reduce_mean(loss.item())], file)"),
    ],
)
def test_kept_in_the_loop(kept: str, whole: str) -> None:
    setup = f"{METER}meter, seen, table = Meter(), [], {{'loss': 0.0}}\nview = visdom.Visdom()\n"
    opened = "    file = open('losses.txt', 'a')\n"
    before = script(
        imports=f"import joblib\nimport math\nimport swanlab\nimport visdom\nimport yaml\n{IMPORTS}",
        setup=setup,
        loop=counting(opened, kept, ""),
    )
    assert f"        optimizer.step()\n        {whole}\n" in converted(before)


@pytest.mark.parametrize(
    ("count", "whole"),
    [
        ("most = max(most, loss.item())", "most = max(most, rt.all_reduce_mean(loss.item()))"),
        (
            "most = (most * 9 + loss.item()) / 10",
            "most = rt.all_reduce_mean((most * 9 + loss.item()) / 10)",
        ),
        ("most = torch.cat([most, y])", "most = torch.cat([most, rt.gather_entries(y)])"),
        ("most = most + unseen(y)", "most = most + unseen(rt.gather_entries(y))"),
    ],
)
def test_carried_from_turn_to_turn(count: str, whole: str) -> None:
    imports = f"{IMPORTS}from somewhere import unseen\n"
    before = script(imports=imports, loop=counting("    most = torch.zeros(0)\n", count, "    print(most)\n"))
    assert f"        optimizer.step()\n        {whole}\n    print(most)\n" in converted(before)


def test_entries_that_are_left_do_not_stand_beside_those_of_all() -> None:
    both = "seen.append(y); found.append([one for one in guess if one > 0])"
    before = script(setup="seen, found = [], []\n", loop=counting("", both, ""))
    assert changes("METRIC01", before) == []
    assert findings("METRIC01", before, Level.ADVICE)


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param("local = []; local.append(loss.item())", id="made anew in each turn"),
        pytest.param("seen.append(epoch)", id="no figure"),
        pytest.param("seen.append(lambda: loss.item())", id="not computed here"),
        pytest.param("model.last = loss.item()", id="of the last batch only"),
    ],
)
def test_left_alone_in_the_loop(kept: str) -> None:
    before = script(setup="seen = []\n", loop=counting("", kept, ""))
    assert changes("METRIC01", before) == []


def test_function_that_some_ranks_leave_early() -> None:
    keep = "def keep():\n    if loss > 1: return\n    seen.append(loss.item())\n\n\n"
    before = script(setup=f"seen = []\n{keep}", loop=counting("", "keep()", ""))
    assert changes("METRIC01", before) == []


def test_returned_by_a_function() -> None:
    body = f"    right = 0\n    for x, y in loader:\n{STEP}        right += (guess > y).sum().item()\n"
    before = script(loop=f"def train():\n{body}    return right / 64\n\n\nfor epoch in range(3): print(train())\n")
    assert "    right = rt.all_reduce_sum(right)\n    return right / 64\n" in converted(before)


def test_kept_in_a_list() -> None:
    count = "right += (guess > y).sum().item()"
    before = script(loop="kept = []\n" + counting("    right = 0\n", count, "    kept.append(right)\n"))
    assert "    right = rt.all_reduce_sum(right)\n    kept.append(right)\n" in converted(before)


def test_one_line_loop() -> None:
    step = "loss = nn.functional.mse_loss(model(x), y); optimizer.zero_grad(); loss.backward(); optimizer.step()"
    loop = f"for epoch in range(3):\n    seen = 0\n    for x, y in loader: {step}; seen += len(x)\n    print(seen)\n"
    assert "    seen = rt.all_reduce_sum(seen)\n    print(seen)\n" in converted(script(loop=loop))


@pytest.mark.parametrize(
    "after",
    [
        "    if right > 60: break\n",
        "    if right > best:\n        best = right\n        torch.save(model.state_dict(), 'a.pt')\n",
        "    sched.step(right / 64)\n",
    ],
)
def test_decisions_on_summed_figures_are_everyones(after: str) -> None:
    plan = "best = 0\nsched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    count = "right += (guess > y).sum().item()"
    before = script(loop=plan + counting("    right = 0\n", count, after))
    assert blocked(before) == set()
    assert "    right = rt.all_reduce_sum(right)\n    " + after.split("\n")[0].strip() in converted(before)


def test_said_of_figures_that_stay_one_ranks() -> None:
    shown = script(loop=counting("", "print(guess.max().item())", ""))
    assert changes("METRIC01", shown) == []
    assert findings("OUT01", shown, Level.ADVICE)
    summed = script(loop=counting("    seen = 0\n", "seen += len(x)", "    print(seen)\n"))
    assert not findings("OUT01", summed, Level.ADVICE)


@pytest.mark.parametrize(
    ("start", "count", "after"),
    [
        pytest.param("    right = 0\n", "right += (guess > y).sum().item()", "", id="never used"),
        pytest.param("    steps = 0\n", "steps += 1", "    print(steps)\n", id="steps"),
        pytest.param("    right = 1\n", "right *= 2", "    print(right)\n", id="product"),
    ],
)
def test_left_alone(start: str, count: str, after: str) -> None:
    before = script(loop=counting(start, count, after))
    assert changes("METRIC01", before) == []
    assert "all_reduce_sum" not in converted(before)


def test_sum_that_goes_on_over_the_epochs() -> None:
    """Reduced after each epoch, what was summed before would count again on every rank."""
    loop = "right = 0\n" + counting("", "right += (guess > y).sum().item()", "    print(right)\n")
    after = converted(script(loop=loop))
    assert "right = rt.all_reduce_sum(right)" not in after


# ---- what the checklist says of the others

CODE = "METRIC01"
KEPT = "no figure of the training loop is kept"


def in_the_loop(line: str) -> str:
    return LOOP.replace("        optimizer.step()\n", f"        optimizer.step()\n        {line}\n")


@pytest.mark.parametrize(
    ("setup", "loop"),
    [
        pytest.param("", LOOP, id="none"),
        pytest.param("", in_the_loop("last = x.shape[1]") + "print(last)\n", id="no figure of the batch"),
        pytest.param("", in_the_loop("print(loss.item())"), id="shown in its turn"),
        pytest.param("", in_the_loop("loss = loss.item()"), id="nobody reads it"),
        pytest.param("import arena\n", in_the_loop("arena.tick(epoch)"), id="another is told the epoch"),
        pytest.param("", in_the_loop("torch.nn.utils.clip_grad_norm_(model.parameters(), 1)"), id="known"),
    ],
)
def test_no_figure_is_kept(setup: str, loop: str) -> None:
    assert [one.message for one in findings(CODE, script(setup=setup, loop=loop), Level.NOT_NEEDED)] == [KEPT]


@pytest.mark.parametrize(
    ("setup", "loop"),
    [
        pytest.param("", in_the_loop("last = loss.item()") + "print(last)\n", id="a name"),
        pytest.param("", in_the_loop("one, last = 1, loss.item()") + "print(last)\n", id="one of two names"),
        pytest.param("state = {}\n", in_the_loop("state['last'] = loss.item()"), id="an item"),
        pytest.param("", in_the_loop("model.last = loss.item()"), id="an attribute"),
        pytest.param("", in_the_loop("setattr(model, 'last', loss.item())"), id="an attribute by its name"),
        pytest.param(
            "class Log:\n    def note(self, figure):\n        self.last = figure\n\n\nlog = Log()\n",
            in_the_loop("figure = log.note(loss.item())"),
            id="an attribute of a helper",
        ),
    ],
)
def test_the_figure_of_the_last_batch_is_named(setup: str, loop: str) -> None:
    (one,) = [one.message for one in findings(CODE, script(setup=setup, loop=loop), Level.NOT_NEEDED)]
    assert re.fullmatch(
        rf"{KEPT}, but that of the last batch \(`.*` at train\.py:\d+\), of which each rank keeps its own", one
    )


@pytest.mark.parametrize(
    ("setup", "line", "name"),
    [
        pytest.param("import arena\nbook = arena.Book()\n", "book.add(loss.item())", "book.add", id="a method"),
        pytest.param("import arena\n", "arena.note({'loss': loss.item()})", "arena.note", id="function"),
    ],
)
def test_figures_that_go_to_something_unknown_are_named(setup: str, line: str, name: str) -> None:
    before = script(setup=setup, loop=in_the_loop(line))
    assert findings(CODE, before, Level.NOT_NEEDED) == []
    (one,) = findings(CODE, before, Level.ADVICE)
    assert one.message == (
        f"`{name}` is given figures of a rank's own samples, and it is not known what it keeps of them"
    )


def test_figures_that_go_to_an_inherited_method_are_means() -> None:
    setup = "import arena\n\n\nclass Own(arena.Log):\n    pass\n\n\nown = Own()\n"
    new = converted(script(setup=setup, loop=in_the_loop("own.put(loss.item())")))
    assert "        own.put(rt.all_reduce_mean(loss.item()))\n" in new


def test_the_last_figure_that_goes_to_something_unknown_after_the_loop_is_named() -> None:
    before = script(setup="import arena\n", after="arena.note(loss.item())\n")
    assert [one.message for one in findings(CODE, before, Level.ADVICE)] == [
        "`arena.note` is given figures of a rank's own samples, and it is not known what it keeps of them"
    ]


def test_what_is_no_figure_of_training_may_go_there() -> None:
    assert findings(CODE, script(setup="import arena\n", after="arena.note(epoch)\n"), Level.ADVICE) == []


@pytest.mark.parametrize(
    ("made", "kept"),
    [("torchmetrics.MeanMetric()", "m.update(loss)"), ("torchmetrics.SumMetric()", "m(loss.detach())")],
)
def test_metrics_that_add_up_over_ranks_by_themselves_are_kept_of_whole_batches(made: str, kept: str) -> None:
    before = script(setup=f"import torchmetrics\nm = {made}\n", loop=in_the_loop(kept))
    conversion = convert(SourceFile("train.py", before.encode()), lambda *_: None)
    (one,) = [each for each in conversion.of(Level.NOT_NEEDED) if each.code == CODE]
    assert one.message == "every rank has the figures of whole batches"


@pytest.mark.parametrize(
    ("tells", "summed"),
    [
        ("    print(right)\n", True),
        ("", False),
        ("    right = 0\n    print(right)\n", False),
        ("    right = None if epoch else right\n    print(right)\n", True),
        ("    print([right for right in range(3)])\n", False),
    ],
)
def test_a_sum_of_an_epoch_that_is_told_in_the_next(tells: str, summed: bool) -> None:
    loop = f"right = 0\nfor epoch in range(3):\n{tells}    right = 0\n    for x, y in loader:\n{STEP}"
    before = script(loop=f"{loop}        right += (guess > y).sum().item()\n")
    assert ("right = rt.all_reduce_sum(right)" in converted(before)) is summed


@pytest.mark.parametrize(("declared", "summed"), [("    global right\n", True), ("", False)])
def test_a_sum_that_others_know_by_its_name(declared: str, summed: bool) -> None:
    train = f"def train():\n{declared}    right = 0\n    for x, y in loader:\n{STEP}"
    train += "        right += (guess > y).sum().item()\n"
    before = script(loop=f"right = 0\n\n\n{train}\n\nfor epoch in range(3):\n    train()\n    print(right)\n")
    assert ("right = rt.all_reduce_sum(right)" in converted(before)) is summed


WEIGHTED = "nn.functional.cross_entropy(guess, y.long()[:, 0], weight=torch.ones(1))"


@pytest.mark.parametrize("kept", ["loss.item()", "float(loss)", "loss.detach()", "loss"])
def test_a_loss_that_is_computed_over_all_ranks_is_nobodys_own(kept: str) -> None:
    step = STEP.replace("nn.functional.mse_loss(guess, y)", WEIGHTED)
    loop = f"losses = []\nfor epoch in range(3):\n    total = 0.0\n    for x, y in loader:\n{step}"
    loop += f"        total += {kept}\n        print(f'loss {{loss.item():.3f}}')\n    losses.append(total)\n"
    before = script(loop=loop + "print(losses)\n")
    told = [*findings("METRIC01", before, Level.ADVICE), *findings("OUT01", before, Level.ADVICE)]
    assert "rt.weighted_mean(" in converted(before)
    assert "all_reduce" not in converted(before)
    assert not told


def test_beside_it_what_is_a_ranks_own_stays_that() -> None:
    step = STEP.replace("nn.functional.mse_loss(guess, y)", WEIGHTED)
    loop = f"for epoch in range(3):\n    for x, y in loader:\n{step}        print(loss.item(), guess.max().item())\n"
    assert findings("OUT01", script(loop=loop), Level.ADVICE)


def test_figures_of_a_loop_for_both_phases() -> None:
    text = (Path(__file__).parents[2] / "fixtures" / "phases" / "train.py").read_text()
    found = conversion_of(text).findings
    (said,) = [one.message for one in found if one.code == "METRIC01"]
    names = "running_loss, running_corrects"
    assert said == f"{names}: summed over the ranks where the evaluation's are, in the loop of both"
    (summed,) = [one.message for one in found if one.code == "EVAL01" and names in one.message]
    assert summed.startswith(f"evaluated in shares, and {names} summed over the ranks; where the last batch")
    assert summed.endswith("is filled up, some samples count twice, but not in the length of the data set")


NAMED = """
from dataclasses import dataclass


@dataclass
class Made:
    out: object


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x, scale=None):
        return Made(self.out(x))


model = Net()
"""


@pytest.mark.parametrize(
    "given", ["**{name: x.clone() for name in names}", "**dict(zip(names, [x]))", "**{names[0]: x}", "x"]
)
def test_a_figure_of_what_a_model_makes_of_named_inputs(given: str) -> None:
    """Of whichever name the samples come by: what the model returns is of this rank's samples alone."""
    loop = (
        LOOP.replace("loss = nn", "made = model(GIVEN).out\n        loss = nn").replace("model(x), y", "made, y")
        + "        log.append(made.mean().item())\n"
    )
    before = script(setup="log, names = [], str(3).split()\n", model=NAMED, loop=loop.replace("GIVEN", given))
    assert "rt.average_figures(log)" in converted(before)


MEDIAN = """\
def medians(most):
    kept, middle = [], 0.0
    while True:
        value = yield middle
        kept = (kept + [value])[-most:]
        middle = statistics.median(kept)


median = medians(7)
next(median)
"""


def sending(lines: str, setup: str = MEDIAN) -> str:
    loss = "        loss = nn.functional.mse_loss(model(x), y)\n"
    return script(imports=f"import statistics\n{IMPORTS}", setup=setup, loop=LOOP.replace(loss, loss + lines))


@pytest.mark.parametrize(
    ("lines", "after", "setup"),
    [
        ("middle = median.send(loss.item())", "middle = median.send(rt.all_reduce_mean(loss.item()))", MEDIAN),
        (
            "middle = push(loss.item())",
            "middle = push(rt.all_reduce_mean(loss.item()))",
            f"{MEDIAN}push = median.send\n",
        ),
        (
            "middle = median.send(loss.item())",
            "middle = median.send(rt.all_reduce_mean(loss.item()))",
            MEDIAN.replace("median = medians(7)", "def outer():\n    yield from medians(7)\n\n\nmedian = outer()"),
        ),
        (
            "worst = (model(x) - y).abs()\n        middle = median.send(worst.max().item())",
            "middle = median.send(rt.gather_entries(worst).max().item())",
            MEDIAN,
        ),
    ],
)
def test_generator_is_sent_the_figure_of_all_ranks(lines: str, after: str, setup: str) -> None:
    """It goes on with what it is sent, and all ranks decide by what it yields."""
    text = converted(sending(f"        {lines}\n        if loss.item() > 1.2 * middle: continue\n", setup))
    assert f"        {after}\n" in text, text
    assert "        if rt.all_reduce_mean(loss.item()) > 1.2 * middle: continue\n" in text, text


def test_generator_that_stops_training() -> None:
    """Where it is asked in the test itself, all ranks come; behind an `and`, they may not."""
    stopper = MEDIAN.replace("middle = statistics.median(kept)", "middle = value > 2 * statistics.median(kept)")
    text = converted(sending("        if median.send(loss.item()): break\n", stopper))
    assert "        if median.send(rt.all_reduce_mean(loss.item())): break\n" in text, text
    text = converted(sending("        if epoch and median.send(loss.item()): break\n", stopper))
    assert "        if epoch and median.send(rt.all_reduce_mean(loss.item())): break\n" in text, text
    before = sending("        if x[0, 0].item() > 0 and median.send(loss.item()): break\n", stopper)
    assert blocked(before)


KEEPER = """\
def keep():
    while True:
        value = yield
        if value > 3:
            torch.save(model.state_dict(), "a.pt")


keeper = keep()
next(keeper)
"""


def test_generator_that_decides_in_its_own_lines() -> None:
    sent = "rt.gather_entries(x)[0, 0].item()"
    text = converted(sending("        keeper.send(x[0, 0].item())\n", KEEPER))
    assert f"        keeper.send({sent})\n" in text, text
    before = sending("        keeper.send(max([row[0].item() for row in x]))\n", KEEPER)
    assert blocked(before) == {("DECIDE01", line_of(before, "if value"))}


@pytest.mark.parametrize(
    ("lines", "setup"),
    [
        ("median.send(None)", MEDIAN),
        ("rate = median.send(epoch)\n        loss = loss * rate", MEDIAN),
        ("rate = next(median)\n        loss = loss * rate", MEDIAN),
        ("channel.send(epoch)", "import queue\n\n\nchannel = queue.Queue()\n"),
        (
            "channel.send(loss.item())",
            "class Channel:\n    def send(self, value):\n        pass\n\n\nchannel = Channel()\n",
        ),
    ],
)
def test_what_is_sent_is_no_figure_of_one_rank(lines: str, setup: str) -> None:
    before = sending(f"        {lines}\n", setup)
    assert not blocked(before)
    text = converted(before)
    assert "all_reduce" not in text.replace("channel.send(rt.all_reduce_mean(loss.item()))", ""), text


def test_a_loss_of_all_ranks_is_kept_and_is_no_figure_of_one() -> None:
    """What all ranks compute together is the same on each of them."""
    setup = "class Net(nn.Linear):\n    def forward(self, x):\n        chosen = (x > 0).float()\n"
    setup += "        return ((super().forward(x) - x) ** 2 * chosen).sum() / chosen.sum()\n\n\n"
    loop = "for epoch in range(3):\n    total = 0\n    for x, y in loader:\n        loss = model(x)\n"
    loop += "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
    loop += "        total += loss.item()\n    print(total)\n"
    before = script(setup=setup, model="model = Net(4, 4)\n", loop=loop)
    (said,) = findings(CODE, before, Level.NOT_NEEDED)
    assert said.message == "no figure of a rank's own samples is kept"


@pytest.mark.parametrize(
    ("setup", "line", "after"),
    [
        pytest.param("add = losses.append\n", "add(loss.item())", "add(rt.all_reduce_mean(loss.item()))",
                     id="a list under another name"),
        pytest.param("", "best = loss.item() if best is None else 0.9 * best + 0.1 * loss.item()",
                     "best = rt.all_reduce_mean(loss.item() if best is None else 0.9 * best + 0.1 * loss.item())",
                     id="on either way"),
        pytest.param("", "if best is None: best = loss.item()\n        best = 0.9 * best + 0.1 * loss.item()",
                     "best = rt.all_reduce_mean(0.9 * best + 0.1 * loss.item())", id="begun by the first batch"),
        pytest.param("", "if best is None:\n            best = loss.item()\n        else:\n"
                     "            best = 0.9 * best + 0.1 * loss.item()",
                     "            best = rt.all_reduce_mean(0.9 * best + 0.1 * loss.item())", id="one of two arms"),
        pytest.param("best = 9.0\n", "if loss.item() < best: best, where = loss.item(), epoch",
                     "best, where = rt.all_reduce_mean(loss.item()), epoch", id="the best so far"),
    ],
)  # fmt: skip
def test_figures_that_are_carried_from_turn_to_turn(setup: str, line: str, after: str) -> None:
    before = script(setup=f"losses, best = [], None\n{setup}", loop=counting("", line, "print(losses, best)\n"))
    assert after in converted(before)
    assert not findings("OUT01", before, Level.ADVICE)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("best = min(best, loss.item())", "best = min(best, rt.all_reduce_mean(loss.item()))"),
        ("best = best + loss.item() ** 2", "best = best + rt.all_reduce_mean(loss.item()) ** 2"),
        (
            "if loss.item() < best: best = loss.item()",
            "if rt.all_reduce_mean(loss.item()) < rt.all_reduce_mean(best): best = rt.all_reduce_mean(loss.item())",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shown", ["print(best)", "if epoch == 1: print(f'{best:.3f}')"])
def test_what_is_no_mean_is_carried_to_where_its_loop_shows_it(line: str, after: str, shown: str) -> None:
    """The mean of the ranks' least losses is none of all ranks' samples."""
    loop = counting("", f"{line}\n        {shown}", "pass\n")
    before = script(setup="best = 9.0\n", loop=loop)
    assert after in converted(before)
    assert not findings("OUT01", before, Level.ADVICE)


@pytest.mark.parametrize(
    "line", ["best = 0.9 * best + 0.1 * loss.item()", "best = loss.item()", "best = min(best, epoch)"]
)
def test_what_is_a_mean_is_put_together_where_its_loop_shows_it(line: str) -> None:
    before = script(setup="best = 9.0\n", loop=counting("", f"{line}\n        if epoch == 2: print(best)", "pass\n"))
    assert f"        optimizer.step()\n        {line}\n" in converted(before)


@pytest.mark.parametrize("kept", ["x[0]", "guess[0].detach()", "x[3].clone()"])
def test_one_sample_that_is_kept_has_no_entries_to_gather(kept: str) -> None:
    before = script(setup="seen = []\n", loop=counting("", f"seen.append({kept})", "print(torch.stack(seen).shape)\n"))
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert "gather_entries" not in conversion.files[0].after.decode()


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("good += error > 0.5", "good += rt.all_reduce_mean(error) > 0.5"),
        ("good += int(error > 0.5)", "good += int(rt.all_reduce_mean(error) > 0.5)"),
    ],
)
def test_whether_a_mean_is_larger_is_asked_of_the_mean_of_all(line: str, after: str) -> None:
    step = f"error = (guess - y).abs().mean().item(); {line}"
    text = converted(script(loop=counting("    good = 0\n", step, "    print(good)\n")))
    assert after in text
    assert "good = rt." not in text


def test_sums_that_one_statement_carries_are_added_up_once() -> None:
    step = "total, seen = total + loss.item() * len(y), seen + len(y)"
    text = converted(script(loop=counting("    total, seen = 0, 0\n", step, "    print(total / seen)\n")))
    assert "total, seen = total + rt.all_reduce_sum(loss.item() * len(y)), seen + len(y) * rt.world_size()" in text
    assert "print(total / seen)" in text


@pytest.mark.parametrize("shown", ["print(means)", "print(*means.values())", "kept.append(dict(means))"])
@pytest.mark.parametrize(
    ("line", "after"),
    [
        (
            'means["a"] = 0.9 * means["a"] + 0.1 * loss.item()',
            'means["a"] = rt.all_reduce_mean(0.9 * means["a"] + 0.1 * loss.item())',
        ),
        (
            'means["a"] = 0.9 * means.get("a", 0) + 0.1 * loss.item()',
            'means["a"] = rt.all_reduce_mean(0.9 * means.get("a", 0) + 0.1 * loss.item())',
        ),
        ('means["a"] = means["a"] + len(y)', 'means["a"] = means["a"] + len(y) * rt.world_size()'),
    ],
)
def test_what_an_entry_goes_on_from_is_that_of_all_ranks(line: str, after: str, shown: str) -> None:
    before = script(setup='means, kept = {"a": 0}, []\n', loop=counting("", f"{line}; {shown}", "") + "print(kept)\n")
    assert f"{after}; {shown}" in converted(before)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("seen.append(1 / len(y))", "seen.append(1 / (len(y) * rt.world_size()))"),
        ("seen.append(len(y) ** 2)", "seen.append((len(y) * rt.world_size()) ** 2)"),
        ("seen.append(1000 // len(y))", "seen.append(1000 // (len(y) * rt.world_size()))"),
        ("seen.append(64 - len(y))", "seen.append(64 - len(y) * rt.world_size())"),
        ("seen.append(len(y))", "seen.append(len(y) * rt.world_size())"),
    ],
)
def test_a_count_keeps_its_place_among_operators(line: str, after: str) -> None:
    before = script(setup="seen = []\n", loop=counting("", line, "") + "print(seen)\n")
    assert after in converted(before)


def test_a_sum_of_what_is_of_all_ranks_and_what_is_not() -> None:
    line = "mean = (mean * k + y.sum()) / (k + len(y)); k += len(y)"
    after = (
        "mean = (mean * k + rt.all_reduce_sum(y.sum())) / (k + len(y) * rt.world_size()); k += len(y) * rt.world_size()"
    )
    before = script(setup="mean, k = 0.0, 0\n", loop=counting("", line, "") + "print(mean, k)\n")
    assert after in converted(before)


METER = """\
class Meter:
    def __init__(self):
        self.count = self.sum = 0

    def update(self, value, n):
        self.count += n
        self.sum += value * n


"""


@pytest.mark.parametrize("kept", ["seen.append(meter.count)", "seen.append(dict(n=meter.count))", "show(meter.count)"])
def test_what_a_meter_counts_of_all_ranks_is_not_multiplied_again(kept: str) -> None:
    setup = f"{METER}def show(count):\n    print(count)\n\n\nmeter, seen = Meter(), []\n"
    loop = counting("", f"meter.update(loss.item(), len(y)); {kept}", "")
    text = converted(script(setup=setup, loop=f"{loop}print(seen)\n"))
    assert f"meter.update(rt.all_reduce_mean(loss.item()), len(y) * rt.world_size()); {kept}" in text


@pytest.mark.parametrize("write", ["sys.stdout.write", "tqdm.write", "pprint.pprint"])
def test_what_is_printed_by_another_name_is_of_all_ranks(write: str) -> None:
    before = script(imports=f"{IMPORTS}import pprint, sys\nfrom tqdm import tqdm\n",
                    loop=counting("", f"{write}('%.4f' % loss.item())", ""))  # fmt: skip
    assert "'%.4f' % rt.all_reduce_mean(loss.item())" in converted(before)


FOLDED = """\
from functools import reduce


def add(a, b):
    return a[0] + b[0], a[1] + b[1]


def step(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item() * len(y), len(y)


"""


def test_what_is_folded_is_of_all_ranks() -> None:
    line = "total, seen = reduce(add, (step(x, y) for x, y in loader))"
    loop = f"for epoch in range(3):\n    {line}\n    print(total, seen)\n"
    assert "rt.all_reduce_sum(total, seen)" in converted(script(setup=FOLDED, loop=loop))


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("x.requires_grad_(True)", "kept.append(x.grad.abs().sum(0))"),
        ("", "kept.append(guess.detach()[range(len(y)), y.long()[:, 0]].mean().item())"),
    ],
)
def test_what_stands_for_a_ranks_own_entries_has_forward_passes_shared(before: str, line: str) -> None:
    """The gradient of a share, and places in it: nothing that is put together has these."""
    loop = (
        counting("", line, "").replace("        loss = ", f"        {before}\n        loss = ")
        if before
        else counting("", line, "")
    )
    text = converted(script(setup="kept = []\n", loop=f"{loop}print(kept)\n"), Options())
    assert "rt.data_parallel(model)" in text


def test_what_two_counters_have_in_common_is_asked_of_all_entries() -> None:
    line = "common += sum((Counter(guess.tolist()) & Counter(y.tolist())).values())"
    before = script(imports=f"{IMPORTS}from collections import Counter\n",
                    loop=counting("    common = 0\n", line, "    print(common)\n"))  # fmt: skip
    text = converted(before, Options())
    assert "Counter(rt.gather_entries(guess.tolist())) & Counter(rt.gather_entries(y.tolist()))" in text


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (
            "d['n'] = d['n'] + len(y); kept.append(loss.item() * len(y) / d['n'])",
            "kept.append(rt.all_reduce_sum(loss.item() * len(y) / d['n']))",
        ),
        (
            "d['n'] = d['n'] + len(y); d['m'] = d['m'] + (loss.item() - d['m']) * len(y) / d['n']",
            "d['m'] = d['m'] + (rt.all_reduce_mean(loss.item()) - d['m']) * len(y) * rt.world_size() / d['n']",
        ),
        ("d['m'], d['n'] = d['m'] + loss.item() * len(y), d['n'] + len(y)", "d['n'] + len(y) * rt.world_size()"),
    ],
)
def test_what_is_divided_by_what_is_of_all_ranks_is_of_all_ranks(line: str, after: str) -> None:
    setup = "d, kept = {'n': 0, 'm': 0.0}, []\n"
    assert after in converted(script(setup=setup, loop=counting("", line, "") + "print(d, kept)\n"))


def test_what_cannot_be_taken_apart_has_forward_passes_shared() -> None:
    line = "n0 = d['n']; n1 = n0 + len(y); d['m'] = (d['m'] * n0 + loss.item() * len(y)) / n1; d['n'] = n1"
    before = script(setup="d = {'n': 0, 'm': 0.0}\n", loop=counting("", line, "") + "print(d)\n")
    assert "rt.data_parallel(model)" in converted(before, Options())
