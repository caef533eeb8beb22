"""PATH01: ranks wait for the files that rank 0 has written, once, and for no others."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, converted, script

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


WRITTEN = 'np.save("a.npy", [1])\n'


def test_ranks_wait_once_before_a_loop_that_reads() -> None:
    loop = "for one in range(9):\n    if one > 3:\n        values = np.load(f'{one}{input()}')\n"
    new = converted(script(imports=READS, after=f"{WRITTEN}{loop}print(np.load(input()))\n"))
    assert f"{WRITTEN}rt.barrier()\nfor one in range(9):\n".replace("np.save", "    np.save") in new
    assert new.count("rt.barrier()") == 1


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        pytest.param(f'{WRITTEN}a = np.load("a.npy")\n{WRITTEN}b = np.load("a.npy")\n', 2, id="written again"),
        pytest.param(f'for i in range(3):\n    {WRITTEN}    a = np.load("a.npy")\n', 1, id="written in the loop"),
        pytest.param(
            f'for i in range(3):\n    a = np.load("a.npy")\n    {WRITTEN}b = np.load("a.npy")\n',
            2,
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
