"""PATH01: all ranks mean the same file, and find it there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from distify_codemods import Level, Options

from distify.engine import convert_script
from distify.files import read_script
from distify.resolver import LocalModules
from tests.rules.scripts import (
    DATA,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    blocked,
    changes,
    converted,
    distributed,
    findings,
    indented,
    line_of,
    script,
)

TOOLS = (
    "import glob\nimport json\nimport os\nimport tempfile\nimport time\nimport uuid\nfrom datetime import datetime\n"
    f"from pathlib import Path\nimport numpy as np\n{IMPORTS}"
)
ON_MAIN = "if rt.is_main_process():\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('os.makedirs("runs/" + str(time.time()))\n',
         'rt.call_on_main_process(os.makedirs, "runs/" + str(time.time()))\n'),
        ('os.makedirs(os.path.join("runs", datetime.now().strftime("%H")), exist_ok=True)\n',
         'os.makedirs(os.path.join("runs", rt.from_main_process(datetime.now().strftime("%H"))), exist_ok=True)\n'),
        ('os.makedirs(f"runs/{uuid.uuid4().hex}", exist_ok=True)\n',
         'os.makedirs(f"runs/{rt.from_main_process(uuid.uuid4().hex)}", exist_ok=True)\n'),
        ('os.makedirs("%s" % time.strftime("%H", time.localtime()), exist_ok=True)\n',
         'os.makedirs("%s" % rt.from_main_process(time.strftime("%H", time.localtime())), exist_ok=True)\n'),
        ('(Path("runs") / str(os.getpid())).mkdir(exist_ok=True)\n',
         '(Path("runs") / str(rt.from_main_process(os.getpid()))).mkdir(exist_ok=True)\n'),
        ('os.makedirs(f"run{len(os.listdir())}", exist_ok=True)\n',
         'os.makedirs(f"run{len(rt.from_main_process(os.listdir()))}", exist_ok=True)\n'),
        ('folder = tempfile.mkdtemp(prefix="a")\nos.makedirs(folder, exist_ok=True)\n',
         'folder = rt.call_on_main_process(tempfile.mkdtemp, prefix="a")\nos.makedirs(folder, exist_ok=True)\n'),
        ('name = input("name? ")\n', 'name = rt.call_on_main_process(input, "name? ")\n'),
        ('from tkinter import filedialog\nname = filedialog.askopenfilename(title="data")\n',
         'from tkinter import filedialog\n'
         'name = rt.call_on_main_process(filedialog.askopenfilename, title="data")\n'),
        ("if input() == 'y':\n    done = 1\n", "if rt.call_on_main_process(input) == 'y':\n    done = 1\n"),
        ('try:\n    os.makedirs("a")\nexcept FileExistsError:\n    raise SystemExit("there")\n',
         'try:\n    rt.call_on_main_process(os.makedirs, \"a\")\nexcept FileExistsError:\n'
         '    raise SystemExit(\"there\")\n'),
    ],
)  # fmt: skip
def test_one_name_for_all(before: str, after: str) -> None:
    assert converted(script(imports=TOOLS, after=before)) == distributed(imports=TOOLS, after=after)


def test_group_comes_before_the_first_name() -> None:
    """The name travels through functions, attributes and dictionaries; the ranks have met before it is made."""
    setup = """class Settings:
    def __init__(self, stamp):
        self.folder = {"path": os.path.join("runs", stamp)}


