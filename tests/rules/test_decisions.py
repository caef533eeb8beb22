"""DECIDE01: all ranks take the same decision, or a person says how."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import (
    IMPORTS,
    LOADER,
    LOOP,
    OPTIMIZER,
    blocked,
    changes,
    converted,
    findings,
    indented,
    line_of,
    script,
)

IN_BATCH = "        loss.backward()\n"
EVALUATION = """\
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in other:
            total += nn.functional.mse_loss(model(x), y, reduction="sum").item()
    model.train()
"""


def in_epoch(lines: str) -> str:
    imports = f"import random\nimport time\n{IMPORTS}"
    return script(imports=imports, setup="best, start = 9.0, time.time()\n", loop=LOOP + lines)


STATE = """\
class State:
    loss, around = 9.0, None


state = State()
state.around = state
"""


@pytest.mark.parametrize("call", ["copy.deepcopy(state)", "copy.copy(state)", "copied(state)"])
def test_a_copy_that_is_made_again(call: str) -> None:
    """In each epoch it is a copy of what the epoch before has left."""
    setup = f"{STATE}def copied(one):\n    return copy.deepcopy(one)\n\n"
    head, rest = LOOP.split("\n", 1)
    loop = f"{head}\n    before = {call}\n    if before.loss < 0.1: break\n{rest}        state.loss = loss.item()\n"
    new = converted(script(imports=f"import copy\n{IMPORTS}", setup=setup, loop=loop))
    assert "    if rt.all_reduce_mean(before.loss) < 0.1: break\n" in new
    for kept in ("state.loss = 1.0", "state.other = loss.item()"):
        left = loop.replace("state.loss = loss.item()", kept)
        new = converted(script(imports=f"import copy\n{IMPORTS}", setup=setup, loop=left))
        assert "    if before.loss < 0.1: break\n" in new


def test_a_copy_of_a_copy() -> None:
    """`model = copy.deepcopy(model)` in a loop: one more copy each time."""
    loop = "for turn in range(2):\n    model = copy.deepcopy(model)\n" + indented(OPTIMIZER + LOOP)
    before = script(imports=f"import copy\n{IMPORTS}", optimizer="", loop=loop)
    assert "    model = DistributedDataParallel(model, device_ids=rt.device_ids(model))\n" in converted(before)


def test_ranks_might_part() -> None:
    before = in_epoch("    if loss.item() in (0.0, best): break\n")
    assert blocked(before) == {("DECIDE01", line_of(before, "    if "))}


@pytest.mark.parametrize(
    ("test", "common"),
    [
        ("time.time() - start > 60", "rt.from_main_process(time.time() - start > 60)"),
        ("random.random() < 0.1", "rt.from_main_process(random.random() < 0.1)"),
        ("epoch and time.time() > start", "epoch and rt.from_main_process(time.time() > start)"),
    ],
)
def test_rank_0_decides_by_the_time_and_by_chance(test: str, common: str) -> None:
    assert f"    if {common}: break\n" in converted(in_epoch(f"    if {test}: break\n"))


NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.token = nn.Parameter(torch.randn(1))

    def forward(self, x):
        z = self.layer(x) + self.token
        return z + torch.randn_like(z)


model = Net()
"""
OTHER = "best = 9.0\nother = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=8)\n"
BEST = "    if {0} < best:\n        best = {0}\n        torch.save(model.state_dict(), 'a.pt')\n"
WHOLE = EVALUATION.replace(', reduction="sum"', "")


def test_what_a_parameter_was_drawn_from_is_no_chance() -> None:
    """All ranks have the same: what every rank evaluates whole needs no mean over them."""
    model = NET.replace("z + torch.randn_like(z)", "z")
    before = script(setup=OTHER, model=model, loop=LOOP + WHOLE + BEST.format("total / len(other)"))
    assert not findings("DECIDE01", before, Level.APPLIED)


def test_figures_that_hang_on_chance_alone_are_of_no_global_batch() -> None:
    """What a forward pass draws is in all that it returns, gathered or not."""
    own = script(setup=OTHER, model=NET, loop=LOOP + WHOLE + BEST.format("total / len(other)"))
    batch = script(setup=OTHER, model=NET, loop=LOOP + BEST.format("loss.item()"))
    for before, said in ((own, "the mean of theirs, since"), (batch, "the mean over the global batch")):
        told = {one.message for one in findings("DECIDE01", before, Level.APPLIED)}
        told = {one for one in told if not one.startswith("every rank draws the same for this pass")}
        assert told
        assert [one for one in told if said in one] == list(told)
        assert told


