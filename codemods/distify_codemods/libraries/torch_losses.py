"""torch's losses: what each is called as a class and as a function, and what it can be given without a name."""

from __future__ import annotations

from typing import NamedTuple

from distify_codemods.libraries import torch_nn


class Loss(NamedTuple):
    """How many tensors the function takes first, and the options behind them; those are the parameters of the class."""

    function: str
    tensors: int
    options: tuple[str, ...]
    of_each: bool = False  # without an average they have a number for each sample, and no sum


_PLAIN = "size_average reduce reduction"
_BY_CLASS = "weight size_average ignore_index reduce reduction"
CLASSES = {
    name: Loss(function, tensors, tuple(options.split()))
    for name, function, tensors, options in (
        ("L1Loss", "l1_loss", 2, _PLAIN),
        ("NLLLoss", "nll_loss", 2, _BY_CLASS),
        ("NLLLoss2d", "nll_loss", 2, _BY_CLASS),
        ("PoissonNLLLoss", "poisson_nll_loss", 2, "log_input full size_average eps reduce reduction"),
        ("GaussianNLLLoss", "gaussian_nll_loss", 3, "full eps reduction"),
        ("KLDivLoss", "kl_div", 2, _PLAIN),
        ("MSELoss", "mse_loss", 2, _PLAIN),
        ("BCELoss", "binary_cross_entropy", 2, f"weight {_PLAIN}"),
        ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", 2, f"weight {_PLAIN}"),
        ("HingeEmbeddingLoss", "hinge_embedding_loss", 2, f"margin {_PLAIN}"),
        ("MultiLabelMarginLoss", "multilabel_margin_loss", 2, _PLAIN),
        ("SmoothL1Loss", "smooth_l1_loss", 2, _PLAIN),
        ("HuberLoss", "huber_loss", 2, "reduction"),
        ("SoftMarginLoss", "soft_margin_loss", 2, _PLAIN),
        ("CrossEntropyLoss", "cross_entropy", 2, _BY_CLASS),
        ("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", 2, f"weight {_PLAIN}"),
        ("CosineEmbeddingLoss", "cosine_embedding_loss", 3, f"margin {_PLAIN}"),
        ("MarginRankingLoss", "margin_ranking_loss", 3, f"margin {_PLAIN}"),
        ("MultiMarginLoss", "multi_margin_loss", 2, f"p margin weight {_PLAIN}"),
        ("TripletMarginLoss", "triplet_margin_loss", 3, f"margin p eps swap {_PLAIN}"),
        ("TripletMarginWithDistanceLoss", "triplet_margin_with_distance_loss", 3, ""),
        ("CTCLoss", "ctc_loss", 4, "blank reduction"),
    )
}
#: What is compared, under the names that the functions have for it.
TENSORS = frozenset(
    """input target input1 input2 x1 x2 anchor positive negative var log_probs targets input_lengths
    target_lengths""".split()
)
#: Without a reduction these have an entry for each entry of what they compare.
BY_ENTRY = frozenset(
    "l1_loss mse_loss smooth_l1_loss huber_loss soft_margin_loss poisson_nll_loss kl_div binary_cross_entropy "
    "binary_cross_entropy_with_logits".split()
)
_SSIM = Loss("", 2, ("data_range", "size_average", "win_size", "win_sigma", "channel", "spatial_dims"), of_each=True)
_SSIM_LOSS = Loss("", 2, ("window_size", "max_val", "eps", "reduction", "padding"))
#: Means over samples that other libraries have.
_OF_OTHERS = {
    **dict.fromkeys(("pytorch_msssim.SSIM", "pytorch_msssim.MS_SSIM"), _SSIM),
    **dict.fromkeys(("kornia.losses.SSIMLoss", "kornia.losses.SSIM3DLoss"), _SSIM_LOSS),
    "timm.loss.LabelSmoothingCrossEntropy": Loss("", 2, ("smoothing",)),
    "timm.loss.SoftTargetCrossEntropy": Loss("", 2, ()),
    "timm.loss.BinaryCrossEntropy": Loss("", 2, ("smoothing", "target_threshold", "weight", "reduction")),
}
#: Functions: those of torch by their last names, others by their full ones.
FUNCTIONS = {
    **{loss.function: loss for loss in CLASSES.values()},
    **dict.fromkeys(("pytorch_msssim.ssim", "pytorch_msssim.ms_ssim"), _SSIM),
    **dict.fromkeys(("kornia.losses.ssim_loss", "kornia.losses.ssim3d_loss"), _SSIM_LOSS),
}
#: The class that these leave out unless they are told another one.
IGNORED = -100
#: Their mean is weighted by the class of each sample, or leaves samples out.
WEIGHTED = frozenset({"cross_entropy", "nll_loss"})


def of_class(name: str) -> Loss | None:
    """What is known of a class, by its full name."""
    return CLASSES.get(name.rsplit(".", 1)[-1]) if name.startswith(torch_nn.OWN) else _OF_OTHERS.get(name)


def compares_entries(name: str) -> bool:
    """Whether this is a loss, by its full name, that compares each entry with one of the same place."""
    known = of_class(name) or FUNCTIONS.get(name.rsplit(".", 1)[-1])
    return name.startswith(torch_nn.OWN) and known is not None and known.function in BY_ENTRY


def takes_reduction(name: str) -> bool:
    """Whether this is a loss, a class or a function, by its full name, whose mean is that of its entries."""
    known = of_class(name) or FUNCTIONS.get(name.rsplit(".", 1)[-1])
    return name.startswith(torch_nn.OWN) and known is not None and known.function != "ctc_loss"
