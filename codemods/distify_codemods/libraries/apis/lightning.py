"""Lightning's loggers, in loops without its Trainer or Fabric, which bring ranks of their own."""

from distify_codemods.libraries.registry import Api, Effect, Role

_ANSWERS = "log_dir root_dir save_dir name version"

APIS = (
    Api("lightning.pytorch.loggers. pytorch_lightning.loggers.", Role.TRACKER, Effect.LOGS, online=True,
        answers=_ANSWERS),
    Api("lightning.fabric.loggers. lightning_fabric.loggers. lightning.pytorch.loggers.CSVLogger "
        "lightning.pytorch.loggers.TensorBoardLogger pytorch_lightning.loggers.CSVLogger "
        "pytorch_lightning.loggers.TensorBoardLogger", Role.TRACKER, Effect.LOGS, answers=_ANSWERS),
)  # fmt: skip
