"""Settings that Optuna tries out: all ranks take what rank 0's study chooses."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Outcome

from tests.rules.scripts import blocked, conversion_of, converted, line_of

SCRIPT = """\
import optuna
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
{before}

def objective(trial):
    {first}
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        {last}
    return total


study = {study}
study.optimize(objective, {runs})
{after}
"""


def of(**given: str) -> str:
    parts = {"before": "", "first": "pass", "last": "pass", "study": "optuna.create_study()", "runs": "n_trials=3",
             "after": ""}  # fmt: skip
    return SCRIPT.format(**{**parts, **given})


@pytest.mark.parametrize(
    ("part", "before", "after"),
    [
        ("first", 'rate = trial.suggest_float("rate", 1e-4, 0.1, log=True)',
         'rate = rt.from_main_process(trial.suggest_float("rate", 1e-4, 0.1, log=True))'),
        ("first", 'width = 2 ** trial.suggest_int("width", 1, 4)',
         'width = 2 ** rt.from_main_process(trial.suggest_int("width", 1, 4))'),
        ("first", 'name = f"{trial.suggest_int(\'a\', 1, 4)} {trial.number} {trial.params}"',
         'name = f"{rt.from_main_process(trial.suggest_int(\'a\', 1, 4))} {rt.from_main_process(trial.number)} '
         '{rt.from_main_process(trial.params)}"'),
        ("last", "if trial.should_prune():\n            raise optuna.TrialPruned()",
         "if rt.from_main_process(trial.should_prune()):\n            raise optuna.TrialPruned()"),
        ("study", 'optuna.create_study(storage="sqlite:///a.db")',
         'optuna.create_study(storage="sqlite:///a.db" if rt.is_main_process() else None)'),
        ("after", 'rate = study.best_params["rate"]', 'rate = rt.from_main_process(study.best_params)["rate"]'),
        ("after", "best = study.best_trial\nrate = best.params",
         "best = rt.from_main_process(study.best_trial)\nrate = best.params"),
        ("after", "frame = study.trials_dataframe()", "frame = rt.from_main_process(study.trials_dataframe())"),
    ],
)  # fmt: skip
def test_all_take_what_the_study_of_rank_zero_chooses(part: str, before: str, after: str) -> None:
    new = converted(of(**{part: before}))
    assert after in new
    assert "rt.rank_zero_logging()\n" in new  # it logs each trial


def test_what_is_reported_is_of_all_ranks() -> None:
    assert "trial.report(total, epoch)" in converted(of(last="trial.report(total, epoch)"))


@pytest.mark.parametrize("given", ["timeout=60", "3, 60", "n_trials=3, timeout=60", "n_trials=3, n_jobs=2"])
def test_trials_that_go_by_the_time_or_side_by_side_need_a_person(given: str) -> None:
    before = of(runs=given)
    assert ("SEED01", line_of(before, "study.optimize")) in blocked(before)


@pytest.mark.parametrize("given", ["n_trials=3, timeout=None", "n_trials=3, n_jobs=1", "3"])
def test_trials_by_their_number(given: str) -> None:
    assert blocked(of(runs=given)) == set()


@pytest.mark.parametrize("given", ["n_trials=3, timeout=limit", "n_trials=3, n_jobs=limit"])
def test_what_may_be_a_time_or_several_is_told(given: str) -> None:
    conversion = conversion_of(of(before="from limits import limit\n", runs=given))
    assert [one for one in conversion.of(Level.ADVICE) if one.message.startswith("if it is set, ")]
    assert conversion.outcome is Outcome.CONVERTED


def test_a_study_of_several_processes_needs_a_person() -> None:
    before = of(study='optuna.load_study(study_name="a", storage="sqlite:///a.db")')
    assert ("SEED01", line_of(before, "load_study")) in blocked(before)


OWN = """\


class Trial:
    best_params = number = 1

    def suggest_float(self, *given):
        return 0.1


own = Trial()
rate = own.suggest_float("rate") + own.number + own.best_params
"""


def test_objects_of_the_scripts_own_with_these_methods_are_left_alone() -> None:
    new = converted(of(before=OWN))
    assert OWN.splitlines()[-1] in new


def test_without_a_study_nothing_is_told() -> None:
    before = of(first='rate = trial.suggest_float("rate", 0, 1)', study="make()", before="from makers import make\n")
    assert "from_main_process(trial" not in converted(before.replace("import optuna\n", ""))


def test_nothing_is_said_of_downloads_or_of_servers() -> None:
    said = [
        one.message
        for one in conversion_of(of(study="optuna.create_study(sampler=optuna.samplers.TPESampler())")).findings
    ]
    assert not [one for one in said if "optuna" in one and "not known" in one]
