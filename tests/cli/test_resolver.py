"""Local modules are found where Python would find them when the script is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from distify.resolver import LocalModules


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(*paths: str) -> None:
    for name in paths:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"NAME = {name!r}\n")


def found(entry: str, name: str, level: int = 0, importing: str = "") -> str | None:
    source = LocalModules(entry)(importing or entry, name, level)
    return source.path if source else None


@pytest.mark.parametrize(
    "files",
    [
        ["data.py"],
        ["data/__init__.py"],
        ["data/__init__.py", "data.py"],
        ["data.py", "data/loaders.py"],
        ["data/__init__.py", "data/loaders.py"],
        ["data/loaders.py"],
        ["data/loaders/__init__.py", "data/loaders.py"],
        ["data/__init__.py", "data/loaders/__init__.py"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["data", "data.loaders"])
def test_absolute_names_are_what_python_imports(files: list[str], name: str) -> None:
    make(*files)
    Path("train.py").write_text(f"import {name} as module\nprint(getattr(module, 'NAME', None))\n")
    python = subprocess.run([sys.executable, "-B", "train.py"], capture_output=True, text=True, timeout=60)
    assert str(found("train.py", name)) == (python.stdout.strip() or "None")


def test_modules_are_found_beside_the_script_wherever_it_lies(tmp_path: Path) -> None:
    make("src/train.py", "src/net.py", "net.py")
    assert found("src/train.py", "net") == "src/net.py"
    assert found(str(tmp_path / "src/train.py"), "net") == str(tmp_path / "src/net.py")


def test_relative_names_go_by_the_importing_file() -> None:
    make(
        "pkg/__init__.py",
        "pkg/train.py",
        "pkg/net.py",
        "pkg/sub/__init__.py",
        "pkg/sub/data.py",
        "pkg/sub/net.py",
    )
    assert found("pkg/train.py", "net", 1) == "pkg/net.py"
    assert found("pkg/train.py", "sub.data", 1) == "pkg/sub/data.py"
    assert found("pkg/train.py", "net", 1, "pkg/sub/data.py") == "pkg/sub/net.py"
    assert found("pkg/train.py", "net", 2, "pkg/sub/data.py") == "pkg/net.py"
    assert found("pkg/train.py", "", 1, "pkg/sub/data.py") == "pkg/sub/__init__.py"
    assert found("pkg/train.py", "data", 1, "pkg/sub/__init__.py") == "pkg/sub/data.py"


def test_a_script_in_a_package_also_sees_the_package_by_its_name() -> None:
    make("pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/train.py", "pkg/net.py", "other.py")
    assert found("pkg/sub/train.py", "pkg.net") == "pkg/net.py"
    assert found("pkg/sub/train.py", "other") == "other.py"


def test_from_within_the_package_a_file_still_has_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    make("pkg/__init__.py", "pkg/train.py", "pkg/net.py")
    monkeypatch.chdir("pkg")
    assert found("train.py", "pkg.net") == found("train.py", "net", 1) == "net.py"


def test_absolute_names_never_come_from_above_the_package() -> None:
    make("outside.py", "work/pkg/__init__.py", "work/pkg/train.py", "work/script/train.py", "work/beside.py")
    assert found("work/pkg/train.py", "outside") is None
    assert found("work/script/train.py", "beside") is None
    assert found("work/script/train.py", "../beside") is None


def test_what_is_not_local_is_none(tmp_path: Path) -> None:
    make("train.py")
    assert found("train.py", "torch") is None
    assert found("train.py", "torch.nn") is None
    (tmp_path / "folder.py").mkdir()
    assert found("train.py", "folder") is None


def test_each_file_is_read_once() -> None:
    make("train.py", "net.py")
    modules = LocalModules("train.py")
    first = modules("train.py", "net", 0)
    Path("net.py").write_text("changed = True\n")
    assert modules("train.py", "net", 0) is first
    assert [source.path for source in modules.found.values()] == ["net.py"]


def test_the_folder_of_a_module_start_without_init() -> None:
    """`python -m pkg.train` finds `pkg.net`, and nothing else of where it is started."""
    make("pkg/train.py", "pkg/net.py", "other/__init__.py")
    assert found("pkg/train.py", "pkg.net") == "pkg/net.py"
    assert found("pkg/train.py", "other") is None


def test_folders_above_the_script_that_pythonpath_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make("tools/train.py", "lib/__init__.py", "elsewhere/more.py")
    assert found("tools/train.py", "lib") is None
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'elsewhere'}:.")
    assert found("tools/train.py", "lib") == "lib/__init__.py"
    assert found("tools/train.py", "more") is None


def test_installed_libraries_are_not_local() -> None:
    make("train.py", "venv/lib/python3.11/site-packages/net.py")
    assert found("train.py", "net", 1, "venv/lib/python3.11/site-packages/other.py") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch", True), ("torch.nothing", True), ("sys", True), ("sys.nothing", True), ("xml.dom", True),
        ("parts", True), ("parts.net", True), ("parts.nets", False), ("parts.deeper.net", True),
        ("parts.deeper.nets", False), ("nothing", False), ("nothing.net", False), ("helper.net", True),
    ],
)  # fmt: skip
def test_what_a_folder_without_init_lacks_is_installed_nowhere(name: str, expected: bool) -> None:
    make("train.py", "helper.py", "parts/net.py", "parts/deeper/net.py")
    assert LocalModules("train.py").installs(name) is expected


def test_how_a_script_has_to_be_started(tmp_path: Path) -> None:
    make("pkg/__init__.py", "pkg/train.py", "pkg/net.py", "sub/train.py", "sub/net.py")
    for entry, name, level, as_module in [
        ("pkg/train.py", "net", 0, False),
        ("pkg/train.py", "pkg.net", 0, True),
        ("pkg/train.py", "net", 1, True),
        ("sub/train.py", "net", 0, False),
        ("sub/train.py", "net", 1, True),
    ]:
        modules = LocalModules(entry)
        assert modules(entry, name, level) is not None
        assert (modules.as_module, not as_module or modules.root == str(tmp_path)) == (as_module, True)


@pytest.mark.parametrize(
    ("imports", "as_module", "needs_root"),
    [
        ([("train", "net"), ("__init__", "pkg")], False, False),  # which a file does not run
        ([("__init__", "pkg.routes"), ("routes", "pkg"), ("train", "net")], False, False),
        ([("train", "net"), ("net", "pkg.routes")], False, True),
        ([("train", "pkg.net"), ("net", "routes")], False, True),
        ([("__init__", "pkg.routes"), ("train", "pkg.net")], True, False),
        ([("__init__", "routes"), ("train", "net")], False, False),
        ([("routes", "net"), ("train", "pkg.net")], True, False),  # a file that nothing of the script's imports
    ],
)
def test_a_neighbour_by_its_bare_name_is_a_files_to_import(
    imports: list[tuple[str, str]], as_module: bool, needs_root: bool
) -> None:
    make("pkg/__init__.py", "pkg/train.py", "pkg/net.py", "pkg/routes.py")
    modules = LocalModules("pkg/train.py")
    for importing, name in imports:
        assert modules(f"pkg/{importing}.py", name, 0) is not None
        assert modules("pkg/net.py", "", 1) is not None  # what is around a file is asked for, and does not run
    assert (modules.as_module, modules.needs_root) == (as_module, needs_root)


@pytest.mark.parametrize("marker", ["pyproject.toml", "setup.py", ".git/HEAD"])
def test_a_project_finds_its_own_packages_last(marker: str) -> None:
    """A `setup.py` that sets nothing up is a module of the script's own."""
    make(marker, "projects/x/train.py", "pkg/model.py", "src/lib/__init__.py", "src/lib/net.py", "lib.py")
    make("projects/x/setup.py")
    if marker == "setup.py":
        Path(marker).write_text("from setuptools import setup\nsetup()\n")
    assert found("projects/x/train.py", "pkg.model") == "pkg/model.py"
    assert found("projects/x/train.py", "lib") == "lib.py"
    make("projects/x/pkg/model.py")
    assert found("projects/x/train.py", "pkg.model") == "projects/x/pkg/model.py"


