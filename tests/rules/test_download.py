"""DATA03: one process downloads, the others wait."""

from __future__ import annotations

import re

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import (
    DATA,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    RUNTIME,
    WRAPPER,
    changes,
    conversion_of,
    converted,
    distributed,
    findings,
    indented,
    line_of,
    script,
)

OURS = RUNTIME + WRAPPER
VISION = f"{IMPORTS}from torchvision import datasets\n"
FETCH = f"import os\nfrom urllib.request import urlretrieve\n\n{IMPORTS}"
FIRST = "with rt.main_process_first():\n"


@pytest.mark.parametrize(
    "data",
    [
        'data = datasets.MNIST(".", download=True)\n',
        'data = datasets.MNIST(".", True, None, None, True)\n',
        'data = datasets.MNIST(\n    ".",  # here\n    download=True,\n)  # once\n',
        'data = datasets.MNIST(".", download=True)\n# to test with\ntest = datasets.MNIST(".", download=True)\n',
        'data, n = datasets.MNIST(".", download=True), 3\n',
        'data: object = datasets.MNIST(".", download=True)\n',
    ],
)
def test_statement(data: str) -> None:
    assert converted(script(imports=VISION, data=data)) == distributed(
        imports=VISION, ours=OURS, data=FIRST + indented(data)
    )


OWN = """\
class Data(datasets.MNIST):
    def __getitem__(self, index):
        return super().__getitem__(index)[0], 1


"""


def test_a_class_of_the_script_below_one_that_downloads() -> None:
    made = 'data = Data(".", download=True)\n'
    after = converted(script(imports=VISION, setup=OWN, data=made))
    assert f"{FIRST}    {made}" in after


@pytest.mark.parametrize(
    ("base", "given"), [("datasets.MNIST", "download=False"), ("torch.utils.data.Dataset", "download=True")]
)
def test_a_class_of_the_script_that_downloads_nothing(base: str, given: str) -> None:
    before = script(imports=VISION, setup=OWN.replace("datasets.MNIST", base), data=f'data = Data(".", {given})\n')
    assert "main_process_first" not in converted(before)


def test_other_statements_of_the_line_stay_outside() -> None:
    before = 'data = datasets.MNIST(".", download=True); batch_size = 8  # both\n'
    after = f'{FIRST}    data = datasets.MNIST(".", download=True)\nbatch_size = 8  # both\n'
    assert converted(script(imports=VISION, data=before)) == distributed(imports=VISION, ours=OURS, data=after)


def test_one_line_suite() -> None:
    before = 'if True: data = datasets.MNIST(".", download=True)\nelse: data = None\n'
    after = f'if True:\n    {FIRST}        data = datasets.MNIST(".", download=True)\nelse: data = None\n'
    assert converted(script(imports=VISION, data=before)) == distributed(imports=VISION, ours=OURS, data=after)


@pytest.mark.parametrize("head", ["", "@functools.cache\n"])
def test_returned(head: str) -> None:
    imports = f"import functools\n\n{VISION}"
    function = f'{head}def digits():\n    return datasets.MNIST(".", download=True)\n\n\n'
    guarded = f'{head}def digits():\n    {FIRST}        return datasets.MNIST(".", download=True)\n\n\n'
    before = script(imports=imports, setup=function, data="data = digits()\n")
    assert converted(before) == distributed(imports=imports, ours=OURS, setup=guarded, data="data = digits()\n")


def test_dataset_made_in_the_loaders_call() -> None:
    before = script(
        imports=VISION, data="", loader='loader = DataLoader(datasets.MNIST(".", download=True), 8, True)\n'
    )
    after = converted(before)
    (name,) = [line.split(" = ")[0].strip() for line in after.splitlines() if " = datasets.MNIST(" in line]
    loader = f"""\
{FIRST}    {name} = datasets.MNIST(".", download=True)
loader = DataLoader({name}, rt.per_rank_batch_size(8),
                    sampler=rt.TrainingSampler({name}))
"""
    assert after == distributed(imports=VISION, ours=OURS, data="", loader=loader)


