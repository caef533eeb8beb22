"""What reads files, of all libraries: the others wait for what rank 0 wrote or fetched, whoever reads it."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import converted, findings, script
from tests.rules.test_every_writer import imports_for

WAIT = "rt.barrier()\n"


def with_data(lines: str) -> str:
    return script(imports=imports_for(lines), after=lines)


@pytest.mark.parametrize(
    ("write", "read"),
    [
        ('rows.tofile("a.bin")', 'np.fromfile("a.bin")'),
        ('rows.tofile("a.bin")', 'np.memmap("a.bin", mode="r")'),
        ('rows.tofile("a.bin")', 'torch.from_file("a.bin", size=3)'),
        ('save_file({}, "a.safetensors")', 'safetensors.torch.load_file("a.safetensors")'),
        ('save_file({}, "a.safetensors")', 'safetensors.torch.load_model(model, "a.safetensors")'),
        ('with h5py.File("a.h5", "w") as file:\n    file.close()', 'h5py.File("a.h5", "r")'),
        ('with zipfile.ZipFile("a.zip", "w") as file:\n    file.write("a.txt")', 'zipfile.ZipFile("a.zip")'),
        ('Image.new("RGB", (3, 3)).save("a.png")', 'Image.open("a.png")'),
        ('Image.new("RGB", (3, 3)).save("a.png")', 'torchvision.io.decode_image("a.png")'),
        ('cv2.imwrite("a.png", 1)', 'cv2.imread("a.png")'),
        ('sf.write("a.wav", [1], 8000)', 'sf.read("a.wav")'),
        ('pd.DataFrame({"a": [1]}).to_parquet("a.parquet")', 'pq.read_table("a.parquet")'),
        ('pd.DataFrame({"a": [1]}).to_parquet("a.parquet")', 'unheard.table("a.parquet")'),
        ('shutil.unpack_archive("a.zip", "pictures")', 'torchvision.datasets.ImageFolder("pictures/train")'),
        ('torchvision.datasets.utils.extract_archive("a.zip", "b")', 'torchvision.datasets.CocoDetection("b", "c")'),
        ('shutil.unpack_archive("a.zip", "b")', 'open("b/a.txt").read()'),
        ('torch.jit.save(torch.jit.script(model), "a.pt")', 'torch.jit.load("a.pt")'),
        ('model.save_pretrained("a")', 'transformers.AutoModel.from_pretrained("a", local_files_only=True)'),
        ('unheard.rows().save_to_disk("a")', 'datasets.load_from_disk("a")'),
        ('zarr.save("a.zarr", [1])', 'zarr.load("a.zarr")'),
        ('base = sqlite3.connect("a.db")\nbase.execute("CREATE TABLE a (b)")\nbase.close()', 'sqlite3.connect("a.db")'),
        ('base = np.memmap("a.bin", mode="w+", shape=(3,))\nbase[:] = 1', 'np.fromfile("a.bin")'),
        ('wandb.init()\ncv2.imwrite("a.png", 1)', 'wandb.Image("a.png")'),
        ('swanlab.init()\ncv2.imwrite("a.png", 1)', 'swanlab.Image("a.png")'),
        ('wandb.init()\nitem = wandb.Artifact("a", type="b")\ncv2.imwrite("a.png", 1)', 'item.add_file("a.png")'),
        ('wandb.init()\nname = f"{rows[0]}.png"\ncv2.imwrite(name, 1)', "wandb.Image(name)"),
        ('cv2.imwrite("a.png", 1)', 'IPython.display.Image("a.png")'),
        ('client = boto3.client("s3")\nclient.download_file("b", "k", "a.h5")', 'h5py.File("a.h5", "r")'),
        ('box = paramiko.SFTPClient(1)\nbox.get("there/a.h5", "a.h5")', 'h5py.File("a.h5", "r")'),
    ],
)
def test_ranks_wait_for_what_rank_zero_wrote(write: str, read: str) -> None:
    lines = f"rows = np.zeros(3)\n{write}\nfound = {read}\n"
    after = converted(with_data(lines))
    assert after[: after.index("found = ")].endswith(WAIT)
    assert findings("PATH01", with_data(lines), Level.NOT_NEEDED) == []


@pytest.mark.parametrize(
    "lines",
    [
        'rows = np.zeros(3)\nfound = h5py.File("a.h5", "r")\n',
        'rows = np.zeros(3)\nrows.tofile("a.bin")\nfound = np.fromfile("b.bin")\n',
        'shutil.unpack_archive("a.zip", "b")\nfound = open("a.zip.txt").read()\n',
        'save_file({}, "a.safetensors")\nfound = pq.read_table("b.parquet")\n',
        'client = boto3.client("s3")\nclient.upload_file("a.h5", "b", "k")\nfound = h5py.File("a.h5", "r")\n',
        'import io\nrows = io.BytesIO()\ntorch.save({}, "a.pt")\nfound = Image.open(rows)\n',
        'save_file({}, "a.safetensors")\nfound = unheard.build("attention.query_key")\n',
        'wandb.init()\ncv2.imwrite("a.png", 1)\nfound = wandb.Image(np.zeros((3, 3)))\n',
        'wandb.init()\ncv2.imwrite("a.png", 1)\nfound = wandb.Image("b.png")\n',
        'wandb.init()\nfound = wandb.Image("a.png")\n',
        'wandb.init()\ncv2.imwrite("a.png", 1)\nfound = wandb.Histogram(np.zeros(3))\nwandb.save("a.png")\n',
        'cv2.imwrite("a.png", 1)\nitem = unheard.Set()\nitem.add_file(3)\n',
    ],
)
def test_nobody_waits_for_what_was_there(lines: str) -> None:
    assert WAIT not in converted(with_data(lines))


@pytest.mark.parametrize(
    "fetch",
    [
        'data = dgl.data.CoraGraphDataset()',
        'rows = torchtext.datasets.AG_NEWS(split="train")',
        'kaggle.api.dataset_download_files("a/b", path="c")',
        'api = wandb.Api()\n{first}api.run("a").file("b").download()',
        'found = skimage.data.astronaut()',
        'rows = datasets.load_dataset("a")',
        'rows = torch_geometric.datasets.Planetoid("a", "Cora")',
        'rows = ogb.nodeproppred.PygNodePropPredDataset("ogbn-arxiv", root="a")',
        'found = torchaudio.datasets.SPEECHCOMMANDS("a", download=True)',
    ],
)  # fmt: skip
def test_rank_zero_downloads_first(fetch: str) -> None:
    lines = fetch.format(first="") + "\n"
    last = lines.splitlines()[-1]
    assert f"with rt.main_process_first():\n    {last}\n" in converted(with_data(lines))
    assert findings("DATA03", with_data(lines), Level.NOT_NEEDED) == []


def test_what_opens_a_file_inside_of_a_helper_is_waited_for() -> None:
    shown = 'def show(picture):\n    wandb.log({"a": wandb.Image(picture)})\n\n\n'
    written = 'name = f"{number}.png"\n    cv2.imwrite(name, 1)\n    show(name)\n'
    after = converted(with_data(f"{shown}wandb.init()\nfor number in range(3):\n    {written}"))
    assert "def show(picture):\n    rt.barrier()\n    wandb.log" in after
    own = 'wandb.init()\ncv2.imwrite("a.png", 1)\nshow(np.zeros((3, 3)))\n'
    assert WAIT not in converted(with_data(shown + own))


def test_rank_zero_waits_until_all_have_opened_what_it_writes_anew() -> None:
    lines = 'wandb.init()\nfor number in range(3):\n    cv2.imwrite("a.png", 1)\n    found = wandb.Image("a.png")\n'
    assert converted(with_data(lines)).count(WAIT) == 2


GRAPHS = """\
class Graphs(torch_geometric.data.InMemoryDataset):
    def __init__(self, root):
        super().__init__(root)
        self.data, self.slices = torch.load(self.processed_paths[0])

    def process(self):
        torch.save([1], self.processed_paths[0])


