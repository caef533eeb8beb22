"""NET01: rank 0 alone asks the world outside; the others hear the answer, or have something in place of the line."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Outcome, Strategy
from distify_codemods.results import Options

from tests.rules.scripts import (
    DATA,
    IMPORTS,
    LOOP,
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

CODE = "NET01"
TOOLS = (
    "import os\nimport smtplib\nimport socket\nimport subprocess\nimport urllib.request\nimport aiohttp\n"
    f"import google.colab.files\nimport redis\nimport requests\nimport yfinance\nimport zmq\n{IMPORTS}"
)
ON_MAIN = "if rt.is_main_process():\n"
UNKNOWN = f"import arena\n{IMPORTS}"
SHARED = Options(strategy="shared")
AUTO = Options()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('rate = requests.get("http://a").json()["rate"]\n',
                     'rate = rt.call_on_main_process(requests.get, "http://a").json()["rate"]\n', id="asked"),
        pytest.param('prices = yfinance.download("A", start="2020-01-01")["Close"]\n',
                     'prices = rt.call_on_main_process(yfinance.download, "A", start="2020-01-01")["Close"]\n',
                     id="downloads no file"),
        pytest.param('google.colab.files.download("m.pt")\n',
                     f'{ON_MAIN}    google.colab.files.download("m.pt")\n', id="sent to a browser"),
        pytest.param('chosen = google.colab.files.upload()\n',
                     'chosen = rt.call_on_main_process(google.colab.files.upload)\n', id="chosen in a browser"),
        pytest.param('requests.post("http://a", json={"done": 1})\n',
                     f'{ON_MAIN}    requests.post("http://a", json={{"done": 1}})\n', id="told"),
        pytest.param('requests.post("http://a").raise_for_status()\n',
                     'rt.call_on_main_process(requests.post, "http://a").raise_for_status()\n', id="checked"),
        pytest.param('try:\n    requests.post("http://a")\nexcept OSError:\n    data = None\n',
                     'try:\n    rt.call_on_main_process(requests.post, "http://a")\nexcept OSError:\n    data = None\n',
                     id="an error is minded"),
        pytest.param('try:\n    requests.post("http://a")\nexcept OSError:\n    pass\n',
                     f'try:\n    {ON_MAIN}        requests.post("http://a")\nexcept OSError:\n    pass\n',
                     id="an error is passed over"),
        pytest.param('session = requests.Session()\nsize = len(session.get("http://a").text)\n',
                     "session = rt.main_process_only(requests.Session)()\n"
                     'size = len(rt.call_on_main_process(session.get, "http://a").text)\n', id="by a session"),
        pytest.param('line = socket.create_connection(("a", 9))\nline.sendall(b"x")\nback = line.recv(4)\n'
                     "line.close()\n",
                     'line = rt.main_process_only(socket.create_connection)(("a", 9))\nline.sendall(b"x")\n'
                     "back = rt.call_on_main_process(line.recv, 4)\nline.close()\n", id="a line"),
        pytest.param('line = zmq.Context().socket(zmq.REQ)\nline.connect("tcp://a")\nback = line.recv_json()\n',
                     "line = rt.main_process_only(zmq.Context)().socket(zmq.REQ)\nline.connect(\"tcp://a\")\n"
                     "back = rt.call_on_main_process(line.recv_json)\n", id="one made of another"),
        pytest.param('out = subprocess.check_output(["cp", "a", "b"])\n',
                     'out = rt.call_on_main_process(subprocess.check_output, ["cp", "a", "b"])\n', id="a command"),
        pytest.param('out = subprocess.getoutput("git log; rm log")\n',
                     'out = rt.call_on_main_process(subprocess.getoutput, "git log; rm log")\n', id="two commands"),
        pytest.param('out = subprocess.getoutput("git log\\nrm log")\n',
                     'out = rt.call_on_main_process(subprocess.getoutput, "git log\\nrm log")\n', id="two lines"),
        pytest.param('out = subprocess.check_output(["git", "-C", "a", "commit", "-m", "log"])\n',
                     'out = rt.call_on_main_process(subprocess.check_output, ["git", "-C", "a", "commit", "-m", '
                     '"log"])\n', id="a word of a command's"),
        pytest.param('subprocess.check_output(f"mkdir -p {os.sep}a", shell=True)\n',
                     f'{ON_MAIN}    subprocess.check_output(f"mkdir -p {{os.sep}}a", shell=True)\n', id="unheard"),
        pytest.param('text = urllib.request.urlopen("http://a").read()\n',
                     'text = rt.call_on_main_process(rt.main_process_only(urllib.request.urlopen)("http://a").read)\n',
                     id="in a chain"),
        pytest.param('with smtplib.SMTP("a") as post:\n    post.login("me", "word")\n    post.send_message("b")\n',
                     'with rt.main_process_only(smtplib.SMTP)("a") as post:\n    post.login("me", "word")\n'
                     '    post.send_message("b")\n', id="a letter"),
        pytest.param('text = subprocess.run(["a"], capture_output=True).stdout\n',
                     'text = rt.call_on_main_process(subprocess.run, ["a"], capture_output=True).stdout\n',
                     id="what a command says"),
        pytest.param('if os.system("a") == 0:\n    data = None\n',
                     'if rt.call_on_main_process(os.system, "a") == 0:\n    data = None\n', id="how a command ends"),
        pytest.param('subprocess.run(["a"])\n', f'{ON_MAIN}    subprocess.run(["a"])\n', id="command"),
    ],
)  # fmt: skip
def test_rank_0_asks(before: str, after: str) -> None:
    assert converted(script(imports=TOOLS, after=before)) == distributed(imports=TOOLS, after=after)


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        pytest.param('line = socket.socket()\nprint(len(line))\n', "len(line)", id="used otherwise"),
        pytest.param('line = socket.socket()\nnumber = line.family\n', "line.family", id="an attribute is read"),
        pytest.param('base = redis.Redis()\nname = base["name"]\n', 'base["name"]', id="an item is read"),
        pytest.param('base = redis.Redis()\nkeys = base.scan_iter("a")\n', "scan_iter", id="of no known kind"),
        pytest.param('for item in redis.Redis():\n    size = item\n', "for item", id="iterated"),
        pytest.param('line = socket.socket()\nkept = [line]\n', "[line]", id="put into a list"),
        pytest.param('with aiohttp.ClientSession() as web:\n    size = 1\n', "aiohttp.Client", id="awaited"),
        pytest.param('try:\n    line = socket.create_connection("a")\nexcept OSError:\n    line = None\n',
                     "create_connection", id="an error is handled"),
    ],
)  # fmt: skip
def test_a_person_is_needed(lines: str, part: str) -> None:
    before = script(imports=TOOLS, after=lines)
    assert blocked(before) == {(CODE, line_of(before, part))}


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("name = socket.gethostname()\n", id="its own name"),
        pytest.param('size = len(requests.utils.quote("a b"))\n', id="text that is computed"),
        pytest.param('kind = socket.AF_INET\nerror = requests.exceptions.Timeout\n', id="constants"),
        pytest.param("socket.setdefaulttimeout(3)\n", id="a setting"),
        pytest.param('class Requests:\n    def get(self, url):\n        return url\nrequests = Requests()\n'
                     'page = requests.get("a")\n', id="another thing of that name"),
        pytest.param('def ask():\n    return requests.get("http://a")\n', id="a function that nobody calls"),
    ],
)  # fmt: skip
def test_nothing_happens(lines: str) -> None:
    before = script(imports=TOOLS, after=lines)
    assert changes(CODE, before) == []
    assert [one.message for one in findings(CODE, before, Level.NOT_NEEDED)] == [
        "nobody outside of the process is asked, and nothing is sent"
    ]


CLAIM = "nobody outside of the process is asked, and nothing is sent"


@pytest.mark.parametrize(
    ("lines", "by"),
    [
        pytest.param("import wandb\nwandb.login()\n", "OUT05", id="an account"),
        pytest.param("import visdom\nvisdom.Visdom().line([1.0])\n", "OUT05", id="a board"),
        pytest.param('import huggingface_hub\nat = huggingface_hub.hf_hub_download("a", "b")\n', "DATA03", id="a hub"),
        pytest.param('model.push_to_hub("a")\n', "SAVE01", id="what is pushed"),
        pytest.param('model.save_pretrained("a", push_to_hub=True)\n', "SAVE01", id="what is pushed by the way"),
        pytest.param('import huggingface_hub\nhuggingface_hub.upload_file("a", "b")\n', "OUT03", id="what is sent"),
        pytest.param('subprocess.run(["rsync"])\n', "OUT03", id="a command"),
        pytest.param('import logging.handlers\nto = logging.handlers.HTTPHandler("a", "b")\n', "OUT04", id="logs"),
    ],
)  # fmt: skip
def test_what_another_rule_sees_to_goes_outside_nevertheless(lines: str, by: str) -> None:
    before = script(imports=TOOLS, after=lines)
    said = [one.message for one in findings(CODE, before, Level.NOT_NEEDED)]
    assert said == [f"{CLAIM}, but by what {by} names"]


ENDED = "import psutil\n{0}\n"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        pytest.param("psutil.Process(int(open('a.pid').read())).kill()", None, id="by number"),
        pytest.param("psutil.Process(pid=4).suspend()", "psutil.Process(pid=4).suspend", id="by keyword"),
        pytest.param("for one in psutil.process_iter():\n    one.kill()", "one.kill", id="each"),
        pytest.param("[one.kill() for one in psutil.process_iter() if one.name() == 'a']", "one.kill", id="some"),
        pytest.param(
            "found = [one for one in psutil.process_iter()]\nfor one in found:\n    one.terminate()", "one.terminate",
            id="kept in a list",
        ),
        pytest.param(
            "for number in psutil.pids():\n    psutil.Process(number).send_signal(9)",
            "psutil.Process(number).send_signal", id="by one of all numbers",
        ),
        pytest.param("os.kill(int(open('a.pid').read()), 9)", "os.kill", id="a signal"),
        pytest.param("os.killpg(4, 9)", "os.killpg", id="a group"),
    ],
)  # fmt: skip
def test_that_each_rank_ends_other_processes_is_said(lines: str, name: str | None) -> None:
    """Not that nobody outside of the process is asked."""
    before = script(imports=TOOLS, after=ENDED.format(lines))
    assert findings(CODE, before, Level.NOT_NEEDED) == []
    (one,) = findings(CODE, before, Level.ADVICE)
    assert one.message.startswith(f"each rank calls `{name or 'psutil.Process(int('}")
    assert "if that is for other processes of the machine than its own, let rank 0 alone do it" in one.message


@pytest.mark.parametrize(
    "lines",
    [
        "psutil.Process().kill()",
        "psutil.Process(os.getpid()).terminate()",
        "os.kill(os.getpid(), 9)",
        "for one in psutil.Process().children(recursive=True):\n    one.kill()",
        "print(psutil.Process(5).name())",
        "for one in psutil.process_iter():\n    print(one.name(), one.kill)",
        "print(psutil.virtual_memory().percent)",
        "class Game:\n    def kill(self):\n        return 1\n\n\nGame().kill()",
    ],
)
def test_a_process_that_ends_itself_or_what_it_started_asks_nobody(lines: str) -> None:
    (one,) = findings(CODE, script(imports=TOOLS, after=ENDED.format(lines)), Level.NOT_NEEDED)
    assert one.message == "nobody outside of the process is asked, and nothing is sent"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        pytest.param('print(os.popen("stty size").read())\n', "os.popen", id="the screen is asked for its size"),
        pytest.param(
            'print(subprocess.check_output(["git", "-C", "a", "status"]))\n', "subprocess.check_output", id="the commit"
        ),
        pytest.param(
            'print(subprocess.getoutput("/bin/nvidia-smi -L 2>/dev/null | wc -l"))\n', "subprocess.getoutput", id="GPUs"
        ),
        pytest.param(
            'import pandas\nrows = pandas.read_csv("https://a/b.csv")\n', "pandas.read_csv", id="a table afar"
        ),
        pytest.param('import huggingface_hub\nhuggingface_hub.login("a")\n', "huggingface_hub.login", id="who it is"),
        pytest.param("import cv2\neye = cv2.VideoCapture(0)\n", "cv2.VideoCapture", id="a camera"),
    ],
)
def test_what_each_rank_asks_for_itself_is_said(lines: str, name: str) -> None:
    before = script(imports=TOOLS, after=lines)
    assert changes(CODE, before) == []
    assert findings(CODE, before, Level.NOT_NEEDED) == []
    (one,) = findings(CODE, before, Level.ADVICE)
    assert one.message.startswith(f"each rank calls `{name}` for itself")
    assert one.place
    assert one.place.line == line_of(before, f"{name}(")


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        pytest.param("arena.tick()\n", "`arena.tick` asks or tells", id="one"),
        pytest.param("arena.tick()\narena.end()\n", "`arena.tick` and `arena.end` ask or tell", id="two"),
        pytest.param("arena.a()\narena.b()\narena.c()\n", "`arena.a`, `arena.b` and `arena.c` ask", id="three"),
        pytest.param("arena.a()\narena.b()\narena.c()\narena.d()\n", "`arena.b` and 2 others ask", id="four"),
        pytest.param("class Game(arena.Game):\n    pass\nGame()\n", "`Game` asks", id="a subclass"),
        pytest.param('getattr(arena, "tick")()\n', "`arena.tick` asks", id="by getattr"),
        pytest.param("getattr(model, str(data))()\n", "`getattr(model, str(data))` asks", id="by a name put together"),
        pytest.param("import importlib\nimportlib.import_module(str(data)).run()\n", "`importlib.import_module` asks",
                     id="a module by a name put together"),
        pytest.param("exec(str(data))\n", "`exec` asks", id="any code"),
        pytest.param("import helper\nhelper.run()\n", "`arena.inside` asks", id="in another file"),
        pytest.param("import missing\nmissing.run()\n", "`missing.run` asks", id="in a file that is not found"),
    ],
)  # fmt: skip
def test_of_what_is_not_known_nothing_is_claimed(lines: str, names: str) -> None:
    helper = "import arena\n\n\ndef run():\n    return arena.inside()\n"
    seen = conversion_of(script(imports=UNKNOWN, after=lines), files={"helper.py": helper})
    assert [one.message for one in seen.of(Level.NOT_NEEDED) if one.code == CODE] == []
    (told,) = [one.message for one in seen.of(Level.ADVICE) if one.code == CODE]
    assert names in told, told


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("import helper\nhelper.run()\n", id="in another file"),
        pytest.param('import json\njson.dumps(getattr(json, "loads")("3"))\n', id="by getattr"),
        pytest.param('import importlib\nimportlib.import_module("math").sqrt(3)\n', id="a module by its name"),
        pytest.param('size = eval("int")("3")\n', id="code that is seen"),
        pytest.param("import sklearn.metrics, torchmetrics\nworth = torchmetrics.Accuracy()\n", id="what computes"),
        pytest.param("import arena\nif not data:\n    raise arena.Empty('no data')\n", id="an exception"),
    ],
)
def test_where_all_is_known_it_is_claimed(lines: str) -> None:
    helper = "import math\n\n\ndef run():\n    return math.sqrt(3)\n"
    seen = conversion_of(script(imports=IMPORTS, after=lines), files={"helper.py": helper})
    assert [one.message for one in seen.of(Level.NOT_NEEDED) if one.code == CODE] == [CLAIM]


@pytest.mark.parametrize(
    ("loss", "is_named"),
    [
        pytest.param("arena.rank(model(x)) - y", False, id="samples"),
        pytest.param("arena.rank(model(x), 0.5, exact=True) - y", False, id="samples and numbers"),
        pytest.param('arena.rank(model(x), "http://a.b") - y', True, id="an address"),
        pytest.param("arena.rank(model(x), **table) - y", True, id="whatever else"),
        pytest.param("model(x) - y * arena.worth(3)", True, id="no samples"),
    ],
)
def test_what_is_given_samples_alone_is_named_in_the_claim(loss: str, is_named: bool) -> None:
    loop = LOOP.replace("nn.functional.mse_loss(model(x), y)", f"({loss}).pow(2).mean()")
    before = script(imports=UNKNOWN, setup="table = input()\n", loop=loop)
    seen = conversion_of(before, options=Options(strategy="shared"))
    said = [one.message for one in seen.of(Level.ADVICE) if one.code == CODE]
    claimed = [one.message for one in seen.of(Level.NOT_NEEDED) if one.code == CODE]
    assert bool(said) is is_named
    assert [one.startswith(f"{CLAIM}, unless by `arena.") for one in claimed] == [True] * (not is_named)


PAGES = """\
class Pages({base}):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.tensor([float(len(requests.get(f"http://a/{{index}}").text))] * 4), torch.ones(1)
data = {made}
first = data[0]
"""


@pytest.mark.parametrize(
    ("base", "made"),
    [
        pytest.param("torch.utils.data.Dataset", "Pages()", id="torch's"),
        pytest.param("Samples", "Pages()", id="torch's by another name"),
        pytest.param("torchvision.datasets.VisionDataset", "Pages()", id="torchvision's"),
        pytest.param("object", "Pages()", id="of no library, given to a loader"),
        pytest.param("Mine", "Pages()", id="of a class of the script"),
    ],
)
def test_samples_are_asked_for_by_who_loads_them(base: str, made: str) -> None:
    imports = f"{TOOLS}import torchvision\nfrom torch.utils.data import Dataset as Samples\n"
    own = "class Mine(torch.utils.data.Dataset):\n    pass\n"
    before = script(imports=imports, data=own + PAGES.format(base=base, made=made))
    assert changes(CODE, before) == []
    (told,) = findings(CODE, before, Level.ADVICE)
    assert told.message == "each rank asks here for the samples that it loads"


@pytest.mark.parametrize("made", ["Pages()", "torch.utils.data.Subset(Pages(), range(9))"])
def test_what_loaders_ask_of_a_data_set_is_no_silence(made: str) -> None:
    lines = PAGES.format(base="torch.utils.data.Dataset", made=made).replace("first = data[0]\n", "")
    before = script(imports=TOOLS, data=lines)
    assert changes(CODE, before) == []
    assert findings(CODE, before, Level.NOT_NEEDED) == []
    (told,) = findings(CODE, before, Level.ADVICE)
    assert told.message == "whenever a library calls this, each rank asks somebody outside with `requests.get`"


def test_what_is_only_called_a_dataset_is_asked_by_rank_0() -> None:
    lines = PAGES.format(base="NoDataset", made="Pages()").replace("data =", "pages =").replace("data[0]", "pages[0]")
    before = script(imports=TOOLS, data=f"class NoDataset:\n    pass\n{lines}{DATA}")
    assert "rt.call_on_main_process(requests.get, " in converted(before)


def test_what_a_download_asks_for_is_asked_by_rank_0_first() -> None:
    lines = """\
