"""What is said of all calls of a program is said where each is known; else the first that is not known is named."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import (
    DATA,
    IMPORTS,
    LOOP,
    SHUFFLED,
    conversion_of,
    converted,
    distributed,
    findings,
    indented,
    script,
)

SHARDED = Options(strategy="sharded")
SHARED = Options(strategy="shared")
#: The rules that say something of all calls, of this script.
OF_ALL_CALLS = {
    "DEVICE01", "DATA03", "BATCH01", "GRAD01", "ACCUM01", "GRAD02", "OLD02", "EVAL01", "DECIDE01", "SAVE01", "LOAD01",
    "MODEL02", "OUT01", "OUT02", "OUT03", "OUT04", "OUT05", "PATH01", "MEET01", "OTHER01",
}  # fmt: skip
#: Where forward passes are shared, these are not needed whatever is called; random numbers are said to be drawn alike.
OF_SHARDED_DATA = {"BATCH01", "GRAD01", "ACCUM01", "GRAD02", "EVAL01", "MODEL02"}


def said(before: str, options: Options, files: dict[str, str] | None = None) -> dict[str, str]:
    seen = conversion_of(before, options=options, files=files)
    return {one.code: one.message for one in seen.of(Level.NOT_NEEDED)}


@pytest.mark.parametrize("options", [SHARDED, SHARED], ids=["sharded", "shared"])
@pytest.mark.parametrize(
    ("setup", "name"),
    [
        pytest.param("arena.tick()\n", "arena.tick", id="function"),
        pytest.param("class Game(arena.Game):\n    pass\n\n\ngame = Game()\n", "Game", id="subclass"),
        pytest.param(
            "getattr(torch, str(data))\ncall = getattr(nn.Linear(1, 1), str(data))\ncall()\n", "call", id="name"
        ),
        pytest.param("import helper\nhelper.run()\n", "arena.inside", id="another file"),
        pytest.param("import lost\nlost.run()\n", "lost.run", id="a file that is not found"),
    ],
)
def test_the_first_that_is_not_known_is_named(setup: str, name: str, options: Options) -> None:
    files = {"helper.py": "import arena\n\n\ndef run():\n    arena.inside()\n"}
    claims = said(script(imports=f"import arena\n{IMPORTS}", data=DATA + setup), options, files)
    named = {code for code, message in claims.items() if f", unless by `{name}` at " in message}
    expected = OF_ALL_CALLS if options is SHARDED else (OF_ALL_CALLS - OF_SHARDED_DATA) | {"SEED01"}
    assert named == expected
    assert all(claims[code].endswith(", which is not known") for code in named)


@pytest.mark.parametrize("options", [SHARDED, SHARED], ids=["sharded", "shared"])
@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("", id="nothing"),
        pytest.param("import json, math\nhalf = math.sqrt(json.loads('3'))\n", id="Python's libraries"),
        pytest.param("import torchvision, timm, sklearn\nnet = timm.create_model('a')\n", id="others"),
        pytest.param(
            "class Loss(nn.MSELoss):\n    pass\n\n\nworth = Loss()(torch.ones(1), torch.ones(1))\n", id="subclass"
        ),
        pytest.param("import helper\nhelper.run()\n", id="another file"),
    ],
)
def test_where_all_are_known_nothing_is_named(setup: str, options: Options) -> None:
    claims = said(script(data=DATA + setup), options, {"helper.py": "def run():\n    return sum([1])\n"})
    assert not [message for message in claims.values() if "unless" in message]
    assert claims.keys() >= (OF_ALL_CALLS if options is SHARDED else OF_ALL_CALLS - OF_SHARDED_DATA)


@pytest.mark.parametrize(
    ("setup", "named"),
    [
        pytest.param("FAST = True\nif not FAST:\n    arena.tick()\n", False, id="turned off"),
        pytest.param("def tick(name):\n    if name == 'big':\n        arena.tick()\n\n\ntick('small')\n", False,
                     id="never"),
        pytest.param("def tick(name):\n    missing.__dict__[name]()\n\n\ndef made(name):\n    if name == 'big':\n"
                     "        tick(name)\n\n\nmade('small')\n", False, id="by a name that is not there"),
        pytest.param("def tick():\n    arena.tick()\n", False, id="nobody calls it"),
        pytest.param("import sys\nif sys.argv[1:]:\n    arena.tick()\n", True, id="perhaps"),
        pytest.param("def tick(name):\n    if name == 'big':\n        arena.tick()\n\n\ntick('small')\ntick('big')\n",
                     True, id="once"),
        pytest.param("import atexit\n\n\ndef tick():\n    print(arena.tick())\n\n\natexit.register(tick)\n", True,
                     id="a library calls it"),
    ],
)  # fmt: skip
def test_what_is_never_called_is_no_call_that_is_not_known(setup: str, named: bool) -> None:
    before = script(imports=f"import arena\n{IMPORTS}", data=DATA + setup)
    assert any("unless by" in message for message in said(before, SHARDED).values()) is named
    if not named:
        assert findings("NET01", before, Level.ADVICE) == []


@pytest.mark.parametrize(
    ("used", "named"),
    [
        pytest.param("parts = [part for part in scene.geometry.values()]\n", "`arena.load`", id="a part of a part"),
        pytest.param("scene.show()\n", "`arena.load`", id="a part"),
        pytest.param("parts = arena.joined(scene.geometry.values())\n", "`arena.load` and `arena.joined`", id="a call"),
        pytest.param("parts = [scene.geometry][0].values()\n", "`arena.load`", id="out of a list"),
    ],
)
def test_parts_of_what_a_call_gave_are_named_by_that_call(used: str, named: str) -> None:
    before = script(imports=f"import arena\n{IMPORTS}", data=f"{DATA}scene = arena.load()\n{used}")
    (one,) = findings("NET01", before, Level.ADVICE)
    assert one.message.startswith(f"it is not known whether {named} ask")


def test_what_a_run_decides_is_said_to_be_decided_there() -> None:
    (one,) = [one.message for one in conversion_of(script(), options=SHARED).of(Level.APPLIED) if one.code == "SHARE01"]
    assert one == (
        "forward passes of `model` are shared where the run's check finds that they can be; it says so where they "
        "cannot"
    )


def test_evaluations_are_not_said_to_be_shared() -> None:
    after = (
        "frozen = nn.Linear(4, 1)\nmodel.eval()\nfor x, y in loader:\n    total = frozen(x).sum() + model(x).sum()\n"
    )
    claim = said(script(after=after), SHARED)["EVAL01"]
    assert claim == "each rank evaluates as one process does, and no more is shared than what SHARE01 names"


def test_a_loader_that_is_left_alone_is_no_share() -> None:
    loader = "loader = DataLoader(data, batch_size=8, shuffle=True)  # distify: skip\n"
    claim = said(script(loader=loader), SHARDED)["SHARE01"]
    assert claim == "each rank trains on its own samples, but where READ01 says otherwise"
    assert said(script(), SHARDED)["SHARE01"] == "each rank trains on its own samples"


def epoch(loop: str) -> str:
    """One pass, as a function."""
    body = "".join(line.removeprefix("    ") for line in loop.splitlines(keepends=True)[1:])
    return f"def train():\n{indented(body)}"


def test_what_something_unknown_may_call_again_has_another_order_each_time() -> None:
    before = script(imports=f"import arena\n{IMPORTS}", loop=epoch(LOOP), after="arena.repeat(train, 9)\n")
    assert "    rt.reshuffle(loader)\n    for x, y in loader:\n" in converted(before)


def test_what_the_script_calls_once_has_an_order_of_its_own() -> None:
    after = converted(script(loop=epoch(LOOP), after="train()\n"))
    assert "set_epoch" not in after


PARTS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList()
        for size in {sizes}:
            self.layers.append({part})
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


"""


