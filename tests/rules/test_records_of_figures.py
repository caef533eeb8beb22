"""Figures of a step in a named tuple or a dataclass: whoever takes it as a whole takes those of the global batch."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import DATA, IMPORTS, LOADER, OPTIMIZER, converted

NAMED = """\
class Figures(NamedTuple):
    loss: float
    error: float


"""
RECORDS = {
    "typing": "from typing import NamedTuple\n\n\n" + NAMED,
    "collections": 'from collections import namedtuple\n\nFigures = namedtuple("Figures", "loss error")\n\n\n',
    "dataclass": "from dataclasses import dataclass\n\n\n@dataclass\n" + NAMED.replace("(NamedTuple)", ""),
}
STEP = """\
def step(x, y):
    out = model(x)
    loss = nn.functional.mse_loss(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return Figures(loss.item(), (out - y).abs().mean().item())


"""
REDUCED = "return Figures(rt.all_reduce_mean(loss.item()), rt.all_reduce_mean((out - y).abs().mean().item()))"
METHODS = (
    NAMED.rstrip()
    + """

    def __str__(self):
        return f"{self.loss:.3f} {self.error:.3f}"


"""
)
RECORDS_WITH_METHODS = {
    "typing": "from typing import NamedTuple\n\n\n" + METHODS,
    "dataclass": "from dataclasses import dataclass\n\n\n@dataclass\n" + METHODS.replace("(NamedTuple)", ""),
}
WHOLE = ["print(figures)", "history.append(figures)", "print(max(history + [figures], key=str))"]
OF_TUPLES = [
    "print('%.3f %.3f' % figures)",
    "print('step', *figures)",
    "total += sum(figures)",
    "total += np.mean(figures)",
    "total += np.array(figures[:2])",
    "total += figures._replace(error=0).loss",
    "history.append(figures._asdict())",
    "history.append(dict(zip(figures._fields, figures)))",
]


def _script(record: str, use: str) -> str:
    model = f"{LOADER}model = nn.Linear(4, 1)\n{OPTIMIZER}"
    turn = f"    for x, y in loader:\n        figures = step(x, y)\n        {use}\n"
    loop = f"history, total = [], 0.0\nfor epoch in range(3):\n{turn}"
    return f"import numpy as np\n{IMPORTS}{RECORDS[record]}{DATA}{model}\n\n{STEP}{loop}print(history, total)\n"


@pytest.mark.parametrize(
    ("record", "use"),
    [
        *((record, use) for record in RECORDS for use in WHOLE),
        *((record, use) for record in ("typing", "collections") for use in OF_TUPLES),
        ("dataclass", "total += sum(dataclasses.astuple(figures))"),
    ],
)
def test_it_holds_those_of_the_global_batch(record: str, use: str) -> None:
    before = _script(record, use)
    after = converted(f"import dataclasses\n{before}" if "dataclasses." in use else before)
    assert REDUCED in after or (use.startswith("total") and "total = rt.all_reduce_mean(total)" in after)


@pytest.mark.parametrize("record", RECORDS_WITH_METHODS)
@pytest.mark.parametrize("use", WHOLE)
def test_it_may_have_methods_of_its_own(record: str, use: str) -> None:
    assert REDUCED in converted(_script(record, use).replace(RECORDS[record], RECORDS_WITH_METHODS[record]))


NAMESPACE = "Figures(loss=loss.item(), error=(out - y).abs().mean().item())"


@pytest.mark.parametrize(
    ("made", "reduced"),
    [
        (f"return {NAMESPACE}", "Figures(loss=rt.all_reduce_mean(loss.item()), error=rt.all_reduce_mean("),
        ("made = Figures()\n    made.loss = loss.item()\n    return made", "made.loss = rt.all_reduce_mean("),
    ],
)
@pytest.mark.parametrize("use", ["print(figures)", "history.append(vars(figures))"])
def test_a_namespace_holds_those_of_the_global_batch(made: str, reduced: str, use: str) -> None:
    of_names = "from types import SimpleNamespace as Figures\n\n\n"
    returned = "return Figures(loss.item(), (out - y).abs().mean().item())"
    before = _script("typing", use).replace(RECORDS["typing"], of_names)
    assert returned in before
    assert reduced in converted(before.replace(returned, made))


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_read_of_it_one_by_one_is_put_together_there(record: str) -> None:
    after = converted(_script(record, "total += figures.loss"))
    assert "return Figures(loss.item(), (out - y).abs().mean().item())" in after
    assert "rt.all_reduce_mean" in after


@pytest.mark.parametrize("record", ["typing", "collections"])
def test_what_it_is_asked_for_is_not_decided(record: str) -> None:
    """It is a tuple, and of its own class."""
    use = "total += figures.loss if isinstance(figures, Figures) else float('nan')"
    assert converted(_script(record, use)).count("isinstance(figures, Figures)") == 1


def test_nothing_is_put_together_where_it_holds_no_figures() -> None:
    before = _script("typing", "print(Figures(len(loader), epoch))")
    after = converted(before)
    assert "print(Figures(len(loader), epoch))" in after
    assert "rt.all_reduce" not in after


OBJECT = """\
class Kept:
    def __init__(self):
        self.losses = []

    def __iadd__(self, figure):
        self.losses.append(figure)
        return self

    def __str__(self):
        return str(sum(self.losses) / len(self.losses))


"""
LOOP_OF = """\
for epoch in range(3):
    kept = Kept()
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {use}
    print({shown})
"""


@pytest.mark.parametrize(
    ("use", "shown", "reduced"),
    [
        ("kept += loss.item()", "kept", "kept += rt.all_reduce_mean(loss.item())"),
        ("kept.losses = kept.losses + [loss.item()]", "min(kept.losses)", "+ [rt.all_reduce_mean(loss.item())]"),
        (
            "kept.losses = (kept.losses + [loss.item()])[-3:]",
            "np.median(kept.losses)",
            "[rt.all_reduce_mean(loss.item())]",
        ),
    ],
)
def test_what_is_kept_in_an_object_is_that_of_the_global_batch(use: str, shown: str, reduced: str) -> None:
    loop = LOOP_OF.format(use=use, shown=shown)
    model = f"{LOADER}model = nn.Linear(4, 1)\n{OPTIMIZER}"
    after = converted(f"import numpy as np\n{IMPORTS}\n\n{OBJECT}{DATA}{model}{loop}")
    assert reduced in after
    assert "kept = rt.all_reduce_mean(kept)" not in after


COUNTED = STEP.replace("(out - y).abs().mean().item()", "len(x)")


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize(
    "use",
    [
        "history.append(figures); total += figures.error",
        "print(figures); total += figures.error",
        "history = history + [figures.error]; total += history[-1]",
    ],
)
def test_counts_are_not_added_up_twice(record: str, use: str) -> None:
    """Where a record is made, and once more where it is read: forward passes are shared, or it is done in one place."""
    after = converted(_script(record, use).replace(STEP, COUNTED), Options())
    assert after.count("world_size()") + after.count("rt.all_reduce_sum(") <= 1


@pytest.mark.parametrize(
    "use",
    [
        'print(figures); total += figures["error"]',
        'history.append(figures); total += figures["error"]',
    ],
)
def test_counts_of_a_dictionary_are_not_added_up_twice(use: str) -> None:
    step = COUNTED.replace("Figures(loss.item(), len(x))", '{"loss": loss.item(), "error": len(x)}')
    after = converted(_script("typing", use).replace(STEP, step), Options())
    assert after.count("world_size()") + after.count("rt.all_reduce_sum(") <= 1


def test_what_is_made_of_counts_of_all_ranks_is_not_added_up_again() -> None:
    """What goes into the list is that of all ranks, since the list is shown; so is what is read of it."""
    step = COUNTED.replace("Figures(loss.item(), len(x))", '{"loss": loss.item(), "error": len(x)}')
    use = 'history.append(figures["error"]); total += history[-1]'
    after = converted(_script("typing", use).replace(STEP, step))
    assert 'history.append(rt.all_reduce_sum(figures["error"]))' in after
    assert after.endswith("print(history, total)\n")