def fetch():
    if not os.path.exists("a"):
        urllib.request.urlretrieve("http://a", "a")
        size = requests.get("http://a/size").text
fetch()
"""
    assert changes(CODE, script(imports=TOOLS, data=DATA + lines)) == []


def test_a_model_is_never_called_by_rank_0_alone() -> None:
    loop = LOOP + 'requests.post("http://a", json=model(data.tensors[0]).tolist())\n'
    new = conversion_of(script(imports=TOOLS, loop=loop), options=SHARED).files[0].after.decode()
    assert 'rt.main_process_only(requests.post)("http://a", json=model(data.tensors[0]).tolist())\n' in new


def test_an_answer_about_a_share_of_the_batch_is_no_answer_for_all() -> None:
    asked = 'hint = requests.post("http://a", json=y.tolist()).json()'
    loop = LOOP.replace("        loss =", f"        {asked}\n        loss =")
    seen = conversion_of(script(imports=TOOLS, loop=loop), options=AUTO)
    assert (seen.outcome, seen.strategy) == (Outcome.CONVERTED, Strategy.SHARED)
    assert "rt.call_on_main_process(requests.post, " in seen.files[0].after.decode()
    assert [one.code for one in seen.of(Level.ADVICE) if "requests.post" in one.message] == ["SHARE01"]


def test_an_answer_that_does_not_hang_on_a_batch_leaves_the_data_dealt_out() -> None:
    loop = LOOP.replace("    for x", '    rate = requests.get("http://a").json()["rate"]\n    for x')
    assert conversion_of(script(imports=TOOLS, loop=loop), options=AUTO).strategy is Strategy.SHARDED


def test_the_forward_pass_of_a_model_asks_nobody() -> None:
    model = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        return self.layer(x) * float(requests.get("http://a").text)
model = Net()
"""
    before = script(imports=TOOLS, model=model)
    for options in (SHARED, Options(strategy="sharded")):
        codes = [one.code for one in conversion_of(before, options=options).of(Level.BLOCKING)]
        assert codes == [CODE], codes


