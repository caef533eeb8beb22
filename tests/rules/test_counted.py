"""Tests of how many samples there were, and of figures that change what is trained: a rank has others than all have."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import LOOP, conversion_of, converted, script

LOSS = "nn.functional.mse_loss(model(x), y)"
MODEL = "model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))\n"


def written(loss: str = LOSS, before: str = "", turn: str = "") -> str:
    loop = LOOP.replace(
        "        loss = ", "".join(f"        {one}\n" for one in before.split("\n") if one) + "        loss = "
    )
    loop = loop.replace(LOSS, loss) + "".join(f"        {one}\n" for one in turn.split("\n") if one)
    return script(model=MODEL, setup="seen, w = 0, 1.0\n", loop=loop)


def is_shared(text: str) -> bool:
    conversion = conversion_of(text, options=Options())
    assert not conversion.of(Level.BLOCKING)
    return conversion.strategy is Strategy.SHARED


@pytest.mark.parametrize(
    ("loss", "before", "turn"),
    [
        (f"{LOSS} * (1.0 if seen > 100 else 0.5)", "", "seen += len(x)"),
        (f"{LOSS} * w", "", "seen += x.size(0)\nif seen >= 64:\n    w = 0.5"),
        (f"{LOSS} * w", "", "seen += len(x)\nif seen % 32 == 0:\n    w = 0.9 * w"),
        (LOSS, "if len(x) < 8:\n    x, y = torch.cat([x, x]), torch.cat([y, y])", ""),
        (LOSS, "", "seen += len(x)\nif seen > 100:\n    model[0].weight.requires_grad_(False)"),
    ],
)
def test_a_loss_by_how_many_there_were(loss: str, before: str, turn: str) -> None:
    assert is_shared(written(loss, before, turn))


def test_how_many_there_are_in_the_whole_batch() -> None:
    after = converted(written(f"{LOSS} * (0.5 if len(x) < 8 else 1.0)".replace(LOSS, "nn.functional.mse_loss(out, y)"),
                              "out = model(x)"), Options())  # fmt: skip
    assert "(0.5 if len(x) * rt.world_size() < 8 else 1.0)" in after


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        ("if len(x) > 0:\n    x = 2 * x", ""),
        ("if len(x) != len(y):\n    y = y[: len(x)]", ""),
        ("if x.shape[1] > 3:\n    x = 2 * x", ""),
        ("", "seen += 1\nif seen > 10:\n    w = 0.5"),
    ],
)
def test_what_is_no_number_of_samples_or_decides_nothing(before: str, turn: str) -> None:
    assert not is_shared(written(f"{LOSS} * w", before, turn))


@pytest.mark.parametrize(
    "change",
    [
        "optimizer.zero_grad()",
        "model.eval()",
        "model[0].requires_grad_(False)",
        "for p in model[0].parameters():\n        p.requires_grad = False",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)",
    ],
)
def test_what_a_figure_changes_for_the_steps_to_come(change: str) -> None:
    assert "if rt.all_reduce_mean(loss.item()) < 0.5:" in converted(
        written(turn=f"if loss.item() < 0.5:\n    {change}"), Options()
    )
    assert is_shared(written(turn=f"if loss.item() < model(x).max():\n    {change}"))


def test_a_mode_that_a_setting_changes() -> None:
    assert not is_shared(written(turn="if epoch > 1:\n    model.eval()"))


HELD = """\
class Kept:
    n = 0


kept, rows, seen = Kept(), [float(i) for i in range(1000)], 0
numbers, table = iter(range(1000)), {"n": 0}


def counted():
    global seen
    seen += 1
    return float(seen)


"""


@pytest.mark.parametrize(
    "turn",
    [
        "w = [rows.pop() for _ in y]",
        "w = [rows.pop(0) for _ in range(len(y))]",
        "w = []\nfor _ in y:\n    w.append(rows.pop())",
        "w = [next(numbers) for _ in y]",
        "w = [counted() for _ in y]",
        "w = []\nfor _ in y:\n    w.append(counted())",
        "w = []\nfor _ in y:\n    kept.n += 1\n    w.append(float(kept.n))",
        "w = []\nfor _ in y:\n    table['n'] += 1\n    w.append(float(table['n']))",
    ],
)
def test_the_next_one_for_the_next_sample(turn: str) -> None:
    """Of a list, an iterator, or numbers: a rank would take for its own samples what others have in one process."""
    loop = "loss = (model(x)[:, 0] * torch.tensor(w)).mean()"
    text = script(model=MODEL, setup=HELD, loop=LOOP.replace(f"loss = {LOSS}", loop))
    lines = "".join(f"        {one}\n" for one in turn.split("\n"))
    assert is_shared(text.replace(f"        {loop}", f"{lines}        {loop}"))


@pytest.mark.parametrize("turn", ["w = rows.pop()", "w = next(numbers)", "w = counted()", "w = rows[0]"])
def test_the_next_one_for_the_next_batch(turn: str) -> None:
    loop = f"{turn}\n        loss = {LOSS} * w"
    assert not is_shared(script(model=MODEL, setup=HELD, loop=LOOP.replace(f"loss = {LOSS}", loop)))


def test_one_of_a_list_for_each_sample_of_another_loop() -> None:
    turn = "w = [rows.pop() for _ in range(3)]\n        "
    assert not is_shared(script(model=MODEL, setup=HELD, loop=LOOP.replace("loss = ", f"{turn}loss = w[0] * ")))
