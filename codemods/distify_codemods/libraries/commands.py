"""Libraries that make a command line of functions and classes, and call them with what somebody types there."""

from __future__ import annotations

from distify_codemods.records import dataclass


@dataclass(frozen=True)
class Caller:
    """A function that is given what to call. `methods`: those of an object, too; `returns`: what that returned."""

    parameter: str
    methods: bool = False
    returns: bool = False


@dataclass(frozen=True)
class App:
    """An object that functions are made known to. `adds`: decorators; `takes`: other commands; `runs`: "" if called."""

    adds: frozenset[str]
    runs: frozenset[str] = frozenset({""})
    takes: frozenset[str] = frozenset()


CALLERS = {
    "fire.Fire": Caller("component", methods=True),
    "typer.run": Caller("function"),
    "tyro.cli": Caller("f", returns=True),
    "tyro.extras.subcommand_cli_from_dict": Caller("subcommands", returns=True),
    "simple_parsing.parse": Caller("config_class", returns=True),
    "draccus.parse": Caller("config_class", returns=True),
    "pyrallis.parse": Caller("config_class", returns=True),
    "jsonargparse.CLI": Caller("components", methods=True, returns=True),
    "jsonargparse.auto_cli": Caller("components", methods=True, returns=True),
}

#: Decorators that make a command of a function: it is called without arguments, and given what was typed.
GROUP = "click.group"
COMMANDS = frozenset({"click.command", GROUP})
_CLICK = App(frozenset({"command", "group"}), frozenset({"", "main"}), frozenset({"add_command"}))
#: By the decorator, or the class, that makes them.
APPS = {
    GROUP: _CLICK,
    "click.Group": _CLICK,
    "typer.Typer": App(frozenset({"command", "callback"}), takes=frozenset({"add_typer"})),
    "sacred.Experiment": App(
        frozenset({"main", "automain", "command"}), frozenset({"run", "run_commandline", "run_command"})
    ),
}
