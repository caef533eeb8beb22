"""Ways that each rank takes by its own samples, and what is there once for all samples: each rank would have others."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, conversion_of, script

MORE = f"import argparse\nimport io\nimport os\nimport sys\nfrom dataclasses import dataclass\n{IMPORTS}"


def _converted(turn: str, setup: str = "", end: str = "", imports: str = MORE) -> tuple[Strategy | None, str, str]:
    lines = "".join(f"        {line}\n" for line in turn.splitlines())
    loop = f"""\
{setup}for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
{lines}        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{end}"""
    conversion = conversion_of(script(imports=imports, loop=loop), options=Options())
    said = " ".join(one.message for one in conversion.of(Level.ADVICE))
    return conversion.strategy, conversion.files[0].after.decode(), said


# ---- what decides upon a loss


def test_a_name_that_an_inner_loop_leaves_by_a_figure() -> None:
    turn = """\
for t in (0.5, 1.0, 2.0):
    if nn.functional.mse_loss(out.detach() / t, y).item() < 1:
        break
loss = nn.functional.mse_loss(out / t, y)"""
    _, text, _ = _converted(turn)
    assert "if rt.all_reduce_mean(nn.functional.mse_loss(out.detach() / t, y).item()) < 1:" in text


def test_a_name_that_nothing_reads_behind_the_inner_loop() -> None:
    turn = "for t in (0.5, 1.0, 2.0):\n    if nn.functional.mse_loss(out.detach() / t, y).item() < 1:\n        break"
    assert "all_reduce_mean" not in _converted(turn)[1]


def test_terms_that_are_left_out_by_figures() -> None:
    turn = "parts = [loss, out.pow(2).mean()]\nloss = sum([p for p in parts if p.item() > 0.4])"
    assert "for p in parts if rt.all_reduce_mean(p.item()) > 0.4])" in _converted(turn)[1]


@pytest.mark.parametrize(
    "loop", ["any(one > 2 for one in y[:, 0].tolist())", "all(one < 2 for one in y[:, 0].tolist())"]
)
def test_whether_any_sample_is_so_is_asked_of_the_whole_batch(loop: str) -> None:
    strategy, text, _ = _converted(f"if {loop}:\n    loss = loss * 0.2")
    assert strategy is Strategy.SHARED or "y, out = rt.gather_samples(y, out)" in text


def test_one_of_several_terms_by_their_figures() -> None:
    turn = "parts = [loss, out.abs().mean()]\nloss = parts[int(loss.item() < out.abs().mean().item())]"
    assert _converted(turn)[0] is Strategy.SHARED


@pytest.mark.parametrize(
    ("loss", "written"),
    [
        ("loss + 0.3 * (loss.item() > 0.9) * out.pow(2).mean()", "(rt.mean_over_ranks(loss.item()) > 0.9)"),
        ("torch.where(loss > 0.9, 2 * loss, loss)", "rt.mean_over_ranks(loss) > 0.9"),
    ],
)
def test_of_a_verdict_that_a_loss_is_made_of_the_figure_is_averaged(loss: str, written: str) -> None:
    """Of verdicts there is no mean: the run would end in an error."""
    assert written in _converted(f"loss = {loss}")[1]


# ---- what is kept and shown


def test_what_is_kept_behind_a_continue_by_a_rank_s_own_samples() -> None:
    turn = """\
for k in range(3):
    m = y[:, 0].long() == k
    if not m.any():
        continue
    per[k] += (out[m] > 0).sum().item()"""
    assert _converted(turn, "per = [0, 0, 0]\n", "print(per)\n")[0] is Strategy.SHARED


@pytest.mark.parametrize("taken", ["kept.pop()", "kept.clear()"])
def test_what_is_taken_out_of_a_list_by_a_figure(taken: str) -> None:
    turn = f"kept.append(i)\nif loss.item() < 1:\n    {taken}"
    assert "if rt.all_reduce_mean(loss.item()) < 1:" in _converted(turn, "kept = [1]\n", "print(kept)\n")[1]


@pytest.mark.parametrize("many", ["len({*y[:, 0].tolist()})", "len(set(y[:, 0].tolist()))"])
def test_how_many_different_ones_there_are_does_not_add_up(many: str) -> None:
    strategy, text, _ = _converted(f"print({many})")
    assert strategy is Strategy.SHARED
    assert "all_reduce" not in text


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("kept.write(f'{loss.item():.3f}')", "kept.write(f'{rt.all_reduce_mean(loss.item()):.3f}')"),
        ("os.write(1, f'{loss.item():.3f}'.encode())", "(1, f'{rt.all_reduce_mean(loss.item()):.3f}'.encode())"),
        ("sys.__stdout__.write(f'{loss.item()}')", "(sys.__stdout__.write)(f'{rt.all_reduce_mean(loss.item())}')"),
    ],
)
def test_texts_that_are_written_otherwise(line: str, written: str) -> None:
    assert written in _converted(line, "kept = io.StringIO()\n", "print(kept.getvalue())\n")[1]


def test_a_text_that_tells_the_name_of_its_figure_keeps_it() -> None:
    strategy, text, _ = _converted("value = loss.item()\nprint(f'{value=:.3f}')")
    assert strategy is Strategy.SHARED
    assert "{value=:.3f}" in text


# ---- options


OPTIONS = """\
@dataclass
class Options:
    hard: bool = False
    rate: float = 0.1


parser = argparse.ArgumentParser()
for name, value in vars(Options()).items():
    parser.add_argument("--" + name, type=type(value), default=value)
options = Options(**{})
"""


@pytest.mark.parametrize("given", ["vars(parser.parse_args())", "json.load(open('options.json'))"])
def test_a_record_that_is_filled_from_outside_is_not_its_defaults(given: str) -> None:
    """What its defaults turn off may be turned on."""
    turn = """\
each = nn.functional.mse_loss(out, y, reduction='none')
loss = each.flatten().topk(2).values.mean() if options.hard else each.mean()"""
    strategy, text, said = _converted(turn, OPTIONS.format(given), imports=f"import json\n{MORE}")
    assert strategy is Strategy.SHARED or "rt.gather_samples(" in text
    assert "is decided by a constant" not in said


def test_a_record_of_its_defaults_is() -> None:
    turn = """\
each = nn.functional.mse_loss(out, y, reduction='none')
loss = each.flatten().topk(2).values.mean() if options.hard else each.mean()"""
    made = OPTIONS.replace("Options(**{})", "Options()").replace("parser = argparse", "parser = argparse")
    strategy, text, _ = _converted(turn, made)
    assert strategy is Strategy.SHARDED
    assert "rt.gather_samples(" not in text
