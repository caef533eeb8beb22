"""What holds for every call: `[tool.distify]` in the nearest pyproject.toml of a script. The command line wins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from distify_codemods import Options, Said

from distify.engine import BACKENDS, STRATEGIES
from distify.errors import DistifyError
from distify.settling import COMPRESSIONS, OPS, SCALES
from distify.toml import tables

FILE = "pyproject.toml"
SECTION = "[tool.distify]"
KEYS = ("backend", "model", "scale", "strategy", "train-loader", "warmup-epochs")


@dataclass(frozen=True)
class Config:
    """The options of the section; None and empty where it says nothing."""

    backend: str | None = None
    models: tuple[str, ...] = ()
    train_loaders: tuple[str, ...] = ()
    scale: str | None = None
    warmup_epochs: int | None = None
    strategy: str | None = None


def options_for(
    script: str,
    *,
    backend: str | None = None,
    partial: bool = False,
    models: Sequence[str] = (),
    train_loaders: Sequence[str] = (),
    why: bool = False,
    scale: str | None = None,
    warmup_epochs: int | None = None,
    compression: str = COMPRESSIONS[0],
    op: str = OPS[0],
    strategy: str | None = None,
    budget: int = Options.budget,
) -> Options:
    """The options of the command line and, where it says nothing, those of the script's configuration.

    Raises DistifyError where a warm-up is asked for and the learning rate is not scaled, or it is where it must not be.
    """
    config = config_of(script)
    chosen = scale or config.scale or SCALES[0]
    if warmup_epochs is not None and chosen != "linear":
        raise DistifyError("--warmup-epochs goes with --scale linear: else the learning rate stays as it is")
    if op == "adasum" and chosen == "linear":
        raise DistifyError("--op adasum goes without --scale linear: Adasum adds up steps, and needs no larger rate")
    epochs = next((one for one in (warmup_epochs, config.warmup_epochs) if one is not None), Options.warmup_epochs)
    return Options(
        backend or config.backend or BACKENDS[0],
        partial,
        _said("--model", models, "model", config.models),
        _said("--train-loader", train_loaders, "train-loader", config.train_loaders),
        why,
        scale=chosen,
        compression=compression,
        op=op,
        warmup_epochs=epochs,
        strategy=strategy or config.strategy or STRATEGIES[0],
        budget=budget,
    )


def _said(option: str, given: Sequence[str], key: str, configured: Sequence[str]) -> tuple[Said, ...]:
    if given:
        return tuple(Said(name, option) for name in given)
    return tuple(Said(name, f"{SECTION} {key}", everywhere=True) for name in configured)


def config_of(script: str) -> Config:
    """The section in the nearest pyproject.toml, from the script's folder upwards. Raises DistifyError if it is bad."""
    folder = os.path.dirname(os.path.abspath(script))
    while not os.path.isfile(os.path.join(folder, FILE)):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return Config()
    found = os.path.join(folder, FILE)
    return _read(found if os.path.isabs(script) else os.path.relpath(found))


@lru_cache
def _read(path: str) -> Config:
    section = _section(path)
    for key in section:
        if key not in KEYS:
            raise DistifyError(f"{path}: {SECTION} knows no `{key}`; it knows {', '.join(KEYS)}")
    backend = section.get("backend")
    if backend is not None and backend not in BACKENDS:
        raise DistifyError(f"{path}: {SECTION} backend: {backend!r} is none of {', '.join(BACKENDS)}")
    strategy = section.get("strategy")
    if strategy is not None and strategy not in STRATEGIES:
        raise DistifyError(f"{path}: {SECTION} strategy: {strategy!r} is none of {', '.join(STRATEGIES)}")
    scale, epochs = section.get("scale"), section.get("warmup-epochs")
    if scale is not None and scale not in SCALES:
        raise DistifyError(f"{path}: {SECTION} scale: {scale!r} is none of {', '.join(SCALES)}")
    if epochs is not None and (type(epochs) is not int or epochs < 0):
        raise DistifyError(f"{path}: {SECTION} warmup-epochs: a number of epochs is wanted, not {epochs!r}")
    models, loaders = _names(path, section, "model"), _names(path, section, "train-loader")
    return Config(backend, models, loaders, scale, epochs, strategy)


def _section(path: str) -> dict[str, Any]:
    data = tables(path)
    tool = data.get("tool", {})
    section = tool.get("distify", {}) if isinstance(tool, dict) else {}
    if not isinstance(section, dict):
        raise DistifyError(f"{path}: {SECTION} is no table")
    return section


def _names(path: str, section: dict[str, Any], key: str) -> tuple[str, ...]:
    value = section.get(key, [])
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise DistifyError(f"{path}: {SECTION} {key}: a name or a list of names is wanted, not {value!r}")
    return tuple(names)
