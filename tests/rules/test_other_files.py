"""What a script imports from beside itself is converted with it, under other names, and imported under those."""

from __future__ import annotations

import pytest
from distify_codemods import Outcome

from tests.rules.projects import NET, TRAIN, TRAIN_DIST, needs, together
from tests.rules.scripts import (
    DATA,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    RUNTIME,
    SHARDED,
    SHUFFLED,
    WRAP,
    WRAPPER,
    conversion_of,
    distributed,
    indented,
    script,
)

# ---- what is converted where


@pytest.mark.parametrize("imports", ["from helper import Net\n", "import helper\nNet = helper.Net\n"])
def test_what_is_only_used_stays(imports: str) -> None:
    model = f"{imports}model = Net()\n"
    new = together(script(model=model), {"helper.py": f"{IMPORTS}\n\n{NET}"})
    assert new == {"train_dist.py": distributed(model=model)}


def test_the_loader_in_another_file() -> None:
    helper = f"{IMPORTS}\n\ndef batches(data):\n{indented(LOADER)}    return loader\n"
    imports, loader = IMPORTS + "from helper import batches\n", "loader = batches(data)\n"
    new = together(script(imports=imports, loader=loader), {"helper.py": helper})
    sharded = indented(SHARDED)
    assert new == {
        "train_dist.py": distributed(
            imports=imports.replace("helper", "helper_dist"), ours=RUNTIME + WRAPPER, loader=loader
        ),
        "helper_dist.py": f"{IMPORTS}{RUNTIME}\n\ndef batches(data):\n{sharded}    return loader\n",
    }


def test_the_training_loop_in_another_file() -> None:
    imports, call = IMPORTS + "import helper\n", "helper.train(model, optimizer, loader)\n"
    new = together(script(imports=imports, loop=call), {"helper.py": f"{IMPORTS}\n\n{TRAIN}"})
    assert new == {
        "train_dist.py": distributed(imports=IMPORTS + "import helper_dist as helper\n", apart="", loop=call),
        "helper_dist.py": f"{IMPORTS}{RUNTIME}\n\n{TRAIN_DIST}",
    }


def test_all_of_it_in_another_file() -> None:
    """The group still starts in the script: before anything of it runs."""
    parts = DATA + LOADER + MODEL + OPTIMIZER + LOOP
    after = DATA + SHARDED + MODEL + WRAP + OPTIMIZER + "rt.seed_ranks_apart()\n" + SHUFFLED
    new = together("from helper import run\n\nrun()\n", {"helper.py": f"{IMPORTS}\n\ndef run():\n{indented(parts)}"})
    assert new == {
        "train_dist.py": f"from helper_dist import run\n{RUNTIME}\n{GROUP}run()\n",
        "helper_dist.py": f"{IMPORTS}{RUNTIME}{WRAPPER}\n\ndef run():\n{indented(after)}",
    }


def test_what_runs_when_it_is_imported() -> None:
    """The group starts before an import that makes the loader."""
    helper = f"{IMPORTS}\n{DATA}{LOADER}"
    new = together(script(imports=IMPORTS + "from helper import loader\n", data="", loader=""), {"helper.py": helper})
    ours = "import distify_runtime as rt\nfrom torch.nn.parallel import DistributedDataParallel\n"
    top = f"{IMPORTS}{ours}{GROUP}from helper_dist import loader\n\n"
    assert new["train_dist.py"].startswith(top + MODEL)


