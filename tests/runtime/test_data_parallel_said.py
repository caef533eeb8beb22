"""What is said of a model that is computed whole: one line, however many of its parts are, too."""

from __future__ import annotations

import contextlib
import io

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared import wholes
from ranks import on_ranks, run_script
from torch import Tensor, nn

OTHER_VALUES = "a part of the batch gives other values than the whole one: its samples depend on each other"


class Related(nn.Module):
    """Compares the samples of its batch."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.parts(rows)
        return found - found.mean(0)


def _said(parts: int) -> str:
    torch.manual_seed(0)
    return _told_of(Related(nn.Linear(3, 3), *(Related(nn.Linear(3, 3)) for _ in range(parts))))


def _told_of(model: nn.Module) -> str:
    rt.data_parallel(model)
    rows = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    with contextlib.redirect_stderr(io.StringIO()) as told:
        for _ in range(3):
            model(rows).sum().backward()
    return told.getvalue()


HEAD = (
    f"distify: Related is computed on whole batches by every rank: {OTHER_VALUES}; its parts are shared in its place: "
)


def test_one_line_is_said_of_a_model_and_its_parts() -> None:
    assert on_ranks(_said, 0) == [f"{HEAD}parts\n", ""]
    of_parts = f"parts, parts.1: {OTHER_VALUES}"
    assert on_ranks(_said, 1) == [f"{HEAD}parts; but some of them are computed whole, too ({of_parts})\n", ""]
    of_parts = f"parts, parts.1, parts.2 and 2 more: {OTHER_VALUES}"
    assert on_ranks(_said, 4) == [f"{HEAD}parts; but some of them are computed whole, too ({of_parts})\n", ""]


class Later(nn.Module):
    """Is shared by its parts from the first call on; one of them is not called before the second."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.calls = Related(nn.Linear(3, 3)), Related(nn.Linear(3, 3), nn.Tanh()), 0

    def forward(self, rows: Tensor) -> Tensor:
        self.calls += 1
        found: Tensor = self.first(rows)
        return self.second(found) if self.calls > 1 else found


def _said_later() -> str:
    torch.manual_seed(0)
    return _told_of(Later())


def test_what_is_found_in_a_later_call_is_said_there() -> None:
    first, second = on_ranks(_said_later)[0].splitlines()
    of_first = f"first: {OTHER_VALUES}"
    assert first.endswith(
        f"; its parts are shared in its place: first, second; but some of them are computed whole, too ({of_first})"
    )
    assert second == f"distify: Later: parts of it are computed on whole batches by every rank (second: {OTHER_VALUES})"


SHOWS = """
import builtins, sys

class Counter:
    def __init__(self):
        self.lines, self.samples = 0, 0

    def see(self, module, given, output):
        self.samples += len(given[0])

counter, original = Counter(), builtins.print

def counted(*values, **how):
    counter.lines += 1
    original(*values, **how)

builtins.print = counted
import torch
from distify_runtime.shared import wholes
import distify_runtime as rt
import pytest
from distify_runtime import rank_zero_print as print
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        print("called")
        return self.layer(x)

rt.init_process_group(whole_batches=True)
torch.manual_seed(0)
net = Net()
rt.data_parallel(net)
nn.modules.module.register_module_forward_hook(counter.see)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    net(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
"""


def test_what_counts_lines_outside_of_the_script_is_nothing_that_a_model_keeps() -> None:
    assert [one.err for one in run_script(SHOWS)] == ["", ""]


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (("first", "second"), "; so are its parts (first, second: no)"),
        (("first",), "; its parts are shared in its place: first, second; but some of them are computed whole, too "
                     "(first: no)"),
        ((), "; its parts are shared in its place: first, second"),
    ],
)  # fmt: skip
def test_of_parts_that_are_all_computed_whole_none_is_said_to_be_shared(
    whole: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with wholes.told_together():
        wholes.say("Net", "", "it writes", ["first", "second"])
        for part in whole:
            wholes.say("Net", part, "no", [])
    assert capsys.readouterr().err == f"distify: Net is computed on whole batches by every rank: it writes{said}\n"
