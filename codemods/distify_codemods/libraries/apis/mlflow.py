"""MLflow: runs, and models that lie there."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("mlflow.", Role.TRACKER, Effect.LOGS, online=True, draws=True, answers="info"),
    Api("mlflow.pytorch.load_model mlflow.pyfunc.load_model mlflow.artifacts.", Role.FOR_ALL, Effect.LOGS,
        online=True),
)  # fmt: skip
