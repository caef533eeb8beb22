"""Calls and items in a `collate_fn`: what stacks samples, pads them, or is made of each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Ref
from distify_codemods.interpreter.collate_forms import (
    CONST,
    COUNT,
    EMPTY,
    OF_ALL,
    PLACE,
    ROWS,
    SMALL,
    UNKNOWN,
    Form,
    Kind,
    Named,
    Unseen,
    columns,
    combined,
    gathered,
    items_of,
    listed,
    transposed,
)
from distify_codemods.libraries import collating as table
from distify_codemods.libraries import drawing, python

if TYPE_CHECKING:
    from distify_codemods.interpreter.collating import Body


def evaluate(body: Body, node: cst.Call) -> Form:
    """A call in the function that is followed. Raises Unseen."""
    star = next((one for one in node.args if one.star), None)
    func = node.func
    if star is not None:
        over = body.evaluate(star.value)
        zips = isinstance(func, cst.Name) and _name(body.evaluate(func)) == python.ZIP
        if not zips or len(node.args) != 1:
            raise Unseen
        return transposed(over)
    given = [_argument(body, one.value) for one in node.args if one.keyword is None]
    named = {one.keyword.value: _argument(body, one.value) for one in node.args if one.keyword is not None}
    if isinstance(func, cst.Attribute):
        receiver = body.evaluate(func.value)
        if receiver.kind is Kind.LISTED and func.attr.value == python.SORTS:
            raise Unseen(node)
        if receiver.kind is not Kind.CONST:
            return _method(receiver, func.attr.value, given, named)
    callee = body.evaluate(func)
    if _name(callee) == python.MAP and len(given) == 2:
        element, kind = items_of(given[1])
        function = node.args[0].value
        if isinstance(function, cst.Lambda):
            return gathered(_of_lambda(body, function, element), kind)
        return gathered(body.call(given[0], [element], {}), kind)
    return body.call(callee, given, named)


def _argument(body: Body, node: cst.BaseExpression) -> Form:
    return CONST if isinstance(node, cst.Lambda) else body.evaluate(node)


def _of_lambda(body: Body, function: cst.Lambda, element: Form) -> Form:
    params = [one.name.value for one in function.params.params]
    if len(params) != 1:
        raise Unseen
    outer, body.env = body.env, {**body.env, params[0]: element}
    made = body.evaluate(function.body)
    body.env = outer
    return made


def _name(form: Form) -> str:
    only = form.value.single()
    return only.name if form.kind is Kind.CONST and isinstance(only, Ref) else ""


def _number(form: Form | None, default: object) -> object:
    return default if form is None else form.value.constant()


def unknown(given: list[Form], pure: bool = False) -> Form:
    """Something that is not known: of one sample, it makes something of that sample."""
    form = combined(given)
    if form.kind not in SMALL:
        raise Unseen  # it may change what it is given
    return OF_ALL if form.kind is Kind.CONST and not pure else form


def of_library(name: str, given: list[Form], named: Named) -> Form:
    """What a function of a library returns. Raises Unseen."""
    function = _FUNCTIONS.get(name)
    made = function(given[0] if given else CONST, given, named) if function is not None else None
    return made if made is not None else _taken(given, named, name)


def _stacked(samples: Form, given: list[Form], named: Named) -> Form:
    along = named.get("dim") or named.get("axis") or (given[1] if len(given) > 1 else None)
    return _rows(samples) if _is_of_each(samples) and _number(along, 0) == 0 else _taken(given, named)


def _put_behind_each_other(samples: Form, given: list[Form], named: Named) -> Form:
    one = _is_of_each(samples) and samples.element.kind is Kind.EACH and samples.element.one_row
    along = named.get("dim") or (given[1] if len(given) > 1 else None)
    return _rows(samples) if one and _number(along, 0) == 0 else _taken(given, named)


def _made_longer(samples: Form, given: list[Form], named: Named) -> Form:
    ahead = _number(named.get("batch_first") or (given[1] if len(given) > 1 else None), False)
    return Form(Kind.ROWS, padded=True) if _is_of_each(samples) and ahead is True else UNKNOWN


def _made_one(first: Form, given: list[Form], named: Named) -> Form | None:
    if first.kind is Kind.LISTED:
        return _rows(first) if _is_of_each(first) else UNKNOWN
    return first if first.kind is Kind.ROWS else None


def _stacked_parts(first: Form, given: list[Form], named: Named) -> Form | None:
    return columns(Form(Kind.ROWS, padded=_padded(first))) if first.kind is Kind.LISTED else None


def _is_of_each(samples: Form) -> bool:
    return samples.kind is Kind.LISTED and samples.element.kind is not Kind.PLACE


def _counted(first: Form, given: list[Form], named: Named) -> Form:
    return COUNT if first.kind in (Kind.LISTED, Kind.ROWS) else _taken(given, named)


def _listed_again(first: Form, given: list[Form], named: Named) -> Form | None:
    return EMPTY if not given and not named else first if len(given) == 1 else None


def _tabled(first: Form, given: list[Form], named: Named) -> Form | None:
    if given:
        return None
    return Form(Kind.TABLE, tuple(named.values()), tuple(named)) if named else EMPTY


def _places(given: list[Form]) -> Form | None:
    return listed(PLACE) if [one.kind for one in given] == [Kind.COUNT] else None


def _numbered(first: Form, given: list[Form], named: Named) -> Form | None:
    return listed(Form(Kind.TUPLE, (PLACE, first.element))) if first.kind is Kind.LISTED else None


def _zipped(first: Form, given: list[Form], named: Named) -> Form | None:
    if not given or any(one.kind is not Kind.LISTED for one in given):
        return None
    return listed(Form(Kind.TUPLE, tuple(one.element for one in given)))


_BUILTINS: dict[str, Callable[[Form, list[Form], Named], Form | None]] = {
    "len": _counted, "list": _listed_again, "tuple": _listed_again, "dict": _tabled, "enumerate": _numbered,
    "zip": _zipped, "range": lambda first, given, named: _places(given),
    "print": lambda first, given, named: CONST,
}  # fmt: skip
#: What they make of all that they are given, of which the first is told apart; None: what any function does.
_FUNCTIONS: dict[str, Callable[[Form, list[Form], Named], Form | None]] = {
    **dict.fromkeys(table.STACKING, _stacked),
    **dict.fromkeys(table.JOINING, _put_behind_each_other),
    **dict.fromkeys(table.PADDING, _made_longer),
    **dict.fromkeys(table.MAKING, _made_one),
    **dict.fromkeys(table.FILLING, lambda first, given, named: _filled(given, named)),
    **dict.fromkeys(table.DEFAULT, _stacked_parts),
    **{f"builtins.{name}": function for name, function in _BUILTINS.items()},
}


def _taken(given: list[Form], named: Named, name: str = "") -> Form:
    """What a function of a library makes of these: what it is given it leaves as it is."""
    everything = [*given, *named.values()]
    if name in table.OF_ALL and any(one.kind in (Kind.LISTED, Kind.COLUMNS, Kind.ROWS) for one in everything):
        return OF_ALL
    form = combined(everything)
    if form.kind is Kind.CONST and name not in table.PURE:
        return OF_ALL  # perhaps a random number
    if form.kind is Kind.ROWS:
        return UNKNOWN
    if form is UNKNOWN and name.startswith(drawing.STREAMS):
        raise Unseen  # in place
    return form


def _padded(form: Form) -> bool:
    inside = form.element
    return any(one.padded or one.kind in (Kind.OF_ALL, Kind.COUNT) for one in inside.leaves())


def _rows(samples: Form) -> Form:
    return Form(Kind.ROWS, padded=_padded(samples))


def _filled(given: list[Form], named: Named) -> Form:
    """`torch.zeros(len(batch), longest)`"""
    sizes = [leaf for one in given for leaf in one.leaves()]
    if named.keys() - {"dtype", "device", "fill_value"} or not all(one.kind in SMALL for one in sizes):
        return UNKNOWN
    if not sizes or sizes[0].kind is not Kind.COUNT:
        return combined(sizes)
    return Form(Kind.ROWS, padded=any(one.kind is not Kind.CONST for one in sizes[1:]))


def _method(receiver: Form, name: str, given: list[Form], named: Named) -> Form:
    everything = [*given, *named.values()]
    if receiver.kind is Kind.ROWS:
        return _of_rows(receiver, name, given, named)
    if name in ("keys", "values", "items") and receiver.kind in (Kind.TABLE, Kind.COLUMNS):
        return UNKNOWN
    if receiver.kind is Kind.OF_ALL and name == "keys":
        return CONST  # all samples have the same ones, or reading them would fail
    if receiver.kind is Kind.EACH and name == "unsqueeze" and [_number(one, None) for one in everything] == [0]:
        return Form(Kind.EACH, padded=receiver.padded, one_row=True)
    form = combined([receiver, *everything])
    if form.kind not in SMALL:
        raise Unseen  # `batch.pop()`
    return form


def _of_rows(rows: Form, name: str, given: list[Form], named: Named) -> Form:
    everything = [*given, *named.values()]
    places = [_number(one, None) for one in everything]
    if name in table.ROW_METHODS and all(one.kind is Kind.CONST for one in everything):
        return rows
    behind = bool(places) and all(isinstance(one, int) and one >= 1 for one in places)
    if name in table.BEHIND and behind:
        return rows
    if name == "permute" and places and places[0] == 0:
        return rows
    return UNKNOWN if not name.endswith("_") else _fails()


def _fails() -> Form:
    raise Unseen


def item(held: Form, keys: list[Form], node: cst.Subscript) -> Form:
    first = node.slice[0].slice
    if held.kind is Kind.ROWS:
        whole = isinstance(first, cst.Slice) and first.lower is None and first.upper is None and first.step is None
        return ROWS if whole and not held.padded and combined(keys).kind is Kind.CONST else _part(held, whole, keys)
    one_key = isinstance(first, cst.Index) and len(keys) == 1
    known = _held_at(held, keys[0]) if one_key else UNKNOWN if held.kind is Kind.TABLE else None
    if known is not None:
        return known
    form = combined([held, *keys])
    if form.kind is Kind.EACH and isinstance(first, cst.Index) and _is_none(keys[0]):
        return Form(Kind.EACH, padded=form.padded, one_row=True)
    return form if form.kind in SMALL else UNKNOWN


def _held_at(held: Form, key: Form) -> Form | None:
    """`held[key]` of a tuple, a table or a list."""
    known = key.value.constant()
    if held.kind is Kind.TUPLE and isinstance(known, int) and -len(held.items) <= known < len(held.items):
        return held.items[known]
    if held.kind is Kind.TABLE:
        return held.items[held.names.index(str(known))] if known in held.names else UNKNOWN
    if held.kind is Kind.COLUMNS:
        return held.element
    if held.kind is Kind.LISTED:
        return held.element if key.kind is Kind.PLACE else OF_ALL
    return None


def _is_none(key: Form) -> bool:
    only = key.value.single()
    return isinstance(only, Const) and only.value is None and key.kind is Kind.CONST


def _part(rows: Form, whole: bool, keys: list[Form]) -> Form:
    return Form(Kind.ROWS, padded=True) if whole and combined(keys).kind in SMALL else UNKNOWN
