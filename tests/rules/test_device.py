"""DEVICE01: a GPU's number gives way to the rank's own GPU."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import (
    GROUP,
    IMPORTS,
    LOOP,
    MODEL,
    OPTIMIZER,
    SHUFFLED,
    blocked,
    changes,
    converted,
    distributed,
    findings,
    line_of,
    script,
)


def moving(loop: str, line: str = "x, y = x.to(device), y.to(device)") -> str:
    return loop.replace("        loss =", f"        {line}\n        loss =")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('torch.device("cuda:0" if torch.cuda.is_available() else "cpu")',
         'torch.device("cuda" if torch.cuda.is_available() else "cpu")'),
        ("torch.device('cuda:0')", "torch.device('cuda')"),
        ("'cuda:1'", "'cuda'"),
        ('"cuda:0" if torch.cuda.is_available() else "cpu"', '"cuda" if torch.cuda.is_available() else "cpu"'),
        ('torch.device("cuda:0"  # the first\n)', 'torch.device("cuda"  # the first\n)'),
    ],
)  # fmt: skip
def test_number_in_the_text(before: str, after: str) -> None:
    given = script(setup=f"device = {before}\n", loop=moving(LOOP))
    assert converted(given) == distributed(setup=f"device = {after}\n", loop=moving(SHUFFLED))


@pytest.mark.parametrize(
    "device",
    [
        'torch.device("cuda", 0)',
        "torch.device(0)",
        'torch.device("cuda", index=gpu)',
        'torch.device(f"cuda:{gpu}")',
        'torch.device("cuda:{}".format(gpu))',
        'torch.device("cuda:%d" % gpu)',
        'torch.device("cuda:" + str(gpu))',
        'torch.device("cuda" ":0")',
        'f"cuda:{gpu}"',
        '"cuda:{}".format(gpu)',
        '"cuda:%d" % gpu',
        '"cuda:" + str(gpu)',
        'torch.device(f"cuda:{gpu}" if torch.cuda.is_available() else "cpu")',
    ],
)
def test_number_that_is_computed(device: str) -> None:
    """However it is spelled, the rank's own GPU takes its place: `cuda`, or what the runtime says."""
    after = converted(script(setup=f"gpu = 0\ndevice = {device}\n", loop=moving(LOOP)))
    (line,) = [line for line in after.splitlines() if line.startswith("device = ")]
    assert "gpu" not in line
    assert ":" not in line
    assert "0" not in line
    assert "cuda" in line or "rt.device()" in line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (".cuda(0)", ".cuda()"),
        (".cuda(gpu)", ".cuda()"),
        (".cuda(device=gpu)", ".cuda()"),
        (".cuda(gpu, non_blocking=True)", ".cuda(non_blocking=True)"),
        (".cuda(non_blocking=True, device=0)", ".cuda(non_blocking=True)"),
        (".to(0)", ".to(rt.device())"),
        ('.to("cuda:0")', '.to("cuda")'),
        ('.to("cuda:0", non_blocking=True)', '.to("cuda", non_blocking=True)'),
    ],
)
def test_moves(before: str, after: str) -> None:
    given = script(setup="gpu = 0\n", loop=moving(LOOP, f"x, y = x{before}, y{before}"))
    assert converted(given) == distributed(setup="gpu = 0\n", loop=moving(SHUFFLED, f"x, y = x{after}, y{after}"))


def test_model_is_moved_before_it_is_wrapped() -> None:
    given = script(model="model = nn.Linear(4, 1).cuda(0)\n", loop=moving(LOOP, "x, y = x.cuda(0), y.cuda(0)"))
    assert converted(given) == distributed(
        model="model = nn.Linear(4, 1).cuda()\n", loop=moving(SHUFFLED, "x, y = x.cuda(), y.cuda()")
    )


