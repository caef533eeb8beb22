"""`distify verify`: two runs, one report; nothing of the user's is written, and nobody sees a traceback of ours.

The first of each kind are processes of their own, as a user's; the runs of the others are forks (`Here`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import re
from pathlib import Path

import pytest
import torch
from command_line import TRAIN, CommandLine, Here

from distify.layout import MOST_COPIED
from tests.equivalence.horovod_ranks import IS_INSTALLED, needs_horovod
from tests.equivalence.processes import ROOT
from tests.grid import slow, some

SAME = """\
original   train.py, in one process
conversion converted here, on 2 ranks (CPU, Gloo, float64)
steps      8; passes over the data end after 8, with their last batch
check            result              largest difference  parts at step
process group    same                                                   one of 2, and ended
optimizer steps  same                                                   8, of 1 optimizer
parameters       same                GAP                 the original's after each of 8 steps
ranks agree      same                0                                  bit for bit
work is shared   same                                                   50%, 50%
samples          same                                                   each as often as in the original, in 2 passes
noise            nothing to compare                                     nothing is drawn for samples
files            same                                                   1, each of one rank
checkpoints      same                                                   1, with the original's keys and values
printed figures  nothing to compare                                     no line about an evaluation was printed
one rank prints  same                                                   2 lines of rank 0
train.py: the same steps
"""


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_right_conversion(distify: CommandLine, script: Path) -> None:
    (script.parent / "model.pt").write_bytes(b"of an earlier run")
    before = files(script.parent)
    ended = distify("verify", "train.py")
    assert (ended.code, ended.err) == (0, "")
    text, number = re.subn(r"\d(?:\.\d+)?e-1\d +|0 +(?=the original's)", f"{'GAP':<20}", ended.out.decode())
    assert number == 1
    assert text == SAME.replace("GAP                 ", f"{'GAP':<20}")
    assert files(script.parent) == before


def test_the_readme_shows_what_is_printed(here: Here, script: Path) -> None:
    fixture = ROOT / "fixtures" / "argparse_main" / "train.py"
    script.write_bytes(fixture.read_bytes())
    ended = here("verify", "train.py", "--", "--epochs", "3")
    assert (ended.code, ended.err) == (0, "")
    [shown] = re.findall(
        r"^\$ distify verify train.py -- --epochs 3\n(.*?)^```",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.M | re.S,
    )
    pattern = re.escape(_without_gap(shown)).replace("…", ".*")  # the numbers of a rank's own samples are cut off
    assert re.fullmatch(pattern, _without_gap(ended.out.decode())), ended.out.decode()


def _without_gap(text: str) -> str:
    """How far parameters are apart is another number on each machine."""
    return re.sub(r"^(parameters +same +)\S+ +", r"\1GAP ", text, flags=re.MULTILINE)


def test_parameters_that_are_trained_from_the_second_epoch_on(here: Here, script: Path) -> None:
    more = b"        if epoch == 1:\n            optimizer.add_param_group({'params': [model.bias]})\n"
    loop = b"        for x, y in loader:\n"
    some = b"SGD([one for name, one in model.named_parameters() if name != 'bias'], lr=0.1)"
    text = TRAIN.replace(b"SGD(model.parameters(), lr=0.1)", some).replace(loop, more + loop)
    assert text.count(more) == text.count(some) == 1
    script.write_bytes(text)
    ended = here("verify", "train.py")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.decode().splitlines()[-1] == "train.py: the same steps"


def _chaotic(script: Path) -> None:
    """What a sample's number is, is soon all in its last digits."""
    loss = b"nn.functional.mse_loss(model(x), y)"
    chaos = (
        b"torch.sigmoid(model(x))\n            for _ in range(16):\n                loss = 3.9 * loss * (1 - loss)\n"
    )
    chaos += b"            loss = nn.functional.mse_loss(loss, y)"
    step = b"            nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n            optimizer.step()\n"
    text = TRAIN.replace(b"lr=0.1", b"lr=0.5").replace(loss, chaos).replace(b"            optimizer.step()\n", step)
    script.write_bytes(
        text.replace(b"def main():\n", b"def main():\n    torch.manual_seed(0)\n").replace(b"range(2)", b"range(3)")
    )


def test_an_original_that_goes_apart_from_itself(here: Here, script: Path) -> None:
    _chaotic(script)
    ended = here("verify", "train.py")
    out = " ".join(ended.out.decode().split())
    assert (ended.code, ended.err) == (0, ""), out
    assert re.search(r"note: from step \d+ on the original itself goes as far apart where its parameters change", out)
    assert out.endswith("train.py: the same steps")


def test_a_mistake_is_none_of_rounding(distify: CommandLine, here: Here, script: Path) -> None:
    """From the second epoch on, gradients are doubled: the original does not go there by itself."""
    assert distify("convert", "train.py", "--yes").code == 0
    converted = script.with_name("train_dist.py")
    more = b"            if epoch == 1:\n                loss = loss * 1.001\n            loss.backward()\n"
    converted.write_bytes(converted.read_bytes().replace(b"            loss.backward()\n", more))
    ended = here("verify", "train.py", "train_dist.py")
    out = ended.out.decode()
    assert ended.code == 1
    assert "goes as far apart" not in out
    assert "train.py: differs from step 5 on" in out


