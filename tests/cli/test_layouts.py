"""Where the files of a project go: beside the originals, in their place, or into a copy. All of them, or none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine, Here

from tests.equivalence.processes import run_ranks

TRAIN = b"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pkg import fit
from settings import EPOCHS


def main():
    dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(model, loader, optimizer, EPOCHS)


if __name__ == "__main__":
    main()
"""
FIT = b"""\
import torch
from torch import nn


def fit(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        print("epoch", epoch)
    torch.save(model.state_dict(), "model.pt")
"""
PROJECT = {
    "train.py": TRAIN,
    "settings.py": b"EPOCHS = 2\n",
    "pkg/__init__.py": b"from .loop import fit\n",
    "pkg/loop.py": FIT,
}
TWINS = ["pkg/loop_dist.py", "train_dist.py"]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(folder: Path, table: dict[str, bytes]) -> None:
    for name, data in table.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.fixture
def project(distify: CommandLine) -> Path:
    write(distify.folder, PROJECT)
    return distify.folder


def launched(distify: CommandLine, *args: str) -> bytes:
    """What the converted script prints on two ranks, started as a user does."""
    ended = distify("run", "-np", "2", *args)
    assert ended.code == 0, ended.err
    return ended.out


def run(distify: CommandLine, script: str, folder: str = ".") -> bytes:
    """The same, of ranks that have imported torch already: rank 0 alone prints."""
    at = distify.folder / folder
    first, second = run_ranks([str(at / script)], 2, at, distify.folder.with_name("logs"), forked=True)
    assert second == ""
    return first.encode()


# --- beside


def test_twins_stand_beside_their_originals_and_run(distify: CommandLine, project: Path) -> None:
    ended = distify("convert", "train.py", "--yes")
    assert ended.code == 0
    assert "wrote train_dist.py and pkg/loop_dist.py\n" in ended.err
    assert ended.err.endswith("\n  distify run -np 2 train_dist.py ...\n")
    assert b"--- a/pkg/loop.py\n+++ b/pkg/loop_dist.py\n" in ended.out
    after = files(project)
    assert sorted(after) == sorted([*PROJECT, *TWINS])
    assert {name: after[name] for name in PROJECT} == PROJECT
    assert b"from pkg.loop_dist import fit\n" in after["train_dist.py"]
    assert run(distify, "train_dist.py") == b"epoch 0\nepoch 1\n"


def test_a_second_time_there_is_nothing_to_do(distify: CommandLine, project: Path) -> None:
    assert distify("convert", "train.py", "--yes").code == 0
    before = files(project)
    ended = distify("convert", "train.py", "--yes")
    assert (ended.code, ended.err) == (0, "train_dist.py is there already, and up to date\n")
    ended = distify("convert", "train_dist.py", "--yes")
    assert (ended.code, ended.err) == (0, "train_dist.py: already converted; nothing to do\n")
    assert files(project) == before


def test_output_names_the_script_only(distify: CommandLine, project: Path) -> None:
    assert distify("convert", "train.py", "--yes", "-o", "./ddp.py").code == 0
    assert sorted(files(project)) == sorted([*PROJECT, "ddp.py", "pkg/loop_dist.py"])


def test_two_scripts_share_a_twin(distify: CommandLine, project: Path) -> None:
    (project / "other.py").write_bytes(TRAIN.replace(b"lr=0.1", b"lr=0.2"))
    assert distify("convert", "train.py", "--yes").code == 0
    before = files(project)
    ended = distify("convert", "other.py", "--yes")
    assert ended.code == 0
    assert "wrote other_dist.py\n" in ended.err
    assert files(project) == {**before, "other_dist.py": (project / "other_dist.py").read_bytes()}


def test_a_twin_that_differs_is_not_overwritten_without_force(distify: CommandLine, project: Path) -> None:
    (project / "pkg/loop_dist.py").write_bytes(b"mine = 1\n")
    before = files(project)
    ended = distify("convert", "train.py", "--yes")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith("distify: pkg/loop_dist.py exists already and differs, as from another script's")
    assert files(project) == before
    os.utime(project / "pkg/loop_dist.py", (1, 1))
    older = "distify: pkg/loop_dist.py exists already and is older than its original: --force overwrites it"
    assert distify("convert", "train.py", "--yes").err.startswith(older)
    assert distify("convert", "train.py", "--yes", "--force").code == 0
    assert b"distify_runtime" in (project / "pkg/loop_dist.py").read_bytes()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only_stops_all_of_it(distify: CommandLine, project: Path) -> None:
    (project / "pkg").chmod(0o555)
    ended = distify("convert", "train.py", "--yes")
    assert (ended.code, ended.out) == (2, b"")
    assert "pkg/loop_dist.py: cannot be written: permission denied" in ended.err
    assert files(project) == PROJECT


