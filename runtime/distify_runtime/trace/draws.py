"""What a run draws for its samples, as chance has it: written down draw by draw, also by the workers of its loaders.

torch says of its operations which of them draw (`nondeterministic_seeded`), so that dropout within attention or
recurrent layers is seen as everything else. Of NumPy and Python, the functions of their common streams are.

Who draws from a generator of the script's own, or makes an order (`randperm`), is left alone, and so is what is drawn
before the first batch of a loader or the first step, in initialisation, and by samplers: it is no noise for samples.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _DatasetKind

from distify_runtime import accelerators, main_process
from distify_runtime.patching import wrap
from distify_runtime.shared.region import is_comparing
from distify_runtime.shared.streams import draws_of_its_own
from distify_runtime.trace.moment import NOW

#: Draws of one process that are written down, and numbers of each that are kept.
_MOST_DRAWS, _MOST_NUMBERS = 5000, 512
_SENT = "sent"
_ORDERS = frozenset({"randperm", "shuffle", "permutation"})
_NUMPY = ("normal", "uniform", "random", "random_sample", "standard_normal", "randint", "rand", "randn", "beta",
          "binomial", "exponential", "poisson")  # fmt: skip
PYTHON = ("random", "uniform", "randint", "randrange", "gauss", "normalvariate", "betavariate", "triangular")


@dataclass(frozen=True)
class Drawn:
    """One draw. `source`: the operation, and the worker that has called it; `law`: its distribution's own numbers.

    `place`: where the stream was before, so that two draws from one place are the same. `numbers`: the first of them,
    none where their distribution follows from tensors. `with_gradients`: not so in most evaluations; ranks that make
    one whole draw all of it. `of_a_part`: for a rank's part of a shared forward pass.
    """

    step: int
    source: str
    law: str
    shape: tuple[int, ...]
    place: str
    numbers: tuple[float, ...]
    with_gradients: bool = True
    of_a_part: bool = False

    @property
    def amount(self) -> int:
        amount = 1
        for size in self.shape:
            amount *= size
        return amount


class _Book:
    """A file of this process's draws; workers have one each, behind the name of the process that has started them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._left = _MOST_DRAWS
        self._last: Drawn | None = None
        self._sent = 0  # how often rank 0 has sent something: alike on all ranks
        self.where = ""

    def begin_worker(self) -> None:
        """In a process that a loader has forked."""
        self.where = f" in worker {getattr(get_worker_info(), 'id', 0)}"
        self._path = self._path.with_name(f"{self._path.name}.{NOW.steps}.{os.getpid()}")
        self._file, self._left = None, _MOST_DRAWS

    @property
    def is_open(self) -> bool:
        begun = NOW.in_training or NOW.steps > 0  # without a loader, too
        return begun and not (NOW.in_dataset or NOW.initialising or is_comparing()) and self._left > 0

    def note(self, name: str, law: str, shape: Sequence[int], place: str, numbers: Iterable[float]) -> None:
        self._left -= 1
        how = (torch.is_grad_enabled(), draws_of_its_own())
        self._last = Drawn(NOW.steps + 1, name + self.where, law, tuple(shape), place, tuple(numbers), *how)
        self._write(asdict(self._last))

    def note_sent(self, value: Any) -> None:
        """All ranks go on with what rank 0 has: if that is as large as what was drawn last, it is made of that."""
        self._sent += 1
        last = self._last
        if last is not None and last.amount > 1 and tuple(getattr(value, "shape", ())) == last.shape:
            self._write({_SENT: self._sent, "source": last.source, "place": last.place})

    def _write(self, fields: dict[str, Any]) -> None:
        if self._file is None:
            self._file = self._path.open("a", encoding="utf-8", buffering=1)
        self._file.write(json.dumps(fields) + "\n")