@pytest.mark.parametrize(
    "setup",
    [
        'if not os.path.exists("x"):\n    urlretrieve("http://x", "x")\n',
        'if not os.path.exists("x"): urlretrieve("http://x", "x")\n',
        'if not os.path.isfile("x"):\n    print("downloading")\n    urlretrieve("http://x", "x")\n',
    ],
)
def test_looks_before_it_downloads(setup: str) -> None:
    """Who comes second finds the file and would pass a barrier inside the branch by: the branch goes inside."""
    inside = indented(setup)
    assert converted(script(imports=FETCH, setup=setup)) == distributed(
        imports=FETCH, setup=GROUP + FIRST + inside, group="", prints="print" in setup
    )


def test_leaves_before_it_downloads() -> None:
    """`return` where the file is there: the barrier belongs around the call of the function."""
    function = 'def fetch():\n    if os.path.exists("x"):\n        return\n    urlretrieve("http://x", "x")\n\n\n'
    before = script(imports=FETCH, setup=f"{function}fetch()\n")
    assert converted(before) == distributed(imports=FETCH, setup=f"{function}{GROUP}{FIRST}    fetch()\n", group="")


LEAVES = ("return", "sys.exit()", 'raise FileNotFoundError("pictures")')
TRAINS = """\
def main():
{before}    net = models.resnet18(weights="DEFAULT")
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""
VISION_MODELS = f"import os\nimport sys\n{IMPORTS}from torchvision import models\n"
STRATEGIES = pytest.mark.parametrize("strategy", ["sharded", "shared"])


@STRATEGIES
@pytest.mark.parametrize("leave", LEAVES)
def test_a_function_that_trains_is_no_download(leave: str, strategy: str) -> None:
    """Who leaves before the download is settled by rank 0: the guard must not hold what all ranks meet in."""
    body = f'    if not os.path.exists("pictures"):\n        {leave}\n'
    new = converted(VISION_MODELS + TRAINS.format(before=body), Options(strategy=strategy))
    assert '    if not rt.from_main_process(os.path.exists("pictures")):\n' in new
    assert '    with rt.main_process_first():\n        net = models.resnet18(weights="DEFAULT")\n' in new
    assert new.index("init_process_group") < new.index("from_main_process")
    assert "\nmain()\n" in new


@STRATEGIES
def test_a_branch_that_trains_is_no_download(strategy: str) -> None:
    text = TRAINS.format(before="").replace("def main():\n", 'if os.path.exists("pictures"):\n').replace("main()\n", "")
    new = converted(VISION_MODELS + text, Options(strategy=strategy))
    assert 'if rt.from_main_process(os.path.exists("pictures")):\n' in new
    assert '    with rt.main_process_first():\n        net = models.resnet18(weights="DEFAULT")\n' in new


def test_a_function_that_downloads_where_the_file_is_missing() -> None:
    """Rank 0 has made the file when another looks: it would not come to the guard."""
    function, looks = 'def fetch():\n    {}urlretrieve("http://x", "x")\n\n\n', 'os.path.exists("x")'
    before = script(imports=FETCH, setup=f"{function.format('')}if not {looks}:\n    fetch()\n")
    guarded, told = function.format(f"{FIRST}        "), f"if not rt.from_main_process({looks}):\n    fetch()\n"
    assert converted(before) == distributed(imports=FETCH, setup=f"{guarded}{GROUP}{told}", group="")


@pytest.mark.parametrize(
    "before",
    ['    if not os.path.exists("notes"):\n        print("no notes")\n', "    if len(sys.argv) > 3:\n        return\n"],
    ids=["nobody leaves", "no file is asked for"],
)
def test_tests_that_part_nobody_stay(before: str) -> None:
    new = converted(VISION_MODELS + TRAINS.format(before=before))
    assert before in new
    assert '    with rt.main_process_first():\n        net = models.resnet18(weights="DEFAULT")\n' in new


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from urllib.request import urlretrieve as fetch\n", 'fetch("http://x", "x")\n'),
        ("import urllib.request as web\n", 'web.urlretrieve("http://x", "x")\n'),
        ("from torchvision.datasets.utils import download_url\n", 'download_url("http://x", ".")\n'),
        ("from transformers import AutoModel\n", 'bert = AutoModel.from_pretrained("bert")\n'),
        ("", 'net = torch.hub.load("pytorch/vision", "resnet18")\n'),
        ("import timm\n", 'net = timm.create_model("resnet18", pretrained=True)\n'),
        ("import timm\n", 'net = timm.create_model("resnet18", True)\n'),
        ("import unheard\n", 'net = unheard.build(3, pretrained="imagenet")\n'),
        ("import timm\n", 'net = timm.create_model("hf-hub:who/net")\n'),
        ("import timm\n", "net = timm.models.resnet18(True)\n"),
        ("import torchvision\n", "net = torchvision.models.vgg16(True)\n"),
        ("import torchvision.models as models\n", "net = models.resnet.resnet18(True)\n"),
        ("import torchvision.models as models\n", "net = models.resnet18(models.ResNet18_Weights.DEFAULT)\n"),
        ("from torchvision.models import resnet18\n", 'net = resnet18("IMAGENET1K_V1")\n'),
        ("from torchvision.models import get_model\n", 'net = get_model("resnet18", weights="DEFAULT")\n'),
        ("import torchvision.models as models\n", 'net = getattr(models, "resnet%d" % 18)(True)\n'),
        ("from torchvision.models.detection import ssd300_vgg16\n", "net = ssd300_vgg16()\n"),
        ("from torchvision.models.detection import ssd300_vgg16\n", "net = ssd300_vgg16(weights=None)\n"),
        ("import segmentation_models_pytorch as smp\n", 'net = smp.Unet("resnet34")\n'),
        ("", 'net = torch.hub.load("pytorch/vision", "resnet18", pretrained=False)\n'),
        ("", 'net = torch.hub.load("vision", "resnet18", source="local", pretrained=True)\n'),
        ("", 'rows = torch.hub.load_state_dict_from_url("http://a/b.pt")\n'),
        ("from transformers import AutoModel\n", 'bert = AutoModel.from_pretrained("bert", local_files_only=False)\n'),
        ("import nltk\n", 'nltk.download("punkt")\n'),
        ("from huggingface_hub import snapshot_download\n", 'snapshot_download("bert")\n'),
        ("from sentence_transformers import SentenceTransformer\n", 'net = SentenceTransformer("mini")\n'),
        ("from sklearn.datasets import fetch_openml\n", 'digits = fetch_openml("mnist")\n'),
    ],
)
def test_other_downloads(imports: str, call: str) -> None:
    imports = IMPORTS + imports
    assert converted(script(imports=imports, setup=call)) == distributed(
        imports=imports, setup=f"{GROUP}{FIRST}    {call}", group=""
    )


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param('test = datasets.MNIST(".", download=False)\n', id="download=False"),
        pytest.param('test = datasets.MNIST(".")\n', id="not said"),
        pytest.param("def get(download):\n    return download\n\n\nget(download=True)\n", id="own function"),
        pytest.param("class Get:\n    def __init__(self, download): pass\n\n\nGet(download=True)\n", id="own class"),
        pytest.param("def urlretrieve(url, name):\n    pass\n\n\nurlretrieve('a', 'b')\n", id="own urlretrieve"),
        pytest.param("def never():\n    return datasets.MNIST('.', download=True)\n\n\n", id="never called"),
        pytest.param("options = dict(download=True)\n", id="dictionary"),
        pytest.param("rows = nn.Embedding.from_pretrained(torch.ones(3, 4))\n", id="weights that are given"),
        pytest.param("import timm\nnet = timm.create_model('a', pretrained=False)\n", id="pretrained=False"),
        pytest.param("import timm\nnet = timm.create_model('a')\n", id="pretrained not said"),
        pytest.param("from timm.models.layers import to_2tuple\nsize = to_2tuple(4)\n", id="what layers are made of"),
        pytest.param("import unheard\nnet = unheard.build(3, pretrained=None)\n", id="pretrained=None"),
        pytest.param("import timm\nnet = timm.create_model('a', False)\n", id="False by position"),
        pytest.param("import torchvision as v\nnet = v.models.vgg16(False)\n", id="torchvision, False"),
        pytest.param("import torchvision\nnet = torchvision.models.vgg16()\n", id="torchvision, not said"),
        pytest.param("import torchvision as v\nnet = v.models.vgg16(weights=None)\n", id="no weights"),
        pytest.param("import torchvision\nnet = torchvision.models.VGG(nn.Linear(1, 1), 2)\n", id="a class"),
        pytest.param("import torchvision\nnames = torchvision.models.list_models('a')\n", id="their names"),
        pytest.param("import torchvision\nnet = torchvision.models.vgg16()\n"
                     "part = torchvision.models.feature_extraction.create_feature_extractor(net, 'a')\n", id="a part"),
        pytest.param("from torchvision.models.detection import ssd300_vgg16\n"
                     "net = ssd300_vgg16(weights=None, weights_backbone=None)\n", id="nothing for its part"),
        pytest.param("import segmentation_models_pytorch as m\nnet = m.Unet('a', encoder_weights=None)\n", id="smp"),
        pytest.param("import segmentation_models_pytorch as m\nnet = m.Unet('a', 5, None)\n", id="smp, None"),
        pytest.param("import segmentation_models_pytorch as m\nloss = m.losses.DiceLoss('a')\n", id="smp, a loss"),
        pytest.param("net = torch.hub.load('a', 'b', source='local')\n", id="a hub in a folder"),
        pytest.param("from transformers import AutoModel\n"
                     "net = AutoModel.from_pretrained('a', local_files_only=True)\n", id="of files that are there"),
        pytest.param("def build(pretrained):\n    return pretrained\n\n\nbuild(pretrained=True)\n", id="own builder"),
    ],
)  # fmt: skip
def test_left_alone(setup: str) -> None:
    before = script(imports=VISION, setup=setup)
    assert changes("DATA03", before) == []
    assert "main_process_first" not in converted(before)


def test_nothing_is_downloaded() -> None:
    assert changes("DATA03", script()) == []


def test_flag_that_is_computed() -> None:
    imports = f"import os\n\n{VISION}"
    data = 'data = datasets.MNIST(".", download=not os.path.exists("MNIST"))\n'
    after = f"{FIRST}    {data}"
    assert converted(script(imports=imports, data=data)) == distributed(imports=imports, ours=OURS, data=after)


def test_only_the_download_is_inside() -> None:
    before = script(imports=VISION, data=f'{DATA}extra = datasets.MNIST(".", download=True)\n')
    after = f'{DATA}{FIRST}    extra = datasets.MNIST(".", download=True)\n'
    assert converted(before) == distributed(imports=VISION, data=after)


@pytest.mark.parametrize("line", ['net = unheard.build("small-en")\n', 'a = unheard.get("https://a.b/c.zip", 3)\n'])
def test_what_is_not_known_is_not_said_to_download_nothing(line: str) -> None:
    before = script(imports=f"import unheard\n{IMPORTS}", setup=line)
    (advice,) = findings("DATA03", before, Level.ADVICE)
    assert advice.message.startswith("it is not known whether `unheard.")
    assert findings("DATA03", before, Level.NOT_NEEDED) == []
    assert "main_process_first" not in converted(before)


@pytest.mark.parametrize(
    "line",
    [
        "net = unheard.build(3)\n",
        'net = unheard.build("a/config.yaml")\n',
        'net = unheard.build("./weights")\n',
        'net = unheard.say("a word and another")\n',
        "net = unheard.build(input())\n",
    ],
)
def test_what_is_not_known_and_given_no_name_is_named(line: str) -> None:
    before = script(imports=f"import unheard\n{IMPORTS}", setup=line)
    assert findings("DATA03", before, Level.ADVICE) == []
    (claim,) = [one.message for one in findings("DATA03", before, Level.NOT_NEEDED)]
    assert re.fullmatch(r"nothing is downloaded, unless by `unheard\.\w+` at train.py:6, which is not known", claim)


@pytest.mark.parametrize(
    "line",
    [
        'named = collections.namedtuple("Pair", "a b")\n',
        'random.choice("abc")\n',
        'from pytorch_metric_learning import miners\nmine = miners.TripletMarginMiner(type_of_triplets="semihard")\n',
        'def build(name):\n    return name\n\n\nbuild("small")\n',
        "import torchvision\nnet = torchvision.models.vgg16()\n",
        'from transformers import AutoModel\nnet = AutoModel.from_pretrained("a", local_files_only=True)\n',
        'from safetensors.torch import save_file\nsave_file({}, "a")\n',
        'import smtplib\npost = smtplib.SMTP("a")\n',
    ],
)
def test_nothing_is_given_a_name(line: str) -> None:
    before = script(imports=f"import collections\nimport random\n{IMPORTS}", setup=line)
    assert findings("DATA03", before, Level.ADVICE) == []
    assert [one.message for one in findings("DATA03", before, Level.NOT_NEEDED)] == ["nothing is downloaded"]


@pytest.mark.parametrize(
    "line",
    ['import struct\nheader = struct.pack("4h", 1, 2, 3, 4)\n', 'import wave\nsound = wave.open("sound", "rb")\n'],
)
def test_python_itself_downloads_nothing(line: str) -> None:
    before = script(setup=line)
    assert findings("DATA03", before, Level.ADVICE) == []
    assert [one.message for one in findings("DATA03", before, Level.NOT_NEEDED)] == ["nothing is downloaded"]


@pytest.mark.parametrize(
    ("line", "by"),
    [
        ('os.system("wget http://a.b/c.zip")\n', "OUT03 names"),
        ('os.system("cd data && wget -q http://a.b/c.zip")\n', "OUT03 names"),
        ('subprocess.run(["/usr/bin/curl", "-O", "http://a.b/c.zip"])\n', "OUT03 names"),
        ("subprocess.run(sys.argv[1:])\n", "OUT03 names"),
        ('done = subprocess.run(["wget", "http://a.b/c"])\nprint(done.returncode)\n', "NET01 names"),
        (
            'with open("c.zip", "wb") as file:\n    file.write(requests.get("http://a.b/c.zip").content)\n',
            "NET01 names",
        ),
        ('text = urllib.request.urlopen("http://a.b/c").read()\n', "NET01 names"),
        ('os.system("wget http://a.b/c")\nx = requests.get("http://a.b/c")\n', "OUT03 and NET01 name"),
        ('os.system("./prepare.sh")\n', "OUT03 names"),
        ('os.system("mkdir -p out && fetch http://a.b/c")\n', "OUT03 names"),
        ('os.system("mkdir -p $(fetch a)")\n', "OUT03 names"),
        ('x = requests.post("http://a.b/c")\n', "NET01 names"),
    ],
)
def test_what_commands_and_answers_bring_is_no_claim_of_downloads(line: str, by: str) -> None:
    before = script(
        imports=f"import os\nimport subprocess\nimport sys\nimport urllib.request\nimport requests\n{IMPORTS}",
        setup=line,
    )
    [claim] = findings("DATA03", before, Level.NOT_NEEDED)
    assert claim.message == f"nothing is downloaded, but perhaps by what {by}"


@pytest.mark.parametrize(
    "line",
    [
        'os.system("mkdir -p out")\n',
        'os.system("cd out && rm -f old ; ls")\n',
        'subprocess.run(["unzip", "a.zip"])\n',
        'print(subprocess.check_output(["git", "rev-parse", "HEAD"]))\n',
        'requests.post("http://a.b/done", json={})\n',
        'note = smtplib.SMTP("a.b")\n',
    ],
)
def test_what_brings_no_file_is_no_download(line: str) -> None:
    before = script(imports=f"import os\nimport smtplib\nimport subprocess\nimport requests\n{IMPORTS}", setup=line)
    assert [one.message for one in findings("DATA03", before, Level.NOT_NEEDED)] == ["nothing is downloaded"]


UNHEARD = f"import argparse\nimport yaml\nimport unheard\n{IMPORTS}"
TYPED = """\
parser = argparse.ArgumentParser()
parser.add_argument("--where", default="cache")
parser.add_argument("--count", type=int, default=64)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    "data",
    [
        'data = unheard.Recordings(keep="cache")\n',
        'data = unheard.Recordings("raw", "cache/a")\n',
        "data = unheard.Recordings(args.where)\n",
        'data = unheard.Recordings(f"{args.where}_{args.count}")\n',
        'data = unheard.Recordings(args.where + "/a", label=unheard.Label("valence"))\n',
        'data = unheard.Recordings(**yaml.safe_load(open("a.yaml")))\n',
        'data = unheard.Recordings(yaml.safe_load(open("a.yaml"))["where"])\n',
        "data, rest = unheard.split(TensorDataset(torch.randn(64, 4)), args.where)\n",
        'data = list(unheard.Folds(keep="cache").split(TensorDataset(torch.randn(64, 4))))[0]\n',
    ],
)
def test_data_of_a_library_that_may_keep_a_cache(data: str) -> None:
    group = TYPED + GROUP
    after = converted(script(imports=UNHEARD, setup=TYPED, data=data))
    assert after == distributed(imports=UNHEARD, ours=OURS, group=group, data=FIRST + indented(data))


