"""OUT05: rank 0 keeps the experiment's log; the others get something that takes every call."""

from __future__ import annotations

import ast

import pytest
from distify_codemods import Options

from tests.rules.scripts import IMPORTS, blocked, changes, converted, distributed, line_of, script

TOOLS = (
    "import importlib\nimport os\nimport mlflow\nimport tensorboardX\nimport visdom\nimport wandb\n"
    f"from torch.utils.tensorboard import SummaryWriter\n{IMPORTS}"
)
ON_MAIN = "if rt.is_main_process():\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("writer = SummaryWriter()\n", "writer = rt.main_process_only(SummaryWriter)()\n"),
        ('writer = tensorboardX.SummaryWriter("a")\n',
         'writer = rt.main_process_only(tensorboardX.SummaryWriter)("a")\n'),
        ('with SummaryWriter("a") as writer:\n    writer.add_scalar("a", 1)\n',
         'with rt.main_process_only(SummaryWriter)("a") as writer:\n    writer.add_scalar("a", 1)\n'),
        ('tools = {"log": SummaryWriter("a")}\ntools["log"].add_scalar("a", 1)\n',
         'tools = {"log": rt.main_process_only(SummaryWriter)("a")}\ntools["log"].add_scalar("a", 1)\n'),
        ('writer = SummaryWriter()\npath = os.path.join(writer.log_dir, "a")\n',
         'writer = rt.main_process_only(SummaryWriter, share=("log_dir",))()\n'
         'path = os.path.join(writer.log_dir, "a")\n'),
        ("writer = SummaryWriter()\nfolders = writer.log_dir, writer.get_logdir()\n",
         'writer = rt.main_process_only(SummaryWriter, share=("log_dir", "get_logdir"))()\n'
         "folders = writer.log_dir, writer.get_logdir()\n"),
        ('name = "tensorboardX"\nwriter = importlib.import_module(name).SummaryWriter("a")\n',
         'rt.seed_ranks_alike()\nname = "tensorboardX"\n'  # an import may draw
         'writer = rt.main_process_only(importlib.import_module(name).SummaryWriter)("a")\n'),
        ("class Own(SummaryWriter):\n    pass\n\n\nwriter = Own()\n",
         "class Own(SummaryWriter):\n    pass\n\n\nwriter = rt.main_process_only(Own)()\n"),
        ("view = visdom.Visdom()\nview.line([1])\n", "view = rt.main_process_only(visdom.Visdom)()\nview.line([1])\n"),
        ('wandb.init(project="a")\nwandb.log({})\n',
         'wandb.init(project="a", mode=None if rt.is_main_process() else "disabled")\nwandb.log({})\n'),
        ('run = wandb.init(mode="offline")\n',
         'run = wandb.init(mode="offline" if rt.is_main_process() else "disabled")\n'),
        ('options = dict(os.environ)\nrun = wandb.init(name="a", **options)\n',
         'options = dict(os.environ)\nrun = wandb.init(name="a", **{**options, '
         '**({} if rt.is_main_process() else {"mode": "disabled"})})\n'),
        ("run = wandb.init()\nfolder = os.path.join(run.dir, wandb.run.name)\n",
         'run = wandb.init(mode=None if rt.is_main_process() else "disabled")\n'
         "folder = os.path.join(rt.from_main_process(run.dir), rt.from_main_process(wandb.run.name))\n"),
        ("import tensorflow as tf\nlog = tf.summary.create_file_writer('a')\n",
         "import tensorflow as tf\nlog = rt.main_process_only(tf.summary.create_file_writer)('a')\n"),
        ('wandb.init("team", "project")\n',
         'wandb.init("team", "project", mode=None if rt.is_main_process() else "disabled")\n'),
        ("wandb.init(mode=None)\n", 'wandb.init(mode=None if rt.is_main_process() else "disabled")\n'),
        ("import swanlab\nswanlab.init('p', 'w', 'e', 'd', 'j', 'g', [], {}, 'l', 'cloud')\n",
         "import swanlab\nswanlab.init('p', 'w', 'e', 'd', 'j', 'g', [], {}, 'l', "
         "'cloud' if rt.is_main_process() else \"disabled\")\n"),
        ("wandb.login()\n", f"{ON_MAIN}    wandb.login()\n"),
    ],
)  # fmt: skip
def test_rank_zero_logs(before: str, after: str) -> None:
    assert converted(script(imports=TOOLS, after=before)) == distributed(imports=TOOLS, after=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('mlflow.log_param("a", 1)\nmlflow.log_metric("b", 2)\n',
         f'{ON_MAIN}    mlflow.log_param("a", 1)\n    mlflow.log_metric("b", 2)\n'),
        ('with mlflow.start_run():\n    mlflow.log_metric("b", 2)\n',
         f'with rt.main_process_only(mlflow.start_run)():\n    {ON_MAIN}        mlflow.log_metric("b", 2)\n'),
    ],
)  # fmt: skip
def test_rank_zero_logs_with_what_draws_from_the_streams_of_the_script(before: str, after: str) -> None:
    """MLflow makes up the names of runs with Python's `random`, and waits a random while where a server is away."""
    expected = distributed(imports=TOOLS, group='rt.init_process_group(own_random=["mlflow"])\n', after=after)
    assert converted(script(imports=TOOLS, after=before)) == expected


