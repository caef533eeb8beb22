"""Other libraries that train by themselves: what they make are no modules of torch."""

from __future__ import annotations

#: By their packages, what they are called.
FRAMEWORKS = {
    "paddle": "PaddlePaddle", "mindspore": "MindSpore", "oneflow": "OneFlow", "jittor": "Jittor", "mxnet": "MXNet",
    "tinygrad": "tinygrad", "mlx": "MLX", "optax": "JAX",
}  # fmt: skip
_OPTIMIZERS = ("optim", "optimizer", "optimizers", "optax")


def optimizer_of(name: str) -> str:
    """What the library is called whose optimizer this is: `paddle.optimizer.Adam`; or nothing."""
    package, *rest = name.split(".")
    known = FRAMEWORKS.get(package, "")
    makes = package in _OPTIMIZERS or any(part in _OPTIMIZERS for part in rest[:-1])
    return known if makes or (rest and rest[-1] == "Trainer") else ""
