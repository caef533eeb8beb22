"""What is done to one of a model's modules, which of them is not seen: each of the script's own may be the one."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, converted, script

STRANGE = f"import strange\n{IMPORTS}"

NET = """\
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.centred = False
        self.body = nn.Linear(4, 1)

    def forward(self, x):
        if self.centred:
            x = x - x.mean(0)
        return self.body(x)

    def switch_on(self):
        self.centred = True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Layer()

    def forward(self, x):
        return self.first(x)

    def walk(self, m):
        if hasattr(m, "centred"):
            m.centred = True
        for name, part in m._modules.items():
            self.walk(part)

    def centre(self):
        {centre}


model = Net()
model.centre()
"""
ONE = "if isinstance(m, Layer):\n                "
SWITCHED = {
    "attribute": f"for m in self.modules():\n            {ONE}m.centred = True",
    "setattr": f"for m in self.children():\n            {ONE}setattr(m, 'centred', True)",
    "method": f"for m in self.modules():\n            {ONE}m.switch_on()",
    "method, by name": "for name, m in self.named_children():\n            if hasattr(m, 'switch_on'):\n"
    "                m.switch_on()",
    "apply": "self.apply(lambda m: m.switch_on() if isinstance(m, Layer) else None)",
    "comprehension": "[m.switch_on() for m in self.modules() if type(m) is Layer]",
    "by name": "for name, m in self._modules.items():\n            m.switch_on()",
    "ModuleDict": "for m in nn.ModuleDict({'first': self.first}).values():\n            m.centred = True",
    "compiled": "torch.compile(self.first)._orig_mod.switch_on()",
    "recursion": "self.walk(nn.Sequential(self.first))",
    "what a library finds": "for m in strange.find(self):\n            m.centred = True",
    "path": "self.get_submodule('first').switch_on()",
    "path that is not seen": "self.get_submodule(str(input())).switch_on()",
}
LEFT = {
    "another attribute": f"for m in self.modules():\n            {ONE}m.seen = True",
    "off": f"for m in self.modules():\n            {ONE}m.centred = False",
    "of another model": "for m in nn.Sequential(nn.Linear(4, 1)).modules():\n            m.centred = True",
}
MEAN = "            x = x - rt.mean_over_ranks(x.mean(0))\n"


@pytest.mark.parametrize("centre", SWITCHED.values(), ids=SWITCHED)
def test_what_is_switched_on_in_any_part(centre: str) -> None:
    assert MEAN in converted(script(imports=STRANGE, model=NET.format(centre=centre)))


@pytest.mark.parametrize("centre", LEFT.values(), ids=LEFT)
def test_what_stays_off(centre: str) -> None:
    assert MEAN not in converted(script(imports=STRANGE, model=NET.format(centre=centre)))