def test_comments_below_stay() -> None:
    """Also where the last of them is as far to the right as what went; and nothing is put into what comes next."""
    given = """\
def prepare(args):
    {gone}
    # a link to the log
    # if not os.path.exists("log"):
        # os.symlink("runs", "log")

    # the options
    if args:
        print(args)


"""
    gone = 'if args:\n        os.environ["CUDA_VISIBLE_DEVICES"] = args\n'
    imports, after = f"import os\n{IMPORTS}", "prepare(None)\n"
    text = converted(script(imports=imports, setup=given.format(gone=gone), after=after))
    assert given.format(gone="").replace("    \n", "\n") in text, text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.set_device(0)\n", ""),
        ("torch.cuda.set_device(0); lr = 0.1\n", "lr = 0.1\n"),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n', ""),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0'; lr = 0.1  # rate\n", "lr = 0.1  # rate\n"),
        ('os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")\n', ""),
        ('os.environ.update(CUDA_VISIBLE_DEVICES="0")\n', ""),
        ("if torch.cuda.is_available(): torch.cuda.set_device(0)\n", ""),
    ],
)
def test_choice_of_a_gpu_goes(before: str, after: str) -> None:
    imports = f"import os\n{IMPORTS}"
    assert converted(script(imports=imports, setup=before)) == distributed(imports=imports, setup=after)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ('"2,3"', ["CUDA_VISIBLE_DEVICES=2,3 distify run ..."]),
        ('"1"', ["CUDA_VISIBLE_DEVICES=1 distify run ..."]),
        ('",".join(map(str, [2, 3]))', ["CUDA_VISIBLE_DEVICES=... distify run ..."]),
        ('"0"', []),
    ],
)
def test_which_gpus_are_chosen_is_told(value: str, told: list[str]) -> None:
    before = script(imports="import os\n" + IMPORTS, setup=f'os.environ["CUDA_VISIBLE_DEVICES"] = {value}\n')
    found = [one.message for one in findings("DEVICE01", before, Level.ADVICE) if "chooses its GPUs" in one.message]
    assert [one.rpartition("as in `")[2] for one in found] == [f"{one}`" for one in told]


READ = 'several = len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")) > 1\n'
INSTEAD = "SCRIPT_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(f'os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n{READ}', id="item"),
        pytest.param("os.environ['CUDA_VISIBLE_DEVICES'] = '0'\nn = os.getenv('CUDA_VISIBLE_DEVICES')\n", id="getenv"),
        pytest.param(f'os.putenv("CUDA_VISIBLE_DEVICES", "0")\n{READ}', id="call"),
        pytest.param(f'def asked():\n    {READ}\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\nasked()\n', id="function"),
        pytest.param(f'os.environ["CUDA_VISIBLE_DEVICES"] = "0"\nif several:\n    {READ}', id="read under a test"),
    ],
)
def test_a_list_of_gpus_that_is_read_again_gets_another_name(setup: str) -> None:
    """The script finds what it has set; nothing hides a rank's GPU."""
    new = converted(script(imports=f"import os\n{IMPORTS}", setup=f"several = bool(os.getenv('S'))\n{setup}"))
    assert setup.replace("CUDA_VISIBLE_DEVICES", INSTEAD) in new.replace(GROUP, "")


def test_only_what_is_read_behind_the_setting_gets_the_name() -> None:
    setup = f'before = os.environ.get("CUDA_VISIBLE_DEVICES")\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n{READ}'
    new = converted(script(imports=f"import os\n{IMPORTS}", setup=setup))
    assert 'before = os.environ.get("CUDA_VISIBLE_DEVICES")\n' in new
    assert new.count(INSTEAD) == 2


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param('if os.getenv("A"):\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n', id="set under a test"),
        pytest.param('os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")\n', id="set where it is not"),
        pytest.param('os.environ.update(CUDA_VISIBLE_DEVICES="0")\n', id="keyword"),
    ],
)
def test_a_list_that_may_be_another_is_left_to_a_person(setup: str) -> None:
    before = script(imports=f"import os\n{IMPORTS}", setup=setup + READ)
    assert {code for code, _ in blocked(before)} == {"DEVICE01"}


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(READ, id="read alone"),
        pytest.param('n = os.environ["HOME"]\nos.environ["HOME"] = "/"\n', id="another variable"),
        pytest.param('name = "CUDA_VISIBLE_DEVICES"\n', id="text"),
    ],
)
def test_environment_that_stays(setup: str) -> None:
    new = converted(script(imports=f"import os\n{IMPORTS}", setup=setup))
    assert setup in new


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    torch.cuda.set_device(0)\n    lr = 0.1\n", "    lr = 0.1\n"),
        ("    torch.cuda.set_device(0)\nelse:\n    lr = 0.1\n", "    pass\nelse:\n    lr = 0.1\n"),
    ],
)
def test_rest_of_a_block_stays(before: str, after: str) -> None:
    new = converted(script(setup=f"if torch.cuda.is_available():\n{before}"))
    assert new.replace(GROUP, "") == distributed(setup=f"if torch.cuda.is_available():\n{after}", group="")


def test_block_on_one_gpu() -> None:
    """`with torch.cuda.device(0):` around training must not hold every rank on GPU 0."""
    given = script(loop=f"with torch.cuda.device(0):\n    {LOOP.replace(chr(10), chr(10) + '    ').rstrip(' ')}")
    after = converted(given)
    assert "torch.cuda.device(0)" not in after


def test_alias_of_torch_device() -> None:
    imports = f"{IMPORTS}from torch import device as place\n"
    given = script(imports=imports, setup='device = place("cuda:0")\n', loop=moving(LOOP))
    assert converted(given) == distributed(imports=imports, setup='device = place("cuda")\n', loop=moving(SHUFFLED))


