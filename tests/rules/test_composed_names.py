"""Methods that are called by names which the run puts together: `getattr(callback, "on_" + event)(trainer)`."""

from __future__ import annotations

import pytest

from tests.rules.scripts import DATA, IMPORTS, LOADER, converted, indented

CALLBACK = """\
class Callback:
    def on_epoch_end(self, trainer):
        print(f"loss {trainer.loss:.4f}")
        with open("losses.txt", "a") as file:
            file.write(f"{trainer.loss}\\n")

    def on_start(self, trainer):
        print("start")

    def helper(self, trainer):
        open("never.txt", "w").close()


"""
TRAINER = """\
class Trainer:
    def __init__(self, callbacks):
        self.model, self.callbacks, self.loss = nn.Linear(4, 1), callbacks, 0.0

    def call(self, event):
        for callback in self.callbacks:
{calls}
    def fit(self, loader):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.call("start")
        for epoch in range(3):
            for x, y in loader:
                loss = nn.functional.mse_loss(self.model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.loss = loss.item()
            self.call("epoch_end")


"""
GUARDED = 'with rt.main_process_open("losses.txt", "a") as file:'


def _script(calls: str) -> str:
    trainer = TRAINER.format(calls=indented(calls, " " * 12))
    return f"import operator\n{IMPORTS}\n\n{CALLBACK}{trainer}{DATA}{LOADER}Trainer([Callback()]).fit(loader)\n"


@pytest.mark.parametrize(
    "calls",
    [
        'getattr(callback, "on_" + event)(self)\n',
        'getattr(callback, f"on_{event}")(self)\n',
        'getattr(callback, "on_%s" % event)(self)\n',
        'getattr(callback, "on_{}".format(event))(self)\n',
        'name = "on_" + event\ngetattr(callback, name)(self)\n',
        'method = getattr(callback, "on_" + event, None)\nif method is not None:\n    method(self)\n',
        'operator.methodcaller("on_" + event, self)(callback)\n',
        'from operator import methodcaller\nlist(map(methodcaller(f"on_{event}", trainer=self), [callback]))\n',
    ],
)
def test_the_method_of_that_name_is_followed(calls: str) -> None:
    after = converted(_script(calls))
    assert GUARDED in after
    assert "rt.all_reduce_mean" in after
    assert 'open("never.txt", "w").close()' in after
    assert 'is_main_process():\n            open("never.txt"' not in after


@pytest.mark.parametrize(
    "calls",
    [
        "for name in dir(callback):\n    if name.endswith(event):\n        getattr(callback, name)(self)\n",
        "table = {name: getattr(callback, name) for name in dir(callback)}\ntable[input()](self)\n",
    ],
)
def test_where_nothing_of_a_name_is_known_it_is_any_method(calls: str) -> None:
    after = converted(_script(calls))
    assert GUARDED in after
    assert "rt.all_reduce_mean" in after


BY_MODULE = """\
def save_losses(losses):
    with open("losses.txt", "w") as file:
        file.write(str(losses))


def train():
    losses = []
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    {call}(losses)


"""


@pytest.mark.parametrize(
    "call",
    [
        'getattr(sys.modules[__name__], "save_losses")',
        'getattr(sys.modules[__name__], "save_" + sys.argv[1])',
        'getattr(sys.modules["__main__"], f"save_{input()}")',
    ],
)
def test_a_function_of_the_module_is_found_by_its_name(call: str) -> None:
    made = f"{DATA}{LOADER}model = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    after = converted(f"import sys\n{IMPORTS}\n\n{BY_MODULE.format(call=call)}{made}train()\n")
    assert 'if rt.is_main_process():\n        with open("losses.txt", "w") as file:' in after
    assert "rt.average_figures(losses)" in after