@pytest.mark.parametrize("sizes", ["[4, 4]", "data[0][0]"])
@pytest.mark.parametrize(
    ("part", "called", "told"),
    [
        ("nn.Linear(4, 4)", "layers", ""),
        ("Block()", "layers", ""),
        ("nn.ModuleList([nn.Linear(4, 4)])", "layers[0]", ""),
        ("arena.Layer(4)", "layers", "`arena.Layer`"),
        ("nn.Linear(4, 4)", "others", "`model.others[0]`"),
    ],
)
def test_a_part_of_a_wrapped_model_is_what_the_model_holds(sizes: str, part: str, called: str, told: str) -> None:
    """`model.layers[0](x)` after training."""
    block = "class Block(nn.Linear):\n    def __init__(self):\n        super().__init__(4, 4)\n\n\n"
    seen = script(
        imports=f"import arena\n{IMPORTS}{block}{PARTS.format(sizes=sizes, part=part)}",
        model="model = Net()\n", after=f"print(model.{called}[0](x).mean())\n",
    )  # fmt: skip
    conversion = conversion_of(seen, options=SHARDED)
    found = [one.message for one in conversion.of(Level.ADVICE) if "it is not known whether" in one.message]
    assert [f"it is not known whether {told} asks" in one for one in found] == [True] * bool(told)


