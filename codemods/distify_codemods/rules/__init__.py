"""The rules, in the order of the checklist. Each module is one rule; this list is all there is to register."""

from __future__ import annotations

from distify_codemods.rules import (
    batch_share,
    batch_size,
    batchnorm,
    data_parallel,
    decisions,
    device,
    download,
    evaluation,
    files,
    imports,
    load,
    logs,
    loss,
    output,
    paths,
    process_group,
    progress,
    reach,
    readings,
    save,
    seeds,
    set_epoch,
    trackers,
    training_data,
    training_figures,
    unsupported,
    wrap,
)
from distify_codemods.rules.base import Context, Example, Rule

RULES: tuple[Rule, ...] = tuple(
    module.RULE
    for module in (
        process_group, device, download, training_data, batch_share, set_epoch, batch_size, seeds, batchnorm, wrap,
        data_parallel, reach, loss, evaluation, training_figures, decisions, save, load, output, progress, logs,
        trackers, files, paths, unsupported, imports, readings,
    )
)  # fmt: skip

__all__ = ["RULES", "Context", "Example", "Rule"]
