"""SwanLab: a run can be told to do nothing."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("swanlab.", Role.OF_A_RUN, Effect.LOGS, online=True),
    Api("swanlab.login swanlab.register_callbacks", Role.TRACKER, Effect.LOGS, online=True),
    Api("swanlab.sync swanlab.sync_wandb swanlab.sync_tensorboardX swanlab.sync_tensorboard_torch "
        "swanlab.sync_mlflow", Role.TRACKER, Effect.LOGS, online=True, begins="swanlab."),
    Api("swanlab.init", Role.RUN, Effect.LOGS, online=True, quiet="disabled", tells="id name path dir url",
        parameters="project workspace experiment_name description job_type group tags config logdir mode"),
    Api("swanlab.Image swanlab.Video swanlab.Audio swanlab.Object3D swanlab.Molecule", Role.OF_A_RUN,
        Effect.LOGS | Effect.OPENS, path=0, online=True, one_file=True),
    Api("swanlab.get_run swanlab.run", Role.OF_A_RUN, Effect.LOGS, online=True, tells="id name path dir url"),
)  # fmt: skip
