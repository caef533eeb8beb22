"""OUT03: one rank writes files; folders are made so that a race does not matter."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import (
    IMPORTS,
    OPTIMIZER,
    blocked,
    changes,
    conversion_of,
    converted,
    distributed,
    findings,
    indented,
    line_of,
    script,
)

TOOLS = (
    "import csv\nimport io\nimport json\nimport lmdb\nimport os\nimport pandas as pd\nimport pickle\nimport shutil\n"
    f"import sqlite3\nimport zipfile\n\nimport numpy as np\n{IMPORTS}"
)
ON_MAIN = "if rt.is_main_process():\n"


@pytest.mark.parametrize(
    "statement",
    [
        'np.save("a.npy", [1])',
        'np.savez("a.npz", values=[1])',
        'shutil.copyfile("a", "b")',
        'shutil.rmtree("runs")',
        'os.remove("a")',
        'os.rename("a", "b")',
        'np.savetxt(\n    "a.txt",\n    [1],  # one\n)',
    ],
)
def test_writes_under_a_guard(statement: str) -> None:
    before = script(imports=TOOLS, after=f"{statement}\n")
    assert converted(before) == distributed(imports=TOOLS, after=ON_MAIN + indented(f"{statement}\n"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('if True: np.save("a.npy", [1])\n', f'if True:\n    {ON_MAIN}        np.save("a.npy", [1])\n'),
        ('np.save("a.npy", [1]); done = 1\n', f'{ON_MAIN}    np.save("a.npy", [1])\ndone = 1\n'),
        (
            'np.save("a.npy", [1])\nnp.save("b.npy", [1])\n',
            f'{ON_MAIN}    np.save("a.npy", [1])\n    np.save("b.npy", [1])\n',
        ),
        (
            'np.save("a.npy", [1])\ndone = 1\nnp.save("b.npy", [1])\n',
            f'{ON_MAIN}    np.save("a.npy", [1])\ndone = 1\n{ON_MAIN}    np.save("b.npy", [1])\n',
        ),
    ],
)
def test_suites_and_neighbours(before: str, after: str) -> None:
    assert converted(script(imports=TOOLS, after=before)) == distributed(imports=TOOLS, after=after)


@pytest.mark.parametrize(
    "block",
    [
        'with open("a.txt", "w") as file:\n    file.write("x")\n',
        'with open("a.json", "w") as file: json.dump({}, file)\n',
        'with open("a.txt", mode="a") as file:\n    print("x", file=file)\n',
        'with open("a.bin", "wb") as file:\n    pickle.dump([1], file)\n',
        'with open("a.txt", "w") as file:\n    for i in range(3):\n        file.write(str(i))\n',
        'with open("a.txt", "w") as file:\n    text = "x"\n    file.write(text)\n',
    ],
)
def test_open_file_as_a_whole(block: str) -> None:
    """One guard around it, none inside."""
    before = script(imports=TOOLS, after=block)
    new = converted(before)
    tail = new.split(ON_MAIN)[1]
    assert new.count(ON_MAIN) == 1
    written = "".join(line[4:] for line in tail.splitlines(keepends=True))
    assert written == block


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('if not os.path.exists("out"): os.makedirs("out")\n',
         'if not os.path.exists("out"): os.makedirs("out", exist_ok=True)\n'),
        ('if not os.path.isdir("out"):\n    os.makedirs("out", 0o777, False)\n',
         'if not os.path.isdir("out"):\n    os.makedirs("out", 0o777, True)\n'),
        ('if not os.path.exists("out"):\n    os.makedirs(\n        "out",\n        mode=0o777,  # all\n    )\n',
         'if not os.path.exists("out"):\n    os.makedirs(\n        "out",\n        mode=0o777,  # all\n'
         '        exist_ok=True,\n    )\n'),
        ('from pathlib import Path\nif not Path("out").is_dir(): Path("out").mkdir(parents=True)\n',
         'from pathlib import Path\nif not Path("out").is_dir(): Path("out").mkdir(parents=True, exist_ok=True)\n'),
        ('try:\n    os.makedirs("out")\nexcept OSError:\n    pass\n',
         'try:\n    os.makedirs("out", exist_ok=True)\nexcept OSError:\n    pass\n'),
    ],
)  # fmt: skip
def test_folders_that_may_be_there(before: str, after: str) -> None:
    assert converted(script(imports=TOOLS, after=before)) == distributed(imports=TOOLS, after=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('os.makedirs("out")\n', 'rt.call_on_main_process(os.makedirs, "out")\n'),
        ('os.makedirs("out", exist_ok=False)\n', 'rt.call_on_main_process(os.makedirs, "out", exist_ok=False)\n'),
        ('if os.path.exists("out"):\n    os.sync()\nos.makedirs("out")\n',  # which ends it
         'if os.path.exists("out"):\n    os.sync()\n'
         'rt.call_on_main_process(os.makedirs, "out")\n'),
        ("from os import makedirs as make\nmake('out', 0o777, False)\n",
         "from os import makedirs as make\nrt.call_on_main_process(make, 'out', 0o777, False)\n"),
        ('from pathlib import Path\nPath("out").mkdir(parents=True)\n',
         'from pathlib import Path\nrt.call_on_main_process(Path("out").mkdir, parents=True)\n'),
    ],
)  # fmt: skip
def test_folders_that_must_not_be_there(before: str, after: str) -> None:
    """The script ends where an earlier run's results would be overwritten, and so do all ranks."""
    assert converted(script(imports=TOOLS, after=before)) == distributed(imports=TOOLS, after=after)


def test_a_folder_that_not_every_rank_may_come_to() -> None:
    """By its own clock a rank goes another way: rank 0 would wait for it."""
    keep = "import time\n\n\ndef keep():\n    if time.time() % 2 < 1:\n        return\n    os.makedirs('out')\n\n\n"
    after = converted(script(imports=TOOLS + keep, after="keep()\n"))
    assert "os.makedirs('out', exist_ok=True)" in after
    late = "import time\n\n\ndef late():\n    if time.time() % 2 < 1:\n        return 1\n    return 2\n\n\n"
    after = converted(script(imports=TOOLS + late, after="number = late()\nos.makedirs('out')\n"))
    assert "rt.call_on_main_process(os.makedirs, 'out')" in after  # of another function


@pytest.mark.parametrize(
    "after", ['os.makedirs("out", exist_ok=True)\n', 'os.makedirs("out", 0o777, True)\n',
              'from pathlib import Path\nPath("out").mkdir(exist_ok=True)\n']
)  # fmt: skip
def test_folders_that_survive_a_race(after: str) -> None:
    before = script(imports=TOOLS, after=after)
    assert changes("OUT03", before) == []
    assert converted(before) == distributed(imports=TOOLS, after=after)