@pytest.mark.parametrize(
    "draw",
    [
        "numpy.random.shuffle(rows)",
        "rows = rows[numpy.random.permutation(64)]",
        "numpy.random.default_rng().shuffle(rows)",
        "rows += numpy.random.RandomState().rand(64, 9)",
    ],
)
def test_what_numpy_draws_without_a_seed(draw: str, here: Here, script: Path) -> None:
    """Whose rows are others in each run: chance is taken out of both runs, and what is left is the conversion."""
    drawn = f"""\
def main():
    rows = numpy.random.rand(64, 9) + numpy.arange(576).reshape(64, 9) / 576
    {draw}
    dataset = TensorDataset(*torch.tensor(rows).split([8, 1], dim=1))
"""
    made = TRAIN[TRAIN.index(b"def main") : TRAIN.index(b"    loader =")]
    script.write_bytes(b"import numpy\n" + TRAIN.replace(made, drawn.encode()))
    ended = here("verify", "train.py")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.decode().splitlines()[-1] == "train.py: the same steps"


@pytest.mark.parametrize(
    "bounds", ["0, 3, x.shape", "0, high=3, size=x.shape", "low=1, high=3, size=x.shape", "3, x.shape"]
)
def test_whole_numbers_that_are_drawn_in_training(bounds: str, here: Here, script: Path) -> None:
    noised = f"model(x + torch.randint({bounds}))".encode()
    script.write_bytes(TRAIN.replace(b"model(x)", noised))
    ended = here("verify", "train.py")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.decode().splitlines()[-1] == "train.py: the same steps"


def test_noise_that_all_ranks_draw_alike(distify: CommandLine, here: Here, script: Path) -> None:
    """It is one row in the runs whose parameters are compared, and shows in a run of its own."""
    script.write_bytes(TRAIN.replace(b"model(x)", b"model(x + 0.1 * torch.randn_like(x))"))
    assert distify("convert", "train.py", "--yes").code == 0
    converted = script.with_name("train_dist.py")
    right = converted.read_text()
    assert right.count("rt.seed_ranks_apart()") == 1
    for text, code in ((right, 0), (right.replace("rt.seed_ranks_apart()", "pass"), 1)):
        converted.write_text(text)
        ended = here("verify", "train.py", "--json")
        assert (ended.code, ended.err) == (code, ""), ended.out.decode()
        checks = {check["check"]: check for check in json.loads(ended.out)["checks"]}
        assert checks["parameters"]["result"] == "same"
        told = "draw the same noise (`randn_like`)" if code else "each rank draws its own, as one process does (p = "
        assert told in checks["noise"]["message"]


def test_samples_that_are_paired_at_random(here: Here, script: Path) -> None:
    """Within a rank's share: others than one process pairs, which is what parts the runs."""
    drawn = "order = torch.randperm(len(x))"
    mixed = f"{drawn}\n            loss = nn.functional.mse_loss(model(x + x[order]), y + y[order])".encode()
    text = TRAIN.replace(b"loss = nn.functional.mse_loss(model(x), y)", mixed)
    assert text.count(b"order = ") == 1
    script.write_bytes(text)
    ended = here("verify", "train.py")
    assert (ended.code, ended.err) == (1, "")
    told = f"samples are paired at random within a rank's share of the batch, at train.py:14 (`{drawn}`)"
    assert told in " ".join(ended.out.decode().split()), ended.out.decode()


def checks_of(here: Here, *words: str) -> dict[str, str]:
    """Of two runs that are the same: by its name, what each check has found."""
    ended = here("verify", "train.py", "--json", *words)
    assert (ended.code, ended.err) == (0, ""), ended.out.decode()
    return {check["check"]: check["message"] for check in json.loads(ended.out)["checks"]}


ENDLESS = """\
class Endless(torch.utils.data.Sampler):
    def __iter__(self):
        while True:
            yield from torch.randperm(64).tolist()

    def __len__(self):
        return 2**31


def main"""


def test_a_pass_without_an_end_is_not_drawn_to_it(here: Here, script: Path) -> None:
    text = TRAIN.decode().replace("def main", ENDLESS, 1).replace("shuffle=True", "sampler=Endless()")
    script.write_text(text.replace("in loader", "in (batch for _, batch in zip(range(12), loader))"))
    assert checks_of(here)["optimizer steps"] == "20, of 1 optimizer"


def test_models_that_are_given_their_batches_by_name(here: Here, script: Path) -> None:
    """Which torch tells no hook of."""
    script.write_bytes(TRAIN.replace(b"model(x)", b"model(input=x)"))
    assert checks_of(here, "--strategy", "shared")["work is shared"] == "50%, 50%"


def test_what_comes_behind_the_steps_that_were_taken(here: Here, script: Path) -> None:
    by_then = " in the first 4 steps (--steps 0 runs to the end)"
    found = checks_of(here, "--steps", "4")
    assert found["files"] == f"none{by_then}"
    assert found["checkpoints"] == f"none was saved by torch.save or safetensors{by_then}"
    assert found["printed figures"] == f"no line about an evaluation was printed{by_then}"


PHASE = TRAIN[TRAIN.index(b"    optimizer =") : TRAIN.index(b"        print(")]
ANOTHER = b"    model = nn.Linear(8, 1)\n" + PHASE


