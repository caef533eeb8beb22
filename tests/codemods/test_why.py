"""Why each thing was taken for what it is: sentences in the user's own names, each with its places."""

from __future__ import annotations

from distify_codemods import Options, Outcome, Said, SourceFile, convert

SCRIPT = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def loaders():
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    return {"fit": DataLoader(data, batch_size=8, shuffle=True), "check": DataLoader(data, batch_size=8)}


class Work:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.opt = optim.SGD(self.net.parameters(), lr=0.1)
        self.data = loaders()

    def fit(self):
        self.net.train()
        for x, y in self.data["fit"]:
            loss = nn.functional.mse_loss(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

    def check(self):
        self.net.eval()
        total = 0
        with torch.no_grad():
            for x, y in self.data["check"]:
                total += (self.net(x) - y).abs().sum().item()
        return total


work = Work()
for epoch in range(3):
    work.fit()
    work.check()
state = {"net": work.net.state_dict()}
torch.save(state, "net.pt")
"""


def why(script: str, options: Options | None = None, **modules: str) -> list[str]:
    def resolve(importer: str, name: str, level: int) -> SourceFile | None:
        text = modules.get(name)
        return None if text is None else SourceFile(f"{name}.py", text.encode())

    conversion = convert(SourceFile("train.py", script.encode()), resolve, options or Options(why=True))
    return [f"{belief.place}: {belief}" for belief in conversion.beliefs]


def test_every_fact_has_its_chain() -> None:
    assert why(SCRIPT) == [
        "train.py:13: `self.net` is a trained model: its parameters are given to `optim.SGD` at train.py:14; a "
        "training loop calls it at train.py:20 (`self.net(x)`); it is wrapped after train.py:13, because its forward "
        "pass is called in the training loop",
        "train.py:14: `self.opt` is an optimizer: `optim.SGD` at train.py:14 is given the parameters of `self.net`; "
        "`self.opt.step()` at train.py:23 is a step of it",
        "train.py:8: `self.data['fit']` is a training loader: its batches (train.py:19) reach `loss.backward()` at "
        "train.py:22",
        "train.py:8: `self.data['check']` is an evaluation loader: its batches (train.py:29) go through `self.net(x)` "
        "at train.py:30 and reach no backward pass; decided: each sample on one rank, sums all-reduced, because every "
        "value that leaves the loop is a sum over samples",
        "train.py:19: `for x, y in self.data[\"fit\"]` is a training loop: it runs over `self.data['fit']`; "
        "`loss.backward()` at train.py:22 is of its batches",
        "train.py:29: `for x, y in self.data[\"check\"]` is an evaluation loop: it runs over `self.data['check']`; "
        "`self.net(x)` at train.py:30 is inside, and no backward pass",
        "train.py:22: `loss.backward()` is a backward pass: `loss` depends on batches of `self.data['fit']`; it is a "
        "mean over samples",
        "train.py:23: `self.opt.step()` is a step of `self.opt`: `self.opt` is the optimizer made at train.py:14",
        'train.py:39: `torch.save(state, "net.pt")` is a save: `torch.save` writes a file; it holds the state of '
        "`self.net`",
    ]


def test_it_is_only_computed_when_it_is_asked_for() -> None:
    assert why(SCRIPT, Options()) == []


def test_names_are_those_of_the_script() -> None:
    """Not of the function that makes the thing, and not `self`."""
    nets = (
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(4, 1)\n"
        "    def forward(self, x):\n        return self.layer(x)\n"
        "    def optimizer(self):\n        return torch.optim.Adam(self.parameters())\n"
        "def build():\n    made = Net()\n    return made\n"
    )
    script = (
        "import torch\nfrom torch.utils.data import DataLoader\nfrom nets import build\n"
        "student = build()\nopt = student.optimizer()\nbatches = DataLoader([1], batch_size=1)\n"
        "for x in batches:\n    student(x).mean().backward()\n    opt.step()\n"
    )
    model, optimizer, *_ = why(script, nets=nets)
    assert model.startswith(
        "nets.py:12: `student` is a trained model: its parameters are given to `torch.optim.Adam` at nets.py:10; "
        "a training loop calls it at train.py:8 (`student(x)`)"
    )
    assert optimizer.startswith("nets.py:10: `opt` is an optimizer: `torch.optim.Adam` at nets.py:10 is given")


def test_what_the_user_says_is_a_reason() -> None:
    script = SCRIPT.replace("self.net.parameters()", "library.groups(self.net)")
    script = script.replace("import torch\n", "import torch\nimport library\n", 1)
    said = Said("self.net", "--model"), Said("self.data['fit']", "--train-loader")
    options = Options(models=said[:1], train_loaders=said[1:], why=True)
    model, _, loader, *_ = why(script, options)
    assert "; you say so (`--model self.net`); " in model
    assert ": you say so (`--train-loader self.data['fit']`); its batches (train.py:20) reach" in loader


def test_a_script_without_training_tells_what_was_seen() -> None:
    script = "from torch.utils.data import DataLoader\nrest = DataLoader([1])\nfor x in rest:\n    print(x)\n"
    assert why(script) == [
        "train.py:2: `rest` is a loader that no trained model sees: its loop at train.py:3 calls no trained model",
        "train.py:3: `for x in rest` is a loop that no trained model has a part in: it runs over `rest`",
    ]


def test_braces_in_an_expression_are_only_text() -> None:
    script = SCRIPT.replace("loss.backward()", "{0: loss}[0].backward()")
    assert any("`{0: loss}[0].backward()` at train.py:22" in line for line in why(script))


def test_reasons_are_data() -> None:
    conversion = convert(SourceFile("train.py", SCRIPT.encode()), lambda *_: None, Options(why=True))
    assert conversion.outcome is Outcome.CONVERTED
    model = conversion.beliefs[0]
    assert (model.role, model.name, model.what) == ("model", "self.net", "a trained model")
    assert [str(reason.place) for reason in model.because] == ["train.py:14", "train.py:20", "train.py:13"]


TRAINING = (
    "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\nx = torch.randn(64, 4)\n"
    "net = nn.Linear(4, 1)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
)
STEP = "    opt.zero_grad()\n    loss = net(rows).mean()\n    loss.backward()\n    opt.step()\n"


def test_batches_that_are_cut_by_hand() -> None:
    lines = why(f"{TRAINING}for start in range(0, 64, 8):\n    rows = x[start:start + 8]\n{STEP}")
    assert (
        "train.py:7: `for start in range(0, 64, 8)` is a training loop: its batches are cut by hand, from no "
        "DataLoader; `loss.backward()` at train.py:11 is of its batches; decided at train.py:8: each rank takes its "
        "own samples of the batch"
    ) in lines
    assert (
        "train.py:11: `loss.backward()` is a backward pass: `loss` depends on batches that are cut by hand "
        "(train.py:8); it is a mean over samples"
    ) in lines


def test_batches_that_are_drawn_one_by_one() -> None:
    lines = why(f"{TRAINING}it = iter(DataLoader(x, batch_size=8))\nfor step in range(8):\n    rows = next(it)\n{STEP}")
    assert (
        "train.py:8: `for step in range(8)` is a training loop: it takes batches of `DataLoader(x, batch_size=8)` at "
        "train.py:9 (`next(it)`); `loss.backward()` at train.py:12 is of its batches"
    ) in lines
