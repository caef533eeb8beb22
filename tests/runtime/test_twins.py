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