def watch_draws(path: Path) -> None:
    """Writes what is drawn from here on to the file `path`, and to files of workers, which have its name and more."""
    book = _Book(path)
    _mode(book).__enter__()
    for name in PYTHON:
        wrap(random, name, _of_host(book, f"random.{name}", _python_place))
    if importlib.util.find_spec("numpy") is not None:
        import numpy

        for name in _NUMPY:
            wrap(numpy.random, name, _of_host(book, f"numpy.random.{name}", _numpy_place))

    def create(original: Any, *args: Any, **kwargs: Any) -> Any:
        if get_worker_info() is not None:
            book.begin_worker()
        return original(*args, **kwargs)

    def send(original: Any, value: Any) -> Any:
        book.note_sent(value)
        return original(value)

    wrap(_DatasetKind, "create_fetcher", create)
    wrap(main_process, "from_main_process", send)


def _mode(book: _Book) -> Any:
    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        draws = torch.Tag.nondeterministic_seeded in func.tags and book.is_open and name not in _ORDERS
        if not draws or any(isinstance(one, torch.Generator) for one in (*args, *kwargs.values())):
            return func(*args, **kwargs)
        place = _torch_place()
        made = func(*args, **kwargs)
        if place != _torch_place():  # no dropout of nothing, and no attention without
            _note_made(book, name, args, place, made)
        return made

    mode: Any = type("Draws", (TorchDispatchMode,), {"__torch_dispatch__": dispatch})
    return mode()


def _note_made(book: _Book, name: str, args: Sequence[Any], place: str, made: Any) -> None:
    tensors = [one for one in args if isinstance(one, Tensor)]
    masks = [one for one in made if isinstance(one, Tensor)] if isinstance(made, tuple) else []
    drawn = next((one for one in masks if one.dtype == torch.bool), made)
    if not isinstance(drawn, Tensor):
        drawn = next(iter(masks or tensors), torch.zeros(0))
    only_shape = len(tensors) == int(name.endswith(("_", "_like")))
    known = (only_shape and drawn is made) or (drawn is not made and drawn.dtype == torch.bool)
    law = ", ".join(f"{one:g}" for one in args if isinstance(one, (int, float)))
    numbers = drawn.detach().reshape(-1)[:_MOST_NUMBERS].double().tolist() if known else ()
    book.note(name, law, drawn.shape, place, numbers)


def _of_host(book: _Book, name: str, place_of: Callable[[], str]) -> Callable[..., Any]:
    def draw(original: Any, *args: Any, **kwargs: Any) -> Any:
        if not book.is_open:
            return original(*args, **kwargs)
        place = place_of()
        made = original(*args, **kwargs)
        given = [*args, *kwargs.values()]
        law = ", ".join(f"{one:g}" for one in given if isinstance(one, (int, float)))
        known = all(isinstance(one, (int, float, tuple, list)) or one is None for one in given)
        shape = tuple(getattr(made, "shape", ()))
        numbers = [float(one) for one in made.reshape(-1)[:_MOST_NUMBERS]] if shape else [float(made)]
        book.note(name, law, shape, place, numbers if known else ())
        return made

    return draw


def _torch_place() -> str:
    states = [torch.get_rng_state(), accelerators.random_state()]
    return _hash(b"".join(ctypes.string_at(one.data_ptr(), one.numel()) for one in states if one is not None))


def _python_place() -> str:
    return _hash(repr(random.getstate()).encode())


def _numpy_place() -> str:
    import numpy

    parts = (part.tobytes() if hasattr(part, "tobytes") else part for part in numpy.random.get_state())
    return _hash(repr(list(parts)).encode())


def _hash(state: bytes) -> str:
    return hashlib.blake2b(state, digest_size=8).hexdigest()


def load_draws(path: Path) -> list[Drawn]:
    """Of a process and of its workers, each draw once: what is drawn from one place again is the same.

    So is what rank 0 has drawn for all: of that, the place is the number of its sending.
    """
    found: dict[tuple[str, str], Drawn] = {}
    for file in sorted(path.parent.glob(f"{path.name}*")):
        for line in file.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            if _SENT in fields:
                key = fields["source"], fields["place"]
                found[key] = replace(found[key], place=f"{_SENT} {fields[_SENT]}")
                continue
            one = Drawn(**{**fields, "shape": tuple(fields["shape"]), "numbers": tuple(fields["numbers"])})
            found.setdefault((one.source, one.place), one)
    return list(found.values())