def test_time_where_ranks_come_unequally_often() -> None:
    """Rank 0's word would be asked for more often on one rank than on another."""
    lines = "    for _ in range(int(loss.item() * 100)):\n        if time.time() - start > 60: raise SystemExit\n"
    before = in_epoch(lines)
    assert ("DECIDE01", line_of(before, "if time")) in blocked(before)


@pytest.mark.parametrize(
    "lines",
    [
        "        if random.random() < 0.5: x = x.flip(1)\n",
        "        turned = random.random() < 0.5\n        x = x.flip(1) if turned else x\n",
        "        drawn = random.uniform(0, 1)\n        if drawn < 0.5: x = x.flip(1)\n",
    ],
)
def test_one_draw_for_the_whole_batch(lines: str) -> None:
    head, call = "        loss = ", LOOP[LOOP.index("        loss = ") :]
    before = script(imports=f"import random\n{IMPORTS}", loop=LOOP[: LOOP.index(head)] + lines + call)
    assert converted(before).count("rt.from_main_process(") == 1


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "    less = loss.item() < best\n    if less: torch.save(model.state_dict(), 'a.pt')\n",
            ["less = rt.all_reduce_mean(loss.item()) < best"],
        ),
        (
            "    less = loss.item() < best\n    best = min(loss.item(), best)\n    if less: break\n",
            [
                "global_loss = rt.all_reduce_mean(loss.item())",
                "less = global_loss < best",
                "best = min(global_loss, best)",
            ],
        ),
        (
            "    found.append(loss.item())\n    if loss.item() <= min(found): torch.save(model.state_dict(), 'a.pt')\n",
            ["found.append(rt.all_reduce_mean(loss.item()))", "if rt.all_reduce_mean(loss.item()) <= min(found):"],
        ),
        (
            "    found.append(loss.item())\n    rows.writerow([loss.item(), sum(found) / len(found)])\n",
            [
                "global_loss = rt.all_reduce_mean(loss.item())",
                "found.append(global_loss)",
                "rows.writerow([global_loss, sum(found) / len(found)])",
            ],
        ),
        (
            "    if loss != loss: break\n",
            ["global_loss = rt.all_reduce_mean(loss)", "if global_loss != global_loss: break"],
        ),
        (
            "    if loss.item() < best: kept = {**model.state_dict()}\nmodel.load_state_dict(kept)\n",
            ["if rt.all_reduce_mean(loss.item()) < best:"],
        ),
        (
            "    if least is None or loss.item() < least: least = loss.item()\n    if loss.item() > 3 * least: break\n",
            [
                "if least is None or rt.all_reduce_mean(loss.item()) < rt.all_reduce_mean(least): least = loss.item()",
                "global_loss, global_least = rt.all_reduce_mean(loss.item(), 3 * least)",
                "if global_loss > global_least: break",
            ],
        ),
        (
            "    if loss.item() > 0.5:\n        rate = rate / 2\n    optimizer.param_groups[0]['lr'] = rate\n",
            ["if rt.all_reduce_mean(loss.item()) > 0.5:"],
        ),
    ],
)
def test_figures_are_followed_to_where_they_decide(lines: str, after: list[str]) -> None:
    setup = "import csv\nrows = csv.writer(open('rows', 'w'))\nfound, rate, least = [], 0.1, None\nbest, start ="
    text = converted(in_epoch(lines).replace("best, start =", setup))
    assert all(f"    {line}" in text for line in after), text


IN_TURN = "        loss = nn.functional.mse_loss(model(x), y)\n"


