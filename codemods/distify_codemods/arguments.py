"""Arguments of a call: which parameter each is bound to, and edits that keep the author's layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from distify_codemods.plan import Rewrite

_LOADER = [
    "dataset",
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
]
#: The order of positional parameters of the functions whose calls are edited, by the last part of the name.
PARAMETERS: dict[str, Sequence[str]] = {
    "DataLoader": _LOADER,
    "load": ("f", "map_location"),
    "tqdm": (
        "iterable",
        "desc",
        "total",
        "leave",
        "file",
        "ncols",
        "mininterval",
        "maxinterval",
        "miniters",
        "ascii",
        "disable",
    ),
    "makedirs": ("name", "mode", "exist_ok"),
}


def bound(call: cst.Call, parameters: Sequence[str]) -> dict[str, cst.Arg]:
    """The arguments of a call by parameter; those behind `*` cannot be told and are left out."""
    found: dict[str, cst.Arg] = {}
    for position, argument in enumerate(call.args):
        if argument.star:
            continue
        if argument.keyword is not None:
            found[argument.keyword.value] = argument
        elif position < len(parameters):
            found[parameters[position]] = argument
    return found


def parameters_of(call: cst.Call) -> Sequence[str]:
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else getattr(call.func, "value", "")
    return PARAMETERS.get(name, _LOADER if name not in PARAMETERS else ())


def edit(
    updated: cst.Call,
    original: cst.Call,
    edits: Mapping[str, Rewrite | str | None],
    parse: Callable[[str], cst.BaseExpression],
) -> cst.Call:
    """The call with each parameter in `edits` set, rewritten, or (None) taken out."""
    places = {id(argument): name for name, argument in bound(original, parameters_of(original)).items()}
    names = [places.get(id(argument)) for argument in original.args]
    arguments: list[cst.Arg] = []
    done: set[str] = set()
    replaced = [name for name, value in edits.items() if value is None]
    fresh = [name for name, value in edits.items() if value is not None and name not in names]
    for argument, name in zip(updated.args, names, strict=True):
        if name is None or name not in edits:
            arguments.append(argument)
            continue
        value = edits[name]
        done.add(name)
        if value is not None:
            new = parse(value) if isinstance(value, str) else value(argument.value)
            arguments.append(argument.with_changes(value=new))
        elif argument.keyword is not None and fresh and name == replaced[0]:
            # What takes the place of an argument stands where that stood.
            taken = fresh.pop(0)
            done.add(taken)
            arguments.append(_keyword(argument, taken, edits[taken], parse))
        elif argument.keyword is None and argument is not updated.args[-1]:
            arguments.append(argument.with_changes(value=cst.Name("False")))
        elif argument.keyword is None and fresh:
            taken = fresh.pop(0)
            done.add(taken)
            arguments.append(_keyword(argument, taken, edits[taken], parse))
    result = updated.with_changes(args=_closed(arguments, updated))
    for name in edits:
        if name not in done and edits[name] is not None:
            result = append(result, _keyword(None, name, edits[name], parse))
    return result


def _keyword(
    like: cst.Arg | None, name: str, value: Rewrite | str | None, parse: Callable[[str], cst.BaseExpression]
) -> cst.Arg:
    assert isinstance(value, str)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    new = cst.Arg(parse(value), keyword=cst.Name(name), equal=equal)
    if like is None:
        return new
    return new.with_changes(
        comma=like.comma,
        whitespace_after_arg=like.whitespace_after_arg,
        equal=like.equal if isinstance(like.equal, cst.AssignEqual) else equal,
    )


def _closed(arguments: list[cst.Arg], call: cst.Call) -> list[cst.Arg]:
    """When the last argument was taken out, the new last one ends the call as the old one did."""
    if arguments and call.args and arguments[-1].comma is not call.args[-1].comma:
        last = call.args[-1]
        arguments[-1] = arguments[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return arguments


def append(call: cst.Call, new: cst.Arg) -> cst.Call:
    """One more keyword argument, before any `**`, on a line of its own where the others have theirs."""
    arguments = list(call.args)
    place = next((number for number, argument in enumerate(arguments) if argument.star == "**"), len(arguments))
    if not arguments:
        return call.with_changes(args=[new])
    space: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    commas = [argument.comma for argument in arguments[:-1] if isinstance(argument.comma, cst.Comma)]
    if commas:
        space = commas[-1].whitespace_after
    if isinstance(space, cst.ParenthesizedWhitespace) and space.first_line.comment is not None:
        space = space.with_changes(first_line=cst.TrailingWhitespace())
    comma = cst.Comma(whitespace_after=space)
    if place < len(arguments):
        return call.with_changes(args=[*arguments[:place], new.with_changes(comma=comma), *arguments[place:]])
    last = arguments[-1]
    new = new.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    arguments[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*arguments, new])
