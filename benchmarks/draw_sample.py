"""Draws the training scripts that are read by hand for accuracy.py.

python benchmarks/draw_sample.py FOLDER [--repositories 32] [--files 40] [--seed 3]

FOLDER holds one checked-out repository in each of its folders. The frame: files that Python 3 parses and that do
something when they are started (a `__main__` guard, or a call or a loop at module level), where `.backward(` and
`.step(` occur in the file or in the local modules that it imports, and where none of these is distributed already or
written for a trainer library. Repositories are put in a random order, and so are the files of each; the first
round takes one file from each repository, the second another, until there are enough. A file that turns out, when
it is read, to reach no training is struck with `--without FILE`, and the next of its repository takes its place.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from pathlib import Path

from distify.resolver import LocalModules

_TRAINS = (re.compile(rb"\.backward\("), re.compile(rb"\.step\("))
_ANOTHER_TOOL = re.compile(
    rb"DistributedDataParallel|init_process_group|pytorch_lightning|import lightning|import accelerate"
    rb"|from accelerate|horovod|deepspeed\.initialize|torch_xla"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repositories", type=int, default=32)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--frame", action="store_true", help="print the whole frame instead")
    parser.add_argument("--without", action="append", default=[], metavar="FILE", help="repository/path, to be struck")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    frame: list[list[str]] = []
    for repository in sorted(path for path in options.folder.iterdir() if path.is_dir()):
        files = [path for path in sorted(repository.rglob("*.py")) if path.is_file() and _trains(path)]
        names = [str(path.relative_to(options.folder)) for path in files]
        generator.shuffle(names)
        if names:
            frame.append(names)
    generator.shuffle(frame)
    print(f"{sum(map(len, frame))} files of {len(frame)} repositories in the frame", file=sys.stderr)
    if options.frame:
        print("\n".join(name for names in frame for name in names))
        return 0
    kept = [[name for name in names if name not in options.without] for names in frame]
    chosen = [names for names in kept if names][: options.repositories]
    rounds = max(map(len, chosen))
    drawn = [names[turn] for turn in range(rounds) for names in chosen if turn < len(names)]
    print("\n".join(drawn[: options.files]))
    return 0


def _trains(path: Path) -> bool:
    data = path.read_bytes()
    tree = _parsed(data)
    if tree is None or not any(map(_acts, tree.body)):
        return False
    modules = LocalModules(str(path))
    _follow(str(path), tree, modules, {str(path)})
    texts = [data, *(file.data for file in modules.found.values())]
    if any(map(_ANOTHER_TOOL.search, texts)):
        return False
    return all(any(map(pattern.search, texts)) for pattern in _TRAINS)


def _parsed(data: bytes) -> ast.Module | None:
    try:
        return ast.parse(data)
    except (SyntaxError, ValueError):
        return None


def _acts(statement: ast.stmt) -> bool:
    """A statement of a module that is more than a definition."""
    calls = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return calls or isinstance(statement, (ast.For, ast.While, ast.If, ast.With))


def _follow(path: str, tree: ast.Module, modules: LocalModules, seen: set[str]) -> None:
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [(base, node.level)]
            names += [(f"{base}.{alias.name}" if base else alias.name, node.level) for alias in node.names]
        for name, level in names:
            file = modules(path, name, level)
            if file is not None and file.path not in seen:
                seen.add(file.path)
                if (below := _parsed(file.data)) is not None:
                    _follow(file.path, below, modules, seen)


if __name__ == "__main__":
    sys.exit(main())
