"""PATH01: what the disk says is rank 0's wherever it steers a path, a branch or a meeting."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import IMPORTS, LOOP, blocked, changes, converted, findings, indented, line_of, script

TOOLS = (
    "import glob\nimport json\nimport os\nimport re\nimport shutil\nimport tempfile\n"
    f"from pathlib import Path\n{IMPORTS}"
)
MAKES = 'os.makedirs("runs/%d" % (number + 1))\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            'numbers = [int(m.group(1)) for m in (re.match(r"v(\\d+)", d) for d in os.listdir("runs")) if m]\n'
            "number = max(numbers, default=-1)\n",
            'for d in rt.from_main_process(os.listdir("runs"))) if m]\n', id="through calls that are not known"),
        pytest.param('number = len(list(Path("runs").glob("*")))\n',
                     'number = len(rt.from_main_process(list(Path("runs").glob("*"))))\n', id="what is gone through"),
        pytest.param('number = 0\nfor path in Path("runs").iterdir():\n    number += 1\n',
                     'for path in rt.from_main_process(list(Path("runs").iterdir())):\n', id="counted by a loop"),
        pytest.param('number = sum(1 for path in Path("runs").iterdir() if path.is_dir())\n',
                     'number = rt.call_on_main_process(lambda: sum(1 for path in Path("runs").iterdir() '
                     "if path.is_dir()))\n", id="asked again of what is found"),
        pytest.param('number = len(os.listdir("runs") if os.path.isdir("runs") else [])\n',
                     'len(rt.call_on_main_process(lambda: os.listdir("runs") if os.path.isdir("runs") else []))\n',
                     id="under a test of each rank's own"),
        pytest.param('number = len(os.path.isdir("runs") and os.listdir("runs") or [])\n',
                     'rt.call_on_main_process(lambda: os.path.isdir("runs") and os.listdir("runs"))', id="and"),
        pytest.param('number = len([entry.name for entry in os.scandir("runs") if entry.is_dir()])\n',
                     'rt.call_on_main_process(lambda: [entry.name for entry in os.scandir("runs") if entry.is_dir()])',
                     id="names of entries"),
        pytest.param('number = sum(os.path.exists(f"runs/{i}") for i in range(9))\n',
                     'sum(rt.from_main_process(os.path.exists(f"runs/{i}")) for i in range(9))', id="how many exist"),
        pytest.param('number = 1 if Path("runs").is_symlink() or Path("runs").exists() else 0\n',
                     'rt.call_on_main_process(lambda: Path("runs").is_symlink() or Path("runs").exists())', id="or"),
        pytest.param('number = int(os.path.getmtime("runs"))\n',
                     'int(rt.from_main_process(os.path.getmtime("runs")))', id="an age"),
    ],
)  # fmt: skip
def test_rank_zero_tells_what_steers_a_path(before: str, after: str) -> None:
    assert after in converted(script(imports=TOOLS, setup=before + MAKES))


@pytest.mark.parametrize(
    "setup",
    [
        'def last():\n    if not os.path.isdir("runs"):\n        return -1\n    return len(os.listdir("runs"))\n\n\n'
        f"number = last()\n{MAKES}",
        'number = -1\nif os.path.isdir("runs"):\n    number = len(os.listdir("runs"))\n' + MAKES,
    ],
)
def test_ranks_meet_behind_no_test_of_their_own(setup: str) -> None:
    """Rank 0 has made the folder meanwhile: the others would wait for what rank 0 has told nobody."""
    new = converted(script(imports=TOOLS, setup=setup))
    assert 'rt.from_main_process(os.path.isdir("runs"))' in new
    assert 'rt.from_main_process(os.listdir("runs"))' in new


def test_entries_of_a_folder_cannot_be_sent() -> None:
    setup = f'number = 0\nfor entry in os.scandir("runs"):\n    number += 1\n{MAKES}'
    assert ("PATH01", line_of(script(imports=TOOLS, setup=setup), "os.scandir")) in blocked(
        script(imports=TOOLS, setup=setup)
    )


def test_folder_that_is_made_here() -> None:
    setup = 'folder = tempfile.mkdtemp(dir=".")\n'
    assert 'rt.call_on_main_process(tempfile.mkdtemp, dir=".")' in converted(script(imports=TOOLS, setup=setup))


def test_folder_that_is_removed_again() -> None:
    after = 'folder = tempfile.mkdtemp()\nnp.save(f"{folder}/a.npy", [1])\nshutil.rmtree(folder)\n'
    new = converted(script(imports=f"import numpy as np\n{TOOLS}", after=after))
    assert "folder = rt.call_on_main_process(tempfile.mkdtemp)\n" in new


def test_age_of_what_rank_zero_removes() -> None:
    """Another rank would ask for the age of a file that is gone."""
    after = 'for path in sorted(glob.glob("*.pt"), key=os.path.getmtime)[:-2]:\n    os.remove(path)\n'
    new = converted(
        script(imports=TOOLS, after=f"for turn in range(2):\n    {after.replace(chr(10), chr(10) + '    ')}")
    )
    assert 'in rt.call_on_main_process(lambda: sorted(glob.glob("*.pt"), key=os.path.getmtime))[:-2]:' in new


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ('torch.save([], "m.pt")\nprint(os.path.getsize("m.pt") / 1e6)\n',
         'print(rt.call_on_main_process(lambda: os.path.getsize("m.pt")) / 1e6)\n'),
        ('torch.save([], "m.pt")\nif os.path.exists("m.pt"):\n    print(os.path.getsize("m.pt"))\n',
         'if rt.from_main_process(os.path.exists("m.pt")):\n'
         '    print(rt.call_on_main_process(lambda: os.path.getsize("m.pt")))\n'),
        ('for turn in range(2):\n    new = not os.path.exists("a.csv") or os.path.getsize("a.csv") == 0\n'
         '    open("a.csv", "a").write("row")\n',
         'new = rt.call_on_main_process(lambda: not os.path.exists("a.csv") or os.path.getsize("a.csv") == 0)\n'),
        ('path = Path("a.csv")\nfor turn in range(2):\n    if path.exists() and path.stat().st_size > 8:\n'
         '        print("long")\n    open(path, "a").write("row")\n',
         "if rt.call_on_main_process(lambda: path.exists() and path.stat().st_size > 8):\n"),
        ('torch.save([], "m.pt")\nsize = Path("m.pt").stat().st_size\nprint(size)\n',
         'size = rt.call_on_main_process(lambda: Path("m.pt").stat().st_size)\n'),
        ('log = input()\nf = open(log, "a")\nif os.stat(log).st_size == 0:\n    f.write("loss")\n',
         "if rt.call_on_main_process(lambda: os.stat(log).st_size) == 0:\n"),
        ('def opened(path):\n    f = path.open("a")\n    if not path.stat().st_size:\n        f.write("loss")\n'
         '    return f\n\n\nf = opened(Path(input()))\nf.write("0")\n',
         "if not rt.call_on_main_process(lambda: path.stat().st_size):\n"),
    ],
)  # fmt: skip
def test_size_of_what_rank_zero_alone_writes(after: str, told: str) -> None:
    """Another rank may find no such file: it must not even ask."""
    assert told in converted(script(imports=TOOLS, after=after))
    claims = [one.message for one in findings("PATH01", script(imports=TOOLS, after=after), Level.NOT_NEEDED)]
    assert claims == []


@pytest.mark.parametrize(
    "after",
    [
        pytest.param('torch.save([], "m.pt")\nprint(os.path.getsize("data.bin"))\n', id="another file"),
        pytest.param('print(os.path.getsize("m.pt"))\ntorch.save([], "m.pt")\n', id="before it is written"),
        pytest.param('torch.save([], os.environ["OUT"])\nprint(os.path.getsize(os.environ["IN"]))\n',
                     id="nothing says it is that"),
        pytest.param('with open("log.csv", "a") as f:\n    if os.path.getsize("log.csv") == 0:\n'
                     '        f.write("loss")\n', id="rank 0 is alone there"),
    ],
)  # fmt: skip
def test_size_that_each_rank_may_ask_for(after: str) -> None:
    new = converted(script(imports=TOOLS, after=after))
    assert "call_on_main_process" not in new
    assert "from_main_process" not in new


UNPACKED = 'if not os.path.exists("data"):\n    shutil.unpack_archive("a.zip", ".")\n'
HEARD = 'rt.call_on_main_process(lambda: os.listdir("data/x"))'
TEXTS = 'texts = []\nfor name in sorted(os.listdir("data/x")):\n    texts.append(json.load(open("data/x/" + name)))\n'


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        pytest.param('names = os.listdir("data/x")\nlength = len(open("data/x/" + names[0]).read())\n',
                     f"names = {HEARD}\n", id="names"),
        pytest.param(TEXTS, f"for name in sorted({HEARD}):\n", id="a loop"),
        pytest.param('for path in Path("data/x").iterdir():\n    json.load(open(path))\n',
                     'for path in rt.call_on_main_process(lambda: list(Path("data/x").iterdir())):\n', id="paths"),
        pytest.param('for path in glob.glob("data/x/*"):\n    json.load(open(path))\n',
                     'for path in rt.from_main_process(glob.glob("data/x/*")):\n', id="with patterns"),
        pytest.param('classes = sorted(os.listdir("data/x"))\n',
                     'rt.barrier()\nclasses = sorted(os.listdir("data/x"))\n', id="each rank keeps what it finds"),
        pytest.param('count = len(glob.glob("data/x/*"))\n',
                     'rt.barrier()\ncount = len(glob.glob("data/x/*"))\n', id="how many"),
        pytest.param('count = len(glob.glob("d*/x"))\n', 'rt.barrier()\ncount = len(glob.glob("d*/x"))\n',
                     id="a pattern for the folder"),
        pytest.param('print(len(os.listdir("data/x")))\n', 'rt.barrier()\nprint(len(os.listdir("data/x")))\n',
                     id="printed"),
        pytest.param('assert os.path.exists("data/x")\n',
                     'assert rt.from_main_process(os.path.exists("data/x"))\n', id="asserted"),
    ],
)  # fmt: skip
def test_a_folder_that_rank_zero_unpacks_is_not_looked_into_before(asked: str, after: str) -> None:
    """To tell what rank 0 finds is no wait before: who is told has looked by then, and failed."""
    assert after in converted(script(imports=TOOLS, setup=UNPACKED + asked))


def test_a_folder_is_waited_for_once() -> None:
    asked = 'classes = sorted(os.listdir("data/x"))\ncount = len(glob.glob("data/x/*"))\n'
    assert converted(script(imports=TOOLS, setup=UNPACKED + asked)).count("rt.barrier()") == 1


@pytest.mark.parametrize(
    "after",
    [
        pytest.param('{made}torch.save(1, "out/m.pt")\nprint(os.listdir("out"))\n', id="a file in what was there"),
        pytest.param('for turn in range(2):\n    torch.save(1, f"out/{{turn}}.pt")\n    print(glob.glob("out/*"))\n',
                     id="in training"),
        pytest.param('for turn in range(2):\n    torch.save(1, f"out/{{turn}}.pt")\n'
                     '    for path in sorted(glob.glob("out/*"))[:-2]:\n        os.remove(path)\n', id="removed"),
        pytest.param('shutil.unpack_archive("a.zip", "out")\nprint(os.listdir("data"))\n', id="another folder"),
        pytest.param('print(os.listdir("data"))\nshutil.unpack_archive("a.zip", "data")\n', id="before it is unpacked"),
    ],
)  # fmt: skip
def test_a_folder_that_each_rank_may_look_into(after: str) -> None:
    new = converted(script(imports=TOOLS, after=after.format(made='os.makedirs("out", exist_ok=True)\n')))
    assert "rt.barrier()" not in new
    assert "_main_process(" not in new.replace("is_main_process(", "")


def test_files_that_rank_zero_writes_into_a_folder_that_each_rank_makes() -> None:
    made = 'os.makedirs("data", exist_ok=True)\nnumber = 3\ntorch.save(number, f"data/{number}.pt")\n'
    asked = 'paths = [os.path.join("data", name) for name in os.listdir("data")]\n'
    asked += "parts = [open(one) for one in paths]\n"
    new = converted(script(imports=TOOLS, setup=made + asked))
    assert 'for name in rt.from_main_process(os.listdir("data"))]' in new


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param('names = [n for n in os.listdir("data") if re.match("x", n)]\n'
                     'texts = [open(os.path.join("data", n)).read() for n in names]\n', id="data that was there"),
        pytest.param('paths = list(Path("data").glob("*.txt"))\ntexts = [p.read_text() for p in paths]\n', id="paths"),
        pytest.param('size = os.path.getsize("data.bin")\nprint(size)\n', id="printed"),
        pytest.param('oldest = sorted(glob.glob("data/*"), key=os.path.getmtime)[0]\ntext = open(oldest).read()\n',
                     id="nothing is removed"),
    ],
)  # fmt: skip
def test_left_alone(setup: str) -> None:
    assert changes("PATH01", script(imports=TOOLS, setup=setup)) == []


def test_what_is_written_elsewhere_meanwhile() -> None:
    setup = 'names = os.listdir("data")\nwith open("names.json", "w") as file:\n    json.dump(names, file)\n'
    setup += 'texts = [open(os.path.join("data", n)).read() for n in names]\n'
    assert "from_main_process" not in converted(script(imports=TOOLS, setup=setup))
    into = setup.replace("names.json", "data/names.json")
    assert 'names = rt.from_main_process(os.listdir("data"))\n' in converted(script(imports=TOOLS, setup=into))


def test_nothing_is_said_of_all_paths_where_the_disk_is_asked() -> None:
    setup = 'texts = [path.read_text() for path in Path("data").iterdir()]\n'
    said = [one.message for one in findings("PATH01", script(imports=TOOLS, setup=setup), Level.NOT_NEEDED)]
    assert said == ["what the disk is asked was there before the run, and no file is read that the run wrote"]
    after = 'torch.save([], os.environ["OUT"])\nprint(os.path.getsize(os.environ["IN"]))\n'
    said = [one.message for one in findings("PATH01", script(imports=TOOLS, after=after), Level.NOT_NEEDED)]
    assert said == ["no file is read that the run wrote"]
    plain = [one.message for one in findings("PATH01", script(), Level.NOT_NEEDED)]
    assert plain == ["every path is the same on all ranks, and no file is read that the run wrote"]
    best = 'torch.save(model.state_dict(), "best.pt")\nmodel.load_state_dict(torch.load("best.pt"))\n'
    assert "rt.barrier()" in converted(script(after=best))
    said = [one.message for one in findings("PATH01", script(after=best), Level.NOT_NEEDED)]
    waited = "no other file is read that the run wrote than LOAD01 waits for"
    assert said == [f"every path is the same on all ranks, and {waited}"]


FILES = """\
class Files(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).glob("*.pt"))
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        return torch.load(self.files[index])
"""
MADE = 'data = Files("rows")\n'
ROW = 'torch.save((torch.rand(4), torch.rand(1)), Path("rows") / "1.pt")\n'


def test_a_data_set_lists_the_files_that_rank_0_has_written() -> None:
    """Ranks that list too early have fewer samples than rank 0, and take fewer steps."""
    new = converted(script(imports=TOOLS, setup=FILES + ROW, data=MADE))
    assert 'self.files = rt.from_main_process(sorted(Path(folder).glob("*.pt")))\n' in new


@pytest.mark.parametrize(
    "lines",
    [
        "self.files = []\n        self.files.extend([one for one in {}])",
        "self.files = []\n        for one in {}:\n            self.files.append(one)",
        "self.files = dict(enumerate({}))",
    ],
)
def test_a_data_set_that_puts_together_what_it_lists(lines: str) -> None:
    listed, plain = 'sorted(Path(folder).glob("*.pt"))', FILES.split("\n")[2].strip()
    before = script(imports=TOOLS, setup=FILES.replace(plain, lines.format(listed)) + ROW, data=MADE)
    assert f"rt.from_main_process({listed})" in converted(before)


@pytest.mark.parametrize(
    ("setup", "after"), [("", ""), ("", ROW.replace("rows", "out")), ('print(os.path.exists("a"))\n', "")]
)
def test_a_data_set_lists_what_was_there_before(setup: str, after: str) -> None:
    assert "from_main_process" not in converted(script(imports=TOOLS, setup=FILES + setup, data=MADE, after=after))


@pytest.mark.parametrize(
    ("before", "asserted", "after"),
    [
        ("", 'assert not {}, "exists"\n', 'os.makedirs("runs/1")\n'),
        ('os.makedirs("runs/1")\n', "assert {}\n", ""),
        ('np.save("runs/1", [1])\n', "assert {}\n", ""),
        ("", "assert not {}\n", "os.makedirs(input())\n"),
    ],
    ids=["to be new", "made before", "written before", "anything may be made"],
)
def test_what_is_asserted_of_the_disk_is_rank_zeros(before: str, asserted: str, after: str) -> None:
    asked = 'os.path.exists("runs/1")'
    new = converted(script(imports=TOOLS + "import numpy as np\n", setup=before + asserted.format(asked) + after))
    assert asserted.format(f"rt.from_main_process({asked})") in new


@pytest.mark.parametrize(
    ("setup", "after"),
    [
        ('assert os.path.exists("pictures")\nos.makedirs("runs")\n', ""),
        ('assert os.path.exists("runs/1")\n', 'os.makedirs("runs/1")\n'),
        ('os.makedirs("runs")\nassert len(data_names) == 2\n', ""),
        ("", 'torch.save(model.state_dict(), "net.pt")\nassert os.path.isdir("pictures")\n'),
    ],
    ids=["made elsewhere", "made after training", "no file", "written elsewhere"],
)
def test_what_is_asserted_of_other_files_stays(setup: str, after: str) -> None:
    asserted = next(line for line in (setup + after).splitlines() if line.startswith("assert"))
    names = "data_names = input().split()\n"
    assert f"\n{asserted}\n" in converted(script(imports=TOOLS, setup=names + setup, after=after))


READS = """
def read(name):
    path = os.path.join("items", name)
    if not os.path.exists(path):
        path += ".pt"
    return torch.load(path)