@pytest.mark.parametrize(
    ("helper", "after", "before"),
    [
        (
            'def keep(values):\n    torch.save(values, "a.pt")\n',
            'def keep(values):\n    if rt.is_main_process():\n        torch.save(values, "a.pt")\n',
            script(imports=IMPORTS + "from helper import keep\n", after="keep(model.state_dict())\n"),
        ),
        (
            'def note(text):\n    with open("a.txt", "w") as file:\n        file.write(text)\n',
            "def note(text):\n    if rt.is_main_process():\n"
            '        with open("a.txt", "w") as file:\n            file.write(text)\n',
            script(imports=IMPORTS + "from helper import note\n", after='note("done")\n'),
        ),
        (
            "def data_of(folder):\n    return datasets.MNIST(folder, download=True)\n",
            "def data_of(folder):\n    with rt.main_process_first():\n"
            "        return datasets.MNIST(folder, download=True)\n",
            script(imports=IMPORTS + "from helper import data_of\n", data='data = data_of(".")\n'),
        ),
    ],
    ids=["save", "file", "download"],
)
def test_what_one_rank_does_in_another_file(helper: str, after: str, before: str) -> None:
    top = f"{IMPORTS}from torchvision import datasets\n"
    new = together(before, {"helper.py": f"{top}\n\n{helper}"})
    assert new["helper_dist.py"] == f"{top}{RUNTIME}\n\n{after}"


def test_prints_of_a_function_that_does_more_than_talk() -> None:
    """A guard around the call would leave out what the other ranks must do, too."""
    helper = "seen = []\n\n\ndef tell(text):\n    seen.append(text)\n    print(text)\n"
    new = together(script(after='import helper\nhelper.tell("done")\n'), {"helper.py": helper})
    assert new["helper_dist.py"] == f"from distify_runtime import rank_zero_print as print\n\n{helper}"
    assert new["train_dist.py"] == distributed(after='import helper_dist as helper\nhelper.tell("done")\n')


def test_a_call_that_only_talks_is_guarded_where_it_stands() -> None:
    after = 'from helper import tell\ntell("done")\n'
    new = together(script(after=after), {"helper.py": "def tell(text):\n    print(text)\n"})
    guarded = 'from helper import tell\nif rt.is_main_process():\n    tell("done")\n'
    assert new == {"train_dist.py": distributed(after=guarded)}


def test_function_of_the_same_name_in_another_file() -> None:
    """`torch.save` is not `helper.save`."""
    after = "import helper\nhelper.save(1)\n"
    new = together(script(after=after), {"helper.py": "def save(value):\n    return value\n"})
    assert new == {"train_dist.py": distributed(after=after)}


def test_names_are_kept_without_twins() -> None:
    imports = IMPORTS + "from helper import train\n"
    new = together(
        script(imports=imports, loop="train(model, optimizer, loader)\n"),
        {"helper.py": f"{IMPORTS}\n\n{TRAIN}"},
        twins=False,
    )
    assert sorted(new) == ["helper.py", "train.py"]
    assert new["train.py"].startswith(imports)


def test_a_file_converted_for_another_script() -> None:
    helper = f"{IMPORTS}{RUNTIME}\n\nset_epoch = rt.set_epoch\n\n\n{TRAIN}"
    before = script(imports=IMPORTS + "from helper import train\n", loop="train(model, optimizer, loader)\n")
    conversion = conversion_of(before, files={"helper.py": helper})
    assert conversion.outcome is Outcome.REFUSED
    assert {path for _, path, _ in needs(conversion)} == {"helper.py"}


def test_a_process_group_of_another_file_is_ours() -> None:
    helper = "import torch.distributed as dist\n\n\ndef start():\n    dist.init_process_group('gloo')\n"
    wholly = {
        "loader": "loader = DataLoader(data, batch_size=8, sampler=torch.utils.data.DistributedSampler(data))\n",
        "model": "model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))\n",
    }
    before = script(imports=f"{IMPORTS}from helper import start\n", setup="start()\n", **wholly)
    conversion = conversion_of(before, files={"helper.py": helper})
    assert {(code, path) for code, path, _ in needs(conversion)} == {("REFUSE01", "train.py")}
    half = script(imports=f"{IMPORTS}from helper import start\n", setup="start()\n")
    conversion = conversion_of(half, files={"helper.py": helper})
    assert conversion.outcome is Outcome.CONVERTED
    assert not any(b"init_process_group('gloo')" in file.after for file in conversion.files)
    unused = script(imports=f"{IMPORTS}from helper import start\n")
    assert conversion_of(unused, files={"helper.py": helper}).outcome is Outcome.CONVERTED
