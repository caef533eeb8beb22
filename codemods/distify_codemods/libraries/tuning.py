"""What looks for good settings by trying some out: its trials, and what it has found."""

from __future__ import annotations

LIBRARY = "optuna."
#: What makes or loads a study, and may keep it in a storage of several processes.
STUDIES = frozenset(
    f"{LIBRARY}{name}" for name in ("create_study", "load_study", "study.create_study", "study.load_study")
)
LOADED = frozenset(name for name in STUDIES if name.endswith("load_study"))
STORAGE = "storage"
#: The method that runs trials, and what in it goes by each process's own time, or threads: its place, and what is as if
#: it was not given.
RUNS = "optimize"
BY_ITSELF = {"timeout": (2, None), "n_jobs": (3, 1)}
#: What a trial chooses by random numbers of the library's own, or decides by what other trials have come to.
CHOOSES = frozenset(
    "suggest_float suggest_int suggest_categorical suggest_uniform suggest_loguniform suggest_discrete_uniform "
    "should_prune".split()
)
#: What a trial says of itself, and a study of its trials.
OF_A_TRIAL = frozenset("number params distributions".split())
OF_A_STUDY = frozenset("best_params best_trial best_trials best_value best_values trials".split())
TOLD_BY_A_CALL = frozenset("get_trials trials_dataframe".split())
