"""LOSS01: gradients are averaged over ranks, so sums are scaled and what cannot be followed is said."""

from __future__ import annotations

import pytest

from tests.rules.scripts import (
    IMPORTS,
    LOOP,
    SHUFFLED,
    blocked,
    changes,
    converted,
    distributed,
    line_of,
    script,
)

FORMULA = "nn.functional.mse_loss(model(x), y)"
SCALED = "(loss * rt.world_size()).backward()"


def with_loss(loop: str, loss: str) -> str:
    return loop.replace(FORMULA, loss)


@pytest.mark.parametrize(
    "loss",
    [
        FORMULA,
        "((model(x) - y) ** 2).mean()",
        "torch.mean((model(x) - y) ** 2)",
        "nn.functional.mse_loss(model(x), y, reduction='none').mean()",
        "((model(x) - y) ** 2).sum() / len(x)",
        "((model(x) - y) ** 2).sum() / x.size(0)",
        "((model(x) - y) ** 2).sum().div(x.shape[0])",
        "0.5 * nn.functional.mse_loss(model(x), y) + nn.functional.l1_loss(model(x), y)",
        "nn.functional.mse_loss(model(x), y) / 4",
        "nn.functional.mse_loss(model(x), y) + 0.1 * sum(p.pow(2).sum() for p in model.parameters())",
        "sum([nn.functional.mse_loss(model(x), y), nn.functional.l1_loss(model(x), y)])",
        "nn.CrossEntropyLoss(label_smoothing=0.1)(model(x), y.long()[:, 0])",
        "nn.functional.binary_cross_entropy_with_logits(model(x), (y > 0).float())",
        "nn.SmoothL1Loss()(model(x), y)",
        "torch.linalg.norm(model(x) - y, dim=1).mean()",
    ],
)
def test_mean_stays(loss: str) -> None:
    assert converted(script(loop=with_loss(LOOP, loss))) == distributed(loop=with_loss(SHUFFLED, loss))


@pytest.mark.parametrize(
    "loss",
    [
        "nn.functional.mse_loss(model(x), y, reduction='sum')",
        "nn.MSELoss(reduction='sum')(model(x), y)",
        "nn.MSELoss(size_average=False)(model(x), y)",
        "((model(x) - y) ** 2).sum()",
        "torch.sum((model(x) - y) ** 2)",
        "((model(x) - y) ** 2).sum() / 8",
        "nn.functional.mse_loss(model(x), y) * len(x)",
        "nn.functional.mse_loss(model(x), y, reduction='none').sum()",
        "nn.functional.mse_loss(model(x), y, reduction='none').mean(1).sum()",
    ],
)
def test_sum_is_scaled_where_it_is_propagated(loss: str) -> None:
    new = with_loss(SHUFFLED, loss).replace("loss.backward()", SCALED)
    assert converted(script(loop=with_loss(LOOP, loss))) == distributed(loop=new)


@pytest.mark.parametrize(
    ("call", "scaled"),
    [
        ("loss.backward()", SCALED),
        ("loss.backward(retain_graph=True)", "(loss * rt.world_size()).backward(retain_graph=True)"),
        ("(loss + loss).backward()", "((loss + loss) * rt.world_size()).backward()"),
        ("loss.backward(); done = True", "(loss * rt.world_size()).backward(); done = True"),
        ("if True: loss.backward()", "if True: (loss * rt.world_size()).backward()"),
        ("loss.mul(2).backward()", "(loss.mul(2) * rt.world_size()).backward()"),
    ],
)
def test_spellings_of_the_backward_pass(call: str, scaled: str) -> None:
    summed = "nn.functional.mse_loss(model(x), y, reduction='sum')"
    before = script(loop=with_loss(LOOP, summed).replace("loss.backward()", call))
    assert converted(before) == distributed(loop=with_loss(SHUFFLED, summed).replace("loss.backward()", scaled))


def test_printed_sum_is_not_scaled() -> None:
    summed = "nn.functional.mse_loss(model(x), y, reduction='sum')"
    loop = with_loss(LOOP, summed) + "    print(loss.item())\n"
    after = converted(script(loop=loop))
    assert "    print(loss.item())\n" in after
    assert after.count("rt.world_size()") == 1


@pytest.mark.parametrize(
    "own",
    [
        "def distance(p, t):\n    return ((p - t) ** 2).sum()\n\n\n",
        "class Distance(nn.Module):\n    def forward(self, p, t):\n        return ((p - t) ** 2).sum()\n\n\n"
        "distance = Distance()\n",
        "distance = nn.MSELoss(reduction='sum')\n",
        "how = 'sum'\ndistance = nn.MSELoss(reduction=how)\n",
        "import functools\ndistance = functools.partial(nn.functional.mse_loss, reduction='sum')\n",
        "distance = lambda p, t: ((p - t) ** 2).sum()\n",
    ],
)
def test_sum_made_elsewhere(own: str) -> None:
    before = script(setup=own, loop=with_loss(LOOP, "distance(model(x), y)"))
    after = converted(before)
    assert SCALED in after
    assert all(line in after.splitlines() for line in own.splitlines())


def test_scaler_of_mixed_precision() -> None:
    """Gradients are averaged before they are unscaled: nothing to do for a mean."""
    setup = "scaler = torch.amp.GradScaler()\n"
    loop = LOOP.replace("loss.backward()", "scaler.scale(loss).backward()")
    loop = loop.replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
    before = script(setup=setup, loop=loop)
    assert changes("LOSS01", before) == []
    assert "        scaler.scale(loss).backward()\n" in converted(before)