settings = Settings(time.strftime("%H"))
os.makedirs(settings.folder["path"])
"""
    new = converted(script(imports=TOOLS, setup=setup))
    made = 'settings = Settings(rt.from_main_process(time.strftime("%H")))\n'
    assert f'{GROUP}{made}rt.call_on_main_process(os.makedirs, settings.folder["path"])\n' in new
    assert new.count(GROUP) == 1


OPTION = "import argparse\nparser = argparse.ArgumentParser()\n{}args = parser.parse_args()\n"
MADE = 'time.strftime("%H%M")'


@pytest.mark.parametrize(
    ("declared", "folder"),
    [
        ('parser.add_argument("--out", default={})\n', "args.out"),
        ('parser.add_argument("--out-dir", type=str, default="runs/" + {})\n', "args.out_dir"),
        ("parser.set_defaults(out={})\n", "args.out"),
    ],
)
def test_an_option_that_is_named_by_the_time_unless_it_is_given(declared: str, folder: str) -> None:
    setup = OPTION.format(declared) + f'os.makedirs({folder}, exist_ok=True)\nopen({folder} + "/a").read()\n'
    new = converted(script(imports=TOOLS, setup=setup.format(MADE)))
    assert declared.format(f"rt.from_main_process({MADE})") in new
    assert new.index(GROUP) < new.index("rt.from_main_process(")


def test_a_parameter_of_a_command_that_is_named_by_the_time() -> None:
    setup = (
        'import fire\n\n\ndef main(out={}):\n    os.makedirs(out)\n    open(out + "/a").read()\n\n\nfire.Fire(main)\n'
    )
    new = converted(script(imports=TOOLS, setup=setup.format(MADE)))
    assert f"def main(out=rt.from_main_process({MADE})):" in new


@pytest.mark.parametrize("used", ["print(args.out)", "x = 'a' + args.out"])
def test_an_option_that_names_no_file(used: str) -> None:
    declared = f'parser.add_argument("--out", default={MADE})\n'
    new = converted(script(imports=TOOLS, setup=OPTION.format(declared) + f"{used}\n"))
    assert declared in new


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("start = time.time()\nprint(time.time() - start)\n", id="a duration"),
        pytest.param('np.save(f"{time.time()}.npy", [1])\n', id="a name that rank 0 alone uses"),
        pytest.param('folder = tempfile.mkdtemp()\nnp.save(f"{folder}/a.npy", [1])\n', id="a folder of rank 0 alone"),
        pytest.param('if not os.path.exists("a"):\n    np.save("a", [1])\n', id="a test before a file is written"),
        pytest.param('values = np.load("a.npy")\nnp.save("b.npy", values)\n', id="read before anything is written"),
        pytest.param('np.save("a.npy", [1])\nvalues = np.load("b.npy")\n', id="another file is read"),
        pytest.param("def input(text):\n    return text\n\n\nname = input('x')\n", id="own input"),
        pytest.param('names = os.listdir()\nvalues = [np.load(name) for name in names]\n',
                     id="what the data folder holds"),
    ],
)  # fmt: skip
def test_left_alone(after: str) -> None:
    assert changes("PATH01", script(imports=TOOLS, after=after)) == []


def test_cache_that_rank_zero_builds() -> None:
    """Rank 1 may look when rank 0 has begun to write: all take rank 0's way."""
    setup = """if os.path.exists("cache.npy"):
    values = np.load("cache.npy")
else:
    values = np.ones(3)
    np.save("cache.npy", values)
print(values)
"""
    new = converted(script(imports=TOOLS, setup=setup))
    assert 'if rt.from_main_process(os.path.exists("cache.npy")):\n' in new
    assert '    if rt.is_main_process():\n        np.save("cache.npy", values)\n' in new
    assert new.index(GROUP) < new.index("rt.from_main_process")


def test_answer_kept_in_a_variable() -> None:
    setup = """values = 0
there = Path("cache.npy").exists()
if not there:
    values = np.ones(3)
    np.save("cache.npy", values)
print(values)
"""
    new = converted(script(imports=TOOLS, setup=setup))
    assert 'there = rt.from_main_process(Path("cache.npy").exists())\n' in new


@pytest.mark.parametrize(
    ("write", "read"),
    [
        ('np.save("a.npy", [1])\n', 'values = np.load("a.npy")\n'),
        ('with open("a", "w") as f:\n    f.write("x")\n', 'with open("a") as f:\n    text = f.read()\n'),
        ('with open("a", "w") as f:\n    f.write("x")\n', 'for line in open("a"):\n    last = line\n'),
        ('Path("a").write_text("x")\n', 'text = Path("a").read_text()\n'),
        ('with Path("a").open("w") as f:\n    json.dump(1, f)\n', 'value = json.loads(Path("a").read_text())\n'),
    ],
)
def test_read_once_it_is_written(write: str, read: str) -> None:
    guarded = ON_MAIN + "".join(f"    {line}" for line in write.splitlines(keepends=True))
    expected = distributed(imports=TOOLS, after=f"{guarded}rt.barrier()\n{read}")
    assert converted(script(imports=TOOLS, after=write + read)) == expected


READERS = "import h5py\nimport unheard\nimport zipfile\nimport subprocess\n"


