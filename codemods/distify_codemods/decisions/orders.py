"""The orders of training loaders: which of them shuffle, and where one statement begins several passes over one."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import CallChain
from distify_codemods.decisions.base import Dealing, Decisions, Link
from distify_codemods.decisions.dealing import Given, given
from distify_codemods.objects import Arguments, External


def keeps_its_order(decisions: Decisions, loader: External) -> bool:
    """Whether it is seen not to shuffle: it has nothing that chooses samples, and says no or nothing."""
    said = loader.arguments or Arguments()
    if decisions.dealing_of(loader) is not Dealing.DATASET or said.star or said.double_star:
        return False
    shuffle = said.get("shuffle", 2)
    return shuffle is None or shuffle.constant() is False


def draws_its_order(decisions: Decisions, loader: External) -> bool:
    """Whether it is seen to shuffle by a generator that it is given: the sampler goes on drawing from that."""
    made = [one for one in decisions.facts.loaders if one.obj is loader]
    dealt = decisions.dealing_of(loader) is Dealing.DATASET
    return dealt and bool(made) and all(given(one, "generator") is Given.YES for one in made)


def links(decisions: Decisions) -> Iterator[Link]:
    """`for x, y in chain(loader, loader)`: one process draws an order for each pass, and ranks are told one epoch."""
    begun: dict[tuple[cst.CSTNode, CallChain, External], tuple[cst.CSTNode, str]] = {}
    for one in decisions.facts.beginnings:
        event, statement = one.event, one.module.statement(one.event.node)
        for loader in one.loaders:
            if loader not in decisions.facts.training_loaders or keeps_its_order(decisions, loader):
                continue
            place = event.node, event.name
            if begun.setdefault((statement, event.here.frame.context, loader), place) != place:
                yield Link(
                    one.module, event.node,
                    "one statement begins several passes over the training loader, of which one process draws an order "
                    "for each: ranks are told the epoch before the statement, once",
                    "a loop for each pass could be told before each",
                )  # fmt: skip