def test_text_on_a_stream_is_printed() -> None:
    before = script(imports=f"import sys\n{IMPORTS}", after='sys.stdout.write("done")\n')
    assert findings("OUT01", before, Level.NOT_NEEDED) == []


@pytest.mark.parametrize("name", ["tqdm.std.tqdm", "tqdm.autonotebook.tqdm", "tqdm.tqdm_notebook", "tqdm.auto.trange"])
def test_a_bar_of_tqdm_is_one_wherever_it_is_taken_from(name: str) -> None:
    module, own = name.rsplit(".", 1)
    after = f"for number in {own}([3]):\n    pass\n"
    imports = f"{IMPORTS}from {module} import {own}\n"
    quiet = after.replace("[3]", "[3], disable=not rt.is_main_process()")
    assert converted(script(imports=imports, after=after)) == distributed(imports=imports, after=quiet)


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        ("from fastprogress import progress_bar\n", "numbers = list(progress_bar([3]))\n"),
        ("from alive_progress import alive_bar\n", "bar = alive_bar(3)\n"),
        ("import click\n", "bar = click.progressbar([3])\n"),
    ],
)
def test_bars_of_other_libraries_are_told(imports: str, line: str) -> None:
    before = script(imports=imports + IMPORTS, after=line)
    (one,) = findings("OUT02", before, Level.ADVICE)
    assert one.message.startswith("every rank draws the bar of `")
    assert findings("OUT02", before, Level.NOT_NEEDED) == []


def test_records_of_absl_are_rank_0s() -> None:
    imports = f"from absl import logging\n{IMPORTS}"
    before = script(imports=imports, loop=LOOP, after='logging.info("done")\n')
    assert "rt.rank_zero_logging()\n" in converted(before)
    assert SHUFFLED in converted(before)


def test_what_nothing_gives_a_value_to_asks_nobody() -> None:
    """A run that comes there ends, in the original, too."""
    augment = "augment = Augment(3) if len(data) > 100 else None\n"
    known = said(script(), SHARDED)
    assert said(script(data=DATA + augment), SHARDED) == known
    starred = script(imports=f"{IMPORTS}from arena import *\n", data=DATA + augment)
    assert said(starred, SHARDED) != known  # it may come from there


@pytest.mark.parametrize(
    "write",
    [
        'with open("a.log", "a") as file:\n    file.write(f"{epoch},{loss.item()}\\n")\n',
        'file = open("a.log", "w")\nfile.write(f"{epoch}\\n")\nfile.write("a/b.txt")\n',
        'import gzip\nfile = gzip.open("a.gz", "wt")\nfile.write(f"runs/{epoch}\\n")\n',
        'import csv\nrows = csv.writer(open("a.csv", "w"))\nrows.writerow(f"a/{epoch}")\n',
        'import pathlib\nfile = pathlib.Path("a.log").open("w")\nfile.write(f"\\033[1m{epoch}\\n")\n',
    ],
)
def test_a_line_that_goes_into_an_open_file_is_no_path(write: str) -> None:
    seen = conversion_of(script(after=write), options=SHARDED)
    assert [one.message for one in seen.of(Level.ADVICE) if one.code == "OUT03"] == []
    assert said(script(after=write), SHARDED)["SAVE01"] == "no checkpoint is written"


@pytest.mark.parametrize(("text", "is_path"), [(r'f"{epoch}\n"', False), (r'f"C:\\{epoch}"', True)])
def test_a_backslash_of_an_escape_is_none_of_a_path(text: str, is_path: bool) -> None:
    before = script(imports=f"import arena\n{IMPORTS}", after=f"arena.Log().write({text})\n")
    assert said(before, SHARDED)["SAVE01"].endswith("it is given a path, and not known") is is_path
