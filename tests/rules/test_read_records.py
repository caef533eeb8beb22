"""Figures that are put into what was read of a file: into which other file that goes is not seen."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, converted, script

LOOP = """\
{before}for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {line}
"""
READ = 'history = json.load(open("history.json"))\n'
MEAN = "rt.all_reduce_mean(loss.item())"


def after(line: str, before: str = READ) -> str:
    loop = LOOP.format(before=before, line=line.replace("\n", "\n    "))
    return converted(script(imports=f"import json\nimport yaml\n{IMPORTS}", loop=loop))


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('history["loss"] = loss.item()', f'history["loss"] = {MEAN}'),
        ('history["loss"].append(loss.item())', f'history["loss"].append({MEAN})'),
        ('history.setdefault("loss", []).append(loss.item())', f'history.setdefault("loss", []).append({MEAN})'),
        ("history.update(loss=loss.item())", f"history.update(loss={MEAN})"),
        ('history["runs"]["loss"] = loss.item()', f'history["runs"]["loss"] = {MEAN}'),
        ('state = torch.load("a.pt")\nstate["last"] = loss.item()', f'state["last"] = {MEAN}'),
        ('state = yaml.safe_load(open("a.yml"))\nstate["last"] = loss.item()', f'state["last"] = {MEAN}'),
    ],
)
def test_what_is_kept_is_of_all_ranks(line: str, kept: str) -> None:
    assert kept in after(line)


def test_also_in_a_helper_whose_answer_is_used() -> None:
    helper = """\
def noted(value):
    state = json.load(open("a.json"))
    state.setdefault("loss", []).append(value)
    json.dump(state, open("a.json", "w"))
    return len(state["loss"])


"""
    assert 'state.setdefault("loss", []).append(rt.all_reduce_mean(value))' in after("n = noted(loss.item())", helper)


@pytest.mark.parametrize("line", ['history["epoch"] = epoch', 'history["epochs"].append(epoch)', "history.update(n=3)"])
def test_what_is_alike_on_all_ranks_stays(line: str) -> None:
    assert line in after(line)
