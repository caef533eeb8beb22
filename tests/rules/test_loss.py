"""LOSS01: gradients are averaged over ranks, so sums are scaled and what cannot be followed is said."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import (
    GROUP,
    IMPORTS,
    LOOP,
    SHUFFLED,
    blocked,
    changes,
    converted,
    distributed,
    indented,
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
        "nn.functional.mse_loss(model(x).unsqueeze(2), y[:, :, None], reduction='none').mean(dim=-1).mean()",
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
        "nn.CrossEntropyLoss(None, True)(model(x), y.long()[:, 0])",
        "nn.MSELoss(None, None, 'mean')(model(x), y)",
        "nn.functional.mse_loss(model(x), y, True, True, 'sum')",
        "torch.linalg.norm(model(x) - y, dim=1).mean()",
        "nn.functional.mse_loss(model(x), y, reduction='sum') / loader.batch_size",
        "torch.einsum('bd,bd->b', model(x), y).mean()",
        "torch.einsum('bd,bd', model(x), y) / len(x)",
        "((model(x) - torch.ones(1).expand(len(x), 1)) ** 2).sum() / len(x)",
    ],
)
def test_mean_stays(loss: str) -> None:
    assert converted(script(loop=with_loss(LOOP, loss))) == distributed(loop=with_loss(SHUFFLED, loss))


@pytest.mark.parametrize(
    "share",
    [
        "torch.Tensor(np.random.random((x.size(0), 1)))",
        "torch.from_numpy(np.random.uniform(size=(len(x), 1))).float()",
        "torch.tensor(np.random.normal(0, 1, (x.shape[0], 1)), dtype=torch.float)",
        "torch.FloatTensor(x.size(0), 1).uniform_(0, 1)",
        "torch.rand(x.size(0), 1)",
    ],
)
def test_noise_for_each_sample_is_no_number_of_samples(share: str) -> None:
    loss = f"({share} * (model(x) - y) ** 2).mean()"
    before = script(imports=f"{IMPORTS}import numpy as np\n", loop=with_loss(LOOP, loss))
    assert converted(before) == distributed(imports=f"{IMPORTS}import numpy as np\n", loop=with_loss(SHUFFLED, loss))


@pytest.mark.parametrize(
    "loss",
    [
        "nn.functional.mse_loss(model(x), y, reduction='sum')",
        "nn.MSELoss(reduction='sum')(model(x), y)",
        "nn.MSELoss(size_average=False)(model(x), y)",
        "nn.MSELoss(False)(model(x), y)",
        "nn.MSELoss(None, None, 'sum')(model(x), y)",
        "nn.functional.mse_loss(model(x), y, False)",
        "nn.functional.mse_loss(model(x), y, None, None, 'sum')",
        "nn.CrossEntropyLoss(None, False)(model(x), y.long()[:, 0])",
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
    assert "    print(rt.all_reduce_sum(loss).item())\n" in after
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
        pytest.param("Strange(model)(x, y)", id="a library calls the model"),
        pytest.param("nn.TripletMarginLoss()(model(x), model(x.flip(0)), y)", id="turned batch goes through the model"),
        pytest.param("sum(ratio(model(x[i:i + 1]), y[i:i + 1]) for i in range(len(x)))", id="for each sample"),
    ],
)
def test_left_to_a_person(loss: str) -> None:
    own = "def ratio(p, t):\n    return (p * t).sum() / (1 + t.sum())\n\n\n"
    before = script(imports=f"{IMPORTS}from somewhere import Strange\n", setup=own, loop=with_loss(LOOP, loss))
    assert ("LOSS01", line_of(before, "loss.backward()")) in blocked(before)


REDUCED = {
    "root of a mean": (
        "torch.sqrt(nn.functional.mse_loss(model(x), y))",
        "torch.sqrt(rt.mean_over_ranks(nn.functional.mse_loss(model(x), y)))",
    ),
    "class weights": (
        "nn.functional.cross_entropy(model(x), y.long()[:, 0], weight=torch.ones(1))",
        "rt.weighted_mean(nn.functional.cross_entropy, model(x), y.long()[:, 0], weight=torch.ones(1))",
    ),
    "module with class weights": (
        "nn.NLLLoss(torch.ones(1))(model(x), y.long()[:, 0])",
        "rt.weighted_mean(nn.NLLLoss(torch.ones(1)), model(x), y.long()[:, 0])",
    ),
    "perhaps class weights": (
        "nn.CrossEntropyLoss(torch.ones(1) if len(sys.argv) > 1 else None)(model(x), y.long()[:, 0])",
        "rt.weighted_mean(nn.CrossEntropyLoss(torch.ones(1) if len(sys.argv) > 1 else None), model(x), y.long()[:, 0])",
    ),
    "a class that is left out, by place": (
        "nn.CrossEntropyLoss(None, None, 0)(model(x), y.long()[:, 0])",
        "rt.weighted_mean(nn.CrossEntropyLoss(None, None, 0), model(x), y.long()[:, 0])",
    ),
    "mask": (
        "nn.functional.mse_loss(model(x)[y > 0], y[y > 0])",
        "rt.weighted_mean(nn.functional.mse_loss, model(x)[y > 0], y[y > 0])",
    ),
    "entries": ("(model(x) - y)[y > 0].mean()", "rt.global_mean((model(x) - y)[y > 0])"),
    "entries given to a function": ("torch.mean((model(x) - y)[y > 0])", "rt.global_mean((model(x) - y)[y > 0])"),
    "ratio of sums": (
        "(model(x) * (y > 0)).sum() / (y > 0).sum()",
        "rt.sum_over_ranks((model(x) * (y > 0)).sum()) / rt.sum_over_ranks((y > 0).sum())",
    ),
    "ratio that is kept from zero": (
        "(model(x) * (y > 0)).sum() / max(1, (y > 0).sum().item())",
        "rt.sum_over_ranks((model(x) * (y > 0)).sum()) / max(1, rt.sum_over_ranks((y > 0).sum().item()))",
    ),
    "sum and constant": (
        "nn.functional.mse_loss(model(x), y, reduction='sum') + scale",
        "rt.sum_over_ranks(nn.functional.mse_loss(model(x), y, reduction='sum')) + scale",
    ),
    "mean and sum": (
        "nn.functional.mse_loss(model(x), y) + model(x).exp().sum()",
        "nn.functional.mse_loss(model(x), y) + rt.sum_over_ranks(model(x).exp().sum())",
    ),
    "distance of means": (
        "nn.functional.mse_loss(model(x).mean(0), y.mean(0))",
        "nn.functional.mse_loss(rt.mean_over_ranks(model(x).mean(0)), rt.mean_over_ranks(y.mean(0)))",
    ),
    "distance of sums": (
        "nn.functional.mse_loss(model(x).sum(), y.sum())",
        "nn.functional.mse_loss(rt.sum_over_ranks(model(x).sum()), rt.sum_over_ranks(y.sum()))",
    ),
    "places of samples": (
        "nn.functional.mse_loss(model(x)[(y > 0).nonzero()[:, 0]], y[torch.where(y > 0)[0]])",
        "rt.weighted_mean(nn.functional.mse_loss, model(x)[(y > 0).nonzero()[:, 0]], y[torch.where(y > 0)[0]])",
    ),
    "products summed over samples": (
        "torch.einsum('bi,bj->ij', model(x), y).div(len(x)).pow(2).sum()",
        "rt.mean_over_ranks(torch.einsum('bi,bj->ij', model(x), y).div(len(x))).pow(2).sum()",
    ),
    "square of a mean": ("model(x).mean() ** 2", "rt.mean_over_ranks(model(x).mean()) ** 2"),
    "clipped mean": ("model(x).mean().clamp(max=1)", "rt.mean_over_ranks(model(x).mean()).clamp(max=1)"),
    "centred": (
        "((model(x) - y.mean(0)) ** 2).mean()",
        "((model(x) - rt.mean_over_ranks(y.mean(0))) ** 2).mean()",
    ),
}


@pytest.mark.parametrize("name", REDUCED)
def test_computed_over_all_ranks(name: str) -> None:
    before, after = REDUCED[name]
    setup = "scale = torch.tensor(0.1)\n"
    expected = (
        distributed(setup=setup, loop=with_loss(SHUFFLED, after)).replace(GROUP, "").replace(setup, f"{GROUP}{setup}")
    )
    assert converted(script(setup=setup, loop=with_loss(LOOP, before))) == expected


def test_sum_that_something_is_added_to() -> None:
    lines = "nn.functional.mse_loss(model(x), y, reduction='sum')\n{}        loss += torch.tensor(0.1).norm()"
    expected = lines.format("        loss = rt.sum_over_ranks(loss)\n")
    assert converted(script(loop=with_loss(LOOP, lines.format("")))) == distributed(loop=with_loss(SHUFFLED, expected))


OWN = """\
class Focal(nn.Module):
    def forward(self, scores, wanted):
        entropy = nn.functional.cross_entropy(scores, wanted, ignore_index=255)
        return (1 - torch.exp(-entropy)) ** 2 * entropy