def test_where_not_all_ranks_come_a_person_is_needed() -> None:
    loop = LOOP.replace(
        "        optimizer.step()\n",
        '        optimizer.step()\n        if loss.item() * len(x) > 3:\n            hint = requests.get("http://a").text\n',
    )
    before = script(imports=TOOLS, loop=loop)
    assert (CODE, line_of(before, "requests.get")) in blocked(before)


def test_what_is_not_known_is_named_where_all_is_said_to_be_alike() -> None:
    loop = LOOP.replace("        loss.backward()\n", "        arena.tick()\n        loss.backward()\n")
    for options in (SHARED, Options(strategy="sharded")):
        seen = conversion_of(script(imports=UNKNOWN, loop=loop), options=options).of(Level.NOT_NEEDED)
        said = {one.code: one.message for one in seen}
        assert said["OTHER01"].endswith(", unless by `arena.tick` at train.py:14, which is not known")
        assert said["DECIDE01"].endswith(", unless by `arena.tick` at train.py:14, which is not known")


@pytest.mark.parametrize("line", ["tqdm.write('a')", "x = torchvision.utils.make_grid(x)", "time.sleep(0)"])
def test_what_is_known_is_not_named(line: str) -> None:
    imports = f"import time\nimport torchvision\nfrom tqdm import tqdm\n{IMPORTS}"
    loop = LOOP.replace("        loss.backward()\n", f"        {line}\n        loss.backward()\n")
    messages = [one.message for one in conversion_of(script(imports=imports, loop=loop)).of(Level.NOT_NEEDED)]
    assert not [one for one in messages if "unless by `" in one]


