"""What is seen of a branch that a rank takes by its own samples: a line, a count, what is kept, what is chosen."""

from __future__ import annotations

import pytest
from distify_codemods import Options
from distify_codemods.results import Strategy

from tests.rules.scripts import LOOP, conversion_of, converted, indented, script

ACCURACY = "right = (model(x).detach() > 0) == (y > 0)\n"
AUTO = Options()
METER = """\
class Meter:
    def __init__(self):
        self.last = 0


meter = Meter()
"""


def _with(lines: str, after: str = "    print(seen)\n") -> str:
    step = "        optimizer.step()\n"
    loop = LOOP.replace(step, step + indented(ACCURACY + lines, " " * 8)) + after
    return script(setup=f"{METER}seen, kept, total, following = 0, [], 0, 50\n", loop=loop)


@pytest.mark.parametrize(
    "lines",
    [
        "if right.float().mean().item() == 1.0: seen += 1\n",
        "if (~right).sum() > 3: seen += 1\n",
        "wrong = (~right).sum().item()\nif wrong == 0: seen += 1\n",
        "for one in right:\n    if one: seen += 1\n",
        "if len(x) < 8: print('the last one')\n",
        "word = 'known' if len(x) in kept else 'new'\nkept.append(len(x))\nprint(word)\n",
        "total += len(x)\nif total % 32 == 0: print('after', total, loss.item())\n",
        "total += len(x)\nif total >= following:\n    print(loss.item())\n    following += 50\n",
    ],
)
def test_forward_passes_are_shared_where_it_is_no_mean(lines: str) -> None:
    """Of half a batch nobody can say how many of the batch were right."""
    conversion = conversion_of(_with(lines), options=AUTO)
    assert conversion.strategy is Strategy.SHARED


@pytest.mark.parametrize(
    "lines",
    [
        "if right.all(): seen += 1\n",
        "if (y > 2).any(): seen += 1\n",
        "seen = max(seen, 1 if right.all() else 0)\n",
        "if right.all(): kept.append(epoch)\n",
        "if (y > 2).any(): print('far', epoch)\n",
        "print(epoch, 'good' if right.all() else 'bad')\n",
        "word = 'good' if right.all() else 'bad'\nprint(epoch, word)\n",
        "if right.all(): meter.last = epoch\n",
    ],
)
def test_all_ranks_ask_for_all_samples(lines: str) -> None:
    after = lines.replace("right.all()", "rt.all_ranks(right.all())").replace(
        "(y > 2).any()", "rt.any_rank((y > 2).any())"
    )
    assert indented(after, " " * 8) in converted(_with(lines), AUTO)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("if loss.item() > 2: seen += 1\n", "if rt.all_reduce_mean(loss.item()) > 2: seen += 1\n"),
        ("if loss.item() > 2: print(epoch)\n", "if rt.all_reduce_mean(loss.item()) > 2: print(epoch)\n"),
        ("if loss.item() > 2: kept.append(epoch)\n", "if rt.all_reduce_mean(loss.item()) > 2: kept.append(epoch)\n"),
        (
            "word = 'high' if loss.item() > 2 else 'low'\nprint(word)\n",
            "word = 'high' if rt.all_reduce_mean(loss.item()) > 2 else 'low'\n",
        ),
    ],
)
def test_all_ranks_take_the_same_way_by_a_mean(lines: str, after: str) -> None:
    assert indented(after, " " * 8) in converted(_with(lines), AUTO)


@pytest.mark.parametrize(
    "lines",
    [
        "total += len(x)\nif total > 0: print('some')\n",
        "if x.dim() == 2: seen += 1\n",
        "if epoch % 2 == 0: print(loss.item())\n",
        "if right.all(): extra = 1\n",
    ],
)
def test_data_stays_sharded_where_all_ranks_go_one_way_or_nothing_is_seen(lines: str) -> None:
    assert conversion_of(_with(lines), options=AUTO).strategy is Strategy.SHARDED


@pytest.mark.parametrize(
    "lines",
    [
        "print(sum(1 if q > 0.6 else 0 for q in (loss.item(), right.float().mean().item())))\n",
        "print({k: 'high' if v > 0.6 else 'low' for k, v in {'loss': loss.item()}.items()})\n",
    ],
)
def test_what_is_asked_of_each_entry_is_no_place_to_meet(lines: str) -> None:
    after = converted(_with(lines), AUTO)
    compile(after, "train.py", "exec")
    assert "rt.data_parallel(model)" in after


@pytest.mark.parametrize("test", ["x.device.type == 'cuda'", "isinstance(x, torch.Tensor)", "hasattr(x, 'shape')"])
def test_what_kind_of_thing_a_batch_is_is_the_same_of_a_share(test: str) -> None:
    assert conversion_of(_with(f"if {test}: seen += 1\n"), options=AUTO).strategy is Strategy.SHARDED
