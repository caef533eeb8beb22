"""Dictionaries of the script's own whose items are attributes."""

from __future__ import annotations

import pytest

from tests.rules.scripts import LOOP, converted, script

CLASSES = {
    "names of dict's": "    __getattr__ = dict.__getitem__\n    __setattr__ = dict.__setitem__\n",
    "get": "    __getattr__ = dict.get\n    __setattr__ = dict.__setitem__\n    __delattr__ = dict.__delitem__\n",
    "methods": "    def __getattr__(self, name):\n        return self[name]\n\n"
    "    def __setattr__(self, name, value):\n        self[name] = value\n",
    "itself": "    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n"
    "        self.__dict__ = self\n",
}


@pytest.mark.parametrize("methods", CLASSES.values(), ids=CLASSES)
def test_figures_that_are_kept_in_one(methods: str) -> None:
    setup = f"class State(dict):\n{methods}\n\nstate = State(log=[])\n"
    kept = "        state.loss = loss.item()\n        state.log.append(round(state.loss, 5))\n"
    new = converted(script(setup=setup, loop=f"{LOOP}{kept}print(state.log)\n"))
    assert "        state.log.append(round(rt.all_reduce_mean(state.loss), 5))\n" in new


@pytest.mark.parametrize("methods", CLASSES.values(), ids=CLASSES)
def test_settings_that_are_kept_in_one(methods: str) -> None:
    setup = f"class State(dict):\n{methods}\n\nstate = State(log=[], rate=0.1)\n"
    new = converted(script(setup=setup, loop=f"{LOOP}    state.log.append(state.rate * epoch)\nprint(state.log)\n"))
    assert "all_reduce" not in new
