"""Hydra: settings, and a folder for each run."""

from distify_codemods.libraries.registry import Api, Role

APIS = (
    Api("hydra.main", Role.FOLDER, config=("config_path", "config_name"),
        settings="hydra.run.dir=outputs/NAME hydra.output_subdir=null hydra/job_logging=stdout",
        unset="${now: default colorlog"),
)  # fmt: skip
