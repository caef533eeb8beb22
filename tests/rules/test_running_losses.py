"""A running loss that weighs the loss is followed wherever a script keeps it: it is that of all ranks' samples."""

from __future__ import annotations

import pytest
from distify_codemods import Strategy

from tests.rules.scripts import LOOP, conversion_of, script

#: What keeps `kept`, by which of its names the loss is weighed, and what is kept in each step.
KEEPERS = {
    "an attribute of a function": (
        "def weigh(loss):\n    return loss / (1 + weigh.run)\n\n\nweigh.run = 1.0\n",
        "weigh.run", "weigh.run = <kept>",
    ),
    "an attribute of a method": (
        "class Weigh:\n    def now(self):\n        return self.now.run\n\n    now.run = 1.0\n\n\nweigh = Weigh()\n",
        "weigh.now()", "Weigh.now.run = <kept>",
    ),
    "an attribute of a parameter": (
        "", "getattr(next(model.parameters()), 'run', 1.0)", "next(model.parameters()).run = <kept>",
    ),
    "an attribute of a layer's weight": (
        "", "getattr(model.weight, 'run', 1.0)", "setattr(model.weight, 'run', <kept>)",
    ),
    "a class derived from list": (
        "class History(list):\n    def mean(self):\n        return sum(self[-5:]) / len(self)\n\n\n"
        "run = History([1.0])\n",
        "run.mean()", "run.append(<kept>)",
    ),
    "a class derived from list, by super": (
        "class History(list):\n    def add(self, loss):\n        super().append(loss)\n\n\nrun = History()\n",
        "sum(run)", "run.add(<kept>)",
    ),
    "a class derived from deque": (
        "from collections import deque\n\n\nclass History(deque):\n    pass\n\n\nrun = History([1.0], maxlen=4)\n",
        "max(run[-1], 0.1)", "run.append(<kept>)",
    ),
    "a class derived from UserList": (
        "from collections import UserList\n\n\nclass History(UserList):\n"
        "    def last(self):\n        return self.data[-1]\n\n\nrun = History([1.0])\n",
        "run.last()", "run.append(<kept>)",
    ),
    "an item, by the name of the method": ("run = {'loss': 1.0}\n", "run['loss']", "run.__setitem__('loss', <kept>)"),
    "an item of a list, by the name of the method": ("run = [1.0]\n", "run[0]", "run.__setitem__(0, <kept>)"),
    "an item, by a function": ("import operator\n\nrun = [1.0]\n", "run[0]", "operator.setitem(run, 0, <kept>)"),
    "a __setattr__ of its own": (
        "class Log:\n    def __init__(self):\n        object.__setattr__(self, 'values', [1.0])\n\n"
        "    def __setattr__(self, name, value):\n        self.values.append(value)\n\n\nlog = Log()\n",
        "log.values[-1]", "log.loss = <kept>",
    ),
    "a __setattr__ that calls its base's": (
        "class Log:\n    run = 1.0\n\n    def __setattr__(self, name, value):\n"
        "        super().__setattr__(name, value)\n\n\nlog = Log()\n",
        "log.run", "log.run = <kept>",
    ),
    "an operator": (
        "class Log:\n    def __init__(self):\n        self.values = [1.0]\n\n"
        "    def __lshift__(self, value):\n        self.values.append(value)\n\n\nlog = Log()\n",
        "log.values[-1]", "log << <kept>",
    ),
    "a subtraction in place": (
        "class Log:\n    run = 1.0\n\n    def __isub__(self, value):\n"
        "        self.run -= value\n        return self\n\n\nlog = Log()\n",
        "log.run", "log -= <kept>",
    ),
    "a class that registers itself": (
        "class Callback:\n    known = []\n\n    def __init_subclass__(cls):\n        Callback.known.append(cls())\n\n\n"
        "class Run(Callback):\n    run = 1.0\n\n    def see(self, loss):\n        self.run = loss\n\n\n",
        "Callback.known[0].run", "[one.see(<kept>) for one in Callback.known]",
    ),
    "a context variable": (
        "from contextvars import ContextVar\n\nrun = ContextVar('run', default=1.0)\n", "run.get()", "run.set(<kept>)",
    ),
    "an array": ("import array\n\nrun = array.array('d', [1.0])\n", "run[-1]", "run.append(<kept>)"),
    "something that is not known, as an attribute": (
        "import elsewhere\n\nrun = elsewhere.Smooth(0.9)\n", "run.value", "run.update(<kept>)",
    ),
    "something that is not known, by a method": (
        "import elsewhere\n\nrun = elsewhere.Smooth(0.9)\n", "run.mean()", "run.add(<kept>)",
    ),
    "a queue": ("import queue\n\nrun = queue.PriorityQueue()\nrun.put(1.0)\n", "run.queue[0]", "run.put(<kept>)"),
}  # fmt: skip