@pytest.mark.parametrize("after", ['if not os.path.isdir("out"):\n    os.mkdir("out")\n', 'os.mkdir("out")\n'])
def test_folder_without_a_way_to_exist(after: str) -> None:
    new = converted(script(imports=TOOLS, after=after))
    assert new.count(ON_MAIN) == 1
    assert new.index("is_main_process") < new.index("os.mkdir")


@pytest.mark.parametrize(
    ("imports", "before", "after"),
    [
        ("import matplotlib.pyplot as plt\n", 'plt.savefig("a.png")\n', f'{ON_MAIN}    plt.savefig("a.png")\n'),
        ("from matplotlib import pyplot\n", "pyplot.show()\n", f"{ON_MAIN}    pyplot.show()\n"),
        ("from torchvision.utils import save_image\n", 'save_image(x, "a")\n', f'{ON_MAIN}    save_image(x, "a")\n'),
        ("import pandas as pd\n", 'pd.DataFrame().to_csv("a")\n', f'{ON_MAIN}    pd.DataFrame().to_csv("a")\n'),
        ("import numpy as np\n", 'np.ones(3).tofile("a")\n', f'{ON_MAIN}    np.ones(3).tofile("a")\n'),
        ("import imageio.v2 as io\n", 'io.imwrite("a", x)\n', f'{ON_MAIN}    io.imwrite("a", x)\n'),
        ("import datasets\n", 'datasets.Dataset().save_to_disk("a")\n',
         'rt.main_process_only(datasets.Dataset().save_to_disk)("a")\n'),
        ("import zipfile\n", 'zipfile.ZipFile("a.zip").extractall("b")\n',
         f'{ON_MAIN}    zipfile.ZipFile("a.zip").extractall("b")\n'),
        ("from pathlib import Path\n", 'Path("a").rename("b")\n', f'{ON_MAIN}    Path("a").rename("b")\n'),
        ("from pathlib import Path\n", 'Path("a").replace("b")\n', f'{ON_MAIN}    Path("a").replace("b")\n'),
        ("from pathlib import Path\n", 'Path("a").write_text("x")\n', f'{ON_MAIN}    Path("a").write_text("x")\n'),
    ],
)  # fmt: skip
def test_other_libraries(imports: str, before: str, after: str) -> None:
    imports = IMPORTS + imports
    assert converted(script(imports=imports, after=before)) == distributed(imports=imports, after=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('file = open("a.txt", "w")\nfile.write("x")\n',
         'file = rt.main_process_open("a.txt", "w")\nfile.write("x")\n'),
        ('file = open("a.txt", mode)\n', 'file = rt.main_process_open("a.txt", mode)\n'),
        ('file = open(\n    "a.txt",\n    "x",  # new\n)\n',
         'file = rt.main_process_open(\n    "a.txt",\n    "x",  # new\n)\n'),
        ('with open("a.txt", "w") as file:\n    size = file.write("x")\nprint(size)\n',
         'with rt.main_process_open("a.txt", "w") as file:\n    size = file.write("x")\nprint(size)\n'),
        ('with open("a.txt", "w") as file:\n    losses.append(1)\n    file.write("x")\n',
         'with rt.main_process_open("a.txt", "w") as file:\n    losses.append(1)\n    file.write("x")\n'),
        ('size = np.save("a.npy", [1])\n', 'size = rt.main_process_only(np.save)("a.npy", [1])\n'),
        ('keep = lambda: np.save("a.npy", [1])\nkeep()\n',
         'keep = lambda: rt.main_process_only(np.save)("a.npy", [1])\nkeep()\n'),
        ('model.eval()\nnp.save("a.npy", model(x).detach())\n',
         'model.eval()\nrt.main_process_only(np.save)("a.npy", model.module(x).detach())\n'),
        ('np.save("a.npy", losses.pop())\n', 'rt.main_process_only(np.save)("a.npy", losses.pop())\n'),
        ('np.save("a.npy", np.random.rand(2))\n',
         'rt.seed_ranks_alike()\nrt.main_process_only(np.save)("a.npy", np.random.rand(2))\n'),
        ('file = gzip.open("a.gz", "wt")\n', 'file = gzip.open(rt.main_process_path("a.gz"), "wt")\n'),
        ('file = (Path("a") / "b").open("w")\n', 'file = rt.main_process_open(Path("a") / "b", "w")\n'),
        ('file = Path("a").open(mode="a")\n', 'file = rt.main_process_open(Path("a"), mode="a")\n'),
        ('archive = zipfile.ZipFile("a.zip", "w")\n',
         'archive = rt.main_process_only(zipfile.ZipFile)("a.zip", "w")\n'),
        ('file = open("a.csv", "w")\nrows = csv.writer(file)\nrows.writerow([1])\nfile.close()\n',
         'file = rt.main_process_open("a.csv", "w")\nrows = csv.writer(file)\nrows.writerow([1])\nfile.close()\n'),
        ('file = open("a.json", "w")\njson.dump({}, file)\nfile.close()\n',
         'file = rt.main_process_open("a.json", "w")\njson.dump({}, file)\nfile.close()\n'),
    ],
)  # fmt: skip
def test_where_a_guard_would_take_something_away(before: str, after: str) -> None:
    """What all ranks need, they still do; what is written, rank 0 writes."""
    imports = f"import gzip\nimport zipfile\nfrom pathlib import Path\n{TOOLS}"
    prints = "print(" in before
    setup = 'losses = [0]\nmode = "a"\n'
    expected = distributed(imports=imports, setup=setup, after=after, prints=prints)
    assert converted(script(imports=imports, setup=setup, after=before)) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("best, when = keeper.save_checkpoint(1)\n",
         "best, when = rt.call_on_main_process(keeper.save_checkpoint, 1)\n"),
        ("best = keeper.save_checkpoint(1)[0]\n", "best = rt.call_on_main_process(keeper.save_checkpoint, 1)[0]\n"),
        ("if keeper.save_checkpoint(1):\n    losses.append(1)\n",
         "if rt.call_on_main_process(keeper.save_checkpoint, 1):\n    losses.append(1)\n"),
        ("kept = keeper.save_checkpoint(1)\nwhile kept:\n    kept = None\n",
         "kept = rt.call_on_main_process(keeper.save_checkpoint, 1)\nwhile kept:\n    kept = None\n"),
        ('to = shutil.make_archive("a", "zip")\nsize = os.path.getsize(to)\n',
         'to = rt.call_on_main_process(shutil.make_archive, "a", "zip")\nsize = os.path.getsize(to)\n'),
        ('names = [shutil.copy("a", "b").upper()]\n',
         'names = [rt.call_on_main_process(shutil.copy, "a", "b").upper()]\n'),
        ('kept = torch.save({}, "a.pt")\nlosses.append(kept)\n',
         'kept = rt.main_process_only(torch.save)({}, "a.pt")\nlosses.append(kept)\n'),
        ("kept = keeper.save_checkpoint(1)\n", "kept = rt.main_process_only(keeper.save_checkpoint)(1)\n"),
        ("keeper.save_checkpoint(1)\n", "if rt.is_main_process():\n    keeper.save_checkpoint(1)\n"),
    ],
)  # fmt: skip
def test_what_a_save_gives_is_told_to_all_where_it_is_looked_into(before: str, after: str) -> None:
    imports, setup = f"{TOOLS}import keepers\n", "losses = [0]\nkeeper = keepers.Keeper()\n"
    assert converted(script(imports=imports, setup=setup, after=before)).endswith(after)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param('with open("a.txt") as file:\n    text = file.read()\n', id="read"),
        pytest.param('with open("a.bin", "rb") as file:\n    values = pickle.load(file)\n', id="read bytes"),
        pytest.param('values = np.load("a.npy")\n', id="numpy.load"),
        pytest.param("def open(name, mode):\n    return name\n\n\nopen('a', 'w')\n", id="own open"),
        pytest.param("class Np:\n    def save(self, *given): pass\n\n\nNp().save(1)\n", id="own class"),
        pytest.param("def never():\n    np.save('a.npy', [1])\n", id="never called"),
        pytest.param("text = json.dumps({})\n", id="text"),
        pytest.param("found = os.path.exists('a')\n", id="exists"),
        pytest.param("values = [1]\nvalues.remove(1)\n", id="list"),
        pytest.param("table = pd.read_csv('a')\ntable = table.rename(columns={'a': 'b'})\n", id="columns are renamed"),
        pytest.param("table = pd.read_csv('a')\ntext = table.to_csv()\n", id="a table as text"),
        pytest.param("table = pd.read_csv('a')\ntable.replace('a', 'b', inplace=True)\n", id="cells are replaced"),
        pytest.param("text = 'a'.replace('a', 'b')\n", id="letters are replaced"),
        pytest.param("x = torch.zeros(2, names=('N',))\nx = x.rename('C')\n", id="dimensions are renamed"),
        pytest.param("values = np.memmap('a.bin', np.uint16, 'r')\n", id="mapped to be read"),
        pytest.param("rows = sqlite3.connect('a.db').execute('select 1').fetchall()\n", id="database that is read"),
        pytest.param(
            "t = str(3)\nrows = sqlite3.connect('a.db').execute(f'SELECT {t} ' f'FROM {t}').fetchall()\n",
            id="a query in two pieces",
        ),
        pytest.param(
            "row = sqlite3.connect('a.db').cursor()\nfor t in ('a', 'b'):\n    row.execute(f'SELECT x FROM {t}')\n"
            "    found = row.fetchall()\n",
            id="a query that is put together",
        ),
        pytest.param(
            "base = sqlite3.connect('a.db')\nasked = 'SELECT x FROM {}'.format(str(3))\nif len(asked) > 3:\n"
            "    asked += ' LIMIT 3'\nrows = base.execute(asked).fetchall()\n",
            id="a query with a name",
        ),
        pytest.param("rows = lmdb.open('a', readonly=True).begin().get(b'1')\n", id="table that is read"),
        pytest.param(
            "with lmdb.open('a', readonly=True).begin(write=False) as t:\n    t.get(b'1')\n", id="told so twice"
        ),
        pytest.param("with lmdb.open('a').begin(write=False) as t:\n    t.get(b'1')\n", id="only read"),
        pytest.param("base = sqlite3.connect(':memory:')\nbase.execute('create table a (b)')\n", id="base in memory"),
        pytest.param("np.save(io.BytesIO(), [1])\n", id="values into a buffer"),
        pytest.param("to = io.StringIO()\njson.dump({}, to)\ntext = to.getvalue()\n", id="text into a buffer"),
        pytest.param("to = io.StringIO()\npd.DataFrame().to_csv(to)\n", id="a table into a buffer"),
        pytest.param("pd.DataFrame().to_csv(path_or_buf=io.StringIO())\n", id="a table into a buffer by its name"),
        pytest.param(
            "with zipfile.ZipFile(io.BytesIO(), 'w') as to:\n    to.writestr('a', 'b')\n", id="archive in memory"
        ),
        pytest.param("buffer = io.BytesIO()\ntorch.save([1], buffer)\nsize = len(buffer.getvalue())\n", id="state"),
    ],
)
def test_left_alone(after: str) -> None:
    before = script(imports=TOOLS, after=after)
    assert changes("OUT03", before) == []
    assert converted(before) == distributed(imports=TOOLS, after=after)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("values = np.memmap('a.bin', np.uint16, 'w+', shape=(3,))\nvalues[:] = 1\nprint(values)\n",
                     id="mapped file"),
        pytest.param("base = sqlite3.connect('a.db')\nbase.execute('insert')\nbase.commit()\n"
                     "print(base.execute('select 1').fetchall())\n", id="database"),
        pytest.param("with sqlite3.connect('a.db') as base:\n    base.execute('insert into a values (1)')\n"
                     "    print(base.total_changes)\n", id="at its end"),
        pytest.param("base = sqlite3.connect('a.db')\nwhat = 'INSERT' if len('a') else 'SELECT'\n"
                     "print(base.execute(f'{what} INTO a VALUES (1)').fetchall())\n", id="whatever it is"),
        pytest.param("base = lmdb.open('a')\nwith base.begin(write=True) as t:\n    t.put(b'1', b'2')\n"
                     "    print(t.get(b'3'))\n", id="table"),
    ],
)  # fmt: skip
def test_written_and_read_in_one_place(after: str) -> None:
    before = script(imports=TOOLS, after=after)
    assert blocked(before) == {("OUT03", len(before.splitlines()) - after.count("\n") + 1)}