def test_a_simulator_is_played() -> None:
    loop = indented(
        "x = torch.rand(8, 4)\nclient.moveByVelocityAsync(1, 0, 0, 1)\nseen = client.getState()\n"
        "loss = (model(x) * seen.speed).mean()\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"
    )
    before = script(imports=f"import airsim\n{IMPORTS}", data="client = airsim.MultirotorClient()\n", loader="",
                    loop=f"for step in range(9):\n{loop}")  # fmt: skip
    found = conversion_of(before, options=SHARED).of(Level.BLOCKING)
    assert [one.place.line for one in found if "environment" in one.message and one.place] == [
        line_of(before, "moveByVelocityAsync")
    ]


def test_what_to_do_about_an_unknown_call_is_said_once() -> None:
    """One call, one advice: what OUT03 has under a guard, NET01 does not have called by rank 0 another way."""
    before = script(imports=f"from elsewhere import ensure, describe\n{IMPORTS}", setup="ensure('out/run')\n")
    (said,) = findings("OUT03", before, Level.ADVICE)
    assert "`ensure` with a path" in said.message
    assert "or asks somebody" in said.message
    assert findings("NET01", before, Level.ADVICE) == []
    other = before.replace("ensure('out/run')", "print(describe(3))")
    assert ["`describe`" in one.message for one in findings("NET01", other, Level.ADVICE)] == [True]


