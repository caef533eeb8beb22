"""Where files are changed in their place, other scripts of the project that use them go on working."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level, Outcome, SourceFile

from tests.rules.projects import TRAIN
from tests.rules.scripts import IMPORTS, LOOP, WRAP, conversion_of, indented, script

SAMPLE = "def sample(model, x):\n    with torch.no_grad():\n        return model(x)\n"
HELPER = f"import torch\n\n\n{SAMPLE}\n\ndef unused(model):\n    return 1\n"
BEFORE = script(imports=f"from helper import sample\n{IMPORTS}", after="sample(model, torch.ones(1, 4))\n")
OTHER = "from helper import sample\nimport torch\nprint(sample(torch.nn.Linear(4, 1), torch.ones(1, 4)))\n"


def in_place(before: str, files: dict[str, str], others: dict[str, str], twins: bool = False) -> Conversion:
    everything = {"train.py": before, **files, **others}
    found = tuple(SourceFile(path, text.encode()) for path, text in everything.items())
    return conversion_of(before, files=files, twins=twins, others=found)


def written(conversion: Conversion) -> dict[str, str]:
    assert conversion.outcome is Outcome.CONVERTED, conversion.of(Level.BLOCKING)
    return {file.path: file.after.decode() for file in conversion.files}


@pytest.mark.parametrize(
    ("other", "path"),
    [
        pytest.param(OTHER, "generate.py", id="name"),
        pytest.param("import helper\nhelper.sample(1, 2)\n", "generate.py", id="file"),
        pytest.param("import helper as h\nh.sample(1, 2)\n", "generate.py", id="file by another name"),
        pytest.param("def late():\n    from helper import sample\n    sample(1)\n", "generate.py", id="in a function"),
        pytest.param("from helper import *\nsample(1, 2)\n", "generate.py", id="everything"),
        pytest.param("from helper import sample\n", "tools/generate.py", id="from a folder below"),
        pytest.param("from ..helper import sample\n", "tools/generate.py", id="relative"),
    ],
)
def test_what_another_script_uses_is_right_for_a_plain_model_too(other: str, path: str) -> None:
    new = written(in_place(BEFORE, {"helper.py": HELPER}, {path: other}))
    assert "        return rt.unwrap(model)(x)\n" in new["helper.py"]
    assert WRAP in new["train.py"]


def test_also_by_way_of_another_file() -> None:
    files = {
        "helper.py": HELPER,
        "between.py": "from helper import sample\n\n\ndef show(m):\n    return sample(m, 1)\n",
    }
    before = BEFORE.replace("from helper", "from between import show\nfrom helper")
    new = written(in_place(before, files, {"a.py": "from between import show\n"}))
    assert "rt.unwrap(model)(x)" in new["helper.py"]


@pytest.mark.parametrize(
    ("path", "other"),
    [
        pytest.param("generate.py", "from helper import unused\n", id="another function of the file"),
        pytest.param("generate.py", "from others import sample\n", id="another file"),
        pytest.param("generate.py", "import distify_runtime as rt\nfrom helper import sample\n", id="converted"),
        pytest.param("generate.py", "print 'helper'\nfrom helper import sample\n", id="of another Python"),
        pytest.param("generate.py", "text = 'from helper import sample'\n", id="text"),
    ],
)
def test_what_nobody_else_uses_stays_as_it_is(path: str, other: str) -> None:
    new = written(in_place(BEFORE, {"helper.py": HELPER}, {path: other}))
    assert "        return model.module(x)\n" in new["helper.py"]


def test_twins_are_nobody_elses() -> None:
    new = written(in_place(BEFORE, {"helper.py": HELPER}, {"generate.py": OTHER}, twins=True))
    assert "return model.module(x)" in new["helper.py"]


def test_paths_are_told_apart_by_folder() -> None:
    other = {"sub/helper.py": HELPER, "sub/generate.py": "from .helper import sample\n"}
    new = written(in_place(BEFORE, {"helper.py": HELPER}, other))
    assert "return model.module(x)" in new["helper.py"]
    assert "sub/helper.py" not in new


@pytest.mark.parametrize(
    ("folder", "beside", "is_user"),
    [
        pytest.param("../b/", {"../b/helper.py": HELPER}, False, id="another project, with a file of that name"),
        pytest.param("../b/", {"../b/helper/__init__.py": HELPER}, False, id="another project, with such a package"),
        pytest.param("../b/", {}, True, id="another folder, without one"),
        pytest.param("../b/", {"../b/c/helper.py": HELPER}, True, id="another folder, with one further below"),
        pytest.param("tools/", {"tools/helper.py": HELPER}, True, id="a folder below, which may be started from here"),
    ],
)
def test_what_lies_beside_the_other_script_is_meant_first(folder: str, beside: dict[str, str], is_user: bool) -> None:
    new = written(in_place(BEFORE, {"helper.py": HELPER}, {**beside, f"{folder}generate.py": OTHER}))
    assert ("rt.unwrap(model)(x)" in new["helper.py"]) is is_user


def test_a_function_of_the_script_itself() -> None:
    """`from train import sample`; what runs in the script alone is its own."""
    parts = script(imports="", after="sample(model, torch.ones(1, 4))\nprint(sum(model(x) for x, _ in [data[0]]))\n")
    before = f"{IMPORTS}\n\n{SAMPLE}\n\nif __name__ == '__main__':\n{indented(parts.lstrip())}"
    new = written(in_place(before, {}, {"generate.py": "from train import sample\n"}))["train.py"]
    assert "        return rt.unwrap(model)(x)\n" in new
    assert "    print(sum(model.module(x) for" in new
    assert f"    {WRAP}" in new


def test_passes_over_loaders_that_are_not_sharded() -> None:
    before = script(imports=f"from helper import train\n{IMPORTS}", loop="train(model, optimizer, loader)\n")
    helper = {"helper.py": f"from torch import nn\n\n\n{TRAIN}"}
    other = {"a.py": "import helper\nhelper.train(1, 2, 3)\n"}
    assert "        rt.set_epoch(loader, epoch)\n" in written(in_place(before, helper, other))["helper.py"]
    assert "        loader.sampler.set_epoch(epoch)\n" in written(in_place(before, helper, {}))["helper.py"]


@pytest.mark.parametrize(
    ("made", "code"),
    [
        pytest.param("    model = nn.Linear(4, 1)\n", "MODEL01", id="wrapped in the file"),
        pytest.param("    model = nn.DataParallel(nn.Linear(4, 1))\n", "OLD01", id="was wrapped in the file"),
    ],
)
def test_a_wrap_for_others_needs_a_person(made: str, code: str) -> None:
    body = indented("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + LOOP)
    helper = {"helper.py": f"import torch\nfrom torch import nn\n\n\ndef fit(loader):\n{made}{body}    return model\n"}
    before = script(imports=f"from helper import fit\n{IMPORTS}", model="", optimizer="", loop="model = fit(loader)\n")
    found = in_place(before, helper, {"lab/other.py": "from helper import fit\nfit(1)\n"}).of(Level.BLOCKING)
    assert code in {one.code for one in found}
    assert all("lab/other.py, which is not converted, uses it, too" in one.message for one in found)
    assert written(in_place(before, helper, {"lab/other.py": "import helper\n"}))
