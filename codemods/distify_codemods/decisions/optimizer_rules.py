"""How the learning rate of each optimizer grows with the batch, and who says so."""

from __future__ import annotations

from distify_codemods.allocation import Obj
from distify_codemods.interpreter.optimizers import optimizer_bases
from distify_codemods.objects import Class, Instance
from distify_codemods.records import dataclass


@dataclass(frozen=True)
class ScalingRule:
    name: str  # as the runtime knows it; empty: it finds the rule by the optimizer's class
    factor: str
    source: str = ""


_GOYAL = "Goyal et al. 2017, arXiv:1706.02677"
LINEAR = ScalingRule("linear", "the world size", _GOYAL)
SQUARE_ROOT = ScalingRule("square root", "the square root of the world size", "Krizhevsky 2014, arXiv:1404.5997")
AT_RUN_TIME = ScalingRule("", "what fits its class, or stops before the first step where no rule is known")
_LARS = ScalingRule("linear", LINEAR.factor, "You et al. 2017, arXiv:1708.03888")
_ADAM = ScalingRule("square root", SQUARE_ROOT.factor, "Malladi et al. 2022, arXiv:2205.10287; betas and eps stay")
_LAMB = ScalingRule("square root", SQUARE_ROOT.factor, "You et al. 2020, arXiv:1904.00962")

_LIBRARIES = ("torch", "apex", "bitsandbytes", "timm", "torch_optimizer", "transformers")

#: By the name of the class, in any of the libraries. The runtime has the same names (a test compares them).
RULES: dict[str, ScalingRule] = {
    **dict.fromkeys(["SGD", "SGDP", "SGDW", "FusedSGD", "SGD8bit"], LINEAR),
    **dict.fromkeys(["LARS", "Lars", "LARS8bit"], _LARS),
    **dict.fromkeys(
        [
            *("Adam", "AdamW", "Adamax", "NAdam", "NAdamW", "Nadam", "RAdam", "SparseAdam", "AdamP"),
            *("FusedAdam", "Adam8bit", "AdamW8bit", "PagedAdam", "PagedAdamW", "PagedAdamW8bit"),
            *("RMSprop", "RMSpropTF", "RMSprop8bit"),
        ],
        _ADAM,
    ),
    **dict.fromkeys(["Adagrad", "Adadelta", "FusedAdagrad", "Adagrad8bit"], SQUARE_ROOT),
    **dict.fromkeys(["LAMB", "Lamb", "FusedLAMB", "LAMB8bit"], _LAMB),
}

_WHY_NOT = {
    "LBFGS": "; it searches along a line, for which a batch is all there is",
    "Rprop": "; it goes by the signs of a full batch's gradients",
}


def rule_of(optimizer: Obj) -> ScalingRule | None:
    """By the optimizer's class, or AT_RUN_TIME where that is not seen; None where no rule is known for it."""
    if isinstance(optimizer, Instance):
        return _rule_of_own(optimizer)
    root, _, last = _path(optimizer)
    if root not in _LIBRARIES:
        return AT_RUN_TIME if last[:1].islower() else None
    if last == "?" or last[:1].islower():  # chosen by a name, or made by a function
        return AT_RUN_TIME
    return RULES.get(last)


def _rule_of_own(optimizer: Instance) -> ScalingRule | None:
    """A class of the script's own takes the steps of its base, unless it says otherwise."""
    cls = optimizer.of
    if not isinstance(cls, Class) or any("step" in one.attributes for one in cls.ancestors()):
        return None
    found = {RULES.get(name.rsplit(".", 1)[-1]) for name in optimizer_bases(cls)}
    return found.pop() if len(found) == 1 else None


def name_of(optimizer: Obj) -> str:
    if isinstance(optimizer, Instance):
        cls = optimizer.of
        return cls.node.name.value if cls is not None and cls.node is not None else "the optimizer"
    last = _path(optimizer)[2]
    return "the optimizer" if last == "?" or last[:1].islower() else last


def why_not(optimizer: Obj) -> str:
    if isinstance(optimizer, Instance):
        return "; it takes steps of its own"
    return _WHY_NOT.get(_path(optimizer)[2], "")


def _path(optimizer: Obj) -> tuple[str, str, str]:
    name = str(getattr(optimizer, "name", ""))
    return name.split(".", 1)[0], name, name.rsplit(".", 1)[-1]