def test_scaler_and_sum() -> None:
    loop = with_loss(LOOP, "((model(x) - y) ** 2).sum()").replace("loss.backward()", "scaler.scale(loss).backward()")
    loop = loop.replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
    after = converted(script(setup="scaler = torch.amp.GradScaler()\n", loop=loop))
    assert after.count("rt.world_size()") == 1


def test_clipping_needs_nothing() -> None:
    clip = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        optimizer.step()"
    before = script(loop=LOOP.replace("optimizer.step()", clip))
    assert converted(before) == distributed(loop=SHUFFLED.replace("optimizer.step()", clip))


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param("nn.functional.cross_entropy(model(x) @ model(x).T, torch.arange(len(x)))", id="negatives"),
        pytest.param("model(x).std()", id="spread of the batch"),
        pytest.param("(model(x) - y).norm()", id="norm over the batch"),
        pytest.param("((model(x) - model(x).mean(0)) ** 2).mean()", id="centred"),
        pytest.param("torch.cdist(model(x), y).mean()", id="pairs"),
        pytest.param("torch.sqrt(nn.functional.mse_loss(model(x), y))", id="root of a mean"),
        pytest.param("nn.functional.cross_entropy(model(x), y.long()[:, 0], weight=torch.ones(1))", id="class weights"),
        pytest.param("nn.functional.cross_entropy(model(x), y.long()[:, 0], ignore_index=0)", id="ignored"),
        pytest.param("nn.functional.mse_loss(model(x)[y > 0], y[y > 0])", id="mask"),
        pytest.param("Strange()(model(x), y)", id="library"),
        pytest.param(
            "nn.functional.mse_loss(model(x), y, reduction='sum') + model.weight.pow(2).sum()", id="sum and constant"
        ),
        pytest.param("nn.functional.mse_loss(model(x), y, reduction=x)", id="reduction that is not seen"),
        pytest.param("model(x).max()", id="extreme"),
        pytest.param("nn.functional.mse_loss(model(x).mean(), y.mean())", id="distance of means"),
        pytest.param("nn.functional.l1_loss(model(x).mean(0), y.mean(0))", id="distance of mean vectors"),
        pytest.param("nn.functional.mse_loss(model(x).sum(), y.sum())", id="distance of sums"),
        pytest.param("nn.MSELoss()(model(x).mean(dim=0), y.mean(dim=0))", id="module on mean vectors"),
        pytest.param("model(x).mean() ** 2", id="square of a mean"),
        pytest.param("torch.logsumexp(model(x), dim=0).mean()", id="log-sum over samples"),
        pytest.param("model(x).softmax(0).pow(2).mean()", id="softmax over samples"),
        pytest.param("model(x).sort(0)[0].pow(2).mean()", id="sorted samples"),
        pytest.param("model(x).cumsum(0).mean()", id="running sum over samples"),
        pytest.param("(model(x)[1:] - model(x)[:-1]).pow(2).mean()", id="neighbours"),
        pytest.param("(model(x) * model(x).T).mean()", id="outer product"),
        pytest.param("nn.functional.cosine_similarity(model(x)[:, None], y[None], dim=-1).mean()", id="all pairs"),
        pytest.param("nn.functional.normalize(model(x), dim=0).pow(4).mean()", id="normalised over samples"),
        pytest.param("nn.TripletMarginLoss()(model(x), model(x.flip(0)), y)", id="turned batch"),
    ],
)
def test_left_to_a_person(loss: str) -> None:
    before = script(imports=f"{IMPORTS}from somewhere import Strange\n", loop=with_loss(LOOP, loss))
    assert blocked(before) == {("LOSS01", line_of(before, "loss.backward()"))}


def test_mean_in_one_branch_and_sum_in_the_other() -> None:
    either = "nn.functional.mse_loss(model(x), y, reduction='sum' if epoch else 'mean')"
    before = script(loop=with_loss(LOOP, either))
    assert blocked(before) == {("LOSS01", line_of(before, "loss.backward()"))}


def test_weighted_backward() -> None:
    loop = with_loss(LOOP, "((model(x) - y) ** 2)").replace("backward()", "backward(torch.ones_like(loss))")
    before = script(loop=loop)
    assert blocked(before) == {("LOSS01", line_of(before, "loss.backward("))}


def test_closure() -> None:
    loop = """\
for epoch in range(3):
    for x, y in loader:
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss
        optimizer.step(closure)
"""
    before = script(loop=loop)
    assert ("LOSS01", line_of(before, "optimizer.step(closure)")) in blocked(before)


def test_double_backward() -> None:
    before = script(loop=LOOP.replace("backward()", "backward(create_graph=True)"))
    assert blocked(before) == {("LOSS01", line_of(before, "create_graph"))}


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("def backward():\n    return 1\n\n\nbackward()\n", id="own function"),
        pytest.param("class Walk:\n    def backward(self): pass\n\n\nWalk().backward()\n", id="own method"),
        pytest.param("criterion = nn.MSELoss(reduction='sum')\n", id="sum that is never propagated"),
    ],
)
def test_left_alone(setup: str) -> None:
    assert changes("LOSS01", script(setup=setup)) == []


def test_sum_of_the_evaluation_stays() -> None:
    line = "with torch.no_grad(): total = nn.functional.mse_loss(model(x), y, reduction='sum')"
    before = script(loop=LOOP.replace("        loss =", f"        {line}\n        loss ="))
    assert changes("LOSS01", before) == []