def test_what_a_data_set_is_split_off_and_what_a_data_set_of_the_script_holds() -> None:
    held = """\
class Kept(torch.utils.data.Dataset):
    def __init__(self, where):
        self.rows = unheard.Recordings(where)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


"""
    split = "whole = unheard.Recordings(args.where)\ndata, rest = torch.utils.data.random_split(whole, [48, 16])\n"
    after = converted(script(imports=UNHEARD, setup=TYPED, data=split))
    assert f"{FIRST}    whole = unheard.Recordings(args.where)\ndata, rest =" in after
    after = converted(script(imports=UNHEARD, setup=held + TYPED, data="data = Kept(args.where)\n"))
    assert indented(f"{FIRST}    self.rows = unheard.Recordings(where)\n", " " * 8) in after


@pytest.mark.parametrize(
    "data",
    [
        "data = unheard.Recordings(args.count)\n",
        "data = unheard.Recordings(64, shuffled=True)\n",
        "data = unheard.Recordings(torch.randn(64, 4), torch.randn(64))\n",
        "data = unheard.Recordings(unheard.rows(64))\n",
        'data = TensorDataset(torch.randn(64, 4))\nwords = unheard.Words("cache/words")\n',
        'data = unheard.Recordings(64, label=unheard.Label("cache/labels"))\n',
        'data = datasets.MNIST("cache")\n',
        "data = datasets.ImageFolder(args.where)\n",
    ],
)
def test_data_that_no_cache_is_kept_of(data: str) -> None:
    imports = UNHEARD + "from torchvision import datasets\n"
    assert "main_process_first" not in converted(script(imports=imports, setup=TYPED, data=data))


