"""What runs a model on several GPUs of one process."""

from __future__ import annotations

#: How many GPUs a process sees.
COUNT = "torch.cuda.device_count"
#: What a library takes for "spread the layers over all GPUs".
SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")
#: `data_parallel(model, inputs)` calls the model.
FUNCTIONAL = ("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")
#: The steps of it, by hand.
REPLICATES = (
    "torch.nn.parallel.replicate", "torch.nn.parallel.replicate.replicate", "torch.nn.parallel.parallel_apply",
    "torch.nn.parallel.parallel_apply.parallel_apply",
)  # fmt: skip