def test_what_is_in_the_way_of_one_file_stops_all(distify: CommandLine, project: Path) -> None:
    (project / "pkg/loop_dist.py").mkdir()
    ended = distify("convert", "train.py", "--yes")
    assert (ended.code, ended.out) == (2, b"")
    assert "pkg/loop_dist.py: is a folder" in ended.err
    assert files(project) == PROJECT


def test_the_question_names_all_files(distify: CommandLine, project: Path) -> None:
    ended = distify.at_terminal("convert", "train.py", answer=b"n\n")
    assert b"write train_dist.py and pkg/loop_dist.py? [y/N] " in ended.out
    assert b"+++ b/pkg/loop_dist.py" in ended.out
    assert files(project) == PROJECT


def test_twins_that_take_the_names_of_their_originals(distify: CommandLine, project: Path) -> None:
    (project / "train.py").write_bytes(
        TRAIN.replace(b"from pkg import fit\n", b"import pkg\n").replace(b"    fit(", b"    pkg.fit(")
    )
    assert distify("convert", "train.py", "--yes").code == 0
    assert sorted(files(project)) == sorted([*PROJECT, "train_dist.py", "pkg/loop_dist.py"])
    assert b'import_twins("pkg/loop_dist.py")' in files(project)["train_dist.py"]
    again = distify("convert", "train.py", "--yes")
    assert again.code == 0


@pytest.mark.parametrize(("output", "named"), [("train_dist.py", "train_dist"), ("ddp.py", "ddp")])
@pytest.mark.parametrize("pointed", [True, False])
def test_a_file_that_imports_the_script(
    pointed: bool, output: str, named: str, distify: CommandLine, project: Path
) -> None:
    """It gets the converted script: the original's `keep` would write on every rank, and ranks would print."""
    keep = b"def keep(model):\n    print('kept by', __file__.split('/')[-1])\n    torch.save(model.state_dict(), 'k')\n"
    train = TRAIN.replace(b"def main", keep + b"\n\ndef main")
    if not pointed:
        train = train.replace(b"from pkg import fit\n", b"import pkg\n").replace(b"    fit(", b"    pkg.fit(")
    fit = FIT.replace(b"    torch.save(model.state_dict(), ", b"    from train import keep\n    keep(model)  # (")
    write(project, {"train.py": train, "pkg/loop.py": fit})
    assert distify("convert", "train.py", "--yes", "-o", f"./{output}").code == 0
    asks = f"from {named} import keep".encode() if pointed else b"from train import keep"
    assert asks in files(project)["pkg/loop_dist.py"]
    assert (b"import_twins(" in files(project)[output]) is not pointed
    assert run(distify, output) == f"epoch 0\nepoch 1\nkept by {output}\n".encode()


def test_a_package_that_keeps_its_models_in_a_registry(distify: CommandLine) -> None:
    """`python -m app.train_dist` runs the package first, and so the originals: they give way."""
    book = b"BOOK = {}\n\n\ndef kept(function):\n    assert function.__name__ not in BOOK\n"
    package = {
        "app/__init__.py": b"from .book import BOOK\nfrom . import loop\n",
        "app/book.py": book + b"    BOOK[function.__name__] = function\n    return function\n",
        "app/loop.py": b"from .book import kept\n" + FIT.replace(b"def fit", b"@kept\ndef fit"),
        "app/train.py": TRAIN.replace(b"from pkg import fit", b"from . import BOOK")
        .replace(b"from settings import EPOCHS\n", b"")
        .replace(b"    fit(model, loader, optimizer, EPOCHS)", b"    BOOK['fit'](model, loader, optimizer, 1)"),
    }
    write(distify.folder, package)
    assert distify("convert", "app/train.py", "--yes").code == 0
    assert b'import_twins("loop_dist.py")' in files(distify.folder)["app/train_dist.py"]
    assert launched(distify, "-m", "app.train_dist") == b"epoch 0\n"
    assert distify("convert", "app/train.py", "--yes").err == "app/train_dist.py is there already, and up to date\n"


