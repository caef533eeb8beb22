"""Ways in which people start a training: each is converted, runs on two ranks, and follows one process."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine

from tests.grid import slow, some

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)
"""
BODY = """\
    torch.manual_seed(0)
    x = torch.randn(32, 4)
    loader = DataLoader(TensorDataset(x, x[:, :1] * 2), batch_size=8)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.MSELoss(reduction=reduction)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    print("figure", f"{model.weight.sum().item():.9f}")
"""
TRAIN = f"{HEAD}\n\ndef main(reduction='mean'):\n{BODY}"
GUARD = "\n\nif __name__ == '__main__':\n    main()\n"
PYPROJECT = "[project]\nname = 'proj'\nversion = '1'\n\n[project.scripts]\n"
SETUP = "from setuptools import setup\n\nsetup(name='proj', entry_points={'console_scripts': [%s]})\n"


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def figures(text: bytes) -> list[bytes]:
    return re.findall(rb"^figure .*$", text, re.MULTILINE)


#: The files, what Python runs of the original, what is converted, and what the twin is given.
STARTS = {
    "a command of the project": (
        {"pyproject.toml": f"{PYPROJECT}go = 'proj.cli:main'\n", "proj/__init__.py": "", "proj/cli.py": TRAIN},
        ["-c", "from proj.cli import main; main()"], ["proj/cli.py"], [],
    ),
    "a command of the project that the file imports": (
        {"pyproject.toml": f"{PYPROJECT}go = 'proj.cli:run'\n", "proj/__init__.py": "", "proj/train.py": TRAIN,
         "proj/cli.py": "import sys\nfrom .train import (\n    main as run,\n)\n"},
        ["-c", "from proj.cli import run; run()"], ["proj/cli.py"], [],
    ),
    "what a command of the project imports": (
        {"pyproject.toml": f"{PYPROJECT}go = 'proj:run'\n", "src/proj/__init__.py": "from proj.cli import run\n",
         "src/proj/train.py": TRAIN, "src/proj/cli.py": "from .train import main as run\n"},
        ["-c", "import sys; sys.path.insert(0, 'src'); from proj import run; run()"], ["src/proj/train.py"], [],
    ),
    "a module": ({"pkg/__init__.py": "", "pkg/go.py": TRAIN + GUARD}, ["-m", "pkg.go"], ["-m", "pkg.go"], []),
    "a command of click that makes the loss a sum": (
        {"train.py": f"import click\n{HEAD}\n@click.group()\ndef cli():\n    pass\n\n@cli.command()\n"
         f"@click.option('--reduction', default='mean')\ndef train(reduction='mean'):\n{BODY}\n"
         "if __name__ == '__main__':\n    cli()\n"},
        ["train.py", "train", "--reduction", "sum"], ["train.py"], ["train", "--reduction", "sum"],
    ),
    "a module that an option names": (
        {"train.py": "import importlib, sys\n\nimportlib.import_module(f'tasks.{sys.argv[1]}').main()\n",
         "tasks/one.py": TRAIN, "tasks/two.py": TRAIN.replace("mean", "sum")},
        ["train.py", "two"], ["train.py"], ["two"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", some(STARTS, ("a module", "a command of the project that the file imports")))
def test_the_twin_takes_the_steps_of_the_original(how: str, distify: CommandLine, tmp_path: Path) -> None:
    files, original, entry, words = STARTS[how]
    put(tmp_path, files)
    done = distify("convert", *entry, "--yes")
    assert done.code == 0, done.err
    (launch,) = re.findall(r"^  distify (run .*) \.\.\.$", done.err, re.MULTILINE)
    alone = subprocess.run([sys.executable, *original], cwd=tmp_path, capture_output=True, check=True, timeout=180)
    together = distify(*shlex.split(launch), *words, CUDA_VISIBLE_DEVICES="")
    assert together.code == 0, together.err
    assert figures(together.out) == figures(alone.stdout) != []


@pytest.mark.parametrize(
    "project",
    [
        {"pyproject.toml": f"{PYPROJECT}go = 'proj.cli:main'\n"},
        {"pyproject.toml": "[tool.poetry.scripts]\nother = 'proj.other:main'\ngo = 'proj.cli:main'\n"},
        {"setup.py": SETUP % "'other = proj.other:main', 'go=proj.cli:main'"},
        {"setup.cfg": "[options.entry_points]\nconsole_scripts =\n    go = proj.cli:main\n", "README.md": ""},
        {"pyproject.toml": f"{PYPROJECT}look = 'proj.cli:look'\ngo = 'proj.cli:main'\n"},
    ],
)
def test_what_a_command_calls_is_called_by_the_file_that_is_started(
    project: dict[str, str], distify: CommandLine, tmp_path: Path
) -> None:
    put(tmp_path, {**project, "proj/__init__.py": "", "proj/cli.py": f"def look():\n    pass\n\n\n{TRAIN}"})
    done = distify("convert", "proj/cli.py", "--yes")
    assert done.code == 0, done.err
    assert "`main` is a command of the project" in done.err
    new = (tmp_path / "proj/cli_dist.py").read_text()
    assert new.endswith('\n\n\nif __name__ == "__main__":\n    rt.init_process_group()\n    raise SystemExit(main())\n')
    assert (tmp_path / "proj/cli.py").read_text().endswith(TRAIN)


def test_a_command_in_place(distify: CommandLine, tmp_path: Path) -> None:
    """The second time there is nothing to do: it is converted, and calls itself."""
    put(tmp_path, {"pyproject.toml": f"{PYPROJECT}go = 'cli:main'\n", "cli.py": TRAIN})
    assert distify("convert", "cli.py", "--yes", "--in-place").code == 0
    new = (tmp_path / "cli.py").read_text()
    assert new.count("raise SystemExit(main())") == 1
    again = distify("convert", "cli.py", "--yes", "--in-place")
    assert (again.code, (tmp_path / "cli.py").read_text()) == (0, new)


@pytest.mark.parametrize(
    ("files", "added"),
    [
        ({"cli.py": TRAIN + GUARD}, False),  # it starts by itself
        ({"cli.py": TRAIN + GUARD.replace("main()", "main('sum')")}, False),
        ({"cli.py": "def look():\n    pass\n\n\n" + TRAIN}, None),  # the command does not train
        ({"cli.py": "from other import look\n\n\n" + TRAIN, "other.py": "def look():\n    pass\n"}, None),
    ],
)
def test_a_command_that_is_not_called(
    files: dict[str, str], added: bool | None, distify: CommandLine, tmp_path: Path
) -> None:
    command = "look" if added is None else "main"
    put(tmp_path, {**files, "pyproject.toml": f"{PYPROJECT}go = 'cli:{command}'\n"})
    done = distify("convert", "cli.py", "--yes")
    if added is None:
        assert (done.code, "no training loop" in done.err) == (3, True)
    else:
        assert done.code == 0
        assert "SystemExit" not in (tmp_path / "cli_dist.py").read_text()


def test_another_module_with_the_end_of_the_name_is_no_command(distify: CommandLine, tmp_path: Path) -> None:
    put(tmp_path, {"pyproject.toml": f"{PYPROJECT}go = 'i:main'\n", "cli.py": TRAIN})
    assert distify("convert", "cli.py", "--yes").code == 3


def test_a_module_that_is_not_there(distify: CommandLine) -> None:
    done = distify("convert", "-m", "pkg.train")
    assert (done.code, "there is no such module" in done.err) == (2, True)


def test_a_package_is_its_main_file(distify: CommandLine, tmp_path: Path) -> None:
    put(tmp_path, {"pkg/__init__.py": "", "pkg/__main__.py": TRAIN + "\n\nmain()\n"})
    done = distify("convert", "-m", "pkg", "--yes")
    assert done.code == 0, done.err
    assert (tmp_path / "pkg/__main___dist.py").exists()


@pytest.mark.parametrize(
    ("out", "module"), [pytest.param([], "app.train_dist", marks=slow), (["-o", "../there/"], "there.train")]
)
def test_relative_imports_of_a_folder_that_is_no_package(
    out: list[str], module: str, distify: CommandLine, tmp_path: Path
) -> None:
    """Python takes it for a package where it is started from the folder above, and so is the twin, wherever it is."""
    text = "from .parts import WAY\n" + TRAIN.replace("reduction='mean'", "reduction=WAY") + GUARD
    put(tmp_path, {"app/train.py": text, "app/parts.py": "WAY = 'sum'\n"})
    inside = CommandLine(tmp_path / "app", distify.env)
    done = inside("convert", "train.py", "--yes", *out)
    assert done.code == 0, done.err
    assert done.err.endswith(f"\n  cd .. && distify run -np 2 -m {module} ...\n")
    alone = subprocess.run([sys.executable, "-m", "app.train"], cwd=tmp_path, capture_output=True, check=True)
    together = distify("run", "-np", "2", "-m", module, CUDA_VISIBLE_DEVICES="")
    assert together.code == 0, together.err
    assert figures(together.out) == figures(alone.stdout) != []
    if not out:
        assert inside("verify", "train.py", CUDA_VISIBLE_DEVICES="").code == 0


def test_a_folder_of_neighbours_is_started_where_it_is(distify: CommandLine, tmp_path: Path) -> None:
    text = "from parts import WAY\n" + TRAIN.replace("reduction='mean'", "reduction=WAY") + GUARD
    put(tmp_path, {"app/train.py": text, "app/parts.py": "WAY = 'sum'\n"})
    done = CommandLine(tmp_path / "app", distify.env)("convert", "train.py", "--yes")
    assert done.err.endswith("\n  distify run -np 2 train_dist.py ...\n")