"""


def test_criterion_of_the_script() -> None:
    before = script(setup=OWN, loop=with_loss(LOOP, "Focal()(model(x), y.long()[:, 0])"))
    after = converted(before)
    assert "entropy = rt.weighted_mean(nn.functional.cross_entropy, scores, wanted, ignore_index=255)\n" in after
    assert "world_size" not in after


def test_criterion_that_evaluation_shares() -> None:
    """Where no gradients are recorded it stays what it is; where they are, the batch is gathered before it."""
    held = "for x, y in DataLoader(data, batch_size=8):\n{}    print(Focal()(model(x), y.long()[:, 0]))\n"
    loop = with_loss(LOOP, "Focal()(model(x), y.long()[:, 0])")
    quiet = "model.eval()\nwith torch.no_grad():\n" + indented(held.format(""))
    assert "rt.weighted_mean(" in converted(script(setup=OWN, loop=loop + quiet))
    after = converted(script(setup=OWN, loop=loop + "model.eval()\n" + held.format("")))
    assert "rt.weighted_mean(" not in after
    assert "        loss = Focal()(rt.gather_samples(model(x)), y.long()[:, 0])\n" in after


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(
            "ratio(model(x), y) if y.sum() > 0 else nn.functional.mse_loss(model(x), y)", id="chosen by each rank"
        ),
        pytest.param("early(model(x), y)", id="left early"),
    ],
)
def test_ranks_that_would_wait_for_each_other(loss: str) -> None:
    """No sum over ranks where a rank may go another way; with the whole batch, all go the same."""
    own = """\
