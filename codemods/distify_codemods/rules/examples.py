"""What rules show: small scripts that train, before and after, each told by what is particular to it.

A script is put together of named parts, of which an example gives its own. Lines are those of a diff: `- ` stands
before one that the conversion takes out, `+ ` before one that it writes; a part without such marks stays as it is.
Where a line is `{name}`, that part comes in; within an example's own part of that name, the usual one does.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

_PARTS = {
    "script": """
{torch}
{ours}

{group}
{data}
{loader}
{model}
{wrap}
{optimizer}
{apart}
{loop}
{end}
""",
    "torch": """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
""",
    # What nothing is called of is not imported.
    "ours": """
+ import distify_runtime as rt
+ from distify_runtime import rank_zero_print as print
+ from torch.nn.parallel import DistributedDataParallel
""",
    "group": "+ rt.init_process_group()",
    "data": "data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))",
    "loader": """
- loader = DataLoader(data, batch_size=8, shuffle=True)
+ loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
+                     sampler=rt.TrainingSampler(data))
""",
    "model": "model = nn.Linear(4, 1)",
    "wrap": "+ model = DistributedDataParallel(model, device_ids=rt.device_ids(model))",
    "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "apart": "+ rt.seed_ranks_apart()",
    "loop": """
{epochs}
    {epoch}
    {batches}
        {loss}
        {step}
    {later}
""",
    "epochs": "for epoch in range(3):",
    "epoch": "+ loader.sampler.set_epoch(epoch)",
    "batches": "for x, y in loader:",
    "loss": "loss = nn.functional.mse_loss(model(x), y)",
    "step": """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    "later": "",  # at the end of each epoch
    "end": "",
}
_PART = re.compile(r"  ( *)\{(\w+)\}")


class Example:
    """A script before and after, both written when they are asked for."""

    def __init__(self, *, helper: str = "", scale: str = "global", strategy: str = "sharded", **parts: str) -> None:
        """`helper`: helper.py, which the script imports; `scale` and `strategy` are the options."""
        assert parts.keys() <= _PARTS.keys(), parts
        self.helper = helper
        self.scale = scale
        self.strategy = strategy
        self._parts = (
            {"group": "+ rt.init_process_group(whole_batches=True)"} | parts if strategy == "shared" else parts
        )

    @property
    def before(self) -> str:
        return self._written("-")

    @property
    def after(self) -> str:
        """Empty, if the rule leaves the script alone."""
        return self._written("+")

    def _written(self, side: str) -> str:
        lines = [line for line in self._filled("script") if line[:1] in ("", " ", side)]
        text = "\n".join(lines)
        unused = [one for one in lines if one.startswith("+ from") and f"{one.split()[-1]}(" not in text]
        return "".join(f"{line[2:]}\n" for line in lines if line not in unused)

    def _filled(self, name: str, within: str = "") -> Iterator[str]:
        """The lines of a part, each behind the two columns of its mark."""
        text = _PARTS[name] if name == within else self._parts.get(name, _PARTS[name])
        lines = (textwrap.dedent(text[1:]) if text.startswith("\n") else text).splitlines()
        marked = any(line.startswith(("- ", "+ ")) for line in lines)
        for line in lines if marked else [f"  {line}" for line in lines]:
            found = _PART.fullmatch(line)
            if found is None:
                yield line
            else:
                yield from (f"{one[:2]}{found[1]}{one[2:]}".rstrip() for one in self._filled(found[2], name))


class LeftAlone(Example):
    @property
    def after(self) -> str:
        return ""