@pytest.mark.parametrize(
    ("fetch", "read"),
    [
        pytest.param('os.system("fetch a.h5")\n', 'x = h5py.File("a.h5")["x"][:]\n', id="opened to be read"),
        pytest.param('os.system("fetch a.h5")\n', 'x = unheard.values("a.h5")\n', id="reader that is not known"),
        pytest.param('os.system("fetch")\n', 'x = unheard.Values()\nx.of(f"{name}/a.h5")\n', id="method of one"),
        pytest.param('subprocess.run(["fetch"])\n', 'x = unheard.Values()(Path(name) / "a")\n', id="object called"),
        pytest.param(
            'Path("a").write_bytes(b"")\n',
            'x = unheard.values(f"a")\nx = unheard.values(Path("a"))\n',
            id="path in another form",
        ),
        pytest.param('np.save("in/a", [1])\n', 'x = np.load("in/a.npy")\n', id="with the ending that is added"),
        pytest.param('zipfile.ZipFile("a.zip").extractall("in")\n', 'x = np.load("in/a.npy")\n', id="unpacked"),
    ],
)
def test_whoever_reads_waits_for_what_rank_zero_fetches(fetch: str, read: str) -> None:
    imports = READERS + TOOLS
    new = converted(script(imports=imports, setup='name = "in"\n' + fetch + read))
    lines = read.splitlines()
    assert new.index(ON_MAIN + "    " + fetch) < new.index("rt.barrier()\n" + lines[-1])


@pytest.mark.parametrize(
    "read",
    [
        pytest.param('x = unheard.values("train")\n', id="no path"),
        pytest.param("x = unheard.values(3)\n", id="number"),
        pytest.param('x = unheard.values("b.h5")\n', id="another path"),
        pytest.param('x = os.path.join("in", "a.h5")\n', id="a name alone"),
        pytest.param('x = json.loads("{}")\n', id="library that is known"),
        pytest.param('def values(path):\n    return 1\n\n\nx = values("a.h5")\n', id="function of the script"),
    ],
)
def test_who_does_not_read_it_does_not_wait(read: str) -> None:
    setup = 'Path("a.h5").write_bytes(b"")\nnp.save("a.h5", [1])\n'
    if "b.h5" in read:
        setup = 'np.save("a.h5", [1])\n'
    assert "barrier" not in converted(script(imports=READERS + TOOLS, setup=setup + read))


def test_archive_is_unpacked_by_who_fetches_it() -> None:
    setup = """with open("a.zip", "wb") as out:
    out.write(b"")
with zipfile.ZipFile("a.zip") as archive:
    archive.extractall("in")
x = np.load("in/a.npy")
"""
    new = converted(script(imports=READERS + TOOLS, setup=setup))
    unpacked = '    with zipfile.ZipFile("a.zip") as archive:\n        archive.extractall("in")\n'
    assert f'{ON_MAIN}{unpacked}rt.barrier()\nx = np.load("in/a.npy")\n' in new
    assert new.count("barrier") == 1


def test_files_of_a_folder_that_is_fetched_are_listed_once_they_are_there() -> None:
    setup = """def fetch():
    if not os.path.exists("in"):
        os.system("fetch in")


def read():
    fetch()
    return [h5py.File(name)["x"] for name in glob.glob("in/*.h5")]


values = read()
"""
    new = converted(script(imports=READERS + TOOLS, setup=setup))
    guarded = '    if rt.is_main_process():\n        if not os.path.exists("in"):\n            os.system("fetch in")\n'
    assert guarded in new
    listed = (
        '    rt.barrier()\n    return [h5py.File(name)["x"] for name in rt.from_main_process(glob.glob("in/*.h5"))]\n'
    )
    assert listed in new


def test_read_in_a_function_that_opens_it() -> None:
    after = 'def show():\n    with open("a") as f:\n        print(f.read())\n\n\nnp.save("a", [1])\nshow()\n'
    new = converted(script(imports=TOOLS, after=after))
    assert "    rt.barrier()\n    with open(" in new


@pytest.mark.parametrize(
    ("after", "part"),
    [
        ('d = tempfile.TemporaryDirectory()\nnp.save(d.name + "/a.npy", [1])\nv = np.load(d.name + "/a.npy")\n',
         "TemporaryDirectory"),
    ],
)  # fmt: skip
def test_left_to_a_person(after: str, part: str) -> None:
    before = script(imports=TOOLS, after=after)
    assert ("PATH01", line_of(before, part)) in blocked(before)


