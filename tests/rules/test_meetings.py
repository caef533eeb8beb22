"""MEET01: a figure is put together where all ranks come to it, and nowhere else."""

from __future__ import annotations

import importlib.util

import distify_runtime
import pytest
from distify_codemods import Level, Options, Outcome
from distify_codemods.libraries.runtime import BY_ITSELF
from distify_runtime import meeting

from tests.rules.scripts import (
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    blocked,
    conversion_of,
    converted,
    indented,
    script,
)

TORCHS = (
    IMPORTS
    + "import os\nimport torch.distributed as dist\n"
    + "from torch.nn.parallel import DistributedDataParallel as DDP\n"
)
SETUP = 'dist.init_process_group("nccl")\nhistory = []\n'
WRAPPED = "model = DDP(nn.Linear(4, 1))\n"
RANKS = ("dist.get_rank()", 'int(os.environ["RANK"])', 'int(os.environ.get("LOCAL_RANK", 0))')


def _half_done(after: str, setup: str = "") -> str:
    return script(imports=TORCHS, setup=SETUP + setup, model=WRAPPED, loop=LOOP + after + "print(history)\n")


@pytest.mark.parametrize("rank", RANKS)
def test_what_rank_0_alone_keeps_stays_its_own(rank: str) -> None:
    new = converted(_half_done(f"        if {rank} == 0:\n            history.append(loss.item())\n"))
    assert "            history.append(loss.item())\n" in new


def test_a_function_that_other_ranks_leave_keeps_it_too() -> None:
    function = "def note(loss):\n    if dist.get_rank() != 0:\n        return\n    history.append(loss.item())\n"
    new = converted(_half_done("        note(loss)\n", function))
    assert "    history.append(loss.item())\n" in new


@pytest.mark.parametrize(
    ("after", "setup"),
    [
        ("    if dist.get_rank() == 0:\n        if loss.item() < best:\n            best = loss.item()\n"
         '            torch.save(model.module.state_dict(), "net.pt")\n', "best = 9.0\n"),
        ("    if dist.get_rank() == 0 and loss.item() < best:\n        best = loss.item()\n"
         '        torch.save(model.module.state_dict(), "net.pt")\n', "best = 9.0\n"),
        ("    check()\n", "best = 9.0\ndef check():\n    if dist.get_rank() != 0:\n        return\n"
         '    if loss.item() < best:\n        torch.save(model.module.state_dict(), "net.pt")\n'),
        ("    if dist.get_rank() != 0:\n        continue\n    if loss.item() < best:\n"
         '        torch.save(model.module.state_dict(), "net.pt")\n', "best = 9.0\n"),
        ("    if dist.get_rank() != 0:\n        continue\n    check()\n",
         "best = 9.0\ndef check():\n    if loss.item() < best:\n"
         '        torch.save(model.module.state_dict(), "net.pt")\n'),
    ],
    ids=["under it", "behind `and`", "after `return`", "after `continue`", "called after `continue`"],
)  # fmt: skip
def test_a_decision_that_not_all_ranks_come_to_needs_a_person(after: str, setup: str) -> None:
    assert "MEET01" in {code for code, _ in blocked(_half_done(after, setup))}


def _says_that_ranks_meet(name: str) -> bool:
    found = getattr(distify_runtime, name)
    assert found in meeting.said, f"put `@collective` or `@by_itself` above {name}"
    return meeting.said[found]


def test_all_of_the_runtime_says_whether_ranks_meet_in_it() -> None:
    homes = distify_runtime._HOME
    own = [one for one in homes if importlib.util.find_spec("horovod") or not homes[one].startswith("horovod_")]
    assert set(homes) == set(distify_runtime.__all__)
    assert {name for name in own if not _says_that_ranks_meet(name)} == BY_ITSELF


# ---- under the guards of the conversion

PLOTS = """\
try:
    import matplotlib.pyplot as plt
except ImportError:
    class Texts:
        def plot(self, value, **options):
            self.value = value

        def savefig(self, path, **options):
            {}

    plt = Texts()
"""
MEAN = 'open(path, "w").write("%.5f" % (self.value / 2))'