def test_training_that_begins_behind_the_steps_that_are_taken(here: Here, script: Path) -> None:
    """Whose model a conversion by hand has not wrapped."""
    script.write_bytes(TRAIN.replace(PHASE, PHASE + ANOTHER))
    assert here("convert", "train.py", "--yes").code == 0
    converted = script.with_name("train_dist.py")
    ended = here("verify", "train.py", "--steps", "4")
    assert (ended.code, ended.err) == (0, "")
    assert "and after 1 when 4 steps were taken" in ended.out.decode()
    text = converted.read_text()
    wrap = "    model = DistributedDataParallel(model, device_ids=rt.device_ids(model))\n"
    assert text.count(wrap) == 1
    converted.write_text(text.replace(wrap, "").replace("model.module.", "model."))
    ended = here("verify", "train.py", "--steps", "4")
    assert ended.code == 1
    assert "train.py: differs from step 5 on: " in ended.out.decode()


FUNCTION = b"""\
def fit(model, loader):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(20):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    model.train()


def main"""


@pytest.mark.parametrize("loop", ["a loop of its own", "a function that is called again"])
def test_training_that_does_not_begin_in_a_run(loop: str, here: Here, script: Path) -> None:
    text = TRAIN.replace(PHASE, PHASE.replace(b"range(2)", b"range(20)") + ANOTHER)
    marker = "    for epoch in range(2):"
    if loop != "a loop of its own":
        calls = b"    fit(model, loader)\n    student = nn.Linear(8, 1)\n    fit(student, loader)\n"
        text = TRAIN.replace(PHASE, calls + b"    for epoch in range(1):\n").replace(b"def main", FUNCTION)
        marker = "    fit(student, loader)"
    script.write_bytes(text)
    ended = here("verify", "train.py", "--steps", "4")
    line = text.decode().splitlines().index(marker) + 1
    told = (
        f"what train.py:{line} may train had not begun after 12 steps, and was not compared (--steps 0 runs to the end)"
    )
    assert (ended.code, ended.err) == (0, "")
    assert told in " ".join(ended.out.decode().split())


def test_a_script_that_bears_no_more_steps(here: Here, script: Path) -> None:
    """Compared by what it bears, and the rest is named."""
    head, loop, body = PHASE.replace(b"range(2)", b"range(20)").partition(b"        for x, y in loader:\n")
    count, seen = b"        seen = 0\n", b"            seen += 1\n"
    long = head + count + loop + seen + body + b"        assert seen > 1, 'a pass of one batch'\n"
    script.write_bytes(TRAIN.replace(PHASE, long + ANOTHER))
    ended = here("verify", "train.py", "--steps", "4")
    assert (ended.code, ended.err) == (0, ""), ended.out.decode()
    assert "\nsteps      the first 4; passes over the data end after 2, with their last batch\n" in ended.out.decode()
    assert "had not begun after 4 steps" in " ".join(ended.out.decode().split())


@pytest.mark.parametrize(
    "then",
    [
        "        print(epoch)\n    for epoch in range(2):\n        print(epoch)\n",
        "        if epoch > 99:\n            for x, y in loader:\n                model(x).sum().backward()\n",
    ],
    ids=["another loop", "in the same loop"],
)
def test_no_training_that_begins_later(then: str, here: Here, script: Path) -> None:
    end = TRAIN.index(b"        print(")
    script.write_bytes(TRAIN[:end] + then.encode() + TRAIN[end:].replace(b"        print", b"    print"))
    ended = here("verify", "train.py", "--steps", "4")
    assert (ended.code, ended.err) == (0, ""), ended.out.decode()
    assert "had not begun" not in ended.out.decode()
    assert "\nsteps      the first 4; passes over the data end after 2, with their last batch\n" in ended.out.decode()


def test_times_in_a_checkpoint_are_passed_over_and_counted(here: Here, script: Path) -> None:
    saved = TRAIN.replace(
        b'torch.save(model.state_dict(), "model.pt")',
        b'torch.save({"model": model.state_dict(), "duration": time.time() - begun}, "model.pt")',
    )
    script.write_bytes(b"import time\nbegun = time.time()\n" + saved)
    assert here("convert", "train.py", "--yes").code == 0
    assert checks_of(here)["checkpoints"] == "1, with the original's keys and values but for 1 time"


@pytest.mark.skipif(importlib.util.find_spec("safetensors") is None, reason="safetensors is not installed")
def test_tensors_that_safetensors_saves(distify: CommandLine, here: Here, script: Path) -> None:
    saved = TRAIN.replace(
        b'torch.save(model.state_dict(), "model.pt")', b'save_file(model.state_dict(), "w.safetensors")'
    )
    script.write_bytes(b"from safetensors.torch import save_file\n" + saved)
    assert distify("convert", "train.py", "--yes").code == 0
    assert checks_of(here)["checkpoints"] == "1, with the original's keys and values"
    converted = script.with_name("train_dist.py")
    text = converted.read_text()
    assert text.count("save_file(model.module") == 1
    converted.write_text(text.replace("save_file(model.module", "save_file(model"))
    ended = here("verify", "train.py")
    assert ended.code == 1
    assert "w.safetensors has other keys than the original's" in ended.out.decode()


OWN = """\
class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        x, y = self.rows[index]
        return x + 0.1 * torch.rand(8), y


def main"""