@pytest.mark.parametrize("marker", ["requirements.txt", "README.md", "LICENSE"])
def test_a_copy_of_a_project_without_its_history(marker: str) -> None:
    make(marker, "code/README.md", "code/train.py", "data/dataset.py", "src/lib/__init__.py")
    assert found("code/train.py", "data.dataset") == "data/dataset.py"
    assert found("code/train.py", "lib") == "src/lib/__init__.py"


def test_where_it_is_said_what_a_project_is_nothing_above_is_searched() -> None:
    make("README.md", "data/dataset.py", "inner/pyproject.toml", "inner/train.py")
    assert found("inner/train.py", "data.dataset") is None


@pytest.mark.parametrize("marker", ["README.md", "requirements.txt", "LICENSE"])
@pytest.mark.parametrize("linked", [False, True])
def test_what_lies_in_the_home_folder_makes_no_project_of_it(
    marker: str, linked: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make(f"me/{marker}", "me/data/dataset.py", "me/work/train.py", "me/train.py", f"me/work/papers/{marker}")
    (tmp_path / "also_me").symlink_to("me")
    monkeypatch.setenv("HOME", str(tmp_path / ("also_me" if linked else "me")))
    assert found("me/work/train.py", "data.dataset") is None
    assert found("me/train.py", "data.dataset") == "me/data/dataset.py"  # beside the script
    make("me/work/data/dataset.py")
    assert found("me/work/papers/train.py", "data.dataset") is None
    make(f"me/work/{marker}")
    assert found("me/work/papers/train.py", "data.dataset") == "me/work/data/dataset.py"


def test_a_home_folder_that_is_said_to_be_a_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make("me/pyproject.toml", "me/data/dataset.py", "me/work/train.py")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert found("me/work/train.py", "data.dataset") == "me/data/dataset.py"


def test_a_folder_that_is_no_project_is_not_searched() -> None:
    make("projects/x/train.py", "pkg/model.py", "src/lib/__init__.py")
    assert found("projects/x/train.py", "pkg.model") is None
    assert found("projects/x/train.py", "lib") is None


def test_the_way_to_start_a_script_stays_what_its_project_needs() -> None:
    make("pyproject.toml", "projects/x/train.py", "src/lib/__init__.py")
    modules = LocalModules("projects/x/train.py")
    assert modules("projects/x/train.py", "lib", 0) is not None
    assert not modules.as_module
