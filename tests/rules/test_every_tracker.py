"""Every experiment tracker: rank 0 alone has it, what it logs is of all ranks, and the checklist says so."""

from __future__ import annotations

import re

import pytest
from distify_codemods import Level, Outcome
from distify_codemods.libraries.registry import TRACKERS, functions

from tests.rules.scripts import GROUP, IMPORTS, changes, conversion_of, converted, distributed, findings, script

LOOP = """\
for epoch in range(3):
    {epochs}for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {log}
"""
ONLY = "rt.main_process_only"
ON_MAIN = "if rt.is_main_process():\n    "
QUIET = 'None if rt.is_main_process() else "disabled"'

#: What is imported; how it is made, before and after; what logs a figure.
LIBRARIES = {
    "aim": ("import aim", 'run = aim.Run(experiment="a")', f'run = {ONLY}(aim.Run)(experiment="a")',
            'run.track({}, name="loss", step=epoch)'),
    "clearml": ("from clearml import Task", 'log = Task.init(project_name="a").get_logger()',
                f'log = {ONLY}(Task.init)(project_name="a").get_logger()',
                'log.report_scalar("loss", "train", value={}, iteration=epoch)'),
    "codecarbon": ("from codecarbon import EmissionsTracker", "run = EmissionsTracker()",
                   f"run = {ONLY}(EmissionsTracker)()", "run.start_task(str({}))"),
    "comet_ml": ("from comet_ml import Experiment", 'run = Experiment(project_name="a")',
                 f'run = {ONLY}(Experiment)(project_name="a")', 'run.log_metric("loss", {}, step=epoch)'),
    "dvclive": ("from dvclive import Live", 'live = Live("a")', f'live = {ONLY}(Live)("a")',
                'live.log_metric("loss", {})'),
    "lightning": ("from lightning.pytorch.loggers import CSVLogger", 'log = CSVLogger("a")',
                  f'log = {ONLY}(CSVLogger)("a")', 'log.log_metrics({{"loss": {}}}, step=epoch)'),
    "lightning_fabric": ("from lightning_fabric.loggers import TensorBoardLogger", 'log = TensorBoardLogger("a")',
                         f'log = {ONLY}(TensorBoardLogger)("a")', 'log.experiment.add_scalar("loss", {}, epoch)'),
    "mlflow": ("import mlflow", "mlflow.start_run()", f"{ON_MAIN}mlflow.start_run()",
               'mlflow.log_metric("loss", {})'),
    "neptune": ("import neptune", 'run = neptune.init_run(project="a")', f'run = {ONLY}(neptune.init_run)(project="a")',
                'run["train/loss"].append({})'),
    "neptune_pytorch": ("from neptune_pytorch import NeptuneLogger", "log = NeptuneLogger()",
                        f"log = {ONLY}(NeptuneLogger)()", "log.log_metrics({})"),
    "neptune_scale": ("from neptune_scale import Run", 'run = Run(project="a")', f'run = {ONLY}(Run)(project="a")',
                      'run.log_metrics(data={{"loss": {}}}, step=epoch)'),
    "pytorch_lightning": ("from pytorch_lightning.loggers import WandbLogger", 'log = WandbLogger(project="a")',
                          f'log = {ONLY}(WandbLogger)(project="a")', 'log.log_metrics({{"loss": {}}}, epoch)'),
    "sacred": ("from sacred import Experiment\nfrom sacred.observers import FileStorageObserver",
               'ex = Experiment("a")\nex.observers.append(FileStorageObserver("runs"))',
               f'ex = Experiment("a")\n{ON_MAIN}ex.observers.append(FileStorageObserver("runs"))',
               'ex.log_scalar("loss", {}, epoch)'),
    "swanlab": ("import swanlab", 'swanlab.init(project="a")', f'swanlab.init(project="a", mode={QUIET})',
                'swanlab.log({{"loss": {}}})'),
    "tensorboard": ("from tensorboard import program", "view = program.TensorBoard()",
                    f"view = {ONLY}(program.TensorBoard)()", "view.configure(value={})"),
    "tensorboardX": ("import tensorboardX", "log = tensorboardX.SummaryWriter()",
                     f"log = {ONLY}(tensorboardX.SummaryWriter)()", 'log.add_scalar("loss", {}, epoch)'),
    "tensorboard_logger": ("from tensorboard_logger import Logger", 'log = Logger("a")', f'log = {ONLY}(Logger)("a")',
                           'log.log_value("loss", {}, epoch)'),
    "tensorflow": ("import tensorflow as tf", 'log = tf.compat.v1.summary.FileWriter("a")',
                   f'log = {ONLY}(tf.compat.v1.summary.FileWriter)("a")', "log.add_summary({}, epoch)"),
    "torch": ("from torch.utils.tensorboard import SummaryWriter", "log = SummaryWriter()",
              f"log = {ONLY}(SummaryWriter)()", 'log.add_scalar("loss", {}, epoch)'),
    "torch_geometric": ("from torch_geometric.logging import log", 'log(Start="now")', f'{ON_MAIN}log(Start="now")',
                        "log(Loss={})"),
    "trackio": ("import trackio", 'run = trackio.init(project="a")', f'run = {ONLY}(trackio.init)(project="a")',
                'run.log({{"loss": {}}})'),
    "visdom": ("import visdom", "view = visdom.Visdom()", f"view = {ONLY}(visdom.Visdom)()",
               'view.line([{}], win="loss")'),
    "wandb": ("import wandb", 'wandb.init(project="a")', f'wandb.init(project="a", mode={QUIET})',
              'wandb.log({{"loss": {}}})'),
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
def test_rank_zero_has_it_and_what_it_logs_is_of_all_ranks(library: str) -> None:
    imports, made, alone, log = LIBRARIES[library]
    called = log.partition("(")[0] if log.startswith(("mlflow.", "log(")) else ""
    logged = f"{ONLY}({called}){log[len(called) :]}" if called else log
    before = script(
        imports=f"{imports}\n{IMPORTS}", setup=f"{made}\n", loop=LOOP.format(epochs="", log=log.format("loss.item()"))
    )
    after = distributed(
        imports=f"{imports}\n{IMPORTS}", setup=f"{alone}\n",
        loop=LOOP.format(epochs="loader.sampler.set_epoch(epoch)\n    ",
                         log=logged.format("rt.all_reduce_mean(loss.item())")),
    )  # fmt: skip
    assert without_group(converted(before)) == without_group(after)
    assert findings("OUT05", before, Level.APPLIED)
    assert findings("METRIC01", before, Level.APPLIED)
    assert not [one for one in conversion_of(before).of(Level.ADVICE) if "not known" in one.message]


def without_group(text: str) -> str:
    """It is made before the first who may meet in it: in some of these, above the run."""
    return re.sub(r"rt\.(init_process_group\(.*|seed_ranks_apart\(\))\n", "", text)


def test_each_tracker_that_is_known_stands_above() -> None:
    assert {name.partition(".")[0] for name in functions(*TRACKERS)} == set(LIBRARIES)


OWN = """\
class Own:
    def __init__(self, *given, **more):
        self.kept = []

    def __getattr__(self, name):
        return self

    def __getitem__(self, name):
        return self

    def __call__(self, *given, **more):
        return self


"""


@pytest.mark.parametrize("library", LIBRARIES)
def test_objects_of_the_scripts_own_with_these_methods_are_left_alone(library: str) -> None:
    log = LIBRARIES[library][-1]
    name = re.split(r"\W", log)[0]
    before = script(setup=f"{OWN}{name} = Own()\n", loop=LOOP.format(epochs="", log=log.format("loss.item()")))
    assert changes("OUT05", before) == []


@pytest.mark.parametrize(
    ("imports", "made", "path"),
    [
        ("import aim", "run = aim.Run()", "aim.py"),
        ("from clearml import Task", "run = Task.init()", "clearml.py"),
        ("from neptune import Run", "run = Run()", "neptune/__init__.py"),
        ("from lightning.pytorch.loggers import Run", "run = Run()", "lightning/pytorch/loggers.py"),
        ("import swanlab", 'swanlab.init(project="a")', "swanlab.py"),
        ("import mlflow", "mlflow.start_run()", "mlflow/__init__.py"),
        ("import wandb", 'wandb.init(project="a")', "wandb.py"),
    ],
)
def test_files_of_the_project_by_a_librarys_name_are_left_alone(imports: str, made: str, path: str) -> None:
    files = {path: f"{OWN}Run = Own\nTask = init = start_run = Own()\n"}
    files |= {f"{folder}/__init__.py": "" for folder in ("lightning", "lightning/pytorch") if folder in path}
    conversion = conversion_of(script(imports=f"{imports}\n{IMPORTS}", setup=f"{made}\n"), files=files)
    assert conversion.outcome is Outcome.CONVERTED
    assert not [one for file in conversion.files for one in file.changes if one.code == "OUT05"]


@pytest.mark.parametrize(
    ("imports", "before", "after"),
    [
        ("from clearml import Task", 'task = Task.init()\nargs = task.connect({"a": 1})\ntask.connect(args)\n',
         f'task = {ONLY}(Task.init)()\nargs = rt.from_main_process(task.connect({{"a": 1}}))\ntask.connect(args)\n'),
        ("from clearml import Task", "task = Task.init()\nname = task.id\n",
         f'task = {ONLY}(Task.init, share=("id",))()\nname = task.id\n'),
        ("from codecarbon import EmissionsTracker",
         "run = EmissionsTracker()\nrun.start()\nweight = run.stop() * 1000\n",
         f"run = {ONLY}(EmissionsTracker)()\nrun.start()\nweight = rt.from_main_process(run.stop()) * 1000\n"),
        ("import mlflow", "with mlflow.start_run() as run:\n    name = run.info.run_id\n",
         f'with {ONLY}(mlflow.start_run, share=("info",))() as run:\n    name = run.info.run_id\n'),
        ("from dvclive import Live", "live = Live()\nlive.next_step()\nstep = live.step\nlive.step = 3\n",
         f"live = {ONLY}(Live)()\nlive.next_step()\nstep = rt.from_main_process(live.step)\nlive.step = 3\n"),
        ("import swanlab", "run = swanlab.init(mode='local')\nname, rate = run.id, swanlab.config.lr\n",
         "run = swanlab.init(mode='local' if rt.is_main_process() else \"disabled\")\n"
         "name, rate = rt.from_main_process(run.id), swanlab.config.lr\n"),
        ("import neptune", 'run = neptune.init_run()\nname = run["sys/id"].fetch()\n',
         f'run = {ONLY}(neptune.init_run)()\nname = rt.from_main_process(run["sys/id"].fetch())\n'),
        ("from lightning.pytorch.loggers import CSVLogger", 'log = CSVLogger("a")\nfolder = log.log_dir\n',
         f'log = {ONLY}(CSVLogger, share=("log_dir",))("a")\nfolder = log.log_dir\n'),
        ("import swanlab", "swanlab.login()\n", f"{ON_MAIN}swanlab.login()\n"),
        ("import wandb", "run = wandb.init()\nname = run.config.name\n",
         f"run = wandb.init(mode={QUIET})\nname = run.config.name\n"),
    ],
)  # fmt: skip
def test_what_the_script_uses_of_a_tracker_is_told_by_rank_zero(imports: str, before: str, after: str) -> None:
    given = f"{imports}\n{IMPORTS}"
    group = 'rt.init_process_group(own_random=["mlflow"])\n' if "mlflow" in imports else GROUP
    assert converted(script(imports=given, after=before)) == distributed(imports=given, group=group, after=after)


@pytest.mark.parametrize(
    ("imports", "setup", "told"),
    [
        ("from codecarbon import track_emissions", "@track_emissions()\ndef train():\n    pass\n\n\n", "measures"),
        ("import mlflow", '@mlflow.trace(name="a")\ndef train():\n    pass\n\n\n', "what this decorates"),
    ],
)
def test_what_a_tracker_decorates_runs_on_every_rank(imports: str, setup: str, told: str) -> None:
    """A function that rank 0 alone had would be a training that the others never begin."""
    before = script(imports=f"{imports}\n{IMPORTS}", setup=setup, after="train()\n")
    assert setup in converted(before)
    assert any(told in one.message for one in findings("OUT05", before, Level.ADVICE))


@pytest.mark.parametrize("library", ["wandb", "swanlab"])
def test_a_run_that_is_not_seen_to_be_made_is_told(library: str) -> None:
    before = script(imports=f"import {library}\n{IMPORTS}", after=f'{library}.log({{"done": 1}})\n')
    assert changes("OUT05", before) == []
    assert [one.message for one in findings("OUT05", before, Level.ADVICE)] == [
        "the run is made out of sight: each rank logs to one"
    ]
    assert not findings("OUT05", before, Level.NOT_NEEDED)


SYNCED = "import swanlab\nimport wandb"
QUIET_WANDB = f"wandb.init(mode={QUIET})\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('wandb.init()\nwandb.log({"a": 1})\nswanlab.log({"b": 1})\n',
                     f'{QUIET_WANDB}wandb.log({{"a": 1}})\n{ON_MAIN}swanlab.log({{"b": 1}})\n', id="a report"),
        pytest.param('wandb.init()\nrun = swanlab.get_run()\nrun.log({"b": 1})\n',
                     f'{QUIET_WANDB}run = {ONLY}(swanlab.get_run)()\nrun.log({{"b": 1}})\n', id="the run itself"),
        pytest.param('wandb.init()\nname = swanlab.get_run().id\n',
                     f"{QUIET_WANDB}name = rt.from_main_process({ONLY}(swanlab.get_run)().id)\n", id="its name"),
        pytest.param('wandb.init()\nswanlab.log({"b": swanlab.Text("c")})\n',
                     f'{QUIET_WANDB}{ONLY}(swanlab.log)({{"b": {ONLY}(swanlab.Text)("c")}})\n', id="what is reported"),
        pytest.param('wandb.init()\nif epoch > 2:\n    swanlab.init()\nswanlab.log({"b": 1})\n',
                     f'{QUIET_WANDB}if epoch > 2:\n    swanlab.init(mode={QUIET})\n{ON_MAIN}swanlab.log({{"b": 1}})\n',
                     id="a run that may be made"),
        pytest.param('swanlab.init()\nwandb.init()\nswanlab.log({"b": 1})\n',
                     f'swanlab.init(mode={QUIET})\n{QUIET_WANDB}swanlab.log({{"b": 1}})\n', id="a run of its own"),
        pytest.param('wandb.init()\nwandb.log({"a": 1})\n', f'{QUIET_WANDB}wandb.log({{"a": 1}})\n', id="no report"),
    ],
)  # fmt: skip
def test_what_reports_to_a_run_that_rank_zero_alone_has_begun_is_rank_zeros(before: str, after: str) -> None:
    """`wandb.init` begins swanlab's run only where it is told to, and that is rank 0: the others have none at all."""
    given = f"{SYNCED}\n{IMPORTS}"
    began, alone = "swanlab.sync_wandb()\n", f"{ON_MAIN}swanlab.sync_wandb()\n"
    expected = distributed(imports=given, after=f"{alone}{after}")
    assert converted(script(imports=given, after=f"{began}{before}")) == expected