def test_loaders_with_workers(distify: CommandLine, here: Here, script: Path) -> None:
    """The steps are the same with workers as well; what only they do wrong shows in a run of its own."""
    text = TRAIN.decode().replace("def main", OWN, 1).replace("TensorDataset(torch", "Rows(TensorDataset(torch")
    text = text.replace("torch.randn(64, 1))", "torch.randn(64, 1)))").replace(
        "shuffle=True", "shuffle=True, num_workers=3"
    )
    script.write_text(text)
    assert distify("convert", "train.py", "--yes").code == 0
    converted = script.with_name("train_dist.py")
    right = converted.read_text()
    assert right.count("x + 0.1") == 1
    for wrong in ("", "0 if torch.utils.data.get_worker_info() is None else rt.rank()"):
        converted.write_text(right.replace("x + 0.1", f"x + ({wrong}) + 0.1") if wrong else right)
        ended = here("verify", "train.py", "--json")
        assert (ended.code, ended.err) == (int(bool(wrong)), ""), ended.out.decode()
        checks = {check["check"]: check for check in json.loads(ended.out)["checks"]}
        assert checks["parameters"]["result"] == "same"
        if wrong:
            assert checks["workers"]["step"] == 1
            assert "with 2 workers: rank 0: after step 1 parameters differ by" in checks["workers"]["message"]
        else:
            assert checks["workers"]["message"] == "6 steps with 2 for each loader"
            assert "each rank draws its own, as one process does" in checks["noise"]["message"]
            assert list(checks)[5:8] == ["samples", "workers", "noise"]


def test_a_last_batch_that_workers_are_told_of_before_any_step(here: Here, distify: CommandLine, script: Path) -> None:
    """As one that the process loads itself, it is filled up in the original, too."""
    text = TRAIN.decode().replace("randn(64", "randn(61").replace("shuffle=True", "shuffle=True, num_workers=3")
    script.write_text(text)
    assert distify("convert", "train.py", "--yes").code == 0
    ended = here("verify", "train.py", "--json")
    checks = {check["check"]: check for check in json.loads(ended.out)["checks"]}
    assert ended.code == 0, ended.out.decode()
    assert checks["workers"]["message"] == "6 steps with 2 for each loader"


@pytest.mark.parametrize("strategy", some(["sharded", "shared"], ["sharded"]))
def test_mixed_precision(strategy: str, distify: CommandLine, here: Here, script: Path) -> None:
    """It is left in a run of its own: who loses it, and who takes other steps in it, is told."""
    within = b"            with torch.autocast('cpu', dtype=torch.bfloat16):\n                loss ="
    script.write_bytes(TRAIN.replace(b"            loss =", within))
    assert distify("convert", "train.py", "--yes", "--strategy", strategy).code == 0
    converted = script.with_name("train_dist.py")
    right = converted.read_text()
    assert right.count("dtype=torch.bfloat16") == 1
    lost = right.replace("dtype=torch.bfloat16", "enabled=False")
    larger = right.replace("lr=0.1", "lr=0.2 if torch.is_autocast_enabled('cpu') else 0.1").replace(
        "def main():\n", "def main():\n    torch.autocast('cpu', dtype=torch.bfloat16).__enter__()\n"
    )
    said = {right: "4 steps, 100% of calls under autocast", lost: "rank 0 calls 0% of its layers under autocast"}
    said[larger] = "under autocast: rank 0: after step 1 parameters differ by"
    for text, told in said.items():
        converted.write_text(text)
        ended = here("verify", "train.py", "--json")
        assert (ended.code, ended.err) == (int(text != right), ""), ended.out.decode()
        checks = {check["check"]: check for check in json.loads(ended.out)["checks"]}
        assert checks["parameters"]["result"] == "same"
        assert checks["mixed precision"]["message"].startswith(told)
        assert [name for name, check in checks.items() if check["result"] == "differs"] == ["mixed precision"] * (
            text != right
        )


HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="matplotlib is not installed")
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_of_both_runs(suffix: str, here: Here, script: Path) -> None:
    picture = script.with_name(f"run.{suffix}")
    ended = here("verify", "train.py", "--plot", picture.name)
    assert (ended.code, ended.err) == (0, "")
    drawn = picture.read_bytes()
    assert drawn.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    if suffix == "svg":
        texts = re.findall(rb"<!-- (.*?) -->", drawn)  # that of each text, which is drawn as outlines
        for text in (b"loss", b"original", b"converted", b"largest difference of a parameter", b"optimizer step"):
            assert text in texts, texts


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        ("run.xyz", "run.xyz: matplotlib writes no .xyz; it writes "),
        ("run", "run: matplotlib goes by the end of the name, and there is none; it writes "),
        ("nowhere/run.svg", "nowhere/run.svg: cannot be written: there is no folder nowhere"),
    ],
)
def test_a_picture_that_cannot_be_drawn(picture: str, told: str, distify: CommandLine, script: Path) -> None:
    """Said before anything runs."""
    script.write_bytes(b"raise SystemExit(5)\n" + TRAIN)
    ended = distify("verify", "train.py", "--plot", picture)
    assert (ended.code, ended.out) == (2, b"")
    missing = f"{picture}: matplotlib, which draws it, is not installed: pip install 'distify[plot]'"
    assert ended.err.startswith(f"distify: {told if HAS_MATPLOTLIB else missing}")
    assert len(ended.err.splitlines()) == 1


def test_data_that_lie_beside_the_project(here: Here, script: Path) -> None:
    """In a copy of the project the way to them leads elsewhere: what to do about it is said."""
    data = script.parent.parent / "beside" / "data.txt"
    data.parent.mkdir()
    data.write_text("1")
    script.write_bytes(b'open("../beside/data.txt").close()\n' + TRAIN)
    ended = here("verify", "train.py")
    assert ended.code == 2
    first = ended.err.splitlines()[0]
    assert "it runs in a copy of" in first
    assert f"../beside/data.txt is outside of that: name it by its whole path, {data}," in first
    script.write_bytes(b'open("../nowhere.txt").close()\n' + TRAIN)
    assert here("verify", "train.py").err.splitlines()[0].endswith("the original failed with exit code 1")