def _plotted(line: str, kept: str) -> str:
    shown = f'plt.plot({kept}, label="training")\nplt.savefig("curve.png", dpi=100)\n'
    return script(imports=IMPORTS + PLOTS.format(line), loop=LOOP, after=shown)


def _latest() -> str:
    """What takes the library's place reads a figure by itself."""
    before = script(imports=IMPORTS + PLOTS.format('open(path, "w").write("%.5f" % (latest["loss"] / 2))'))
    step = "        optimizer.step()\n"
    assert before.count(step) == 1
    kept = before.replace(step, f'{step}        latest["loss"] = loss.item()\n').replace("try:", "latest = {}\ntry:", 1)
    return f'{kept}plt.plot(epoch)\nplt.savefig("curve.png", dpi=100)\n'


def test_a_figure_is_not_put_together_where_rank_0_alone_comes() -> None:
    """The drawing is rank 0's, and what takes the library's place would wait there for the other ranks."""
    assert "MEET01" in {code for code, _ in blocked(_latest())}


def test_such_a_script_is_converted_by_shared_forward_passes() -> None:
    shared = conversion_of(_latest(), options=Options())
    assert shared.outcome is Outcome.CONVERTED
    assert b"all_reduce_mean" not in shared.files[0].after


def test_a_figure_that_was_put_together_before_is_not_again() -> None:
    after = converted(_plotted(MEAN, "loss.item()"))
    assert 'plt.plot(rt.all_reduce_mean(loss.item()), label="training")' in after
    assert MEAN in after


def test_what_rank_0_draws_of_figures_that_are_alike_is_its_own() -> None:
    assert "MEET01" not in {code for code, _ in blocked(_plotted(MEAN, "epoch"))}


def test_a_figure_that_is_put_together_before_it_is_drawn() -> None:
    new = converted(_plotted('open(path, "w").write("plot")', "loss.item()"))
    assert "if rt.is_main_process():\n    plt.savefig" in new


# ---- where ranks come one after the other

TRAINS = "def train(data):\n" + indented(LOADER + MODEL + OPTIMIZER + LOOP)
VISION = f"{IMPORTS}from torchvision import datasets\n\n\n{TRAINS}\n\n"


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_no_training_where_ranks_wait_for_a_download(strategy: str) -> None:
    text, options = f'{VISION}train(datasets.MNIST(".", download=True))\n', Options(strategy=strategy)
    codes = {one.code for one in conversion_of(text, options=options).of(Level.BLOCKING)}
    assert codes & {"DATA03", "MEET01"}


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
@pytest.mark.parametrize(
    "data",
    [
        'data = datasets.MNIST(".", download=True)\n',
        'data = datasets.MNIST(f"{time.time()}", download=True)\n',
        'loader = DataLoader(datasets.MNIST(".", download=True), batch_size=8, shuffle=True)\n',
    ],
    ids=["alone", "told by rank 0, which goes on", "in the call that makes the loader"],
)
def test_downloads_in_turns(data: str, strategy: str) -> None:
    imports, loader = f"import time\n{VISION}", "" if data.startswith("loader") else LOADER
    new = converted(script(imports=imports, data=data, loader=loader), Options(strategy=strategy))
    assert "with rt.main_process_first():\n" in new


