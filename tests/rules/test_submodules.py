"""Whoever imports `a.b`, and in whatever form: `b` is a name of `a` from then on."""

from __future__ import annotations

import pytest

from tests.rules.projects import together
from tests.rules.scripts import IMPORTS, script

SAVE = f"{IMPORTS}\n\ndef keep(model):\n    torch.save(model.state_dict(), 'a.pt')\n"
GUARDED = "    if rt.is_main_process():\n        torch.save(model.module.state_dict(), 'a.pt')\n"


def saving(imports: str, call: str) -> str:
    return script(imports=f"{IMPORTS}{imports}", after=f"{call}(model)\n")


@pytest.mark.parametrize(
    ("imports", "package", "call"),
    [
        ("import parts\n", "from parts.tools import *\n", "parts.tools.keep"),
        ("import parts\n", "from parts.tools import keep as other\n", "parts.tools.keep"),
        ("import parts\n", "from .tools import *\n", "parts.tools.keep"),
        ("import parts\n", "from . import tools as mine\n", "parts.tools.keep"),
        ("import parts\n", "import parts.tools as mine\n", "parts.tools.keep"),
        ("import parts as p\n", "from .tools import keep\n", "p.tools.keep"),
        ("from parts.tools import keep as other\nimport parts\n", "", "parts.tools.keep"),
        ("import parts\n", "def load():\n    from . import tools\n\n\nload()\n", "parts.tools.keep"),
        ("from parts import *\n", "from .tools import keep as other\n", "tools.keep"),
        ("from parts import *\n", "from .tools import keep\n\n__all__ = ['keep']\n", "keep"),
    ],
)
def test_functions_of_a_module_that_its_package_imports(imports: str, package: str, call: str) -> None:
    files = {"parts/__init__.py": package, "parts/tools.py": SAVE}
    after = together(saving(imports, call), files)
    (tools,) = [text for path, text in after.items() if "tools" in path]
    assert tools.endswith(GUARDED)


@pytest.mark.parametrize(
    "package",
    [
        "from .tools import tools\n",
        "from parts.tools import other as tools\n",
        "from . import tools as module\ntools = module.other\n",
    ],
)
def test_what_a_package_says_of_the_name_itself_counts(package: str) -> None:
    """A function of the same name as its file: the common way to hide the file."""
    own = SAVE + "\n\ndef tools(model):\n    torch.save(model.state_dict(), 'b.pt')\n\n\nother = tools\n"
    for imports in ("import parts\n", "import parts.tools\n"):
        after = together(saving(imports, "parts.tools"), {"parts/__init__.py": package, "parts/tools.py": own})
        assert GUARDED.replace("a.pt", "b.pt") in "".join(after.values())


def test_names_that_a_package_does_not_give_away_stay_their_own() -> None:
    """`__all__` leaves the module out: the script's own function of that name is what it was."""
    package = "from .tools import keep as other\n\n__all__ = ['other']\n"
    imports = "def tools(model):\n    torch.save(model.state_dict(), 'b.pt')\n\n\nfrom parts import *\n"
    after = together(saving(imports, "tools"), {"parts/__init__.py": package, "parts/tools.py": SAVE})
    assert GUARDED.replace("a.pt", "b.pt") in after["train_dist.py"]


def test_a_package_is_run_before_its_modules() -> None:
    """What it does happens, though nothing of it is named."""
    package = "import torch\n\nclasses = 3\ntorch.save(classes, 'classes.pt')\n"
    after = together(
        saving("from parts.tools import keep\n", "keep"), {"parts/__init__.py": package, "parts/tools.py": SAVE}
    )
    (text,) = [text for path, text in after.items() if "__init__" in path]
    assert "if rt.is_main_process():\n    torch.save(classes, 'classes.pt')\n" in text
