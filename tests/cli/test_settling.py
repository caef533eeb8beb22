"""`--model`, `--train-loader`, `[tool.distify]` and `--why`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import TRAIN, CommandLine

DOUBT = TRAIN.replace(b"import torch\n", b"import torch\nimport strange\n", 1).replace(
    b"model.parameters()", b"strange.groups(model)"
)


@pytest.fixture
def doubt(distify: CommandLine) -> Path:
    path = distify.folder / "doubt.py"
    path.write_bytes(DOUBT)
    return path


def test_a_doubt_is_settled_on_the_command_line(distify: CommandLine, doubt: Path) -> None:
    ended = distify("convert", "doubt.py", "--yes", "--strategy", "sharded")
    assert ended.code == 3
    assert "--model model if it trains that" in ended.err
    ended = distify("check", "doubt.py")
    assert ended.code == 0
    assert b"--model model if it trains that" in ended.out
    ended = distify("convert", "doubt.py", "--yes", "--model", "model")
    assert ended.code == 0
    assert b"model = DistributedDataParallel(model" in (distify.folder / "doubt_dist.py").read_bytes()
    assert distify("check", "doubt.py", "--model", "doubt.py:model").code == 0
    assert distify("check", "doubt.py", "--model", "model", "--train-loader", "loader").code == 0


def test_a_wrong_name_is_one_line(distify: CommandLine, doubt: Path) -> None:
    for command in (("convert", "--yes"), ("check",)):
        ended = distify(*command, "doubt.py", "--train-loader", "loder")
        assert (ended.code, ended.out) == (2, b"")
        assert ended.err == (
            "distify: --train-loader loder: no DataLoader (those that are seen: `loader` (doubt.py:9)) is called "
            "`loder` in doubt.py\n"
        )


def test_a_wrong_comment_is_one_line(distify: CommandLine, doubt: Path) -> None:
    doubt.write_bytes(DOUBT.replace(b"# [bold]", b"# distify: [bold]"))
    ended = distify("convert", "doubt.py", "--yes")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err == (
        "distify: doubt.py:8:70: `# distify: [bold]` is not known; after `# distify:` comes one of skip, train-loader, "
        "not-a-model, rate-linear, rate-square-root, draw-alike\n"
    )


# ---- [tool.distify]


def configure(distify: CommandLine, text: str, folder: str = ".") -> None:
    (distify.folder / folder / "pyproject.toml").write_text(text)


@pytest.mark.parametrize("value", ['"model"', '["doubt.py:model"]'])
def test_a_configuration_settles(distify: CommandLine, doubt: Path, value: str) -> None:
    configure(distify, f"[tool.distify]\nbackend = 'ddp'\nmodel = {value}\n")
    assert distify("check", "doubt.py").code == 0
    assert distify("convert", "doubt.py", "--yes").code == 0


def test_it_is_found_above_the_script_and_the_nearest_counts(distify: CommandLine, doubt: Path) -> None:
    below = distify.folder / "below"
    below.mkdir()
    (below / "doubt.py").write_bytes(DOUBT)
    configure(distify, "[tool.distify]\nmodel = 'model'\n")
    assert distify("check", "below/doubt.py", "--strategy", "sharded").code == 0
    configure(distify, "[tool.other]\n", "below")
    assert distify("check", "below/doubt.py", "--strategy", "sharded").code == 3
    configure(distify, "[tool.distify]\nstrategy = 'sharded'\n", "below")
    assert distify("check", "below/doubt.py").code == 3
    assert distify("check", "below/doubt.py", "--strategy", "shared").code == 0


def test_the_command_line_wins(distify: CommandLine, doubt: Path) -> None:
    configure(distify, "[tool.distify]\nmodel = 'doubt.py:nothing'\n")
    assert distify("check", "doubt.py").code == 2
    assert distify("check", "doubt.py", "--model", "model").code == 0


def test_a_configuration_for_one_script_leaves_others_in_peace(distify: CommandLine, doubt: Path, script: Path) -> None:
    configure(distify, "[tool.distify]\nmodel = 'doubt.py:model'\n")
    ended = distify("check", ".")
    assert ended.code == 0
    assert b"train.py: convertible (" in ended.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.distify]\nmodels = 'net'\n", "[tool.distify] knows no `models`; it knows backend, model, "
         "scale, strategy, train-loader, warmup-epochs"),
        ("[tool.distify]\nstrategy = 'split'\n",
         "[tool.distify] strategy: 'split' is none of auto, sharded, shared"),
        ("[tool.distify]\nscale = 'big'\n", "[tool.distify] scale: 'big' is none of global, linear, none"),
        ("[tool.distify]\nwarmup-epochs = -1\n",
         "[tool.distify] warmup-epochs: a number of epochs is wanted, not -1"),
        ("[tool.distify]\nmodel = 3\n", "[tool.distify] model: a name or a list of names is wanted, not 3"),
        ("[tool.distify]\ntrain-loader = ['']\n",
         "[tool.distify] train-loader: a name or a list of names is wanted, not ['']"),
        ("[tool.distify]\nbackend = 'mpi'\n", "[tool.distify] backend: 'mpi' is none of ddp, allreduce, horovod"),
        ("[tool.distify]\nbackend = 1\n", "[tool.distify] backend: 1 is none of ddp, allreduce, horovod"),
        ("[tool]\ndistify = 1\n", "[tool.distify] is no table"),
        ("tool = \n", "is not TOML: Invalid value (at line 1, column 8)"),
    ],
)  # fmt: skip
def test_a_bad_configuration_is_one_line(distify: CommandLine, script: Path, text: str, says: str) -> None:
    configure(distify, text)
    for command in (("convert", "--yes"), ("check",)):
        ended = distify(*command, "train.py")
        assert (ended.code, ended.out) == (2, b"")
        assert ended.err == f"distify: pyproject.toml: {says}\n"


# ---- batch and learning rate


def test_a_configured_scale_and_the_command_line_above_it(distify: CommandLine, script: Path) -> None:
    configure(distify, "[tool.distify]\nscale = 'linear'\nwarmup-epochs = 2\n")
    assert b"rt.warm_up(range(2), epochs=2)" in distify("convert", "train.py", "--diff").out
    assert b"epochs=4)" in distify("convert", "train.py", "--diff", "--warmup-epochs", "4").out
    assert b"per_rank_batch_size" in distify("convert", "train.py", "--diff", "--scale", "global").out


def test_a_backend_is_chosen_on_the_command_line_or_configured(distify: CommandLine, script: Path) -> None:
    line = b"    rt.all_reduce_gradients(optimizer)\n"
    ended = distify("convert", "train.py", "--diff", "--backend", "allreduce")
    assert line in ended.out
    assert b"DistributedDataParallel" not in ended.out
    configure(distify, "[tool.distify]\nbackend = 'allreduce'\n")
    assert distify("convert", "train.py", "--diff").out == ended.out
    assert b"gradients are averaged over the ranks" in distify("check", "train.py").out
    assert line not in distify("convert", "train.py", "--diff", "--backend", "ddp").out
    assert b"`model` is trained by all ranks together" in distify("check", "train.py", "--backend", "ddp").out


def test_warm_up_without_a_scaled_rate(distify: CommandLine, script: Path) -> None:
    for command in (("convert", "--yes"), ("check",)):
        ended = distify(*command, "train.py", "--warmup-epochs", "2")
        assert (ended.code, ended.out) == (2, b"")
        assert ended.err == "distify: --warmup-epochs goes with --scale linear: else the learning rate stays as it is\n"


# ---- --why


def test_why_is_told_in_sentences(distify: CommandLine, script: Path) -> None:
    ended = distify("check", "--why", "train.py")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.decode().splitlines()
    assert lines[:4] == [
        "models (1)",
        "  train.py:9: `model` is a trained model: its parameters are given to `torch.optim.SGD` at train.py:10; a "
        "training loop calls it at train.py:14 (`model(x)`); it is wrapped after train.py:9, because all that is done "
        "to it before the first training step is done by here",
        "optimizers (1)",
        "  train.py:10: `optimizer` is an optimizer: `torch.optim.SGD` at train.py:10 is given the parameters of "
        "`model`; `optimizer.step()` at train.py:16 is a step of it",
    ]
    headings = [line for line in lines if not line.startswith(" ")]
    assert headings[2:-1] == ["loaders (1)", "loops over batches (1)", "backward passes (1)", "steps (1)", "saves (1)"]
    assert headings[-1].startswith("train.py: convertible (")


def test_why_of_several_stands_below_each(distify: CommandLine, script: Path, doubt: Path) -> None:
    ended = distify("check", "--why", "--strategy", "sharded", "train.py", "doubt.py")
    lines = [line for line in ended.out.decode().splitlines() if not line.startswith("  ")]
    assert lines[0].startswith("train.py: convertible (")
    assert lines[1] == "models (1)"
    assert lines[8].startswith("doubt.py: needs you (")
    assert lines[9] == "optimizers (1)"


def test_why_in_json(distify: CommandLine, script: Path) -> None:
    [plain] = json.loads(distify("check", "--json", "train.py").out)
    assert plain["why"] == []
    ended = distify("check", "--json", "--why", "train.py")
    assert (ended.code, ended.err) == (0, "")
    [report] = json.loads(ended.out)
    assert report["why"][0] == {
        "role": "model",
        "name": "model",
        "what": "a trained model",
        "path": "train.py",
        "line": 9,
        "because": [
            {"text": "its parameters are given to `torch.optim.SGD` at train.py:10", "path": "train.py", "line": 10},
            {"text": "a training loop calls it at train.py:14 (`model(x)`)", "path": "train.py", "line": 14},
            {"text": "it is wrapped after train.py:9, because all that is done to it before the first training step is "
             "done by here", "path": "train.py", "line": 9},
        ],
    }  # fmt: skip
    assert [one["role"] for one in report["why"]] == [
        "model", "optimizer", "loader", "loop", "backward", "step", "save"
    ]  # fmt: skip
