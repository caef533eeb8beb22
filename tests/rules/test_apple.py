"""DEVICE01: Apple's GPU, which a script's one process can train on, and ranks cannot."""

from __future__ import annotations

import pytest

from tests.rules.scripts import DATA, IMPORTS, LOOP, MODEL, blocked, changes, converted, line_of, script

MOVES = f"{MODEL}model = model.to(device)\n"
MPS, HELD = "torch.backends.mps.is_available()", "rt.without_mps(torch.backends.mps.is_available())"
BRANCHES = f"""\
if torch.cuda.is_available():
    device = torch.device("cuda")
elif {MPS}:
    device = torch.device("mps")
else:
    device = torch.device("cpu")
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'device = torch.device("mps" if {MPS} else "cpu")\n', f'device = torch.device("mps" if {HELD} else "cpu")\n'),
        (f'device = "cuda" if torch.cuda.is_available() else "mps" if {MPS} else "cpu"\n',
         f'device = "cuda" if torch.cuda.is_available() else "mps" if {HELD} else "cpu"\n'),
        (BRANCHES, BRANCHES.replace(MPS, HELD)),
        (f"can = input() and {MPS}\ndevice = 'mps' if can else 'cpu'\n", f"{HELD}\ndevice = 'mps' if can else 'cpu'\n"),
        (f"device = torch.device('cpu')\nif torch.backends.mps.is_built() and {MPS}:\n    device = 'mps'\n",
         f"if rt.without_mps(torch.backends.mps.is_built()) and {HELD}:\n    device = 'mps'\n"),
        ("device = torch.accelerator.current_accelerator()\n",
         "device = rt.without_mps(torch.accelerator.current_accelerator())\n"),
        ('device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"\n',
         "device = rt.without_mps(torch.accelerator.current_accelerator()).type if "
         'rt.without_mps(torch.accelerator.is_available()) else "cpu"\n'),
    ],
)  # fmt: skip
def test_ranks_find_none(before: str, after: str) -> None:
    assert after in converted(script(setup=before, model=MOVES))


@pytest.mark.parametrize(
    "setup",
    [
        "device = 'cpu'\nif len(data) > 9:\n    device = TEXT\n",
        "device = 'cpu' if len(data) > 9 else TEXT\n",
        "device = torch.device('cpu')\nif len(data) > 9:\n    device = torch.device(TEXT)\n",
        f"device = 'cpu'\nif {MPS}:\n    device = 'mps'\nif len(data) > 9:\n    device = TEXT\n",
    ],
)
def test_a_test_of_the_scripts_own(setup: str) -> None:
    new = converted(script(setup=f"{DATA}{setup}".replace("TEXT", "'mps:0'"), model=MOVES))
    assert setup.replace("TEXT", "rt.without_mps('mps:0')").replace(MPS, HELD) in new


def test_by_any_name() -> None:
    imports = f"{IMPORTS}from torch.backends import mps\n"
    new = converted(script(imports=imports, setup='device = "mps" if mps.is_available() else "cpu"\n', model=MOVES))
    assert 'device = "mps" if rt.without_mps(mps.is_available()) else "cpu"\n' in new


NAMED = [
    ('device = torch.device("mps")\n', MOVES),
    ('device = "mps:0"\n', MOVES),
    ("", f'{MODEL}model.to("mps")\n'),
    ("", f'{MODEL}model.to(device="mps")\n'),
    ('scale = torch.ones(1, device="mps")\n', MODEL),
]


@pytest.mark.parametrize(("setup", "model"), NAMED)
def test_put_there_for_certain(setup: str, model: str) -> None:
    """Ranks that are on no Mac train on the devices that they have."""
    after = converted(script(setup=setup, model=model))
    for text in ('"mps"', '"mps:0"'):
        assert after.count(text) == after.count(f"rt.without_mps({text})") == (setup + model).count(text)


def test_put_there_by_a_number() -> None:
    setup = 'device = torch.device("mps", 0)\n'
    given = script(setup=setup, model=MOVES)
    assert blocked(given) == {("DEVICE01", line_of(given, setup.rstrip()))}


@pytest.mark.parametrize(
    "setup",
    [
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n',
        'device = torch.device("cpu")\nif device.type == "mps":\n    print("a Mac")\n',
        'device = "cpu"\nnames = ["cuda", "mps", "cpu"]\n',
        "device = 'cpu'\nfound = torch.cuda.is_available()\n",
    ],
)
def test_nothing_to_do_with_a_mac(setup: str) -> None:
    given = script(setup=setup, model=MOVES, loop=LOOP)
    assert changes("DEVICE01", given) == []
    assert blocked(given) == set()
    assert "without_mps" not in converted(given)