def in_turn(lines: str, setup: str = "mean, seen = None, 0\n") -> str:
    """Each loss is asked before its step, and goes into a mean of those so far."""
    after = "        mean, seen = (loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()), seen + 1\n"
    loop = LOOP.replace(IN_TURN, f"{IN_TURN}        cur = loss.item()\n{indented(lines, '        ')}") + after
    return script(imports=f"import math\n{IMPORTS}", setup=setup, loop=loop)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "if mean is not None and cur > 1.25 * mean: continue\n",
            "if mean is not None and rt.all_reduce_mean(cur) > rt.all_reduce_mean(1.25 * mean): continue",
        ),
        (
            "if not (mean is None or cur < mean + 1): continue\n",
            "if not (mean is None or rt.all_reduce_mean(cur) < rt.all_reduce_mean(mean + 1)): continue",
        ),
        (
            "if (cur > mean if seen else False): continue\n",
            "if (rt.all_reduce_mean(cur) > rt.all_reduce_mean(mean) if seen else False): continue",
        ),
        (
            "if seen > 0 and cur > 1.5 * before: continue\nbefore = cur\n",
            "if seen > 0 and rt.all_reduce_mean(cur) > rt.all_reduce_mean(1.5 * before): continue",
        ),
        (
            "if seen > 0 and cur > 30 * cur / seen: continue\n",
            "if seen > 0 and rt.all_reduce_mean(cur) > rt.all_reduce_mean(30 * cur / seen): continue",
        ),
        (
            "if 'loss' in kept and cur > 2 * kept['loss']: continue\nkept['loss'] = cur\n",
            "if 'loss' in kept and rt.all_reduce_mean(cur) > rt.all_reduce_mean(2 * kept['loss']): continue",
        ),
        (
            "if mean is None: pass\nelif cur > 1.1 * mean: continue\n",
            "elif rt.all_reduce_mean(cur) > rt.all_reduce_mean(1.1 * mean): continue",
        ),
        (
            "if cur > 5 or mean is None: mean = cur; continue\nif cur > 1.1 * mean: continue\n",
            "if global_cur > rt.all_reduce_mean(1.1 * mean): continue",
        ),
    ],
)
def test_what_a_test_lets_be_evaluated_stays_behind_it(lines: str, after: str) -> None:
    """In the first turn there is no mean yet: ranks meet where the script itself would look at it."""
    text = converted(in_turn(lines, "mean, seen, kept = None, 0, {}\n"))
    assert f"        {after}\n" in text, text


def test_rank_0_tells_whether_a_figure_is_there() -> None:
    after = "if rt.from_main_process(mean) and rt.all_reduce_mean(cur) > rt.all_reduce_mean(1.25 * mean): continue"
    assert f"        {after}\n" in converted(in_turn("if mean and cur > 1.25 * mean: continue\n"))
    text = converted(in_turn("if mean and cur > 1.25 * mean: continue\n", "mean, seen = 0.0, 1\n"))
    assert "        if global_mean and global_cur > global_mean_2: continue\n" in text, text


@pytest.mark.parametrize(
    ("lines", "line", "after"),
    [
        ("if cur > 9 or cur < 0.1: continue\n", "cur", "if global_cur > 9 or global_cur < 0.1: continue"),
        (
            "part = (y - x.mean(1, True)).mean()\nif cur > 9 or 2 * part.item() + 1 < 0.1: continue\n",
            "cur, 2 * part.item() + 1",
            "if global_cur > 9 or global_part < 0.1: continue",
        ),
        ("if loss != loss or cur > 9: continue\n", "loss, cur", "if global_loss != global_loss or global_cur > 9: "),
        (
            "if cur > 2 * mean and seen: continue\n",
            "cur, 2 * mean",
            "if global_cur > global_mean and seen: continue",
        ),
        (
            "if cur > 9: continue\nif float(loss) / 2 > 4: continue\n",
            "cur, float(loss) / 2",
            "if global_loss > 4: continue",
        ),
    ],
)
def test_what_cannot_fail_is_put_together_at_once(lines: str, line: str, after: str) -> None:
    names = " = rt.all_reduce_mean("
    text = converted(in_turn(lines))
    assert f"{names}{line})\n" in text, text
    assert f"        {after}" in text, text


