"""What draws from a generator or a state of its own, beside the streams that the script seeds."""

from __future__ import annotations

from distify_codemods.events import Event
from distify_codemods.inside import core
from distify_codemods.libraries import drawing
from distify_codemods.objects import External


def has_a_stream_of_its_own(event: Event) -> bool:
    """Whether a call is given a generator or a seed, is one's method, or does no more than make one or look at it."""
    own = event.arguments.keywords.keys() & drawing.OWN_STREAM
    roots = [core(obj) for obj in event.receiver.objs]
    generators = any(isinstance(obj, External) and obj.name in drawing.OWN_STATE for obj in roots)
    return bool(own) or generators or event.name in drawing.OWN_STATE or "state" in event.name.rpartition(".")[2]
