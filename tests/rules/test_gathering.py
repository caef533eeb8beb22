"""GATHER01: losses that relate the samples of a batch to each other."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level, Options, Strategy

from tests.rules.scripts import (
    IMPORTS,
    LOADER,
    LOOP,
    SHUFFLED,
    conversion_of,
    converted,
    distributed,
    findings,
    script,
)
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


@pytest.mark.parametrize(("options", "said"), [("", 1), (", drop_last=True", 0), (", drop_last=False", 1)])
def test_copies_that_fill_up_the_last_batch_are_told(options: str, said: int) -> None:
    """Contrast would push a sample away from its own copy."""
    loader = LOADER.replace("shuffle=True", f"shuffle=True{options}")
    before = script(imports=LIBRARY, loader=loader, loop=with_loss(LOOP, GATHERED["pairs"][0]))
    advice = [one.message for one in findings("GATHER01", before, Level.ADVICE)]
    assert sum("a loss that relates samples to each other sees copies" in one for one in advice) == said


def test_copies_that_fill_up_batches_of_a_batch_sampler_are_told_of_each_batch() -> None:
    """Where shares are asked for: by itself such a batch is shared in its forward passes."""
    loader = "loader = DataLoader(data, batch_sampler=[[1, 2, 3], [4, 5, 6]])\n"
    before = script(imports=LIBRARY, loader=loader, loop=with_loss(LOOP, GATHERED["pairs"][0]))
    [told] = [one.message for one in findings("GATHER01", before, Level.ADVICE) if "sees copies" in one.message]
    assert told.startswith("where a batch does not divide")
    assert "drop_last" not in told
    [dealt] = [one.message for one in findings("DATA01", before, Level.APPLIED)]
    assert dealt.endswith("where one of its batches does not divide by the ranks, some of its samples count twice")


def test_no_figure_of_a_rank_is_kept_where_the_loss_is_that_of_whole_batches() -> None:
    loop = with_loss(LOOP, GATHERED["outer product"][0]) + "        history.append(loss.item())\n"
    before = script(imports=LIBRARY, setup="history = []\n", loop=loop)
    told = [one.message for one in findings("METRIC01", before, Level.NOT_NEEDED)]
    assert told == ["no figure of a rank's own samples is kept"]


METER = """\
class Meter:
    def __init__(self):
        self.sum, self.count, self.values = 0.0, 0, []

    def update(self, value, n):
        self.sum += value * n
        self.count += n
        self.values.append(value)


