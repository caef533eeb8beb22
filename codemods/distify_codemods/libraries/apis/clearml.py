"""ClearML: a task, its settings, and what is reported to it."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("clearml.", Role.TRACKER, Effect.LOGS, online=True, answers="id task_id",
        tells="connect connect_configuration get_parameters get_parameters_as_dict get_parameter "
        "get_configuration_object get_configuration_object_as_dict"),
    Api("clearml.automation.", Role.AGENT, Effect.LOGS, online=True),
    Api("clearml.Dataset. clearml.StorageManager.", Role.FOR_ALL, Effect.LOGS, online=True),
)  # fmt: skip
