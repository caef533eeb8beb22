"""RATE01: with --scale linear, rates grow by the optimizer's rule; with --scale none, nothing does."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import (
    APART,
    GROUP,
    LOOP,
    MODEL,
    OPTIMIZER,
    SHUFFLED,
    WRAP,
    conversion_of,
    converted,
    distributed,
    line_of,
    script,
)

CODE = "RATE01"
LINEAR = Options(scale="linear")
COLD = Options(scale="linear", warmup_epochs=0)
NONE = Options(scale="none")
KEPT_GROUP = "rt.init_process_group(per_rank_batch=True)\n"
KEPT = "loader = DataLoader(data, batch_size=8, sampler=rt.TrainingSampler(data))\n"
SCALED = "optimizer = rt.scale_learning_rate(torch.optim.SGD(model.parameters(), lr=0.1))\n"
NOTED = SHUFFLED.replace("loader.sampler.set_epoch(epoch)", "rt.set_epoch(loader, epoch)")
WARM = NOTED.replace("in range(3)", "in rt.warm_up(range(3), epochs=5)")


def linear(**parts: str) -> str:
    """What `script` must become with --scale linear."""
    parts = {"group": KEPT_GROUP, "loader": KEPT, "optimizer": SCALED, "loop": WARM, **parts}
    return distributed(**parts)  # type: ignore[arg-type]


def blocked(before: str, options: Options = LINEAR) -> set[tuple[str, int]]:
    conversion = conversion_of(before, options=options)
    found = conversion.of(Level.BLOCKING)
    assert bool(found) == (conversion.outcome is Outcome.REFUSED)
    return {(one.code, one.place.line if one.place else 0) for one in found}


def said(before: str, options: Options, level: Level) -> list[str]:
    return [one.message for one in conversion_of(before, options=options).of(level) if one.code == CODE]


def test_linear() -> None:
    assert converted(script(), LINEAR) == linear()


def test_linear_without_warm_up() -> None:
    assert converted(script(), COLD) == linear(loop=NOTED)


def test_none() -> None:
    assert converted(script(), NONE) == linear(optimizer=OPTIMIZER, loop=NOTED)
    (advice,) = said(script(), NONE, Level.ADVICE)
    assert "the global batch is N times as large" in advice


def test_global() -> None:
    assert converted(script(), Options(scale="global", warmup_epochs=3)) == distributed()
    (message,) = said(script(), Options(), Level.NOT_NEEDED)
    assert message == "the global batch stays what it was, and so does the learning rate"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("SGD(model.parameters(), lr=0.1, momentum=0.9)",
         "SGD is multiplied by the world size (linear: Goyal et al. 2017, arXiv:1706.02677)"),
        ("AdamW(model.parameters())",
         "AdamW is multiplied by the square root of the world size (square root: Malladi et al. 2022, "
         "arXiv:2205.10287; betas and eps stay)"),
        ("Adagrad(model.parameters())",
         "Adagrad is multiplied by the square root of the world size (square root: Krizhevsky 2014, arXiv:1404.5997)"),
    ],
)  # fmt: skip
def test_each_rule_is_said_with_its_source(made: str, message: str) -> None:
    before = script(optimizer=f"optimizer = torch.optim.{made}\n")
    assert f"the learning rate of {message}" in said(before, LINEAR, Level.APPLIED)
    assert f"optimizer = rt.scale_learning_rate(torch.optim.{made})\n" in converted(before, LINEAR)


def test_chosen_when_it_runs() -> None:
    made = "optimizer = getattr(torch.optim, NAME)(model.parameters(), lr=0.1)\n"
    before = script(setup="import sys\nNAME = sys.argv[1]\n", optimizer=made)
    assert "rt.scale_learning_rate(getattr(torch.optim, NAME)(model.parameters(), lr=0.1))" in converted(before, LINEAR)
    assert "multiplied by what fits its class, or stops before the first step" in said(before, LINEAR, Level.APPLIED)[0]


OWN = """\
class Own(torch.optim.SGD):
{body}