def ratio(p, t):
    return (p * t).sum() / (1 + t.sum())


def early(p, t):
    if t.sum() < 0:
        return p.mean()
    return ratio(p, t)


"""
    after = converted(script(setup=own, loop=with_loss(LOOP, loss)))
    assert "rt.sum_over_ranks" not in after
    assert (
        f"        y = rt.gather_samples(y)\n        loss = {loss.replace('model(x)', 'rt.gather_samples(model(x))')}\n"
        in after
    )


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        pytest.param(
            "reg = 0\nif epoch > 1: reg = scale\nloss = model(x).sum() + reg", "model(x).sum()", id="may be zero"
        ),
        pytest.param("kl = 0\nif epoch: kl = model(x).sum()\nloss = model(x).mean() + kl", "kl", id="zero or a sum"),
    ],
)
def test_what_is_zero_at_first(lines: str, after: str) -> None:
    """Zero may be added to anything; what is zero only at times may not."""
    loop = LOOP.replace("        loss = nn.functional.mse_loss(model(x), y)\n", indented(lines + "\n", "        "))
    text = converted(script(setup="scale = torch.tensor(0.1)\n", loop=loop))
    assert f"rt.sum_over_ranks({after})" in text
    assert "world_size" not in text


def test_mean_in_one_branch_and_sum_in_the_other() -> None:
    either = "nn.functional.mse_loss({}, y, reduction='sum' if epoch else 'mean')"
    after = converted(script(loop=with_loss(LOOP, either.format("model(x)"))))
    assert f"        loss = {either.format('rt.gather_samples(model(x))')}\n" in after


def test_mean_in_one_loop_and_sum_in_the_next() -> None:
    """The function that computes it is given the same each time; what it finds is another thing."""
    setup = "criterion = nn.MSELoss()\n\n\ndef loss_of(out, y):\n    return criterion(out, y)\n\n\n"
    loop = with_loss(LOOP, "loss_of(model(x), y)")
    assert "world_size" not in converted(script(setup=setup, loop=f"{loop}\n{loop}"))
    either = converted(script(setup=setup, loop=f"{loop}criterion = nn.MSELoss(reduction='sum')\n{loop}"))
    assert either.index("        loss.backward()\n") < either.index("        (loss * rt.world_size()).backward()\n")


def test_weighted_backward() -> None:
    loop = with_loss(LOOP, "((model(x) - y) ** 2)").replace("backward()", "backward(torch.ones_like(loss))")
    before = script(loop=loop)
    assert blocked(before) == {("LOSS01", line_of(before, "loss.backward("))}


CLOSURE = """\
for epoch in range(3):
    for x, y in loader:
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss
        optimizer.step(closure)