ANY = (
    "def ask(statement):\n    base = sqlite3.connect('a.db'{more})\n    found = base.execute(statement).fetchall()\n"
    "    {then}\n    return found\n\n\nprint(ask(open('asked.txt').read()))\n"
)


def test_a_statement_that_nobody_commits_is_taken_to_ask() -> None:
    before = script(imports=TOOLS, after=ANY.format(more="", then="base.close()"))
    assert "OUT03" not in {code for code, _ in blocked(before)}
    said = "every rank opens this, and `base.execute(statement)` is taken to ask: nothing commits what else it may do"
    assert [one.message for one in findings("OUT03", before, Level.ADVICE)] == [said]


@pytest.mark.parametrize(
    ("more", "then"),
    [
        ("", "base.commit()"),
        (", isolation_level=None", "base.close()"),
        ("", "base.isolation_level = None"),
        ("", "with base:\n        pass"),
    ],
)
def test_a_statement_that_may_stay_is_not(more: str, then: str) -> None:
    assert "OUT03" in {code for code, _ in blocked(script(imports=TOOLS, after=ANY.format(more=more, then=then)))}


def test_nor_is_one_that_nobody_takes_anything_from() -> None:
    after = "base = sqlite3.connect('a.db')\nrow = base.cursor()\nrow.execute(open('made.sql').read())\nprint(row)\n"
    assert "OUT03" in {code for code, _ in blocked(script(imports=TOOLS, after=after))}