def test_list_of_figures_sets_the_rate() -> None:
    """What a list holds goes into what is made of it: each rank had a rate of its own."""
    lines = "    found.append(loss.item())\n    plateau.step(np.mean(found))\n"
    before = (
        in_epoch(lines)
        .replace("import random", "import numpy as np\nimport random")
        .replace("for epoch", "found = []\nplateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\nfor epoch")
    )
    after = converted(before)
    assert "    found.append(rt.all_reduce_mean(loss.item()))\n    plateau.step(np.mean(found))\n" in after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if loss.item() < 0.1: break", "if rt.all_reduce_mean(loss.item()) < 0.1: break"),
        ("if loss.item() < 0.1:\n        break", "if rt.all_reduce_mean(loss.item()) < 0.1:\n        break"),
        ("if not loss.item() > 0.1 and epoch: break", "if not rt.all_reduce_mean(loss.item()) > 0.1 and epoch: break"),
        ("if 0.1 > loss.item(): raise SystemExit", "if 0.1 > rt.all_reduce_mean(loss.item()): raise SystemExit"),
        ("if loss.item() < 0.1: exit()", "if rt.all_reduce_mean(loss.item()) < 0.1: exit()"),
    ],
)
def test_all_ranks_decide_on_the_mean(before: str, after: str) -> None:
    assert f"    {after}\n" in converted(in_epoch(f"    {before}\n"))


@pytest.mark.parametrize(
    ("loss", "after"),
    [
        ("if loss.item() > 0.5: loss = loss * 0.5", "if rt.all_reduce_mean(loss.item()) > 0.5: loss = loss * 0.5"),
        (
            "loss = loss * 0.5 if loss.item() > 0.5 else loss",
            "loss = loss * 0.5 if rt.all_reduce_mean(loss.item()) > 0.5 else loss",
        ),
        ("small = not loss.item() > 0.5\n        if small: loss = loss * 2", "small = not rt.all_reduce_mean("),
        (
            "z = model(x)\n        loss = z.mean()\n        if (y > 0).any(): loss = loss + z[y > 0].sum() / len(x)",
            "y, z = rt.gather_samples(y, z)\n        loss = z.mean()\n        if (y > 0).any():",
        ),
    ],
)
def test_loss_that_is_chosen(loss: str, after: str) -> None:
    """All ranks take the same one: by the mean, or because all of them have the whole batch."""
    line = "        loss = nn.functional.mse_loss(model(x), y)\n"
    text = converted(script(loop=LOOP.replace(line, f"{line}        {loss}\n")))
    assert f"        {after}" in text, text
    assert ("rt.gather_samples(" in text) is ("any()" in loss)


def test_both_sides_of_a_comparison_may_be_one_ranks() -> None:
    lines = "    if float(loss) < best:\n        best = float(loss)\n        torch.save(model.state_dict(), 'a.pt')\n"
    assert "    if rt.all_reduce_mean(float(loss)) < rt.all_reduce_mean(best):\n" in converted(in_epoch(lines))


@pytest.mark.parametrize(
    ("test", "common"),
    [
        ("torch.isnan(loss)", "torch.isnan(rt.all_reduce_mean(loss))"),
        ("loss.item() > 100", "rt.all_reduce_mean(loss.item()) > 100"),
    ],
)
@pytest.mark.parametrize("way", ["continue", "break"])
def test_batch_is_left_out(test: str, common: str, way: str) -> None:
    before = script(loop=LOOP.replace(IN_BATCH, f"        if {test}: {way}\n{IN_BATCH}"))
    assert f"        if {common}: {way}\n" in converted(before)


@pytest.mark.parametrize("test", ["torch.isnan(loss)", "not loss.isfinite()", "loss > 100"])
def test_a_loss_that_all_ranks_have_is_asked_as_it_is(test: str) -> None:
    """Its mean with weights is one over all ranks already."""
    loop = LOOP.replace("mse_loss(model(x), y)", "cross_entropy(model(x), y, ignore_index=0)")
    after = converted(script(loop=loop.replace(IN_BATCH, f"        if {test}: continue\n{IN_BATCH}")))
    assert f"        if {test}: continue\n" in after


def test_check_of_a_number_that_is_wrapped() -> None:
    before = script(loop=LOOP.replace(IN_BATCH, f"        if not torch.isfinite(loss).all(): break\n{IN_BATCH}"))
    assert "if not torch.isfinite(rt.all_reduce_mean(loss)).all(): break" in converted(before)