def test_a_package_that_takes_its_own_files_by_its_name(distify: CommandLine) -> None:
    """`from app.parts import small` in `app/parts/__init__.py`: the file's twin, and no name of the package's own."""
    package = {
        "parts/__init__.py": b"from parts import small, large\n\n\ndef build(name):\n"
        b"    return small.make() if name == 'small' else large.make()\n",
        "parts/small.py": b"from torch import nn\n\n\ndef make():\n    print('small')\n    return nn.Linear(4, 1)\n",
        "parts/large.py": b"from torch import nn\n\n\ndef make():\n    return nn.Linear(4, 1)\n",
        "train.py": b"from parts import build\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        + FIT
        + b"\n\ndata = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"
        b"model = build('small')\n"
        b"fit(model, DataLoader(data, batch_size=16), torch.optim.SGD(model.parameters(), lr=0.1), 1)\n",
    }
    write(distify.folder, package)
    assert distify("convert", "train.py", "--yes").code == 0
    twin = files(distify.folder).get("parts/__init___dist.py", b"")
    assert twin.startswith(b"from parts import large\nfrom parts import small_dist as small\n")
    assert launched(distify, "train_dist.py") == b"small\nepoch 0\n"


# --- in place, and as a diff


def test_in_place_changes_each_file_that_needs_it(distify: CommandLine, project: Path) -> None:
    diff = distify("convert", "train.py", "--diff").out
    assert distify("convert", "train.py", "--in-place", "--yes").code == 0
    after = files(project)
    assert sorted(after) == sorted(PROJECT)
    assert {name for name in PROJECT if after[name] != PROJECT[name]} == {"train.py", "pkg/loop.py"}
    assert diff.count(b"\n+++ b/") == 2
    assert b"_dist" not in diff
    assert distify("convert", "train.py", "--check").code == 0


# --- a copy


def test_a_copy_holds_the_project(distify: CommandLine, project: Path) -> None:
    others = {
        "config.json": b"{}\n",
        "data/part/one.txt": b"1\n",
        "notes_dist.txt": b"",
    }
    left = {".git/HEAD": b"", "__pycache__/a.pyc": b"", "venv/pyvenv.cfg": b"", "venv/lib/x.py": b"", ".hidden": b""}
    write(project, {**others, **left})
    os.symlink("data/part", project / "current")
    os.symlink("/dev/null", project / "nothing")
    before = files(project)
    ended = distify("convert", "train.py", "--yes", "-o", "out/")
    assert ended.code == 0
    assert "3 other files (0.0 MB) copied along\n" in ended.err
    assert ended.err.endswith("\n  cd out && distify run -np 2 train.py ...\n")
    after = files(project)
    assert {name: data for name, data in after.items() if not name.startswith("out/")} == before
    copy = {name[4:]: data for name, data in after.items() if name.startswith("out/")}
    assert sorted(copy) == sorted([*PROJECT, *others])
    assert {name for name in PROJECT if copy[name] != PROJECT[name]} == {"train.py", "pkg/loop.py"}
    assert os.readlink(project / "out/current") == "data/part"
    assert os.readlink(project / "out/nothing") == "/dev/null"
    assert run(distify, "train.py", folder="out") == b"epoch 0\nepoch 1\n"
    ended = distify("convert", "train.py", "--yes", "-o", "out")
    assert (ended.code, ended.err) == (0, "out is there already, and up to date\n")


def test_a_copy_has_no_earlier_conversions(distify: CommandLine, project: Path) -> None:
    """What is named as one is none where its original is not beside it, or where it knows nothing of ranks."""
    assert distify("convert", "train.py", "--yes").code == 0
    write(project, {"alone_dist.py": b"import distify_runtime\n", "config.json": b"{}\n", "pkg/__init___dist.py": b""})
    assert (project / "pkg/loop_dist.py").exists()
    assert distify("convert", "train.py", "--yes", "-o", "out/").code == 0
    copied = files(project / "out")
    assert sorted(copied) == sorted([*PROJECT, "alone_dist.py", "config.json", "pkg/__init___dist.py"])


