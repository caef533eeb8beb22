"""Neptune."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("neptune. neptune_scale. neptune_pytorch.", Role.TRACKER, Effect.LOGS, online=True,
        tells="fetch fetch_last fetch_values get_url"),
)  # fmt: skip
