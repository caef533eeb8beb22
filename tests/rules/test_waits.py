"""PATH01: ranks wait for the files that rank 0 has written, once, and for no others."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import IMPORTS, LOOP, blocked, conversion_of, converted, findings, indented, line_of, script

TOOLS = f"import os\nfrom pathlib import Path\nimport numpy as np\n{IMPORTS}"
READS = f"{TOOLS}import pickle\nimport pandas as pd\nfrom os.path import join\n"
OTHERS = 'folder, name = input(), input()\nwith open(join(folder, "options.txt"), "w") as f:\n    f.write(name)\n'


@pytest.mark.parametrize(
    "read",
    [
        'values = np.load(join(folder, "mean.npy"))\n',
        'values = np.load(join(folder, name + ".npy"))\n',
        'values = np.load(join(folder, "%s_data.npy" % name))\n',
        'values = np.load("{}/{}.npy".format(folder, name))\n',
        'values = pd.read_csv(f"{folder}/{name}.csv")\n',
        'values = open(Path(folder) / "train.txt").read()\n',
        'path = join(folder, "train.txt")\nvalues = open(path).read()\n',
        'values = pickle.load(open(folder + "/words.pkl", "rb"))\n',
        'values = (Path(folder) / "words.txt").read_text()\n',
    ],
)
def test_another_file_is_not_waited_for(read: str) -> None:
    assert "rt.barrier()" not in converted(script(imports=READS, after=OTHERS + read))


@pytest.mark.parametrize(
    ("write", "read"),
    [
        ('np.save(join(folder, "a"), [1])\n', 'values = np.load(join(folder, "a.npy"))\n'),
        ('np.save(join(folder, "a.b"), [1])\n', 'values = np.load(join(folder, "a.b.npy"))\n'),
        ('np.save(folder, [1])\n', 'values = np.load(join(folder, "a.npy"))\n'),
        ('open(folder + "a.txt", "w").write("x")\n', 'values = open(join(folder, name + ".txt")).read()\n'),
        ('open(f"{folder}/{name}", "w").write("x")\n', 'values = open(join(folder, "a.txt")).read()\n'),
        ('open(join(folder, "A.TXT"), "w").write("x")\n', 'values = open(join(folder, "a.txt")).read()\n'),
        ('os.rename(folder, "b")\n', 'values = open("b/a.txt").read()\n'),
        ('open("b.txt", "w").write("x")\nos.rename("b.txt", name)\n', 'values = open("a.txt").read()\n'),
        ('path = "b.txt"\npath += ".old"\nopen(path, "w").write("x")\n', 'values = open(name + "t.old").read()\n'),
        ('for path in [name, "b"]:\n    open(path, "w").write("x")\n', 'values = open("a.txt").read()\n'),
        ('pd.DataFrame().to_parquet("a.parquet")\n', 'values = pd.read_parquet(folder)\n'),
    ],
)  # fmt: skip
def test_what_may_be_the_same_file_is_waited_for(write: str, read: str) -> None:
    before = script(imports=READS, after=f"folder, name = input(), input()\n{write}{read}")
    assert "rt.barrier()" in converted(before)


def test_what_packs_numbers_reads_no_file() -> None:
    """Though a format looks like a text that may name one: nobody waits in each turn of a loop that writes."""
    written = (
        'with open(folder + "/a.bin", "wb") as f:\n    for _ in range(3):\n        f.write(struct.pack("<f", 1.0))\n'
    )
    assert "rt.barrier()" not in converted(
        script(imports=f"import struct\n{READS}", after=f"folder = input()\n{written}")
    )


WRITTEN = 'np.save("a.npy", [1])\n'
MAY = "ranks wait for rank 0 before they read a file that it may have written"


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ('a = np.load("a.npy")\n', "a file is read once rank 0 has written it"),
        ("a = np.load(input())\n", MAY),
        ('a = unheard.take("a.npy")\n', MAY),
    ],
    ids=["the same", "any file", "what may read"],
)
def test_of_a_file_that_may_be_another_nothing_more_is_said(read: str, said: str) -> None:
    before = script(imports=f"import unheard\n{READS}", after=WRITTEN + read)
    place = line_of(before, read.strip())
    told = [one.message for one in findings("PATH01", before, Level.APPLIED) if one.place and one.place.line == place]
    assert said in told
    assert len([one for one in told if one in (said, MAY)]) == 1


def test_ranks_wait_once_before_a_loop_that_reads() -> None:
    loop = "for one in range(9):\n    if one > 3:\n        values = np.load(f'{one}{input()}')\n"
    new = converted(script(imports=READS, after=f"{WRITTEN}{loop}print(np.load(input()))\n"))
    assert f"{WRITTEN}rt.barrier()\nfor one in range(9):\n".replace("np.save", "    np.save") in new
    assert new.count("rt.barrier()") == 1


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        pytest.param(f'{WRITTEN}a = np.load("a.npy")\n{WRITTEN}b = np.load("a.npy")\n', 3, id="written again"),
        pytest.param(f'for i in range(3):\n    {WRITTEN}    a = np.load("a.npy")\n', 2, id="written in the loop"),
        pytest.param(
            f'for i in range(3):\n    a = np.load("a.npy")\n    {WRITTEN}b = np.load("a.npy")\n',
            3,
            id="behind the loop",
        ),
        pytest.param(
            f'{WRITTEN}if input():\n    a = np.load("a.npy")\nb = np.load("a.npy")\n', 2, id="waited under a condition"
        ),
        pytest.param(
            f'{WRITTEN}for i in range(3):\n    a = np.load("a.npy")\n    np.save("b.npy", a)\nb = np.load("b.npy")\n',
            2,
            id="something else written in the loop",
        ),
    ],
)
def test_ranks_wait_for_each_writing(after: str, waits: int) -> None:
    assert converted(script(imports=READS, after=after)).count("rt.barrier()") == waits


CHANGED = 'd = json.load(open("d.json"))\nd["runs"] += 1\n'
WRITES = 'json.dump(d, open("d.json", "w"))\n'
GUARDED = "rt.barrier()\nif rt.is_main_process():\n    " + WRITES
JSON = f"import json\n{READS}"


def test_a_file_is_written_anew_once_all_ranks_have_read_it() -> None:
    """Rank 0 empties it as soon as it opens it: who reads late has nothing."""
    assert f"{CHANGED}{GUARDED}" in converted(script(imports=JSON, setup=CHANGED + WRITES))


@pytest.mark.parametrize(
    ("read", "write"),
    [
        ("path = input()\nd = json.load(open(path))\n", 'with open(path, "w") as f:\n    json.dump(d, f)\n'),
        ("path = Path(input())\nd = path.read_text()\n", "other = Path(path)\nother.write_text(d)\n"),
        ('folder = input()\nd = open(f"{folder}/d.txt").read()\n', 'Path(folder, "d.txt").write_text(d)\n'),
        ('d = torch.load("d.pt")\n', 'torch.save(d, "d.pt")\n'),
        ('d = np.load("in/d.npy")\n', 'np.save("in/d", d)\n'),
        ('d = pd.read_csv("d.csv")\n', 'd.to_csv("./d.csv")\n'),
        ('d = open("d.txt").read()\n', 'os.remove("d.txt")\n'),
        ('d = open("d/a.txt").read()\n', 'import shutil\nshutil.rmtree("d")\n'),
        ('if os.path.exists("d.txt"):\n    d = open("d.txt").read()\n', 'open("d.txt", "w").write("x")\n'),
        ('try:\n    d = open("d.txt").read()\nexcept OSError:\n    d = ""\n', 'open("d.txt", "w").write(d)\n'),
    ],
)
def test_whatever_way_it_is_read_and_written(read: str, write: str) -> None:
    new = converted(script(imports=JSON, setup=read + write))
    assert new.count("rt.barrier()") == 1
    assert "rt.barrier()\nif rt.is_main_process():\n" in new


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param('d = json.load(open("a.json"))\n' + WRITES.replace("d.json", "b.json"), id="another file"),
        pytest.param('d = open(input() + "a.txt").read()\nopen(input() + "b.txt", "w").write(d)\n', id="other names"),
        pytest.param(WRITES.replace("(d,", "([],"), id="nobody reads it"),
        pytest.param('d = open("output.csv").read()\nopen("out", "w").write(d)\n', id="one name begins the other"),
        pytest.param('d = open("a.txt").read()\nos.makedirs("a", exist_ok=True)\n', id="a folder"),
    ],
)
def test_needless_waits_are_left_out(lines: str) -> None:
    assert "rt.barrier()" not in converted(script(imports=JSON, setup=lines))


def test_steps_of_training_are_meetings() -> None:
    """Who takes part in a step has read what comes before it; a wait for another file will do as well."""
    assert "rt.barrier()" not in converted(script(imports=JSON, setup=CHANGED, after=WRITES))
    other = 'np.save("a.npy", [1])\na = np.load("a.npy")\n'
    new = converted(script(imports=JSON, setup=CHANGED + other + WRITES))
    assert new.count("rt.barrier()") == 1
    saved = 'torch.save([], "a.pt")\na = torch.load("a.pt")\n'
    assert converted(script(imports=JSON, setup=CHANGED + saved + WRITES)).count("rt.barrier()") == 1


def test_no_wait_under_a_condition_that_ranks_do_not_share() -> None:
    """Another rank may look after rank 0 is done, or fail where rank 0 does not."""
    test = f'{CHANGED}if not os.path.exists("done"):\n    {WRITES}'
    assert f"{CHANGED}rt.barrier()\nif " in converted(script(imports=JSON, setup=test))
    attempt = f"{CHANGED}try:\n    {WRITES}except OSError:\n    pass\n"
    assert f"{CHANGED}rt.barrier()\ntry:\n" in converted(script(imports=JSON, setup=attempt))


READ = 'with rt.fail_together():\n    d = json.load(open("d.json"))\n'
WITH = 'with open("d.json") as f:\n    d = json.load(f)\n'


@pytest.mark.parametrize(
    ("read", "after"),
    [
        ('d = json.load(open("d.json"))\n', READ),
        (WITH, f"with rt.fail_together():\n{indented(WITH)}"),
        (f'if os.path.exists("d.json"):\n{indented(WITH)}',
         'if rt.from_main_process(os.path.exists("d.json")):\n'
         f"    with rt.fail_together():\n{indented(indented(WITH))}"),
    ],
)  # fmt: skip
def test_read_and_written_in_one_attempt(read: str, after: str) -> None:
    """Where one rank cannot read it, none comes to where rank 0 would wait for it."""
    both = "try:\n{}except OSError:\n    d = 3\n"
    write = f"rt.barrier()\nif rt.is_main_process():\n{indented(WRITES)}"
    new = converted(script(imports=JSON, setup=both.format(indented(f"{read}d['runs'] += 1\n{WRITES}"))))
    assert both.format(indented(f"{after}d['runs'] += 1\n{write}")) in new


def test_written_where_it_is_open_for_reading_in_an_attempt() -> None:
    """In the block in which ranks fail together none can wait for another."""
    both = "try:\n    with open('d.json') as f:\n        d = json.load(f)\n" + indented(indented(WRITES))
    assert {code for code, _ in blocked(script(imports=JSON, setup=f"{both}except OSError:\n    d = 3\n"))} == {
        "PATH01"
    }


@pytest.mark.parametrize(
    "line",
    [
        'json.dump(json.load(open("d.json")), open("d.json", "w"))\n',
        'torch.save(torch.load("d.pt"), "d.pt")\n',
    ],
)
def test_read_and_written_in_one_line(line: str) -> None:
    """No line could wait in between."""
    before = script(imports=JSON, setup=line)
    assert blocked(before) == {("PATH01", line_of(before, line.strip()))}
    assert not blocked(script(imports=JSON, setup=line.replace("d.", "e.", 1)))


def test_read_and_written_behind_a_test_of_what_is_there() -> None:
    """All take rank 0's answer, read, and wait for each other before it is written."""
    new = converted(script(imports=JSON, setup=f'if os.path.exists("d.json"):\n{indented(CHANGED + WRITES)}'))
    waits = indented(f"rt.barrier()\nif rt.is_main_process():\n{indented(WRITES)}")
    assert f'if rt.from_main_process(os.path.exists("d.json")):\n{indented(CHANGED)}{waits}' in new


