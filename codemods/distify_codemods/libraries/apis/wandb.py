"""Weights & Biases: a run can be told to do nothing; what it is given opens files on every rank all the same."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("wandb.", Role.OF_A_RUN, Effect.LOGS, online=True),
    Api("wandb.Api wandb.Api. wandb.apis.", Role.FOR_ALL, Effect.LOGS, online=True),
    Api("wandb.login wandb.sync", Role.TRACKER, Effect.LOGS, online=True),
    Api("wandb.agent wandb.sweep", Role.AGENT, Effect.LOGS, online=True),
    Api("wandb.init", Role.RUN, Effect.LOGS, online=True, quiet="disabled", tells="dir name id path project",
        parameters="entity project dir id name notes tags config config_exclude_keys config_include_keys "
        "allow_val_change group job_type mode"),
    Api("wandb.Image wandb.Video wandb.Audio wandb.Html wandb.Object3D wandb.Molecule", Role.OF_A_RUN,
        Effect.LOGS | Effect.OPENS, path=0, online=True, one_file=True),
    Api(".add_file .add_dir", effect=Effect.OPENS, path=0, of=("wandb.",)),
    Api("wandb.run", Role.OF_A_RUN, Effect.LOGS, online=True, tells="dir name id path project"),
)  # fmt: skip
