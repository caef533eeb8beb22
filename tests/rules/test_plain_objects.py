"""An object that is no module, and calls one: the module is wrapped, or its forward passes are shared."""

from __future__ import annotations

import pytest
from distify_codemods.results import OptionError, Options, Said

from tests.rules.scripts import (
    IMPORTS,
    MODEL,
    RUNTIME,
    WHOLE_GROUP,
    WRAP,
    blocked,
    conversion_of,
    converted,
    distributed,
    line_of,
    script,
)

SHARED = Options(strategy="shared")
BASES = """
import abc
import typing
from dataclasses import dataclass

T = typing.TypeVar("T")


class Base(typing.Generic[T]):
    def __call__(self, x):
        return self.net(x)

"""
HEAD = "\nclass Model:\n    def __init__(self):\n"
CALL = """
    def __call__(self, x):
        return self.net(x)


model = Model()
"""
OBJECT = f"{HEAD}        self.net = nn.Linear(4, 1)\n{CALL}"
WRAPPED = "        self.net = DistributedDataParallel(self.net, device_ids=rt.device_ids(self.net))\n"
OF_NET = "optimizer = torch.optim.SGD(model.net.parameters(), lr=0.1)\n"
MODULE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def __call__(self, x):
        return self.net(x)


model = Model()
"""


def test_the_module_inside_is_wrapped() -> None:
    after = OBJECT.replace("nn.Linear(4, 1)\n", f"nn.Linear(4, 1)\n{WRAPPED}")
    assert converted(script(model=OBJECT, optimizer=OF_NET)) == distributed(model=after, wrap="", optimizer=OF_NET)


def test_the_forward_passes_of_the_module_inside_are_shared() -> None:
    before = script(model=OBJECT, optimizer=OF_NET)
    expected = before.replace(IMPORTS, IMPORTS + RUNTIME).replace("data = ", f"{WHOLE_GROUP}data = ", 1)
    assert converted(before, SHARED) == expected.replace(OF_NET, f"rt.data_parallel(model.net)\n{OF_NET}")


@pytest.mark.parametrize(
    "model",
    [
        OBJECT.replace("class Model:", "class Model(object):"),
        OBJECT.replace("class Model:", "class Model(abc.ABC):"),
        OBJECT.replace("class Model:", "class Model(typing.Generic[T]):"),
        OBJECT.replace("class Model:", "class Model(metaclass=abc.ABCMeta):"),
        f"{HEAD}        self.net = nn.Linear(4, 1)\n\n\nmodel = Model()\n".replace("Model:", "Model(Base[int]):"),
        "\n@dataclass\nclass Model:\n    net: nn.Module\n" + CALL.replace("Model()", "Model(nn.Linear(4, 1))"),
    ],
    ids=["object", "abstract", "generic", "metaclass", "of a generic class", "dataclass"],
)
def test_whatever_class_that_is_no_module(model: str) -> None:
    before = script(setup=BASES, model=model, optimizer=OF_NET)
    assert "rt.data_parallel(model.net)\n" in converted(before, SHARED)
    after = converted(before)
    assert "DistributedDataParallel(model," not in after
    assert "net = DistributedDataParallel(" in after or "rt.all_reduce_gradients(optimizer)" in after


def test_an_object_between_modules_and_around_them() -> None:
    parts = MODULE.replace("Model", "Net").replace("model =", "net =").replace("__call__", "forward")
    parts = parts.replace("self.net = nn.Linear(4, 1)", "self.net = Part(nn.Linear(4, 1))")
    around = OBJECT.replace("self.net = nn.Linear(4, 1)", "self.net = net")
    part = around.replace("Model", "Part").replace("__init__(self)", "__init__(self, net)")
    model = part.replace("\n\nmodel = Part()\n", "") + parts + around
    before = script(model=model, optimizer=OF_NET.replace("model.net", "net.net.net"))
    assert "rt.data_parallel(net)\n" in converted(before, SHARED)
    after = converted(before)
    assert f"        self.net = net\n{WRAPPED}" in after
    assert after.count("= DistributedDataParallel(") == 1


def test_frozen_statistics_of_the_module_inside() -> None:
    teacher = OBJECT.replace("Model", "Teacher").replace("model", "teacher").replace("(4, 1)\n", "(4, 1)\n", 1)
    teacher = teacher.replace("nn.Linear(4, 1)", "nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1))")
    before = script(model=MODEL + teacher).replace("(model(x), y)", "(model(x), teacher(x).detach())")
    assert "rt.convert_sync_batchnorm(teacher.net)\n" in converted(before)


def test_a_module_or_an_object_in_its_place() -> None:
    own = "\n    def parameters(self):\n        return self.net.parameters()\n"
    plain = OBJECT.replace("Model", "Plain").replace("\n\n\nmodel", f"\n{own}\n\nmodel")
    either = plain.replace("= Plain()", "= Model() if len(data) > 7 else Plain()")
    before = script(model=MODULE.replace("\n\nmodel = Model()\n", "") + either)
    assert blocked(before) == {("READ01", line_of(before, "optimizer = "))}


def test_an_object_is_not_named_as_a_model() -> None:
    before = script(model=OBJECT, optimizer=OF_NET)
    with pytest.raises(OptionError, match=r"no model \(those that are seen: `self.net` \(train.py:\d+\)\) is called"):
        conversion_of(before, models=(Said("model", "--model"),))


# ---- what stays as it is


def test_a_module_with_a_call_of_its_own_is_the_model() -> None:
    before = script(model=MODULE)
    assert converted(before) == distributed(model=MODULE)
    assert "rt.data_parallel(model)\n" in converted(before, SHARED)


def test_a_class_of_a_library_that_cannot_be_seen_may_be_a_module() -> None:
    imports, model = f"{IMPORTS}import framework\n", OBJECT.replace("class Model:", "class Model(framework.Base):")
    assert WRAP in converted(script(imports=imports, model=model, optimizer=OF_NET))


def test_a_list_that_is_called() -> None:
    chain = """
class Chain(list):
    def __call__(self, x):
        for part in self:
            x = part(x)
        return x


first, second = nn.Linear(4, 5), nn.Linear(5, 1)
model = Chain([first, second])
"""
    optimizer = "optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)\n"
    after = converted(script(model=chain, optimizer=optimizer))
    wraps = (
        f"{one} = DistributedDataParallel({one}, device_ids=rt.device_ids({one}))\n" for one in ("first", "second")
    )
    assert f"{''.join(wraps)}model = Chain([first, second])\n" in after


def test_a_loss_that_is_no_model() -> None:
    loss = "\nclass Loss:\n    def __call__(self, x, y):\n        return nn.functional.mse_loss(x, y)\n\n\n"
    loss += "loss_of = Loss()\n"
    before = script(model=MODEL + loss).replace("nn.functional.mse_loss(model(x), y)", "loss_of(model(x), y)")
    after = converted(before)
    assert after.count("DistributedDataParallel(") == 1
    assert WRAP in after
