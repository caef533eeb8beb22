"""Objects that are written down as a whole: what is put into an attribute of theirs goes into a file, under no name.

`torch.save({"stopper": vars(stopper)}, path)`, `asdict(state)`, `pickle.dump(history, file)`.
"""

from __future__ import annotations

from collections.abc import Iterable

from distify_codemods.answers import answered_once
from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import contained
from distify_codemods.libraries import checkpoints, python
from distify_codemods.objects import Instance
from distify_codemods.ordered import Ordered
from distify_codemods.settled import is_module
from distify_codemods.values import Value


@answered_once
def dumped(facts: Facts) -> Ordered[Instance]:
    """They, and the objects in their attributes; no modules, whose parameters and buffers are state of their own."""
    seen: list[Instance] = []
    left = [obj for value in _read(facts) for obj in contained(value)]
    while left:
        obj = left.pop()
        if isinstance(obj, Instance) and obj not in seen and not is_module(obj):
            seen.append(obj)
            left += [one for value in obj.attributes.values() for one in contained(value)]
    return Ordered(seen)


def _read(facts: Facts) -> Iterable[Value]:
    yield from (event.receiver for event in facts.of_kind(Kind.ATTRIBUTE) if event.name == python.FIELDS)
    for event in facts.calls(python.AS_FIELDS, *python.AS_DICTIONARY, *checkpoints.WHOLE):
        yield event.arguments.first
