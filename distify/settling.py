"""The options with which a user settles what a script leaves in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., None])


def settling(command: Command) -> Command:
    """Adds `--model` and `--train-loader`, for the parameters `models` and `train_loaders`."""
    loader = click.option(
        "--train-loader", "train_loaders", metavar="NAME", multiple=True,
        help="NAME feeds the training; of the loaders that share its loop, no other does unless it is named, too.",
    )  # fmt: skip
    model = click.option(
        "--model", "models", metavar="NAME", multiple=True,
        help="NAME, a variable or attribute of the script, is a trained model; also file.py:NAME, NAME@LINE.",
    )  # fmt: skip
    return model(loader(command))
