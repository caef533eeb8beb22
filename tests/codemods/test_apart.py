"""What is inferred of functions and methods of torch and NumPy, and what they do: samples that are said to be apart
are.

Each that can be is called with one or two batches of two dimensions, also along named ones, and once more with another
sample in one place. Where the inference says that the result has an entry for each sample, all others have to be as
before.
"""

from __future__ import annotations

import inspect
import re
import warnings
from types import ModuleType
from typing import Any

import libcst as cst
import numpy as np
import pytest
import torch
from distify_codemods.scale import Scale

from tests.codemods.test_inference import infer

SAMPLES, CHANGED = 6, 3
SPACES: dict[str, ModuleType] = {
    "torch": torch,
    "F": torch.nn.functional,
    "torch.linalg": torch.linalg,
    "torch.special": torch.special,
    "torch.fft": torch.fft,
    "np": np,
    "np.linalg": np.linalg,
    "np.fft": np.fft,
}
METHODS = {"torch.Tensor": torch.Tensor, "np.ndarray": np.ndarray}
GIVEN = ("", "Y", "1", "1, 0", "(0, 1)", "dim=0")
#: They read and write files and settings.
LEFT_OUT = re.compile(
    r"set_|.*(seed|save|load|print|fork|wait|fromfile|memmap|import|vmap|seterr|setbuf|compile|test|info|tofile|dump)"
)
#: No numbers are in it yet, or chance says which; a list of rows, or of arrays, is meant, or one image without a batch;
#: the entries of all samples, in their order.
OTHERS = frozenset(
    """empty_like poisson concat concatenate hstack stack atleast_1d atleast_2d atleast_3d adaptive_avg_pool2d flatten
    ravel repeat repeat_interleave tile outer""".split()
)
HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.rand(60, 6), torch.rand(60, 6))
net = torch.nn.Linear(6, 6)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for a, b in DataLoader(data, batch_size=6):
    sgd.zero_grad()
    F.mse_loss(net(a), b).backward()
    sgd.step()