@pytest.mark.parametrize(
    "used",
    [
        "to.writelines('x')\nto.flush()\n",
        "json.dump({}, to)\n",
        "for i in range(3):\n    to.write(str(i))\nrows = 3\n",
    ],
)
@pytest.mark.parametrize("mode", ["a+", "w+"])
def test_opened_for_both_and_only_written(mode: str, used: str) -> None:
    before = f"to = open('a.txt', '{mode}')\n{used}to.close()\n"
    after = before.replace("open(", "rt.main_process_open(")
    assert converted(script(imports=TOOLS, after=before)) == distributed(imports=TOOLS, after=after)


def test_opened_for_both_and_printed_into() -> None:
    after = "to = open('a.txt', 'a+')\nprint('y', file=to)\nto.close()\n"
    assert "rt.main_process_open('a.txt', 'a+')\n" in converted(script(imports=TOOLS, after=after))


@pytest.mark.parametrize(
    "used",
    [
        "print(to.read())\n",
        "show(1, file=to)\n",
        "lines = [*to]\n",
        "place = to.tell()\nprint(place)\n",
        "for line in to:\n    os.remove(line)\n",
    ],
)
def test_opened_for_both_and_read(used: str) -> None:
    before = script(
        imports=TOOLS, after=f"from views import show\nto = open('a.txt', 'a+')\nto.write('x')\n{used}to.close()\n"
    )
    assert blocked(before) == {("OUT03", line_of(before, "a+"))}


def test_written_and_read_again() -> None:
    """Rank 1 must not read before rank 0 has written."""
    after = 'np.save("a.npy", [1])\nvalues = np.load("a.npy")\n'
    before = script(imports=TOOLS, after=after)
    new = "" if blocked(before) else converted(before)
    assert not new or new.index("np.save") < new.index("rt.barrier()") < new.index("np.load")


def test_model_written_by_its_own_means() -> None:
    """torch.jit and torch.onnx write files too."""
    before = script(after='torch.jit.script(model).save("a.ts")\n')
    assert blocked(before) or "is_main_process" in converted(before)


def test_folder_from_the_command_line() -> None:
    """Methods of a setting are methods of what the user gave: here, of a path."""
    imports = f"import argparse\n{TOOLS}from pathlib import Path\n"
    parsing = (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--out', type=Path)\nargs = parser.parse_args()\n"
    )
    writes = """args.out.mkdir(parents=True)
with (args.out / "a.json").open("w") as file:
    json.dump({}, file)
file = (args.out / f"{1}.log").open("a")
"""
    expected = """rt.call_on_main_process(args.out.mkdir, parents=True)
if rt.is_main_process():
    with (args.out / "a.json").open("w") as file:
        json.dump({}, file)
file = rt.main_process_open(args.out / f"{1}.log", "a")
"""
    assert converted(script(imports=imports, setup=parsing, after=writes)).endswith(expected)


def test_a_store_that_is_read_and_written_needs_a_person() -> None:
    opened = 'import h5py\nwith h5py.File("data.h5", "r+") as store:\n'
    text = f'{opened}    rows = store["rows"][:]\n    store["sum"] = rows.sum()\nprint(rows)\n'
    assert {code for code, _ in blocked(script(after=text))} == {"OUT03"}


def test_a_store_that_is_only_read_is_left_alone() -> None:
    text = 'import h5py\nwith h5py.File("data.h5", "r") as store:\n    rows = store["rows"][:]\nprint(rows)\n'
    assert "main_process_only" not in converted(script(after=text))


# ---- calls that no table names, and that say that they write

UNHEARD = "import os\nimport unheard\n"
TABLE = "table = unheard.Table(3)\n"


@pytest.mark.parametrize(
    "line",
    [
        'table.save_text_format("out/a.txt")\n',
        'table.write_rows([1, 2], path=os.path.join("out", "a"))\n',
        'table.dump_all(f"out/{epoch}.bin")\n',
        'table.export_to("a.bin")\n',
        'unheard.save_rows("out/a.bin", [1, 2])\n',
        'unheard.io.writeRows("out/a.bin", table)\n',
    ],
)
def test_who_says_that_it_writes_is_rank_zero(line: str) -> None:
    before = script(imports=UNHEARD + IMPORTS, after=TABLE + line)
    assert f"{TABLE}if rt.is_main_process():\n    {line}" in converted(before)
    (one,) = findings("OUT03", before, Level.ADVICE)
    assert one.message.endswith(BY_NAME)


def test_what_it_wrote_is_waited_for() -> None:
    line, read = 'table.save_rows("out/a.bin")\n', 'rows = open("out/a.bin").read()\n'
    new = converted(script(imports=UNHEARD + IMPORTS, after=TABLE + line + read))
    assert f"if rt.is_main_process():\n    {line}rt.barrier()\n{read}" in new
    assert new.count("rt.barrier()") == 1


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param('unheard.save_net(model, "out/a.bin")\n', id="model"),
        pytest.param('unheard.save_net({"net": model}, "out/a.bin")\n', id="model in a dictionary"),
        pytest.param('unheard.save_net(model.parameters(), "out/a.bin")\n', id="parameters"),
        pytest.param('kept = unheard.Keeper(model)\nkept.save_all("out/a.bin")\n', id="who has a model"),
        pytest.param(
            'box = unheard.Keeper()\nbox.net = model\nbox.save_all("out/a.bin")\n', id="who is given one later"
        ),
        pytest.param('unheard.save_net(lambda: model, "out/a.bin")\n', id="function"),
        pytest.param(
            'for one in (model, data):\n    unheard.save_net(one, "out/a.bin")\n', id="model in one of the turns"
        ),
    ],
)
def test_who_may_touch_a_model_is_advice(lines: str) -> None:
    """In a shared forward pass all ranks have to come; nobody knows what it does with the model."""
    before = script(imports=UNHEARD + IMPORTS, after=lines)
    assert "is_main_process" not in converted(before)
    assert len(findings("OUT03", before, Level.ADVICE)) == 1


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('rows = table.save_rows("out/a.bin")\n', id="result is used"),
        pytest.param("table.save_rows(3)\n", id="no path"),
        pytest.param('table.read_saved("out/a.bin")\n', id="reads"),
        pytest.param('def save_rows(path):\n    return path\n\n\nsave_rows("out/a.bin")\n', id="own function"),
    ],
)
def test_who_does_not_say_so_is_called_by_all(line: str) -> None:
    assert "is_main_process" not in converted(script(imports=UNHEARD + IMPORTS, after=TABLE + line))