def test_map_of_a_checkpoint() -> None:
    given = script(after='model.load_state_dict(torch.load("a.pt", map_location={"cuda:1": "cuda:0"}))\n')
    after = 'model.module.load_state_dict(torch.load("a.pt", map_location=rt.map_location))\n'
    assert converted(given) == distributed(after=after)


def test_model_on_several_gpus() -> None:
    given = script(loop=moving(LOOP, 'x, y = x.to("cuda:0"), y.to("cuda:1")'))
    assert blocked(given) == {("DEVICE01", line_of(given, "cuda:0"))}


PLACED = """\
class Placing:
    kind = "cuda:2"

    def __init__(self, kind="cuda:0"):
        self.kind = kind

    def __call__(self, rows):
        return rows.to(self.kind)


"""


def test_a_default_that_every_call_overrides_is_no_gpu_of_the_script() -> None:
    setup = f'{PLACED}spare = "cuda:3"\nplace = Placing(kind="cuda:1")\n'
    given = script(setup=setup, loop=moving(LOOP, "x, y = place(x), y.to(place.kind)"))
    assert blocked(given) == set()
    assert "cuda:" not in converted(given)


@pytest.mark.parametrize(
    "setup",
    [
        'place, other = Placing(), Placing("cuda:1")',
        'place, other = Placing("cuda:1"), Placing()',
        'place, other = Placing("cuda:1"), Placing("cuda:0")',
        'rest = {}\nplace, other = Placing("cuda:1"), Placing(**rest)',
        'other = "cuda:0"\nplace, other = Placing("cuda:1"), lambda rows, to=other: rows.to(to)',
        'first, second = "cuda:0", "cuda:1"\nplace, other = Placing(first), Placing(second)',
    ],
)
def test_a_default_that_a_call_takes_is(setup: str) -> None:
    given = script(setup=f"{PLACED}{setup}\n", loop=moving(LOOP, "x, y = place(x), other(y)"))
    assert {code for code, _ in blocked(given)} == {"DEVICE01"}


OWN = """\
class Box:
    def cuda(self, number):
        return number

    def set_device(self, number):
        return number


def device(name, number):
    return number


Box().cuda(1)
Box().set_device(1)
device("cuda", 0)
"""


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n', id="cuda"),
        pytest.param('device = torch.device("cpu")\n', id="cpu"),
        pytest.param('device = torch.device(type="cuda")\n', id="type"),
        pytest.param('name = "cuda:0 or cpu"\nother = "cuda:"\nthird = "xcuda:0"\n', id="other text"),
        pytest.param('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n', id="other variable"),
        pytest.param('os = {}\nos["CUDA_VISIBLE_DEVICES"] = "0"\n', id="own dictionary"),
        pytest.param(OWN, id="own class and function"),
        pytest.param("number = torch.cuda.device_count()\n", id="count"),
    ],
)
def test_left_alone(setup: str) -> None:
    given = script(imports=f"import os\n{IMPORTS}", setup=setup)
    assert changes("DEVICE01", given) == []
    assert setup in converted(given).replace(GROUP, "")


@pytest.mark.parametrize(
    "move", [".cuda()", ".cuda(non_blocking=True)", ".to(torch.float32)", ".to(device)", ".to('cuda')"]
)
def test_moves_left_alone(move: str) -> None:
    setup = "device = 'cpu'\n"
    given = script(setup=setup, loop=moving(LOOP, f"x, y = x{move}, y{move}"))
    assert converted(given) == distributed(setup=setup, loop=moving(SHUFFLED, f"x, y = x{move}, y{move}"))


def test_comparison_follows_the_device() -> None:
    setup = 'device = "cuda:0" if torch.cuda.is_available() else "cpu"\nfast = device == "cuda:0"\n'
    given = script(setup=setup, loop=moving(LOOP))
    assert converted(given) == distributed(setup=setup.replace(":0", ""), loop=moving(SHUFFLED))


def test_group_comes_before_a_device_is_used() -> None:
    model = 'weights = torch.ones(3, device="cuda:0")\n'
    given = script(setup=model, optimizer=OPTIMIZER)
    assert converted(given) == distributed(setup=f'{GROUP}weights = torch.ones(3, device="cuda")\n', group="")


# ---- a device that is named on the command line, or elsewhere

OPTIONS = "import argparse\n\n"
PARSER = "parser = argparse.ArgumentParser()\n"
PARSED = "args = parser.parse_args()\n"
TO = "model = nn.Linear(4, 1).to(args.device)\n"