def _script(name: str, kept: str) -> str:
    setup, read, keeps = KEEPERS[name]
    loss = "loss = nn.functional.mse_loss(model(x), y)\n"
    loop = LOOP.replace(loss, f"{loss}        weighed = loss / (1 + {read})\n").replace("loss.back", "weighed.back")
    return script(setup=setup, loop=f"{loop}        {keeps.replace('<kept>', kept)}\n")


def _is_of_all_ranks(before: str) -> bool:
    """Whether the loss is computed from what all samples of the batch say, in whatever way."""
    conversion = conversion_of(before)
    after = conversion.files[0].after.decode()
    return conversion.strategy is Strategy.SHARED or any(
        word in after for word in ("all_reduce_mean", "mean_over_ranks", "rt.gather")
    )


@pytest.mark.parametrize("name", KEEPERS)
def test_a_running_loss_is_that_of_all_ranks(name: str) -> None:
    assert _is_of_all_ranks(_script(name, "loss.item()"))


@pytest.mark.parametrize("name", KEEPERS)
def test_a_number_that_says_nothing_of_samples_is_left_alone(name: str) -> None:
    assert not _is_of_all_ranks(_script(name, "0.5"))


#: A setting of the loss, or of what goes into it, that follows the running loss.
SETTINGS = {
    "of a loss, as an attribute": ("criterion = nn.HuberLoss()\n", "criterion(model(x), y)", "criterion.delta = run"),
    "of a layer, as an attribute": (
        "slope = nn.LeakyReLU()\n", "nn.functional.mse_loss(slope(model(x)), y)", "slope.negative_slope = run",
    ),
    "of a function of losses": ("", "nn.functional.smooth_l1_loss(model(x), y, beta=min(1.0, run))", ""),
    "of a function": ("", "torch.add(model(x), y, alpha=-min(1.0, run)).pow(2).mean()", ""),
    "of a method": ("", "model(x).add(y, alpha=-min(1.0, run)).pow(2).mean()", ""),
}  # fmt: skip


def _set_by(name: str, kept: str) -> str:
    setup, loss, sets = SETTINGS[name]
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", loss)
    return script(setup=setup, loop=f"run = 1.0\n{loop}        run = 0.9 * run + 0.1 * {kept}\n        {sets}\n")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_follows_the_loss_is_the_same_on_all_ranks(name: str) -> None:
    assert _is_of_all_ranks(_set_by(name, "loss.item()"))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_follows_the_steps_is_left_alone(name: str) -> None:
    assert not _is_of_all_ranks(_set_by(name, "0.5"))


def test_a_gradient_that_the_backward_pass_begins_with() -> None:
    loop = LOOP.replace("loss.backward()", "loss.backward(gradient=torch.tensor(1 / (1 + run)))")
    before = script(loop=f"run = 1.0\n{loop}        run = 0.9 * run + 0.1 * <kept>\n")
    assert _is_of_all_ranks(before.replace("<kept>", "loss.item()"))
    assert not _is_of_all_ranks(before.replace("<kept>", "0.5"))


STOPPER = """
class Stopper:
    def __init__(self):
        self.best = 9.0

    def __call__(self, loss):
        if loss < self.best:
            self.best = loss
        return self.best < 0.1


stopper = Stopper()
"""


@pytest.mark.parametrize(
    "whole", ["vars(stopper)", "stopper.__dict__.copy()", "{**vars(stopper)}", "dict(stopper.__dict__)", "stopper"]
)
def test_what_a_stopper_keeps_is_of_all_ranks_where_it_is_saved_as_a_whole(whole: str) -> None:
    loop = f"{LOOP}    stop = stopper(loss.item())\n    torch.save({{'stop': {whole}}}, 's.pt')\n"
    after = conversion_of(script(setup=STOPPER, loop=f"{loop}    if stop:\n        break\n")).files[0].after.decode()
    assert "stop = stopper(rt.all_reduce_mean(loss.item()))\n" in after
    assert "        if loss < self.best:\n" in after


def test_what_a_stopper_keeps_is_put_together_where_it_decides_if_nobody_saves_it() -> None:
    loop = f"{LOOP}    stop = stopper(loss.item())\n    if stop:\n        break\n"
    after = conversion_of(script(setup=STOPPER, loop=loop)).files[0].after.decode()
    assert "stop = stopper(loss.item())\n" in after
    assert "rt.all_reduce_mean(loss) < rt.all_reduce_mean(self.best)" in after