def test_a_temporary_folder_of_a_block_is_one_for_all() -> None:
    block = '    np.save(d + "/a.npy", [1])\n    v = np.load(d + "/a.npy")\n'
    after = f'with tempfile.TemporaryDirectory(prefix="a") as d:\n{block}'
    new = converted(script(imports=TOOLS, after=after))
    assert 'with rt.TemporaryDirectory(prefix="a") as d:\n    if rt.is_main_process():\n        np.save(d' in new
    assert "    rt.barrier()\n    v = np.load" in new


def test_a_temporary_folder_that_is_only_written_to_is_each_ranks_own() -> None:
    after = 'with tempfile.TemporaryDirectory() as d:\n    np.save(d + "/a.npy", [1])\n'
    assert "with tempfile.TemporaryDirectory() as d:\n" in converted(script(imports=TOOLS, after=after))


def test_a_folder_is_made_anew_once_the_old_one_is_gone() -> None:
    """Rank 0's rmtree would else fail on, or take away, what another rank has just made."""
    tools = TOOLS + "import shutil\n"
    setup = 'if os.path.exists("run"):\n    shutil.rmtree("run")\nos.makedirs("run")\nos.makedirs("run/best")\n'
    new = converted(script(imports=tools, setup=setup))
    removed = 'if rt.is_main_process():\n    if os.path.exists("run"):\n        shutil.rmtree("run")\n'
    made = 'rt.barrier()\nos.makedirs("run", exist_ok=True)\nos.makedirs("run/best", exist_ok=True)\n'
    assert removed + made in new
    assert new.count("barrier") == 1


GONE = "a folder is made once rank 0 has removed the old one"
PERHAPS = "ranks wait for rank 0, which may have moved or removed what is there, before they make a folder"


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ('shutil.rmtree("run")\nos.makedirs("run/best")\n', GONE),
        ("shutil.rmtree(folder)\nos.makedirs(folder)\n", GONE),
        ('shutil.rmtree(folder)\nos.makedirs(os.path.join(folder, "best"))\n', GONE),
        ('shutil.rmtree(folder)\nos.makedirs(f"{folder}/best")\n', GONE),
        ('shutil.rmtree(place)\n(place / "best").mkdir(parents=True)\n', GONE),
        ("def anew(path):\n    shutil.rmtree(path)\n    os.makedirs(path)\n\n\nanew(folder)\n", GONE),
        ("shutil.rmtree(folder)\nos.makedirs(other)\n", PERHAPS),
        ("shutil.move(folder, other)\nos.makedirs(folder)\n", PERHAPS),
        ("os.rename(folder, other)\nos.makedirs(folder)\n", PERHAPS),
        ('os.system("sh prepare.sh")\nos.makedirs("run")\n', PERHAPS),
    ],
)
def test_of_a_folder_it_is_said_what_rank_0_does_there(setup: str, said: str) -> None:
    """That the old one is removed is said only where that is seen."""
    tools = TOOLS + "import pathlib\nimport shutil\nimport sys\n"
    given = "folder, other = sys.argv[1], sys.argv[2]\nplace = pathlib.Path(folder)\n"
    before = script(imports=tools, setup=given + setup)
    found = [one.message for one in findings("PATH01", before, Level.APPLIED)]
    assert [one for one in found if one in (GONE, PERHAPS)] == [said]


@pytest.mark.parametrize(
    "setup",
    [
        'os.remove("a.txt")\nos.makedirs("run")\n',
        'shutil.rmtree("old")\nos.makedirs("run")\n',
        'os.makedirs("run", exist_ok=True)\n',
    ],
)
def test_where_no_folder_is_removed_none_is_waited_for(setup: str) -> None:
    before = script(imports=TOOLS + "import shutil\n", setup=setup)
    assert "rt.barrier()" not in converted(before)
    assert not {GONE, PERHAPS} & {one.message for one in findings("PATH01", before, Level.APPLIED)}


def test_a_listing_of_what_the_run_wrote_is_rank_0s() -> None:
    after = 'np.save("a/1.npy", [1])\nfound = sorted(glob.glob("a/*.npy"))\nv = np.load(found[-1])\n'
    new = converted(script(imports=TOOLS, after=after))
    assert 'found = sorted(rt.from_main_process(glob.glob("a/*.npy")))\nrt.barrier()\nv = np.load' in new
    before = 'found = sorted(glob.glob("a/*.npy"))\n'
    assert before in converted(script(imports=TOOLS, setup=before + "v = np.load(found[-1])\n"))