def test_reports_to_a_run_that_each_rank_makes_are_left_alone() -> None:
    before = script(imports=f"{SYNCED}\n{IMPORTS}", after='swanlab.login()\nswanlab.init()\nswanlab.log({"b": 1})\n')
    assert f'swanlab.init(mode={QUIET})\nswanlab.log({{"b": 1}})\n' in converted(before)


@pytest.mark.parametrize("made", ["Optimizer({})", 'Optimizer(config={"algorithm": "bayes"})'])
def test_what_starts_runs_of_its_own_is_left_to_a_person(made: str) -> None:
    conversion = conversion_of(script(imports=f"from comet_ml import Optimizer\n{IMPORTS}", after=f"{made}\n"))
    assert conversion.outcome is Outcome.REFUSED
    assert [one.code for one in conversion.of(Level.BLOCKING)] == ["OUT05"]


@pytest.mark.parametrize(
    ("imports", "made", "sends"),
    [
        ("from lightning.pytorch.loggers import CSVLogger", 'log = CSVLogger("a")', False),
        ("from pytorch_lightning.loggers.wandb import WandbLogger", "log = WandbLogger()", True),
        ("import aim", "run = aim.Run()", True),
        ("from torch.utils.tensorboard import SummaryWriter", "log = SummaryWriter()", False),
        ("import swanlab", "swanlab.init()", True),
    ],
)
def test_the_checklist_says_who_may_send_something(imports: str, made: str, sends: bool) -> None:
    told = findings("NET01", script(imports=f"{imports}\n{IMPORTS}", setup=f"{made}\n"), Level.NOT_NEEDED)
    assert [one.message.endswith("but by what OUT05 names") for one in told] == [sends]
