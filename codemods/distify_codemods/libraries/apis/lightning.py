"""Lightning's loggers, in loops without its Trainer or Fabric, which bring ranks of their own."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("lightning.pytorch.loggers. pytorch_lightning.loggers. lightning.fabric.loggers. lightning_fabric.loggers.",
        Role.TRACKER, Effect.LOGS, answers="log_dir root_dir save_dir name version"),
    Api("lightning.pytorch.loggers.WandbLogger lightning.pytorch.loggers.MLFlowLogger "
        "lightning.pytorch.loggers.CometLogger lightning.pytorch.loggers.NeptuneLogger "
        "lightning.pytorch.loggers.LitLogger pytorch_lightning.loggers.WandbLogger "
        "pytorch_lightning.loggers.MLFlowLogger pytorch_lightning.loggers.CometLogger "
        "pytorch_lightning.loggers.NeptuneLogger pytorch_lightning.loggers.LitLogger",
        Role.TRACKER, Effect.LOGS, online=True, answers="save_dir name version"),
)  # fmt: skip
