"""TensorFlow scripts, for Horovod: sessions of `tf.compat.v1`, and Keras."""

from __future__ import annotations

from dataclasses import replace

from distify_codemods import rules
from distify_codemods.backends import Backend
from distify_codemods.decisions import Decisions
from distify_codemods.facts import Facts
from distify_codemods.libraries import distributed
from distify_codemods.results import Finding, Level, Options
from distify_codemods.rules.base import Context, Rule
from distify_codemods.tensorflow import broadcast, data, optimizers, side_effects, start
from distify_codemods.tensorflow.found import Found, is_of

RULES: tuple[Rule, ...] = tuple(module.RULE for module in (start, optimizers, broadcast, data, side_effects))

#: In the order of their checklists.
ALL_RULES = (*rules.RULES, *RULES)

__all__ = ["ALL_RULES", "RULES", "context_for", "trains"]


def trains(facts: Facts) -> bool:
    """Whether a script trains with TensorFlow, and not with torch."""
    return not facts.backwards and Found(facts).trains


def context_for(facts: Facts, backend: Backend, options: Options) -> Context | Finding:
    """What the rules work with, or why there is nothing to be done."""
    found = Found(facts)
    first = next(iter((*found.fits, *found.monitored, *found.sessions, *(one for one, _ in found.by_other_means))))

    def refused(message: str, fix: str) -> Finding:
        place = first.module.place(first.node)
        return Finding(Level.BLOCKING, "REFUSE05", "TensorFlow", message, place, fix)

    if found.by_other_means:
        first, what = found.by_other_means[0]
        return refused(f"this script trains by {what}", "bring Horovod into it by hand")
    if not backend.engine:
        return refused("this script trains with TensorFlow", "convert it with --backend horovod")
    engine = distributed.TENSORFLOW
    if found.by_keras:
        alone = all(is_of(fit.receiver, r"keras\b") for fit in found.fits)
        engine = distributed.KERAS if alone else distributed.BOTH
    return Context(Decisions(facts), replace(backend, engine=f"import {engine} as {{name}}"), {}, options)
