"""What a constant turns off is the user's code as well: it is converted there, too, or the checklist names it."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import (
    DATA,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    WRAP,
    conversion_of,
    converted,
    findings,
    indented,
    line_of,
    script,
)

ON_MAIN = "if rt.is_main_process():\n"
SAVE = 'torch.save(model.state_dict(), "a.pt")\n'
SAVED = f"{ON_MAIN}    " + SAVE.replace("model.", "model.module.")
TOOLS = f"import os\nimport numpy as np\nfrom torch.utils.tensorboard import SummaryWriter\n{IMPORTS}"


@pytest.mark.parametrize(
    ("setup", "head"),
    [
        pytest.param("SAVE = False\n", "if SAVE:\n", id="name"),
        pytest.param("SAVE = False\n", "if SAVE and epoch == 2:\n", id="one of two tests"),
        pytest.param("SAVE = True\n", "if not SAVE:\n    pass\nelse:\n", id="turned on"),
        pytest.param("SAVE = True\n", "if not SAVE:\n", id="not"),
        pytest.param('MODE = "fast"\n', 'if MODE == "full":\n', id="text"),
        pytest.param('MODE = "fast"\n', 'if MODE in ("full", "long"):\n', id="one of some texts"),
        pytest.param("PATH = None\n", "if PATH is not None:\n", id="nothing"),
        pytest.param("class Config:\n    save = False\n\n\n", "if Config.save:\n", id="attribute of a class"),
        pytest.param('config = {"save": False}\n', 'if config["save"]:\n', id="item"),
        pytest.param("SAVE = False\n", "if False:\n    pass\nelif SAVE:\n", id="second test"),
        pytest.param(
            "SAVE = False\n", "if SAVE:\n    pass\n    if epoch:\n        pass\nif SAVE:\n", id="two branches"
        ),
        pytest.param("", "if False:\n", id="literal"),
    ],
)
def test_what_is_turned_off_is_converted(setup: str, head: str) -> None:
    new = converted(script(imports=TOOLS, setup=setup, after=head + indented(SAVE)))
    assert new.endswith(head + indented(SAVED))


def test_the_run_is_as_without_it() -> None:
    """What is known of the rest is not made less by what is turned off."""
    off = "if MORE:\n    optimizer = None\n    data = None\n    epoch = 3\n"
    plain = converted(script(setup="MORE = False\n", after=SAVE))
    with_it = converted(script(setup="MORE = False\n", optimizer=OPTIMIZER + off, after=SAVE))
    assert with_it == plain.replace(OPTIMIZER, OPTIMIZER + off)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('np.save("a.npy", [1])\n', f'{ON_MAIN}    np.save("a.npy", [1])\n'),
        ('with open("a", "w") as file:\n    file.write("x")\n',
         f'{ON_MAIN}    with open("a", "w") as file:\n        file.write("x")\n'),
        ('os.makedirs("a")\n', 'rt.call_on_main_process(os.makedirs, "a")\n'),
        ('log = SummaryWriter("a")\nlog.add_scalar("a", 1)\n',
         'log = rt.main_process_only(SummaryWriter)("a")\nlog.add_scalar("a", 1)\n'),
        ("print(model.weight)\n", "print(model.module.weight)\n"),
        ("with torch.no_grad():\n    model(torch.ones(1, 4))\n",
         "with torch.no_grad():\n    model.module(torch.ones(1, 4))\n"),
        ('state = torch.load("a.pt")\n', 'state = torch.load("a.pt", map_location=rt.map_location)\n'),
        ('np.save("a", [1])\nx = np.load("a")\n', f'{ON_MAIN}    np.save("a", [1])\nrt.barrier()\nx = np.load("a")\n'),
    ],
)  # fmt: skip
def test_edits(before: str, after: str) -> None:
    new = converted(script(imports=TOOLS, setup="ON = False\n", after="if ON:\n" + indented(before)))
    assert new.endswith("if ON:\n" + indented(after))
    assert ("rank_zero_print as print" in new) is ("print(" in before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(f"def f():\n    if not ON:\n        return\n{indented(SAVE)}\n\nf()\n",
                     f"def f():\n    if not ON:\n        return\n{indented(SAVED)}\n\nf()\n", id="returned before"),
        pytest.param(f"def keep():\n{indented(SAVE)}\n\nif ON:\n    keep()\n",
                     f"def keep():\n{indented(SAVED)}\n\nif ON:\n    keep()\n", id="function that is called there"),
        pytest.param(f"if ON:\n    if EVER:\n{indented(SAVE, '        ')}",
                     f"if ON:\n    if EVER:\n{indented(SAVED, '        ')}", id="within another"),
        pytest.param(f"for i in range(2):\n    if not ON:\n        continue\n{indented(SAVE)}",
                     f"for i in range(2):\n    if not ON:\n        continue\n{indented(SAVED)}", id="next turn before"),
    ],
)  # fmt: skip
def test_ways_there(before: str, after: str) -> None:
    assert converted(script(setup="ON = False\nEVER = False\n", after=before)).endswith(after)


@pytest.mark.parametrize(
    "done", ['model.load_state_dict(torch.load("a.pt", map_location=rt.map_location))', "model.cuda()"]
)
def test_the_wrap_comes_behind_what_is_done_to_the_model_there(done: str) -> None:
    """Turned on, a model that is moved after its wrap would lose the hooks that average its gradients."""
    off = f"if ON:\n    {done}\n"
    before = script(setup="ON = False\n", model=MODEL + off.replace(", map_location=rt.map_location", ""))
    assert f"{MODEL}{off}{WRAP}" in converted(before)
    backend = converted(before, Options(backend="allreduce"))
    assert f"{MODEL}{off}" in backend
    assert backend.index(off) < backend.index("broadcast_")


def test_one_function_in_two_roles_is_decided_in_each() -> None:
    """What is taken in one of its contexts is not turned off: it is as it was."""
    body = f"    if train:\n{indented(LOOP, '        ')}    else:\n        print('done')\n"
    assert findings("OTHER01", script(loop=f"def run(train):\n{body}\n\nrun(True)\nrun(False)\n"), Level.ADVICE) == []


@pytest.mark.parametrize(
    "off",
    [
        pytest.param("total = model(x).sum()\ntotal.backward()\n", id="backward pass"),
        pytest.param("other = DataLoader(data, batch_size=4)\n", id="loader"),
        pytest.param("other = torch.optim.Adam(model.parameters())\n", id="optimizer"),
        pytest.param("losses.append(loss.item())\n", id="figure that is kept"),
        pytest.param("model = nn.Linear(4, 1)\n", id="another model"),
        pytest.param("class Own(nn.Module):\n    pass\n\n\nother = Own()\n", id="another model of its own"),
    ],
)
def test_training_that_is_turned_off_is_named(off: str) -> None:
    setup = "MORE = False\nlosses = []\n"
    loop = LOOP + indented("if MORE:\n" + indented(off), "        ")
    before = script(setup=setup, loop=loop)
    (said,) = findings("OTHER01", before, Level.ADVICE)
    assert said.message.startswith("`MORE` is decided by a constant, and what it turns off is a part of training")
    assert said.place is not None
    assert said.place.line == line_of(before, "if MORE")


@pytest.mark.parametrize("used", ["step(model, x, n)\n", ""])
def test_a_test_in_what_is_called_from_there_is_not_named(used: str) -> None:
    """It is decided by the number of a turn, wherever the function is called from."""
    step = "def step(net, x, n):\n    if n % EVERY == 0 or n == EVERY - 1:\n        net(x).sum().backward()\n\n\n"
    loop = LOOP.replace("for x, y in loader", "for n, (x, y) in enumerate(loader)")
    off = indented(f"{used}if MORE:\n    step(model, x, n)\n", "        ")
    before = script(setup=f"MORE = False\nEVERY = 3\n{step}", loop=loop + off)
    said = [one.message for one in findings("OTHER01", before, Level.ADVICE)]
    assert [one.partition(",")[0] for one in said] == ["`MORE` is decided by a constant"]


def test_figures_of_an_evaluation_that_are_turned_off_are_no_training() -> None:
    evaluation = (
        "for x, y in DataLoader(data, batch_size=4):\n    out = model(x).detach()\n    if MORE:\n"
        "        print((out - y).abs().max().item())\n"
    )
    (said,) = findings("OTHER01", script(setup="MORE = False\n", after=evaluation), Level.ADVICE)
    assert said.message.startswith("`MORE` is decided by a constant, and what it turns off works on batches: files")


TURNED_OFF = "if {}:\n    model(x).sum().backward()\n"


def test_what_one_constant_turns_off_is_told_once() -> None:
    """Whoever sets it, sets it for all that ask."""
    tests = ["MORE", "MORE is True", "not not MORE", "MORE", "MORE and ON", "FEW"]
    off = "".join(TURNED_OFF.format(test) for test in tests)
    before = script(setup="MORE = False\nFEW = False\nON = True\n", loop=LOOP + indented(off, "        "))
    more, few = findings("OTHER01", before, Level.ADVICE)
    lines = [number for number, line in enumerate(before.splitlines(), 1) if line.strip().startswith("if ")]
    assert more.message.startswith(
        f"`MORE` is decided by a constant (and so is what stands at train.py:{lines[1]}, train.py:{lines[2]}, "
        f"train.py:{lines[3]} and 1 more), and what it turns off is a part of training"
    )
    assert more.place is not None
    assert more.place.line == lines[0]
    assert few.message.startswith("`FEW` is decided by a constant, and what")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("MORE", "FEW"),
        ("MODE == 'b'", "KIND == 'b'"),
        ("opts.more", "opts.few"),
    ],
)
def test_what_several_constants_turn_off_is_told_of_each(first: str, second: str) -> None:
    setup = (
        "MORE = False\nFEW = False\nMODE = 'a'\nKIND = 'a'\n\n\nclass opts:\n    more = False\n    few = False\n\n\n"
    )
    off = TURNED_OFF.format(first) + TURNED_OFF.format(second)
    found = findings("OTHER01", script(setup=setup, loop=LOOP + indented(off, "        ")), Level.ADVICE)
    assert [one.message.partition(",")[0] for one in found] == [
        f"`{first}` is decided by a constant", f"`{second}` is decided by a constant",
    ]  # fmt: skip


@pytest.mark.parametrize("test", ["MODE == 'b'", "not ON", "MODE == 'b' and ON", "opts.more"])
def test_constants_that_are_compared_are_named(test: str) -> None:
    setup = "MODE = 'a'\nON = True\n\n\nclass opts:\n    more = False\n\n\n"
    loop = LOOP + indented(f"if {test}:\n    model(x).sum().backward()\n", "        ")
    (said,) = findings("OTHER01", script(setup=setup, loop=loop), Level.ADVICE)
    assert said.message.startswith(f"`{test}` is decided by a constant")


@pytest.mark.parametrize(
    ("update", "named"),
    [
        ("settings.update(yaml.safe_load(open('a.yaml')))", False),
        ("settings.update(a=1)", True),
        ("settings.update({'other': True})", True),
    ],
)
def test_defaults_that_a_file_may_change_are_no_constants(update: str, named: bool) -> None:
    setup = f"import yaml\nsettings = {{'more': False}}\n{update}\n"
    loop = LOOP + indented("if settings['more']:\n    model(x).sum().backward()\n", "        ")
    assert bool(findings("OTHER01", script(setup=setup, loop=loop), Level.ADVICE)) is named


@pytest.mark.parametrize(
    "after",
    [
        pytest.param('if __name__ == "other":\n    ' + SAVE, id="not of the script"),
        pytest.param("if optimizer is None:\n    print('none')\n", id="what things are"),
        pytest.param("if ON:\n    print(loss)\n", id="output alone"),
        pytest.param("def more(x, ever=False):\n    if ever:\n        loss.backward()\n\n\nmore(1)\n", id="default"),
        pytest.param("def more(ever):\n    if ever:\n        loss.backward()\n\n\nmore(False)\n", id="argument"),
        pytest.param(
            "def more(x, y=None):\n    if x is not None and y is not None:\n        loss.backward()\n\n\nmore(1)\n",
            id="default that is compared",
        ),
        pytest.param("def never():\n    loss.backward()\n", id="never called"),
    ],
)
def test_nothing_is_named(after: str) -> None:
    before = script(setup="ON = False\n", after=after)
    assert findings("OTHER01", before, Level.ADVICE) == []


def test_what_would_need_a_person_there_is_advice() -> None:
    """Nobody comes there now: the rest of the script is not held up by it."""
    off = "if SPAWN:\n    torch.multiprocessing.spawn(print, nprocs=2)\n"
    conversion = conversion_of(script(setup="SPAWN = False\n", after=off))
    assert conversion.outcome is Outcome.CONVERTED
    (said,) = [one for one in conversion.of(Level.ADVICE) if one.code == "OTHER01"]
    assert said.message == "where a constant of the script does not let it come: it starts processes of its own"


def test_the_start_does_not_move() -> None:
    off = "if ON:\n    torch.zeros(1).cuda()\n"
    assert f"{off}{GROUP}{DATA}" in converted(script(setup=f"ON = False\n{off}"))
    assert LOADER


TRAINER = """\
class Trainer:
    def train(self, model, optimizer, loader):
        for x, y in loader:
            loss = (model(x) - y).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
SETTINGS = "class opts:\n    large = False\n"
OBJECT = "class O:\n    def __init__(self):\n        self.large = False\n\nopts = O()\n"


@pytest.mark.parametrize(
    ("large", "named"),
    [
        pytest.param(TRAINER, True, id="it trains"),
        pytest.param("class Trainer:\n    def show(self):\n        print(self)\n", False, id="it does not"),
    ],
)
@pytest.mark.parametrize("settings", [SETTINGS, OBJECT])
def test_a_trainer_that_is_not_chosen_is_named(settings: str, large: str, named: bool) -> None:
    """Nothing of its file is run, so that nothing in it is converted."""
    chosen = "if opts.large:\n    from large import Trainer\nelse:\n    from small import Trainer\n"
    imports = f"from settings import opts\n{IMPORTS}{chosen}"
    before = script(imports=imports, loop="Trainer().train(model, optimizer, loader)\n")
    conversion = conversion_of(before, files={"settings.py": settings, "large.py": large, "small.py": TRAINER})
    said = [one.message for one in conversion.of(Level.ADVICE) if one.code == "OTHER01"]
    assert ["`opts.large`" in one and "brings large.py, which trains" in one for one in said] == [True] * named