"""
LBFGS = "optimizer = torch.optim.LBFGS(model.parameters())\n"


@pytest.mark.parametrize("call", ["closure", "closure=closure", "lambda: closure()"])
def test_closure(call: str) -> None:
    """The optimizer compares losses, and must come to the same on all ranks."""
    name, _, given = call.rpartition("=")
    after = converted(script(optimizer=LBFGS, loop=CLOSURE.replace("(closure)", f"({call})")))
    text = f"{name}=rt.averaged_closure({given})" if name else f"rt.averaged_closure({given})"
    assert f"        optimizer.step({text})\n" in after


def test_closure_of_a_sum() -> None:
    after = converted(script(optimizer=LBFGS, loop=CLOSURE.replace("y)", "y, reduction='sum')")))
    assert "            (loss * rt.world_size()).backward()\n            return loss\n" in after
    assert "        optimizer.step(rt.averaged_closure(closure, summed=True))\n" in after


def test_closure_that_returns_what_is_no_mean() -> None:
    before = script(optimizer=LBFGS, loop=CLOSURE.replace("return loss", "return model(x).std()"))
    assert blocked(before) == {("LOSS01", line_of(before, "optimizer.step(closure)"))}


def test_closure_that_returns_nothing() -> None:
    after = converted(script(loop=CLOSURE.replace("            return loss\n", "")))
    assert "        optimizer.step(closure)\n" in after


def test_own_modules_in_a_sequence_are_looked_into() -> None:
    model = """\