def test_read_behind_the_writing_of_a_turn() -> None:
    loop = f'd = 1\nfor one in range(3):\n    {WRITES}    d = json.load(open("d.json"))\n'
    new = converted(script(imports=JSON, setup=loop))
    assert new.count("    rt.barrier()\n") == 2


@pytest.mark.parametrize(
    ("load", "waits"),
    [
        ('torch.load("known.pt")\n', 0),
        ('torch.load(input() + "/known.pt")\n', 0),
        ('torch.load("out/last.pt")\n', 1),
        ('torch.load("./out/last.pt")\n', 1),
        ("torch.load(input())\n", 1),
        ('torch.load(f"{input()}/last.pt")\n', 1),
        ('torch.load("out/last.pt")\nagain = torch.load("out/last.pt")\n', 1),
    ],
)
def test_a_checkpoint_that_nobody_wrote_is_not_waited_for(load: str, waits: int) -> None:
    after = f'torch.save([], "out/last.pt")\nknown = {load}'
    assert converted(script(imports=READS, after=after)).count("rt.barrier()") == waits


def test_no_two_waits_stand_together() -> None:
    after = 'np.save("a.npy", [1])\ntorch.save([], "a.pt")\nb = torch.load("a.pt")\na = np.load("a.npy")\n'
    assert converted(script(imports=READS, after=after)).count("rt.barrier()") == 1