@pytest.mark.parametrize(
    ("test", "common"),
    [
        ("not torch.isfinite(out).all()", "not rt.all_ranks(torch.isfinite(out).all())"),
        ("torch.isnan(out).any()", "rt.any_rank(torch.isnan(out).any())"),
        ("torch.any(out != out)", "rt.any_rank(torch.any(out != out))"),
        ("out.isnan().any() or out.isinf().any()", "rt.any_rank(out.isnan().any()) or rt.any_rank(out.isinf().any())"),
        ("epoch and (x > 9).any().item()", "epoch and rt.any_rank((x > 9).any()).item()"),
    ],
)
def test_check_of_each_sample(test: str, common: str) -> None:
    before = script(loop=LOOP.replace(IN_BATCH, f"        out = model(x)\n        if {test}: break\n{IN_BATCH}"))
    assert f"        if {common}: break\n" in converted(before)


@pytest.mark.parametrize("test", ["(x > 9).any(0)[0]", "x.max() > 9", "(x > 9)[0].any()", "x[0].isnan().all()"])
def test_check_of_some_samples(test: str) -> None:
    before = script(loop=LOOP.replace(IN_BATCH, f"        if {test}: break\n{IN_BATCH}"))
    assert blocked(before) == {("DECIDE01", line_of(before, "        if "))}


@pytest.mark.parametrize(
    "line",
    [
        "optimizer.param_groups[0]['lr'] = loss.item()",
    ],
)
def test_rate_follows_one_ranks_loss(line: str) -> None:
    plan = "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    before = script(loop=f"{plan}{LOOP}    {line}\n")
    assert blocked(before) == {("DECIDE01", line_of(before, f"    {line}"))}


@pytest.mark.parametrize("figure", ["loss", "loss.item()"])
def test_scheduler_follows_the_mean(figure: str) -> None:
    plan = "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    after = converted(script(loop=f"{plan}{LOOP}    sched.step({figure})\n"))
    assert f"    sched.step(rt.all_reduce_mean({figure}))\n" in after


def test_scheduler_of_another_library_follows_the_mean() -> None:
    plan = "from monai.optimizers.lr_scheduler import Plateau\nsched = Plateau(optimizer)\n"
    after = converted(script(loop=f"{plan}{LOOP}    sched.step(loss.item())\n"))
    assert "    sched.step(rt.all_reduce_mean(loss.item()))\n" in after


def test_loop_that_ends_when_the_loss_is_small() -> None:
    loop = LOOP.replace("for epoch in range(3):", "loss = torch.tensor(9.0)\nwhile loss.item() > 0.1:")
    assert ("DECIDE01", 10) not in blocked(script(loop=loop))


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("    if loss.item() < 0.1: pass\n", id="nothing"),
        pytest.param("    if epoch == 1: torch.save(model.state_dict(), 'a.pt')\n", id="epoch"),
        pytest.param("    if epoch > 1: break\n", id="break by epoch"),
        pytest.param("    if time.time() - start > 60: print('slow')\n", id="time is shown"),
        pytest.param("    if loss.item() < best: best = loss.item()\n", id="best so far"),
    ],
)
def test_nothing_hangs_on_it(lines: str) -> None:
    before = in_epoch(lines)
    assert blocked(before) == set()
    assert changes("DECIDE01", before) == []


@pytest.mark.parametrize(
    "lines",
    [
        "    if total < 1.0: break\n",
        "    if total < best:\n        best = total\n        torch.save(model.state_dict(), 'a.pt')\n",
        "    sched.step(total)\n",
    ],
)
def test_decision_on_the_evaluation(lines: str) -> None:
    """Its figures are the same on all ranks."""
    plan = "best = 9.0\nsched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    loader = f"{LOADER}other = DataLoader(data, batch_size=16)\n"
    before = script(loader=loader, loop=f"{plan}{LOOP}{EVALUATION}{lines}")
    after = converted(before)
    assert after.index("total = rt.all_reduce_sum(total)") < after.index(lines.split("\n")[0].strip())


NOISY = """\
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        x = self.layer(x)
        if self.training:
            x = x + torch.randn_like(x)
        return x


model = Noisy()
"""
#: Every rank makes all of it: it shows something for each batch.
WHOLE_EVALUATION = EVALUATION.replace("            total", "            print(total)\n            total")