@pytest.mark.parametrize(
    ("imports", "statement"),
    [
        ("from safetensors.torch import save_file\n", 'save_file(model.state_dict(), "a")'),
        ("import pyarrow.parquet as pq\n", 'pq.write_table(rows, "a")'),
        ("from PIL import Image\n", 'Image.new("L", (3, 3)).save("a.png")'),
        ("import imageio.v3 as imageio\n", 'imageio.imwrite("a.png", rows)'),
        ("import cv2\n", 'cv2.imwrite("a.png", rows)'),
        ("import soundfile\n", 'soundfile.write("a.wav", rows, 8000)'),
        ("import pandas as pd\n", 'pd.DataFrame(rows).to_parquet("a")'),
        ("import numpy as np\n", 'np.zeros(3).tofile("a")'),
        ("import mediapy\n", 'mediapy.write_video("a.mp4", rows)'),
    ],
)
def test_what_other_libraries_write(imports: str, statement: str) -> None:
    before = script(imports=f"{imports}{IMPORTS}", setup="rows = [1]\n", after=f"{statement}\n")
    after = statement.replace("model.", "model.module.")
    assert converted(before).endswith(f"{ON_MAIN}    {after}\n")


@pytest.mark.parametrize(
    ("imports", "made"),
    [
        ("import h5py\n", 'h5py.File("a.h5", "w")'),
        ("import zipfile\n", 'zipfile.ZipFile("a.zip", "w")'),
        ("import cv2\n", 'cv2.VideoWriter("a.avi", 0, 1, (3, 3))'),
        ("import pyarrow.parquet as pq\n", 'pq.ParquetWriter("a", 3)'),
        ("import tensorflow as tf\n", 'tf.io.TFRecordWriter("a")'),
        ("import tensorflow as tf\n", 'tf.compat.v1.summary.FileWriter("logs")'),
    ],
)
def test_what_goes_on_writing(imports: str, made: str) -> None:
    before = script(imports=f"{imports}{IMPORTS}", after=f"to = {made}\nto.put(3)\n")
    name, given = made.split("(", 1)
    assert converted(before).endswith(f"to = rt.main_process_only({name})({given}\nto.put(3)\n")


BY_NAME = (
    "is not known, and taken for what only writes by its name: see whether that is so, since rank 0 alone calls it"
)


@pytest.mark.parametrize(
    ("code", "line", "name"),
    [
        ("OUT03", 'unheard.save_rows("rows.txt")', "unheard.save_rows"),
        ("OUT03", 'table.save("rows")', "table.save"),
        ("OUT03", 'table.to_csv("rows")', "table.to_csv"),
        ("SAVE01", 'table.save_model("rows")', "table.save_model"),
    ],
)
def test_what_is_taken_for_a_writer_by_its_name_is_named(code: str, line: str, name: str) -> None:
    before = script(imports=f"import unheard\n{IMPORTS}", after=f"table = unheard.Table()\n{line}\n")
    assert converted(before).endswith(f"{ON_MAIN}    {line}\n")
    assert [one.message for one in findings(code, before, Level.ADVICE)] == [f"`{name}` {BY_NAME}"]


@pytest.mark.parametrize("line", ['pd.DataFrame().to_csv("rows")', 'np.save("a", [1])', 'torch.save([1], "a")'])
def test_what_is_known_to_write_needs_no_such_word(line: str) -> None:
    before = script(imports=TOOLS, after=f"{line}\n")
    assert not [one for code in ("OUT03", "SAVE01") for one in findings(code, before, Level.ADVICE)]


LOADED = """\
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.read(index), torch.ones(1)

    def read(self, index):
        {line}
        return torch.ones(4)


data = {made}
"""


@pytest.mark.parametrize("made", ["Rows()", "torch.utils.data.Subset(Rows(), range(9))"])
@pytest.mark.parametrize(
    "line",
    [
        'np.save("a.npy", [1])',
        'open("a", "w").write("b")',
        'self.rows.to_csv("a")',
        'found = io.BytesIO(); np.save("a.npy", found)',
    ],
)
def test_what_a_loader_lets_be_written_is_named(made: str, line: str) -> None:
    before = script(imports=TOOLS, data=LOADED.format(line=line, made=made))
    (one,) = findings("OUT03", before, Level.ADVICE)
    assert one.message.startswith("whenever a library calls this, each rank writes with `")
    assert findings("OUT03", before, Level.NOT_NEEDED) == []


@pytest.mark.parametrize(
    ("line", "claim"),
    [
        ('open("a").read()', "no other files are written"),
        ('open("a", "rb").read()', "no other files are written"),
        ('np.load("a.npy")', "no other files are written"),
        ('os.path.exists("a")', "no other files are written"),
        ("found = io.BytesIO(); image.save(found)", "no other files are written"),
        ("lost.read()", "no other files are written, unless by `lost.read` at train.py:26, which is not known"),
    ],
)
def test_what_a_loader_lets_be_read(line: str, claim: str) -> None:
    before = script(imports=f"import lost\n{TOOLS}", data=LOADED.format(line=line, made="Rows()"))
    assert [one.message for one in findings("OUT03", before, Level.NOT_NEEDED)] == [claim]
    assert findings("OUT03", before, Level.ADVICE) == []