"""


def functions(space: Any) -> list[str]:
    named = ((name, getattr(space, name, None)) for name in dir(space) if not name.startswith("_"))
    return [n for n, one in named if callable(one) and not inspect.isclass(one) and not LEFT_OUT.match(n)]


def calls_in(space: str) -> list[str]:
    if space in METHODS:
        return [f"X.{name}({more})" for name in functions(METHODS[space]) if name not in OTHERS for more in GIVEN]
    named = [f"{space}.{name}" for name in functions(SPACES[space]) if name not in OTHERS]
    return [f"{name}(X{', ' if more else ''}{more})" for name in named for more in GIVEN]


def of_arrays(space: str) -> bool:
    return space.startswith("np")


def outcome(space: str, call: str, changed: bool) -> list[np.ndarray[Any, Any]]:
    drawn = np.random.RandomState(1)
    batch = [drawn.rand(SAMPLES, SAMPLES) + 0.1 for _ in range(2)]
    for one in batch:
        one[CHANGED] += changed * (0.2 + drawn.rand(SAMPLES))
    torch.manual_seed(0)
    x, y = batch if of_arrays(space) else [torch.from_numpy(one) for one in batch]
    found = eval(call, {"X": x, "Y": y, "F": torch.nn.functional, "torch": torch, "np": np})
    several = list(found) if isinstance(found, (tuple, list)) else [found]
    if not all(isinstance(one, (torch.Tensor, np.ndarray, np.generic)) for one in several):
        raise TypeError("of something else there are no samples")
    return [np.asarray(one) for one in several]


def is_apart(space: str, call: str) -> bool | None:
    """None: it cannot be called so."""
    try:
        pairs = list(zip(outcome(space, call, False), outcome(space, call, True), strict=True))
        others = np.arange(SAMPLES) != CHANGED
        return all(
            a.shape == b.shape and a.shape[:1] == (SAMPLES,) and np.allclose(a[others], b[others], equal_nan=True)
            for a, b in pairs
        )
    except Exception:
        return None


def scales(space: str, calls: list[str]) -> list[Scale]:
    given = {"X": "a", "Y": "b"} if not of_arrays(space) else {"X": "a.numpy()", "Y": "b.numpy()"}
    written = [re.sub("[XY]", lambda found: given[found[0]], call) for call in calls]
    lines = (f"    z{number} = {call}\n" for number, call in enumerate(written))
    found = infer(HEAD + "".join(lines))
    told = {node.value: found.value(node).scale for node in found.run.values if isinstance(node, cst.Name)}
    return [told[f"z{number}"] for number in range(len(calls))]


@pytest.mark.parametrize("space", [*SPACES, *METHODS])
def test_what_is_said_to_be_apart_is(space: str) -> None:
    calls = calls_in(space)
    said = [call for call, scale in zip(calls, scales(space, calls), strict=True) if scale is Scale.SAMPLES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = {call: is_apart(space, call) for call in said}
    assert [call for call, apart in seen.items() if apart is False] == []
    assert space in SPACES.keys() - {"torch", "F", "np"} or sum(apart is True for apart in seen.values()) > 30


@pytest.mark.parametrize(
    ("call", "scale"),
    [
        ("np.convolve(a[:, 0].numpy(), np.ones(3))", Scale.UNKNOWN),
        ("np.some_function_of_next_year(a.numpy())", Scale.UNKNOWN),
        ("torch.searchsorted(torch.arange(6.0), a)", Scale.SAMPLES),
        ("torch.searchsorted(a[0], b)", Scale.COUPLED),
        ("np.take(a.numpy(), [0, 2], axis=1)", Scale.SAMPLES),
        ("np.take(a.numpy(), [0, 2])", Scale.COUPLED),
        ("np.dot(a.numpy(), np.ones((6, 2)))", Scale.SAMPLES),
        ("np.dot(a.numpy(), b.numpy())", Scale.UNKNOWN),
        ("np.pad(a.numpy(), 1)", Scale.UNKNOWN),
        ("F.pad(a, (1, 1))", Scale.SAMPLES),
        ("F.softmax(a)", Scale.SAMPLES),
        ("F.softmax(a.view(-1, 3, 2))", Scale.COUPLED),
        ("torch.nn.Softmax()(a.view(-1, 3, 2))", Scale.COUPLED),
        ("torch.nn.Softmax()(a.view(-1, 3, 1, 2))", Scale.SAMPLES),
        ("F.one_hot((a[:, 0] * 3).long())", Scale.COUPLED),
        ("F.one_hot((a[:, 0] * 3).long(), 3)", Scale.SAMPLES),
        ("F.pad(net(a), (0, 0, 0, 1))", Scale.COUPLED),
        ("a.index_copy(0, torch.tensor([0]), b[:1])", Scale.COUPLED),
        ("a.index_copy(1, torch.tensor([0]), b[:, :1])", Scale.SAMPLES),
        ("torch.permute(a, dims=(1, 0))", Scale.TURNED),
        ("a.permute(*range(1, -1, -1))", Scale.UNKNOWN),
        ("a.unique().numel()", Scale.UNKNOWN),
        ("torch.nonzero(a[:, 0] > 0).shape[0]", Scale.SUM),
        ("F.cross_entropy(a.T, b.T)", Scale.COUPLED),
        ("torch.zeros(3).index_put(((a[:, 0] * 3).long(),), b[:, 0], accumulate=True)", Scale.COUPLED),
        ("torch.kl_div(a, b)", Scale.UNKNOWN),
        ("F.kl_div(a, b)", Scale.MEAN),
        ("torch.einsum(names, a)", Scale.UNKNOWN),
        ("torch.einsum(a, (1, 0))", Scale.UNKNOWN),
    ],
)
def test_of_which_it_depends_on_what_they_are_given(call: str, scale: Scale) -> None:
    assert scales("torch", [call]) == [scale]
