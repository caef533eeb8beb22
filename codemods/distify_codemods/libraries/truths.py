"""What asks something of numbers, and answers with a truth or with truths."""

from __future__ import annotations

#: Whether a number is none: a mean or a sum is, exactly if one of its parts is.
NO_NUMBERS = frozenset({"isnan", "isinf"})
FINITE = "isfinite"
#: The same as functions, in full.
CHECKS_OF_NUMBERS = frozenset(
    f"{library}.{name}" for library in ("torch", "math", "numpy") for name in (*NO_NUMBERS, FINITE)
)
#: Of two tensors, entry by entry: whether all are alike.
ALIKE = frozenset({"allclose", "equal", "array_equal"})
#: What asks something of all entries of a tensor at once.
ANY, ALL = "any", "all"
#: The same as functions, in full, by what they ask.
OF_ALL_ENTRIES = {f"{library}.{name}": name for library in ("torch", "numpy") for name in (ANY, ALL)}
#: What changes nothing about whether something holds.
PASSING = frozenset("item detach cpu float bool numpy tolist".split())
