"""Figures that are put into a dictionary or a list after it was made, and shown or logged from there."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import converted, findings, indented, script
from tests.rules.test_loss import with_loss

TAKEN = "rt.all_reduce_mean(loss.item())"


def showing(lines: str, before: str = "") -> str:
    step = "        optimizer.step()\n"
    text = with_loss(script(after=""), "nn.functional.mse_loss(model(x), y)")
    assert text.count(step) == 1
    return text.replace(step, step + indented(lines, "        ")).replace("for epoch", before + "for epoch", 1)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ('found = {}\nfound["loss"] = loss.item()\nprint(found)\n', 'found["loss"] = {}'),
        ('found = {}\nfound.update({"loss": loss.item()})\nprint(found)\n', 'found.update({{"loss": {}}})'),
        ('found = {}\nfound.update(loss=loss.item())\nprint(found)\n', "found.update(loss={})"),
        ('found = {}\nfound |= {"loss": loss.item()}\nprint(found)\n', 'found |= {{"loss": {}}}'),
        ("row = [epoch]\nrow.append(loss.item())\nprint(*row)\n", "row.append({})"),
        ("row = [epoch]\nrow += [loss.item()]\nprint(*row)\n", "row += [{}]"),
        ('found = {}\nfound["loss"] = loss.item()\nprint({k: round(v, 3) for k, v in found.items()})\n',
         'found["loss"] = {}'),
    ],
)  # fmt: skip
def test_it_is_put_together_where_it_is_put_in(lines: str, after: str) -> None:
    assert indented(after.format(TAKEN), "        ") in converted(showing(lines))


LOGGED = "import wandb\n\n"


def test_it_is_logged() -> None:
    lines = 'found = {}\nfound["loss"] = loss.item()\nwandb.log(found)\n'
    assert f'found["loss"] = {TAKEN}' in converted(LOGGED + showing(lines))


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        ("{name: one.item() for name, one in parts.items()}", "{name: rt.all_reduce_mean(one.item()) for"),
        ('{f"train/{name}": one for name, one in parts.items()}', '{f"train/{name}": rt.all_reduce_mean(one) for'),
    ],
)
def test_each_entry_of_a_dictionary_is_logged(entry: str, after: str) -> None:
    lines = f'parts = {{"loss": loss.detach(), "least": (model(x) - y).abs().mean()}}\nwandb.log({entry})\n'
    assert after in converted(LOGGED + showing(lines))


@pytest.mark.parametrize(
    "lines",
    [
        # of each rank's own classes
        "parts = {int(one): loss.item() for one in y[:, 0]}\nwandb.log({str(k): v for k, v in parts.items()})\n",
        'parts = {"loss": loss.item()}\nwandb.log({k: v for k, v in parts.items() if v > 1})\n',
        # of which it is not seen what is in it
        'parts = {"loss": loss.item()}\nmore = dict(parts)\nmore["epoch"] = epoch\nwandb.log(more)\n',
        'more = dict(zip(["loss"], [loss.item()]))\nwandb.log(more)\n',
    ],
)
def test_it_is_said_of_what_is_logged_of_one_rank(lines: str) -> None:
    before = LOGGED + showing(lines)
    said = [one.message for one in findings("METRIC01", before, Level.ADVICE)]
    assert said == ["what is kept or logged here is of rank 0's samples only"]
    assert "all_reduce" not in converted(before)


def test_what_logs_whenever_it_is_handed_a_figure_does_not_wait() -> None:
    """Else each rank's own would be logged, and put together once the loop is over."""
    keeper = (
        "class Keeper:\n    def __init__(self):\n        self.all = {}\n\n    def keep(self, value):\n"
        '        self.all["loss"] = value\n        wandb.log(self.all)\n\n\n'
    )
    before = LOGGED + showing("keeper.keep(loss.item())\n", keeper + "keeper = Keeper()\n")
    assert f"keeper.keep({TAKEN})" in converted(before)


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("", 'found = {}\nfound["least"] = (model(x) - y).min().item()\nprint({k: v for k, v in found.items()})\n'),
    ],
)  # fmt: skip
def test_what_stays_of_one_rank_is_said(before: str, lines: str) -> None:
    said = [one.message for one in findings("OUT01", showing(lines, before), Level.ADVICE)]
    assert any(one.startswith("printed here for rank 0's share of the batch alone") for one in said)


@pytest.mark.parametrize(
    "lines",
    [
        'found = {}\nfound["epoch"] = epoch\nprint(found)\n',
        'found = {}\nfound["loss"] = loss.item()\n',
        'seen = {}\nseen[epoch] = seen.get(epoch, 0) + 1\nprint(seen)\n',
    ],
)  # fmt: skip
def test_left_alone(lines: str) -> None:
    assert indented(lines, "        ") in converted(showing(lines))


WHOLE = """\
    with torch.no_grad():
        model.eval()
        for x, y in valid:
            out = model(x)
        model.train()
"""


@pytest.mark.parametrize("shown", ["x.size(0)", "out.abs().sum().item()", "tuple(out.shape)"])
def test_what_another_pass_has_bound_anew_is_not_added_up(shown: str) -> None:
    """Every rank goes through all of that pass."""
    text = showing("out = model(x)\n", "valid = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)\n")
    after = converted(text + WHOLE + f"    print({shown})\n")
    assert f"    print({shown})\n" in after
