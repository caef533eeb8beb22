"""Looks at the script before it is launched: is it there, is it Python, is it converted?"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from distify_runtime.launch.config import LaunchError

#: A script that imports one of these knows of other ranks.
DISTRIBUTED = (
    "distify_runtime", "torch.distributed", "accelerate", "colossalai", "composer", "deepspeed", "ignite.distributed",
    "lightning", "lightning_fabric", "mpi4py", "pytorch_lightning", "torch_xla", "transformers.Seq2SeqTrainer",
    "transformers.Trainer", "trl", "horovod",
)  # fmt: skip
#: What a launcher tells a rank; a script that names one of these asks for it.
_TOLD = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})


def find_script(name: str) -> Path:
    """The script's path. Raises LaunchError for what Python could not run."""
    path = Path(name)
    if path.is_dir():
        raise LaunchError(f"{name}: is a folder; name the training script in it, or a module with -m")
    _parse(path)
    return path


def find_module(name: str) -> Path | None:
    """The file that `python -m name` would run, found without importing anything.

    None where it is no source file. Raises LaunchError where there is no such module.
    """
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise LaunchError(f"-m {name}: is not a module's name; for a script's path leave out -m")
    search = [os.getcwd(), *sys.path]
    spec = PathFinder.find_spec(parts[0], search) or importlib.util.find_spec(parts[0])
    for position in range(2, len(parts) + 1):
        places = spec.submodule_search_locations if spec is not None else None
        spec = PathFinder.find_spec(".".join(parts[:position]), places) if places is not None else None
    if spec is None:
        raise LaunchError(f"-m {name}: there is no such module")
    if spec.submodule_search_locations is not None:
        return find_module(f"{name}.__main__")
    if not spec.has_location or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    _parse(Path(spec.origin))
    return Path(spec.origin)


def looks_distributed(script: Path) -> bool:
    """Whether the script, or a local module of its own, imports what other ranks are spoken to with, or asks which
    rank it is."""
    return _imports_any(script, DISTRIBUTED, _TOLD)


def uses_horovod(script: Path) -> bool:
    """The same of Horovod, whose ranks torchrun cannot start."""
    return _imports_any(script, DISTRIBUTED[-1:])


def own_random_of(script: Path) -> tuple[str, ...]:
    """The packages that a converted script lets draw by themselves: `rt.init_process_group(own_random=[...])`."""
    calls = (node for node in ast.walk(_parse(script)) if isinstance(node, ast.Call))
    given = (keyword.value for call in calls for keyword in call.keywords if keyword.arg == "own_random")
    named = (ast.literal_eval(value) for value in given if isinstance(value, ast.List))
    return tuple(str(name) for names in named for name in names)


def _imports_any(script: Path, modules: tuple[str, ...], told: frozenset[str] = frozenset()) -> bool:
    roots = (script.parent, Path.cwd())
    waiting, seen = [script], set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            tree = _parse(path)
            names = set(_imports(tree))
        except LaunchError:
            continue  # a module that cannot be read says nothing either way
        if any(name == known or name.startswith(known + ".") for name in names for known in modules):
            return True
        if told and any(isinstance(node, ast.Constant) and node.value in told for node in ast.walk(tree)):
            return True
        waiting += [file for name in names for root in (path.parent, *roots) for file in _files(root, name)]
    return False


def _parse(path: Path) -> ast.Module:
    if path.suffix == ".ipynb":
        raise LaunchError(f"{path}: is a notebook; convert it, then run the script that comes out")
    try:
        if path.exists() and not path.is_file():  # every rank reads it: a pipe would serve only one
            raise LaunchError(f"{path}: is not a regular file")
        source = path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a script's odd escapes are its own; each rank will mention them
            return ast.parse(source, str(path))
    except OSError as error:
        raise LaunchError(f"{path}: cannot be read: {error.strerror}") from None
    except SyntaxError as error:
        place = f"{path}:{error.lineno}" if error.lineno else str(path)
        raise LaunchError(f"{place}: is not Python: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise LaunchError(f"{path}: is nested too deeply for Python") from None
    except ValueError as error:  # NUL bytes, before Python 3.12
        raise LaunchError(f"{path}: is not Python: {error}") from None


def _imports(tree: ast.Module) -> Iterator[str]:
    """Every dotted name that is imported, with what is taken from it; relative ones without their dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            yield from base
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _files(root: Path, name: str) -> list[Path]:
    stem = root.joinpath(*name.split("."))
    return [file for file in (stem.with_name(stem.name + ".py"), stem / "__init__.py") if file.is_file()]