def test_an_option_in_whose_place_the_script_may_put_another_device() -> None:
    fallback = 'if not torch.cuda.is_available():\n    args.device = "cpu"\n'
    option = 'parser.add_argument("--device", default="cuda")\n'
    model = "model = nn.Linear(4, 1).to(torch.device(args.device))\n"
    given = script(imports=OPTIONS + IMPORTS, setup=f"{PARSER}{option}{PARSED}{fallback}", model=model)
    after = converted(given)
    assert 'parser.add_argument("--device", default="cuda", type=rt.device_kind)\n' in after
    assert fallback in after


@pytest.mark.parametrize(
    ("more", "declared"),
    [
        pytest.param({"ip": "127.0.0.1"}, False, id="an address"),
        pytest.param({"file": "runs/a", "device2": "cuda:1"}, False, id="a path"),
        pytest.param({"file": "a.json"}, False, id="a file"),
        pytest.param({}, True, id="the device alone"),
        pytest.param({"second": "cuda:1"}, True, id="two devices"),
        pytest.param({"second": "1"}, True, id="a number"),
    ],
)
def test_options_that_are_no_devices_stay_as_they_are(more: dict[str, str], declared: bool) -> None:
    """What is one of all options of the command line names a device nevertheless."""
    options = {"device": "cuda", **more}
    lines = "".join(f'parser.add_argument("--{name}", default="{one}")\n' for name, one in options.items())
    held = f"held = [{', '.join(f'args.{name}' for name in options)}]\n"
    model = "model = nn.Linear(4, 1).to(torch.device(held[len(held) - 1]))\n"
    setup = f"{PARSER}{lines}{PARSED}{held}"
    after = converted(script(imports=OPTIONS + IMPORTS, setup=setup, model=model))
    assert after.count("type=rt.device_kind") == (len(options) if declared else 0)
    assert after.count("torch.device(rt.device_kind(") == (not declared)


@pytest.mark.parametrize("other", ["class args:\n    device = 'cpu'\n", "args = torch.load('args.pt')\n"])
def test_an_attribute_of_something_else_is_no_option(other: str) -> None:
    option = 'parser.add_argument("--device", default="cuda")\nparsed = parser.parse_args()\n'
    model = "model = nn.Linear(4, 1).to(torch.device(args.device))\n"
    given = script(imports=OPTIONS + IMPORTS, setup=f"{PARSER}{option}{other}", model=model)
    assert "device_kind" not in converted(given)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"--device", default="cuda:0"', '"--device", default="cuda", type=rt.device_kind'),
        ('"--device", default="cuda"', '"--device", default="cuda", type=rt.device_kind'),
        ('"--device"', '"--device", type=rt.device_kind'),
        ('"-d", "--device", type=str, default="cuda"', '"-d", "--device", type=rt.device_kind, default="cuda"'),
        ('"--device", type=torch.device', '"--device", type=lambda name: torch.device(rt.device_kind(name))'),
        (
            '"--device", default="cuda:0", choices=["cpu", "cuda:0", "cuda:1"]',
            '"--device", default="cuda", choices=["cpu", "cuda", "cuda"], type=rt.device_kind',
        ),
        ('"--gpu", dest="device", default="cuda"', '"--gpu", dest="device", default="cuda", type=rt.device_kind'),
    ],
)
@pytest.mark.parametrize("model", [TO, MODEL.replace("(4, 1)", "(4, 1, device=args.device)"),
                                   "model = nn.Linear(4, 1).to(torch.device(args.device))\n"])  # fmt: skip
def test_a_device_on_the_command_line_is_the_ranks_own(before: str, after: str, model: str) -> None:
    given = script(imports=OPTIONS + IMPORTS, setup=f"{PARSER}parser.add_argument({before})\n{PARSED}", model=model)
    new = converted(given)
    assert f"parser.add_argument({after})\n" in new
    assert model in new


@pytest.mark.parametrize(
    "option",
    [
        pytest.param('"--device", choices=["cpu", "cuda"], default="cuda"', id="no number is taken"),
        pytest.param('"--rows", default="cuda"', id="something else"),
    ],
)
def test_an_option_that_takes_no_number_stays(option: str) -> None:
    line = f"parser.add_argument({option})\n"
    model = TO if "device" in option else "model = nn.Linear(4, 1)\nrows = args.rows\n"
    before = script(imports=OPTIONS + IMPORTS, setup=f"{PARSER}{line}{PARSED}", model=model)
    assert line in converted(before)
    assert len(findings("DEVICE01", before, Level.NOT_NEEDED)) == 1


