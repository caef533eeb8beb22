"""EVAL01: what is gathered in an evaluation has a row for each sample, or several that stand together; or it is not."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import LOADER, converted, findings, script

FRAMES = "data = TensorDataset(torch.randn(64, 2, 4), torch.randn(64, 2, 1))\n"
OTHER = "other = DataLoader(data, batch_size=16)\n"
GATHERS = "rt.gather_batch(other, {}"
WHOLE = "every rank evaluates everything, which is right but no faster: "


def evaluating(*lines: str) -> str:
    """A script whose evaluation does this with a batch; the mean of its losses is no sum."""
    body = "".join(f"        {line}\n" for line in lines)
    after = f"model.eval()\ntotal = 0.0\nwith torch.no_grad():\n    for x, y in other:\n{body}print(total)\n"
    return script(data=FRAMES, loader=LOADER + OTHER, after=after)


LOSS = "total += nn.functional.mse_loss({}).item()"


@pytest.mark.parametrize(
    ("fold", "again"),
    [
        ("flat = x.reshape(x.shape[0] * x.shape[1], 4)", "guess, y.flatten(0, 1)"),
        ("flat = x.view(-1, 4)", "guess, y.view(-1, 1)"),
        ("flat = x.flatten(0, 1)", "guess, y.flatten(0, 1)"),
        ("flat = torch.flatten(x, 0, 1)", "guess, y.flatten(0, 1)"),
        ("b, t, c = x.shape; flat = x.reshape(b * t, c)", "guess, flat[:, :1]"),
    ],
)
def test_rows_of_a_sample_stand_together(fold: str, again: str) -> None:
    after = converted(evaluating(fold, "guess = model(flat)", LOSS.format(again)))
    (line,) = [one.strip() for one in after.splitlines() if "gather_batch" in one]
    assert line.endswith(", several_rows=True)")


@pytest.mark.parametrize(
    "lines",
    [
        ("guess = model(x)", LOSS.format("guess, y")),
        ("flat = x.view(x.size(0), 2, 4)", "guess = model(flat)", LOSS.format("guess, y")),
        ("flat = x.flatten(1)[:, :4]", "guess = model(flat)", LOSS.format("guess, y[:, 0]")),
    ],
)
def test_one_row_for_each_sample(lines: tuple[str, ...]) -> None:
    after = converted(evaluating(*lines))
    assert GATHERS.format("")[:-2] in after
    assert "several_rows" not in after


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (("t = x.view(-1,2,2).transpose(0, 1).reshape(-1, 4)", "guess = model(t)", LOSS.format("guess, t[:, 0]")), "t"),
        (("both = torch.cat([x, x])", "guess = model(both)", LOSS.format("guess, both[..., :1]")), "both"),
        (("turned = x.transpose(0, 1)", "guess = model(turned)", LOSS.format("guess, turned[..., :1]")), "turned"),
    ],
)  # fmt: skip
def test_what_does_not_make_up_the_batch_is_evaluated_whole(lines: tuple[str, ...], name: str) -> None:
    before = evaluating(*lines)
    assert "gather_batch" not in converted(before)
    (said,) = findings("EVAL01", before, Level.ADVICE)
    assert said.message.startswith(WHOLE)
    assert f"the rows of `{name}` are not seen to be those of one sample after the other" in said.message