FILMS = """\
import cv2


class Films(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return 64

    def __getitem__(self, index):
        film = cv2.VideoCapture({source})
        return torch.ones(4) * film.get(1), torch.ones(1)


"""


@pytest.mark.parametrize(
    ("source", "outside"), [("self.paths[index]", False), ("0", True), ('"rtsp://camera/1"', True)]
)
def test_a_film_of_a_data_set_is_a_file(source: str, outside: bool) -> None:
    """Of what is opened so it is not known that it is no camera: the checklist does not say that nobody is asked."""
    data = f"{FILMS.format(source=source)}data = Films([input()])\n"
    found = conversion_of(script(data=data))
    told = [one.message for one in found.of(Level.ADVICE) if one.code == "NET01"]
    assert any("asks somebody outside" in one for one in told) is outside
    claims = [one.message for one in found.of(Level.NOT_NEEDED) if one.code == "NET01"]
    assert not any(one.endswith("nothing is sent") for one in claims)


def test_a_letter_stays_inside_until_it_is_sent() -> None:
    lines = 'from email.mime.text import MIMEText\nletter = MIMEText("a/b")\nletter.attach(MIMEText("c"))\n'
    found = conversion_of(script(after=lines))
    assert not [one for one in found.of(Level.ADVICE) if one.code in ("NET01", "OUT03")]


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        ("import lightning\n", "lightning.seed_everything(3)\n"),
        ("from pytorch_lightning import seed_everything\n", "seed_everything(3)\n"),
        ("from accelerate.utils import set_seed\n", "set_seed(3)\n"),
        ("import hydra\n", "print(hydra.utils.get_original_cwd())\n"),
        ("import jsonargparse\n", "settings = jsonargparse.ArgumentParser().parse_args()\n"),
        ("import tyro\n", "def rate(rate: float = 0.1):\n    return rate\n\n\nrate = tyro.cli(rate)\n"),
        ("import evaluate\n", 'metric = evaluate.load("accuracy")\nprint(metric.compute())\n'),
    ],
)
def test_nobody_is_told_to_leave_to_rank_zero_what_every_rank_needs(imports: str, line: str) -> None:
    before = script(imports=imports + IMPORTS, setup=line)
    told = conversion_of(before).of(Level.ADVICE)
    assert [one.message for one in told if one.code in ("NET01", "OUT03", "DATA03")] == []


