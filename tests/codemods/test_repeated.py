"""A call in a loop is followed again where it finds something new, and only there."""

from __future__ import annotations

import pytest
from distify_codemods.allocation import Const
from distify_codemods.events import Kind

from tests.codemods.test_inference import infer

LOOPS = "for a in range(9):\n    for b in range(9):\n        for c in range(9):\n            "
LINES = "".join(f"    x = x + {number}\n" for number in range(50))
WORK = f"import random\n\n\ndef work(x):\n{LINES}    print(x)\n    return x\n\n\n"


def statements(script: str) -> int:
    return infer(script).run.machine.statements


@pytest.mark.parametrize(
    "beside",
    ["found.append(c)", "found = [found, c]", "found = found + random.random()", "found[0] = c"],
)
def test_what_finds_nothing_new_is_followed_once(beside: str) -> None:
    """Whatever else is new in the next turn."""
    assert statements(f"{WORK}found = []\n{LOOPS}{beside}\n            work(1)\n") < 2 * 55


def test_what_sets_an_attribute_is_followed_until_it_finds_that() -> None:
    methods = "    def __init__(self):\n        self.x = 1\n\n    def work(self):\n        self.x = work(self.x)\n"
    assert statements(f"class Box:\n{methods}\n\n{WORK}box = Box()\n{LOOPS}box.work()\n") < 3 * 55


@pytest.mark.parametrize(
    "script",
    [
        "class Box:\n    pass\n\n\nbox = Box()\nbox.x = 'a'\n\n\ndef show():\n    print(box.x)\n\n\n"
        "for _ in range(9):\n    show()\n    box.x = 'b'\n",
        "x = 'a'\n\n\ndef show():\n    print(x)\n\n\nfor _ in range(9):\n    show()\n    x = 'b'\n",
        "def run():\n    x = 'a'\n\n    def show():\n        print(x)\n\n    for _ in range(9):\n        show()\n"
        "        x = 'b'\n\n\nrun()\n",
        "x = {'key': 'a'}\n\n\ndef show():\n    print(x['key'])\n\n\n"
        "for _ in range(9):\n    show()\n    x['key'] = 'b'\n",
        "x = ['a']\n\n\ndef show():\n    print(x[0])\n\n\nfor _ in range(9):\n    show()\n    x.append('b')\n",
        "x = ['a']\n\n\ndef show(it):\n    print(it[0])\n\n\nfor _ in range(9):\n    show(x)\n    x.append('b')\n",
        "def show(x):\n    print(x)\n\n\nx = 'a'\nfor _ in range(9):\n    show(x)\n    x = 'b'\n",
        "class Box:\n    x = 'a'\n\n\nbox = Box()\n\n\ndef inner():\n    print(box.x)\n\n\n"
        "def show():\n    inner()\n\n\nfor _ in range(9):\n    show()\n    Box.x = 'b'\n",
    ],
)  # fmt: skip
def test_what_finds_something_new_is_followed_again(script: str) -> None:
    (event,) = infer(script).of_kind(Kind.PRINT)
    printed = {obj.value for obj in event.arguments.positional[0].objs if isinstance(obj, Const)}
    assert printed >= {"a", "b"}


def test_what_the_last_call_has_set_stays_set() -> None:
    script = (
        "def keep(*items):\n    return items\n\n\ndef one():\n    return keep('a')\n\n\n"
        "for _ in range(9):\n    for __ in range(9):\n        first = one()\n        print(first[0])\n"
    )
    (event,) = infer(script).of_kind(Kind.PRINT)
    assert {obj.value for obj in event.arguments.positional[0].objs if isinstance(obj, Const)} == {"a"}


