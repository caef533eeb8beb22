"""Aim: runs in a folder, or on a server."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("aim.", Role.TRACKER, Effect.LOGS, online=True, answers="hash name"),
)  # fmt: skip