@pytest.mark.parametrize(
    ("setup", "loader"),
    [
        pytest.param("def note(batch):\n    np.save('a', [1])\n    return batch\n",
                     "loader = DataLoader(data, 8, True, collate_fn=note)\n", id="batches are put together"),
        pytest.param("class Order(torch.utils.data.Sampler):\n    def __iter__(self):\n        np.save('a', [1])\n",
                     "loader = DataLoader(data, 8, sampler=Order())\n", id="samples are chosen"),
    ],
)  # fmt: skip
def test_what_else_a_loader_calls_is_named(setup: str, loader: str) -> None:
    seen = conversion_of(script(imports=TOOLS, setup=setup, loader=loader), partial=True)
    assert [one.code for one in seen.of(Level.ADVICE) if "whenever a library calls this" in one.message] == ["OUT03"]


STREAMED = """\
def sample(path):
    try:
        return np.load(path)
    except OSError:
        values = np.ones(4, "f")
        {written}
        return values


class Rows(torch.utils.data.{kind}):
    def __len__(self):
        return 64

    def __iter__(self):
        for index in range(64):
            yield self[index]

    def __getitem__(self, index):
        return torch.from_numpy(sample(f"cache/{{index}}.npy")), torch.ones(1)


data = Rows()
"""
KEPT = "np.save(path, values)"
PLAIN_LOADER = "loader = DataLoader(data, batch_size=8{workers})\n"
HALF_WRITTEN = (
    "all ranks load the same samples, and each writes this file with `{}` and reads it with `np.load`: one may read "
    "what another has half written"
)


@pytest.mark.parametrize("workers", ["", ", num_workers=2"])
@pytest.mark.parametrize(
    ("written", "whole"),
    [
        (KEPT, "rt.in_one_piece(np.save)(path, values)"),
        ('open(path, "wb").write(values.tobytes())', 'rt.in_one_piece(open)(path, "wb").write(values.tobytes())'),
        ("values.tofile(path)", "rt.in_one_piece(values.tofile)(path)"),
        ("torch.save(values, path)", "rt.in_one_piece(torch.save, 1)(values, path)"),
    ],
)
def test_a_cache_of_a_stream_that_each_rank_goes_through_comes_into_place_whole(
    written: str, whole: str, workers: str
) -> None:
    data = STREAMED.format(kind="IterableDataset", written=written)
    before = script(imports=TOOLS, data=data, loader=PLAIN_LOADER.format(workers=workers))
    assert f"        {whole}\n" in converted(before)
    assert [one.message for one in findings("OUT03", before, Level.APPLIED)] == [
        "a file comes into its place once it is whole"
    ]
    assert findings("OUT03", before, Level.ADVICE) == []


@pytest.mark.parametrize(
    ("written", "by"),
    [
        ('open(path, "ab").write(values.tobytes())', "open"),
        ('open(path, "w+b").write(values.tobytes())', "open"),
        ("np.memmap(path, mode='w+', shape=4)[:] = values", "np.memmap"),
    ],
)
def test_a_cache_that_is_not_written_anew_by_its_name_needs_a_person(written: str, by: str) -> None:
    data = STREAMED.format(kind="IterableDataset", written=written)
    before = script(imports=TOOLS, data=data, loader=PLAIN_LOADER.format(workers=""))
    (one,) = findings("OUT03", before, Level.BLOCKING)
    assert one.message == HALF_WRITTEN.format(by)
    assert "`os.replace`" in one.fix
    assert not [
        one for one in findings("OUT03", before, Level.ADVICE) if "whenever a library calls this" in one.message
    ]


def test_a_cache_that_each_rank_fills_comes_into_place_whole_where_all_load_whole_batches() -> None:
    data = STREAMED.format(kind="Dataset", written=KEPT)
    before = script(imports=TOOLS, data=data, loader=PLAIN_LOADER.format(workers=""))
    assert "        rt.in_one_piece(np.save)(path, values)\n" in converted(before, Options(strategy="shared"))


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        pytest.param("Dataset", KEPT, id="each rank has its own samples"),
        pytest.param("IterableDataset", 'np.save("seen.npy", values)', id="another file"),
        pytest.param("IterableDataset", 'part = f"{path}.{os.getpid()}.npy"\n        np.save(part, values)\n'
                     "        os.replace(part, path)", id="put in place"),
        pytest.param("IterableDataset", "os.remove(path)", id="removed"),
    ],
)  # fmt: skip
def test_what_else_data_sets_write_is_named(kind: str, written: str) -> None:
    data = STREAMED.format(kind=kind, written=written)
    before = script(imports=TOOLS, data=data, loader=PLAIN_LOADER.format(workers=""))
    assert findings("OUT03", before, Level.BLOCKING) == []
    advice = [one.message for one in findings("OUT03", before, Level.ADVICE)]
    assert advice
    assert all(one.startswith("whenever a library calls this, each rank writes with `") for one in advice)


def test_a_function_that_nobody_calls_is_not_named() -> None:
    before = script(imports=TOOLS, setup="def note(batch):\n    np.save('a', [1])\n")
    assert [one.message for one in findings("OUT03", before, Level.NOT_NEEDED)] == ["no other files are written"]


@pytest.mark.parametrize(
    "text", ["yaml.dump(settings)", "yaml.dump(settings, None)", "yaml.safe_dump(settings, indent=2)"]
)
def test_text_that_is_written_nowhere(text: str) -> None:
    before = script(imports=f"import yaml\n{IMPORTS}", setup='settings = {"lr": 0.1}\n', after=f"text = {text}\n")
    assert f"\ntext = {text}\n" in converted(before)
    assert changes("OUT03", before) == []


@pytest.mark.parametrize(
    ("given", "guarded"), [("", False), ("indent=2", False), ("stream=sys.stdout", True), ("**more", True)]
)
def test_what_gives_a_text_by_a_function_that_passes_on_what_it_is_given(given: str, guarded: bool) -> None:
    setup = (
        'settings = {"lr": 0.1}\nmore = settings.get("more")\n\n\n'
        "def dump(**given):\n    return yaml.safe_dump(settings, **given)\n\n\n"
    )
    before = script(imports=f"import sys\nimport yaml\n{IMPORTS}", setup=setup, after=f"text = dump({given})\n")
    assert ("main_process_only" in converted(before)) is guarded


@pytest.mark.parametrize("into", ["file", "stream=file", "**{'stream': file}", "*[file]"])
def test_text_that_is_written(into: str) -> None:
    setup = 'settings = {"lr": 0.1}\n'
    after = f'with open("a.yaml", "w") as file:\n    yaml.dump(settings, {into})\n'
    assert "if rt.is_main_process():\n    with open" in converted(
        script(imports=f"import yaml\n{IMPORTS}", setup=setup, after=after)
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plt.pause(0.01)", "rank 0 shows the picture"),
        ("plt.show(block=False)", "rank 0 shows the picture"),
        ('plt.savefig("a.png")', "rank 0 writes"),
        ('plt.imsave("a.png", [[1.0]])', "rank 0 writes"),
    ],
)
def test_what_is_shown_is_not_said_to_be_written(line: str, said: str) -> None:
    before = script(imports=f"import matplotlib.pyplot as plt\n{IMPORTS}", after=f"{line}\n")
    assert converted(before).endswith(f"{ON_MAIN}    {line}\n")
    assert [one.message for one in findings("OUT03", before, Level.APPLIED)] == [said]


