"""What a script imports and nobody has: the checklist says so once, plainly."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level, Outcome

from tests.rules.projects import NET, TRAIN
from tests.rules.scripts import IMPORTS, conversion_of, script

FILES = {"nets.py": f"{IMPORTS}\n\n{NET}", "pkg/__init__.py": "", "pkg/part.py": "SIZE = 4\n"}


def told(conversion: Conversion) -> list[str]:
    return [one.message for one in conversion.of(Level.ADVICE) if one.message.startswith("not found: ")]


def converted(imports: str, files: dict[str, str] | None = None, **more: str) -> Conversion:
    before = script(imports=f"{IMPORTS}{imports}\n", **more)
    there = ("torch", "some", "some.where")
    return conversion_of(before, files={**FILES, **(files or {})}, installed=lambda name: name in there)


@pytest.mark.parametrize(
    ("imports", "named"),
    [
        ("from nets import Nt", "`nets.Nt` (train.py:4)"),
        ("from nets import Net, Nt", "`nets.Nt` (train.py:4)"),
        ("from pkg import nothing", "`pkg.nothing` (train.py:4)"),
        ("import pkg.nothing", "`pkg.nothing` (train.py:4)"),
        ("from pkg.nothing import that", "`pkg.nothing` (train.py:4)"),
        ("from pkg.nothing import *", "`pkg.nothing` (train.py:4)"),
        ("import helpers", "`helpers` (train.py:4)"),
        ("from helpers.more import one, two", "`helpers.more` (train.py:4)"),
        ("import helpers\nfrom nets import Nt", "`helpers` (train.py:4), `nets.Nt` (train.py:5)"),
    ],
)
def test_what_is_not_found_is_told_in_one_line(imports: str, named: str) -> None:
    (line,) = told(converted(imports))
    assert line.startswith(f"not found: {named}; what comes from there is unknown here")
    certain = any(text in imports for text in ("from nets import", "from pkg import"))
    assert (": to import that fails, in the original as well" in line) is certain


def test_a_file_that_is_there_and_has_no_such_name() -> None:
    (line,) = told(converted("import helpers\nfrom nets import Nt"))
    assert line.endswith("; nets.py has no `Nt`: to import that fails, in the original as well")


@pytest.mark.parametrize(
    "imports",
    [
        "from nets import Net\nfrom nets import *\nimport nets",
        "from pkg import part\nimport pkg.part\nfrom pkg.part import SIZE",
        "import some.where\nfrom some.where import thing",
        "import os, json\nfrom collections import abc",
        "import torchvision, cv2, wandb",  # what is known of them does not need them here
        "try:\n    import helpers\nexcept ImportError:\n    import assistants as helpers",
        "try:\n    from nets import Nt\nexcept (ImportError, AttributeError):\n    Nt = None",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from helpers import Thing",
    ],
)
def test_what_is_found_or_can_be_done_without_is_not_told(imports: str) -> None:
    assert told(converted(imports)) == []


@pytest.mark.parametrize(
    "text", ["from some.where import *\n", "globals()['Nt'] = None\n", "def __getattr__(name):\n    return None\n"]
)
def test_a_file_that_may_have_more_names_than_it_shows(text: str) -> None:
    assert told(converted("from nets import Nt", {"nets.py": f"{IMPORTS}{text}"})) == []


def test_a_file_whose_models_are_set_to_eval_shows_all_of_its_names() -> None:
    more = "def evaluate(model, x):\n    model.eval()\n    return model(x)\n"
    (line,) = told(converted("from more import Nt", {"more.py": more}))
    assert "more.py has no `Nt`" in line


def test_what_another_file_imports() -> None:
    files = {"nets.py": f"from .near import far\nimport helpers\n{IMPORTS}\n\n{NET}"}
    (line,) = told(converted("from nets import Net", files))
    assert line.startswith("not found: `.near` (nets.py:1), `helpers` (nets.py:2); ")


def test_what_a_package_takes_all_names_of() -> None:
    """It may say anew what another file of the package has said before: that it is not there is said."""
    package = "from .part import *\nfrom pkg.gone import *\nfrom .lost import *\n"
    (line,) = told(converted("import pkg", {"pkg/__init__.py": package}))
    assert line.startswith("not found: `pkg.gone` (pkg/__init__.py:2), `.lost` (pkg/__init__.py:3); ")


@pytest.mark.parametrize("text", ["import sys\nsys.modules['pkg.gone'] = sys\n", "__path__.append('elsewhere')\n"])
def test_a_package_that_may_have_more_modules_than_its_folder(text: str) -> None:
    assert told(converted("from pkg.gone import *", {"pkg/__init__.py": text})) == []


def test_a_caller_that_cannot_tell_what_is_installed() -> None:
    before = script(imports=f"{IMPORTS}import helpers\nfrom nets import Nt\n")
    (line,) = told(conversion_of(before, files=FILES))
    assert line.startswith("not found: `nets.Nt` (train.py:5); ")


def test_training_that_is_nowhere_to_be_seen() -> None:
    """The reason of a refusal would be false without it."""
    conversion = converted("from nets import fit", {"nets.py": f"{IMPORTS}\n\n{TRAIN}"}, loop="fit(model)\n")
    assert conversion.outcome is Outcome.REFUSED
    assert [one.code for one in conversion.of(Level.BLOCKING)] == ["REFUSE02"]
    assert len(told(conversion)) == 1


def test_an_import_of_what_is_chosen_later() -> None:
    chosen = "import importlib, sys\nhelper = importlib.import_module('pkg.' + sys.argv[1])"
    found = [one.message for one in converted(chosen).of(Level.ADVICE) if one.code == "IMPORT01"]
    assert found == ["what is imported here shows when it runs (train.py:5); what it does is unknown"]
    known = "import importlib\nhelper = importlib.import_module('pkg.part')"
    assert not [one for one in converted(known).of(Level.ADVICE) if one.code == "IMPORT01"]


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        ('if __name__ == "__main__":\n    import helpers\n', True),
        ('if __name__ != "__main__":\n    import helpers\n', False),
        ('if __name__ == "__main__":\n    SIZE = 1\nelse:\n    import helpers\n', False),
        ("import helpers\n", False),
    ],
)
def test_what_an_imported_file_would_import_if_it_were_started(lines: str, known: bool) -> None:
    conversion = converted("from tools import SIZE", {"tools.py": f"SIZE = 4\n{lines}"})
    assert (told(conversion) == []) is known


def test_what_the_script_itself_imports_when_it_is_started() -> None:
    assert told(converted('if __name__ == "__main__":\n    import helpers')) != []
