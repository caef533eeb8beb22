"""`rt.import_twins`: converted files are imported under the names of their originals, and nothing else changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "pkg/__init__.py": "from .loop import who\nfrom . import other\n",
    "pkg/loop.py": "def who():\n    return 'original'\n",
    "pkg/loop_dist.py": "from .other import tell\n\n\ndef who():\n    return tell('twin')\n",
    "pkg/other.py": "def tell(word):\n    return f'{__name__} {word}'\n",
    "helper.py": "WHO = 'original'\n",
}
SCRIPT = """\
from distify_runtime import import_twins
import_twins({paths})
import importlib, os, pickle, pkg, helper
print(pkg.who(), importlib.import_module("pkg.loop").__name__, os.path.basename(pkg.loop.__file__))
print(pickle.loads(pickle.dumps(pkg.who)).__module__, helper.WHO)
"""


def run(folder: Path, *paths: str) -> subprocess.CompletedProcess[str]:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "train_dist.py").write_text(SCRIPT.format(paths=", ".join(map(repr, paths))))
    command = [sys.executable, str(folder / "train_dist.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_asks_for_the_original_gets_the_twin(tmp_path: Path) -> None:
    ended = run(tmp_path, "pkg/loop_dist.py")
    assert ended.stdout.splitlines() == ["pkg.other twin pkg.loop loop_dist.py", "pkg.loop original"], ended.stderr


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    ended = run(tmp_path, "pkg/loop_dist.py", "helper_dist.py")
    assert ended.returncode == 1
    assert "helper_dist.py: this converted file is missing; convert the script again" in ended.stderr


@pytest.mark.parametrize("paths", [(), ("pkg/loop_dist.py",)])
def test_other_files_are_imported_as_ever(tmp_path: Path, paths: tuple[str, ...]) -> None:
    assert run(tmp_path, *paths).stdout.splitlines()[1].endswith("original")


def test_a_file_that_imports_the_script(tmp_path: Path) -> None:
    """It gets the converted one, as a module, which says so once more where it stands."""
    (tmp_path / "train.py").write_text("WHO = 'original'\n")
    (tmp_path / "helper.py").write_text("import train\nprint(train.__name__, train.WHO)\n")
    text = "import distify_runtime as rt\nrt.import_twins({})\nWHO = 'twin'\nimport helper\n"
    for name, words in [("train_dist.py", ""), ("other.py", 'original="train.py"')]:
        (tmp_path / name).write_text(text.format(words))
        ended = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.stdout.splitlines() == ["train twin"], ended.stderr


PACKAGE = {
    "pkg/__init__.py": "from .book import names\nfrom . import loop\n",
    "pkg/book.py": "names = []\n",
    "pkg/loop.py": "from .book import names\nnames.append('original')\n",
    "pkg/loop_dist.py": "from .book import names\nnames.append('twin')\n",
    "pkg/train_dist.py": "import distify_runtime as rt\nrt.import_twins('loop_dist.py')\n"
    "from . import names\nimport pkg.loop\nprint(names, pkg.names is names)\n",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_package_that_has_imported_the_original_before(tmp_path: Path) -> None:
    """`python -m pkg.train_dist` runs the package's `__init__` first."""
    write(tmp_path, PACKAGE)
    command = [sys.executable, "-m", "pkg.train_dist"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == ["['twin'] True"], ended.stderr


def test_another_copy_of_the_original(tmp_path: Path) -> None:
    """What Python finds is not what was converted: an installed copy, say."""
    source = {f"src/{name}": text for name, text in PACKAGE.items()}
    script = "import distify_runtime as rt\nrt.import_twins('src/pkg/loop_dist.py')\ntry: import pkg.loop\n"
    write(tmp_path, {**source, **PACKAGE, "train_dist.py": script + "except ImportError: pass\n"})
    ended = subprocess.run([sys.executable, "train_dist.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"RuntimeError: distify: pkg.loop is {tmp_path}/pkg/loop.py here")
    assert last.endswith(f"put {tmp_path}/src into PYTHONPATH")


@pytest.mark.parametrize("order", [["loop", "loop_dist"], ["loop_dist", "loop"]])
def test_a_folder_of_which_each_file_is_imported(tmp_path: Path, order: list[str]) -> None:
    """A twin that is asked for by its own name is what its original's name stands for, and runs once."""
    files = {
        "pkg/__init__.py": "",
        "pkg/loop.py": "print('original')\n",
        "pkg/loop_dist.py": "print('twin', __name__)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "train_dist.py").write_text(
        "from distify_runtime import import_twins\nimport_twins('pkg/loop_dist.py')\nimport importlib\n"
        f"first, second = [importlib.import_module('pkg.' + name) for name in {order}]\n"
        "print(first is second, first.__spec__.name)\n"
    )
    ended = subprocess.run([sys.executable, "train_dist.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == ["twin pkg.loop", "True pkg.loop"], ended.stderr
