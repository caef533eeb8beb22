"""What is known of libraries stands in one place: names of their things stand there alone."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "codemods" / "distify_codemods"
#: How many names may stand elsewhere, and in how many files: lower these when there are fewer.
MOST_NAMES, MOST_FILES = 40, 8
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
