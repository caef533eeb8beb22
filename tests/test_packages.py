"""Three import packages in one distribution: what each may import, what each is named, and what is installed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import distify_runtime
import pytest
from distify_codemods import SourceFile, convert

ROOT = Path(__file__).resolve().parents[1]
IMPORT_ROOTS = (ROOT, ROOT / "codemods", ROOT / "runtime")
FOLDERS = (ROOT / "distify", ROOT / "codemods" / "distify_codemods", ROOT / "runtime" / "distify_runtime")

#: Run before a program: imports of `blocked` fail as if they were not installed.
BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
IMPORT_ALL = """
import importlib.util, pkgutil

def import_all(package):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if importlib.util.find_spec("horovod") or "horovod_" not in module.name:  # derived from Horovod's
            importlib.import_module(module.name)
"""
USE_RUNTIME = """
import distify_runtime as rt
import_all(rt)
own = [name for name in rt.__all__ if importlib.util.find_spec("horovod") or "horovod_" not in rt._HOME[name]]
print(*(name for name in own if getattr(rt, name) is not None))
"""
USE_CODEMODS = """
import distify_codemods as codemods
import_all(codemods)
data = open("fixtures/argparse_main/train.py", "rb").read()
conversion = codemods.convert(codemods.SourceFile("train.py", data), lambda importer, name, level: None)
print(conversion.outcome.name)
"""
HELP = """
import sys
from distify.__main__ import main

sys.argv = ["distify", "--help"]
try:
    main()
finally:
    print("imported:", *sorted({"torch", "libcst", "rich"} & set(sys.modules)))
"""

#: `{rt}.name` and `{context.rt(module)}.name` in what a rule emits, `rt.name` in what it tells a person to write.
EMITTED = (
    re.compile(r"\{(?:rt|\w+\.rt\([\w.]+\))\}\.(\w+)"),
    re.compile(r"\brt\.(\w+)\("),
    re.compile(r"from (?:\{RUNTIME\}|distify_runtime) import (\w+)"),
)
#: Names that a rule puts together are not in its text: here its outcome is looked at.
DEVICES = """
import torch
from torch.utils.data import DataLoader, TensorDataset

with torch.cuda.device(0):
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
device = torch.device("cuda", 0)
model = torch.nn.Linear(4, 1).to(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=8):
    loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
"""
FIXTURES = sorted((ROOT / "fixtures").glob("*/train.py"))
SCRIPTS = [DEVICES.encode(), *(path.read_bytes() for path in FIXTURES)]
NAMES = ["devices", *(path.parent.name for path in FIXTURES)]
SETUPTOOLS = """
from setuptools import Distribution

distribution = Distribution()
distribution.parse_config_files()
print(*distribution.packages)
"""


def run_python(source: str, *flags: str) -> str:
    """What a program prints that sees this tree before anything that is installed; it must end well."""
    ended = subprocess.run(
        [sys.executable, *flags, "-c", source],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, IMPORT_ROOTS))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_runtime_needs_nothing_of_the_other_packages() -> None:
    """A cluster node has torch and the runtime; numpy it may have or not."""
    blocked = {"libcst", "click", "rich", "distify", "distify_codemods"}
    printed = run_python(BLOCK.format(blocked=blocked) + IMPORT_ALL + USE_RUNTIME)
    missing = set(distify_runtime.__all__) - set(printed.split())
    assert missing <= {name for name, home in distify_runtime._HOME.items() if home.startswith("horovod_")}


def test_the_codemods_need_nothing_but_libcst() -> None:
    blocked = {"torch", "numpy", "click", "rich", "distify", "distify_runtime"}
    printed = run_python(BLOCK.format(blocked=blocked) + IMPORT_ALL + USE_CODEMODS)
    assert printed.split() == ["CONVERTED"]


def test_help_imports_nothing_slow() -> None:
    printed = run_python(HELP)
    assert "Usage: distify" in printed
    assert printed.splitlines()[-1] == "imported:"


def imported(statements: list[ast.stmt], known: set[str]) -> Iterator[str]:
    """The known modules that statements import at once: not in functions, and not for annotations alone."""
    for one in statements:
        if isinstance(one, ast.ImportFrom):
            names = [f"{one.module}.{alias.name}" for alias in one.names]
            yield from (name if name in known else str(one.module) for name in names)
        elif not isinstance(one, ast.FunctionDef) and not (
            isinstance(one, ast.If) and "TYPE_" in ast.unparse(one.test)
        ):
            for body in ("body", "orelse", "handlers", "finalbody"):
                yield from imported(getattr(one, body, []), known)


def test_no_module_of_the_codemods_needs_one_that_needs_it() -> None:
    """An expression is in a call and a call in an expression; what follows them is not so by its imports."""
    folder = ROOT / "codemods" / "distify_codemods"
    paths = {
        ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in folder.rglob("*.py")
    }
    needed = {
        name: set(imported(ast.parse(path.read_text(encoding="utf-8")).body, set(paths))) & paths.keys() - {name}
        for name, path in paths.items()
    }
    TopologicalSorter(needed).prepare()  # raises CycleError with the modules of a circle


def emitted_names() -> set[str]:
    """The names of the runtime in the text of rules, decisions and backends."""
    text = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("rules", "backends", "decisions")
        for path in sorted((ROOT / "codemods" / "distify_codemods" / folder).glob("*.py"))
    )
    return {name for pattern in EMITTED for name in pattern.findall(text)}


def test_every_pattern_of_emitted_names_still_finds_some() -> None:
    """One name for each way of writing them: if the rules change how they write, the next test would see nothing."""
    assert {"init_process_group", "unwrap", "any_rank", "rank_zero_print"} <= emitted_names()


@pytest.mark.parametrize("name", sorted(emitted_names()))
def test_what_a_rule_emits_is_in_the_runtime(name: str) -> None:
    assert name in distify_runtime.__all__


@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_what_a_conversion_uses_is_in_the_runtime(script: bytes) -> None:
    conversion = convert(SourceFile("train.py", script), lambda importer, name, level: None)
    used = {
        node.attr
        for file in conversion.files
        for node in ast.walk(ast.parse(file.after))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rt"
    }
    assert "init_process_group" in used
    assert used <= set(distify_runtime.__all__)


def test_all_of_distify_is_installed_and_nothing_else() -> None:
    """Also not the tests and fixtures, and no folder is left out for want of an `__init__.py`."""
    installed = set(run_python(SETUPTOOLS, "-W", "ignore").split())
    here = {
        ".".join(path.parent.relative_to(folder.parent).parts) for folder in FOLDERS for path in folder.rglob("*.py")
    }
    assert installed == here


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_types_are_installed(folder: Path) -> None:
    assert (folder / "py.typed").is_file()
