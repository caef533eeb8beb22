"""Commands that end in the arguments of the script."""

from __future__ import annotations

import click


class WithArguments(click.Command):
    """What stands behind `--` is the script's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        split = args.index("--") if "--" in args else len(args)
        ctx.obj = tuple(args[split + 1 :])
        return super().parse_args(ctx, args[:split])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]
