"""MEET01: what a guarded call may run, where it is not seen what is called; and what `nn.DataParallel` was given."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level

from tests.rules.scripts import conversion_of

SCRIPT = """\
import os
import torch
import unknown
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def write(module, path):
    torch.save(module, path)


class Encoder(nn.Linear):
    def save(self, path):
        write(self, path)


class Small(nn.Linear):
    def show(self, path):
        print(path)


def head_of(path):
    if os.path.exists(path):
        return torch.load(path, weights_only=False)
    head = nn.Linear(8, 3)
    write(head, path)
    return head


class Net(nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, x):
        return self.head(self.encoder(x))


model = nn.DataParallel(Net(Encoder(4, 8), head_of("head.pt")))
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(3, (32,))), batch_size=8, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
<line>
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


def converted(line: str, script: str = SCRIPT) -> Conversion:
    return conversion_of(script.replace("<line>", line), strategy="shared")


def meets(conversion: Conversion) -> bool:
    return any(one.code == "MEET01" for one in conversion.of(Level.BLOCKING))


def test_what_data_parallel_was_given_is_its_module() -> None:
    conversion = converted('model.module.encoder.save("encoder.pt")')
    assert conversion.files
    after = conversion.files[0].after.decode()
    assert '\nmodel.encoder.save("encoder.pt")\n' in after
    assert "    rt.barrier()\n    if rt.is_main_process():\n        torch.save(module, path)\n" in after


def test_a_module_of_its_own() -> None:
    own = SCRIPT.replace("self.head = encoder, head", "self.head = encoder, head\n        self.module = Small(4, 4)")
    conversion = converted('model.module.module.show("encoder.pt")', own)
    assert 'model.module.show("encoder.pt")' in conversion.files[0].after.decode()


def test_a_guarded_call_of_something_unknown_may_run_what_has_its_name() -> None:
    assert meets(converted('vars(model)["_modules"]["encoder"].save("encoder.pt")'))


@pytest.mark.parametrize(
    "line",
    [
        'torch.save(model.state_dict(), "model.pt")',
        'vars(model)["_modules"]["encoder"].save_as("encoder.pt")',
        'import matplotlib.pyplot as plt\nplt.figure().save("a.png")',
        'vars(model)["_modules"]["encoder"].show("encoder.pt")',
    ],
)
def test_nobody_meets_there(line: str) -> None:
    conversion = converted(line)
    assert conversion.files
    assert not meets(conversion)
