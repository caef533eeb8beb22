"""DEVICE01: how many GPUs there are, options that number one, and maps of layers to devices: a rank has one GPU."""

from __future__ import annotations

import pytest
from distify_codemods import Level, SourceFile

from tests.rules.scripts import IMPORTS, LOOP, MODEL, blocked, changes, conversion_of, converted, findings, script

COUNTED = "gpus = torch.cuda.device_count()\n"
OPTIONS = "import argparse\nparser = argparse.ArgumentParser()\n"


def moved_if(test: str) -> str:
    return LOOP.replace("        loss", f"        if {test}:\n            x = x.to('cuda')\n        loss", 1)


# ---- how many there are


@pytest.mark.parametrize(
    ("test", "count"),
    [
        ("gpus == 1", "gpus"),
        ("gpus > 1", "gpus"),
        ("1 < gpus", "gpus"),
        ("gpus != 1", "gpus"),
        ("gpus >= 4", "gpus"),
        ("gpus == 4", "gpus"),
        ("not gpus > 1", "gpus"),
        ("torch.cuda.is_available() and torch.cuda.device_count() == 1", "torch.cuda.device_count()"),
        ("max(1, gpus) == 1", "max(1, gpus)"),
        ("int(gpus) == 1", "int(gpus)"),
    ],
)
def test_a_test_of_the_number_goes_the_way_of_one_gpu(test: str, count: str) -> None:
    new = converted(script(setup=COUNTED, loop=moved_if(test)))
    assert f"if {test.replace(count, f'min({count}, 1)')}:" in new


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("n = torch.cuda.device_count() if torch.cuda.is_available() else 0\n", id="branch"),
        pytest.param("class Box: pass\nbox = Box()\nbox.n = torch.cuda.device_count()\nn = box.n\n", id="attribute"),
        pytest.param("def count():\n    return torch.cuda.device_count()\n\nn = count()\n", id="function"),
    ],
)
def test_the_number_is_followed(setup: str) -> None:
    assert "if min(n, 1) == 1:" in converted(script(setup=setup, loop=moved_if("n == 1")))


def test_a_test_that_is_kept_or_chooses_a_value_goes_by_one_gpu_too() -> None:
    after = "several = gpus > 1\nreal = model.module if gpus > 1 else model\n"
    model = f"{MODEL}if gpus > 1:\n    model = nn.DataParallel(model)\n"
    new = converted(script(setup=COUNTED, model=model, after=after))
    assert "several = min(gpus, 1) > 1\nreal = model.module if min(gpus, 1) > 1 else model\n" in new


@pytest.mark.parametrize(
    "test",
    [
        "gpus > 0", "gpus >= 1", "gpus == 0", "gpus != 0", "gpus", "gpus < limit", "len('ab') > 1", "0 < gpus < 2",
        "gpus * 8 > 16", "max(4, gpus) > 4",
    ],
)  # fmt: skip
def test_tests_that_one_gpu_passes_like_several_stay(test: str) -> None:
    before = script(setup=f"{COUNTED}limit = 3\n", loop=moved_if(test))
    assert changes("DEVICE01", before) == []


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("if gpus > 1:\n    print('several')\n", id="message"),
        pytest.param("if gpus < 2:\n    raise SystemExit('too few')\n", id="error"),
        pytest.param("assert gpus > 1\n", id="assertion"),
        pytest.param("if gpus > 1:\n    pass\nelse:\n    print('one')\n", id="nothing"),
    ],
)
def test_questions_about_the_machine_stay(setup: str) -> None:
    assert changes("DEVICE01", script(setup=COUNTED + setup)) == []


@pytest.mark.parametrize(
    "setup",
    [
        "device = 'cuda' if torch.cuda.device_count() > 1 else 'cpu'\n",
        "device = 'cpu' if torch.cuda.device_count() <= 1 else 'cuda'\n",
        "if torch.cuda.device_count() > 1:\n    device = 'cuda'\nelse:\n    device = 'cpu'\n",
    ],
)
def test_of_several_gpus_none_is_left_for_the_cpu(setup: str) -> None:
    assert setup in converted(script(setup=setup))