def test_files_that_are_listed_before_a_loop_are_waited_for_once() -> None:
    read = "    image = cv2.imread('in/' + name)\n    cv2.imwrite(target + name, image)\n"
    before = f"import cv2\ntarget = os.environ['OUT']\nfor name in os.listdir('in'):\n{read}"
    after = converted(script(imports=TOOLS, after=before))
    assert "rt.barrier()\nfor name in os.listdir('in'):\n    image = cv2.imread" in after
    assert after.count("rt.barrier()") == 1


@pytest.mark.parametrize(
    "leave",
    ["exit()", "quit()", "sys.exit(1)", "os._exit(1)", "raise SystemExit", "stop()", 'print("done"); exit()'],
)
def test_who_leaves_where_a_folder_is_there_is_asked_by_all(leave: str) -> None:
    """Rank 0 makes the folder next: another rank, which looks later, must not take it for one of an earlier run."""
    imports = f"import os\nimport sys\n{IMPORTS}\n\ndef stop():\n    exit(1)\n\n"
    setup = f'if os.path.exists("run"):\n    {leave}\nos.makedirs("run")\n'
    assert 'if rt.from_main_process(os.path.exists("run")):\n' in converted(script(imports=imports, setup=setup))


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param('if os.path.exists("run"):\n    print("there")\nos.makedirs("run")\n', id="message"),
        pytest.param('if not os.path.exists("run"):\n    os.makedirs("run")\n', id="folder"),
        pytest.param('if not os.path.exists("run"):\n    exit()\n', id="nothing is written"),
        pytest.param('if not os.path.exists("run"):\n    os.makedirs("run")\n    stop()\n', id="own function"),
    ],
)
def test_who_does_not_leave_asks_alone(setup: str) -> None:
    imports = f"import os\n{IMPORTS}\n\ndef stop():\n    return str(1)\n\n"
    assert "from_main_process" not in converted(script(imports=imports, setup=setup))


STAMP = "from datetime import datetime\nimport os\nimport json\nimport unheard\n"
NOW = 'stamp = datetime.now().strftime("%H%M")\n'


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param('options = json.loads("{}")\noptions["root"] = os.path.join("out", stamp)\n', id="configuration"),
        pytest.param('options = json.loads("{}")\noptions["paths"]["log"] = f"out/{stamp}"\n', id="part of it"),
        pytest.param('unheard.Trainer(os.path.join("out", stamp))\n', id="what is not known"),
        pytest.param('root = "out/" + stamp\nunheard.Trainer(folder=root)\n', id="name"),
    ],
)
def test_a_path_of_the_time_that_goes_out_of_sight_is_one_for_all(setup: str) -> None:
    new = converted(script(imports=f"{STAMP}{IMPORTS}", setup=NOW + setup))
    assert 'stamp = rt.from_main_process(datetime.now().strftime("%H%M"))\n' in new


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param('options = json.loads("{}")\noptions["started"] = stamp\n', id="no path"),
        pytest.param('options = {}\noptions["root"] = os.path.join("out", stamp)\n', id="dictionary of its own"),
        pytest.param("unheard.note(stamp)\n", id="note"),
        pytest.param('print(os.path.join("out", stamp))\n', id="print"),
        pytest.param('options = json.loads("{}")\noptions["root"] = os.path.join("out", "a")\n', id="no time"),
    ],
)
def test_a_time_that_names_nothing_stays(setup: str) -> None:
    assert "from_main_process" not in converted(script(imports=f"{STAMP}{IMPORTS}", setup=NOW + setup))


def _with_hydra(lines: str = "", given: str = "config_path='conf', config_name='config', version_base=None") -> str:
    train = indented(f"{DATA}{LOADER}{MODEL}{OPTIMIZER}{LOOP}")
    return f"import sys\nimport hydra\n{IMPORTS}\n\n{lines}@hydra.main({given})\ndef main(cfg):\n{train}\n\nmain()\n"


_ALL_OF_HYDRAS = (
    "`hydra.main` makes an output folder named by the time on each rank, and perhaps goes into it and keeps files of "
    "its own there: give all ranks one name, and no such files, by `hydra.run.dir=outputs/NAME "
    "hydra.output_subdir=null hydra/job_logging=stdout` on the command line, unless the configuration does"
)


