"""GROUP01: the group starts above an import whose module draws, or puts something on a GPU; else below the imports."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import (
    BY_SHARDING,
    DATA,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    WRAP,
    blocked,
    conversion_of,
    converted,
    group_of,
    indented,
    line_of,
    script,
)

HELPER = "import argparse\nimport os\nimport random\nimport numpy as np\nimport torch\nfrom torch import nn\n"
LOCAL = "import helper\n"


def start_in(helper: str, imports: str = IMPORTS + LOCAL, options: Options = BY_SHARDING) -> str:
    """What stands above the start of the group in the converted script; the import of the runtime is there."""
    conversion = conversion_of(script(imports=imports), files={"helper.py": HELPER + helper}, options=options)
    assert conversion.outcome is Outcome.CONVERTED, conversion.of(Level.BLOCKING)
    text = next(file for file in conversion.files if file.path == "train.py").after.decode()
    compile(text, "train_dist.py", "exec")
    above, group, _ = text.partition(group_of(options))
    assert group
    assert "import distify_runtime as rt\n" in above
    return above


@pytest.mark.parametrize(
    "line",
    [
        "targets = torch.randn(64, 1)\n",
        "order = list(range(64))\nrandom.shuffle(order)\n",
        "picked = np.random.permutation(64)[:32]\n",
        "weights = torch.empty(3)\nweights.normal_()\n",
        "head = nn.Linear(4, 4)\n",
        "def noise():\n    return torch.rand(4)\n\n\nfirst = noise()\n",
        "class Teacher(nn.Module):\n    def __init__(self):\n        super().__init__()\n        "
        "self.layer = nn.Linear(4, 4)\n\n\nteacher = Teacher()\n",
        "import noises\nvalues = noises.simplex(64)\n",  # nobody knows
        "class Words:\n    first = random.random()\n",
    ],
)
@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_above_an_import_that_draws(line: str, strategy: str) -> None:
    """Each rank would have other numbers: only those that are drawn in the group are rank 0's."""
    assert LOCAL not in start_in(line, options=Options(strategy=strategy))


@pytest.mark.parametrize(
    "line",
    [
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nmean = torch.zeros(3, device=device)\n",
        "mean = torch.zeros(3).cuda()\n",
        "number = torch.cuda.current_device()\n",
        "torch.set_default_tensor_type('torch.cuda.FloatTensor')\n",
        "known = torch.load('known.pt', map_location='cuda')\n",
    ],
)
def test_above_an_import_that_uses_a_gpu(line: str) -> None:
    """It would be the first GPU, on each rank: the group gives a rank its own."""
    assert LOCAL not in start_in(line)


@pytest.mark.parametrize(
    "line",
    [
        "SIZE = 3\n",
        "torch.manual_seed(0)\nrandom.seed(0)\n",
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n",
        "mean = torch.tensor([1.0, 2.0])\nzeros = torch.zeros(3, device='cpu')\n",
        "def noise():\n    return torch.randn(64)\n",
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        "
        "self.layer = nn.Linear(4, 4)\n",
        "stream = np.random.RandomState(3)\nvalues = stream.permutation(8)\n",
        "from sklearn.model_selection import train_test_split\nleft = train_test_split([1, 2, 3], random_state=1)\n",
        "criterion = nn.CrossEntropyLoss()\n",
        "values = np.arange(3)\nfolder = os.getcwd()\n",
        "if __name__ == '__main__':\n    print(torch.randn(3))\n",
    ],
)
def test_below_a_harmless_import(line: str) -> None:
    assert LOCAL in start_in(line)


def test_what_is_imported_before_stays_there() -> None:
    imports = f"{IMPORTS}import options\n{LOCAL}"
    above = start_in("targets = torch.randn(64, 1)\n", imports=imports)
    assert above.index("import options\n") > above.index("import torch\n")
    assert LOCAL not in above


def test_behind_the_import_that_reads_the_command_line() -> None:
    options = "import argparse\nparser = argparse.ArgumentParser()\nargs = parser.parse_args()\n"
    files = {"helper.py": HELPER + "targets = torch.randn(64, 1)\n", "options.py": options}
    before = script(imports=f"{IMPORTS}from options import args\n{LOCAL}")
    new = next(one for one in conversion_of(before, files=files).files if one.path == "train.py").after.decode()
    assert new.index("from options import args\n") < new.index(GROUP) < new.index(LOCAL) < new.index(DATA)


SACRED = """\
{imports}from sacred import Experiment

experiment = Experiment("run")


@experiment.{decorator}
def train(rate):
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
{loop}"""


def test_an_experiment_of_sacred_begins_where_it_is_defined() -> None:
    before = SACRED.format(imports=IMPORTS, decorator="automain", loop=indented(LOOP))
    new = converted(before)
    above, _, below = new.partition("@experiment.automain\n")
    assert GROUP in above
    assert below.startswith("def train(rate):\n")
    assert f"    {WRAP}" in new


def test_what_an_experiment_of_sacred_runs_only_if_it_is_told_to() -> None:
    before = SACRED.format(imports=IMPORTS, decorator="main", loop=indented(LOOP))
    assert blocked(before) == {("REFUSE02", 1)}


@pytest.mark.parametrize("call", ["fit()", "if True:\n        fit()"])
def test_a_training_that_a_constant_turns_off(call: str) -> None:
    before = f"{script(loop='')}\n\ndef fit():\n{indented(LOOP)}\n\nTRAINS = False\nif TRAINS:\n    {call}\n"
    [needed] = conversion_of(before).of(Level.BLOCKING)
    line = before.splitlines().index("if TRAINS:") + 1
    assert needed.fix == f"`TRAINS` (line {line}) is a constant, and turns training off: set it, and convert again"


def test_a_file_whose_functions_others_call() -> None:
    """A refusal says where the training stands, if it does."""
    before = f"{IMPORTS}\n\ndef fit(model, loader, criterion, optimizer):\n{indented(LOOP)}"
    [needed] = conversion_of(before).of(Level.BLOCKING)
    line = before.splitlines().index("def fit(model, loader, criterion, optimizer):") + 1
    told = f"`fit` (line {line}) trains, and is not seen to be called: convert the script that calls it"
    assert (needed.code, needed.fix) == ("REFUSE02", told)


def test_a_file_in_which_nothing_trains() -> None:
    [needed] = conversion_of(IMPORTS).of(Level.BLOCKING)
    assert (needed.code, needed.fix) == ("REFUSE02", "name the script that starts the training")


BY_PHASE = """\
import argparse
{imports}

def train(options):
    if options.phase == "train":
{training}    else:
        print("tested")


def on(options):
    if options.folder == "./here":
        train(options)


parser = argparse.ArgumentParser()
parser.add_argument("--folder", default="./here")
parser.add_argument("--phase", default="train")
options = parser.parse_args()
options.phase = "test"
on(options)
"""


def test_of_several_tests_the_one_that_turns_training_off_is_named() -> None:
    training = indented(DATA + LOADER + MODEL + OPTIMIZER + LOOP, " " * 8)
    before = BY_PHASE.format(imports=IMPORTS, training=training)
    (needed,) = conversion_of(before).of(Level.BLOCKING)
    line = line_of(before, "    if options.phase")
    assert needed.fix.startswith(f'`options.phase == "train"` (line {line}) is a constant, and turns training off')
