"""Optimizers, what sets their rates, and what goes through gradients without a backward pass."""

from __future__ import annotations

OPTIMIZER = "torch.optim.Optimizer"
#: How the full names of torch's begin.
OWN = "torch.optim."
#: The attribute of any library's optimizers under which their parameters stand.
GROUPS = "param_groups"
_NO_OPTIMIZERS = ("torch.optim.lr_scheduler", "torch.optim.swa_utils")
#: Steps by a closure, which computes gradients of its own.
BY_CLOSURE = "torch.optim.LBFGS"
#: What sets the rate of an optimizer.
_SCHEDULES = ("torch.optim.swa_utils.SWALR", "timm.scheduler.")
#: Goes through all of a loader to find BatchNorm's statistics.
UPDATES_BATCHNORM = "torch.optim.swa_utils.update_bn"
#: Gradients that are taken by a function.
BACKWARD = "torch.autograd.backward"
GRADIENT = "torch.autograd.grad"
ADDS_PARAMETERS = "add_param_group"
FUNCTIONAL = "torch.autograd.functional."
#: Those that are taken without a backward pass, which DistributedDataParallel does not see.
WITHOUT_BACKWARD = (GRADIENT, FUNCTIONAL, "torch.func.", "functorch.", "torch.nn.utils.stateless.")
#: Where no gradients are recorded, where they are, and where an argument says which.
WITHOUT_GRADIENTS = frozenset({"torch.no_grad", "torch.inference_mode"})
WITH_GRADIENTS = "torch.enable_grad"
IF_TOLD = "torch.set_grad_enabled"
MODES = WITHOUT_GRADIENTS | {WITH_GRADIENTS, IF_TOLD}
#: Under it stands a loss times a number.
SCALES_LOSS = "apex.amp.scale_loss"
#: Computes the inner of a model once more in the backward pass.
CHECKPOINT = "torch.utils.checkpoint.checkpoint"


def is_optimizer(name: str) -> bool:
    """Whether it is a class of torch's optimizers."""
    return name.startswith(OWN) and not name.startswith(_NO_OPTIMIZERS)


def is_schedule(name: str) -> bool:
    """Whatever library has a module like torch's: `monai.optimizers.lr_scheduler.WarmupCosineSchedule`."""
    own = name.startswith("transformers.") and (".get_" in name and "schedule" in name)
    return own or name.startswith(_SCHEDULES) or "lr_scheduler." in name


#: What is derived from to say how something is computed, and its gradient.
FUNCTION = "torch.autograd.Function"
