"""`--backend horovod`: optimizers average by themselves, and what reads gradients before the step waits for them."""

from __future__ import annotations

import pytest
from distify_codemods import Level, OptionError, Options, Outcome

from tests.rules.scripts import (
    DATA,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    SHARDED,
    SHUFFLED,
    conversion_of,
    converted,
    script,
)  # fmt: skip

HOROVOD = Options(backend="horovod")
MADE = "optimizer = rt.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())\n"


def lines(before: str, options: Options = HOROVOD) -> list[str]:
    """Of the conversion, those that Horovod is concerned with."""
    words = (
        "Distributed",
        "synchronize",
        "all_reduce_gradients",
        "broadcast",
        "step()",
        ".step(",
        "backward()",
        "clip",
    )
    found = [line.strip() for line in converted(before, options).splitlines()]
    return [line for line in found if any(word in line for word in words)]


def test_a_plain_script() -> None:
    assert converted(script(), HOROVOD) == (
        f"{IMPORTS}import distify_runtime as rt\nimport horovod.torch as hvd\n\n"
        f"hvd.init()\nrt.init_process_group()\n{DATA}{SHARDED}{MODEL}rt.broadcast_parameters(model)\n"
        f"{OPTIMIZER}{MADE}rt.seed_ranks_apart()\n{SHUFFLED}"
    )


def test_a_name_that_the_script_has_taken() -> None:
    after = converted(script(setup="hvd = 1\n"), HOROVOD)
    assert "import horovod.torch as hvd_2\n" in after
    assert "hvd_2.init()\n" in after


def test_what_reads_gradients_waits_for_them() -> None:
    reading = """\
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
    loop = LOOP.replace("        loss.backward()\n        optimizer.step()\n", reading)
    found = lines(script(optimizer=f"{OPTIMIZER}scaler = torch.amp.GradScaler()\n", loop=loop))
    assert found[2:] == [
        "scaler.scale(loss).backward()",
        "optimizer.synchronize()",
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "scaler.step(optimizer)",
    ]


def test_accumulation_tells_how_many_backward_passes_a_step_follows() -> None:
    loop = """\
for epoch in range(3):
    for turn, (x, y) in enumerate(loader, 1):
        loss = nn.functional.mse_loss(model(x), y) / passes
        loss.backward()
        if turn % passes == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
    assert lines(script(setup="passes = 4\n", loop=loop)) == [
        "rt.broadcast_parameters(model)",
        "optimizer = rt.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), "
        "backward_passes_per_step=passes)",
        "loss.backward()",
        "optimizer.step()",
    ]


def test_one_of_two_optimizers_is_made() -> None:
    both = """\
if torch.cuda.is_available():
    optimizer = torch.optim.Adam(model.parameters())
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    assert lines(script(optimizer=both)).count(MADE.strip()) == 2


def test_two_models_of_one_optimizer_have_no_one_name() -> None:
    model = "first = nn.Linear(4, 2)\nlast = nn.Linear(2, 1)\n"
    optimizer = "optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)\n"
    found = lines(script(model=model, optimizer=optimizer, loop=LOOP.replace("model(x)", "last(first(x))")))
    assert "optimizer = rt.DistributedOptimizer(optimizer)" in found


def test_an_optimizer_that_a_function_returns() -> None:
    setup = "def make(model):\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n"
    assert lines(script(setup=setup, optimizer="optimizer = make(model)\n"))[0] == (
        "return rt.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), "
        "named_parameters=model.named_parameters())"
    )


@pytest.mark.parametrize(
    ("optimizer", "loop"),
    [
        (OPTIMIZER + "other = torch.optim.Adam(model.parameters())\n", LOOP + "        other.step()\n"),
        (OPTIMIZER, LOOP.replace("backward()", "backward(create_graph=True)")),
        ("class Own(torch.optim.SGD):\n    pass\noptimizer = Own(model.parameters(), lr=0.1)\n", LOOP),
    ],
    ids=["shared", "a graph of gradients", "a class of the script"],
)
def test_gradients_that_are_not_an_optimizers_alone_are_averaged_by_a_line(optimizer: str, loop: str) -> None:
    found = lines(script(optimizer=optimizer, loop=loop))
    assert not any("rt.DistributedOptimizer" in line for line in found)
    assert any(line.startswith("rt.all_reduce_gradients(") for line in found)


def test_a_closure_averages_in_it() -> None:
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
    found = lines(script(optimizer="optimizer = torch.optim.LBFGS(model.parameters())\n", loop=loop))
    assert not any("rt.DistributedOptimizer" in line for line in found)


def test_state_is_sent_after_a_resume() -> None:
    resume = "import os\nif os.path.exists('last.pt'):\n    optimizer.load_state_dict(torch.load('last.pt'))\n"
    after = converted(script(optimizer=OPTIMIZER + resume), HOROVOD)
    assert "    rt.broadcast_optimizer_state(optimizer)\n" in after


def test_options() -> None:
    options = Options(backend="horovod", compression="fp16", op="adasum")
    assert f'{MADE[:-2]}, compression="fp16", op="adasum")' in lines(script(), options)
    with pytest.raises(OptionError, match="ddp sends gradients as they are"):
        conversion_of(script(), options=Options(compression="fp16"))


def test_adasum_needs_an_optimizer_of_horovods() -> None:
    both = OPTIMIZER + "other = torch.optim.Adam(model.parameters())\n"
    before = script(optimizer=both, loop=LOOP + "        other.step()\n")
    conversion = conversion_of(before, options=Options(backend="horovod", op="adasum"))
    assert conversion.outcome is Outcome.REFUSED
    assert any("Adasum" in one.message for one in conversion.of(Level.BLOCKING))


def test_a_script_of_horovods_own_is_left_alone() -> None:
    before = script(imports=f"import horovod.torch as hvd\n{IMPORTS}", setup="hvd.init()\n", loader=LOADER)
    assert conversion_of(before, options=HOROVOD).outcome is Outcome.REFUSED