SETUP = 'import json\n\n\ndef prepared(root):\n    json.dump({}, open("config", "w"))\n    names = os.listdir(root)\n'
CALLED = "    return values\n\n\nvalues = prepared(%s)\n"


@pytest.mark.parametrize(
    "read",
    [
        "values = [np.load(join(root, name)) for name in names]\n",
        'values = [np.load(f"{root}/{name}") for name in names]\n',
        'values = [np.load(root + "/" + name) for name in names]\n',
        "values = [np.load(Path(root) / name) for name in names]\n",
        'values = [np.load(join(root, "of-%s" % name, names[0])) for name in names]\n',
    ],
)
@pytest.mark.parametrize(
    ("root", "waits"), [('"photos"', False), ('"./photos/"', False), ('"."', True), ('""', True), ("input()", True),
                        ('"../photos"', True), ('"/photos"', True), ('"config"', True)],
)  # fmt: skip
def test_what_lies_in_another_folder_is_not_waited_for(read: str, root: str, waits: bool) -> None:
    new = converted(script(imports=READS, setup=f"{SETUP}    {read}{CALLED % root}"))
    assert ("rt.barrier()" in new) is waits


@pytest.mark.parametrize(
    ("write", "read", "waits"),
    [
        ('open("model_{}".format(name), "w").write("x")\n', 'np.load(join("photos", name))\n', False),
        ('open("photos-%s" % name, "w").write("x")\n', 'np.load(join("photos", name))\n', False),
        ('open(f"runs/{name}", "w").write("x")\n', 'open(f"data/{name}").read()\n', False),
        ('open("E:\\\\data\\\\models-" + name, "w").write("x")\n',
         'np.load(join("E:\\\\data\\\\photos", name))\n', False),
        ('open("models\\\\" + name, "w").write("x")\n', 'np.load("photos/" + name)\n', False),
        ('open("E:\\\\photos\\\\" + name, "w").write("x")\n', 'np.load(join("e:/Photos", name))\n', True),
        ('open("E:\\\\models\\\\" + name, "w").write("x")\n', 'np.load(join("photos", name))\n', True),
        ('open("E:\\\\models\\\\" + name, "w").write("x")\n', 'np.load(join("/photos", name))\n', True),
        ('open("E:\\\\models\\\\" + name, "w").write("x")\n', 'np.load("E:" + name)\n', True),
        ('open("models/" + name, "w").write("x")\n', 'np.load(join("photos", "E:\\\\models"))\n', True),
        ('open("photos/{}".format(name), "w").write("x")\n', 'np.load(join("photos", name))\n', True),
        ('open("{}/a".format(name), "w").write("x")\n', 'np.load(join("photos", name))\n', True),
        ('open("photos/all", "w").write("x")\n', 'np.load(join("photos", name))\n', True),
        ('open("config", "w").write("x")\n', 'np.load(join("photos", "../" + name))\n', True),
        ('open("config", "w").write("x")\n', 'np.load(join("photos", "..", name))\n', True),
        ('open("config", "w").write("x")\n', 'open(f"photos/../{name}").read()\n', True),
        ('open("config", "w").write("x")\n', 'np.load("photos/" + ("../" + name))\n', True),
        ('open("config", "w").write("x")\nroot = "photos"\nfor turn in range(3):\n',
         '    values = np.load(join(root, name))\n    root = input()\n', True),
        ('open("config", "w").write("x")\nroot = "photos" if name else input()\n', 'np.load(join(root, name))\n', True),
        ('os.rename("photos-old", name)\n', 'np.load(join("photos", name))\n', True),
    ],
)  # fmt: skip
def test_folders_are_told_by_how_paths_begin(write: str, read: str, waits: bool) -> None:
    before = script(imports=READS, after=f"name = os.listdir('names')[0]\n{write}{read}")
    assert ("rt.barrier()" in converted(before)) is waits


