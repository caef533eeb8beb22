"""What goes under a guard must take nothing away from the ranks that leave it out."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, converted, distributed, indented, script

TOOLS = f"import json\nimport os\nimport numpy as np\nimport shutil\n{IMPORTS}"
OPEN = 'with open("a", "w") as f:\n'
ON_MAIN = "if rt.is_main_process():\n"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(OPEN + '    total = 1\n    f.write(str(total))\nprint(total)\n', id="name read later"),
        pytest.param(OPEN + '    state.done = True\n    f.write("x")\n', id="attribute"),
        pytest.param(OPEN + '    table["n"] = 1\n    f.write("x")\n', id="item"),
        pytest.param(OPEN + '    count += 1\n    f.write(str(count))\nprint(count)\n', id="augmented"),
        pytest.param(OPEN + '    losses.append(2)\n    f.write("x")\n', id="list"),
        pytest.param('other = DataLoader(data, batch_size=4)\nwith open("a", "w") as f:\n    for x, y in other:\n'
                     '        f.write(str(y))\n', id="batches"),
        pytest.param(OPEN + '    f.write(str(torch.rand(1)))\n', id="random numbers"),
        pytest.param(OPEN + '    f.write(next(names))\n', id="iterator"),
        pytest.param(OPEN + '    f.write(change())\n', id="function that changes something"),
        pytest.param('def g():\n    with open("a", "w") as f:\n        f.write("x")\n        return 1\n\n\ng()\n',
                     id="return"),
        pytest.param('for i in range(2):\n    with open("a", "w") as f:\n        f.write("x")\n        break\n',
                     id="break"),
    ],
)  # fmt: skip
def test_all_ranks_run_what_changes_something(block: str) -> None:
    setup = (
        "class State:\n    done = False\n\n\nstate, table, losses, names, count = State(), {}, [1], iter('ab'), 0\n\n\n"
        "def change():\n    table['n'] = 2\n    return 'x'\n\n\n"
    )
    new = converted(script(imports=TOOLS, setup=setup, after=block))
    after = block.replace("open(", "rt.main_process_open(")
    assert new.endswith(after)
    assert ON_MAIN not in new


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(OPEN + '    f.write("x")\n', id="alone"),
        pytest.param('with open("a", "w") as f, open("b", "w") as g:\n    f.write("x")\n    g.write("y")\n',
                     id="two files"),
        pytest.param(OPEN + '    for name in ["a"]:\n        f.write(name)\n', id="loop"),
        pytest.param(OPEN + '    if losses:\n        f.write("x")\n    else:\n        f.write("y")\n', id="branch"),
        pytest.param(OPEN + '    json.dump({k: v.tolist() for k, v in table.items()}, f)\n', id="comprehension"),
        pytest.param(OPEN + '    f.write(path_of("x"))\n', id="function that only computes"),
        pytest.param(OPEN + '    f.write("{:.3f} {}".format(losses[0], len(losses)))\n', id="format"),
        pytest.param('np.save(path_of("a"), np.array(losses).mean())\n', id="numpy"),
        pytest.param('if not os.path.exists("a"):\n    np.save("a", [1])\n    print("saved")\n', id="test of the file"),
        pytest.param('torch.save({"model": [p.cpu() for p in losses]}, os.path.join("d", "m.pt"))\n', id="save"),
    ],
)  # fmt: skip
def test_one_guard_around_what_only_writes(block: str) -> None:
    setup = "table, losses = {}, [1]\n\n\ndef path_of(name):\n    return os.path.join('d', name)\n\n\n"
    imports = TOOLS
    prints = "print(" in block
    expected = distributed(imports=imports, setup=setup, after=ON_MAIN + indented(block), prints=prints)
    assert converted(script(imports=imports, setup=setup, after=block)) == expected


def test_numbers_that_were_drawn_before_are_only_written() -> None:
    drawn, block = "chosen = torch.rand(1)\n", OPEN + "    f.write(str(round(chosen.item(), 2)))\n"
    new = converted(script(imports=TOOLS, after=drawn + block))
    assert new.endswith(ON_MAIN + indented(block))


def test_names_bound_in_one_block_and_again_in_the_next() -> None:
    block = 'with open("{}", "w") as f:\n    text = "x"\n    f.write(text)\n'
    after = block.format("a") + "done = 1\n" + block.format("b")
    expected = ON_MAIN + indented(block.format("a")) + "done = 1\n" + ON_MAIN + indented(block.format("b"))
    assert converted(script(imports=TOOLS, after=after)) == distributed(imports=TOOLS, after=expected)


def test_name_from_the_block_in_the_next_turn() -> None:
    """The second turn of the loop reads what the first one has written."""
    after = 'last = ""\nfor i in range(2):\n    print(last)\n    with open("a", "w") as f:\n        last = "x"\n'
    after += "        f.write(last)\n"
    assert 'rt.main_process_open("a", "w")' in converted(script(imports=TOOLS, after=after))


@pytest.mark.parametrize(
    ("before", "after", "guarded"),
    [
        ("", "print([f for f in range(3)])\n", True),
        ("", "if losses:\n    f = 1\nelse:\n    f = 2\nprint(f)\n", True),
        ("", "try:\n    check()\nexcept OSError as f:\n    print(f)\n", True),
        ("def load():\n    for f in [1]:\n        print(f)\n\n\n", "load()\n", True),
        ("", "if losses:\n    f = 1\nprint(f)\n", False),
        ("", "del f\n", False),  # which must be there
        ("", "f = 1\ndel f\n", True),
        ("", "print(locals())\n", False),
        ("def load():\n    print(f)\n\n\n", "load()\n", False),
        ("load = lambda: f\n", "load()\n", False),
    ],
)
def test_names_that_other_ranks_do_not_have(before: str, after: str, guarded: bool) -> None:
    setup = f"from checks import check, losses\n\n\n{before}"
    new = converted(script(setup=setup, after=OPEN + '    f.write("x")\n' + after))
    assert (ON_MAIN in new) is guarded
