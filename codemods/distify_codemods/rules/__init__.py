"""The rules, in the order of the checklist. Each module is one rule; this list is all there is to register."""

from __future__ import annotations

from distify_codemods.rules import (
    accumulation,
    batch_share,
    batch_size,
    batchnorm,
    data_parallel,
    decisions,
    device,
    download,
    evaluation,
    files,
    gathering,
    gradients,
    half_done,
    hand_updates,
    imports,
    learning_rate,
    load,
    logs,
    loss,
    meetings,
    output,
    outside,
    paths,
    process_group,
    progress,
    reach,
    readings,
    save,
    seeds,
    set_epoch,
    shared,
    shared_loading,
    trackers,
    training_data,
    training_figures,
    unsupported,
    wrap,
)
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example

RULES: tuple[Rule, ...] = tuple(
    module.RULE
    for module in (
        process_group, device, download, shared, training_data, batch_share, shared_loading, set_epoch, batch_size,
        learning_rate, seeds, batchnorm, wrap, gradients, accumulation, hand_updates, data_parallel, half_done, reach,
        gathering, loss, evaluation, training_figures, decisions, save, load, output, progress, logs, trackers, files,
        paths, outside, meetings, unsupported, imports, readings,
    )
)  # fmt: skip

__all__ = ["RULES", "Context", "Example", "Rule"]