@pytest.mark.parametrize(
    ("setup", "model"),
    [
        pytest.param('import yaml\nsettings = yaml.safe_load(open("a.yml"))\n',
                     'model = nn.Linear(4, 1).to(settings["device"])\n', id="file"),
        pytest.param('import os\n', 'model = nn.Linear(4, 1).to(os.environ["DEVICE"])\n', id="environment"),
        pytest.param('import json\n', 'model = nn.Linear(4, 1).to(torch.device(json.loads(text)[0]))\n', id="json"),
        pytest.param("from omegaconf import OmegaConf\nsettings = OmegaConf.load('a.yml')\n",
                     'model = nn.Linear(4, 1).to(settings.training.get("device", "cuda"))\n', id="or a default"),
        pytest.param("from omegaconf import OmegaConf\nsettings = OmegaConf.load('a.yml')\n",
                     "device = settings.training.get('device')\nmodel = nn.Linear(4, 1).to(device)\n", id="a name"),
        pytest.param("from fvcore.common.config import CfgNode\nsettings = CfgNode()\n",
                     "model = nn.Linear(4, 1).to(settings.MODEL.DEVICE)\n", id="a library's settings"),
        pytest.param("import somewhere\nsettings = somewhere.settings()\n",
                     "model = nn.Linear(4, 1).to(torch.device(settings.device))\n", id="of an unknown library"),
        pytest.param(f'{PARSER}parser.add_argument("--device", type=kind)\n{PARSED}', TO, id="a type of its own"),
        pytest.param(f"{PARSER}add(parser)\n{PARSED}", TO, id="an option that is not seen"),
    ],
)  # fmt: skip
def test_a_device_that_is_not_seen_is_the_ranks_own_where_it_is_used(setup: str, model: str) -> None:
    imports = f"{OPTIONS}from missing import add, kind\n{IMPORTS}"
    before = script(imports=imports, setup=setup, model=model)
    assert findings("DEVICE01", before, Level.NOT_NEEDED) == []
    assert findings("DEVICE01", before, Level.ADVICE) == []
    after = converted(before)
    assert after.count("rt.device_kind(") == 1
    (one,) = findings("DEVICE01", before, Level.APPLIED)
    assert one.message.endswith("means the rank's own GPU, whatever its number")


@pytest.mark.parametrize(
    "line",
    [
        "x = x.to(y.device)",
        "x = x.to(y)",
        "z = torch.ones(3, device=x.device)",
        "x = x.to(float)",
        "x = x.to(next(model.parameters()).device)",
        "x = x.to(backbone.device)",
    ],
)
def test_a_device_of_a_tensor_is_seen(line: str) -> None:
    before = script(loop=moving(LOOP, line), setup="import timm\nbackbone = timm.create_model('resnet18')\n")
    assert findings("DEVICE01", before, Level.ADVICE) == []
    assert len(findings("DEVICE01", before, Level.NOT_NEEDED)) == 1


WITH_BUFFERS = """\
class Net(nn.Module):
    def __init__(self, settings=None):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.register_buffer("steps", torch.arange(4.0))
        self.register_buffer(name="more", tensor=None, persistent=False)

    def forward(self, x):
        {line}
        return self.layer(x + steps)


model = Net()
"""


@pytest.mark.parametrize(
    "line",
    [
        "steps = torch.arange(4, device=self.steps.device)",
        "steps = self.layer.bias.new_ones(4).to(self.more.device)",
        "device = self.steps.device if hasattr(self, 'steps') else None; steps = torch.arange(4, device=device)",
        "kept = self.steps; steps = torch.arange(4, device=kept.device)",
        "steps = torch.arange(4, device=self.layer.weight.device)",
    ],
)
def test_a_device_of_a_buffer_is_that_of_a_tensor(line: str) -> None:
    """Which is where the model is put, and has its number: there is nothing to take off."""
    before = script(model=WITH_BUFFERS.format(line=line))
    assert "device_kind" not in converted(before)
    assert findings("DEVICE01", before, Level.APPLIED) == []


@pytest.mark.parametrize("device", ["self.device", "self.other.device", "self.steps_of.device"])
def test_a_device_that_an_object_is_never_seen_to_get_may_be_a_name(device: str) -> None:
    line = f"steps = torch.arange(4, device={device})"
    assert f"device=rt.device_kind({device})" in converted(script(model=WITH_BUFFERS.format(line=line)))


@pytest.mark.parametrize(
    "device",
    [
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        '"cuda" if torch.cuda.is_available() else "cpu"',
        'torch.device("cuda") if settings.uses_gpu else torch.device("cpu")',
        'torch.device("cuda" if settings["gpu"] else "cpu")',
    ],
)
def test_what_a_device_is_chosen_by_names_none(device: str) -> None:
    setup = f"import yaml\nsettings = yaml.safe_load(text)\ndevice = {device}\n"
    before = script(setup=setup, model=f"model = nn.Linear(4, 1).to({device})\n", loop=moving(LOOP))
    assert findings("DEVICE01", before, Level.ADVICE) == []
    assert len(findings("DEVICE01", before, Level.NOT_NEEDED)) == 1


