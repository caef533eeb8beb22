"""What a script does to `sys.path` is followed: a module is found where Python finds it, and only there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from distify_codemods import SourceFile, interpreter, program

from distify.resolver import LocalModules

MODULES = {"in_lib": "lib", "in_deep": "lib/deep", "in_src": "src/inner", "in_own": "tools/lib"}
TOP = "import os\nimport sys\nfrom pathlib import Path\n"
HERE = "HERE = os.path.dirname(os.path.abspath(__file__))\n"
ROOT = "ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))\n"
PATH = "ROOT = Path(__file__).resolve().parent.parent\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(lines: str) -> tuple[set[str], set[str]]:
    """The modules that Python finds once these lines have run, and those that are found without running them."""
    tried = "".join(f"try:\n    import {name}\nexcept ImportError:\n    pass\n" for name in MODULES)
    shown = f"print(*({set(MODULES)!r} & sys.modules.keys()))\n"
    for name, folder in MODULES.items():
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, f"{name}.py").touch()
    script = Path("tools/train.py")
    script.write_text(f"{TOP}{lines}\n{tried}{shown}")
    python = subprocess.run([sys.executable, "-B", str(script)], capture_output=True, text=True, timeout=60, check=True)
    loaded = program.load(SourceFile(str(script), script.read_bytes()), LocalModules(str(script)))
    interpreter.run(loaded)
    return set(python.stdout.split()), {module.name for module in loaded.modules.values()} & set(MODULES)


@pytest.mark.parametrize(
    "lines",
    [
        # in the turns of a loop
        f"{ROOT}for one in [ROOT, os.path.join(ROOT, 'lib')]:\n"
        "    if one not in sys.path:\n        sys.path.insert(0, one)",
        f"{ROOT}for name in ('lib', 'src/inner'):\n    sys.path.append(os.path.join(ROOT, name))",
        f"{ROOT}for number, name in enumerate(['lib', 'lib/deep']):\n    sys.path.insert(number, ROOT + os.sep + name)",
        f"{PATH}for one in (ROOT / 'lib', ROOT / 'src' / 'inner'):\n    sys.path.insert(0, str(one))",
        f"{HERE}for one in {{'a': HERE + '/lib', 'b': HERE + '/../lib'}}.values():\n    sys.path.append(one)",
        f"{HERE}up = HERE\nfor _ in range(1):\n    up = os.path.dirname(up)\nsys.path.append(os.path.join(up, 'lib'))",
        f"{ROOT}for one in map(lambda name: os.path.join(ROOT, name), ['lib', 'src/inner']):\n    sys.path.append(one)",
        f"{ROOT}names, i = ['lib', 'lib/deep', 'src/inner'], 0\nwhile i < len(names):\n"
        "    sys.path.append(os.path.join(ROOT, names[i]))\n    i += 1",
        # several at once
        f"{HERE}sys.path += [os.path.join(HERE, '..', 'lib'), HERE + '/lib']",
        f"{HERE}sys.path.extend([f'{{HERE}}/../lib', f'{{HERE}}/lib'])",
        f"{ROOT}sys.path.extend(os.path.join(ROOT, name) for name in ['lib', 'src/inner'])",
        f"{PATH}sys.path += [str(ROOT / name) for name in ('lib', 'lib/deep')]",
        f"{PATH}[sys.path.append(str(ROOT / name)) for name in ('lib', 'src/inner')]",
        f"{HERE}sys.path = [os.path.join(HERE, '..', 'lib')] + sys.path",
        f"{HERE}sys.path = [*sys.path, os.path.join(HERE, 'lib')]",
        f"{HERE}sys.path[:0] = [os.path.join(HERE, 'lib')]",
        # in a function of the script's
        "def add(folder):\n    if folder not in sys.path:\n        sys.path.insert(0, folder)\n\n\n"
        f"{HERE}lib = os.path.join(HERE, '..', 'lib')\nadd(lib)",
        "def add(*parts):\n    here = os.path.dirname(os.path.abspath(__file__))\n"
        "    sys.path.insert(0, os.path.join(here, *parts))\n\n\nadd('..', 'lib')\nadd('lib')",
        "def add():\n    root = Path(__file__).resolve().parent.parent\n    for name in ['lib', 'src/inner']:\n"
        "        sys.path.insert(0, str(root.joinpath(name)))\n\n\nadd()",
        # spelled in other ways
        "import inspect\nhere = os.path.dirname(os.path.abspath(inspect.getfile(inspect.currentframe())))\n"
        "sys.path.insert(0, os.path.dirname(here) + '/lib')",
        "sys.path.append(os.path.join(sys.path[0], 'lib'))",
        "folder = os.path.dirname(os.path.abspath(sys.argv[0]))\nsys.path.insert(0, os.path.join(folder, 'lib'))",
        "here = os.path.split(os.path.abspath(__file__))[0]\nsys.path.append('%s/lib' % here)",
        f"{HERE}sys.path.append('{{}}/lib'.format(HERE))",
        "from sys import path\npath.append(str(Path(__file__).parent.joinpath('lib').resolve()))",
        "ROOT = Path(__file__).resolve().parents[1]\nROOT = ROOT / 'lib'\nsys.path.append(str(ROOT))",
        "class Paths:\n    root = Path(__file__).resolve().parent.parent\n    lib = root / 'lib'\n\n\n"
        "sys.path.append(str(Paths.lib))",
        f"import site\n{HERE}site.addsitedir(os.path.join(HERE, 'lib'))",
    ],
)  # fmt: skip
def test_folders_that_are_looked_through(lines: str) -> None:
    by_python, without = found(lines)
    assert by_python
    assert without == by_python


@pytest.mark.parametrize(
    "lines",
    [
        f"{HERE}for one in [HERE, os.path.join(HERE, 'nothing')]:\n    sys.path.append(one)",
        f"{ROOT}folders = []\nfor name in ('lib', 'src/inner'):\n    folders.append(os.path.join(ROOT, name))",
        f"{HERE}class Own:\n    path = []\n\n\nOwn.path += [os.path.join(HERE, 'lib')]\nOwn.path.append(HERE + '/lib')",
        f"{ROOT}def add(folder):\n    sys.path.insert(0, folder)",
        f"{ROOT}for name in os.listdir(os.path.join(ROOT, 'tools')):\n    sys.path.append(name + '/none')",
        f"{HERE}os.path = os.path\nos.environ['path'] = HERE + '/lib'",
        f"{HERE}sys.path.append(f'{{HERE!r}}/lib')",
        f"{HERE}sys.path.append('%d/lib' % 3)",
    ],
)
def test_others_are_not(lines: str) -> None:
    assert found(lines) == (set(), set())
