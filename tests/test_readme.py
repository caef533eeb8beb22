"""What the README shows is what the program prints."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import click
import pytest
from distify_codemods import SourceFile, convert
from distify_codemods.rules import RULES

from distify.checklist import checklist, summary
from distify.cli import COMMANDS, cli
from distify.diff import unified
from distify.errors import ExitCode

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCRIPT = ROOT / "fixtures" / "argparse_main" / "train.py"


#: Goes on with a file that an earlier run has begun.
HISTORY = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    dataset = TensorDataset(torch.randn(640, 8), torch.randn(640, 1))
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    history = open("history.txt", "r+")
    print("best so far", history.readline())
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    history.write(f"{loss.item()}\\n")


main()
"""


def command(name: str) -> click.Command:
    assert isinstance(cli, click.Group)
    found = cli.resolve_command(cli.make_context("distify", [name], resilient_parsing=True), [name])[1]
    assert found is not None
    return found


def options(name: str) -> set[str]:
    return {word for one in command(name).params for word in (*one.opts, *one.secondary_opts)} | {"-h", "--help"}


def test_the_diff_is_that_of_the_conversion() -> None:
    converted = convert(SourceFile("train.py", SCRIPT.read_bytes()), lambda importing, name, level: None).files[0]
    printed = unified(converted).decode()
    [shown] = re.findall(r"```diff\n(.*?)```", README, re.DOTALL)
    for hunk in re.split(r"^(?=@@ )", shown, flags=re.MULTILINE)[1:]:
        assert hunk.rstrip() in printed, "".join(difflib.unified_diff(hunk.splitlines(True), printed.splitlines(True)))
    before, after = converted.before.decode().splitlines(), converted.after.decode().splitlines()
    changed = [line[:1] for line in difflib.unified_diff(before, after, n=0) if line[:3] not in ("---", "+++")]
    counted = f"{len(before)} lines\nwith a command line"
    assert counted in README
    given = re.search(r"(\d+) lines give way to (\d+)", README)
    assert given is not None
    assert given.groups() == (str(changed.count("-")), str(changed.count("+")))


def shown_commands() -> list[tuple[str, str]]:
    """The command lines of distify in the README: the command, and what follows it."""
    lines = re.findall(r"(?:^|[`$ ])distify (\w+)((?: +[^`\n|]*)?)", README, re.MULTILINE)
    return [(name, rest) for name, rest in lines if name in COMMANDS]


def test_each_option_that_is_shown_is_one() -> None:
    assert len(shown_commands()) > 20
    for name, rest in shown_commands():
        own = rest.split(" -- ")[0]
        if name == "run":  # what follows the script is the script's
            own = re.split(r"\w+\.py|-m ", own)[0]
        for option in re.findall(r"(?<=\s)--?[a-z][\w-]*", own):
            assert option in options(name), f"distify {name} {rest}"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_no_option_that_is_none(name: str) -> None:
    text = command(name).help or ""
    known = set().union(*map(options, COMMANDS))
    for option in re.findall(r"(?<=[\s(])--[a-z][\w-]*", text):
        assert option in known or option in ("--epochs", "--batch-size"), text


def test_each_rule_has_its_line_in_the_table() -> None:
    table = README[README.index("## What is converted") :]
    for rule in RULES:
        assert rule.code in table, rule.code


def test_exit_codes_are_those_of_the_program() -> None:
    table = README[README.index("## Exit codes") : README.index("## More")]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert codes == set(ExitCode) - {ExitCode.BROKEN_PIPE}


def test_the_checklist_is_that_of_the_program() -> None:
    converted = convert(SourceFile("history.py", HISTORY.encode()), lambda importing, name, level: None)
    lines = ["".join(part for part, _ in line) for line in checklist(converted.findings, verbose=False)]
    printed = [*lines, f"{summary(converted.findings)}; nothing was written"]
    [shown] = re.findall(r"```\n\$ distify convert history\.py\n…\n(.*?)```", README, re.DOTALL)
    assert shown.splitlines()[:-1] == printed[-6:-1]
    assert shown.splitlines()[-1].startswith(printed[-1])