@pytest.mark.parametrize(
    "script",
    [
        # A copy is made where there is none yet.
        "import copy\n\n\nclass Box:\n    pass\n\n\nbox = Box()\nbox.x = 'a'\n\n\ndef clone():\n"
        "    return copy.copy(box)\n\n\nfor _ in range(9):\n    one = clone()\n    print(one.x)\n    one.x = 'b'\n",
        # The body of a module is run once.
        "def ready():\n    import helper\n    print(helper.size)\n\n\nfor _ in range(9):\n    ready()\n"
        "    import helper\n    print(helper.x)\n    helper.x = 'b'\n",
    ],
)  # fmt: skip
def test_what_is_done_once_is_not_done_again(script: str) -> None:
    events = infer(script, helper="x = 'a'\nsize = 3\n").of_kind(Kind.PRINT)
    printed = [{obj.value for obj in event.arguments.positional[0].objs if isinstance(obj, Const)} for event in events]
    assert printed[-1] >= {"a", "b"}


def test_what_is_put_beside_what_was_there_is_put_there_again() -> None:
    """A batch is copied into what the call has set: nothing else is left there."""
    script = (
        "import torch\nfrom torch.utils.data import DataLoader\n\n\nclass Box:\n    pass\n\n\nbox = Box()\n"
        "box.x = 'a'\n\n\ndef begin():\n    box.x = 'b'\n\n\n"
        "for batch in DataLoader(torch.load('x')):\n    box.x.copy_(batch)\n    begin()\nprint(box.x)\n"
    )
    (event,) = infer(script).of_kind(Kind.PRINT)
    assert {obj.value for obj in event.arguments.positional[0].objs if isinstance(obj, Const)} == {"b"}


@pytest.mark.parametrize(
    "script",
    [
        "x = 'a'\n\n\ndef get():\n    return x\n\n\nget()\nx = 'b'\nprint(get())\n",
        "def get():\n    return box.x\n\n\nget()\nbox.x = 'b'\nprint(get())\n",
        "def get():\n    return box.x\n\n\ndef outer():\n    return get()\n\n\nouter()\nbox.x = 'b'\nprint(outer())\n",
        "def get():\n    return getattr(box, 'x')\n\n\nget()\nsetattr(box, 'x', 'b')\nprint(get())\n",
        "x = {'key': 'a'}\n\n\ndef get():\n    return x['key']\n\n\nget()\nx['key'] = 'b'\nprint(get())\n",
        "x = ['a']\n\n\ndef get():\n    return x[0]\n\n\nget()\nx.append('b')\nprint(get())\n",
        "def run():\n    x = 'a'\n\n    def get():\n        return x\n\n    get()\n    x = 'b'\n    print(get())\n\n\n"
        "run()\n",
        "def put():\n    global x\n    x = 'b'\n\n\ndef get():\n    return x\n\n\n"
        "put()\nx = 'a'\nput()\nprint(get())\n",
    ],
)  # fmt: skip
def test_what_leaves_nothing_is_followed_again_where_it_finds_something_new(script: str) -> None:
    (event,) = infer(f"class Box:\n    pass\n\n\nbox = Box()\nbox.x = 'a'\n\n\n{script}").of_kind(Kind.PRINT)
    assert "b" in {obj.value for obj in event.arguments.positional[0].objs if isinstance(obj, Const)}


@pytest.mark.parametrize("beside", ["pass", "box.y = 'b'", "other = 'b'", "found.append('b')", "x = 'b'", "work(box)"])
def test_what_leaves_nothing_is_known_from_elsewhere_too(beside: str) -> None:
    """A list of its own is another one there."""
    begin = "class Box:\n    pass\n\n\nbox = Box()\nbox.x = 'a'\nfound, one = [], 1\n\n\n"
    lines = "".join(f"    own = own + [{number}]\n" for number in range(50))
    work = f"def work(x):\n    own = [box.x]\n    own.append(x)\n{lines}    return x\n\n\n"
    calls = "".join(f"{beside}\nwork(one)\n" for _ in range(5))
    assert statements(begin + work + calls) < 3 * 55
