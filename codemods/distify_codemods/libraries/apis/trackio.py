"""Trackio: like wandb, but that its runs cannot be told to do nothing."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("trackio.", Role.TRACKER, Effect.LOGS, online=True),
)  # fmt: skip
