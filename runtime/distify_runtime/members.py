"""What a module, an optimizer, parameters, or lists and dictionaries of these stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn


def tensors_of(of: Any) -> Iterator[Tensor]:
    """The parameters, in an order that follows from the program alone: the same on every rank."""
    if isinstance(of, Tensor):
        yield of
    elif isinstance(of, nn.Module):
        yield from of.parameters()
    elif hasattr(of, "param_groups"):
        for group in of.param_groups:
            yield from group["params"]
    else:
        for part in filter(_holds_any, _parts(of)):
            yield from tensors_of(part)


def modules_of(of: Any) -> Iterator[nn.Module]:
    """The modules themselves; what stands for parameters alone has none."""
    if isinstance(of, nn.Module):
        yield of
    elif not isinstance(of, Tensor) and not hasattr(of, "param_groups"):
        for part in filter(_holds_any, _parts(of)):
            yield from modules_of(part)


def _holds_any(part: Any) -> bool:
    """Of what a list or dictionary holds; settings and functions may be there beside a model: `render_kwargs`."""
    return isinstance(part, Tensor | nn.Module | Mapping | list | tuple | set) or hasattr(part, "param_groups")


def held_by(model: Any) -> Any:
    """The modules that are attributes of an object which is none itself, as of a library's that trains a network.

    Raises TypeError for what has none.
    """
    if _holds_any(model) or model is None:
        return model
    held = [one for one in getattr(model, "__dict__", {}).values() if isinstance(one, nn.Module)]
    if not held:
        what = f"forward passes of modules are shared, and {type(model).__name__} is none and has none as an attribute"
        raise TypeError(f"{what}: name the module that is trained")
    return held


def _parts(of: Any) -> Iterable[Any]:
    if of is None:
        return ()
    if isinstance(of, Mapping):
        return of.values()
    if isinstance(of, Iterable) and not isinstance(of, str | bytes):
        return of
    raise TypeError(f"a module, an optimizer or parameters are needed, not {type(of).__name__}")


def is_called(module: nn.Module) -> bool:
    """Whether it has a forward pass; a ModuleList has none, its members have."""
    return getattr(getattr(module, "forward", None), "__func__", None) is not nn.Module.forward


def called_in(module: nn.Module) -> Iterator[nn.Module]:
    """The module, or, where it only holds others, those."""
    if is_called(module):
        yield module
    else:
        for child in module.children():
            yield from called_in(child)


def parts_of(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """The modules that a model calls itself, as far as they have parameters."""
    for name, child in model.named_children():
        if not is_called(child):
            yield from ((f"{name}.{inner}", part) for inner, part in parts_of(child))
        elif any(parameter.requires_grad for parameter in child.parameters()):
            yield name, child
