"""Sacred: an experiment runs the script, and its observers keep what it logs."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("sacred.", Role.FOR_ALL, Effect.LOGS),
    Api("sacred.observers.", Role.TRACKER, Effect.LOGS, online=True),
)  # fmt: skip