ROWS = """\
def table(path):
    return np.load(path)


class Rows(torch.utils.data.Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.ones(4) * {read}, torch.ones(1)


def collate(samples):
    return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples]) * {collate}


"""


@pytest.mark.parametrize(
    ("read", "collate", "write", "waits"),
    [
        ("np.load('a.npy')", "1", WRITTEN, True),
        ("np.load(self.path)", "1", WRITTEN, True),
        ("table('a.npy')", "1", WRITTEN, True),
        ("1", "np.load('a.npy')", WRITTEN, True),
        ("np.load('b.npy')", "1", WRITTEN, False),
        ("np.load(f'{index}.npy')", "1", "torch.save(model.state_dict(), 'a.pt')\n", False),
        ("np.load(f'rows/{index}.npy')", "1", WRITTEN, False),
        ("np.load(self.path)", "1", "pass\n", False),
    ],
)
def test_files_that_workers_read(read: str, collate: str, write: str, waits: bool) -> None:
    """All ranks wait before the pass in which their workers read what rank 0 has written after the last one."""
    setup = ROWS.format(read=read, collate=collate)
    loader = "loader = DataLoader(Rows('a.npy'), batch_size=8, collate_fn=collate)\n"
    new = converted(script(imports=READS, setup=setup, data="", loader=loader, loop=f"{LOOP}    {write}"))
    assert ("    rt.barrier()\n    for x, y in loader:\n" in new) is ("rt.barrier()" in new) is waits


