"""What inference finds in small programs of one shape each: the lines with `#: role` comments, and no others.

The programs are in `shapes/*.md`: a heading, the program's file, and the local modules that it imports. The lines of
`HEAD` stand before each program that is the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from distify_codemods import SourceFile, facts, interpreter, program
from distify_codemods.facts import Facts
from distify_codemods.program import Module
from libcst import CSTNode

HEAD = """\
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
"""
TRAIN = """\
def train(model, loader, optimizer):
    for epoch in range(2):
        for x, y in loader:  #: loop
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()  #: backward
            optimizer.step()  #: step
"""
FOLDER = Path(__file__).parent / "shapes"
_BLOCK = re.compile(r"^```python *(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_USES_TRAIN = re.compile(r"""(?<![."'])\btrain\b(?!["'])""")
Places = dict[str, set[str]]


def shapes() -> Iterator[tuple[str, dict[str, str]]]:
    """Each shape: its name, and its files by name."""
    for page in sorted(FOLDER.glob("*.md")):
        for part in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]:
            files = {name or "train.py": text for name, text in _BLOCK.findall(part)}
            entry = files["train.py"]
            files["train.py"] = HEAD + (TRAIN if _USES_TRAIN.search(entry) else "") + entry
            yield f"{page.stem}: {part.splitlines()[0]}", files


def infer(files: dict[str, str]) -> Facts:
    def resolve(importing: str, name: str, level: int) -> SourceFile | None:
        folder = Path(importing).parent
        for _ in range(level - 1):
            folder = folder.parent
        base = (folder if level else Path()) / name.replace(".", "/")
        for path in (base.with_name(base.name + ".py"), base / "__init__.py"):
            if (name and str(path) in files) or str(path) in files:
                return SourceFile(str(path), files[str(path)].encode())
        return None

    loaded = program.load(SourceFile("train.py", files["train.py"].encode()), resolve)
    return facts.infer(loaded, interpreter.run(loaded))


def expected(files: dict[str, str]) -> Places:
    found: Places = {}
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            for role in line.partition("#: ")[2].split():
                found.setdefault(role, set()).add(f"{path}:{number}")
    return found


def actual(found: Facts) -> Places:
    def at(module: Module | None, node: CSTNode | None) -> str:
        assert module is not None
        assert node is not None
        return str(module.place(node))

    loaders = {one.obj: one.made for one in found.loaders}
    places: Places = {
        "model": {at(model.module, model.site) for model in found.models},
        "optimizer": {at(one.made.module, one.made.node) for one in found.optimizers},
        "loader": {at(loaders[one].module, loaders[one].node) for one in found.training_loaders},
        "loop": {at(one.module, one.node) for one in found.training_loops},
        "backward": {at(one.module, one.node) for one in found.backwards},
        "step": {at(one.module, one.node) for one in found.steps},
        "save": {at(one.module, one.node) for one in found.calls("torch.save")},
    }
    return {role: where for role, where in places.items() if where}


@pytest.mark.parametrize("files", [pytest.param(files, id=name) for name, files in shapes()])
def test_roles(files: dict[str, str]) -> None:
    found = infer(files)
    complete, places = found.run.complete, actual(found)  # no facts in the assertion: their text has no end
    assert complete
    assert places == expected(files)
