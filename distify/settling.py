"""Options of `convert` and `check`: the backend, what a user settles, what is to become of batch and rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click
from distify_codemods import Options

from distify.engine import BACKENDS, STRATEGIES

COMPRESSIONS = ("none", "fp16")
OPS = ("average", "adasum")
SCALES = ("global", "linear", "none")
Command = TypeVar("Command", bound=Callable[..., None])


def with_backend(command: Command) -> Command:
    """Adds `--backend` and `--strategy`; None where the user says nothing."""
    strategy = click.option(
        "--strategy", type=click.Choice(STRATEGIES),
        help="What ranks share: the samples, with all that follows from them (sharded), or forward passes alone, with "
        "everything else on every rank as it stands (shared); the first that is seen to be right (auto).  "
        "[default: auto]",
    )  # fmt: skip
    backend = click.option(
        "--backend", type=click.Choice(BACKENDS),
        help="What averages the gradients: DistributedDataParallel around each model (ddp), a line before each step, "
        "with models left as they are (allreduce), or Horovod's optimizers (horovod).  [default: ddp]",
    )  # fmt: skip
    return backend(strategy(command))


def spelling(command: Command) -> Command:
    """Adds `--backend` and `--strategy`, and for Horovod `--compression` and `--op`."""
    compression = click.option(
        "--compression", type=click.Choice(COMPRESSIONS), default=COMPRESSIONS[0],
        help="With --backend horovod: gradients travel as they are, or in half precision.  [default: none]",
    )  # fmt: skip
    op = click.option(
        "--op", type=click.Choice(OPS), default=OPS[0],
        help="With --backend horovod: how gradients become one; with adasum rates are not scaled.  [default: average]",
    )  # fmt: skip
    return with_backend(compression(op(command)))


def settling(command: Command) -> Command:
    """Adds `--model` and `--train-loader`, for the parameters `models` and `train_loaders`, and `--budget`."""
    budget = click.option(
        "--budget", type=click.IntRange(min=1), default=Options.budget, metavar="N",
        help="Statements that may be followed, over all runs of the program, to see whether sharded data are right; "
        f"one that takes more shares forward passes.  [default: {Options.budget}, about a minute]",
    )  # fmt: skip
    loader = click.option(
        "--train-loader", "train_loaders", metavar="NAME", multiple=True,
        help="NAME feeds the training; of the loaders that share its loop, no other does unless it is named, too.",
    )  # fmt: skip
    model = click.option(
        "--model", "models", metavar="NAME", multiple=True,
        help="NAME, a variable or attribute of the script, is a trained model; also file.py:NAME, NAME@LINE.",
    )  # fmt: skip
    return model(loader(budget(command)))


def scaling(command: Command) -> Command:
    """Adds `--scale` and `--warmup-epochs`; None where the user says nothing."""
    warmup = click.option(
        "--warmup-epochs", type=click.IntRange(min=0), metavar="N",
        help="With --scale linear: how long the rate grows to its full size, at most a fifth of the run.  [default: 5]",
    )  # fmt: skip
    scale = click.option(
        "--scale", type=click.Choice(SCALES),
        help="What more ranks do to batch and learning rate: nothing (global); each keeps the batch size, and the "
        "rate grows with their number, or its square root for Adam (linear), or not (none).  [default: global]",
    )  # fmt: skip
    return scale(warmup(command))
