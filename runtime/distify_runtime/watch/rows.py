"""Losses that put a batch's samples together where nobody meant it to: `(8, 1)` minus `(8,)` is each with every other.

A rank would put its own samples together, and take other steps than one process. What torch has recorded for the
backward pass tells it: from the loss down to what wrapped models have returned, the shape of every step. Of what is
done to a batch ahead of that, views tell it as they are made (`following.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils import _pytree

from distify_runtime import batch
from distify_runtime.watch.frames import here
from distify_runtime.watch.verdict import broken, say_once
from distify_runtime.watch.watching import Watching

#: Of a loss: one that holds more is not looked through.
_MOST_NODES = 2_000
#: What losses of torch's do with both, once they are expanded to one shape; `l1_loss` subtracts, as others do.
_LOSSES = ("MseLoss", "Sub", "SmoothL1Loss", "HuberLoss")
_BROADCASTING = ("Expand", "Sub", "Rsub", "Add", "Mul", "Div", "Where", "Maximum", "Minimum")
_FOLDING = ("View", "UnsafeView", "ReshapeAlias")

#: Under this, a node of the graph knows that it is a model's output, and how many samples the model was given. Nothing
#: here holds on to a graph: some are never gone back through, and each is as large as its batch.
_MARK = "distify's samples"

_watching: Watching | None = None
#: That the pass which is being made has been given; 0 where it is not looked at.
_samples = 0


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching


def before_pass(given: tuple[Any, ...]) -> None:
    """given: what a model is called with."""
    global _samples
    _samples = 0
    if _watching is not None and _watching.next_is_due():
        sizes = (one.shape[0] for one in _pytree.tree_leaves(given) if isinstance(one, Tensor) and one.dim() > 0)
        _samples = next(sizes, 0)


def behind_pass(error: Exception | None, outputs: Any) -> None:
    if _samples:
        for node in _ends_of(outputs):
            node.metadata[_MARK] = _samples


def before_backward(losses: Any) -> None:
    """losses: what a backward pass begins at."""
    if _watching is None or not _watching.next_is_due():
        return
    seen, counts = _down_to_models(_ends_of(losses))
    for samples in counts - {1}:
        certain, said = _looked_through(seen, samples)
        if said and certain:
            broken("rows", said, _watching.mode)
        elif said:
            say_once("rows", said)


def at_view(given: tuple[int, ...], made: tuple[int, ...]) -> None:
    """A view of what has a row for each sample of a rank's share, as far as its size tells."""
    if given and made and 1 < made[0] < given[0] and given[0] % made[0] == 0 and batch.is_a_share(given[0]):
        say_once("rows", _of_folds("what runs", given, made))


def _ends_of(tensors: Any) -> list[Any]:
    found = [one.grad_fn for one in _pytree.tree_leaves(tensors) if isinstance(one, Tensor)]
    return [one for one in found if one is not None]


def _down_to_models(nodes: list[Any]) -> tuple[dict[Any, Any], set[int]]:
    """What a loss was made by, and what uses each; and the samples of the models' passes."""
    left, seen, counts = [(one, None) for one in nodes], dict[Any, Any](), set[int]()
    while left and len(seen) < _MOST_NODES:
        node, user = left.pop()
        if node in seen:
            continue
        if _MARK in node.metadata:
            counts.add(node.metadata[_MARK])
            continue
        seen[node] = user
        left += [(one, node) for one, _ in node.next_functions if one is not None]
    return seen, counts


def _made_of_outputs(seen: Iterable[Any]) -> set[Any]:
    """Which of these come of a model's outputs: a parameter that a loss uses has rows of its own."""
    users: dict[Any, list[Any]] = defaultdict(list)
    for node in seen:
        for one, _ in node.next_functions:
            users[one].append(node)
    left = [one for one in users if one is not None and _MARK in one.metadata]
    found = set(left)
    while left:
        more = [one for one in users[left.pop()] if one not in found]
        found.update(more)
        left += more
    return found


def _looked_through(seen: dict[Any, Any], samples: int) -> tuple[bool, str]:
    """What is found, and whether it can be nothing else."""
    outputs = _made_of_outputs(seen)
    for node, user in seen.items():
        name, shape, inputs = _name(node), _shape(node, 0), _shapes_given(node)
        beside = _shapes_given(user, but=node) if name == "Expand" and user is not None else []
        if name in _BROADCASTING and shape not in (*inputs, *beside):  # a row of each sample has as many features
            with_what = "" if user is None else _name(user)
            own = [_shape(one, place) for one, place in node.next_functions if one in outputs]
            for one in own:
                if _pairs(one, shape, samples):
                    return with_what in _LOSSES and name == "Expand", _of_pairs(one, shape)
                if _meets_others(one, shape, samples):
                    return with_what in _LOSSES and with_what != "Sub" and name == "Expand", _of_pairs(one, shape)
        if inputs and name in _FOLDING and _folds(shape, inputs[0], samples, node in outputs):
            return False, _of_folds("the loss", inputs[0], shape)
    return False, ""


def _name(node: Any) -> str:
    return str(node.name()).split("Backward")[0]


def _shapes_given(node: Any, but: Any = None) -> list[tuple[int, ...]]:
    """Of what a node was made of. but: nothing of that, nor what was expanded to fit it."""
    given = [(one, place) for one, place in node.next_functions if one is not None and one is not but]
    return [_shape(one, place) for one, place in given if but is None or _name(one) != "Expand"]


def _shape(node: Any, place: int) -> tuple[int, ...]:
    """Of the tensor that a node has made."""
    made = getattr(node, "_input_metadata", ())
    return tuple(made[place].shape) if place < len(made) else ()


def _pairs(given: tuple[int, ...], made: tuple[int, ...], samples: int) -> bool:
    """Whether what held one number for each sample holds one for each two of them now."""
    return _is_one_each(given, samples) and [one for one in made if one != 1] == [samples, samples]


def _meets_others(given: tuple[int, ...], made: tuple[int, ...], samples: int) -> bool:
    """Whether a row of each sample meets all samples of something that has more dimensions: ends are aligned."""
    ahead = len(made) - len(given)
    return ahead > 0 and given[0:1] == (samples,) and samples in made[:ahead]


def _folds(shape: tuple[int, ...], given: tuple[int, ...], samples: int, of_outputs: bool) -> bool:
    """Whether what held one number, or one row, for each sample holds a row for each few of them.

    A model may be given several rows of each sample, views or frames, which are put together again: of rows it is known
    where there are as many as a rank has samples.
    """
    one_each = _is_one_each(given, samples) and len(shape) == 2
    rows = of_outputs and given[0:1] == (samples,) and batch.is_a_share(samples)
    return (one_each or rows) and 1 < shape[0] < samples


def _is_one_each(shape: tuple[int, ...], samples: int) -> bool:
    return shape[0:1] == (samples,) and all(one == 1 for one in shape[1:])


def _of_pairs(given: tuple[int, ...], made: tuple[int, ...]) -> str:
    return (
        f"the loss{here()} takes a model's outputs of shape {given} and something of another shape to {made}: every "
        "sample of a batch is compared with every other, by a rank with its own alone, so that the steps are not those "
        "of one process. That is hardly meant: give both one shape (`.squeeze(1)`, `.view_as`), or convert with "
        "--strategy shared"
    )


def _of_folds(what: str, given: tuple[int, ...], made: tuple[int, ...]) -> str:
    return (
        f"{what}{here()} puts samples of a batch together in rows, of shape {given} to {made}: a rank does so with "
        "its own. Where it matters which they are, the steps are not those of one process: convert with "
        "--strategy shared"
    )
