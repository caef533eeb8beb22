"""What a meter of a script's own is made with, and leaves what a figure says of the batch as it was."""

from __future__ import annotations

CALLS = frozenset("builtins.isinstance builtins.float builtins.len builtins.hasattr torch.is_tensor".split())
BASES = frozenset({"builtins.object", "abc.ABC", "typing.Generic"})
CONTAINERS = frozenset(
    "builtins.list builtins.dict collections.deque collections.defaultdict collections.OrderedDict".split()
)
#: Of a mean over ranks these give something else than the mean of what they give.
CUTTING = frozenset({"builtins.round", "builtins.int", "math.floor", "math.ceil"})