HANDED_ON = """\
def parts(where):
    for part in range(2):
        yield {made}


for data in parts("cache"):
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_what_is_handed_on_where_it_is_made() -> None:
    """Whoever goes through it trains before the statement is done: the other ranks would wait for rank 0 meanwhile."""
    imports = UNHEARD + "from torchvision import datasets\n"
    before = script(imports=imports, data="", loader="", loop=HANDED_ON.format(made="unheard.Recordings(where, part)"))
    assert "main_process_first" not in converted(before)
    [told] = [one for one in findings("DATA03", before, Level.ADVICE) if "keeps files of its own" in one.message]
    assert told.place is not None
    assert told.place.line == line_of(before, "yield unheard.Recordings(where, part)")
    known = HANDED_ON.format(made="datasets.MNIST(where, download=True)")
    [told] = findings("DATA03", script(imports=imports, data="", loader="", loop=known), Level.BLOCKING)
    assert "handed on in the same statement" in told.message


FOLDS = """\
for data, test in unheard.Folds("cache").split(TensorDataset(torch.randn(64, 4))):
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "loop",
    [
        FOLDS,
        FOLDS.replace("for data, test in", "folds =").replace(":\n", "\nfor data, test in folds:\n", 1),
    ],
)
@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_ranks_cannot_take_turns_in_what_a_loop_goes_through(loop: str, strategy: str) -> None:
    before = script(imports=UNHEARD, data="", loader="", loop=loop)
    options = Options(strategy=strategy)
    assert "main_process_first" not in converted(before, options)
    advice = next(one for one in conversion_of(before, options=options).of(Level.ADVICE) if one.code == "DATA03")
    assert "split` keeps files of its own" in advice.message


