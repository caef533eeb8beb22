"""Imports are pointed at the converted files, however they are written, or the converted files take their names."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.projects import NET, TRAIN, TRAIN_DIST, needs, together
from tests.rules.scripts import IMPORTS, LOOP, RUNTIME, conversion_of, indented, script


@pytest.mark.parametrize(
    ("imports", "call", "pointed"),
    [
        ("from helper import train", "train", "from helper_dist import train"),
        ("from helper import train as fit", "fit", "from helper_dist import train as fit"),
        (
            "from helper import (\n    train,  # trains\n)",
            "train",
            "from helper_dist import (\n    train,  # trains\n)",
        ),
        ("from helper import *", "train", "from helper_dist import *"),
        ("import helper", "helper.train", "import helper_dist as helper"),
        ("import os, helper", "helper.train", "import os, helper_dist as helper"),
        ("import helper as h", "h.train", "import helper_dist as h"),
        ("import os; import helper", "helper.train", "import os; import helper_dist as helper"),
    ],
)
def test_imports_of_a_file(imports: str, call: str, pointed: str) -> None:
    before = script(imports=f"{IMPORTS}{imports}\n", loop=f"{call}(model, optimizer, loader)\n")
    new = together(before, {"helper.py": f"{IMPORTS}\n\n{TRAIN}"})
    assert new["train_dist.py"].startswith(f"{IMPORTS}{pointed}\n{RUNTIME}")
    assert new["train_dist.py"].endswith(f"{call}(model, optimizer, loader)\n")


PACKAGE = {
    "pkg/__init__.py": "from .loop import train\nfrom .nets import Net\n",
    "pkg/loop.py": f"{IMPORTS}\n\n{TRAIN}",
    "pkg/nets.py": f"{IMPORTS}\n\n{NET}",
}


@pytest.mark.parametrize(
    ("imports", "call", "pointed"),
    [
        ("from pkg.loop import train", "train", "from pkg.loop_dist import train"),
        ("import pkg.loop as loop", "loop.train", "import pkg.loop_dist as loop"),
        ("from pkg import loop", "loop.train", "from pkg import loop_dist as loop"),
        ("from pkg import train", "train", "from pkg.loop_dist import train"),
        ("from pkg import train as fit", "fit", "from pkg.loop_dist import train as fit"),
        ("from pkg import Net, train", "train", "from pkg import Net\nfrom pkg.loop_dist import train"),
        ("from pkg import train, Net", "train", "from pkg import Net\nfrom pkg.loop_dist import train"),
        ("from pkg import *", "train", "from pkg import *\nfrom pkg.loop_dist import train"),
    ],
)
def test_imports_of_a_package(imports: str, call: str, pointed: str) -> None:
    before = script(imports=f"{IMPORTS}{imports}\n", loop=f"{call}(model, optimizer, loader)\n")
    new = together(before, PACKAGE)
    assert sorted(new) == ["pkg/loop_dist.py", "train_dist.py"]
    assert new["train_dist.py"].startswith(f"{IMPORTS}{pointed}\n{RUNTIME}")


@pytest.mark.parametrize(
    ("imports", "path", "name"),
    [
        ("from helper import train", "helper.py", "helper"),
        ("from pkg.loop import train", "pkg/loop.py", "pkg.loop"),
    ],
)
def test_a_logger_keeps_the_name_that_it_has_by_its_module(imports: str, path: str, name: str) -> None:
    logs = "import logging\n\nlogger = logging.getLogger({})\nhere = __name__\n"
    before = script(imports=f"{IMPORTS}{logs.format('__name__')}{imports}\n", loop="train(model, optimizer, loader)\n")
    new = together(before, {path: f"{IMPORTS}{logs.format('__name__')}\n\n{TRAIN}"})
    assert "logger = logging.getLogger(__name__)\nhere = __name__\n" in new["train_dist.py"]
    assert f'logger = logging.getLogger("{name}")\nhere = __name__\n' in new[path.replace(".py", "_dist.py")]


def test_an_import_that_names_the_whole_path() -> None:
    before = script(imports=f"{IMPORTS}import pkg.loop\n", loop="pkg.loop.train(model, optimizer, loader)\n")
    new = together(before, PACKAGE)["train_dist.py"]
    assert new.startswith(f"{IMPORTS}import pkg.loop_dist\n{RUNTIME}")
    assert new.endswith("pkg.loop_dist.train(model, optimizer, loader)\n")


def test_imports_inside_functions_and_under_conditions() -> None:
    main = indented(
        "try: from helper import train\nexcept ImportError: train = None\ntrain(model, optimizer, loader)\n"
    )
    before = script(loop=f"def main():\n{main}\n\nmain()\n")
    new = together(before, {"helper.py": f"{IMPORTS}\n\n{TRAIN}"})["train_dist.py"]
    assert "    try: from helper_dist import train\n    except ImportError: train = None\n" in new


def test_who_imports_a_converted_file_is_converted_too() -> None:
    """`facade.py` has nothing of its own to change, but calls what has."""
    files = {
        "facade.py": "import pkg.sub.loop as loop\n\n\ndef go(*args):\n    loop.train(*args)\n",
        "pkg/__init__.py": "",
        "pkg/sub/__init__.py": "",
        "pkg/sub/loop.py": f"from ..parts import size\n{IMPORTS}\n\n{TRAIN}",
        "pkg/parts.py": "size = 4\n",
    }
    before = script(imports=f"{IMPORTS}import facade\n", loop="facade.go(model, optimizer, loader)\n")
    new = together(before, files)
    assert sorted(new) == ["facade_dist.py", "pkg/sub/loop_dist.py", "train_dist.py"]
    assert new["facade_dist.py"] == files["facade.py"].replace("sub.loop as", "sub.loop_dist as")
    assert f"{IMPORTS}import facade_dist as facade\n" in new["train_dist.py"]
    assert new["pkg/sub/loop_dist.py"].startswith("from ..parts import size\n")


def test_relative_imports_within_a_package() -> None:
    files = {
        "pkg/__init__.py": "from .trainer import Trainer\n",
        "pkg/base/__init__.py": "from .base_trainer import *\n",
        "pkg/base/base_trainer.py": f"{IMPORTS}\n\nclass Base:\n    def save(self, model):\n"
        '        torch.save(model.state_dict(), "a.pt")\n',
        "pkg/trainer.py": f"{IMPORTS}from .base import Base\nfrom . import loop\n\n\nclass Trainer(Base):\n"
        "    def fit(self, *args):\n        loop.train(*args)\n",
        "pkg/loop.py": f"{IMPORTS}\n\n{TRAIN}",
    }
    before = script(
        imports=f"{IMPORTS}from pkg import Trainer\n",
        loop="trainer = Trainer()\ntrainer.fit(model, optimizer, loader)\ntrainer.save(model)\n",
    )
    new = together(before, files)
    assert f"{IMPORTS}from pkg.trainer_dist import Trainer\n" in new["train_dist.py"]
    assert new["pkg/trainer_dist.py"] == files["pkg/trainer.py"].replace(
        "from .base import Base\nfrom . import loop\n",
        "from .base.base_trainer_dist import Base\nfrom . import loop_dist as loop\n",
    )
    assert "if rt.is_main_process():" in new["pkg/base/base_trainer_dist.py"]


STARRED = {
    "pkg/__init__.py": "from .loop import *\n",
    "pkg/loop.py": f"{IMPORTS}\n\ndef size(data):\n    print(data)\n    return len(data)\n\n\n{TRAIN}",
    "made.py": f"{IMPORTS}from pkg import *\n\n\ndef made(name):\n    print(torch)\n    return {{called}}\n",
}


@pytest.mark.parametrize(
    ("called", "listed", "added"),
    [
        ("eval(name)", "", "size, train"),
        ("globals()[name]", "", "size, train"),
        ("eval(name)", "__all__ = ['train']\n", "train"),
        ("train", "", "train"),
    ],
)
def test_what_is_taken_out_of_what_a_star_brings(called: str, listed: str, added: str) -> None:
    """Also by a text; and of a file's twin nothing that it imports only itself."""
    files = STARRED | {"made.py": STARRED["made.py"].format(called=called)}
    files["pkg/loop.py"] = files["pkg/loop.py"].replace(IMPORTS, IMPORTS + listed)
    before = script(imports=f"{IMPORTS}from made import made\n", loop="made('train')(model, optimizer, loader)\n")
    new = together(before, files)
    assert f"from pkg import *\nfrom pkg.loop_dist import {added}\n" in new["made_dist.py"]