def test_what_hydra_writes_by_itself_is_told() -> None:
    before = _with_hydra()
    assert [one.message for one in findings("OUT03", before, Level.ADVICE)] == [_ALL_OF_HYDRAS]
    assert findings("OUT03", before, Level.NOT_NEEDED) == []
    (claim,) = findings("PATH01", before, Level.NOT_NEEDED)
    assert "every path" not in claim.message
    assert findings("OUT03", before.replace("hydra.main", "hydra.utils.call"), Level.ADVICE) == []


@pytest.mark.parametrize("line", ["sys.argv.append({!r})\n", "sys.argv += [{!r}]\n"])
def test_a_name_that_a_script_gives_to_hydras_folder(line: str) -> None:
    more = "".join(map(line.format, ["hydra.output_subdir=null", "hydra/job_logging=none"]))
    (advice,) = findings("OUT03", _with_hydra(line.format("hydra.run.dir=out")), Level.ADVICE)
    assert advice.message == (
        "`hydra.main` keeps files of its own in the output folder, as every rank does at once: do without them, by "
        "`hydra.output_subdir=null hydra/job_logging=stdout` on the command line, unless the configuration does"
    )
    assert findings("OUT03", _with_hydra(line.format("hydra.run.dir=out") + more), Level.ADVICE) == []
    (advice,) = findings("OUT03", _with_hydra(more), Level.ADVICE)
    assert "and perhaps goes into it: give all ranks one name, by `hydra.run.dir=outputs/NAME` on" in advice.message


_SETTLED = """
defaults:
  - model: small
  - override hydra/job_logging: none  # each rank would keep one
lr: 0.1
hydra:
  output_subdir: null
  run:
    dir: out/${name}
"""


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        (_SETTLED, ""),
        (_SETTLED.replace("- override hydra", "- override /hydra"), ""),
        (_SETTLED.replace("${name}", "${now:%Y}/a"), "hydra.run.dir=outputs/NAME"),
        (_SETTLED.replace(": none", ": default"), "hydra/job_logging=stdout"),
        (_SETTLED.replace("  run:\n  ", "  sweep:\n  "), "hydra.run.dir=outputs/NAME"),
        (_SETTLED.replace("  output_subdir", "  # output_subdir"), "hydra.output_subdir=null"),
        (_SETTLED.replace("hydra:", "other:"), "hydra.run.dir=outputs/NAME hydra.output_subdir=null"),
        ("\t{not yaml: [\n", "hydra.run.dir=outputs/NAME hydra.output_subdir=null hydra/job_logging=stdout"),
    ],
)
def test_what_hydras_configuration_sets_is_not_asked_for(text: str, lacks: str, tmp_path: Path) -> None:
    script, config = tmp_path / "train.py", tmp_path / "conf" / "config.yaml"
    script.write_text(_with_hydra(), encoding="utf-8")
    config.parent.mkdir()
    config.write_text(text, encoding="utf-8")
    made = convert_script(read_script(str(script)), LocalModules(str(script)), Options())
    asked = [found[1] for one in made.of(Level.ADVICE) if (found := re.search("by `(.*)` on the", one.message))]
    assert asked == ([lacks] if lacks else [])


def test_a_file_that_says_to_be_written_is_looked_for_by_rank_zero() -> None:
    setup = 'rows = unheard.Rows()\nif not os.path.exists("a.bin"):\n    rows.save_rows("a.bin")\n    rows = None\n'
    new = converted(script(imports=f"{STAMP}{IMPORTS}", setup=setup + "print(rows)\n"))
    assert 'if not rt.from_main_process(os.path.exists("a.bin")):\n' in new


FOUND = """
class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.names = range(64)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.ones(4), self.number(index)

    def number(self, index):
        if not os.path.exists(f"rows/{index}.txt"):
            return torch.zeros(1)
        return number_in(index)


def number_in(index):
    found = glob.glob(f"rows/{index}.*")
    return torch.ones(1) if found else torch.zeros(1)


data = Rows()
"""
WRITES = """\
os.makedirs("rows", exist_ok=True)
for number in range(0, 64, 3):
    open(f"rows/{number}.txt", "w").write("1")
"""


@pytest.mark.parametrize("called", ["", "print(sum(data.number(index) for index in range(64)))\n"])
def test_each_rank_looks_for_the_files_of_its_own_samples(called: str) -> None:
    """Rank 0 asks for other ones at the same time."""
    new = converted(script(imports=f"import glob\nimport os\n{IMPORTS}", setup=WRITES, data=FOUND + called))
    assert "from_main_process" not in new
    assert "TrainingSampler(data)" in new