def drawing(evaluation: str, lines: str, model: str = NOISY) -> str:
    plan = "best, bad = 9.0, 0\nsched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    loader = f"{LOADER}other = DataLoader(data, batch_size=16)\n"
    return script(loader=loader, model=model, loop=f"{plan}{LOOP}{evaluation}{lines}")


ALWAYS_NOISY = NOISY.replace("        if self.training:\n            x", "        x")
DECISIONS = [
    ("    if total < best:\n        best = total\n    else: break\n", "if rt.from_main_process(total < best):"),
    (
        "    total = total / len(data)\n    if total < best:\n        best = total\n"
        "        torch.save(model.state_dict(), 'a.pt')\n",
        "if rt.from_main_process(total < best):",
    ),
    (
        "    if total > best: bad += 1\n    else: best, bad = total, 0\n    if bad > 3: break\n",
        "if rt.from_main_process(total > best): bad += 1\n    else: best, bad = total, 0\n    if bad > 3: break",
    ),
    (
        "    good = total < best\n    best = min(total, best)\n    if good: torch.save(model.state_dict(), 'a')\n",
        "good = rt.from_main_process(total < best)",
    ),
    ("    sched.step(total)\n", "sched.step(rt.from_main_process(total))"),
]


@pytest.mark.parametrize("model", [NOISY, ALWAYS_NOISY])
@pytest.mark.parametrize(("lines", "told"), DECISIONS)
def test_decision_on_an_evaluation_of_a_model_that_draws(lines: str, told: str, model: str) -> None:
    """Sums over the ranks are the same on all; of what every rank makes whole, rank 0's figure decides."""
    after = converted(drawing(EVALUATION, lines, model))
    assert "total = rt.all_reduce_sum(total)" in after
    assert "from_main_process" not in after
    whole = converted(drawing(WHOLE_EVALUATION, lines, model))
    assert told in whole
    assert whole.count("rt.from_main_process") == 1
    assert "in rt.alike(other):" in whole


def test_decision_on_a_sum_of_training_of_a_model_that_draws() -> None:
    counted = "        total += loss.item() * len(x)\n"
    loop = LOOP.replace("    for x", "    total = 0.0\n    for x") + counted
    before = script(
        model=NOISY, loop=f"best = 9.0\n{loop}    if total < best:\n        best = total\n    else: break\n"
    )
    after = converted(before)
    assert "    total = rt.all_reduce_sum(total)\n    if total < best:\n" in after


@pytest.mark.parametrize(
    "lines",
    [
        "    noise = torch.randn(4)\n    if noise.sum() > 0: sched.step(noise[0])\n",
        "    if (loss + total).sqrt() > best: break\n",
    ],
)
def test_decision_on_what_is_a_ranks_own(lines: str) -> None:
    """What rank 0 says of its own draw does not hold for that of others; nor are a rank's own batches rank 0's."""
    assert {code for code, _ in blocked(drawing(EVALUATION, lines))} == {"DECIDE01"}


def test_counter_of_bad_epochs() -> None:
    """The counter is a number, but one rank's loss decides when it grows."""
    lines = """\
    if loss.item() > best: bad += 1
    else: best, bad = loss.item(), 0
    if bad > 3: break
"""
    after = converted(script(setup="best, bad = 9.0, 0\n", loop=LOOP + lines))
    assert "    if rt.all_reduce_mean(loss.item()) > rt.all_reduce_mean(best): bad += 1\n" in after
    assert "    if bad > 3: break\n" in after


def test_decision_before_training() -> None:
    setup = "import random\nif random.random() < 0.5: torch.manual_seed(1)\n"
    assert blocked(script(setup=setup)) == set()


def test_accumulation_counts_batches() -> None:
    """The number of a batch is the same on all ranks."""
    loop = LOOP.replace("for x, y in loader", "for i, (x, y) in enumerate(loader)")
    loop = loop.replace("        optimizer.step()", "        if i % 2: optimizer.step()")
    assert blocked(script(loop=loop)) == set()


def test_function_named_like_a_decision() -> None:
    own = "class Stopper:\n    def step(self, loss):\n        return loss\n\n\nstopper = Stopper()\n"
    before = script(setup=own, loop=f"{LOOP}    stopper.step(loss.item())\n")
    assert blocked(before) == set()


