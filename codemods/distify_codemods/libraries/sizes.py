"""Which arguments of what makes tensors are its sizes. All else says what is in it, or how that is stored."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """Where sizes are given: by position or by name, as one sequence or one after the other."""

    position: int
    name: str
    one_by_one: bool = False


#: The last of those that are given by position.
LAST = -1
_ONE_BY_ONE = Sizes(0, "size", one_by_one=True)
#: Filled with what does not depend on chance.
FILLED = {
    **{f"torch.{name}": _ONE_BY_ONE for name in "zeros ones empty new".split()},
    **{f"numpy.{name}": Sizes(0, "shape") for name in "zeros ones empty full".split()},
    "torch.full": Sizes(0, "size"), "torch.eye": Sizes(0, "n", one_by_one=True),
    "numpy.eye": Sizes(0, "N", one_by_one=True),
}  # fmt: skip
#: Numbers from one to another: how many there are follows from both.
COUNTED = {"torch.arange": ("start", "end", "step"), "numpy.arange": ("start", "stop", "step")}
#: Numbers at equal distances: how many there are is told apart from where they end.
SPREAD = {
    **{f"torch.{name}": Sizes(2, "steps") for name in ("linspace", "logspace")},
    **{f"numpy.{name}": Sizes(2, "num") for name in ("linspace", "logspace", "geomspace")},
}
#: Of numpy's random numbers, those that say by how many parameters of a distribution the size comes; else it is two.
_PARAMETERS = {
    0: "random random_sample sample ranf standard_normal standard_exponential standard_cauchy",
    1: """exponential poisson choice rayleigh chisquare geometric dirichlet power pareto weibull standard_t
    standard_gamma zipf logseries""",
    2: """randint random_integers normal uniform beta binomial f gamma gumbel laplace logistic lognormal multinomial
    multivariate_normal negative_binomial noncentral_chisquare vonmises wald""",
    3: "triangular hypergeometric noncentral_f",
}
#: Filled with random numbers.
DRAWN = {
    "torch.rand": _ONE_BY_ONE, "torch.randn": _ONE_BY_ONE, "torch.randperm": Sizes(0, "n"),
    "torch.randint": Sizes(LAST, "size"), "torch.normal": Sizes(2, "size"),
    "numpy.random.rand": _ONE_BY_ONE, "numpy.random.randn": _ONE_BY_ONE,
    **{f"numpy.random.{name}": Sizes(n, "size") for n, names in _PARAMETERS.items() for name in names.split()},
}  # fmt: skip
#: As many as they are told of what they are given.
CHOSEN = {"random.sample": Sizes(1, "k"), "random.choices": Sizes(3, "k"), "torch.multinomial": Sizes(1, "num_samples")}
#: A diagonal, an order: entries that have to do with each other.
RELATED = frozenset(["torch.eye", "numpy.eye", "torch.randperm"])
#: What else they are given says how they are stored.
OPTIONS = frozenset("dtype device generator out layout requires_grad pin_memory memory_format names order like".split())
#: Whose entries are told, and not only their number and kind.
_TOLD = frozenset(["torch.full", "numpy.full", *DRAWN, *SPREAD]) - RELATED


def of(name: str) -> Sizes | None:
    """Where a function that makes tensors of sizes is given them."""
    return FILLED.get(name) or SPREAD.get(name) or DRAWN.get(name) or CHOSEN.get(name)


def is_told_entries(name: str) -> bool:
    """Whether what it is given beside sizes and options says what its entries are, or between which they are drawn."""
    return name in _TOLD
