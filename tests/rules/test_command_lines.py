"""Functions that a library calls with what somebody types: each parameter is an option, whatever its default is."""

from __future__ import annotations

import pytest

from tests.rules.scripts import GROUP, IMPORTS, WRAP, blocked, converted, indented

BODY = indented(
    """\
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
criterion = nn.MSELoss(reduction="sum" if total else "mean")
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for epoch in range(3):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)
GUARD = "\nif __name__ == '__main__':\n    {call}\n"


def written(
    library: str, call: str, decorators: str = "", signature: str = "lr: float = 0.1, total: bool = False"
) -> str:
    return f"{IMPORTS}{library}\n\n{decorators}def train({signature}):\n{BODY}{GUARD.format(call=call)}"


GROUP_OF_CLICK = "@click.group()\ndef cli():\n    pass\n"
CLICK = "@click.command()\n@click.option('--lr', default=0.1)\n@click.option('--total', is_flag=True)\n"
CALLED = {
    "fire": ("import fire", "fire.Fire(train)", ""),
    "fire of a table": ("import fire", "fire.Fire({'train': train})", ""),
    "fire of the file": ("import fire", "fire.Fire()", ""),
    "typer": ("import typer", "typer.run(train)", ""),
    "tyro": ("import tyro", "tyro.cli(train)", ""),
    "jsonargparse": ("from jsonargparse import CLI", "CLI(train)", ""),
    "click": ("import click", "train()", CLICK),
    "click by its method": ("import click", "train.main(standalone_mode=False)", CLICK),
    "a typer app": ("import typer\napp = typer.Typer()", "app()", "@app.command()\n"),
    "an app in an app": (
        "import typer\nmain = typer.Typer()\napp = typer.Typer()\nmain.add_typer(app, name='more')", "main()",
        "@app.command()\n",
    ),
    "a click group": (f"import click\n{GROUP_OF_CLICK}", "cli()", f"@cli.command()\n{CLICK[17:]}"),
    "a click group that is told": (f"import click\n{GROUP_OF_CLICK}", "cli.add_command(train); cli()",
                                   CLICK),
    "sacred": ("from sacred import Experiment\nex = Experiment()", "ex.run_commandline()", "@ex.main\n"),
}  # fmt: skip


@pytest.mark.parametrize("how", CALLED)
def test_what_a_command_line_decides_is_not_known(how: str) -> None:
    """A loss that `--total` makes a sum is no mean: a default says nothing of what will be typed."""
    library, call, decorators = CALLED[how]
    new = converted(written(library, call, decorators))
    assert GROUP in new
    assert WRAP in new
    plain = converted(written(library, call, decorators).replace('"sum" if total else "mean"', '"mean"'))
    assert new != plain.replace('"mean"', '"sum" if total else "mean"')  # the loss is scaled where it has to be


@pytest.mark.parametrize("how", CALLED)
def test_an_option_that_decides_nothing_changes_nothing(how: str) -> None:
    library, call, decorators = CALLED[how]
    new = converted(written(library, call, decorators).replace('"sum" if total else "mean"', '"mean"'))
    assert "    loss.backward()\n" in new
    assert "all_reduce" not in new


METHODS = f"""{IMPORTS}import fire
class Trainer:
    def __init__(self, total=False):
        self.total = total
    def train(self, lr=0.1):
        total = self.total
{indented(BODY)}    def _never(self):
        unknown_to_all()
"""


@pytest.mark.parametrize("component", ["Trainer", "Trainer()", "{'trainer': Trainer}"])
def test_methods_of_what_fire_is_given(component: str) -> None:
    new = converted(METHODS + GUARD.format(call=f"fire.Fire({component})"))
    assert WRAP in new


CONFIG = """
from dataclasses import dataclass
@dataclass
class Rate:
    lr: float = 0.1
@dataclass
class Config:
    rate: Rate
    total: bool = False
    def main(self):
        train(self.rate.lr, self.total)
"""


@pytest.mark.parametrize("parse", ["tyro.cli(Config)", "simple_parsing.parse(Config)"])
def test_methods_of_the_configuration_that_was_typed(parse: str) -> None:
    library = f"import {parse.partition('.')[0]}{CONFIG}"
    new = converted(written(library, f"{parse}.main()", signature="lr, total"))
    assert WRAP in new


@pytest.mark.parametrize(
    ("library", "call", "decorators"),
    [
        ("import typer\napp = typer.Typer()", "pass", "@app.command()\n"),
        (f"import click\n{GROUP_OF_CLICK}", "pass", f"@cli.command()\n{CLICK[17:]}"),
        ("from sacred import Experiment\nex = Experiment()", "pass", "@ex.main\n"),
        ("from elsewhere import app", "app()", ""),
    ],
)
def test_what_nobody_runs_does_not_train(library: str, call: str, decorators: str) -> None:
    assert blocked(written(library, call, decorators)) == {("REFUSE02", 1)}


def test_a_command_that_typer_gave_back_is_called_with_what_is_given() -> None:
    """`@app.command()` leaves the function what it is: a call of it in the script takes the defaults."""
    library, decorators = "import typer\napp = typer.Typer()", "@app.command()\n"
    new = converted(written(library, "train()", decorators))
    assert "all_reduce" not in new
    assert "    loss.backward()\n" in new


def test_a_callback_keeps_its_defaults() -> None:
    """What is handed to any other library is called with what that has, and its defaults hold."""
    library = "from elsewhere import call_it"
    new = converted(written(library, "call_it(train)"))
    assert "    loss.backward()\n" in new