optimizer = Own(model.parameters(), lr=0.1)
"""
STEP = "    def step(self, closure=None):\n        super().step()\n"


@pytest.mark.parametrize(
    "optimizer",
    [
        "optimizer = torch.optim.LBFGS(model.parameters())\n",
        "optimizer = torch.optim.Rprop(model.parameters())\n",
        "optimizer = torch.optim.ASGD(model.parameters())\n",
        "import wonder\noptimizer = wonder.Optimizer(model.parameters(), lr=0.1)\n",
        OWN.format(body=STEP),
    ],
)
def test_no_rule_is_known(optimizer: str) -> None:
    before = script(optimizer=optimizer)
    place = (CODE, line_of(before, "optimizer = "))
    assert place in blocked(before)
    told = before.replace(optimizer[-20:], f"{optimizer[-20:-1]}  # distify: rate-square-root\n")
    assert place not in blocked(told)


def test_told() -> None:
    told = OWN.format(body=STEP).replace("lr=0.1)", "lr=0.1)  # distify: rate-square-root")
    assert 'rt.scale_learning_rate(Own(model.parameters(), lr=0.1), rule="square root")' in converted(
        script(optimizer=told), LINEAR
    )


def test_own_class_with_its_bases_steps() -> None:
    before = script(optimizer=OWN.format(body="    pass\n"))
    assert "optimizer = rt.scale_learning_rate(Own(model.parameters(), lr=0.1))\n" in converted(before, LINEAR)


def test_left_alone() -> None:
    skipped = OPTIMIZER.replace("\n", "  # distify: skip\n")
    assert converted(script(optimizer=skipped), LINEAR) == linear(optimizer=skipped)


# ---- what counts steps

STEPS = """\
batches = iter(loader)
for step in range(100):
    try:
        x, y = next(batches)
    except StopIteration:
        batches = iter(loader)
        x, y = next(batches)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def per_batch(line: str) -> str:
    return f"{LOOP}        {line}\n"


@pytest.mark.parametrize(
    ("before", "part"),
    [
        pytest.param(script(loop=STEPS), "for step in range(100)", id="loop over steps"),
        pytest.param(
            script(loop="s = torch.optim.lr_scheduler.StepLR(optimizer, 100)\n" + per_batch("s.step()")),
            "StepLR", id="schedule of steps",
        ),
        pytest.param(
            script(loop="from monai.optimizers.lr_scheduler import LinearLR\ns = LinearLR(optimizer, 1.0, 100)\n"
                        + per_batch("s.step()")),
            "LinearLR(", id="schedule of steps of another library",
        ),
        pytest.param(
            script(loop="s = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(n / 50, 1))\n"
                   + per_batch("s.step()")),
            "LambdaLR", id="schedule by a function of steps",
        ),
        pytest.param(
            script(loop=per_batch('optimizer.param_groups[0]["lr"] *= 0.99')), "*= 0.99", id="rate set with each batch"
        ),
        pytest.param(
            script(loop=LOOP.replace("for epoch in range(3)", "epoch = 0\nwhile loss_is_high()").replace(
                "    for", "    epoch += 1\n    for"),
                setup="import random\ndef loss_is_high():\n    return random.random() > 0.1\n"),
            "while loss_is_high", id="no length",
        ),
    ],
)  # fmt: skip
def test_left_to_a_person(before: str, part: str) -> None:
    assert (CODE, line_of(before, part)) in blocked(before)
    assert (CODE, line_of(before, part)) not in blocked(before, Options())


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(
            "s = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, epochs=3, steps_per_epoch=len(loader))\n"
            + per_batch("s.step()"),
            id="len(loader)",
        ),
        pytest.param(
            "total = 3 * len(loader)\n"
            "s = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 - n / total)\n" + per_batch("s.step()"),
            id="len(loader) in a function",
        ),
        pytest.param(
            f"s = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n{LOOP}    s.step()\n", id="schedule of epochs"
        ),
        pytest.param(
            LOOP.replace("    for x", "    optimizer.param_groups[0]['lr'] = 0.1 / (epoch + 1)\n    for x"),
            id="rate set in each epoch",
        ),
    ],
)
def test_schedules_that_follow(loop: str) -> None:
    assert blocked(script(loop=loop)) == set()
    assert "rt.warm_up(range(3), epochs=5)" in converted(script(loop=loop), LINEAR)


# ---- the warm-up's loop


def test_numbered_epochs() -> None:
    loop = LOOP.replace("for epoch in range(3)", "for number, epoch in enumerate(range(3))")
    assert "for number, epoch in enumerate(rt.warm_up(range(3), epochs=5)):" in converted(script(loop=loop), LINEAR)


