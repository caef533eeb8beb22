"""Iterators of torchtext: the shares of the ranks make up the batches of one process."""

from __future__ import annotations

import random
from typing import Any

import distify_runtime as rt
import pytest
from ranks import on_ranks

data = pytest.importorskip("torchtext.data")


def _dataset(samples: int = 22, **options: Any) -> Any:
    draw = random.Random(1)
    text = data.Field(init_token="<s>", eos_token="</s>", **options)
    label = data.Field(sequential=False, use_vocab=False)
    fields = [("text", text), ("label", label)]
    words = [" ".join(draw.choices("abcdef", k=draw.randint(1, 9))) for _ in range(samples)]
    examples = [data.Example.fromlist([sentence, number], fields) for number, sentence in enumerate(words)]
    made = data.Dataset(examples, fields)
    made.sort_key = lambda one: len(one.text)
    text.build_vocab(made)
    return made


def _batches(kind: str, options: dict[str, Any]) -> list[list[tuple[int, list[int]]]]:
    """Two epochs: of each batch, its labels and the sequences in it."""
    random.seed(3 + rt.rank())  # the ranks differ from the start
    made = getattr(data, kind)(_dataset(), batch_size=4, **options)
    iterator = rt.shard_text_iterator(made, ["text"])
    rt.seed_ranks_apart()
    found = []
    for _ in range(2):
        for batch in iterator:
            assert batch.batch_size == len(batch.label) == batch.text.shape[1]
            found.append(list(zip(batch.label.tolist(), batch.text.t().tolist(), strict=True)))
    return found


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("BucketIterator", {}),
        ("BucketIterator", {"sort_within_batch": True}),
        ("Iterator", {"train": False}),
        ("Iterator", {"shuffle": True, "sort": False}),
    ],
)
def test_shares_make_up_the_batches_of_one_process(kind: str, options: dict[str, Any]) -> None:
    first, second = on_ranks(_batches, kind, options)
    alone = _batches(kind, options)
    assert len(first) == len(alone) == 12
    for ours, theirs, whole in zip(first, second, alone, strict=True):
        assert sorted([*ours, *theirs]) == sorted(whole)  # each is sorted again within
    assert options.get("train") is False or alone[:6] != alone[6:]


def _ragged() -> list[int]:
    iterator = rt.shard_text_iterator(data.Iterator(_dataset(5), batch_size=4, train=False))
    return [len(batch) for batch in iterator]


def test_a_ragged_batch_is_filled_up() -> None:
    assert on_ranks(_ragged) == [[2, 1], [2, 1]]


def _whole() -> tuple[list[int], int | None]:
    iterator = rt.shard_text_iterator(data.Iterator(_dataset(6), batch_size=4, train=False))
    next(iter(iterator))
    return [len(batch) for batch in rt.whole_loader(iterator)], iterator.dataset.fields["text"].fix_length


def test_all_of_it_can_still_be_seen_and_the_fields_stay_as_they_are() -> None:
    assert on_ranks(_whole) == [([4, 2], None), ([4, 2], None)]


def _splits() -> list[int]:
    both = data.BucketIterator.splits((_dataset(8), _dataset(6)), batch_sizes=(4, 2))
    train, test = rt.shard_text_iterators(both, training=0)
    return [sum(map(len, train)), sum(map(len, test))]


def test_of_splits_one_is_sharded() -> None:
    assert on_ranks(_splits) == [[4, 6], [4, 6]]


@pytest.mark.parametrize("options", [{"batch_first": True}, {"include_lengths": True}])
def test_fields_that_are_laid_out_otherwise_stop_the_run(options: dict[str, Any]) -> None:
    iterator = data.Iterator(_dataset(**options), batch_size=4)
    with pytest.raises(SystemExit, match=r"^distify: the field 'text' does not hold \[time, sample\] alone"):
        rt.shard_text_iterator(iterator, ["text"])


def _columns(batch_first: bool) -> list[tuple[list[list[int]], list[list[int]]]]:
    """Of each batch, the columns of its text and of its target."""
    text = data.Field(batch_first=batch_first)
    example = data.Example.fromlist(["a b c d e f g h i j k l m n o p q r"], [("text", text)])
    made = data.Dataset([example], [("text", text)])
    text.build_vocab(made)
    iterator = rt.shard_text_iterator(data.BPTTIterator(made, batch_size=4, bptt_len=2))
    both = [(batch.text, batch.target) for batch in iterator]
    return [tuple((one if batch_first else one.t()).tolist() for one in pair) for pair in both]  # type: ignore[misc]


@pytest.mark.parametrize("batch_first", [False, True])
def test_text_is_shared_by_columns(batch_first: bool) -> None:
    first, second = on_ranks(_columns, batch_first)
    alone = _columns(batch_first)
    assert len(alone) == 2
    for ours, theirs, whole in zip(first, second, alone, strict=True):
        for one, other, both in zip(ours, theirs, whole, strict=True):
            assert [column for pair in zip(one, other, strict=True) for column in pair] == both