def test_code_of_a_package_itself() -> None:
    files = {"pkg/__init__.py": f"{IMPORTS}from .nets import Net\n\n\n{TRAIN}", "pkg/nets.py": f"{IMPORTS}\n\n{NET}"}
    before = script(imports=f"{IMPORTS}from pkg import Net, train\n", loop="train(model, optimizer, loader)\n")
    new = together(before, files)
    assert f"{IMPORTS}from pkg.__init___dist import Net, train\n" in new["train_dist.py"]
    assert new["pkg/__init___dist.py"] == f"{IMPORTS}from .nets import Net\n{RUNTIME}\n\n{TRAIN_DIST}"


@pytest.mark.parametrize(
    "made",
    [
        "def fit(*given):\n    from .loop import train\n    return train(*given)\n",
        "def fit(*given):\n    from pkg import loop\n    return loop.train(*given)\n",
        "class fit:\n    def __new__(cls, *given):\n        import pkg.loop\n        return pkg.loop.train(*given)\n",
    ],
)
def test_what_a_package_imports_in_a_function(made: str) -> None:
    files = {**PACKAGE, "pkg/__init__.py": made}
    before = script(imports=f"{IMPORTS}import pkg\n", loop="pkg.fit(model, optimizer, loader)\n")
    new = together(before, files)
    assert sorted(new) == ["pkg/__init___dist.py", "pkg/loop_dist.py", "train_dist.py"]
    assert f"{IMPORTS}import pkg.__init___dist as pkg\n" in new["train_dist.py"]
    assert "loop_dist" in new["pkg/__init___dist.py"]