class Centre(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


layers = [nn.Linear(4, 4), Centre()]
model = nn.Sequential(*layers, nn.Linear(4, 1))
"""
    assert "        return x - rt.mean_over_ranks(x.mean(0))\n" in converted(script(model=model))
    before = script(model=model.replace("x - x.mean(0)", "x / x.std(0)"))
    assert blocked(before) == {("LOSS01", line_of(before, "loss.backward()"))}


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


@pytest.mark.parametrize(
    ("loss", "after"),
    [
        ("einops.reduce(model(x) ** 2, 'b d -> b', 'mean').mean()", "einops.reduce(model(x) ** 2, 'b d -> b', 'mean')"),
        ("einops.rearrange(model(x), 'b (d e) -> b d e', e=1).mean()", "einops.rearrange(model(x), 'b (d e)"),
        ("einops.einsum(model(x), y, 'b d, b d -> b').mean()", "einops.einsum(model(x), y, 'b d, b d -> b').mean()"),
        (
            "einops.reduce(model(x), 'b d -> d', 'mean').pow(2).sum()",
            "rt.mean_over_ranks(einops.reduce(model(x), 'b d -> d', 'mean')).pow(2).sum()",
        ),
        ("einops.reduce(model(x), 'b d -> d', 'max').sum()", "einops.reduce(rt.gather_samples(model(x)),"),
        (
            "einops.einsum(model(x), y, 'i d, j d -> i j').exp().mean()",
            "einops.einsum(rt.gather_samples(model(x)), y, 'i d, j d -> i j').exp().mean()",
        ),
        ("nn.Softmax(dim=0)(model(x)).pow(2).mean()", "nn.Softmax(dim=0)(rt.gather_samples(model(x))).pow(2).mean()"),
        (
            "nn.functional.batch_norm(model(x), None, None, training=True).pow(4).mean()",
            "nn.functional.batch_norm(rt.gather_samples(model(x)), None, None, training=True).pow(4).mean()",
        ),
        (
            "model(x)[y[:, 0] > 0][:2].sum() / len(x)",
            "rt.gather_samples(model(x))[y[:, 0] > 0][:2].sum() / (len(x) * rt.world_size())",
        ),
    ],
)
def test_which_axis_is_that_of_the_samples(loss: str, after: str) -> None:
    text = converted(script(imports=f"{IMPORTS}import einops\n", loop=with_loss(LOOP, loss)))
    assert f"        loss = {after}" in text, text


@pytest.mark.parametrize(
    ("shape", "gathered"),
    [("out.shape", True), ("[len(x), 1]", True), ("(out.size(0), 1)", True), ("out.shape[1:]", False), ("[1]", False)],
)
def test_what_a_layer_norm_goes_over(shape: str, gathered: bool) -> None:
    loss = f"nn.functional.layer_norm(out, {shape}).pow(3).mean()"
    after = converted(
        script(loop=with_loss(LOOP, loss).replace("        loss =", "        out = model(x)\n        loss ="))
    )
    assert ("        out = rt.gather_samples(out)\n" in after) is gathered
    whole = loss.replace("len(x)", "len(x) * rt.world_size()")
    assert f"        loss = {whole}\n" in after


def test_a_model_that_returns_a_sum_or_its_scores() -> None:
    """The mean of a number is that number: a sum inside the model stays one."""
    net = """\
class Net(nn.Linear):
    sums = bool(data)

    def forward(self, x, y):
        scores = super().forward(x)
        if self.sums:
            return nn.functional.mse_loss(scores, y, reduction="sum")
        return scores


model = Net(4, 1)
"""
    before = script(model=net, loop=with_loss(LOOP, "model(x, y).mean()"))
    assert blocked(before) == {("LOSS01", line_of(before, "loss.backward()"))}


WRAPPED_ANEW = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, x):
        return self.body(x)


class Judged(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        return nn.functional.cross_entropy(<logits>, y, ignore_index=0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        if DEEP:
            self.net.body = nn.Sequential(self.net.body, nn.ReLU(), nn.Linear(3, 3))
        self.net = Judged(self.net)

    def forward(self, x, y):
        return self.net(x, y)


"""


@pytest.mark.parametrize("logits", ["self.net(x)", "layers.normed(self.net(x))"])
def test_an_attribute_that_is_wrapped_anew_is_the_wrapped_one(logits: str) -> None:
    """The loss comes from `Judged` alone, whatever a library that is not known does with what it is given."""
    new = converted(
        script(
            imports=IMPORTS + "import layers\n",
            setup="import sys\nDEEP = len(sys.argv) > 1\n" + WRAPPED_ANEW.replace("<logits>", logits),
            data="data = TensorDataset(torch.randn(64, 4), torch.randint(3, (64,)))\n",
            model="model = Model()\n",
            loop=LOOP.replace("nn.functional.mse_loss(model(x), y)", "model(x, y)"),
        )
    )
    assert f"        return rt.weighted_mean(nn.functional.cross_entropy, {logits}, y, ignore_index=0)\n" in new


def test_a_mean_that_only_some_ranks_come_to_is_none_of_all_ranks() -> None:
    """`if (y > k).any()`: of a rank's share there may be none, and the others would wait for it."""
    part = "nn.functional.mse_loss(model(x)[y > k], y[y > k])"
    loop = with_loss(LOOP, f"sum({part} for k in range(3) if (y > k).any())")
    assert "weighted_mean" not in converted(script(loop=loop), options=Options())
    always = with_loss(LOOP, f"sum({part} for k in range(3) if k < 2)")
    assert "rt.weighted_mean(nn.functional.mse_loss, model(x)[y > k], y[y > k])" in converted(script(loop=always))
