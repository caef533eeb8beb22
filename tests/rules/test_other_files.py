"""Only the script itself is converted: what must change in another file is left to a person, with its place."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level, Options, Outcome, SourceFile, convert

from tests.rules.scripts import DATA, IMPORTS, LOADER, LOOP, MODEL, OPTIMIZER, distributed, indented, script

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x)
"""


def conversion_of(before: str, helper: str) -> Conversion:
    def resolver(importer: str, module: str, level: int) -> SourceFile | None:
        return SourceFile("helper.py", f"{IMPORTS}\n\n{helper}".encode()) if module == "helper" else None

    return convert(SourceFile("train.py", before.encode()), resolver, Options())


def needs(conversion: Conversion) -> set[tuple[str, str]]:
    return {(one.code, one.place.path) for one in conversion.of(Level.BLOCKING) if one.place}


@pytest.mark.parametrize("imports", ["from helper import Net\n", "import helper\nNet = helper.Net\n"])
def test_model_of_another_file(imports: str) -> None:
    """A class is only read: nothing of it has to change."""
    model = f"{imports}model = Net()\n"
    conversion = conversion_of(script(model=model), NET)
    assert conversion.outcome is Outcome.CONVERTED, needs(conversion)
    (new,) = conversion.files
    assert new.path == "train.py"
    assert new.after.decode() == distributed(model=model)


def test_dataset_of_another_file() -> None:
    data = "from helper import samples\ndata = samples()\n"
    helper = "def samples():\n    return TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"
    conversion = conversion_of(script(data=data), helper)
    assert conversion.outcome is Outcome.CONVERTED, needs(conversion)


@pytest.mark.parametrize(
    ("code", "helper", "before"),
    [
        (
            "DATA01",
            f"def batches(data):\n{indented(LOADER)}    return loader\n",
            script(loader="from helper import batches\nloader = batches(data)\n"),
        ),
        (
            "DATA02",
            f"def train(model, optimizer, loader):\n{indented(LOOP)}",
            script(loop="from helper import train\ntrain(model, optimizer, loader)\n"),
        ),
        (
            "SAVE01",
            'def keep(values):\n    torch.save(values, "a.pt")\n',
            script(after="from helper import keep\nkeep(model.state_dict())\n"),
        ),
        (
            "LOSS01",
            "def propagate(loss):\n    loss.sum().backward()\n",
            script(
                setup="from helper import propagate\n",
                loop=LOOP.replace("nn.functional.mse_loss(model(x), y)", "(model(x) - y) ** 2").replace(
                    "loss.backward()", "propagate(loss)"
                ),
            ),
        ),
        (
            "DEVICE01",
            'def place(values):\n    return values.to("cuda:0")\n',
            script(setup="from helper import place\n", loop=LOOP.replace("model(x)", "model(place(x))")),
        ),
        (
            "OUT03",
            'def note(text):\n    with open("a.txt", "w") as file:\n        file.write(text)\n',
            script(after='from helper import note\nnote("done")\n'),
        ),
    ],
)
def test_change_in_another_file(code: str, helper: str, before: str) -> None:
    conversion = conversion_of(before, helper)
    assert conversion.outcome is Outcome.REFUSED
    assert (code, "helper.py") in needs(conversion)
    assert not conversion.files


def test_all_of_it_in_another_file() -> None:
    helper = f"def run():\n{indented(DATA + LOADER + MODEL + OPTIMIZER + LOOP)}"
    conversion = conversion_of("from helper import run\n\nrun()\n", helper)
    assert conversion.outcome is Outcome.REFUSED
    assert not conversion.files


def test_output_of_another_file_is_guarded_at_its_call() -> None:
    after = 'from helper import tell\ntell("done")\n'
    conversion = conversion_of(script(after=after), "def tell(text):\n    print(text)\n")
    (new,) = conversion.files
    guarded = 'from helper import tell\nif rt.is_main_process():\n    tell("done")\n'
    assert new.after.decode() == distributed(after=guarded)


def test_function_of_the_same_name_in_another_file() -> None:
    """`torch.save` is not `helper.save`."""
    conversion = conversion_of(script(after="import helper\nhelper.save(1)\n"), "def save(value):\n    return value\n")
    (new,) = conversion.files
    assert new.after.decode() == distributed(after="import helper\nhelper.save(1)\n")
