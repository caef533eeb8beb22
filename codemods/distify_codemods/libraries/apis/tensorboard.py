"""TensorBoard's writers, whoever has them: of files."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("tensorboardX. torch.utils.tensorboard. tensorboard_logger. tensorflow.summary. tensorflow.compat.v1.summary. "
        "tensorflow.compat.v2.summary.", Role.TRACKER, Effect.LOGS, answers="log_dir logdir get_logdir"),
    Api("tensorboard.program.", Role.TRACKER, Effect.LOGS, online=True),
    Api("tensorflow.io.TFRecordWriter tensorflow.python_io.TFRecordWriter", Role.WRITER),
)  # fmt: skip
