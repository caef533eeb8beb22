"""What objects of the script's own are given by operators, and what they say of themselves where builtins ask."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import IMPORTS, converted, script

METER = """\
class Meter:
    def __init__(self):
        self.value = 1.0

    def set(self, value):
        self.value = value

    def __iadd__(self, value):
        self.value = value
        return self

    def __lshift__(self, value):
        self.value = value

    def __float__(self):
        return self.value

    def __bool__(self):
        return self.value > 0.5

    def __len__(self):
        return int(self.value)

    def __format__(self, spec):
        return format(self.value, spec)

    def __str__(self):
        return f"{self.value:.4f}"


meter = Meter()
"""
LOOP = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        PUT
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        USE
"""


def _script(put: str, use: str) -> str:
    return script(imports=IMPORTS + METER, loop=LOOP.replace("PUT", put).replace("USE", use))


@pytest.mark.parametrize("put", ["meter += {}", "meter << {}", "meter.set({})"])
@pytest.mark.parametrize("use", ['print(f"{meter:.4f}")', "print(float(meter), str(meter))", "print(len(meter))"])
def test_a_meter_is_given_the_mean(put: str, use: str) -> None:
    new = converted(_script(put.format("loss.item()"), use))
    assert f"        {put.format('rt.all_reduce_mean(loss.item())')}\n        optimizer" in new
    assert f"        {use}\n" in new  # it has the mean by then


@pytest.mark.parametrize("put", ["meter += epoch", "meter << epoch", "meter += len(loader)"])
def test_what_is_alike_on_all_ranks_is_given_as_it_is(put: str) -> None:
    assert f"        {put}\n" in converted(_script(put, 'print(f"{meter:.4f}")'))


OF_A_CLASS = """\
class Keeping(type):
    def __lshift__(cls, value):
        cls.kept.append(value)

    def __iadd__(cls, value):
        cls.kept.append(value)
        return cls


class Kept(metaclass=Keeping):
    kept = []


"""


@pytest.mark.parametrize("put", ["Kept << {}", "Kept += {}"])
def test_a_class_whose_operators_are_its_metaclass_s(put: str) -> None:
    given = script(imports=IMPORTS + OF_A_CLASS, loop=LOOP.replace("PUT", put).replace("USE", "print(Kept.kept[-1])"))
    new = converted(given.replace("{}", "loss.item()"))
    assert f"        {put.format('rt.all_reduce_mean(loss.item())')}\n" in new
    assert f"        {put.format('epoch')}\n" in converted(given.replace("{}", "epoch"))


OWN = [
    "float(meter)",
    "(2.0 if meter else 1.0)",
    "(1 + len(meter))",
    "float(str(meter))",
    "float(format(meter, '.4f'))",
]


@pytest.mark.parametrize("weight", OWN)
def test_what_a_meter_says_of_a_ranks_own_samples_is_no_weight_of_a_loss(weight: str) -> None:
    """The figure is put there without a call that could be given the mean."""
    loop = LOOP.replace("PUT", "meter.value = loss.item()").replace("loss.backward()", f"(loss * {weight}).backward()")
    new = converted(script(imports=IMPORTS + METER, loop=loop.replace("USE", "pass")), Options())
    assert any(one in new for one in ("rt.gather_samples(", "rt.data_parallel(", "rt.mean_over_ranks("))


TEXTS = ["float('{:.4f}'.format(figure))", "float(format(figure, '.4f'))", "float(' '.join([str(figure)]))"]


@pytest.mark.parametrize("read", TEXTS)
def test_a_number_that_is_read_of_a_text_is_no_mean(read: str) -> None:
    loop = LOOP.replace("PUT", "figure = loss.item()").replace("loss.backward()", f"(loss * {read}).backward()")
    new = converted(script(loop=loop.replace("USE", "pass")), Options())
    assert any(one in new for one in ("rt.gather_samples(", "rt.data_parallel(", "rt.mean_over_ranks("))
