"""Losses of torch: how what they return depends on the number of samples."""

from __future__ import annotations

from distify_codemods.libraries import torch_nn
from distify_codemods.objects import Arguments, External
from distify_codemods.ordered import EMPTY
from distify_codemods.scale import Scale
from distify_codemods.values import Value

#: torch.nn class -> torch.nn.functional function
_MODULES = {
    "L1Loss": "l1_loss",
    "NLLLoss": "nll_loss",
    "NLLLoss2d": "nll_loss",
    "PoissonNLLLoss": "poisson_nll_loss",
    "GaussianNLLLoss": "gaussian_nll_loss",
    "KLDivLoss": "kl_div",
    "MSELoss": "mse_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "HingeEmbeddingLoss": "hinge_embedding_loss",
    "MultiLabelMarginLoss": "multilabel_margin_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
    "SoftMarginLoss": "soft_margin_loss",
    "CrossEntropyLoss": "cross_entropy",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "CosineEmbeddingLoss": "cosine_embedding_loss",
    "MarginRankingLoss": "margin_ranking_loss",
    "MultiMarginLoss": "multi_margin_loss",
    "TripletMarginLoss": "triplet_margin_loss",
    "TripletMarginWithDistanceLoss": "triplet_margin_with_distance_loss",
    "CTCLoss": "ctc_loss",
}
#: Their mean is not that of their entries.
_OF_LENGTHS = frozenset({"CTCLoss", "ctc_loss"})
FUNCTIONS = frozenset(_MODULES.values())
#: Their mean is weighted by the class of each sample, or leaves samples out.
_WEIGHTED = {"cross_entropy", "nll_loss"}


def takes_reduction(name: str) -> bool:
    """Whether this is a loss of torch, a class or a function, by its full name."""
    last = name.rsplit(".", 1)[-1]
    return name.startswith(torch_nn.OWN) and (last in _MODULES or last in FUNCTIONS) and last not in _OF_LENGTHS


def of_module(obj: External, arguments: Arguments) -> Value | None:
    """The value of `criterion(...)`, or None where the object is no loss."""
    if not obj.name.startswith(torch_nn.OWN):
        return None
    name = _MODULES.get(obj.name.rsplit(".", 1)[-1])
    return None if name is None else _value(name, obj.arguments or Arguments(), arguments, weight_position=0)


def of_function(name: str, arguments: Arguments) -> Value | None:
    """The value of `F.cross_entropy(...)`, or None where the function is no loss."""
    return _value(name, arguments, arguments, weight_position=2) if name in FUNCTIONS else None


def _value(name: str, options: Arguments, arguments: Arguments, weight_position: int) -> Value:
    given = arguments.all()
    sources = EMPTY.union(*(value.sources for value in given))
    return Value(scale=_scale(name, options, given, weight_position), sources=sources)


def _scale(name: str, options: Arguments, given: list[Value], weight_position: int) -> Scale:
    scales = {value.scale for value in given}
    if scales & {Scale.COUPLED, Scale.SLOPES, Scale.WEIGHTED}:
        return Scale.COUPLED
    if scales <= {Scale.CONST, Scale.REDUCED}:
        return Scale.REDUCED if Scale.REDUCED in scales else Scale.CONST
    if scales & {Scale.MEAN, Scale.SUM}:
        return Scale.COUPLED  # a loss of means is no mean of losses
    reduction = options.get("reduction")
    kind = reduction.constant() if reduction is not None else "mean"
    for old in ("size_average", "reduce"):
        value = options.get(old)
        if value is not None and value.constant() is False:
            kind = "sum" if old == "size_average" else "none"
    if kind == "sum":
        return Scale.SUM
    if kind == "none":
        return Scale.SAMPLES
    if kind not in ("mean", "batchmean", "elementwise_mean"):
        return Scale.UNKNOWN
    weight = options.get("weight", weight_position)
    weighted = weight is not None and weight.constant() is None and not _is_none(weight)
    ignores = options.get("ignore_index") is not None
    if (name in _WEIGHTED and (weighted or ignores)) or Scale.RAGGED in scales:
        return Scale.WEIGHTED
    return Scale.MEAN


def _is_none(value: Value) -> bool:
    return any(getattr(obj, "value", 0) is None for obj in value.objs)
