"""Comet."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("comet_ml.", Role.TRACKER, Effect.LOGS, online=True, answers="id url get_key get_name", tells="get_parameter"),
    Api("comet_ml.Optimizer", Role.AGENT, Effect.LOGS, online=True),
)  # fmt: skip
