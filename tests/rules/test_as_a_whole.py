"""PATH01: what a script keeps for later is made as a whole, where piece by piece a person would have to help."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import IMPORTS, conversion_of, converted, indented, script

LIBRARIES = """\
import json
import os
import random
import urllib.request
from pathlib import Path
import elsewhere
import numpy as np
"""
#: Whether what comes by `info` can be sent on is not known.
FETCH = """\
def fetch(url, folder):
    target = os.path.join(folder, "weights.bin")
    if os.path.isfile(target):
        return target
    with urllib.request.urlopen(url) as source, open(target, "wb") as output:
        size = int(source.info().get("Content-Length"))
        output.write(source.read(size))
    return target
"""
#: A file is read where writing it, in the same `try`, has failed.
SETTINGS = """\
def settings(name, anew=False):
    path = Path("kept") / f"{name}.json"
    if path.exists() and not anew:
        with open(path) as file:
            return json.load(file)
    try:
        found = {"rate": np.random.choice([0.1, 0.2])}
        path.write_text(json.dumps(found))
        return found
    except OSError as error:
        if path.exists():
            with open(path) as file:
                return json.load(file)
        raise RuntimeError("no settings") from error
"""
#: A file is opened to be read and written by every rank.
TABLE = """\
if not os.path.exists("table.npy"):
    table = np.memmap("table.npy", dtype="float32", mode="w+", shape=(64, 4))
    for i in range(64):
        table[i] = np.cos(np.arange(4) * i)
    table[:] = table[::-1]
    table.flush()
"""
READ = 'x = torch.from_numpy(np.array(np.memmap("table.npy", dtype="float32", mode="r", shape=(64, 4))))\n'
DATA = "data = TensorDataset(x, torch.randn(64, 1))\n"


def of(setup: str, data: str = "data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n") -> str:
    return script(imports=LIBRARIES + IMPORTS, setup=setup, data=data)


def said(before: str) -> list[str]:
    return [one.message for one in conversion_of(before).of(Level.APPLIED) if one.code == "PATH01"]


def test_rank_0_alone_calls_what_fetches_a_file_and_names_it() -> None:
    before = of(f"{FETCH}\n\npath = fetch('http://localhost/1/weights.bin', 'kept')\n")
    after = converted(before)
    assert "path = rt.call_on_main_process(fetch, 'http://localhost/1/weights.bin', 'kept')\n" in after
    assert FETCH in after
    assert said(before) == ["rank 0 alone calls `fetch`, all ranks take what it returns"]


def test_rank_0_alone_calls_what_reads_what_it_has_just_written() -> None:
    after = converted(of(f"{SETTINGS}\n\ntold = settings('net')\nprint(told['rate'])\n"))
    assert "told = rt.call_on_main_process(settings, 'net')\n" in after
    assert SETTINGS in after


#: The same, in a folder that is asked for; annotations are no use of anything.
PLACED = """\
def kept() -> Path:
    import tempfile
    return Path(os.environ.get("KEPT", tempfile.gettempdir())).expanduser()

""" + SETTINGS.replace("(name, anew=False)", "(name: str, anew: bool = False) -> dict").replace(
    'Path("kept")', "kept()"
)


def test_a_piece_may_ask_the_environment() -> None:
    after = converted(of(f"{PLACED}\n\ntold = settings('net')\nprint(told['rate'])\n"))
    assert "told = rt.call_on_main_process(settings, 'net')\n" in after
    assert PLACED in after


def test_ranks_come_one_after_the_other_where_a_file_is_made_that_is_not_there() -> None:
    before = of(TABLE + READ, DATA)
    assert f"with rt.main_process_first():\n{indented(TABLE)}" in converted(before)
    assert said(before) == ["rank 0 comes first, and makes the file as one process does"]


def test_also_in_a_method_and_with_what_is_made_by_threads() -> None:
    cached = f"""\
from concurrent.futures import ThreadPoolExecutor


def fill(i, rows):
    rows[i] = np.cos(np.arange(4) * i)


class Cache:
    def __init__(self):
        if not os.path.exists("table.npy"):
            table = np.memmap("table.npy", dtype="float32", mode="w+", shape=(64, 4))
            done = []
            with ThreadPoolExecutor(4) as pool:
                waiting = [pool.submit(fill, i, table) for i in range(64)]
                for one in waiting:
                    done.append(one.result())
            table[:] = table[::-1]
            table.flush()
        {READ.replace("x =", "self.x =")}