def test_rank_0_waits_for_nobody_in_what_also_trains() -> None:
    train = f"def train(data):\n{indented(MODEL + LOADER + OPTIMIZER + LOOP)}    return model\n\n\n"
    after = converted(f'{UNHEARD}\n{train}train(unheard.Recordings("cache"))\n')
    assert "main_process_first" not in after


@pytest.mark.parametrize(
    ("imports", "fetch"),
    [
        (
            "import subprocess\nimport sys\n",
            "subprocess.check_call([sys.executable, '-m', 'pip', 'install', 'timm'])\n",
        ),
        ("import os\n", "os.system('pip install timm')\n"),
        ("import torchaudio\n", "bundle = torchaudio.pipelines.WAV2VEC2_BASE.get_model()\n"),
    ],
)
def test_what_is_installed_is_there_for_all_ranks(imports: str, fetch: str) -> None:
    before = script(imports=imports + IMPORTS, setup=f"try:\n    import timm\nexcept ImportError:\n    {fetch}")
    assert f"except ImportError:\n    with rt.main_process_first():\n        {fetch}" in converted(before)


def test_a_command_that_installs_nothing_is_run_by_rank_zero() -> None:
    before = script(imports=f"import os\n{IMPORTS}", setup="os.system('cp a b')\n")
    assert "if rt.is_main_process():\n    os.system('cp a b')\n" in converted(before)