meter = Meter()
"""


def test_samples_of_a_gathered_batch_are_counted_once() -> None:
    """Its size is told for the samples of all ranks: what is not gathered itself need not be."""
    loop = with_loss(LOOP, GATHERED["pairs"][0]) + "        meter.update(loss.item(), x.size(0))\n"
    text = converted(script(imports=LIBRARY, setup=METER, loop=loop))
    assert "        meter.update(loss.item(), x.size(0) * rt.world_size())\n" in text


OUT = "model(x)"
CLASSES = "y.argmax(1)"


@pytest.mark.parametrize(
    "loss",
    [
        f"torch.var_mean({OUT}, dim=0)[0].mean()",
        f"torch.logcumsumexp({OUT}, 0).mean()",
        f"torch.cummax({OUT}, 0)[0].mean()",
        f"torch.diff({OUT}, dim=0).pow(2).mean()",
        f"torch.quantile({OUT}, 0.5, dim=0).mean()",
        f"torch.quantile({OUT}, 0.5)",
        f"torch.fft.fft({OUT}, dim=0).abs().mean()",
        f"torch.inner({OUT}, {OUT}).mean()",
        f"torch.tensordot({OUT}, {OUT}, dims=([0], [0])).mean()",
        f"torch.cartesian_prod({OUT}[:, 0], y[:, 0]).pow(2).mean()",
        f"torch.rot90({OUT}).mean(1).pow(2).mean()",
        f"torch.linalg.vector_norm({OUT}, 2, 0).mean()",
        f"torch.linalg.svdvals({OUT}).sum()",
        f"torch.outer({OUT}[:, 0], y[:, 0]).mean()",
        f"torch.addmm(torch.zeros(1, 1), {OUT}.T, {OUT}).mean()",
        f"nn.functional.linear({OUT}, {OUT}).mean()",
        f"torch.zeros(3, 1).index_add(0, {CLASSES}, {OUT}).pow(2).mean()",
        f"torch.zeros(3).scatter(0, {CLASSES}, 1.0).mean() + {OUT}.mean()",
        f"{OUT}.gather(0, y.argmax(1, keepdim=True)).pow(2).mean()",
        f"{OUT}.narrow(0, 0, 2).pow(2).mean()",
        f"{OUT}.select(0, 1).pow(2).mean()",
        f"{OUT}.unfold(0, 2, 1).mean(2).pow(2).mean()",
        f"nn.CosineSimilarity(dim=0)({OUT}, y).mean()",
        f"nn.MSELoss(**json.load(open('loss.json')))({OUT}, y)",
        f"nn.functional.mse_loss({OUT}, y, **json.load(open('loss.json')))",
    ],
)
def test_functions_along_the_samples(loss: str) -> None:
    assert "gather_samples(model(x))" in converted(script(loop=with_loss(LOOP, loss)))


@pytest.mark.parametrize(
    "loss",
    [
        f"torch.var_mean({OUT}, dim=1)[0].mean()",
        f"torch.diff({OUT}, dim=1).pow(2).mean()",
        f"torch.quantile({OUT}, 0.5, dim=1).mean()",
        f"torch.fft.fft({OUT}).abs().mean()",
        f"{OUT}.unfold(dimension=-1, size=1, step=1).mean(2).mean()",
        f"torch.linalg.vector_norm({OUT}, dim=-1).mean()",
        "torch.rot90(model(x)[:, None, None], 1, [2, 3]).mean()",
        f"torch.linalg.vector_norm({OUT}, 2, 1).mean()",
        f"torch.outer({OUT}[:, 0], torch.ones(3)).mean()",
        f"torch.addmm(torch.zeros(1), {OUT}, torch.ones(1, 1)).mean()",
        f"nn.functional.linear({OUT}, torch.ones(3, 1)).mean()",
        f"torch.zeros(len(x), 3).scatter_(1, y.argmax(1, keepdim=True), 1.0).mul({OUT}).sum(1).mean()",
        f"{OUT}.gather(1, y.argmax(1, keepdim=True)).pow(2).mean()",
        f"{OUT}.narrow(1, 0, 1).pow(2).mean()",
        f"{OUT}.select(1, 0).pow(2).mean()",
        f"nn.CosineSimilarity(dim=1)({OUT}, y).mean()",
        f"nn.MSELoss(**{{}})({OUT}, y)",
        f"nn.SmoothL1Loss(**dict(beta=2.0))({OUT}, y)",
    ],
)
def test_functions_along_another_dimension(loss: str) -> None:
    assert converted(script(loop=with_loss(LOOP, loss))) == distributed(loop=with_loss(SHUFFLED, loss))


@pytest.mark.parametrize("weight", ["weights.gather(0, {})", "weights.index_select(0, {})", "weights[{}]"])
def test_weights_of_samples(weight: str) -> None:
    weight = weight.format(CLASSES)
    loss = f"({weight} * {OUT}[:, 0]).sum() / {weight}.sum()"
    after = converted(script(setup="weights = torch.ones(3)\n", loop=with_loss(LOOP, loss)))
    assert f"loss = rt.sum_over_ranks(({weight} * {OUT}[:, 0]).sum()) / rt.sum_over_ranks({weight}.sum())\n" in after


def test_says_that_a_loss_was_not_seen() -> None:
    before = script(imports=LIBRARY, loop=with_loss(LOOP, "Strange()(model(x), y)"))
    (_, advice) = findings("GATHER01", before, Level.ADVICE)
    assert advice.message.startswith("what this loss does with the samples cannot be seen")
    whole = LOADER.replace("shuffle=True", "shuffle=True, drop_last=True")
    seen = script(loader=whole, loop=with_loss(LOOP, "model(x).std()"))
    assert not findings("GATHER01", seen, Level.ADVICE)


def test_gradients_of_the_samples_are_of_what_the_model_was_given() -> None:
    """`x` would be the gathered copy, which the model was not called with."""
    step = "x.requires_grad = True\n        out = model(x)\n        first = nn.functional.mse_loss(out, y)\n"
    step += "        first.backward(retain_graph=True)\n        slope = (x.grad * x).norm()\n"
    loop = LOOP.replace(
        "        loss = nn.functional.mse_loss(model(x), y)\n", f"        {step}        loss = first + slope\n"
    )
    (said,) = [one.message for one in findings("LOSS01", script(loop=loop), Level.BLOCKING)]
    assert said.endswith("it cannot be gathered by itself: gradients by the samples themselves are taken")


TEACHER = """\
teacher = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.1))
teacher = copy.deepcopy(teacher)
"""
APART_LOOP = LOOP.replace("        loss = ", "        out = model(x)\n        wanted = teacher(x)\n        loss = ")


def of_a_teacher(loop: str, setup: str = TEACHER) -> Conversion:
    return conversion_of(script(imports=f"{IMPORTS}import copy\n", setup=setup, loop=loop), options=Options())


def text_of(conversion: Conversion) -> str:
    (new,) = conversion.files
    return new.after.decode()


def test_what_a_teacher_makes_in_the_line_is_gathered_and_not_what_it_is_given() -> None:
    conversion = of_a_teacher(with_loss(LOOP, "torch.cdist(model(x), teacher(x)).mean()"))
    assert conversion.strategy is Strategy.SHARDED
    expected = "torch.cdist(rt.gather_samples(model(x)), rt.gather_samples(teacher(x))).mean()"
    assert f"        loss = {expected}\n" in text_of(conversion)


@pytest.mark.parametrize("setup", [TEACHER, TEACHER.splitlines(keepends=True)[0]])
def test_a_teacher_that_drops_behind_the_forward_pass_has_shared_passes(setup: str) -> None:
    """Each rank would drop others of the samples of all."""
    conversion = of_a_teacher(with_loss(APART_LOOP, "torch.cdist(out, wanted).mean()"), setup)
    assert conversion.strategy is Strategy.SHARED
    [said] = [one.message for one in conversion.of(Level.ADVICE) if "of all ranks" in one.message]
    assert "`teacher(x)` draws for the samples of all ranks, which are gathered ahead of it" in said


def test_a_teacher_that_draws_nothing_is_given_the_samples_of_all() -> None:
    setup = TEACHER.replace(", nn.Dropout(0.1)", "")
    conversion = of_a_teacher(with_loss(APART_LOOP, "torch.cdist(out, wanted).mean()"), setup)
    assert conversion.strategy is Strategy.SHARDED
    assert "        x, out = rt.gather_samples(x, out)\n        wanted = teacher(x)\n" in text_of(conversion)