@pytest.mark.parametrize(
    ("read", "write", "known"),
    [
        ("np.load(str(index))", "    np.save(str(epoch), [1])\n", False),
        ("np.load(self.path + str(index))", f"    {WRITTEN}", False),
        ("np.load('b.npy')", f"    {WRITTEN}", True),
        ("np.load(self.path + str(index))", WRITTEN, True),
        ("len(self.path)", f"    {WRITTEN}", True),
    ],
)
def test_no_claim_of_files_that_workers_read(read: str, write: str, known: bool) -> None:
    setup = ROWS.format(read=read, collate="1")
    loader = "loader = DataLoader(Rows(str(4)), batch_size=8)\n"
    before = script(imports=READS, setup=setup, data="", loader=loader, loop=LOOP + write)
    claims = [one.message for one in findings("PATH01", before, Level.NOT_NEEDED)]
    assert any(", in what a loader asks for its samples" in one for one in claims) is not known
    assert not any("library calls" in one for one in claims)
    assert any(one.endswith("no file is read that the run wrote") for one in claims) is known


@pytest.mark.parametrize(
    ("write", "read"),
    [('np.save("a.npy", [1])', 'b = np.load("a.npy")'), ('torch.save(x, "a.pt")', 'b = torch.load("a.pt")')],
    ids=["a file", "a checkpoint"],
)
def test_a_function_that_is_left_early_is_no_reading(write: str, read: str) -> None:
    """The wait stands behind what is waited for, whoever leaves the function before for want of a file."""
    body = indented(script(imports="", after=f"{write}\n{read}\n"))
    before = f'{TOOLS}def main():\n    if not os.path.exists("pictures"):\n        return\n{body}main()\n'
    new = converted(before)
    assert f"    rt.barrier()\n    {read.partition('(')[0]}(" in new
    assert new.count("rt.barrier()") == 1
    assert new.endswith("\nmain()\n")


