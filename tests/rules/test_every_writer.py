"""What writes files, of all libraries: rank 0 alone does, and the checklist says no more than is so."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import IMPORTS, blocked, changes, conversion_of, converted, distributed, indented, script

ON_MAIN = "if rt.is_main_process():\n"
ONLY = "rt.main_process_only"
ARRAY = "rows = np.zeros(3)\n"
FRAME = 'rows = pd.DataFrame({"a": [1]})\n'
SPELLED = {
    "np": "import numpy as np\n", "pd": "import pandas as pd\n", "pl": "import polars as pl\n",
    "pq": "import pyarrow.parquet as pq\n", "pa": "import pyarrow as pa\n", "iio": "import imageio.v3 as iio\n",
    "sf": "import soundfile as sf\n", "wds": "import webdataset as wds\n", "Image": "from PIL import Image\n",
    "save_file": "from safetensors.torch import save_file\n", "tqdm": "from tqdm import tqdm\n",
    "OmegaConf": "from omegaconf import OmegaConf\n",
}  # fmt: skip


def imports_for(code: str) -> str:
    """The imports of what a snippet names first in its lines."""
    plain = (
        "h5py zipfile imageio cv2 requests smtplib gzip bz2 faiss onnx xlsxwriter sqlite3 tensorflow safetensors "
        "shutil torchvision transformers datasets zarr boto3 paramiko dgl torchtext kaggle wandb wget skimage ogb "
        "torchaudio torch_geometric unheard lmdb graphviz torchviz timm gensim swanlab IPython"
    ).split()
    found = [text for name, text in SPELLED.items() if f"{name}." in code or f"{name}(" in code]
    return "".join([*found, *(f"import {name}\n" for name in plain if f"{name}." in code), IMPORTS])


@pytest.mark.parametrize(
    ("setup", "statement"),
    [
        (ARRAY, 'rows.tofile("a.bin")'),
        (ARRAY, 'rows.dump("a.pkl")'),
        ("", 'save_file({}, "a.safetensors")'),
        ("", 'with h5py.File("a.h5", "w") as file:\n    file.close()'),
        ("", 'with zipfile.ZipFile("a.zip", "w") as file:\n    file.write("a.txt")'),
        ("", 'Image.new("RGB", (3, 3)).save("a.png")'),
        ("", 'Image.open("a.png").save("b.png")'),
        ("", 'imageio.imwrite("a.png", [1])'),
        ("", 'with iio.imopen("a.gif", "w") as file:\n    file.write([1])'),
        ("", 'cv2.imwrite("a.png", 1)'),
        ("", 'sf.write("a.wav", [1], 8000)'),
        ("", 'with sf.SoundFile("a.wav", "w", 8000, 1) as file:\n    file.write([1])'),
        (FRAME, 'rows.to_csv("a.csv")'),
        (FRAME, 'rows.to_parquet("a.parquet")'),
        (FRAME, 'rows.to_gbq("a.b")'),
        (FRAME, "rows.to_iceberg(name)"),
        ('rows = pl.DataFrame({"a": [1]})\n', 'rows.write_parquet("a.parquet")'),
        ('rows = pl.DataFrame({"a": [1]})\n', "rows.write_csv(name)"),
        ('rows = pa.table({"a": [1]})\n', 'pq.write_table(rows, "a.parquet")'),
        ("", 'with pa.OSFile("a", "wb") as file:\n    file.write(b"a")'),
        ("", 'with gzip.GzipFile("a.gz", "wb") as file:\n    file.write(b"a")'),
        ("", 'with bz2.BZ2File("a.bz2", "w") as file:\n    file.write(b"a")'),
        ("", 'requests.post("http://localhost", json={"a": 1})'),
        ("", 'tqdm.write("done")'),
        ("", "faiss.write_index(None, name)"),
        ("", 'onnx.save(None, "a.onnx")'),
        ('rows = OmegaConf.create({"a": 1})\n', 'OmegaConf.save(rows, "a.yaml")'),
        ("", 'zarr.save("a.zarr", [1])'),
        ("", 'torchvision.datasets.utils.extract_archive("a.zip", "b")'),
        ("", 'safetensors.serialize_file({}, "a")'),
        (FRAME, 'rows.to_string("a.txt")'),
        ("dot = torchviz.make_dot(name)\n", 'dot.render("graph", format="png")'),
        ("dot = graphviz.Digraph()\n", 'dot.render("graph")'),
        ("", 'timm.utils.update_summary(1, {}, {}, "summary.csv")'),
    ],
)
def test_rank_zero_alone_writes(setup: str, statement: str) -> None:
    setup = f'name = "a"\n{setup}'
    imports = imports_for(setup + statement)
    before = script(imports=imports, after=f"{setup}{statement}\n")
    new = converted(before).replace("rt.seed_ranks_alike()\n", "")
    assert new == distributed(imports=imports, after=setup + ON_MAIN + indented(f"{statement}\n"))
    told = [one.message for one in conversion_of(before).of(Level.ADVICE)]
    assert not [one for one in told if "taken for what only writes" in one or "with a path" in one]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('file = h5py.File("a.h5", "w")\nfile["a"] = [1]\n',
         f'file = {ONLY}(h5py.File)("a.h5", "w")\nfile["a"] = [1]\n'),
        ('film = cv2.VideoWriter("a.avi", 0, 1, (3, 3))\nfilm.write(1)\n',
         f'film = {ONLY}(cv2.VideoWriter)("a.avi", 0, 1, (3, 3))\nfilm.write(1)\n'),
        ('film = imageio.get_writer("a.gif")\nfilm.append_data([1])\n',
         f'film = {ONLY}(imageio.get_writer)("a.gif")\nfilm.append_data([1])\n'),
        ('file = cv2.FileStorage("a.yml", cv2.FILE_STORAGE_WRITE)\nfile.write("a", 1)\n',
         f'file = {ONLY}(cv2.FileStorage)("a.yml", cv2.FILE_STORAGE_WRITE)\nfile.write("a", 1)\n'),
        ('with wds.TarWriter("a.tar") as file:\n    file.write({})\n',
         f'with {ONLY}(wds.TarWriter)("a.tar") as file:\n    file.write({{}})\n'),
        ('book = xlsxwriter.Workbook("a.xlsx")\nbook.close()\n',
         f'book = {ONLY}(xlsxwriter.Workbook)("a.xlsx")\nbook.close()\n'),
        ('base = sqlite3.connect("a.db")\nrow = base.cursor()\nrow.execute("INSERT INTO a (b)")\nbase.commit()\n',
         f'base = {ONLY}(sqlite3.connect)("a.db")\nrow = base.cursor()\nrow.execute("INSERT INTO a (b)")\n'
         "base.commit()\n"),
        ('with sqlite3.connect("a.db") as base:\n    base.execute("CREATE TABLE a (b)")\n',
         f'with {ONLY}(sqlite3.connect)("a.db") as base:\n    base.execute("CREATE TABLE a (b)")\n'),
        ('rows = lmdb.open("a")\nwith rows.begin(write=True) as row:\n    row.put(b"1", b"2")\n',
         f'rows = {ONLY}(lmdb.open)("a")\nwith rows.begin(write=True) as row:\n    row.put(b"1", b"2")\n'),
        ('rows = np.memmap("a.bin", mode="w+", shape=(3,))\nrows[0:2] = 1\nrows.flush()\ndel rows\n',
         f'rows = {ONLY}(np.memmap)("a.bin", mode="w+", shape=(3,))\nrows[0:2] = 1\nrows.flush()\ndel rows\n'),
        ('file = h5py.File("a.h5", "a")\nfile["a"] = [1]\nfile.attrs["b"] = 1\n',
         f'file = {ONLY}(h5py.File)("a.h5", "a")\nfile["a"] = [1]\nfile.attrs["b"] = 1\n'),
        ('mail = smtplib.SMTP("localhost")\nmail.sendmail("a", "b", "c")\n',
         f'mail = {ONLY}(smtplib.SMTP)("localhost")\nmail.sendmail("a", "b", "c")\n'),
    ],
)  # fmt: skip
def test_what_keeps_writing_is_rank_zeros(before: str, after: str) -> None:
    imports = imports_for(before)
    assert converted(script(imports=imports, after=before)) == distributed(imports=imports, after=after)


@pytest.mark.parametrize(
    "after",
    [
        'rows = np.memmap("a.bin", dtype="float32", mode="w+", shape=(3,))\nrows[0] = 1\nprint(rows.sum())\n',
        'rows = np.memmap("a.bin", dtype="float32", mode="w+", shape=(3,))\nrows[0] += 1\n',
        'rows = np.memmap("a.bin", mode="w+", shape=(3,))\n\n\ndef first():\n    return rows[0]\n',
        'base = sqlite3.connect("a.db")\nbase.execute("INSERT INTO a VALUES (1)")\n'
        'for row in base.execute("SELECT * FROM a"):\n    print(row)\n',
        'base = sqlite3.connect("a.db")\nbase.execute("INSERT INTO a VALUES (1)")\n'
        'rows = base.execute("SELECT * FROM a").fetchall()\nprint(rows[0])\n',
        "class Rows(torch.utils.data.Dataset):\n    def __init__(self):\n"
        '        self.base = sqlite3.connect("a.db")\n        self.base.execute("CREATE TABLE a (b)")\n\n'
        "    def __len__(self):\n        return 3\n\n    def __getitem__(self, index):\n"
        '        return self.base.execute("SELECT b FROM a").fetchone()\n\n\nloader = DataLoader(Rows())\n',
        'file = h5py.File("a.h5", "a")\nfile["a"] = [1]\nrows = file["b"][:]\n',
        'rows = lmdb.open("a")\nwith rows.begin(write=True) as row:\n    row.put(b"1", b"")\n    print(row.get(b""))\n',
    ],
)
def test_what_is_written_and_read_by_every_rank_is_left_to_a_person(after: str) -> None:
    assert {code for code, _ in blocked(script(imports=imports_for(after), after=after))} == {"OUT03"}


PARSED = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize(
    ("setup", "call"),
    [
        (f"{PARSED}rows = gensim.models.Word2Vec()\n", "rows.wv.save_word2vec_format(args.vectors)"),
        ("rows = unheard.Rows()\n", 'rows.export_all("vectors")'),
        ("", 'unheard.archive("out/a.bin")'),
        ("rows = unheard.Rows()\n", 'rows.keep("out/a.bin")'),
        ("", 'unheard.Rows().keep("out/a.bin")'),
    ],
)
def test_what_is_not_known_to_write_is_named(setup: str, call: str) -> None:
    lines = f"{setup}{call}\n"
    seen = conversion_of(script(imports=imports_for(lines), after=lines))
    (told,) = [one.message for one in seen.of(Level.ADVICE) if one.code == "OUT03"]
    name = call.partition("(")[0] if not call.startswith("unheard.Rows") else "keep"
    assert told.startswith(f"every rank calls `{name}`")
    said = {one.code: one.message for one in seen.of(Level.NOT_NEEDED)}
    assert said["SAVE01"] == "no checkpoint is written, unless by what OUT03 names"
    assert "OUT03" not in said


@pytest.mark.parametrize(
    "lines",
    [
        "rows = unheard.Rows()\nrows.save_all(3)\n",
        'import io\nImage.new("RGB", (3, 3)).save(io.BytesIO(), format="png")\n',
        'rows = unheard.Rows()\nrows.write("some text")\n',
        'class Rows:\n    def save_all(self, name):\n        self.name = name\n\n\nRows().save_all("vectors")\n',
        'rows = unheard.Rows()\nfound = rows.find("vectors")\n',
    ],
)
def test_what_is_given_no_name_of_a_file_is_not_named(lines: str) -> None:
    seen = conversion_of(script(imports=imports_for(lines), after=lines))
    assert [one.message for one in seen.of(Level.ADVICE) if one.code == "OUT03"] == []


@pytest.mark.parametrize(
    "after",
    [
        'file = cv2.FileStorage("a.yml", cv2.FILE_STORAGE_READ)\n',
        'with iio.imopen("a.gif", "r") as file:\n    pass\n',
        'with gzip.GzipFile("a.gz") as file:\n    pass\n',
        'with pa.OSFile("a", "rb") as file:\n    pass\n',
        'with h5py.File("a.h5", "r") as file:\n    pass\n',
        'base = sqlite3.connect("a.db")\nrows = base.execute("SELECT * FROM a").fetchall()\n',
        'rows = np.memmap("a.bin", dtype="float32", mode="r")\n',
        'rows = pl.read_csv("a.csv")\n',
        "import io\nbuffer = io.BytesIO()\ntorch.save({}, buffer)\n",
        "class Rows:\n    def dump(self, name):\n        self.name = name\n\n\nRows().dump('a')\n",
        "class Rows:\n    def write_csv(self, name):\n        self.name = name\n\n\nRows().write_csv('a.csv')\n",
        "import pickle\nrows = np.zeros(3)\ntext = rows.dumps()\n",
    ],
)
def test_what_reads_or_keeps_in_memory_is_left_alone(after: str) -> None:
    assert changes("OUT03", script(imports=imports_for(after), after=after)) == []


STORE = """\
class Store:
    def __init__(self, root):
        self.is_remote = root.startswith("gs://")

    def disk(self):
        if not getattr(self, "is_remote", False):
            return None
        import gcsfs
        return gcsfs.GCSFileSystem()


disk = Store(str(len(data))).disk()
"""


def test_what_takes_a_mode_is_opened_by_rank_zero_alone() -> None:
    """Of whichever library: a rank that writes nothing would put an empty file in the place of the other's."""
    imports = f"import json\n{IMPORTS}"
    before = 'with disk.open("a.json", "w") as file:\n    json.dump([1], file)\n'
    after = converted(script(imports=imports, after=STORE + before))
    assert after.endswith(ON_MAIN + indented(before))
    read = 'with disk.open("a.json", "r") as file:\n    rows = json.load(file)\n'
    assert converted(script(imports=imports, after=STORE + read)).endswith(read)
