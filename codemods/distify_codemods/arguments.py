"""Arguments of a call: which parameter each is bound to, and edits that keep the author's layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import libcst as cst

from distify_codemods.libraries import checkpoints, progress, torch_data
from distify_codemods.plan import Rewrite
from distify_codemods.records import dataclass

#: The positional parameters of the functions whose calls are edited.
_ORDERS = (
    torch_data.PARAMETERS, torch_data.OF_A_SAMPLER, checkpoints.PARAMETERS, progress.PARAMETERS,
    ("", "parents", "exist_ok"), ("name", "", "exist_ok"),  # of mkdir and makedirs, whose mode stays as it is
)  # fmt: skip


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


def _parameters(edited: Iterable[str]) -> Sequence[str]:
    """The parameters of the function whose arguments are edited: the one that has them all, but what goes by name."""
    wanted = set(edited) - torch_data.HOW_SOON
    return next((names for names in _ORDERS if wanted <= set(names)), ())


@dataclass(frozen=True)
class Layout:
    """How new arguments are laid out: parses a text, and knows where a broken line goes on."""

    parse: Callable[[str], cst.BaseExpression]
    indent: int  # columns


def edit(updated: cst.Call, original: cst.Call, edits: Mapping[str, Rewrite | str | None], layout: Layout) -> cst.Call:
    """The call with each parameter in `edits` set, rewritten, or (None) taken out.

    What is set anew takes the place of what is taken out. Behind a positional argument that is taken out, the
    others are given by name.
    """
    places = {id(argument): name for name, argument in bound(original, _parameters(edits)).items()}
    names = [places.get(id(argument)) for argument in original.args]
    fresh = [name for name, value in edits.items() if value is not None and name not in names]
    arguments: list[cst.Arg] = []
    by_name = False
    for argument, name in zip(updated.args, names, strict=True):
        if name is not None and name in edits and edits[name] is None:
            by_name = by_name or argument.keyword is None
            if fresh:
                taken = fresh.pop(0)
                arguments.append(_named(argument, taken, _text(edits[taken], layout)))
            continue
        if name is not None and name in edits:
            argument = argument.with_changes(value=_value(edits[name], argument.value, layout))
        if by_name and argument.keyword is None and not argument.star and name is not None:
            argument = _named(argument, name, argument.value)
        arguments.append(argument)
    result = updated.with_changes(args=_closed(arguments, updated))
    for name in fresh:
        result = append(result, _named(None, name, _text(edits[name], layout)))
    return _broken(result, set(edits), layout)


def _value(edit: Rewrite | str | None, value: cst.BaseExpression, layout: Layout) -> cst.BaseExpression:
    assert edit is not None
    return layout.parse(edit) if isinstance(edit, str) else edit(value)


def _text(edit: Rewrite | str | None, layout: Layout) -> cst.BaseExpression:
    assert isinstance(edit, str)
    return layout.parse(edit)


def _named(like: cst.Arg | None, name: str, value: cst.BaseExpression) -> cst.Arg:
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    if like is None:
        return cst.Arg(value, keyword=cst.Name(name), equal=equal)
    if isinstance(like.equal, cst.AssignEqual):
        equal = like.equal
    return like.with_changes(value=value, keyword=cst.Name(name), equal=equal)


def _closed(arguments: list[cst.Arg], call: cst.Call) -> list[cst.Arg]:
    """When the last argument was taken out, the new last one ends the call as the old one did."""
    if arguments and call.args and arguments[-1].comma is not call.args[-1].comma:
        last = call.args[-1]
        arguments[-1] = arguments[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return arguments


_WIDEST = 100
_DEEPEST = 60  # an indent beyond this leaves no room


def _broken(call: cst.Call, edited: set[str], layout: Layout) -> cst.Call:
    """A long new argument (a sampler), and what follows it, begin new lines where theirs would become too wide."""
    before = ""
    for number, argument in enumerate(call.args):
        keyword = argument.keyword.value if argument.keyword else ""
        concerned = keyword in edited and ("sampler" in keyword or "sampler" in before)
        if number and concerned and _is_too_wide(call, keyword, layout):
            call = _broken_before(call, number, layout)
        before = keyword
    return call


def _is_too_wide(call: cst.Call, keyword: str, layout: Layout) -> bool:
    lines = cst.Module(()).code_for_node(call).splitlines()
    own = next((line for line in lines if f"{keyword}=" in line.replace(" ", "")), "")
    return len(own) + (layout.indent if own is lines[0] else 0) > _WIDEST


def _broken_before(call: cst.Call, number: int, layout: Layout) -> cst.Call:
    arguments = list(call.args)
    comma = arguments[number - 1].comma
    if not isinstance(comma, cst.Comma) or isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace):
        return call
    column = cst.SimpleWhitespace(" " * (layout.indent if layout.indent <= _DEEPEST else 8))
    newline = _newline_of(call) or cst.ParenthesizedWhitespace(last_line=column, indent=False)
    arguments[number - 1] = arguments[number - 1].with_changes(comma=comma.with_changes(whitespace_after=newline))
    return call.with_changes(args=arguments)


def _newline_of(call: cst.Call) -> cst.ParenthesizedWhitespace | None:
    """A line break between the call's arguments, as its author makes them, without the comment."""
    spaces = [
        call.whitespace_before_args,
        *(arg.comma.whitespace_after for arg in call.args if isinstance(arg.comma, cst.Comma)),
    ]
    for space in spaces:
        if isinstance(space, cst.ParenthesizedWhitespace) and space.last_line.value:
            return cst.ParenthesizedWhitespace(indent=space.indent, last_line=space.last_line)
    return None


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
    elif isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
        space = call.whitespace_before_args
    if isinstance(space, cst.ParenthesizedWhitespace):
        space = space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=())
    comma = cst.Comma(whitespace_after=space)
    if place < len(arguments):
        return call.with_changes(args=[*arguments[:place], new.with_changes(comma=comma), *arguments[place:]])
    last = arguments[-1]
    tail = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    if isinstance(tail, cst.ParenthesizedWhitespace) and tail.first_line.comment is not None:
        line = space.last_line if isinstance(space, cst.ParenthesizedWhitespace) else tail.last_line
        comma = cst.Comma(whitespace_after=tail.with_changes(last_line=line))  # the comment stays with its argument
        tail = tail.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=())
    if isinstance(last.comma, cst.Comma):
        new = new.with_changes(comma=last.comma.with_changes(whitespace_after=tail))
    else:
        new = new.with_changes(whitespace_after_arg=tail)
    arguments[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*arguments, new])