class Reader(threading.Thread):
    def __init__(self, name):
        super().__init__()
        self.item = name

    def run(self):
        read(self.item)


def in_threads(names):
    for one in [threading.Thread(target=read, args=(name,)) for name in names]:
        one.start()


def in_own_threads(names):
    for one in [Reader(name) for name in names]:
        one.start()


names = open("names.txt").read().split()
pool, processes = ThreadPoolExecutor(8), multiprocessing.Pool(2)
"""
OF_THREADS = (
    "import multiprocessing\nimport os\nimport threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
    f"import joblib\nfrom joblib import Parallel, delayed\nfrom tqdm.contrib.concurrent import thread_map\n{IMPORTS}"
)


def in_folds(read: str, folder: str = "items") -> str:
    """Files are read in each of two folds, and one is written at the end of each."""
    written = f'    torch.save(model.state_dict(), os.path.join("{folder}", f"last{{fold}}.pt"))\n'
    loop = f"for fold in range(2):\n    {read}\n{indented(LOOP)}{written}"
    return script(imports=OF_THREADS, setup=READS, loop=loop)


@pytest.mark.parametrize(
    "read",
    [
        "list(pool.map(read, names))", "[pool.submit(read, name) for name in names]",
        "list(pool.map(lambda name: read(name), names))", "processes.map(read, names)",
        "Parallel(n_jobs=4)(delayed(read)(name) for name in names)", "thread_map(read, names)", "in_threads(names)",
    ],
)  # fmt: skip
def test_nobody_meets_in_what_runs_beside_the_script(read: str) -> None:
    """Threads come in any order, and a rank would get the answer about another file."""
    new = converted(in_folds(read))
    assert "    if not os.path.exists(path):\n" in new
    said = [one.message for one in findings("PATH01", in_folds(read), Level.ADVICE)]
    line = line_of(in_folds(read), "[threading.Thread(" if read == "in_threads(names)" else f"    {read}")
    assert [f"runs beside the script (line {line}) ranks cannot meet" in one for one in said] == [True], said


def test_nobody_meets_in_a_thread_of_a_class_of_its_own() -> None:
    """Also where the same function is called by the script."""
    source = in_folds("in_own_threads(names), read(names[0])")
    assert "    if not os.path.exists(path):\n" in converted(source)
    assert [one.place.line for one in findings("PATH01", source, Level.ADVICE) if one.place is not None] == [
        line_of(source, "os.path.exists(path)")
    ]


@pytest.mark.parametrize("read", ["[read(name) for name in names]", 'joblib.Memory("kept").cache(read)(names[0])'])
def test_rank_zero_tells_what_each_rank_asks_by_itself(read: str) -> None:
    assert "    if not rt.from_main_process(os.path.exists(path)):\n" in converted(in_folds(read))


@pytest.mark.parametrize(
    ("folder", "told"), [("outputs", False), ("items", True), ("items/of/this", True), ("/data", True)]
)
def test_what_is_written_elsewhere_changes_no_answer(folder: str, told: bool) -> None:
    new = converted(in_folds("[read(name) for name in names]", folder))
    assert ("rt.from_main_process(os.path.exists(path))" in new) is told


def test_a_name_that_is_made_beside_the_script_cannot_be_told() -> None:
    setup = (
        'def keep(number):\n    name = time.strftime("%H-%M-%S")\n    os.makedirs(f"runs/{name}", exist_ok=True)\n\n\n'
        "list(ThreadPoolExecutor(2).map(keep, range(3)))\n"
    )
    source = script(imports=f"import time\n{OF_THREADS}", setup=setup)
    assert ("PATH01", line_of(source, "time.strftime")) in blocked(source)


COUNTED = f"""\
os.makedirs("kept", exist_ok=True)
counts = []
{LOOP}    torch.save(model.state_dict(), f"kept/{{epoch}}.pt")
"""
SLOWER = '        optimizer.param_groups[0]["lr"] *= 0.5\n'


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (f'    if len(os.listdir("kept")) > 1:\n{SLOWER}', 'if len(rt.from_main_process(os.listdir("kept"))) > 1:'),
        (
            '    if len(os.listdir("kept")) > 1:\n        model.requires_grad_(False)\n',
            'if len(rt.from_main_process(os.listdir("kept"))) > 1:',
        ),
        (
            f'    counts.append(len(glob.glob("kept/*")))\n    if counts[-1] > 1:\n{SLOWER}',
            'counts.append(len(rt.from_main_process(glob.glob("kept/*"))))',
        ),
    ],
)
def test_what_training_goes_by_of_the_files_that_it_writes(asked: str, told: str) -> None:
    assert f"    {told}\n" in converted(script(imports=TOOLS, loop=COUNTED + asked))


@pytest.mark.parametrize(
    "asked",
    [
        '    print(epoch, len(os.listdir("kept")))\n',
        f'    if len(os.listdir("data")) > 1:\n{SLOWER}',
    ],
)
def test_what_is_only_shown_or_was_there_before(asked: str) -> None:
    assert "from_main_process" not in converted(script(imports=TOOLS, loop=COUNTED + asked))