def test_writer_made_where_it_can_be_imported_and_kept_in_a_helper() -> None:
    """As helper classes do that pass on whatever they are asked for."""
    setup = """class Log:
    def __init__(self, folder):
        self.writer = None
        for name in ["torch.utils.tensorboard", "tensorboardX"]:
            try:
                self.writer = importlib.import_module(name).SummaryWriter(folder)
                break
            except ImportError:
                pass

    def __getattr__(self, name):
        return getattr(self.writer, name)


log = Log("runs")
"""
    after = 'log.add_scalar("a", 1)\n'
    made = "importlib.import_module(name).SummaryWriter"
    new = converted(script(imports=TOOLS, setup=setup, after=after))
    assert f"self.writer = rt.main_process_only({made})(folder)\n" in new
    assert new.endswith(f"optimizer.step()\n{after}")


def test_graph_of_the_model_inside_the_wrap() -> None:
    """The wrap's forward pass would wait for the other ranks."""
    after = "writer = SummaryWriter()\nwriter.add_graph(model, x)\n"
    assert converted(script(imports=TOOLS, after=after)).endswith("writer.add_graph(model.module, x)\n")


@pytest.mark.parametrize(
    ("after", "part"),
    [
        ("wandb.agent('a', print)\n", "wandb.agent("),
    ],
)
def test_left_to_a_person(after: str, part: str) -> None:
    before = script(imports=TOOLS, after=after)
    assert ("OUT05", line_of(before, part)) in blocked(before)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("class SummaryWriter:\n    pass\n\n\nwriter = SummaryWriter()\n", id="own class"),
        pytest.param("def never():\n    return SummaryWriter()\n", id="never called"),
    ],
)
def test_left_alone(after: str) -> None:
    assert changes("OUT05", script(imports=TOOLS, after=after)) == []


@pytest.mark.parametrize(("quote", "inner"), [('"', "'info'"), ("'", '"info"'), ('"""', '"info"')])
def test_in_an_f_string_strings_have_other_quotes(quote: str, inner: str) -> None:
    """Python before 3.12 cannot read them otherwise."""
    line = f"print(f{quote}run {{mlflow.active_run().info.run_id}}{quote})"
    text = converted(script(imports=f"import mlflow\n{IMPORTS}", setup=f"mlflow.start_run()\n{line}\n"), Options())
    assert f"share=({inner},)" in text
    ast.parse(text, feature_version=(3, 11))
