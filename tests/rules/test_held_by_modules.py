"""Models that another module holds, whose checkpoints have its parts by their names: no wrap comes between."""

from __future__ import annotations

import pytest

from tests.rules.scripts import LOOP, converted, script

WHOLE = """\
class Whole(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x)


class Several(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)


class Record:
    def __init__(self, part):
        self.part = part


model = nn.Linear(4, 1)
"""
SAVED = 'torch.save(whole.state_dict(), "whole.pt")\n'


def after(end: str) -> str:
    return converted(script(model=WHOLE, loop=LOOP, after=end))


@pytest.mark.parametrize(
    "end",
    [
        f"whole = Whole(model)\n{SAVED}",
        f"whole = Whole(Whole(model))\n{SAVED}",
        f"parts = []\nparts.append(model)\nwhole = Several(parts)\n{SAVED}",
        f'whole = Whole(None)\nwhole.add_module("part", model)\n{SAVED}',
        f"whole = Whole(None)\nwhole.part = model\n{SAVED}",
        f'parts = {{"a": model}}\nwhole = nn.ModuleDict(parts)\n{SAVED}',
        'whole = Whole(model)\ntorch.save(whole, "whole.pt")\n',
        "whole = Whole(model)\nprint([name for name, _ in whole.named_parameters()])\n",
        'whole = Whole(model)\nwhole.load_state_dict(torch.load("whole.pt"))\n',
    ],
)
def test_of_a_module_that_is_asked_for_its_keys(end: str) -> None:
    text = after(end)
    assert "DistributedDataParallel" not in text
    assert "rt.all_reduce_gradients(optimizer)" in text


@pytest.mark.parametrize(
    "end",
    [
        "whole = Whole(model)\nprint(whole(torch.ones(1, 4)).shape)\n",
        'whole = Record(model)\ntorch.save(whole.part.state_dict(), "part.pt")\n',
        f"whole = nn.Sequential(model, nn.ReLU())\n{SAVED}",
        f"whole = nn.ModuleList([model])\n{SAVED}",
        'parts = []\nparts.append(model)\ntorch.save([one.state_dict() for one in parts], "parts.pt")\n',
    ],
)
def test_where_no_other_module_tells_its_names(end: str) -> None:
    assert "model = DistributedDataParallel(model" in after(end)
