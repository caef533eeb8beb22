"""A tiny training script in parts, before and after conversion, so that a test shows only what it is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import Any

from distify_codemods import Change, Conversion, Finding, Level, Options, Outcome, Resolver, SourceFile, convert

IMPORTS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
DATA = """\
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
"""
LOADER = """\
loader = DataLoader(data, batch_size=8, shuffle=True)
"""
MODEL = """\
model = nn.Linear(4, 1)
"""
OPTIMIZER = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

RUNTIME = "import distify_runtime as rt\n"
PRINT = "from distify_runtime import rank_zero_print as print\n"
WRAPPER = "from torch.nn.parallel import DistributedDataParallel\n"
GROUP = "rt.init_process_group()\n"
#: Where forward passes are shared.
WHOLE_GROUP = "rt.init_process_group(whole_batches=True)\n"


def group_of(options: Options) -> str:
    return WHOLE_GROUP if options.strategy == "shared" else GROUP


SHARDED = """\
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=rt.TrainingSampler(data))
"""
WRAP = "model = DistributedDataParallel(model, device_ids=rt.device_ids(model))\n"
APART = "rt.seed_ranks_apart()\n"
ALIKE = "rt.seed_ranks_alike()\n"
SHUFFLED = """\
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def script(
    imports: str = IMPORTS,
    setup: str = "",
    data: str = DATA,
    loader: str = LOADER,
    model: str = MODEL,
    optimizer: str = OPTIMIZER,
    loop: str = LOOP,
    after: str = "",
) -> str:
    """A script that trains, with any of its parts replaced."""
    return f"{imports}\n{setup}{data}{loader}{model}{optimizer}{loop}{after}"


def distributed(
    imports: str = IMPORTS,
    ours: str = RUNTIME + WRAPPER,
    setup: str = "",
    group: str = GROUP,
    data: str = DATA,
    loader: str = SHARDED,
    model: str = MODEL,
    wrap: str = WRAP,
    optimizer: str = OPTIMIZER,
    apart: str = APART,
    loop: str = SHUFFLED,
    after: str = "",
    prints: bool = False,
) -> str:
    """What `script` must become. `prints`: whether `print` is one of the names of the file."""
    if prints:
        ours = ours.replace(RUNTIME, RUNTIME + PRINT)
    return f"{imports}{ours}\n{setup}{group}{data}{loader}{model}{wrap}{optimizer}{apart}{loop}{after}"


def indented(lines: str, by: str = "    ") -> str:
    return "".join(f"{by}{line}" if line.strip() else line for line in lines.splitlines(keepends=True))


# ---- conversion

#: What a rule makes of a script is looked at for itself, also where another strategy would be taken.
BY_SHARDING = Options(strategy="sharded")


def resolver_of(files: dict[str, str]) -> Resolver:
    """Finds modules in a table of files, with the script in the topmost folder."""

    def resolver(importer: str, module: str, level: int) -> SourceFile | None:
        above = PurePath(importer).parents
        if level > len(above):
            return None
        folder = above[level - 1] if level else PurePath()
        path = folder.joinpath(*module.split(".")) if module else folder
        for name in (f"{path}/__init__.py" if module else str(path / "__init__.py"), f"{path}.py"):
            if name in files:
                return SourceFile(name, files[name].encode())
        return None

    return resolver


def conversion_of(
    before: str | bytes,
    partial: bool = False,
    files: dict[str, str] | None = None,
    options: Options | None = None,
    **changes: Any,
) -> Conversion:
    data = before if isinstance(before, bytes) else before.encode()
    table = {**(files or {}), "train.py": data.decode(errors="replace")}
    options = replace(options or BY_SHARDING, partial=partial, **changes)
    return convert(SourceFile("train.py", data), resolver_of(table), options)


def converted_bytes(before: str | bytes, options: Options | None = None) -> bytes:
    """The whole new file. It must compile, and converting it again must change nothing."""
    conversion = conversion_of(before, options=options)
    needs = [f"{one.place}: {one.code} {one.message}" for one in conversion.of(Level.BLOCKING)]
    assert conversion.outcome is Outcome.CONVERTED, "\n".join(needs)
    (new,) = conversion.files
    compile(new.after, "train_dist.py", "exec", dont_inherit=True)
    assert conversion_of(new.after).outcome is Outcome.ALREADY_CONVERTED
    return new.after


def converted(before: str, options: Options | None = None) -> str:
    return converted_bytes(before, options).decode()


def blocked(before: str) -> set[tuple[str, int]]:
    """The rules that leave the script to a person, each with its line. Nothing may be written then."""
    conversion = conversion_of(before)
    found = conversion.of(Level.BLOCKING)
    assert bool(found) == (conversion.outcome is Outcome.REFUSED)
    assert not found or not conversion.files
    return {(one.code, one.place.line if one.place else 0) for one in found}


def changes(code: str, before: str) -> list[Change]:
    """What one rule changes in a script that is converted."""
    conversion = conversion_of(before)
    assert conversion.outcome is Outcome.CONVERTED, [one.message for one in conversion.of(Level.BLOCKING)]
    return [change for file in conversion.files for change in file.changes if change.code == code]


def findings(code: str, before: str, level: Level) -> list[Finding]:
    return [one for one in conversion_of(before).of(level) if one.code == code]


def line_of(before: str, part: str) -> int:
    """The number of the only line with this part in it."""
    (number,) = [number for number, line in enumerate(before.splitlines(), 1) if part in line]
    return number