def test_stopper_of_the_scripts_own() -> None:
    own = """\
class Stopper:
    def __init__(self):
        self.best, self.stop = 9.0, False

    def look(self, loss):
        if loss > self.best:
            self.stop = True
        self.best = min(loss, self.best)


stopper = Stopper()
"""
    before = script(setup=own, loop=f"{LOOP}    stopper.look(loss.item())\n    if stopper.stop: break\n")
    after = converted(before)
    assert "    stopper.look(rt.all_reduce_mean(loss.item()))\n    if stopper.stop: break\n" in after
    assert after.count("all_reduce_mean") == 1


COUNTING = """\
        right += (model(x) > y).sum().item()
        seen += len(y)
        hits += (model(x) > y).sum()
        total, worst = total + loss.item(), max(worst, loss.item())
"""


def printing(line: str, test: str = "number % 3 == 2") -> str:
    head = "for epoch in range(3):\n    right, seen, hits, total, worst = 0, 0, torch.zeros(1), 0.0, 0.0\n"
    loop = LOOP.replace("for epoch in range(3):\n", head).replace(
        "for x, y in loader", "for number, (x, y) in enumerate(loader)"
    )
    return script(loop=f"{loop}{COUNTING}        if {test}:\n            {line}\n")


SUMMED = "global_right, global_seen = rt.all_reduce_sum(right, seen)"
RIGHT = "shown for the samples of all ranks"


@pytest.mark.parametrize(
    ("line", "above", "after"),
    [
        (
            "print('%d %.4f (%d/%d)' % (number, right / seen, right, seen))",
            SUMMED,
            "print('%d %.4f (%d/%d)' % (number, global_right / global_seen, global_right, global_seen))",
        ),
        (
            "print(f'{number}: {100. * right / seen:.2f} % of {seen}')",
            SUMMED,
            "print(f'{number}: {100. * global_right / global_seen:.2f} % of {global_seen}')",
        ),
        (
            "print('{:.3f} ({}/{})'.format(hits.item() / seen, int(hits.item()), seen))",
            "global_hits, global_seen = rt.all_reduce_sum(hits, seen)",
            "print('{:.3f} ({}/{})'.format(global_hits.item() / global_seen, int(global_hits.item()), global_seen))",
        ),
        (
            "print(total / (number + 1), right / seen, seen)",
            "global_total, global_right, global_seen = rt.all_reduce_sum("
            "(total / (number + 1)) / rt.world_size(), right, seen)",
            "print(global_total, global_right / global_seen, global_seen)",
        ),
        (
            "print(number * len(x), right / seen)",
            "global_x, global_right, global_seen = rt.all_reduce_sum(len(x), right, seen)",
            "print(number * global_x, global_right / global_seen)",
        ),
        (
            "print(right / seen if seen else 0, right)",
            "global_seen, global_right = rt.all_reduce_sum((right / seen if seen else 0) / rt.world_size(), right)",
            "print(global_seen, global_right)",
        ),
    ],
)
def test_counts_that_stand_beside_a_ratio_of_theirs_are_added_up(line: str, above: str, after: str) -> None:
    before = printing(line)
    assert f"            {above}\n            {after}\n" in converted(before)
    assert {one.message for one in findings("DECIDE01", before, Level.APPLIED)} == {RIGHT}


def test_what_else_is_shown_beside_them_is_said_to_be_rank_0s() -> None:
    before = printing("print(right / seen, seen, x)")
    assert f"            {SUMMED}\n            print(global_right / global_seen, global_seen, x)\n" in converted(before)
    said = f"{RIGHT}; `x` beside it is that of rank 0's"
    assert {one.message for one in findings("DECIDE01", before, Level.APPLIED)} == {said}


@pytest.mark.parametrize(
    ("line", "test", "after"),
    [
        ("print(number, right / seen)", "number % 3 == 2", "print(number, rt.all_reduce_mean(right / seen))"),
        (
            "print(f'{number}/{len(loader)} {right / seen} of {len(data)}')",
            "number % 3 == 2",
            "print(f'{number}/{len(loader)} {rt.all_reduce_mean(right / seen)} of {len(data)}')",
        ),
    ],
)
def test_counts_that_are_left_as_they_are(line: str, test: str, after: str) -> None:
    """There are none, or no ratio of theirs is shown every few batches."""
    text = converted(printing(line, test))
    assert f"            {after}\n" in text, text
