"""What is known of libraries stands in one place: names of their things stand there alone."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import iter_modules

import pytest
import torch
from distify_codemods import libraries
from distify_codemods.libraries import registry, spelling, torch_losses

FOLDER = Path(__file__).resolve().parents[2] / "codemods" / "distify_codemods"
#: How many names may stand elsewhere, and in how many files: lower these when there are fewer.
MOST_NAMES, MOST_FILES = 17, 4
LIBRARIES = """PIL absl accelerate apex builtins collections comet_ml contextlib copy csv cv2 datetime einops functools
    glob h5py horovod io itertools json logging math matplotlib mlflow multiprocessing neptune numpy os pandas pathlib
    pickle random scipy shutil sklearn subprocess sys tempfile tensorboardX tensorflow threading time torch
    torch_geometric torchtext torchvision tqdm transformers types typing visdom wandb warnings""".split()
NAME = re.compile(rf"(?:{'|'.join(LIBRARIES)})\.[A-Za-z_][\w.]*")


def _names(file: Path) -> Iterator[str]:
    """Of texts that are a name, or several with blanks between them: no docstrings, no examples."""
    tree = ast.parse(file.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            words = node.value.split()
            if all(map(NAME.fullmatch, words)):
                yield from words


def test_names_of_libraries_stand_in_one_place() -> None:
    found = Counter[str]()
    for file in FOLDER.rglob("*.py"):
        place = file.relative_to(FOLDER)
        if place.parts[0] != "libraries":
            found[str(place)] += sum(1 for _ in _names(file))
    found = +found
    assert found.total() <= MOST_NAMES, found.most_common(10)
    assert len(found) <= MOST_FILES, list(found)


def _tables(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split()
    elif isinstance(value, (tuple, list, dict, frozenset)):  # records are tuples
        for one in value:
            yield from _tables(one)


def test_each_thing_is_known_under_its_usual_name() -> None:
    """Another would never be found; where they are told, of course, others stand, too."""
    modules = [module.name for module in iter_modules(libraries.__path__) if module.name != "spelling"]
    known = [name for module in modules for name in _of(module)]
    known += [name for api in registry.apis() for name in api.names.split()]
    assert len(known) > 1_000
    assert {name: spelling.usual(name) for name in known if name != spelling.usual(name)} == {}


def _of(module: str) -> Iterator[str]:
    """Of all tables in a file, those that are its own alone, too."""
    for own, value in vars(import_module(f"{libraries.__name__}.{module}")).items():
        if own.isupper():
            yield from _tables(value)


@pytest.mark.parametrize("name", torch_losses.CLASSES)
def test_losses_are_given_what_torch_says(name: str) -> None:
    loss = torch_losses.CLASSES[name]
    parameters = signature(getattr(torch.nn, name)).parameters.values()
    by_place = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert by_place[: len(loss.options)] == list(loss.options)[: len(by_place)]
    parameters = signature(getattr(torch.nn.functional, loss.function)).parameters.values()
    options = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY][loss.tensors :]
    assert options[: len(loss.options)] == list(loss.options)
