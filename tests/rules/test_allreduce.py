"""`--backend allreduce`: exact text of what is written where no model is wrapped."""

from __future__ import annotations

from distify_codemods import Level, Options, Outcome, SourceFile, convert

from tests.rules.scripts import LOOP, RUNTIME, distributed, script

BROADCAST = "rt.broadcast_parameters(model)\n"
AVERAGED = """\
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        rt.all_reduce_gradients(optimizer)
        optimizer.step()
"""
MODEL = "model = nn.Linear(4, 1)\n"


def converted(source: str) -> str:
    """With what any conversion has: it compiles, and a second one changes nothing."""
    options = Options(backend="allreduce")
    conversion = convert(SourceFile("train.py", source.encode()), lambda *_: None, options)
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    text = conversion.files[0].after.decode()
    compile(text, "train.py", "exec")
    again = convert(SourceFile("train.py", text.encode()), lambda *_: None, options)
    assert again.outcome is Outcome.ALREADY_CONVERTED
    return text


def test_weights_are_sent_once_and_gradients_averaged_before_the_step() -> None:
    wanted = distributed(ours=RUNTIME, wrap=BROADCAST, loop=AVERAGED)
    assert converted(script()) == wanted


def test_clipping_and_saving_see_the_model_as_it_is() -> None:
    clip = "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        optimizer.step()\n"
    loop = LOOP.replace("        optimizer.step()\n", clip)
    text = converted(script(loop=loop, after='torch.save(model.state_dict(), "net.pt")\n'))
    assert "        rt.all_reduce_gradients(optimizer)\n" + clip in text
    assert 'if rt.is_main_process():\n    torch.save(model.state_dict(), "net.pt")\n' in text
    assert ".module" not in text


def test_accumulated_gradients_are_averaged_when_a_step_is_due() -> None:
    loop = """\
for epoch in range(3):
    for turn, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y) / 2
        loss.backward()
        if turn % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
"""
    text = converted(script(loop=loop))
    due = "        if turn % 2 == 1:\n            rt.all_reduce_gradients(optimizer)\n            optimizer.step()\n"
    assert due in text
    assert "require_backward_grad_sync" not in text


def test_nn_data_parallel_goes() -> None:
    text = converted(script(model="model = nn.DataParallel(nn.Linear(4, 1))\n"))
    assert "DataParallel" not in text
    assert BROADCAST in text


def test_an_optimizer_that_another_one_replaces_needs_no_line() -> None:
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text = converted(script(optimizer=optimizer + "optimizer = torch.optim.Adam(model.parameters())\n"))
    assert text.count("all_reduce_gradients") == 1


def test_nothing_is_said_to_be_slower() -> None:
    conversion = convert(SourceFile("train.py", script().encode()), lambda *_: None, Options(backend="allreduce"))
    said = [one for one in conversion.findings if one.code in ("GRAD01", "MODEL01")]
    assert {one.level for one in said} == {Level.APPLIED, Level.NOT_NEEDED}
    assert not any("DistributedDataParallel" in one.message for one in said)