@pytest.mark.parametrize(
    ("write", "read", "waits"),
    [
        ("plt.savefig(input())\n", "a = pd.read_csv(input())\n", False),
        ("np.savez(input(), [1])\n", "a = Image.open(input())\n", False),
        ("torch.save([], input())\n", "a = pd.read_csv(input())\n", False),
        ("plt.savefig(input())\n", "a = Image.open(input())\n", True),
        ("plt.savefig(input())\n", "a = open(input()).read()\n", True),
        ("np.save(input(), [1])\n", "a = np.load(input())\n", True),
        ("open(input(), 'w').write('x')\n", "a = pd.read_csv(input())\n", True),
        ("pd.DataFrame().to_csv(input())\n", "a = np.loadtxt(input())\n", True),
    ],
)
def test_who_writes_pictures_writes_no_table(write: str, read: str, waits: bool) -> None:
    imports = f"import matplotlib.pyplot as plt\nfrom PIL import Image\n{READS}"
    assert ("rt.barrier()" in converted(script(imports=imports, after=write + read))) is waits


@pytest.mark.parametrize(
    ("remove", "read", "waits"),
    [
        ("os.remove(join(folder, name))\n", 'a = open("config.json").read()\n', False),
        ("os.remove(path)\n", "a = open(path).read()\n", True),
        ("os.remove(join(folder, name))\n", 'try:\n    a = open("a").read()\nexcept OSError:\n    a = ""\n', True),
        ("import shutil\nshutil.rmtree(folder)\n", 'a = open("config.json").read()\n', True),
    ],
)
def test_what_is_removed_is_not_read(remove: str, read: str, waits: bool) -> None:
    after = f"folder, name = input(), input()\npath = join(folder, name)\n{remove}{read}"
    assert ("rt.barrier()" in converted(script(imports=READS, after=after))) is waits


@pytest.mark.parametrize(
    ("path", "waits"),
    [('"objects/a.obj"', False), ('join("objects", "a.obj")', False), ('"checkpoints/1.pth"', True),
     ('"checkpoints/"', True), ('join(input(), "a.obj")', True), ('"./a.obj"', False)],
)  # fmt: skip
def test_what_something_unknown_reads_lies_beside_what_it_is_given(path: str, waits: bool) -> None:
    write = 'torch.save([], f"checkpoints/{len(data)}.pth")\n'
    after = f"{write}value = unheard.take({path})\n"
    assert ("rt.barrier()" in converted(script(imports=f"import unheard\n{READS}", after=after))) is waits


NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = unheard.Layer(), nn.Linear(4, 1)

    def forward(self, x):
        return self.last({first})