def test_folders_of_data_go_along_whole(distify: CommandLine, project: Path) -> None:
    """Stores keep what is in them in hidden files; what belongs to tools and secrets stays behind, wherever it lies."""
    whole = ["x.zarr/.zgroup", "x.zarr/0/.zarray", "x.zarr/0/0.0", "saved/.metadata", "sets/a/.parts/x", "sets/a/b.bin"]
    left = ["sets/.git/HEAD", "sets/.env", "sets/.DS_Store", "sets/.cache/x", "sets/.venv/lib/a.so", "sets/.gitkeep"]
    beside_code = ["pkg/.hidden", ".hidden", ".store/x.bin", "more/prepare.py", "more/.hidden"]
    write(project, dict.fromkeys([*whole, *left, *beside_code], b""))
    ended = distify("convert", "train.py", "--yes", "-o", "out/")
    assert ended.code == 0
    assert "7 other files (0.0 MB) copied along\n" in ended.err
    copy = {name[4:] for name in files(project) if name.startswith("out/")}
    assert copy == {*PROJECT, *whole, "more/prepare.py"}
    assert distify("convert", "train.py", "--yes", "-o", "out").err == "out is there already, and up to date\n"


def test_a_copy_has_the_folders_that_a_script_writes_into(distify: CommandLine, project: Path) -> None:
    """Where nothing is in them yet, or a hidden file that keeps their place."""
    write(project, {"runs/.gitkeep": b"", "__pycache__/a.pyc": b"", "venv/pyvenv.cfg": b"", "data/big.txt": b"1\n"})
    (project / "models/best").mkdir(parents=True)
    assert distify("convert", "train.py", "--yes", "-o", "out/").code == 0
    folders = {str(path.relative_to(project / "out")) for path in (project / "out").rglob("*") if path.is_dir()}
    assert folders == {"models", "models/best", "runs", "data", "pkg"}
    assert distify("convert", "train.py", "--yes", "-o", "out/").code == 0
    assert not (project / "out/out").exists()


@pytest.mark.parametrize("marked", [True, False])
def test_an_init_beside_the_script_makes_its_neighbours_no_part_of_it(distify: CommandLine, marked: bool) -> None:
    """A copy of the script's project, and not of all that lies in the folder above."""
    write(distify.folder, {f"one/{name}": data for name, data in PROJECT.items()})
    write(distify.folder, {"one/__init__.py": b"", "one/data/x.txt": b"1\n", "other/y.txt": b"2\n"})
    if marked:
        write(distify.folder, {"one/README.md": b"one\n"})
    ended = CommandLine(distify.folder / "one", distify.env)("convert", "train.py", "--yes", "-o", "../out/")
    assert ended.err.endswith("\n  cd ../out && distify run -np 2 train.py ...\n"), ended.err
    names = {path for path in files(distify.folder / "out") if not path.endswith(".md")}
    assert names == {*PROJECT, "__init__.py", "data/x.txt"}


def test_large_data_is_linked_and_said(distify: CommandLine, project: Path) -> None:
    (project / "data").mkdir()
    with open(project / "data/big.bin", "wb") as file:
        file.truncate(101 * 2**20)
    ended = distify("convert", "train.py", "--yes", "-o", "out/")
    assert "data (101 MB) is linked, not copied\n" in ended.err
    assert os.readlink(project / "out/data") == str(project / "data")


def test_a_copy_that_cannot_be_finished_leaves_nothing(distify: CommandLine, project: Path) -> None:
    write(project, {"out/pkg": b"a file where a folder has to be\n"})
    before = files(project)
    ended = distify("convert", "train.py", "--yes", "-o", "out/")
    assert (ended.code, ended.out) == (2, b"")
    assert files(project) == before


def test_a_copy_keeps_what_was_changed_in_it(distify: CommandLine, project: Path) -> None:
    write(project, {"config.json": b"{}\n", "out/config.json": b"{'mine': 1}\n", "out/train.py": b"mine = 1\n"})
    ended = distify("convert", "train.py", "--yes", "-o", "out/")
    assert ended.code == 2
    assert ended.err.startswith("distify: out/train.py exists already: --force overwrites it")
    assert distify("convert", "train.py", "--yes", "-o", "out/", "--force").code == 0
    assert (project / "out/config.json").read_bytes() == b"{'mine': 1}\n"


# --- where the script lies


