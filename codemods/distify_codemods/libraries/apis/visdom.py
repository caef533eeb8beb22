"""Visdom: a window in a browser."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("visdom.", Role.TRACKER, Effect.LOGS, online=True),
)  # fmt: skip
