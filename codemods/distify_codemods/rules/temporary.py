"""Temporary files that outlive the call that makes them: those of other ranks than rank 0 stay behind."""

from __future__ import annotations

from distify_codemods.libraries import paths
from distify_codemods.rules.base import Context


def advise(context: Context) -> None:
    for event in context.facts.calls(paths.STAYS, paths.STAYS_IF_ASKED):
        kept = event.arguments.get("delete", 7)
        stays = event.name == paths.STAYS or (kept is not None and kept.constant() is False)
        if stays and not context.comes_on_main(event):
            context.advice(
                "each rank makes a temporary file here, and only rank 0 renames or removes its own: put all that is "
                "done with it under `if rt.is_main_process():`", event.module, event.node,
            )  # fmt: skip