def test_folds() -> None:
    """Each fold has an optimizer of its own, and warms up anew."""
    inner = "".join(f"    {line}\n" for line in (MODEL + OPTIMIZER + LOOP).splitlines())
    after = converted(script(model="", optimizer="", loop=f"for fold in range(4):\n{inner}"), LINEAR)
    assert "for fold in range(4):" in after
    assert "    for epoch in rt.warm_up(range(3), epochs=5):" in after


def test_several_losses_in_one_run() -> None:
    """The outermost loop that the optimizer lives through, not the one around the batches."""
    loop = "for stage in range(2):\n" + "".join(f"    {line}\n" for line in LOOP.splitlines())
    after = converted(script(loop=loop), LINEAR)
    assert "for stage in rt.warm_up(range(2), epochs=5):" in after
    assert after.count("rt.warm_up") == 1


def test_single_epoch() -> None:
    loop = "".join(line[4:] + "\n" for line in LOOP.splitlines()[1:])
    assert "for x, y in rt.warm_up(loader, epochs=5, by_step=True):" in converted(script(loop=loop), LINEAR)


# ---- each rank's batch is that of one process


@pytest.mark.parametrize(
    "loss",
    [
        "nn.functional.mse_loss(model(x), y, reduction='sum')",
        "(model(x) - y).std()",
        "nn.functional.cross_entropy(model(x), y.long().view(-1), ignore_index=0)",
    ],
)
def test_losses_stay_as_they_are(loss: str) -> None:
    """Averaged over ranks are the gradients of whole batches, whatever a loss says about its batch."""
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", loss)
    expected = WARM.replace("nn.functional.mse_loss(model(x), y)", loss)
    assert converted(script(loop=loop), LINEAR) == linear(loop=expected)


def test_batch_norm_keeps_its_own_batch() -> None:
    model = "model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))\n"
    assert converted(script(model=model), LINEAR) == linear(
        model=model, wrap=f"{WRAP}rt.average_running_statistics(model)\n"
    )


def test_tensors_of_the_batch_size() -> None:
    loader = "loader = DataLoader(data, batch_size=size, shuffle=True, drop_last=True)\n"
    loop = LOOP.replace("        loss", "        y = torch.ones(size, 1)\n        loss", 1)
    after = converted(script(setup="size = 8\n", loader=loader, loop=loop), LINEAR)
    assert "size = 8\n" in after
    assert "per_rank_batch_size" not in after


@pytest.mark.parametrize(
    "line", ["steps = 64 // size", "print(64 / size)", "total = sum(loss.item() * size for _ in x)"]
)
def test_reckoned_with(line: str) -> None:
    loader = "loader = DataLoader(data, batch_size=size, shuffle=True)\n"
    before = script(setup="size = 8\n", loader=loader, loop=per_batch(line))
    assert ("BATCH01", line_of(before, line)) in blocked(before)
    assert ("BATCH01", line_of(before, line)) in blocked(before, NONE)


def test_rate_by_the_batch_size() -> None:
    """It stays that of one process's batch, and grows with the ranks."""
    loader = "loader = DataLoader(data, batch_size=size, shuffle=True)\n"
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * size / 256)\n"
    assert blocked(script(setup="size = 8\n", loader=loader, optimizer=optimizer)) == set()


CUT = """\
for epoch in range(3):
    order = torch.randperm(64)
    for start in range(0, 64, 8):
        rows = order[start:start + 8]
        loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("options", [LINEAR, NONE])
def test_batches_cut_by_hand(options: Options) -> None:
    data = "inputs, targets = torch.randn(64, 4), torch.randn(64, 1)\n"
    before = script(data=data, loader="", loop=CUT)
    assert ("DATA04", line_of(before, "rows = order")) in blocked(before, options)


def test_updates_by_hand() -> None:
    loop = LOOP.replace("        optimizer.zero_grad()\n", "").replace(
        "optimizer.step()",
        "for p in model.parameters():\n            p.data -= 0.1 * p.grad\n            p.grad = None",
    )
    before = script(optimizer="", loop=loop)
    assert (CODE, line_of(before, "p.data -= ")) in blocked(before)


def test_parts_stand_where_they_should() -> None:
    assert KEPT_GROUP != GROUP
    assert converted(script(), LINEAR).index(SCALED) < converted(script(), LINEAR).index(APART)