def test_what_a_package_imports_in_a_function_and_is_the_same() -> None:
    made = "from .loop import train\ndef width():\n    from .nets import Net\n    return Net\n"
    before = script(imports=f"{IMPORTS}from pkg import train\n", loop="train(model, optimizer, loader)\n")
    assert sorted(together(before, {**PACKAGE, "pkg/__init__.py": made})) == ["pkg/loop_dist.py", "train_dist.py"]


EFFECT = {
    "pkg/loop.py": f"{IMPORTS}from .book import note\n\nnote('loop')\n\n{TRAIN}",
    "pkg/book.py": "names = []\n\n\ndef note(name):\n    names.append(name)\n",
}
REGISTRY = {
    "pkg/loop.py": f"{IMPORTS}from .book import kept\n\n\n@kept\n{TRAIN}",
    "pkg/book.py": "names = []\n\n\ndef kept(function):\n    names.append(function)\n    return function\n",
}
SUBCLASS = {
    "pkg/loop.py": f"{IMPORTS}from .book import Kept\n\n\nclass One(Kept):\n    pass\n\n\n{TRAIN}",
    "pkg/book.py": "class Kept:\n    names = []\n\n    def __init_subclass__(cls):\n        Kept.names.append(cls)\n",
}


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("import pkg\n\ntrain = pkg.train", PACKAGE),
        ("import pkg\n\ntrain = getattr(pkg, 'train')", PACKAGE),
        ("import pkg\n\ntrain = pkg.__dict__['train']", PACKAGE),
        ("from pkg.loop import train\nimport importlib\nimportlib.import_module('pkg.loop')", PACKAGE),
        ("from pkg import train", {**PACKAGE, **EFFECT}),
        ("from pkg import train", {**PACKAGE, **REGISTRY}),
        ("from pkg import train", {**PACKAGE, **SUBCLASS}),
    ],
    ids=["attribute", "getattr", "its names", "by name", "effect", "registry", "subclass"],
)
def test_where_twins_would_mix_with_originals(imports: str, files: dict[str, str]) -> None:
    """They take the names of their originals: imports stay what they are."""
    before = script(imports=f"{IMPORTS}{imports}\n", loop="train(model, optimizer, loader)\n")
    new = together(before, files)
    assert sorted(new) == ["pkg/loop_dist.py", "train_dist.py"]
    line = 'rt.import_twins("pkg/loop_dist.py")\n'
    assert new["train_dist.py"].index("import distify_runtime as rt\n") < new["train_dist.py"].index(line)
    assert new["train_dist.py"].partition(line)[2].startswith(imports.partition("\n")[0])
    assert new["pkg/loop_dist.py"] == together(before, files, twins=False)["pkg/loop.py"]