def test_metrics_are_fetched_by_rank_zero_first() -> None:
    before = script(imports=f"import evaluate\n{IMPORTS}", after='metric = evaluate.load("accuracy")\n')
    assert 'with rt.main_process_first():\n    metric = evaluate.load("accuracy")\n' in converted(before)


def test_advice_to_leave_something_unknown_to_rank_zero_is_for_what_asks_alone() -> None:
    before = script(imports=f"import hydra\n{IMPORTS}", after="part = hydra.utils.instantiate({})\n")
    (one,) = findings("NET01", before, Level.ADVICE)
    assert one.message.endswith(
        "if so, and only then, let rank 0 alone do it, with `rt.call_on_main_process(function, ...)`"
    )


@pytest.mark.parametrize(
    ("imports", "stops"),
    [("", "breakpoint()"), ("import pdb\n", "pdb.set_trace()"), ("from ipdb import set_trace\n", "set_trace()")],
)
def test_a_debugger_has_no_terminal(imports: str, stops: str) -> None:
    loop = LOOP.replace(
        "        loss.backward", f"        if loss.isnan():\n            {stops}\n        loss.backward"
    )
    (one,) = findings("NET01", script(imports=imports + IMPORTS, loop=loop), Level.ADVICE)
    assert one.message == (
        f"`{stops}` stops for a person at a terminal, which ranks do not have: a run that comes here ends with an "
        "error; take it out, or look in one process"
    )


def test_a_function_of_that_name_is_no_debugger() -> None:
    setup = "def breakpoint():\n    return 3\n\n\n"
    assert findings("NET01", script(setup=setup, after="breakpoint()\n"), Level.ADVICE) == []


GENERATED = """\
import grpc

try:
    from grpc._utilities import first_version_is_lower
    made = {call}
except ImportError:
    made = None
"""


@pytest.mark.parametrize(
    ("call", "is_connection"),
    [
        ('first_version_is_lower(grpc.__version__, "1.74.0")', False),
        ('grpc.insecure_channel("localhost:50051")', True),
    ],
)
def test_what_generated_code_asks_of_a_library_is_no_connection(call: str, is_connection: bool) -> None:
    assert bool(blocked(script(imports=IMPORTS + GENERATED.format(call=call)))) is is_connection
