"""PyTorch Geometric's own log."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("torch_geometric.logging.", Role.TRACKER, Effect.LOGS, online=True),
    Api("torch_geometric.logging.init_wandb", Role.WRITER),
)  # fmt: skip
