"""Hydra: settings, and a folder for each run."""

from distify_codemods.libraries.registry import Api, Role

APIS = (
    Api("hydra.main", Role.FOLDER, advice="`hydra.run.dir=outputs/NAME` on the command line"),
)  # fmt: skip