def test_names_that_would_be_hidden_need_a_person() -> None:
    imports = f"{IMPORTS}from pkg.loop import *\nrt = 1\nprint(rt)\n"
    conversion = conversion_of(script(imports=imports, loop="train(model, optimizer, loader)\n"), files=PACKAGE)
    assert {code for code, _, _ in needs(conversion)} == {"IMPORT01"}
    assert all("-o DIR/" in one.fix and "--in-place" in one.fix for one in conversion.of(Level.BLOCKING))
    assert not conversion.files


def test_the_name_of_the_output_is_what_others_import() -> None:
    files = {"helper.py": f"{IMPORTS}\n\n{TRAIN}\n\ndef size():\n    from train import width\n    return width\n"}
    before = script(
        imports=f"{IMPORTS}import helper\n", setup="width = 4\n", loop="helper.train(model, optimizer, loader)\n"
    )
    new = together(before, files, output="ddp.py")
    assert "    from ddp import width\n" in new["helper_dist.py"]
    conversion = conversion_of(before, files=files, output="elsewhere/ddp.py")
    assert {code for code, _, _ in needs(conversion)} == {"IMPORT01"}


def test_a_saved_object_names_the_file_of_its_class() -> None:
    net = NET.replace("        return self.out(x)", "        print('forward')\n        return self.out(x)")
    before = script(
        imports=f"{IMPORTS}from helper import Net\n", model="model = Net()\n", after="torch.save(model, 'a')\n"
    )
    conversion = conversion_of(before, files={"helper.py": f"{IMPORTS}\n\n{net}"})
    found = [one.message for one in conversion.of(Level.ADVICE) if one.code == "IMPORT01"]
    assert len(found) == 1
    assert "helper_dist.py" in found[0]
    states = before.replace("torch.save(model,", "torch.save(model.state_dict(),")
    conversion = conversion_of(states, files={"helper.py": f"{IMPORTS}\n\n{net}"})
    assert not [one for one in conversion.of(Level.ADVICE) if one.code == "IMPORT01"]


def test_twins_take_the_names_of_their_originals_everywhere_or_nowhere() -> None:
    files = {**PACKAGE, "other.py": "import pkg\n\n\ndef again(*args):\n    pkg.train(*args)\n"}
    imports = f"{IMPORTS}from other import again\nfrom pkg import train\n"
    new = together(script(imports=imports, loop="train(model, optimizer, loader)\nagain\n"), files)
    assert sorted(new) == ["pkg/loop_dist.py", "train_dist.py"]
    assert (
        'rt.import_twins("pkg/loop_dist.py")\nfrom other import again\nfrom pkg import train\n' in new["train_dist.py"]
    )


def test_a_file_that_only_defines_may_be_loaded_twice() -> None:
    quiet = (
        f"{IMPORTS}import logging\nimport functools\nfrom dataclasses import dataclass\nfrom abc import ABC\n\n"
        "logger = logging.getLogger(__name__)\nSIZE = 4\n\n\n"
        "@dataclass\nclass Settings(ABC):\n    size: int = SIZE\n\n\n"
        "@functools.lru_cache(maxsize=None)\ndef cached(x):\n    return x\n\n\n@torch.no_grad()\ndef still(x):\n"
        f"    return x\n\n\n{TRAIN}"
    )
    before = script(imports=f"{IMPORTS}from pkg import train\n", loop="train(model, optimizer, loader)\n")
    assert "pkg/loop_dist.py" in together(before, {**PACKAGE, "pkg/loop.py": quiet})


def test_files_that_are_imported_by_a_name_alone() -> None:
    """No statement of the script imports one: the line stands above the first call that does."""
    imports = f'"""Trains."""\nfrom __future__ import annotations\nimport importlib\n{IMPORTS}'
    loop = "importlib.import_module('pkg.loop').train(model, optimizer, loader)\n"
    files = {**PACKAGE, "pkg/__init__.py": ""}
    new = together(script(imports=imports, loop=loop), files)
    assert sorted(new) == ["pkg/loop_dist.py", "train_dist.py"]
    line = 'rt.import_twins("pkg/loop_dist.py")\n'
    assert line in new["train_dist.py"].partition("importlib.import_module")[0]
    aliased = imports.replace("import importlib\n", "from importlib import import_module as load\n")
    assert (
        line
        in together(script(imports=aliased, loop=loop.replace("importlib.import_module", "load")), files)[
            "train_dist.py"
        ].partition("load('pkg")[0]
    )