def test_one_of_two_devices_that_is_not_seen_is_the_ranks_own() -> None:
    setup = "import yaml\nsettings = yaml.safe_load(text)\n"
    model = 'model = nn.Linear(4, 1).to(settings["device"] if torch.cuda.is_available() else "cpu")\n'
    used = '.to(rt.device_kind(settings["device"] if torch.cuda.is_available() else "cpu"))'
    assert used in converted(script(setup=setup, model=model))


CHOSEN = (
    'parser.add_argument("--gpu", type=int, default=0)\nparser.add_argument("--cpu", action="store_true")\n'
    "args = parser.parse_args()\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'torch.device(args.gpu if args.gpu >= 0 else "cpu")',
            'torch.device(rt.device() if args.gpu >= 0 else "cpu")',
        ),
        ('torch.device("cpu" if args.cpu else 0)', 'torch.device("cpu" if args.cpu else rt.device())'),
        (
            'torch.device(args.gpu if torch.cuda.is_available() and not args.cpu else "cpu")',
            'torch.device(rt.device() if torch.cuda.is_available() and not args.cpu else "cpu")',
        ),
        ('torch.device(args.gpu if torch.cuda.is_available() else "cpu")', "rt.device()"),
        ("torch.device(args.gpu if args.gpu >= 0 else 0)", "rt.device()"),
        ("torch.device(args.gpu)", "rt.device()"),
    ],
)
def test_who_starts_it_may_choose_the_cpu(before: str, after: str) -> None:
    """The number is the rank's own; what an option puts in its place stays, as wherever there is none."""
    given = script(
        imports=OPTIONS + IMPORTS, setup=f"{PARSER}{CHOSEN}device = {before}\n", model=f"{MODEL}model.to(device)\n"
    )
    (line,) = [line for line in converted(given).splitlines() if line.startswith("device = ")]
    assert line == f"device = {after}"


IN_A_LOOP = """\
def name_of(numbers):
    name = "cuda:"
    for number in numbers:
        name = name + number
    return name


import sys
device = name_of(sys.argv[1])
"""


@pytest.mark.parametrize(
    "setup",
    [
        IN_A_LOOP,
        IN_A_LOOP.replace("name = name + number", "name += number"),
        'import sys\nkind = "cuda"\ndevice = f"{kind}:{sys.argv[1]}"\n',
        'import sys\nkind = "cuda"\ndevice = kind + ":" + sys.argv[1]\n',
    ],
)
def test_name_that_is_put_together_in_steps(setup: str) -> None:
    """It is made where it stands; where it is used it means the rank's own GPU."""
    given = script(setup=setup, model="model = nn.Linear(4, 1).to(device)\n", loop=moving(LOOP))
    after = converted(given)
    assert "model = nn.Linear(4, 1).to(rt.device_kind(device))\n" in after
    assert "x, y = x.to(rt.device_kind(device)), y.to(rt.device_kind(device))\n" in after
    assert not findings("DEVICE01", given, Level.NOT_NEEDED)


@pytest.mark.parametrize(
    "setup",
    [
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n',
        'import sys\ndevice = "cuda:" + sys.argv[1]\n',  # replaced where it stands
        'device = "cuda"\nprint("on " + device)\n',
        'import sys\nif sys.argv[1].startswith("cuda:"):\n    print("a GPU")\ndevice = "cpu"\n',
    ],
)
def test_name_that_is_seen_stays_where_it_is_used(setup: str) -> None:
    given = script(setup=setup, model="model = nn.Linear(4, 1).to(device)\n", loop=moving(LOOP))
    assert "device_kind" not in converted(given)


@pytest.mark.parametrize(
    ("argument", "unseen"),
    [("names[0]", True), ("x.dtype", False), ("x.device", False), ('"cpu"', False), ("torch.float32", False)],
)
def test_device_of_which_nothing_is_seen_is_no_known_one(argument: str, unseen: bool) -> None:
    setup = 'import socket\nnames = "".join(socket.gethostname())\n'
    given = script(setup=setup, loop=moving(LOOP, f"x = x.to({argument})"))
    (said,) = findings("DEVICE01", given, Level.NOT_NEEDED)
    assert ("unless by `names[0]`" in said.message) is unseen


@pytest.mark.parametrize("given", ["x.device", "y", "zeros", "zeros.device"])
def test_a_tensor_on_such_a_device_is_no_name(given: str) -> None:
    setup = f"{IN_A_LOOP}zeros = torch.zeros(1).to(device)\n"
    lines = f"x, y = x.to(device), y.to(device)\n        x = x + torch.ones(4).to({given})"
    after = converted(script(setup=setup, loop=moving(LOOP, lines)))
    assert f".to({given})" in after
    assert "x.to(rt.device_kind(device))" in after


