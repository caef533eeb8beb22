"""Modules whose names are put together when the program runs: all that the folder has are followed, and converted."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from distify_codemods import Conversion, Level, Options, Outcome, Strategy

from tests.rules.projects import NET, TRAIN, together
from tests.rules.scripts import DATA, IMPORTS, LOADER, LOOP, MODEL, OPTIMIZER, conversion_of, indented, script

TASK = f"{IMPORTS}\n\ndef train():\n{indented(DATA + LOADER + MODEL + OPTIMIZER + LOOP)}"
FILES = {
    "tasks/__init__.py": "",
    "tasks/one.py": TASK,
    "tasks/other.py": "def train():\n    return 1\n",
    "tasks/one_dist.py": "of an earlier conversion, which is no task",
}
HEAD = "import importlib\nimport sys\n\nname = sys.argv[1]\n"
IMPORTED = {
    "formatted": "importlib.import_module(f'tasks.{name}')",
    "format": "importlib.import_module('tasks.{}'.format(name))",
    "percent": "importlib.import_module('tasks.%s' % name)",
    "added": "importlib.import_module('tasks.' + name)",
    "joined": "importlib.import_module('.'.join(['tasks', name]))",
    "relative": "importlib.import_module('.' + name, package='tasks')",
    "asked of": "__import__('tasks.' + name, fromlist=['train'])",
    "of the package": "getattr(__import__('tasks.' + name), name)",
    "with an end": "importlib.import_module(f'tasks.{name}ne')",
}


def listed(files: dict[str, str]) -> Options:
    def modules(importing: str, package: str, level: int) -> list[str]:
        folder = PurePath(importing).parent if level else PurePath()
        folder = folder.joinpath(*package.split("."))
        names = [PurePath(path).stem for path in files if PurePath(path).parent == folder]
        return sorted(name for name in names if not name.endswith("_dist") and name != "__init__")

    return Options(listed=modules)


def converted(before: str, files: dict[str, str]) -> Conversion:
    return conversion_of(before, files=files, options=listed(files))


@pytest.mark.parametrize("how", IMPORTED)
def test_what_trains_in_a_chosen_module_has_a_twin(how: str) -> None:
    before = f"{HEAD}task = {IMPORTED[how]}\ntask.train()\n"
    new = together(before, FILES, options=listed(FILES))
    assert set(new) == {"train_dist.py", "tasks/one_dist.py"}
    assert 'rt.import_twins("tasks/one_dist.py")\n' in new["train_dist.py"]
    assert "model = DistributedDataParallel(" in new["tasks/one_dist.py"]


def test_a_name_that_is_put_together_before() -> None:
    before = f"{HEAD}\ndef find(name):\n    place = 'tasks.' + name\n    return importlib.import_module(place)\n\n"
    new = together(f"{before}find(name).train()\n", FILES, options=listed(FILES))
    assert "tasks/one_dist.py" in new


def test_a_folder_whose_files_are_all_imported() -> None:
    """Those are found by their twins' names as well, whenever the original is started."""
    each = "for _, name, _ in pkgutil.iter_modules(__path__):\n"
    load = "    TASKS[name] = importlib.import_module(f'{__name__}.{name}').train\n"
    files = {**FILES, "tasks/__init__.py": f"import importlib\nimport pkgutil\n\nTASKS = {{}}\n{each}{load}"}
    conversion = converted("import sys\nimport tasks\n\ntasks.TASKS[sys.argv[1]]()\n", files)
    assert {file.target for file in conversion.files} == {"train_dist.py", "tasks/one_dist.py"}
    (advice,) = [one.message for one in conversion.of(Level.ADVICE) if "as well when the original" in one.message]
    assert "tasks/one_dist.py" in advice


NETS = {
    "nets/__init__.py": "",
    "nets/large.py": f"from torch import nn\n\n\n{NET}",
    "nets/small.py": f"from torch import nn\n\n\n{NET}",
    "nets/tools.py": "import os\n",
    "nets/old.py": "print 'Python 2'\n",
}


def test_the_model_of_a_chosen_module_is_seen() -> None:
    """Neither a file without such a class is meant, nor one that cannot be read."""
    before = script(imports=f"{IMPORTS}{HEAD}", model="model = importlib.import_module(f'nets.{name}').Net()\n")
    conversion = converted(before, NETS)
    assert conversion.outcome is Outcome.CONVERTED
    assert conversion.strategy is Strategy.SHARDED
    (advice,) = [one.message for one in conversion.of(Level.ADVICE) if one.code == "IMPORT01"]
    assert "all that the folder has now were followed" in advice


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("name", NETS),  # any module of any folder
        ("f'{name}.small'", NETS),
        ("f'other.{name}'", NETS),
        ("f'nets.{name}_net'", NETS),
        ("f'nets.{name}'", {f"nets/n{number}.py": NETS["nets/small.py"] for number in range(65)}),
    ],
)
def test_a_module_that_may_be_anything(text: str, files: dict[str, str]) -> None:
    before = script(imports=f"{IMPORTS}{HEAD}", model=f"model = importlib.import_module({text}).Net()\n")
    conversion = converted(before, files)
    assert conversion.strategy is Strategy.SHARED
    assert any("what it does is unknown" in one.message for one in conversion.of(Level.ADVICE))


def test_a_relative_name_is_one_of_its_package() -> None:
    """Whichever file asks for it."""
    before = script(
        imports=f"{IMPORTS}import importlib\n", model="model = importlib.import_module('.small', 'nets').Net()\n"
    )
    assert converted(before, NETS).strategy is Strategy.SHARDED


def test_an_import_by_a_function_gives_the_topmost_package() -> None:
    files = {"nets/__init__.py": f"from torch import nn\n\n\n{TRAIN}", "nets/small.py": ""}
    imports = f"{IMPORTS}nets = __import__('nets.small')\n"
    new = together(script(imports=imports, loop="nets.train(model, optimizer, loader)\n"), files)
    assert set(new) == {"train_dist.py", "nets/__init___dist.py"}


LAZY = """\
_WHERE = {"train": "training"}


def __getattr__(name):
    if name in _WHERE:
        return getattr(importlib.import_module(f"nets.{_WHERE[name]}"), name)
    raise AttributeError(name)
"""


@pytest.mark.parametrize(("imports", "call"), [("from nets import train\n", "train"), ("import nets\n", "nets.train")])
def test_what_a_package_gives_when_it_is_asked_for_it_is_followed(imports: str, call: str) -> None:
    files = {
        "nets/__init__.py": f"import importlib\n\n\n{LAZY}",
        "nets/training.py": f"from torch import nn\n\n\n{TRAIN}",
    }
    conversion = converted(script(imports=IMPORTS + imports, loop=f"{call}(model, optimizer, loader)\n"), files)
    assert "nets/training_dist.py" in [one.target for one in conversion.files]