def test_a_script_inside_a_package_is_started_as_a_module(distify: CommandLine) -> None:
    package = {
        "app/__init__.py": b"",
        "app/train.py": TRAIN.replace(b"from pkg", b"from .loop").replace(b"from settings", b"from app.settings"),
        "app/loop.py": FIT,
        "app/settings.py": b"EPOCHS = 2\n",
    }
    write(distify.folder, package)
    ended = distify("convert", "app/train.py", "--yes")
    assert ended.code == 0, ended.err
    assert "`python -m app.train_dist ...` still runs" in ended.err
    assert ended.err.endswith("\n  distify run -np 2 -m app.train_dist ...\n")
    assert launched(distify, "-m", "app.train_dist") == b"epoch 0\nepoch 1\n"
    inside = CommandLine(distify.folder / "app", distify.env)
    ended = inside("convert", "train.py", "--yes", "--force")
    assert ended.err == "train_dist.py is there already, and up to date\n"


def _with_neighbours(distify: CommandLine, **more: bytes) -> None:
    """A script in a package that can only be started as a file."""
    app = {
        "__init__": b"import this_is_not_installed\nfrom app import settings\n",
        "train": TRAIN.replace(b"from pkg", b"from loop"),
        "loop": FIT,
        "settings": b"EPOCHS = 2\n",
    }
    write(distify.folder, {f"app/{name}.py": text for name, text in (app | more).items()})


def test_a_script_that_imports_its_neighbours_is_started_as_a_file(distify: CommandLine) -> None:
    _with_neighbours(distify)
    ended = distify("convert", "app/train.py", "--yes")
    assert ended.code == 0, ended.err
    assert "`python app/train_dist.py ...` still runs" in ended.err
    assert ended.err.endswith("\n  distify run -np 2 app/train_dist.py ...\n")
    assert "PYTHONPATH" not in ended.err
    assert run(distify, "app/train_dist.py") == b"epoch 0\nepoch 1\n"


def test_a_script_that_also_imports_its_package_is_told_of_its_folder(distify: CommandLine, here: Here) -> None:
    _with_neighbours(distify, __init__=b"", settings=b"from app.counts import EPOCHS\n", counts=b"EPOCHS = 1\n")
    ended = distify("convert", "app/train.py", "--yes")
    assert ended.code == 0, ended.err
    assert f"it imports modules from {distify.folder}: have that folder in PYTHONPATH when it runs" in ended.err
    assert "`python app/train_dist.py ...` still runs" in ended.err
    path = os.pathsep.join([str(distify.folder), distify.env["PYTHONPATH"]])
    there = {**distify.env, "PYTHONPATH": path}
    script = [sys.executable, "app/train_dist.py"]
    assert subprocess.check_output(script, cwd=distify.folder, env=there) == b"epoch 0\n"
    ended = here("verify", "app/train.py")
    assert ended.code == 0, ended.out.decode() + ended.err