def test_a_setting_that_is_given_such_a_name() -> None:
    setup = f"import argparse\n{IN_A_LOOP}args = argparse.ArgumentParser().parse_args()\nargs.device = device\n"
    given = script(setup=setup, loop=moving(LOOP, "x, y = x.to(args.device), y.to(args.device)"))
    assert "x, y = x.to(rt.device_kind(args.device)), y.to(rt.device_kind(args.device))\n" in converted(given)


MAIN = """\
    model = nn.Linear(4, 1).to({0})
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to({0})), y.to({0}))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
FIELD = "@dataclass\nclass Args:\n    device: str = 'cuda:0'\n\n\n"
CLICK = "@click.command()\n@click.option('--device', default='cuda:0')\ndef main(device):\n"
ABSL = "FLAGS = flags.FLAGS\nflags.DEFINE_string('device', 'cuda:0', '')\n\n\ndef main(argv):\n"
COPY = "class Config:\n    def __init__(self, given):\n        self.__dict__.update(vars(given))\n\n\ndef main(args):\n"
COPIED = f"{PARSER}parser.add_argument('--device', default='cuda:0')\nmain(Config(parser.parse_args()))\n"


@pytest.mark.parametrize(
    ("imports", "head", "device", "call"),
    [
        pytest.param("import click\n", CLICK, "device", "main()\n", id="click"),
        pytest.param("import typer\n", "def main(device: str = 'cuda:0'):\n", "device", "typer.run(main)\n",
                     id="typer"),
        pytest.param("import fire\n", "def main(device='cuda:0'):\n", "device", "fire.Fire(main)\n", id="fire"),
        pytest.param("import tyro\nfrom dataclasses import dataclass\n", f"{FIELD}def main(args):\n", "args.device",
                     "main(tyro.cli(Args))\n", id="tyro"),
        pytest.param("from transformers import HfArgumentParser\nfrom dataclasses import dataclass\n",
                     f"{FIELD}def main(args):\n", "args.device",
                     "main(HfArgumentParser(Args).parse_args_into_dataclasses()[0])\n", id="transformers"),
        pytest.param("from absl import app, flags\n", ABSL, "FLAGS.device", "app.run(main)\n", id="absl"),
        pytest.param("import hydra\n", "@hydra.main(config_path='c', config_name='c')\ndef main(cfg):\n", "cfg.device",
                     "main()\n", id="hydra"),
    ],
)  # fmt: skip
def test_a_device_that_some_parser_reads_is_the_ranks_own(imports: str, head: str, device: str, call: str) -> None:
    before = f"{imports}{IMPORTS}\n\n{head}{MAIN.format(device)}\n\n{call}"
    after = converted(before)
    own = f"rt.device_kind({device})"
    assert f"model = nn.Linear(4, 1).to({own})\n" in after
    assert f"(model(x.to({own})), y.to({own}))\n" in after
    assert findings("DEVICE01", before, Level.ADVICE) == []


def test_an_option_that_is_copied_is_the_ranks_own_where_it_is_declared() -> None:
    before = f"{OPTIONS}{IMPORTS}\n\n{COPY}{MAIN.format('args.device')}\n\n{COPIED}"
    after = converted(before)
    assert "parser.add_argument('--device', default='cuda', type=rt.device_kind)\n" in after
    assert "model = nn.Linear(4, 1).to(args.device)\n" in after
    assert findings("DEVICE01", before, Level.ADVICE) == []


NUMBERS = f"{PARSER}parser.add_argument('--gpus', default='0')\n{PARSED}"


@pytest.mark.parametrize(
    ("filled", "used"),
    [
        ('gpus = []\nfor one in args.gpus.split(","):\n    gpus.append(int(one))\n', "gpus[0]"),
        (
            'gpus = []\nfor one in args.gpus.split(","):\n    i = int(one)\n    if i >= 0:\n        gpus.append(i)\n',
            "gpus[0]",
        ),
        ('gpus = []\nfor one in args.gpus.split(","):\n    gpus += [int(one)]\n', "gpus[0]"),
        ('gpus = [int(one) for one in args.gpus.split(",")]\n', "gpus[0]"),
        ('gpus = []\ngpus.extend(int(one) for one in args.gpus.split(","))\n', "gpus[0]"),
        ('gpus = list(map(int, args.gpus.split(",")))\n', "gpus[0]"),
        (
            'texts = args.gpus.split(",")\nargs.gpus = []\nfor one in texts:\n    args.gpus.append(int(one))\n',
            "args.gpus[0]",
        ),
        ('gpus = {"first": [int(args.gpus)]}\n', 'gpus["first"][0]'),
        ("def read(given):\n    return [int(one) for one in given]\n\n\ngpu, *_ = read(args.gpus)\n", "gpu"),
        ("gpu = int(args.gpus)\n", "gpu"),
    ],
)
@pytest.mark.parametrize("move", ["model.to({})", "model.to(device={})", "torch.zeros(1, device={})"])
def test_a_number_that_is_read_out_of_a_text_is_the_ranks_own_gpu(filled: str, used: str, move: str) -> None:
    """However the list is filled that holds it."""
    given = script(imports=OPTIONS + IMPORTS, setup=NUMBERS + filled, model=f"{MODEL}{move.format(used)}\n")
    assert f"{move.format(f'rt.device_kind({used})')}\n" in converted(given)
    assert findings("DEVICE01", given, Level.NOT_NEEDED) == []


def test_a_number_that_a_function_is_given_is_the_ranks_own_gpu() -> None:
    placing = "def place(net, gpus=[]):\n    if len(gpus) > 0:\n        net.to(gpus[0])\n    return net\n\n\n"
    filled = 'gpus = []\nfor one in args.gpus.split(","):\n    gpus.append(int(one))\n'
    given = script(
        imports=OPTIONS + IMPORTS, setup=placing + NUMBERS + filled, model="model = place(nn.Linear(4, 1), gpus)\n"
    )
    assert "        net.to(rt.device_kind(gpus[0]))\n" in converted(given)


@pytest.mark.parametrize("move", ["model.cuda({})", 'model.to(torch.device("cuda", {}))'])
def test_such_a_number_goes_where_a_gpu_is_named_by_nothing_else(move: str) -> None:
    filled = 'gpus = []\nfor one in args.gpus.split(","):\n    gpus.append(int(one))\n'
    given = script(imports=OPTIONS + IMPORTS, setup=NUMBERS + filled, model=f"{MODEL}{move.format('gpus[0]')}\n")
    assert "gpus[0]" not in converted(given)


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        pytest.param("kinds = []\nfor _ in 'ab':\n    kinds.append(torch.half)\n", "x = x.to(kinds[0])", id="types"),
        pytest.param("sizes = [int(one) for one in args.gpus]\n", "x = x + torch.zeros(sizes[0])", id="a size"),
        pytest.param("sizes = [int(one) for one in args.gpus]\n", "x = x.view(-1, sizes[0] * 4)", id="a shape"),
        pytest.param("rates = [float(one) for one in args.gpus]\n", "x = x.to(y.dtype) * rates[0]", id="a factor"),
        pytest.param("gpus = [int(one) for one in args.gpus]\n", "x = x.to('cuda' if gpus else 'cpu')", id="a test"),
        pytest.param("gpus = [int(one) for one in args.gpus]\nzeros = torch.zeros(gpus[0])\n", "x = x.to(zeros)",
                     id="a tensor"),
    ],
)  # fmt: skip
def test_numbers_that_are_read_out_of_a_text_and_name_no_gpu_stay(setup: str, line: str) -> None:
    given = script(imports=OPTIONS + IMPORTS, setup=NUMBERS + setup, loop=moving(LOOP, line))
    assert changes("DEVICE01", given) == []
    assert line in converted(given)


def test_the_default_device_of_the_command_line_is_the_ranks_own() -> None:
    setup = (
        f'{PARSER}parser.add_argument("--device", default="cuda:0")\n{PARSED}torch.set_default_device(args.device)\n'
    )
    after = converted(script(imports=OPTIONS + IMPORTS, setup=setup))
    assert 'parser.add_argument("--device", default="cuda", type=rt.device_kind)\n' in after


def test_a_device_of_which_nothing_is_seen_is_not_claimed() -> None:
    setup = 'import socket\nnames = "".join(socket.gethostname())\nzeros = torch.zeros(1, device="cuda:0")\n'
    (said,) = findings("DEVICE01", script(setup=setup, loop=moving(LOOP, "x = x.to(names[0])")), Level.APPLIED)
    assert said.message.startswith("device numbers mean the rank's own GPU, unless by `names[0]` at train.py:")


NAMED = "no GPU is named by its number; `cuda` means the rank's own, which the process group sets"


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("", "no device is named: what no library moves to a GPU, each rank computes on the CPU"),
        ("where = 'cpu'\n", "no device is named: what no library moves to a GPU, each rank computes on the CPU"),
        ("device = torch.device('cuda')\n", NAMED),
        ("part = 'cu'\nplace = f'cuda{part}'\n", NAMED),
    ],
)
def test_where_a_script_computes_that_names_no_gpu_by_its_number(setup: str, said: str) -> None:
    (found,) = findings("DEVICE01", script(setup=setup), Level.NOT_NEEDED)
    assert found.message == said