x = Cache().x
"""
    after = converted(of(cached, DATA))
    assert "        with rt.main_process_first():\n            if not os.path.exists(" in after
    assert after.count("rt.main_process_first") == 1
    assert "is_main_process" not in after


def test_it_waits_for_those_who_read_what_is_made_anew() -> None:
    before = of(f"{SETTINGS}\n\nprint(Path('kept/net.json').exists() and open('kept/net.json').read())\n"
                "told = settings('net')\n")  # fmt: skip
    assert "rt.barrier()\ntold = rt.call_on_main_process(settings, 'net')\n" in converted(before)


def test_a_claim_about_all_calls_names_what_is_not_looked_into() -> None:
    before = of(f"{SETTINGS}\n\ntold = settings('net')\n")
    assert (
        "nobody outside of the process is asked, and nothing is sent, but perhaps in what rank 0 goes through as a "
        "whole (PATH01)"
    ) in [one.message for one in conversion_of(before).of(Level.NOT_NEEDED)]


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(TABLE.replace('exists("table', 'exists("other') + READ, id="another file is asked for"),
        pytest.param("rows = []\n" + TABLE + "    rows.append(3)\n" + READ, id="a list from outside grows"),
        pytest.param("done = np.zeros(64)\n" + TABLE + "    done[0] = 1\n" + READ, id="numbers from outside change"),
        pytest.param(TABLE + "    kept = len(table)\n" + READ + "print(kept)\n", id="a name is read later"),
        pytest.param(TABLE + "    os.environ['TABLE'] = '1'\n" + READ, id="the environment changes"),
        pytest.param(TABLE + "    os.chdir('..')\n" + READ, id="the process goes elsewhere"),
        pytest.param("rows = [1]\n" + TABLE + "    rows += [3]\n" + READ + "print(rows)\n", id="a list is added to"),
        pytest.param("rows = [1, 2]\n" + TABLE + "    del rows[0]\n" + READ, id="something is taken out of a list"),
        pytest.param("rows = [1, 2]\n" + TABLE + "    random.shuffle(rows)\n" + READ, id="a list is shuffled"),
        pytest.param("rows = [1, 2]\n" + TABLE + "    elsewhere.put(rows)\n" + READ, id="who knows what is done to it"),
        pytest.param(f"try:\n{indented(TABLE)}except OSError:\n    print('none')\n{READ}", id="it may fail half done"),
        pytest.param(TABLE + "    torch.set_default_dtype(torch.float64)\n" + READ, id="torch is told something"),
    ],
)
def test_a_branch_that_leaves_something_behind_needs_a_person(setup: str) -> None:
    assert "this is opened to be read and written by every rank" in [
        one.message for one in conversion_of(of(setup, DATA)).of(Level.BLOCKING)
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    path =", "    global last\n    last = path =", id="a name of the module is bound"),
        pytest.param("    path =", "    random.shuffle(seen)\n    path =", id="a list of the module is shuffled"),
        pytest.param("    path =", "    seen.append(name)\n    path =", id="a list of the module grows"),
        pytest.param("    path =", "    settings.seen = True\n    path =", id="something is kept with the function"),
        pytest.param("return found", "return open(path)", id="what it returns is no data"),
        pytest.param("return found", "yield found", id="a generator"),
    ],
)
def test_a_call_that_leaves_something_behind_needs_a_person(old: str, new: str) -> None:
    before = of(f"last, seen = None, []\n\n\n{SETTINGS.replace(old, new)}\n\ntold = settings('net')\nprint(told)\n")
    after = conversion_of(before)
    assert not any("call_on_main_process" in file.after.decode() for file in after.files)


#: What a function may do to what it was given, or to what it names, where nobody else sees it.
HIDDEN = {
    "numbers in place": ("x -= x.mean(0)", "np.random.rand(8, 4)"),
    "sorted in place": ("x.sort()", "np.random.rand(8)"),
    "a list below a dictionary": ("x['a']['b'] = 3", "json.load(open('settings.json'))"),
    "another's shuffle": ("random.Random(0).shuffle(x)", "[1, 2, 3]"),
    "a generator": ("torch.randperm(8, generator=x)", "torch.Generator()"),
    "an iterator": ("next(x)", "iter([1, 2, 3])"),
    "a view": ("np.asarray(x)[0] = 3", "np.random.rand(8)"),
    "into an output": ("np.clip(x, 0, 1, out=x)", "np.random.rand(8)"),
    "zeros": ("x.add_(1)", "torch.zeros(4)"),
    "the attributes of an object": ("x.__dict__.update(rate=1)", "argparse.Namespace(rate=0)"),
    "frozen": ("x.eval()", "nn.Dropout()"),
    "a helper of its own": ("add(x)", "[1]"),
    "in a row": ("[y.append(1) for y in x]", "[[1]]"),
    "each of them": ("for y in x: y.append(1)", "[[1]]"),
    "by another name": ("y = x; y.append(1)", "[1]"),
    "by one of two names": ("y = x if name else []; y.append(1)", "[1]"),
    "in a list of the same things": ("for y in list(x): y['a'] = 1", "json.load(open('settings.json'))"),
    "in order": ("sorted(x, key=str)[0].append(1)", "[[1], [2]]"),
    "in a longer list": ("y = x + [[]]; y[0].append(1)", "json.load(open('settings.json'))"),
    "in one more list": ("y = [x[0] for _ in name]; y[0].append(1)", "json.load(open('settings.json'))"),
    "in parts": ("y, z = x.split(2); y.add_(1)", "torch.randn(4)"),
    "by parts": ("x.partition(3)", "np.random.rand(8)"),
    "by an object": ("Adding(x)", "[1]"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_may_change_in_a_function_needs_a_person(name: str) -> None:
    line, given = HIDDEN[name]
    function = SETTINGS.replace("anew=False", "x").replace(" and not anew", "")
    function = function.replace("    path =", f"    {line}\n    path =")
    helper = "import argparse\n\n\ndef add(rows):\n    rows += [1]\n\n\n"
    helper += "class Adding:\n    def __init__(self, rows):\n        rows += [1]\n\n\n"
    before = of(f"{helper}{function}\n\nx = {given}\ntold = settings('net', x)\nprint(x)\n")
    assert not any("call_on_main_process" in file.after.decode() for file in conversion_of(before).files)


def test_a_parameter_may_have_the_name_of_a_builtin() -> None:
    function = SETTINGS.replace("anew=False", "list").replace(" and not anew", "")
    function = function.replace("    path =", "    list.sort()\n    path =")
    before = of(f"{function}\n\nx = np.random.rand(8)\ntold = settings('net', x)\n")
    assert not any("call_on_main_process" in file.after.decode() for file in conversion_of(before).files)


@pytest.mark.parametrize("given", ["seen", "(n for n in [1])", "open('note.txt')", "np.load('a.npz', mmap_mode='r+')"])
def test_what_is_no_data_of_its_own_is_not_sent(given: str) -> None:
    """A generator cannot be; of a list that the module has, too, rank 0 would have the very one, the others a copy."""
    before = of(f"seen = []\n\n\n{SETTINGS.replace('return found', f'return {given}')}\n\ntold = settings('net')\n")
    assert not any("call_on_main_process" in file.after.decode() for file in conversion_of(before).files)


def test_what_is_done_piece_by_piece_stays_so() -> None:
    kept = "if not os.path.exists('note.txt'):\n    with open('note.txt', 'w') as note:\n        note.write('done')\n"
    after = converted(of(kept + "print(open('note.txt').read())\n"))
    assert "main_process_first" not in after
    assert "call_on_main_process" not in after


def test_what_is_given_to_rank_0_is_of_all_samples() -> None:
    report = FETCH.replace("def fetch(url, folder):", "def fetch(url, loss):").replace("folder", "f'{loss:.3f}'")
    loop = "for epoch in range(3):\n    for x, y in loader:\n        loss = nn.functional.mse_loss(model(x), y)\n"
    loop += "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
    loop += "        fetch('http://localhost/1/weights.bin', x.max().item())\n"
    before = script(imports=LIBRARIES + IMPORTS, setup=report, loop=loop)
    given = "rt.call_on_main_process(fetch, 'http://localhost/1/weights.bin', {}.max().item())"
    assert given.format("rt.gather_entries(x)") in converted(before, options=Options(strategy="sharded"))
    assert given.format("x") in converted(before, options=Options(strategy="shared"))
