"""What is opened to be read and to be written at once: rank 0 alone writes, or a person is asked."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import blocked, conversion_of, converted, distributed, findings, script
from tests.rules.test_every_writer import ON_MAIN, ONLY, imports_for

STORAGE = "torch.UntypedStorage.from_file"


def with_it(lines: str) -> str:
    return script(imports=imports_for(lines), after=lines)


def said(lines: str) -> dict[str, str]:
    return {one.code: one.message for one in conversion_of(with_it(lines)).of(Level.NOT_NEEDED)}


@pytest.mark.parametrize(
    ("opened", "given", "rest"),
    [
        ("np.memmap", '"a.bin", mode="r+", shape=(3,)', "rows[:] = 1\nrows.flush()\n"),
        ("np.memmap", '"a.bin", dtype="float32"', "rows[0:2] = 1\n"),
        ("np.memmap", '"a.bin", "float32", "r+"', "rows[0:2] = 1\ndel rows\n"),
        ("np.load", '"a.npy", mmap_mode="r+"', "rows[0] = 1\n"),
        ("np.load", '"a.npy", "r+"', "rows[0] = 1\n"),
        ("torch.from_file", '"a.bin", shared=True, size=10', "rows[0] = 1\n"),
        (STORAGE, '"a.bin", True, 10', "rows[0] = 1\n"),
        ("pd.HDFStore", '"a.h5"', 'rows["a"] = pd.DataFrame([1])\nrows.close()\n'),
        ("pd.HDFStore", '"a.h5"', 'rows.put("a", pd.DataFrame([1]))\n'),
        ("zarr.open", '"a.zarr", shape=(3,)', "rows[:] = 1\n"),
        ("zarr.open_group", '"a.zarr"', 'rows.create_dataset("a", data=[1])\n'),
    ],
)
def test_what_is_only_written_is_rank_zeros(opened: str, given: str, rest: str) -> None:
    lines = f"rows = {opened}({given})\n{rest}"
    after = f"rows = {ONLY}({opened})({given})\n{rest}"
    assert converted(with_it(lines)) == distributed(imports=imports_for(lines), after=after)


@pytest.mark.parametrize(
    "lines",
    [
        'rows = np.memmap("a.bin", mode="r+", shape=(3,))\nrows[0] = 1\nprint(rows.sum())\n',
        'rows = np.memmap("a.bin")\nrows[0] += 1\n',
        'rows = np.load("a.npy", mmap_mode="r+")\nrows.sort()\nprint(rows[0])\n',
        'rows = torch.from_file("a.bin", shared=True, size=10)\nrows.fill_(2)\n',
        'rows = pd.HDFStore("a.h5")\nrows["a"] = rows["b"]\n',
        'rows = zarr.open("a.zarr")\nrows[0] = 1\nprint(rows[1])\n',
    ],
)
def test_what_is_written_and_looked_at_is_left_to_a_person(lines: str) -> None:
    assert {code for code, _ in blocked(with_it(lines))} == {"OUT03"}


@pytest.mark.parametrize(
    ("lines", "how"),
    [
        ('rows = np.memmap("a.bin", dtype="float32")\nprint(rows.sum())\n', 'mode="r"'),
        ('rows = np.load("a.npy", mmap_mode="r+")\nprint(rows.sum())\n', 'mmap_mode="r"'),
        ('rows = torch.from_file("a.bin", shared=True, size=10)\nprint(rows.sum())\n', "shared=False"),
        ('rows = pd.HDFStore("a.h5")\nprint(rows["a"])\n', 'mode="r"'),
        ('rows = zarr.open("a.zarr")\nprint(rows[:].sum())\n', 'mode="r"'),
    ],
)
def test_of_what_may_be_written_it_is_said_how_it_would_only_be_read(lines: str, how: str) -> None:
    (one,) = findings("OUT03", with_it(lines), Level.ADVICE)
    assert one.message == (
        f"every rank opens this to write it, too, and nothing is seen to do so: with `{how}`, it is read alone"
    )
    assert lines in converted(with_it(lines))
    assert "OUT03" not in said(lines)


@pytest.mark.parametrize(
    "lines",
    [
        'rows = np.load("a.npy")\nrows[0] = 1\n',
        'rows = np.load("a.npy", mmap_mode="c")\nrows[0] = 1\n',
        'rows = np.load("a.npy", mmap_mode=None)\nrows[0] = 1\n',
        'rows = torch.from_file("a.bin", size=10)\nrows[0] = 1\n',
        'rows = pd.HDFStore("a.h5", "r")\nprint(rows["a"])\n',
        'rows = zarr.open("a.zarr", mode="r")\nprint(rows[0])\n',
    ],
)
def test_what_only_reads_is_not_said_to_write(lines: str) -> None:
    assert said(lines)["OUT03"] == "no other files are written"


def test_ranks_wait_for_what_was_set_in_place() -> None:
    lines = 'rows = np.memmap("a.bin", shape=(3,))\nrows[:] = 1\nfound = np.fromfile("a.bin")\n'
    assert "rt.barrier()\nfound = " in converted(with_it(lines))


def test_a_pipeline_goes_to_the_disk_once() -> None:
    imports, lines = f"import spacy\n{imports_for('')}", 'words = spacy.blank("en")\nwords.to_disk("a")\n'
    before = script(imports=imports, after=lines)
    assert converted(before).endswith(f'{ON_MAIN}    words.to_disk("a")\n')


def test_a_tokenizer_is_trained_once_and_waited_for() -> None:
    lines = (
        'sentencepiece.SentencePieceTrainer.train(input="a.txt", model_prefix="m")\n'
        'words = sentencepiece.SentencePieceProcessor(model_file="m.model")\n'
    )
    train, words = lines.splitlines(keepends=True)
    before = script(imports=f"import sentencepiece\n{imports_for('')}", after=lines)
    assert converted(before).endswith(f"{ON_MAIN}    {train}rt.barrier()\n{words}")
    assert findings("DATA03", before, Level.ADVICE) == []


@pytest.mark.parametrize(
    ("imports", "lines", "code"),
    [
        ("import joblib\n", 'kept = joblib.Memory("cache")\n', "joblib.Memory"),
        ("import datasets\n", 'rows = datasets.load_dataset("a")\nrows = rows.map(len)\n', "rows.map"),
        (
            "from monai.data import PersistentDataset\n", 'rows = PersistentDataset([1], None, cache_dir="c")\n',
            "PersistentDataset",
        ),
    ],
)  # fmt: skip
def test_caches_are_named_where_it_is_said_what_is_written(imports: str, lines: str, code: str) -> None:
    before = script(imports=imports + imports_for(""), after=lines)
    (claim,) = [one.message for one in conversion_of(before).of(Level.NOT_NEEDED) if one.code == "OUT03"]
    assert claim.startswith(f"no other files are written, but for the cache of `{code}` at train.py:")
    assert claim.endswith(": each rank fills in what it does not find there")


@pytest.mark.parametrize(
    "lines",
    [
        'rows = datasets.load_dataset("a", streaming=True)\nrows = rows.map(len)\n',
        'rows = datasets.Dataset.from_dict({"a": [1]})\nrows = rows.map(len)\n',
    ],
)
def test_what_stays_in_memory_has_no_cache(lines: str) -> None:
    assert said(lines)["OUT03"] == "no other files are written"