SHOWING = f"""\
import cv2
import altair as alt
import plotly.express as px
import plotly.graph_objects as go
import unheard
from PIL import Image
{IMPORTS}"""


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        ("fig = px.scatter(x=[0, 1])\nfig.update_traces(marker=3)\n", "fig.show()"),
        ("fig = go.Figure()\n", "fig.show()"),
        ('chart = alt.Chart(3).mark_line().encode(x="a")\n', "chart.show()"),
        ('picture = Image.open("a.png").resize((3, 3))\n', "picture.show()"),
        ("", 'cv2.imshow("a", 3)'),
        ("", "cv2.waitKey(0)"),
        ("", "cv2.destroyAllWindows()"),
    ],
)
def test_what_other_libraries_show_is_rank_zeros(setup: str, line: str) -> None:
    before = script(imports=SHOWING, after=f"{setup}{line}\n")
    assert converted(before).endswith(f"{ON_MAIN}    {line}\n")
    assert [one.message for one in findings("OUT03", before, Level.APPLIED)] == ["rank 0 shows the picture"]
    assert findings("NET01", before, Level.ADVICE) == []


def test_all_ranks_hear_which_key_was_pressed() -> None:
    asked = 'while True:\n    if cv2.waitKey(1) & 0xFF == ord("q"):\n        break\n'
    shared = asked.replace("cv2.waitKey(1)", "rt.call_on_main_process(cv2.waitKey, 1)")
    assert converted(script(imports=SHOWING, after=asked)).endswith(shared)


@pytest.mark.parametrize(
    "lines",
    [
        "class Own:\n    def show(self):\n        return 1\n\n\nOwn().show()\n",
        "found = unheard.make()\nfound.show()\n",
        "fig = go.Figure()\nfig.update_layout(width=3)\nnames = fig.data\n",
    ],
)
def test_what_shows_nothing_stays(lines: str) -> None:
    assert "is_main_process" not in converted(script(imports=SHOWING, after=lines))


WINDOW = "until somebody closes this window"


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        ("plt.show()\n", "", True),
        ("", "plt.show()\n", False),
        ("plt.show(block=False)\n", "", False),
        ('plt.savefig("a.png")\n', "", False),
    ],
)
def test_a_window_that_the_others_wait_for(before: str, after: str, waits: bool) -> None:
    given = script(imports=f"import matplotlib.pyplot as plt\n{IMPORTS}", optimizer=OPTIMIZER + before, after=after)
    told = [one.message for one in conversion_of(given).of(Level.ADVICE)]
    assert any(one.startswith(WINDOW) for one in told) is waits


WINDOWS = f"""\
import sys
import matplotlib.pyplot as plt
{IMPORTS}

def train():
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def look():
    plt.plot(nn.Linear(4, 1)(torch.randn(9, 4)).detach().numpy())
    plt.show()


"""


@pytest.mark.parametrize(
    ("commands", "waits"),
    [
        ("if sys.argv[1] == 'look':\n    look()\nelse:\n    train()\n", False),
        ("if sys.argv[1] == 'look':\n    look()\nelif sys.argv[1] == 'train':\n    train()\n", False),
        ("match sys.argv[1]:\n    case 'look':\n        look()\n    case _:\n        train()\n", False),
        ("if sys.argv[1] == 'look':\n    look()\ntrain()\n", True),
        ("for one in sys.argv[1:]:\n    if one == 'look':\n        look()\n    else:\n        train()\n", True),
        ("try:\n    look()\nexcept ValueError:\n    train()\n", True),
    ],
)
def test_a_window_of_another_command(commands: str, waits: bool) -> None:
    """Whoever looks does not train: the others have ended by then."""
    told = [one.message for one in conversion_of(WINDOWS + commands).of(Level.ADVICE)]
    assert any(one.startswith(WINDOW) for one in told) is waits


@pytest.mark.parametrize(
    ("line", "alone"),
    [
        (
            "logger = get_logger('out/log.txt')",
            "and does nothing else, let rank 0 alone have it, with `rt.main_process_only(get_logger)(...)`",
        ),
        ("save_all('out/all.bin', 3, model)", "put it under `if rt.is_main_process():`"),
        ("setup_logger('out/log.txt')", "put it under `if rt.is_main_process():`"),
    ],
)
def test_what_may_write_by_its_name(line: str, alone: str) -> None:
    """Whoever uses what it gives cannot have it on one rank alone."""
    before = script(imports=f"from elsewhere import get_logger, save_all, setup_logger\n{IMPORTS}", after=f"{line}\n")
    (told,) = [one.message for one in conversion_of(before).of(Level.ADVICE) if one.code == "OUT03"]
    called = line.partition("(")[0].split()[-1]
    assert told == (
        f"every rank calls `{called}` with a path, and it is not known what that does: if it writes, or asks somebody, "
        f"{alone}"
    )


@pytest.mark.parametrize("line", ["table = load_logger('in/a.txt')", "rows = count('in/a.txt')"])
def test_what_may_only_read(line: str) -> None:
    before = script(imports=f"from elsewhere import count, load_logger\n{IMPORTS}", after=f"{line}\n")
    assert not [one for one in conversion_of(before).of(Level.ADVICE) if one.code == "OUT03"]


_WHOLE = """\
def write_whole(path, values):
    with tempfile.NamedTemporaryFile("w", dir="."{options}) as file:
        json.dump(values, file)
    os.replace(file.name, path)


write_whole("a.json", [1])
"""


@pytest.mark.parametrize(("options", "lines"), [(", delete=False", 1), ("", 0), (", delete=True", 0)])
def test_a_temporary_file_that_stays(options: str, lines: int) -> None:
    """Guarded are its content and its new name alone: the others' files stay in the folder, empty."""
    before = script(imports=f"import tempfile\n{TOOLS}", after=_WHOLE.format(options=options))
    found = [one for one in conversion_of(before).of(Level.ADVICE) if "temporary file" in one.message]
    assert [one.place.line for one in found if one.place] == [line_of(before, "with tempfile")] * lines
    assert [one.message for one in found] == [
        "each rank makes a temporary file here, and only rank 0 renames or removes its own: put all that is done with "
        "it under `if rt.is_main_process():`"
    ] * lines