"""


def test_rank_zero_prepares_a_data_set_first_and_nobody_waits_in_there() -> None:
    """Rank 0 would wait in a collective for ranks that wait for it."""
    after = converted(with_data(f'{GRAPHS}rows = Graphs("a")\n'))
    assert 'with rt.main_process_first():\n    rows = Graphs("a")\n' in after
    assert WAIT not in after


@pytest.mark.parametrize(
    "lines",
    [
        'rows = dgl.data.utils.load_graphs("a.bin")\n',
        "class Own(torch_geometric.data.InMemoryDataset):\n    pass\n\n\nrows = Own()\n",
        'class Own(torch_geometric.data.Dataset):\n    def get(self, i):\n        return i\n\n\nrows = Own("a")\n',
        "class Own:\n    def download(self):\n        return 1\n\n\nOwn().download()\n",
        'client = boto3.client("s3")\nclient.download_file("b", "k", "a.h5")\n',
    ],
)
def test_nothing_is_downloaded_by_all_ranks(lines: str) -> None:
    assert "main_process_first" not in converted(with_data(lines))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('wget.download("http://x", "a.h5")\n', "no other files are written"),
        ('client = boto3.client("s3")\nclient.download_file("b", "k", "a.h5")\n', "no other files are written"),
        ('found = unheard.table("a.csv")\n',
         "no other files are written, unless `unheard.table` at train.py:16 writes: it is given a path, and not known"),
    ],
)  # fmt: skip
def test_what_is_said_of_writing_names_another_rule(lines: str, said: str) -> None:
    (one,) = findings("OUT03", with_data(lines), Level.NOT_NEEDED)
    assert one.message == said