model = Net()
"""


@pytest.mark.parametrize(
    ("first", "waits"),
    [("self.first(x, where)", False), ("x * np.load(where)", True), ("x", False)],
)
def test_no_wait_inside_of_a_forward_pass(first: str, waits: bool) -> None:
    """Ranks share it, or sit at different parts of it."""
    setup = "where = os.path.join(input(), 'a.npy')\nnp.save(where, [1])\n"
    given = script(imports=f"import unheard\n{READS}", setup=setup, model=NET.format(first=first))
    (new,) = conversion_of(given, options=Options(strategy="shared")).files
    after = new.after.decode()
    assert ("rt.barrier()" in after) is waits
    assert "rt.barrier()" not in after[after.index("class Net") : after.index("model = Net()")]


@pytest.mark.parametrize(("text", "waits"), [("</t>", False), ("<br/>", False), ("words/t", True)])
def test_markup_is_no_path(text: str, waits: bool) -> None:
    after = f'{OTHERS}import strange\nnames = strange.tokens(name + "{text}")\n'
    assert ("rt.barrier()" in converted(script(imports=READS, after=after))) is waits


def test_an_array_is_no_path() -> None:
    """Though it hangs on the names of files that are there, as a name does."""
    after = (
        "for name in os.listdir('scans'):\n"
        "    scan = np.load(join('scans', name))\n"
        "    open(name + '.old', 'w').write('seen')\n"
        "    image = unknown.picture_of(scan.astype('int16'))\n"
    )
    new = converted(script(imports=f"import unknown\n{READS}", after=after))
    assert "rt.barrier()\n    image" not in new, new


def test_whether_a_file_is_there_is_no_path() -> None:
    setup = "known = os.path.exists('a')\nrows = list(range(4)) if known else [1]\nnp.save(input(), [1])\n"
    given = script(imports=f"import unheard\n{READS}", setup=setup, after="value = unheard.take(rows)\n")
    assert "rt.barrier()" not in converted(given)


BATCH = "def batch(name):\n    return np.memmap(name + '.bin', mode='r')\n\n\n"
FILLED = 'np.ones(9).tofile("train.bin")\n'
WAITS = "rt.barrier()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("for i in range(9):\n    x = batch('train')\n",
                     f"{WAITS}for i in range(9):\n    x = batch('train')\n", id="in a loop"),
        pytest.param("x = batch('train')\nfor i in range(9):\n    x = batch('train')\n",
                     f"{WAITS}x = batch('train')\nfor i in range(9):\n    x = batch('train')\n", id="before, too"),
        pytest.param("for i in range(9):\n    if i % 3:\n        x = batch('train')\n",
                     f"{WAITS}for i in range(9):\n    if i % 3:\n        x = batch('train')\n", id="in some turns"),
        pytest.param("def step():\n    return batch('train')\n\n\nfor i in range(9):\n    step()\n",
                     f"{WAITS}for i in range(9):\n    step()\n", id="in a function of a function"),
        pytest.param("x = batch('train')\nfor i in range(9):\n    x = batch('train')\n    np.save('x.npy', x)\n",
                     f"{WAITS}x = batch('train')\nfor i in range(9):\n    x = batch('train')\n", id="another one"),
        pytest.param(f"for i in range(3):\n    {FILLED}    for j in range(3):\n        x = batch('train')\n",
                     f"    {WAITS}    for j in range(3):\n        x = batch('train')\n", id="written around it"),
    ],
)  # fmt: skip
def test_ranks_wait_once_for_what_a_function_reads_in_each_turn(before: str, after: str) -> None:
    """The function is called in every step: a wait in it would be one in every step."""
    new = converted(script(imports=READS, setup=BATCH, after=FILLED + before))
    assert after in new
    assert new.count(WAITS) == 1 + before.count("tofile")


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(f"{FILLED}x = batch('train')\n", id="once"),
        pytest.param(f"for i in range(9):\n    {FILLED}    x = batch('train')\n", id="written in each turn"),
    ],
)
def test_ranks_wait_in_a_function_that_reads_once_for_each_writing(after: str) -> None:
    assert "def batch(name):\n    rt.barrier()\n" in converted(script(imports=READS, setup=BATCH, after=after))


LOADED = """\
class Rows(torch.utils.data.Dataset):
    def __init__(self, path):
        self.path = path
        {made}

    def __len__(self):
        return 64

    def read(self):
        return np.load(self.path)

    def __getitem__(self, index):
        return torch.ones(4) * {asked}, torch.ones(1)


