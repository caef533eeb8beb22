"""GATHER01: losses that relate the samples of a batch to each other."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import IMPORTS, LOOP, converted, findings, script
from tests.rules.test_loss import with_loss

#: A loss, what it becomes, and whether the targets are gathered, too.
GATHERED = {
    "negatives": (
        "nn.functional.cross_entropy(model(x) @ model(x).T, torch.arange(len(x)))",
        "nn.functional.cross_entropy({0} @ {0}.T, torch.arange(len(x) * rt.world_size()))",
        False,
    ),
    "spread of the batch": ("model(x).std()", "{0}.std()", False),
    "norm over the batch": ("(model(x) - y).norm()", "({0} - y).norm()", True),
    "pairs": ("torch.cdist(model(x), y).mean()", "torch.cdist({0}, y).mean()", True),
    "extreme": ("model(x).max()", "{0}.max()", False),
    "log-sum over samples": (
        "torch.logsumexp(model(x), dim=0).mean()",
        "torch.logsumexp({0}, dim=0).mean()",
        False,
    ),
    "softmax over samples": ("model(x).softmax(0).pow(2).mean()", "{0}.softmax(0).pow(2).mean()", False),
    "sorted samples": ("model(x).sort(0)[0].pow(2).mean()", "{0}.sort(0)[0].pow(2).mean()", False),
    "running sum over samples": ("model(x).cumsum(0).mean()", "{0}.cumsum(0).mean()", False),
    "neighbours": ("(model(x)[1:] - model(x)[:-1]).pow(2).mean()", "({0}[1:] - {0}[:-1]).pow(2).mean()", False),
    "outer product": ("(model(x) * model(x).T).mean()", "({0} * {0}.T).mean()", False),
    "all pairs": (
        "nn.functional.cosine_similarity(model(x)[:, None], y[None], dim=-1).mean()",
        "nn.functional.cosine_similarity({0}[:, None], y[None], dim=-1).mean()",
        True,
    ),
    "normalised over samples": (
        "nn.functional.normalize(model(x), dim=0).pow(4).mean()",
        "nn.functional.normalize({0}, dim=0).pow(4).mean()",
        False,
    ),
    "library": ("Strange()(model(x), y)", "Strange()({0}, y)", True),
}
LIBRARY = f"{IMPORTS}from somewhere import Strange\n"


@pytest.mark.parametrize("kind", GATHERED)
def test_whole_batches(kind: str) -> None:
    before, after, targets = GATHERED[kind]
    text = converted(script(imports=LIBRARY, loop=with_loss(LOOP, before)))
    assert f"        loss = {after.format('rt.gather_samples(model(x))')}\n" in text
    assert ("        y = rt.gather_samples(y)\n        loss" in text) is targets
    assert "world_size" not in text.replace("len(x) * rt.world_size()", "")


def test_says_that_a_loss_was_not_seen() -> None:
    before = script(imports=LIBRARY, loop=with_loss(LOOP, "Strange()(model(x), y)"))
    (advice,) = findings("GATHER01", before, Level.ADVICE)
    assert advice.message.startswith("what this loss does with the samples cannot be seen")
    assert not findings("GATHER01", script(loop=with_loss(LOOP, "model(x).std()")), Level.ADVICE)
