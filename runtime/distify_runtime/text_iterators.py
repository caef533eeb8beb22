"""Iterators of torchtext: each minibatch is a list of examples, of which every rank makes a batch of its share."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from distify_runtime.environment import rank, world_size
from distify_runtime.meeting import collective
from distify_runtime.output import stop
from distify_runtime.randomness import told_by_main
from distify_runtime.training_samplers import share_of_batch


@collective
def shard_text_iterator(iterator: Any, time_first: Sequence[str] = ()) -> Any:
    """The iterator itself, with each rank's share of every minibatch; sequences as long as in the whole minibatch.

    Bucketing, sorting and shuffling stay what they are, and rank 0's on all ranks. `time_first` names the fields
    that the script is taken to lay out as [time, sample]. Raises SystemExit where one is laid out otherwise.
    """
    for name in time_first:
        _check_time_first(name, iterator.dataset.fields[name])
    iterator.random_shuffler.random_state = _from_main(iterator.random_shuffler.random_state)
    kind = type(iterator)
    mixin = _SharedColumns if hasattr(iterator, "bptt_len") else _SharedExamples
    iterator.__class__ = type(kind.__name__, (mixin, kind), {"_unshared": kind})
    return iterator


@collective
def shard_text_iterators(iterators: Iterable[Any], training: int, time_first: Sequence[str] = ()) -> tuple[Any, ...]:
    """What `splits` returned, with the iterator at the place `training` sharded."""
    found = tuple(iterators)
    shard_text_iterator(found[training], time_first)
    return found


class _Shared:
    _unshared: type
    _noted = False

    def whole(self) -> Any:
        """An iterator over all examples, as it was."""
        other = copy.copy(self)
        other.__class__ = self._unshared
        return other


class _SharedExamples(_Shared):
    dataset: Any
    batches: Iterable[list[Any]]

    def create_batches(self) -> None:
        super().create_batches()  # type: ignore[misc]
        self.batches = self._shares(self.batches)

    def _shares(self, batches: Iterable[list[Any]]) -> Iterator[list[Any]]:
        for examples in batches:
            self._lengths = [(field, field.fix_length, length) for field, length in _lengths(self.dataset, examples)]
            for field, _, length in self._lengths:
                field.fix_length = length
            yield share_of_batch(examples, self)

    def __iter__(self) -> Iterator[Any]:
        """A batch is made as soon as its examples are handed out: its fields are set back right after that."""
        for batch in super().__iter__():  # type: ignore[misc]
            for field, own, _ in self._lengths:
                field.fix_length = own
            yield batch


class _SharedColumns(_Shared):
    """Of `BPTTIterator`: each rank gets some of the columns of the text, in all of its time."""

    dataset: Any

    def __iter__(self) -> Iterator[Any]:
        column = 0 if self.dataset.fields["text"].batch_first else 1
        for batch in super().__iter__():  # type: ignore[misc]
            if batch.batch_size % world_size():
                stop(f"a batch of {batch.batch_size} columns does not divide by {world_size()} ranks")
            for name in ("text", "target"):
                share = getattr(batch, name).unflatten(column, (-1, world_size())).select(column + 1, rank())
                setattr(batch, name, share.contiguous())
            batch.batch_size //= world_size()
            yield batch


def _lengths(dataset: Any, examples: list[Any]) -> Iterator[tuple[Any, int]]:
    """The fields that are padded, and the length that pads a share as the whole minibatch would be padded.

    A field with lengths stays as it is: what is packed by them has to be as long as the longest of the share.
    """
    seen: set[int] = set()
    for field in filter(None, dataset.fields.values()):
        plain = getattr(field, "sequential", False) and not hasattr(field, "nesting_field")
        if not plain or field.include_lengths or field.fix_length is not None or id(field) in seen:
            continue
        seen.add(id(field))
        names = [one for one, other in dataset.fields.items() if other is field]
        marks = sum(token is not None for token in (field.init_token, field.eos_token))
        yield field, marks + max(len(getattr(example, one)) for example in examples for one in names)


def _check_time_first(name: str, field: Any) -> None:
    if not field.sequential or field.batch_first or field.include_lengths:
        stop(
            f"the field {name!r} does not hold [time, sample] alone, as the conversion has taken it to do: "
            f"make it where the conversion can see its options"
        )


def _from_main(state: Any) -> Any:
    """Rank 0's random state of Python, on every rank."""
    return ast.literal_eval(told_by_main(repr(state)))