def test_a_number_that_is_reckoned_with_is_told() -> None:
    before = script(setup=f"{COUNTED}size = 8 * max(1, gpus)\n", loader="loader = DataLoader(data, batch_size=size)\n")
    (advice,) = findings("DEVICE01", before, Level.ADVICE)
    assert "`max(1, gpus)` is the number of GPUs of this machine" in advice.message
    assert not findings("DEVICE01", before, Level.NOT_NEEDED)


@pytest.mark.parametrize(
    "setup",
    [
        "print('GPUs: %d' % gpus)\n", "print(gpus * 2)\n", "line = f'{gpus * 2} GPUs'\n", "n = gpus\n", "n = 2 * 3\n",
    ],
)  # fmt: skip
def test_a_number_that_is_said_is_not_told(setup: str) -> None:
    before = script(setup=COUNTED + setup)
    assert not findings("DEVICE01", before, Level.ADVICE)
    assert findings("DEVICE01", before, Level.NOT_NEEDED)


def test_a_file_that_another_script_uses_keeps_its_test() -> None:
    body = "    if torch.cuda.device_count() == 1:\n        x = x.cuda()\n    return x\n"
    helper = f"import torch\n\n\ndef to_gpu(x):\n{body}"
    before = script(imports=f"{IMPORTS}from helper import to_gpu\n", setup="to_gpu(torch.ones(1))\n")
    other = SourceFile("test.py", b"from helper import to_gpu\nto_gpu(1)\n")
    found = conversion_of(before, files={"helper.py": helper}, twins=False, others=(other,)).of(Level.BLOCKING)
    assert [one.code for one in found] == ["DEVICE01"]


# ---- options that number a GPU


@pytest.mark.parametrize(
    "declared",
    [
        '"--gpu", type=int, default=0', '"--gpu", default=0', '"-g", "--gpu", type=int',
        '"--card", dest="gpu", type=int', '"--gpu", type=int, nargs="?"',
    ],
)  # fmt: skip
def test_an_option_that_is_a_number_is_the_ranks_own_gpu(declared: str) -> None:
    setup = f"{OPTIONS}parser.add_argument({declared})\nargs = parser.parse_args()\n"
    new = converted(script(setup=setup, model="model = nn.Linear(4, 1).to(args.gpu)\n"))
    assert "model = nn.Linear(4, 1).to(rt.device())\n" in new


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.zeros(3, device=args.gpu)", "torch.zeros(3, device=rt.device())"),
        ("torch.zeros(3).to(device=0)", "torch.zeros(3).to(device=rt.device())"),
        ("torch.device(args.gpu)", "rt.device()"),
        ("torch.zeros(3).to(int(args.name))", "torch.zeros(3).to(rt.device())"),
        ("torch.zeros(3).to(args.gpu if torch.cuda.is_available() else 'cpu')", "torch.zeros(3).to(rt.device())"),
    ],
)
def test_wherever_a_number_is_a_device(before: str, after: str) -> None:
    options = 'parser.add_argument("--gpu", type=int)\nparser.add_argument("--name")\nargs = parser.parse_args()\n'
    assert f"a = {after}\n" in converted(script(setup=f"{OPTIONS}{options}a = {before}\n"))


@pytest.mark.parametrize(
    "declared",
    [
        '"--gpu", type=str, default=0', '"--gpu", type=float', '"--gpu", type=int, nargs="+"',
        '"--gpu", action="store_true", default=0', '"--other", type=int', '"--gpu", default=True',
    ],
)  # fmt: skip
def test_an_option_that_may_be_anything_stays(declared: str) -> None:
    setup = f"{OPTIONS}parser.add_argument({declared})\nargs = parser.parse_args()\n"
    before = script(setup=setup, model="model = nn.Linear(4, 1).to(args.gpu)\n")
    after = converted(before)
    assert f"parser.add_argument({declared})\n" in after
    assert "model = nn.Linear(4, 1).to(rt.device_kind(args.gpu))\n" in after