def test_files_that_another_file_imports_by_a_name() -> None:
    """The line stands above the import of that file, also where the script itself names none that changes."""
    files = {**PACKAGE, "pkg/__init__.py": "", "pick.py": "import importlib\n\n\ndef pick():\n"
             "    return importlib.import_module('pkg.loop')\n"}  # fmt: skip
    before = script(imports=f"{IMPORTS}from pick import pick\n", loop="pick().train(model, optimizer, loader)\n")
    assert 'rt.import_twins("pkg/loop_dist.py")\nfrom pick import pick\n' in together(before, files)["train_dist.py"]


def test_a_package_that_imports_its_files_as_modules() -> None:
    """`from . import loop` of an `__init__` runs the original, as `from .loop import train` does."""
    files = {**PACKAGE, **REGISTRY, "pkg/__init__.py": "from .book import names\nfrom . import loop\n"}
    before = script(imports=f"{IMPORTS}from pkg import names\n", loop="names[0](model, optimizer, loader)\n")
    assert 'rt.import_twins("pkg/loop_dist.py")\nfrom pkg import names\n' in together(before, files)["train_dist.py"]


BACK = f"{IMPORTS}\n\n{TRAIN}\n\ndef size():\n    from train import width\n    return width\n"


@pytest.mark.parametrize(("output", "more"), [("train_dist.py", ""), ("ddp.py", ', original="train.py"')])
def test_a_file_that_imports_the_script_under_its_own_name(output: str, more: str) -> None:
    imports = f"{IMPORTS}import pkg\n"
    before = script(imports=imports, setup="width = 4\n", loop="pkg.train(model, optimizer, loader)\n")
    new = together(before, {**PACKAGE, "pkg/loop.py": BACK}, output=output)
    assert sorted(new) == sorted([output, "pkg/loop_dist.py"])
    assert f'rt.import_twins("pkg/loop_dist.py"{more})\n' in new[output]
    assert "    from train import width\n" in new["pkg/loop_dist.py"]


@pytest.mark.parametrize("name", ["train", "pkg.nets"])
def test_a_file_that_imports_the_script_by_a_name(name: str) -> None:
    files = {"size.py": f"import importlib\n\n\ndef size():\n    return importlib.import_module('{name}').width\n"}
    before = script(imports=f"{IMPORTS}from size import size\n", setup="width = 4\n", after="print(size())\n")
    new = together(before, {**files, "pkg/__init__.py": "", "pkg/nets.py": "width = 3\n"})
    assert sorted(new) == ["train_dist.py"]
    assert ("rt.import_twins()\nfrom size import size\n" in new["train_dist.py"]) is (name == "train")


def test_a_file_that_trains_by_itself_is_converted_for_who_imports_it() -> None:
    """Started on several ranks, its twin would train the same on each: its own beginning is not converted."""
    helper = f'"""Trains."""\n{IMPORTS}\n\n{TRAIN}\n\nif __name__ == "__main__":\n    train(None, None, None)\n'
    before = script(imports=f"{IMPORTS}from train_one import train\n", loop="train(model, optimizer, loader)\n")
    new = together(before, {"train_one.py": helper})["train_one_dist.py"]
    assert new.startswith("# Converted for train.py, which imports it; started by itself, it is not.\n")
    conversion = conversion_of(before, files={"train_one.py": helper})
    (said,) = (one.message for one in conversion.of(Level.ADVICE) if one.code == "IMPORT01")
    assert "convert train_one.py by itself" in said


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("", id="no beginning of its own"),
        pytest.param('if __name__ == "__main__":\n    print(describe())\n', id="no training"),
    ],
)
def test_files_that_only_help_are_as_they_were(more: str) -> None:
    helper = f"{IMPORTS}\n\n{TRAIN if not more else ''}\n\ndef describe():\n    print('a net')\n\n\n{more}"
    use = "describe()\n" if more else "describe()\ntrain(model, optimizer, loader)\n"
    imports = f"{IMPORTS}from helper import describe{'' if more else ', train'}\n"
    before = script(imports=imports, loop=f"{use}{LOOP if more else ''}")
    conversion = conversion_of(before, files={"helper.py": helper})
    assert not any(b"Converted for" in new.after for new in conversion.files)
    assert not any("by itself" in one.message for one in conversion.of(Level.ADVICE))