{written}
data = Rows("a.npy")
{called}
"""


@pytest.mark.parametrize(
    ("asked", "made", "called", "waiting"),
    [
        pytest.param("self.read()", "pass", "first = data[0]", "rt.barrier()\nfirst = data[0]\n", id="a sample"),
        pytest.param("self.read()", "self.first = self.read()", "pass",
                     "        rt.barrier()\n        self.first = self.read()\n", id="where it is made"),
        pytest.param("1", "pass", "first = data.read()", "    def read(self):\n        rt.barrier()\n",
                     id="the script alone"),
        pytest.param("1", "self.first = self.read()", "pass", "    def read(self):\n        rt.barrier()\n",
                     id="where it is made alone"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("workers", [0, 2])
def test_nobody_waits_in_a_function_that_a_loader_calls(
    asked: str, made: str, called: str, waiting: str, workers: int
) -> None:
    """Each rank asks for other samples, perhaps in a process that is no rank."""
    data = LOADED.format(asked=asked, made=made, called=called, written=WRITTEN)
    loader = f"loader = DataLoader(data, batch_size=8, num_workers={workers})\n"
    new = converted(script(imports=READS, data=data, loader=loader))
    assert waiting in new
    assert (waiting.startswith("    def read")) is ("    def read(self):\n        rt.barrier()" in new)


LOG = 'log = open("log.csv", "w")\nlog.write("epoch,loss\\n")\n'
ROW = 'log.write(f"{epoch},{loss.item()}\\n")\nlog.flush()\n'
WAIT = "rt.barrier()\n"


def logged(read: str, row: str = ROW, log: str = LOG, before: str = "") -> str:
    return converted(script(imports=f"import csv\n{READS}", setup=before + log, loop=f"{LOOP}{indented(row + read)}"))


@pytest.mark.parametrize(
    "read",
    [
        "rows = open(log.name).read()\n",
        'rows = open("log.csv").read()\n',
        "rows = pd.read_csv(log.name)\n",
        'with open("log.csv") as file:\n    rows = file.read()\n',
    ],
)
def test_ranks_wait_in_each_turn_for_a_log_that_is_kept_open(read: str) -> None:
    assert indented(f"{WAIT}{read}") in logged(read)


@pytest.mark.parametrize(
    "row",
    [
        "print(epoch, file=log)\n",
        "csv.writer(log).writerow([epoch])\n",
        "rows_of.writerow([epoch])\n",
        'with open("log.csv", "a") as more:\n    more.write("a")\n',
    ],
)
def test_whatever_writes_into_the_log(row: str) -> None:
    read = "rows = open(log.name).read()\n"
    assert indented(f"{WAIT}{read}") in logged(read, row, f"{LOG}rows_of = csv.writer(log)\n")


def test_no_rank_leaves_the_caller_of_what_waits() -> None:
    """Whether the file is there, a rank may ask before it is."""
    own = """\
def show(path):
    if not os.path.exists(path):
        return
    plot(path)


def plot(path):
    rows = open(path).read()


"""
    new = logged("show(log.name)\n", before=own)
    assert own in new
    assert indented(f"{WAIT}show(log.name)\n") in new


@pytest.mark.parametrize(
    ("row", "read"),
    [
        (ROW, 'rows = open("other.csv").read()\n'),
        (ROW, "name = log.name\n"),
        ("", 'rows = open("other.csv").read()\n'),
        (ROW, "print(os.path.basename(log.name), log.closed)\n"),
    ],
)
def test_a_log_that_nobody_reads_is_not_waited_for(row: str, read: str) -> None:
    assert "rt.barrier()" not in logged(read, row)


def test_a_log_that_is_not_written_in_the_loop_is_waited_for_once() -> None:
    new = logged('rows = open("log.csv").read()\n', "", f"{LOG}log.close()\n")
    assert new.count("rt.barrier()") == 1
    assert f"    {WAIT}" not in new


MODELS = """\
import glob
import json
from transformers import AutoModelForSequenceClassification, AutoTokenizer
"""


@pytest.mark.parametrize("call", ["tokens = tokenizer(texts)", "told = other(**tokenizer(texts))"])
def test_models_and_tokenizers_read_no_files_when_they_are_called(call: str) -> None:
    setup = """\
texts = [json.load(open(one)) for one in sorted(glob.glob("texts/*.json"))]
other = AutoModelForSequenceClassification.from_pretrained("small")
tokenizer = AutoTokenizer.from_pretrained("small")
"""
    saved = "    other.save_pretrained(f'out/{epoch}')\n"
    loop = LOOP.replace("        loss = ", f"        {call}\n        loss = ", 1) + saved
    assert "rt.barrier()" not in converted(script(imports=IMPORTS + MODELS, setup=setup, loop=loop), Options())