RUNS = 'subprocess.{}(["decode", "a"]{})'


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("return " + RUNS.format("run", ", capture_output=True") + ".stdout", False),
        ("out = " + RUNS.format("run", ", stdout=subprocess.PIPE"), False),
        ("return " + RUNS.format("check_output", ""), False),
        (RUNS.format("check_output", ""), True),
        ("done = " + RUNS.format("run", ""), True),
        ("done = " + RUNS.format("run", ", capture_output=False"), True),
    ],
)
def test_a_command_that_a_loader_runs_for_its_output_is_no_writer(line: str, writes: bool) -> None:
    """It is there to answer; of any other command nothing else is known than that it may do anything."""
    before = script(imports=f"import subprocess\n{TOOLS}", data=LOADED.format(line=line, made="Rows()"))
    said = [one.message for code in ("OUT03", "NET01") for one in findings(code, before, Level.ADVICE)]
    if writes:
        assert said[0].startswith("whenever a library calls this, each rank writes with `subprocess.")
    else:
        name = line.partition("subprocess")[2].partition("(")[0]
        assert said == [
            f"whenever a library calls this, each rank runs a command with `subprocess{name}`, and reads its output: "
            "right if that does nothing but answer"
        ]
        assert [one.message for one in findings("OUT03", before, Level.NOT_NEEDED)] == [
            "no other files are written, unless by the command that NET01 names, which answers"
        ]


_OPTIONS = (
    "import argparse\nparser = argparse.ArgumentParser()\n"
    'parser.add_argument("--out")\nparser.add_argument("--output_dim", type=int)\nargs = parser.parse_args()\n'
)


@pytest.mark.parametrize("line", ['unheard.save_it(1.0, config["out"])', "unheard.write_it(1.0, config.out)"])
def test_what_says_that_it_writes_is_named_where_it_may_be_given_a_path(line: str) -> None:
    before = script(imports=f"import unheard\n{IMPORTS}", after=f'config = unheard.load("a")\n{line}\n')
    called = line.partition("(")[0]
    assert [one.message for one in findings("OUT03", before, Level.ADVICE) if called in one.message] == [
        f"every rank calls `{called}`, and it is not known what that does: if it writes, or asks somebody, "
        "put it under `if rt.is_main_process():`"
    ]


@pytest.mark.parametrize("line", ["unheard.save_it(1.0)", "unheard.look_at(1.0, config.out)"])
def test_what_is_given_no_path_or_says_nothing_is_not_named(line: str) -> None:
    before = script(imports=f"import unheard\n{IMPORTS}", after=f'config = unheard.load("a")\n{line}\n')
    called = line.partition("(")[0]
    assert [one.message for one in findings("OUT03", before, Level.ADVICE) if called in one.message] == []


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("unheard.thing(args.out)", "unheard.thing"),
        ("unheard.thing(net, to=args.out)", "unheard.thing"),
        ('unheard.Thing(output_dir="out").run()', "unheard.Thing"),
        ('unheard.Thing("a/b").start().run()', "unheard.Thing"),
        ('unheard.thing(directory="out")', "unheard.thing"),
    ],
)
def test_an_argument_or_option_that_is_named_as_a_path_is_one(line: str, called: str) -> None:
    before = script(imports=f"import unheard\n{IMPORTS}", after=f"{_OPTIONS}net = 1\n{line}\n")
    assert [one.message for one in findings("OUT03", before, Level.ADVICE)] == [
        f"every rank calls `{called}` with a path, and it is not known what that does: if it writes, or asks somebody, "
        "put it under `if rt.is_main_process():`"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "unheard.thing(args.output_dim)",
        'unheard.thing(output_format="json")',
        "unheard.thing(output=torch.ones(3))",
        'unheard.thing(output="http://a.b/c")',
        'unheard.thing(root="")',
        'print(unheard.Thing(output_dir="out").value)',
    ],
)
def test_what_is_named_otherwise_is_no_path(line: str) -> None:
    before = script(imports=f"import unheard\n{IMPORTS}", after=f"{_OPTIONS}{line}\n")
    assert findings("OUT03", before, Level.ADVICE) == []


@pytest.mark.parametrize("given", ['{"at": os.path.join(folder, "a.bin")}', '{}, separators=(",", ":"), default=str'])
def test_what_returns_a_text_writes_nothing_whatever_is_in_it(given: str) -> None:
    lines = f'folder = "runs/a"\ntext = json.dumps({given})\nmore = pickle.dumps(os.path.join(folder, "b.bin"))\n'
    assert findings("OUT03", script(imports=TOOLS, setup=lines), Level.ADVICE) == []
    wrong = lines.replace("more = pickle.dumps(", "more = unknown.dump(")
    assert findings("OUT03", script(imports=f"{TOOLS}import unknown\n", setup=wrong), Level.ADVICE) != []


@pytest.mark.parametrize("given", ["time.time() - began", "time.perf_counter()", "end - began"])
def test_seconds_are_no_path(given: str) -> None:
    setup = "began = time.time()\nend = time.time()\n" + f"meter = unknown.Meter()\nmeter.keep({given})\n"
    imports = f"{TOOLS}import time\nimport unknown\n"
    assert findings("OUT03", script(imports=imports, setup=setup), Level.ADVICE) == []
    named = setup.replace(f"keep({given})", 'keep(f"runs/{time.time()}")')
    assert findings("OUT03", script(imports=imports, setup=named), Level.ADVICE) != []


@pytest.mark.parametrize(("given", "is_a_path"), [("__name__", False), ("name", False), ('"models.json"', True)])
def test_the_name_of_a_module_is_no_path(given: str, is_a_path: bool) -> None:
    parts = f"import arena\n\n\ndef made(name):\n    return arena.get_logger({given})\n\n\nlog = made(__name__)\n"
    before = script(imports=f"import models.parts\n{IMPORTS}")
    seen = conversion_of(before, files={"models/__init__.py": "", "models/parts.py": parts})
    assert any("with a path" in one.message for one in seen.of(Level.ADVICE)) is is_a_path


KEEPING = """\
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


"""


def test_what_autograd_keeps_is_no_file_wherever_it_comes_from() -> None:
    after = 'path = os.path.join("out", os.listdir("out")[0])\nprint(Scaled.apply(unheard.read(path)))\n'
    new = converted(script(imports=UNHEARD + IMPORTS, setup=KEEPING, after=after.replace("unheard.read(path)", "path")))
    assert "    def forward(ctx, x):\n        ctx.save_for_backward(x)\n" in new
