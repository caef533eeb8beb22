"""Hydra: settings, and a folder for each run."""

from distify_codemods.libraries.registry import Api, Role

APIS = (
    Api("hydra.main", Role.FOLDER, setting="hydra.run.dir=",
        advice="`hydra.run.dir=outputs/NAME` on the command line, unless the configuration does"),
)  # fmt: skip
