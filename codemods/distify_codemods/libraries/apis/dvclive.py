"""DVCLive: a folder that DVC reads."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("dvclive.", Role.TRACKER, Effect.LOGS, online=True, tells="step",
        answers="dir plots_dir artifacts_dir metrics_file params_file"),
)  # fmt: skip