def test_a_script_that_fails_for_what_is_hidden_in_its_project(here: Here, script: Path) -> None:
    data = script.parent / ".private" / "data.txt"
    data.parent.mkdir(parents=True)
    data.write_text("1")
    script.write_bytes(b'open(".private/data.txt").close()\n' + TRAIN)
    ended = here("verify", "train.py")
    assert ended.code == 2
    said = f".private/data.txt is hidden, and so not in it: name it by its whole path, {data},"
    assert said in ended.err.splitlines()[0]


@pytest.mark.parametrize(
    "ask",
    [
        b'import os\nif os.path.exists("../nearby/data.txt"): print("resumed")\n',
        b'from pathlib import Path\nif Path("../nearby/data.txt").is_file(): print("resumed")\n',
        b'import os\nif os.path.isfile(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "nearby", '
        b'"data.txt")): print("resumed")\n',
        b'try:\n    open("../nearby/data.txt").close()\nexcept OSError:\n    pass\n',
    ],
)
def test_what_is_quietly_missing_beside_the_project(here: Here, script: Path, ask: bytes) -> None:
    """A script that asks whether it is there goes on without it, other than in life."""
    data = script.parent.parent / "nearby" / "data.txt"
    data.parent.mkdir(exist_ok=True)
    data.write_text("1")
    script.write_bytes(ask + TRAIN)
    ended = here("verify", "train.py", "--json")
    assert (ended.code, ended.err) == (0, "")
    (note,) = json.loads(ended.out)["notes"]
    assert "looked in vain for ../nearby/data.txt, which lies outside of that" in note
    assert f"name it by its whole path, {data}," in note


def test_a_script_that_ends_since_nothing_is_beside_its_copy(here: Here, script: Path) -> None:
    data = script.parent.parent / "nearby"
    data.mkdir(exist_ok=True)
    (data / "1.txt").write_text("1")
    script.write_bytes(b'import glob\nif not glob.glob("../nearby/*.txt"): raise SystemExit("no data")\n' + TRAIN)
    ended = here("verify", "train.py")
    assert ended.code == 2
    assert f"looked in vain for ../nearby, which lies outside of that: name it by its whole path, {data}," in ended.err


@pytest.mark.parametrize(
    "ask",
    [b'import os\nos.path.exists("../nowhere.txt")\n', b'import os\nos.path.exists("nowhere.txt")\n',
     b'import os\nos.path.exists("/nowhere/data.txt")\n'],
)  # fmt: skip
def test_what_is_nowhere_is_not_told(here: Here, script: Path, ask: bytes) -> None:
    script.write_bytes(ask + TRAIN)
    assert json.loads(here("verify", "train.py", "--json").out)["notes"] == []


BY_HAND = TRAIN.replace(b"optimizer.step()", b"[one.data.sub_(one.grad, alpha=0.1) for one in model.parameters()]")
BY_HAND = BY_HAND.replace(b"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", b"pass")
BY_HAND = BY_HAND.replace(b"optimizer.zero_grad()", b"model.zero_grad()")


def test_updates_by_hand_that_end_in_a_checkpoint(here: Here, script: Path) -> None:
    script.write_bytes(BY_HAND)
    ended = here("verify", "train.py")
    assert ended.code == 0
    assert ended.out.decode().splitlines()[-1] == "train.py: the same checkpoints; no optimizer took a step to compare"


@needs_horovod
def test_a_right_conversion_over_horovod(distify: CommandLine, script: Path) -> None:
    ended = distify("verify", "train.py", "--backend", "horovod")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.decode().splitlines()
    assert lines[1] == "conversion converted here, on 2 ranks (CPU, Horovod, float64)"
    assert lines[-1] == "train.py: the same steps"


@needs_horovod
def test_a_wrong_conversion_over_horovod(distify: CommandLine, here: Here, script: Path) -> None:
    assert distify("convert", "train.py", "--yes", "--backend", "horovod").code == 0
    converted = script.with_name("train_dist.py")
    text = converted.read_text()
    sent = "rt.broadcast_parameters(model)"
    assert text.count(sent) == 1
    converted.write_text(text.replace(sent, f"{sent}; model.weight.data += rt.rank()"))
    ended = here("verify", "train.py", "train_dist.py")
    assert ended.code == 1
    assert ended.out.decode().splitlines()[-1].startswith("  usually: the ranks begin with other weights each")


@pytest.mark.skipif(IS_INSTALLED, reason="Horovod is installed")
def test_horovod_is_missing(distify: CommandLine, script: Path) -> None:
    ended = distify("verify", "train.py", "--backend", "horovod")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith("distify: Horovod is not installed")
    assert len(ended.err.splitlines()) == 1