@pytest.mark.parametrize("line", ["a = torch.zeros(3, device=-1)\n", "a = dict(size=0)\n", "a = torch.zeros(3, 0)\n"])
def test_numbers_that_are_no_gpu_stay(line: str) -> None:
    assert changes("DEVICE01", script(setup=line)) == []


# ---- maps of layers to devices

LOADED = "from transformers import AutoModel\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"auto"', '{"": rt.device()}'),
        ("'balanced'", '{"": rt.device()}'),
        ('{"": 0}', '{"": rt.device()}'),
        ("0", '{"": rt.device()}'),
        ("plan", '{"": rt.device()}'),
        ('"auto" if big else None', '{"": rt.device()} if big else None'),
    ],
)
def test_a_model_goes_to_the_ranks_gpu_as_a_whole(before: str, after: str) -> None:
    setup = f"big = bool(data)\nplan = 'auto'\nother = AutoModel.from_pretrained('x', device_map={before})\n"
    new = converted(script(imports=IMPORTS + LOADED, setup=setup.replace("bool(data)", "bool(input())")))
    assert f"other = AutoModel.from_pretrained('x', device_map={after})\n" in new


@pytest.mark.parametrize(
    "given",
    [
        'device_map="auto", max_memory={0: "4GB"}',
        'device_map={"encoder": 0, "decoder": 1}',
        "device_map=plan",
        '**{"device_map": "auto"}',
        "device_map=own_plan()",
    ],
)
def test_a_map_for_several_gpus_needs_a_person(given: str) -> None:
    setup = f"import json\nplan = json.loads('{{}}')\nother = AutoModel.from_pretrained('x', {given})\n"
    own = "def own_plan():\n    return {'a': 0}\n\n\n"
    assert "DEVICE01" in {code for code, _ in blocked(script(imports=IMPORTS + LOADED + own, setup=setup))}


OF_AN_OPTION = """\
parser.add_argument("--device", default="cuda")
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()
device = args.device if torch.cuda.is_available() else "cpu"
"""


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("args.device", "torch.ones(3).to(args.device)"),
        ("device", "torch.ones(3).to(args.device)"),
        ("device", "torch.ones(3).to(device)"),
        ("device", "for i in range(2):\n    torch.zeros(3, device=device)"),
    ],
)
def test_a_map_to_an_option_that_torch_takes_for_a_device_stays(given: str, used: str) -> None:
    """`--device auto` would end in torch's own error."""
    setup = f"{OPTIONS}{OF_AN_OPTION}other = AutoModel.from_pretrained('x', device_map={given})\n{used}\n"
    after = converted(script(imports=IMPORTS + LOADED, setup=setup))
    assert f"other = AutoModel.from_pretrained('x', device_map={given})\n" in after
    assert 'parser.add_argument("--device", default="cuda", type=rt.device_kind)\n' in after


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("args.device", "print(args.device)"),
        ("args.device", "if args.device != 'auto':\n    torch.ones(3).to(args.device)"),
        ("args.device", "moved = torch.ones(3).to(args.device) if args.device != 'auto' else 0"),
        ("args.device", "device = args.device if args.device != 'auto' else 'cpu'\ntorch.ones(3).to(device)"),
        ("device", "device = args.device if args.device != 'auto' else 'cpu'\ntorch.ones(3).to(device)"),
        ("args.device", "loaded = wrapper(device=args.device)"),
        ("args.gpu", "torch.ones(3).to(args.gpu)"),
    ],
)
def test_a_map_to_an_option_that_may_be_a_plan_needs_a_person(given: str, used: str) -> None:
    imports = f"{IMPORTS}{LOADED}from somewhere import wrapper\n"
    setup = f"{OPTIONS}{OF_AN_OPTION}other = AutoModel.from_pretrained('x', device_map={given})\n{used}\n"
    assert "DEVICE01" in {code for code, _ in blocked(script(imports=imports, setup=setup))}


@pytest.mark.parametrize("given", ["'cpu'", "None", "torch.device('cpu')", "'cuda'"])
def test_a_map_to_one_device_stays(given: str) -> None:
    setup = f"other = AutoModel.from_pretrained('x', device_map={given})\n"
    assert changes("DEVICE01", script(imports=IMPORTS + LOADED, setup=setup)) == []