ALONE = b"""\
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(64, SIZE), torch.randn(64, 1)), batch_size=16, shuffle=True)
model = nn.Linear(SIZE, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""
_ON_PYTHONPATH = TRAIN.replace(b"from pkg", b"from parts").replace(b"from settings import EPOCHS\n", b"EPOCHS = 1\n")


def _with_path(distify: CommandLine, folder: Path) -> str:
    return os.pathsep.join([str(folder), distify.env["PYTHONPATH"]])


def test_a_folder_below_the_script_that_pythonpath_names_is_of_the_project(distify: CommandLine) -> None:
    write(distify.folder, {"train.py": _ON_PYTHONPATH, "lib/parts.py": FIT})
    path = _with_path(distify, distify.folder / "lib")
    ended = distify("convert", "train.py", "--yes", PYTHONPATH=path)
    assert ended.code == 0, ended.err
    assert (distify.folder / "lib" / "parts_dist.py").exists()
    ran = distify("run", "-np", "2", "train_dist.py", PYTHONPATH=path, CUDA_VISIBLE_DEVICES="")
    assert (ran.code, ran.out) == (0, b"epoch 0\n"), ran.err


def test_a_module_that_pythonpath_names_outside_of_the_project_is_named(distify: CommandLine, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, {"parts.py": b"SIZE = 4\n", "json.py": b""})
    write(distify.folder, {"own/train.py": b"import json\nimport torch\nfrom parts import SIZE\n" + ALONE})
    ended = distify("check", "own/train.py", PYTHONPATH=_with_path(distify, elsewhere))
    said = ended.out.decode()
    assert f"outside of the project, and not followed: `parts` (own/train.py:3) at {elsewhere / 'parts.py'};" in said
    ended = distify("check", "own/train.py")
    assert "outside of the project" not in ended.out.decode()
    assert "not found: `parts` (own/train.py:3)" in ended.out.decode()


def test_a_script_inside_a_folder_without_init(distify: CommandLine) -> None:
    package = {
        "app/train.py": TRAIN.replace(b"from pkg", b"from app.loop").replace(b"from settings", b"from .settings"),
        "app/loop.py": FIT,
        "app/settings.py": b"EPOCHS = 2\n",
    }
    write(distify.folder, package)
    ended = distify("convert", "app/train.py", "--yes")
    assert ended.err.endswith("\n  distify run -np 2 -m app.train_dist ...\n")


@pytest.mark.parametrize(
    "line",
    [
        'sys.path.append("../..")',
        'sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))',
        "ROOT = Path(__file__).resolve().parents[2]\nsys.path.append(str(ROOT))",
        "sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))",
        'here = Path(__file__).parent\nsys.path.append(str(here / ".." / ".."))',
        "HERE = os.path.dirname(__file__)\nfor one in [HERE, os.path.join(HERE, '..', '..')]:\n"
        "    if one not in sys.path:\n        sys.path.insert(0, one)",
    ],
)
def test_modules_that_the_script_puts_into_its_path(distify: CommandLine, line: str) -> None:
    top = f"import os\nimport sys\nfrom pathlib import Path\n{line}\n".encode()
    project = {name: data for name, data in PROJECT.items() if name != "train.py"}
    write(distify.folder, {**project, "tools/more/train.py": top + TRAIN})
    ended = CommandLine(distify.folder / "tools/more", distify.env)("convert", "train.py", "--yes")
    assert ended.code == 0, ended.err
    assert sorted(files(distify.folder).keys() - project.keys()) == [
        "pkg/loop_dist.py", "tools/more/train.py", "tools/more/train_dist.py",
    ]  # fmt: skip


# --- other scripts of the project

SAMPLING = b"""\
import torch


def sample(model):
    with torch.no_grad():
        return model(torch.ones(1, 8)).shape
"""
SHARING = {
    "train.py": TRAIN.replace(b"from settings", b"from sampling import sample\nfrom settings").replace(
        b", EPOCHS)\n", b", EPOCHS)\n    print(sample(model))\n"
    ),
    "sampling.py": SAMPLING,
    "tools/__init__.py": b"",
    "tools/generate.py": b"import torch\nfrom sampling import sample\n\nprint(sample(torch.nn.Linear(8, 3)))\n",
}


@pytest.mark.parametrize("way", [("--in-place", "--yes"), ("--yes", "-o", "copy/"), ("--diff",)])
def test_a_script_that_is_not_converted_goes_on_working(way: tuple[str, ...], distify: CommandLine) -> None:
    write(distify.folder, {**PROJECT, **SHARING})
    ended = distify("convert", "train.py", *way)
    assert ended.code == 0, ended.err
    where = distify.folder / ("copy" if "-o" in way else ".")
    if way == ("--diff",):
        subprocess.run(["patch", "-p1"], input=ended.out, cwd=where, check=True, capture_output=True)
    assert b"return rt.unwrap(model)(" in (where / "sampling.py").read_bytes()
    plain = subprocess.run(
        [sys.executable, "-m", "tools.generate"], cwd=where, env=distify.env, capture_output=True, check=False
    )
    assert (plain.returncode, plain.stdout) == (0, b"torch.Size([1, 3])\n"), plain.stderr
    assert b"torch.Size([1, 1])\n" in run(distify, "train.py", folder=str(where.relative_to(distify.folder)))


def test_twins_leave_the_other_script_alone(distify: CommandLine) -> None:
    write(distify.folder, {**PROJECT, **SHARING})
    assert distify("convert", "train.py", "--yes").code == 0
    assert (distify.folder / "sampling.py").read_bytes() == SAMPLING
    assert b"model.module(" in (distify.folder / "sampling_dist.py").read_bytes()


def test_files_that_are_no_scripts_of_the_project_are_not_looked_at(distify: CommandLine) -> None:
    write(distify.folder, {**PROJECT, **SHARING, "bad.py": b"\xff\xfe sampling", "v/pyvenv.cfg": b""})
    (distify.folder / "tools/generate.py").rename(distify.folder / "v/generate.py")
    assert distify("convert", "train.py", "--in-place", "--yes").code == 0
    assert b"model.module(" in (distify.folder / "sampling.py").read_bytes()