def test_a_conversion_that_is_there(distify: CommandLine, here: Here, script: Path) -> None:
    """It is the one that is run, also where it is named itself; what is wrong with it is told."""
    assert distify("convert", "train.py", "--yes").code == 0
    converted = script.with_name("train_dist.py")
    text = converted.read_text()
    assert "loader.sampler.set_epoch(epoch)" in text
    converted.write_text(text.replace("loader.sampler.set_epoch(epoch)", "pass"))
    ended = here("verify", "train_dist.py", "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["outcome"]) == (1, "differs")
    assert report["conversion"].startswith("train_dist.py, which is there already")
    (parted,) = [check for check in report["checks"] if check["result"] == "differs" and check["step"]]
    assert (parted["check"], parted["step"], parted["parameter"]) == ("parameters", 5, "weight")
    assert "`sampler.set_epoch(epoch)` is missing" in parted["usually"]


def test_a_rank_that_fails(distify: CommandLine, script: Path) -> None:
    assert distify("convert", "train.py", "--yes", "-o", "by_hand.py").code == 0
    broken = script.with_name("by_hand.py")
    broken.write_text(broken.read_text().replace("        for x, y in loader:", "        for x, y in loder:"))
    ended = distify("verify", "train.py", "by_hand.py")
    assert ended.code == 1
    *_, error, last = ended.out.decode().splitlines()
    assert "NameError: name 'loder' is not defined" in error
    assert last == "train.py: differs: rank 0 of the converted script failed with exit code 1"
    assert "distify_runtime" not in ended.out.decode()


def test_what_the_watch_has_said_before_a_rank_failed(distify: CommandLine, here: Here, script: Path) -> None:
    assert distify("convert", "train.py", "--yes").code == 0
    converted = script.with_name("train_dist.py")
    text = converted.read_text().replace("    rt.seed_ranks_apart()\n", "    rt.seed_ranks_apart(); model.double()\n")
    text = text.replace('print("[epoch]", epoch)', "undefined")
    assert text.count("model.double()") == text.count("undefined") == 1
    converted.write_text(text)
    ended = here("verify", "train.py")
    assert ended.code == 1
    *_, error, last = ended.out.decode().splitlines()
    assert "NameError: name 'undefined' is not defined" in error
    assert "failed with exit code 1; before that the watch has said: before step 1, `" in last
    assert "of a wrapped model was moved, cast or made anew" in last


def test_an_original_that_fails(distify: CommandLine, script: Path) -> None:
    script.write_bytes(TRAIN.replace(b"batch_size=16", b"batch_size=as_many"))
    ended = distify("verify", "train.py")
    first, *_, last = ended.err.splitlines()
    assert (ended.code, ended.out) == (2, b"")
    assert first == "distify: train.py: the original failed with exit code 1"
    assert last == "NameError: name 'as_many' is not defined"
    assert "runpy" not in ended.err


COUNTED = b"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(96, 4), torch.randn(96, 1)), batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = iter(loader)
for step in range(12):
    x, y = next(batches)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


def test_a_script_that_takes_as_many_batches_as_it_has_counted(here: Here, script: Path) -> None:
    """Passes that end early are none for it."""
    script.write_bytes(COUNTED)
    ended = here("verify", "train.py")
    assert ended.code == 0, ended.err
    assert "passes over the data were not cut short: the original fails then (StopIteration)" in ended.out.decode()
    assert "12, of 1 optimizer" in ended.out.decode()


def test_a_script_that_writes_elsewhere(here: Here, script: Path) -> None:
    """Its own folder is elsewhere, too: what runs is a copy."""
    kept = script.with_name("kept.pt")
    kept.write_bytes(b"last week's")
    script.write_bytes(TRAIN.replace(b'"model.pt"', repr(str(kept)).encode()))
    ended = here("verify", "train.py")
    assert ended.code == 2
    assert ended.err == (
        f"distify: train.py: the original writes to {kept}, outside of its folder: give it another place by an "
        "argument behind --\n"
    )
    assert kept.read_bytes() == b"last week's"


@pytest.mark.parametrize("path", ["model.pt", "runs/last/model.pt"])
def test_a_script_that_writes_where_large_files_are(path: str, here: Here, script: Path) -> None:
    """They are not copied; what is written there is the run's own."""
    kept = script.parent / path
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(b"last week's")
    os.truncate(kept, MOST_COPIED + 1)
    script.write_bytes(TRAIN.replace(b'"model.pt"', repr(path).encode()))
    ended = here("verify", "train.py")
    assert ended.code == 0, ended.err + ended.out.decode()
    assert "train.py: the same steps" in ended.out.decode()
    assert (kept.stat().st_size, kept.read_bytes()[:11]) == (MOST_COPIED + 1, b"last week's")


def test_ranks_that_the_batch_does_not_divide_by(here: Here, script: Path) -> None:
    ended = here("verify", "train.py", "-np", "3", "--steps", "2")
    assert ended.code == 2
    assert ended.err == (
        "distify: train.py: a batch of 16 samples does not divide by 3 ranks: "
        "use a batch size of 15 or 18, or another number of ranks\n"
    )


def test_a_last_batch_that_does_not_divide(here: Here, script: Path) -> None:
    """Shared forward passes leave it as it is, and the original with them; shares of it are filled up in both."""
    script.write_bytes(TRAIN.replace(b"randn(64,", b"randn(37,"))
    ended = here("verify", "train.py", "--strategy", "shared")
    assert ended.code == 0, ended.out
    assert ended.out.decode().splitlines()[-1] == "train.py: the same steps"
    assert "they repeat some of their samples" not in ended.out.decode()
    ended = here("verify", "train.py", "--strategy", "sharded")
    assert ended.code == 0, ended.out
    assert "last batches of 5 do not divide by 2 ranks: they repeat some of their samples" in ended.out.decode()


def test_a_pass_of_one_batch_that_does_not_divide(here: Here, script: Path) -> None:
    """It is the last one, and the first: all samples at once, an odd number of them."""
    script.write_bytes(TRAIN.replace(b"randn(64,", b"randn(15,"))
    ended = here("verify", "train.py", "--strategy", "sharded")
    assert ended.code == 0, ended.out
    assert "last batches of 15 do not divide by 2 ranks: they repeat some of their samples" in ended.out.decode()


OWN_BATCHES = """\
class Batches:
    def __len__(self):
        return 3

    def __iter__(self):
        for batch in torch.randperm(46).split([16, 15, 15]):
            yield {}


def main"""


@pytest.mark.parametrize("batch", ["batch", "batch.numpy()", "tuple(batch.tolist())"])
def test_batches_of_indices_that_are_no_lists(batch: str, here: Here, script: Path) -> None:
    """Nor tensors of one number. Of 15 samples, shares are filled up, and so is the original's batch."""
    dealt = TRAIN.replace(b"batch_size=16, shuffle=True", b"batch_sampler=Batches()")
    script.write_bytes(dealt.replace(b"def main", OWN_BATCHES.format(batch).encode(), 1))
    ended = here("verify", "train.py")
    assert ended.code == 0, ended.err + ended.out.decode()
    assert ended.out.decode().splitlines()[-1] == "train.py: the same steps"


CHANCE = b"""\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
        self.look = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
        self.walk = nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)
        self.out = nn.Sequential(nn.RReLU(), nn.Linear(8, 1))

    def forward(self, x):
        x = self.mix(x.view(-1, 1, 8).expand(-1, 3, 8))
        x = x + self.look(x, x, x, need_weights=False)[0]
        parts = x.view(-1, 3, 2, 4).transpose(1, 2)
        x = nn.functional.scaled_dot_product_attention(parts, parts, parts, None, 0.5, True).transpose(1, 2)
        return self.out(self.walk(x.reshape(-1, 3, 8))[0][:, -1])


def main"""


@pytest.mark.parametrize("strategy", some(["sharded", "shared"], ["shared"]))
def test_chance_within_attention_and_recurrent_layers(strategy: str, here: Here, script: Path) -> None:
    text = TRAIN.replace(b"def main", CHANCE, 1).replace(b"nn.Linear(8, 1)\n    opt", b"Net()\n    opt")
    assert text.count(b"Net()") == 1
    script.write_bytes(text)
    ended = here("verify", "train.py", "--strategy", strategy, "--steps", "4")
    assert ended.code == 0, ended.out.decode() + ended.err


PAIR = b"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.drop = nn.Linear(5, 8), nn.Linear(4, 8), nn.Dropout(0.3)

    def of_left(self, x):
        return self.left(self.drop(x))

    def of_right(self, x):
        return self.drop(self.right(x))

    def forward(self, left, right):
        return self.of_left(left), self.of_right(right)


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(24, 5), torch.randn(24, 4)), batch_size=6, shuffle=True)
model = Pair()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    left, right = CALL
    loss = nn.functional.cross_entropy(left @ right.t(), torch.arange(len(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "pair.pt")
"""


@pytest.mark.parametrize("call", [b"model.of_left(x), model.of_right(y)", b"model(left=x, right=y)"])
def test_dropout_of_a_shared_model_that_no_hook_sees_the_batch_of(call: bytes, here: Here, script: Path) -> None:
    script.write_bytes(PAIR.replace(b"CALL", call))
    ended = here("verify", "train.py", "--strategy", "shared")
    assert ended.code == 0, ended.out.decode() + ended.err
    assert "draw the same dropout" not in ended.out.decode()


REPEATED = b"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(8, 1).expand(8, 6), torch.randn(8, 1)), batch_size=4)
style = torch.randn(1, 3, 8).repeat(4, 1, 1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(3), nn.Linear(9, 1)

    def forward(self, x, style):
        return self.out(torch.cat([x, self.norm(style).mean(2)], 1))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(net(x, style[: len(x)]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(net.state_dict(), "net.pt")
"""


@slow
def test_a_batch_of_one_sample_several_times(here: Here, script: Path) -> None:
    """In a process that stands for ranks it is corrected by the count of one of them; here, by that of all."""
    script.write_bytes(REPEATED)
    ended = here("verify", "train.py", "--strategy", "shared")
    assert ended.code == 0, ended.out.decode() + ended.err


ROUNDED = b"""\
class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, z):
        out = self.body(z)
        return torch.cat([out[:, :4], nn.functional.gumbel_softmax(out[:, 4:], tau=0.5)], 1)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(37, 8)), batch_size=16, shuffle=True)
    maker, judge = Maker(), nn.Linear(8, 1)
    making = torch.optim.Adam(maker.parameters(), lr=2e-4)
    judging = torch.optim.Adam(judge.parameters(), lr=2e-4)
    for x, in loader:
        loss = judge(maker(torch.randn(len(x), 4)).detach()).mean() - judge(x).mean()
        judging.zero_grad()
        loss.backward()
        judging.step()
        loss = -judge(maker(torch.randn(len(x), 4))).mean()
        making.zero_grad()
        loss.backward()
        making.step()


if __name__ == "__main__":
    main()
"""


@slow
def test_noise_that_batchnorm_sees(distify: CommandLine, script: Path) -> None:
    """Rows that are all alike become zeros there, and what rounding makes of these is no sign of a mistake.

    Ranks round alike where they are started alike: forks are not.
    """
    script.write_bytes(TRAIN.partition(b"def main")[0] + ROUNDED)
    assert distify("convert", "train.py", "--yes", "--strategy", "shared").code == 0
    ended = distify("verify", "train.py")
    assert ended.code == 0, ended.out.decode() + ended.err
    converted = script.with_name("train_dist.py")
    text = converted.read_text()
    assert text.count("making.zero_grad()") == 1
    converted.write_text(text.replace("making.zero_grad()", "pass"))
    ended = distify("verify", "train.py")
    assert ended.code == 1, ended.out.decode() + ended.err
    assert "parameters differ by" in ended.out.decode()


def test_files_beside_the_modules_of_a_package(distify: CommandLine, here: Here) -> None:
    """A conversion that is there, with its twins and the data that the package keeps."""
    loop = TRAIN.partition(b"    for epoch")[2].partition(b"\n\n\nif")[0]
    fit = b"import torch\nfrom torch import nn\n\n\ndef fit(model, loader, optimizer):\n    for epoch" + loop + b"\n"
    head = b"from pathlib import Path\nfrom pkg.loop import fit\n"
    main = TRAIN.partition(b"    for epoch")[0].replace(b"lr=0.1", b"lr=float(Path('pkg/data/rate').read_text())")
    folder = distify.folder
    (folder / "pkg" / "data").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_bytes(b"")
    (folder / "pkg" / "data" / "rate").write_bytes(b"0.1")
    (folder / "pkg" / "loop.py").write_bytes(fit)
    end = b"    fit(model, loader, optimizer)\n\n\nif __name__ == '__main__':\n    main()\n"
    (folder / "train.py").write_bytes(head + main + end)
    assert distify("convert", "train.py", "--yes").code == 0
    assert (folder / "pkg" / "loop_dist.py").exists()
    ended = here("verify", "train.py")
    assert ended.code == 0, ended.out.decode() + ended.err
    assert "conversion train_dist.py, which is there already" in ended.out.decode()


@pytest.mark.parametrize("way", ["zip", "legacy", "pickle"])
def test_tensors_that_are_read_from_a_file(way: str, here: Here, script: Path) -> None:
    """They are float32 there; a parameter stays one that may be trained, and whole numbers stay whole."""
    start = torch.nn.Parameter(torch.full((1, 8), 0.5))
    kept = {"x": torch.arange(1024.0)[512:].reshape(64, 8) / 512, "y": torch.arange(64), "start": start}
    with open(script.with_name("kept.data"), "wb") as file:
        if way == "pickle":
            pickle.dump(kept, file)
        else:
            torch.save(kept, file, _use_new_zipfile_serialization=way == "zip")
    read = b"    kept = %s.load(open('kept.data', 'rb'))\n" % (b"pickle" if way == "pickle" else b"torch")
    read += b"    assert kept['start'].is_leaf and kept['x'][0, 0] == 1\n"
    read += b"    assert not kept['y'].is_floating_point()\n"
    text = TRAIN.replace(b"torch.randn(64, 8), torch.randn(64, 1)", b"kept['x'], kept['y'].float()[:, None] / 64")
    text = text.replace(b"    dataset =", read + b"    dataset =")
    text = text.replace(b"    optimizer =", b"    model.weight = kept['start']\n    optimizer =")
    script.write_bytes(b"import pickle\n" + text)
    ended = here("verify", "train.py")
    assert ended.code == 0, ended.out.decode() + ended.err
    assert ended.out.decode().splitlines()[-1] == "train.py: the same steps"


def test_events_that_are_named_by_time_and_process(here: Here, script: Path) -> None:
    name = b"f'events.out.tfevents.{time.time_ns() // 10**9}.here.{os.getpid()}.0'"
    kept = b"    open(" + name + b", 'w').close()\n    torch.save("
    script.write_bytes(b"import os\nimport time\n" + TRAIN.replace(b"    torch.save(", kept))
    ended = here("verify", "train.py")
    assert ended.code == 0, ended.out.decode() + ended.err
    assert "2, each of one rank" in ended.out.decode()


def test_a_script_that_cannot_be_converted(distify: CommandLine, script: Path) -> None:
    script.write_bytes(b"import torch_xla\n" + TRAIN)
    ended = distify("verify", "train.py")
    assert ended.code == 3
    assert "REFUSE03 TPU" in ended.err
    assert ended.err.endswith("train.py: 1 needs you; there is no conversion to verify\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere.py"], "distify: nowhere.py: there is no such file\n"),
        (["folder"], "distify: folder: is a folder\n"),
        (["binary.py"], "distify: binary.py: is a binary file (it holds NUL bytes)\n"),
        (["broken.py"], "distify: broken.py:1:"),
        (["train.py", "broken.py"], "distify: broken.py:1: is not Python: "),
        (["train.py", "train.py"], "distify: train.py: is not converted: it knows nothing of ranks"),
        (["ours.py"], "distify: ours.py: is converted already, and its original is not beside it: distify verify"),
        (["train.py", "-np", "1"], "Usage: distify verify"),
        (["train.py", "a.py", "b.py"], "Usage: distify verify"),
    ],
)
def test_bad_input(words: list[str], told: str, distify: CommandLine, script: Path) -> None:
    (script.parent / "folder").mkdir()
    script.with_name("binary.py").write_bytes(b"\x7fELF\0")
    script.with_name("broken.py").write_bytes(b"for x in\n")
    script.with_name("ours.py").write_bytes(b"import distify_runtime as rt\nrt.init_process_group()\n")
    ended = distify("verify", *words)
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith(told)
    assert "Traceback" not in ended.err