TOGETHER = "with rt.fail_together():\n"
TRACKED = """\
tracks = True
try:
    wandb.init(project="points")
except Exception as error:
    print(error){then}
"""
SAVED = """\
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
saved = 0
try:
    torch.save(model.state_dict(), "model.pt"){behind}
except OSError as error:
    print(error){then}
for x, y in loader:
    if saved == 0:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""


def test_what_a_failure_of_rank_0_decides_is_decided_by_all() -> None:
    after = converted(script(imports=IMPORTS + "import wandb\n", setup=TRACKED.format(then="\n    tracks = False")
                             + "print(tracks)\n"))  # fmt: skip
    assert f'    {TOGETHER}        wandb.init(project="points", mode=None if rt.is_main_process()' in after
    for behind, then in (("\n    saved = 1", ""), ("", "\n    saved = 2")):
        after = converted(script(loop=SAVED.format(behind=behind, then=then)))
        assert f"    {TOGETHER}        if rt.is_main_process():\n            torch.save(" in after


def test_a_failure_that_decides_nothing_is_rank_0s_own() -> None:
    after = converted(script(imports=IMPORTS + "import wandb\n", setup=TRACKED.format(then="") + "print(tracks)\n"))
    assert TOGETHER not in after
    assert TOGETHER not in converted(script(loop=SAVED.format(behind="", then="")))


NESTED = """\
run = wandb.init(project="points")


def noted():
    return f"best-{run.id}"


{loop}    try:
        torch.save(model.state_dict(), "model.pt")
        try:
            print({name})
        except OSError:
            pass
    except OSError:
        pass
"""


@pytest.mark.parametrize("name", ['f"best-{run.id}"', "noted()"])
def test_ranks_that_meet_behind_a_failure_of_rank_0_fail_with_it(name: str) -> None:
    """In an inner attempt, of which nothing is used later, and in what is called there."""
    loop = NESTED.replace("{loop}", LOOP).replace("{name}", name)
    after = converted(script(imports=IMPORTS + "import wandb\n", loop=loop))
    assert "rt.from_main_process(run.id)" in after
    assert f"        {TOGETHER}            if rt.is_main_process():\n                torch.save(" in after


def test_nobody_meets_behind_a_failure_of_rank_0() -> None:
    loop = NESTED.replace("{loop}", LOOP).replace("{name}", "epoch")
    assert TOGETHER not in converted(script(imports=IMPORTS + "import wandb\n", loop=loop))


KEPT = """\
import os
if os.path.exists("kept.pt"):
    try:
        x = torch.load("kept.pt", weights_only=False)
    except Exception as error:
        print(error)
        x = torch.randn(64, 4)
        torch.save(x, "kept.pt")
else:
    x = torch.randn(64, 4)
    torch.save(x, "kept.pt")
"""


def test_ranks_fail_together_where_what_they_read_is_made_anew() -> None:
    after = converted(script(data=KEPT + "data = TensorDataset(x, torch.randn(64, 1))\n"))
    assert f"        {TOGETHER}            x = torch.load(" in after
    assert "        rt.barrier()\n        if rt.is_main_process():\n            torch.save(x" in after


RETURNS = """\
import os


def settings():
    if os.path.exists("settings.txt"):
        return open("settings.txt").read()
    try:
        with open("settings.txt", "w") as file:
            file.write("0.1")
        return "0.1"
    except OSError as error:
        print(error)
    if os.path.exists("other.txt"):
        return open("other.txt").read()
    return "0.2"


print(settings())
"""


def test_who_fails_goes_on_behind_a_try_that_the_others_have_left() -> None:
    """So all fail, and nobody waits there for who has returned."""
    after = converted(script(setup=RETURNS))
    assert f"    try:\n        {TOGETHER}            if rt.is_main_process():\n                with open(" in after


TELLING = """\
def tell(path, text):
    print(text)
    with open(path, "a") as file:
        file.write(text)
"""


def test_ranks_wait_outside_of_what_rank_0_alone_calls() -> None:
    shown = 'tell("log.txt", "begins")\nwords = open("log.txt").read()\ntell("log.txt", words)\n'
    before = script(imports=f"{IMPORTS}from telling import tell\n", setup=shown)
    conversion = conversion_of(before, files={"telling.py": TELLING})
    assert conversion.outcome is Outcome.CONVERTED
    assert [file.after.decode().count("rt.barrier()") for file in conversion.files] == [2, 0]
    above = 'rt.barrier()\nif rt.is_main_process():\n    tell("log.txt", words)\n'
    assert above in conversion.files[0].after.decode()