OWN_KIND = """\
class Own(datasets.MNIST):
    def __init__(self, root, digit=0, download=True):
        super().__init__(root, download={download})


data = {made}
"""
SUPER_FIRST = "        with rt.main_process_first():\n            super().__init__(root, download="


@pytest.mark.parametrize(
    ("download", "made", "first"),
    [
        ("True", 'Own(".")', SUPER_FIRST),
        ("download", 'Own(".")', SUPER_FIRST),
        ("download", 'Own(**{"root": "."})', SUPER_FIRST),
        ("download", 'Own(".", download=True)', 'with rt.main_process_first():\n    data = Own("'),
        ("False", 'Own(".")', None),
        ("download", 'Own(".", download=False)', None),
    ],
)
def test_a_data_set_of_the_scripts_own_that_lets_its_base_download(download: str, made: str, first: str | None) -> None:
    text = converted(script(imports=VISION, data=OWN_KIND.format(download=download, made=made)), Options())
    assert text.count("main_process_first") == (first is not None)
    assert first is None or first in text


FETCHED = """\
def fetch(path):
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    urlretrieve("http://a/d.pt", path)


path = os.path.join("data", "d.pt")
"""


def test_who_comes_after_rank_0_looks_for_the_file_itself() -> None:
    """Rank 0's answer of before would have each rank download it once more."""
    text = converted(script(imports=FETCH, setup=f"{FETCHED}fetch(path)\n"))
    assert "with rt.main_process_first():\n    fetch(path)\n" in text
    assert "    if os.path.exists(path):\n" in text
