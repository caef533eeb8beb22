"""How the ranks' figures are put together: where they are looked at, or all of a place at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Ref
from distify_codemods.decisions.base import Averaging, Deferral, Putting
from distify_codemods.libraries import guarded
from distify_codemods.objects import Class, Function, Local
from distify_codemods.rules.base import Context, call_of, instead, times
from distify_codemods.rules.early import TELLING, may_be_early
from distify_codemods.rules.training_data import repeats_in

_WHAT = "training figures are kept"
_TWICE = ", with those that stand in {} twice"
_MET = (Putting.MEAN, Putting.SUM)
_CODE = (Ref, Local, Function, Class)


def write(context: Context, kept: Sequence[Averaging]) -> None:
    later = {one.node for deferral in context.decisions.deferrals for one in deferral.averages}
    for deferral in context.decisions.deferrals:
        _defer(context, deferral)
    for one in average(context, [one for one in kept if one.node not in later], _WHAT, _each):
        twice = repeats_in(context) if one.how is not Putting.MEAN else ""
        context.applied(one.why + (_TWICE.format(twice) if twice else ""), one.module, one.node)


def average(
    context: Context, figures: Sequence[Averaging], what: str, each: Callable[[Context, Averaging], None]
) -> Iterator[Averaging]:
    """Figures that are put together, those of one place at once; the others by `each`. Those that are not refused."""
    for together in _together(context, figures):
        editable = [one for one in together if context.editable(one.module, one.node, what)]
        met = [one for one in editable if one.how in _MET]
        if any(one.how is Putting.SUM for one in met):  # a mean is divided there, if it is one
            met = [one for one in met if one.how is Putting.SUM or _is_a_number(context, one)]
        if len(met) > 1:
            _at_once(context, met)
        for one in editable:
            if one not in met or len(met) == 1:
                each(context, one)
        yield from editable


def _is_a_number(context: Context, one: Averaging) -> bool:
    value = context.facts.value(one.node)
    return not any(isinstance(obj, Const) and (obj.value is None or isinstance(obj.value, str)) for obj in value.objs)


def _each(context: Context, one: Averaging) -> None:
    if one.how is Putting.COUNT:
        _times(context, one)
        return
    options = ", parts=True" if one.parts else ""
    context.put_into(one.module, one.node, f"{one.how.value}({{}}{options})", one.why)


def _times(context: Context, one: Averaging) -> None:
    rewrite = times(one.module, one.node, f"{context.rt(one.module)}.world_size()")
    context.plan(one.module).replace(one.node, rewrite, context.code, one.why)


# ---- where they are looked at


def _defer(context: Context, deferral: Deferral) -> None:
    module = deferral.loop.module
    if not context.editable(module, deferral.loop.node, _WHAT):
        return
    reason, plan = "looked at: from here on what all ranks have", context.plan(module)
    for one in deferral.averages:
        if one.how is not Putting.MEAN:
            _times(context, one)
    for statement, names in deferral.before.items():
        text = f"{context.rt(module)}.average_figures({', '.join(names)})"
        plan.insert_before(statement, text, context.code, reason)
    if deferral.after:
        text = f"{context.rt(module)}.average_figures({', '.join(deferral.after)})"
        plan.insert_after(deferral.loop.node, text, context.code, reason)
    for name in deferral.holders:
        first = next(one for one in deferral.averages if _is_named(name, module.statement(one.node)))
        context.applied(f"`{name}` keeps a rank's own, and is averaged over the ranks where it is looked at", module,
                        first.node)  # fmt: skip


def _is_named(name: str, statement: cst.CSTNode) -> bool:
    """Whether what keeps figures, `losses` or `self.losses`, stands in a statement."""
    nodes = (node for node in tree.walk(statement) if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)))
    return any(tree.code_of(node) == name for node in nodes)


# ---- all of a place at once


def _together(context: Context, kept: Sequence[Averaging]) -> Iterator[list[Averaging]]:
    """Figures of statements that follow each other, and that can all be computed before the first of them."""
    found: list[list[Averaging]] = []
    last: dict[cst.CSTNode, list[Averaging]] = {}  # by the statement that they end with
    for one in sorted(kept, key=lambda one: _place(context, one)):
        statement = one.module.statement(one.node)
        body = one.module.block(statement).body
        number = next((at for at, other in enumerate(body) if other is statement), 0)
        known = statement if statement in last or not number else body[number - 1]
        before = last.get(known)
        if before is not None and _may_be_moved(context, before, one) and _is_plain(context, before, one):
            group = before
        elif _may_be_moved(context, [], one):
            group = []
        else:
            found.append([one])  # where it stands, beside others of its statement
            continue
        last.pop(known, None)
        if not group:
            found.append(group)
        group.append(one)
        last[statement] = group
    yield from found


def _place(context: Context, one: Averaging) -> tuple[str, int, int]:
    place = one.module.place(one.node)
    return str(place.path), place.line, place.column


def _may_be_moved(context: Context, before: Sequence[Averaging], one: Averaging) -> bool:
    """Whether a figure can be computed above the first of the statements; what others leave under is an `if`."""
    statement = one.module.statement(one.node)
    others = dict.fromkeys(each.module.statement(each.node) for each in before)
    passed = [each for each in others if isinstance(each, cst.If) and each is not statement]
    return may_be_early(context.facts, one.module, one.node, passed, [each.node for each in before])


def _is_plain(context: Context, before: Sequence[Averaging], one: Averaging) -> bool:
    """Whether a figure is the same before the statements of others are run, of which it is known what they change."""
    if one.module is not before[0].module:
        return False
    statements = {one.module.statement(each.node): each.node for each in (one, *before)}
    changed = {statement: _changed(context, figure, statement) for statement, figure in statements.items()}
    if any(names is None for names in changed.values()):
        return False
    del changed[one.module.statement(one.node)]  # it is computed before that
    bound = {name for names in changed.values() for name in names or ()}
    mine = {node.value for node in tree.walk(one.node) if isinstance(node, cst.Name)}
    return not mine & bound and all(_is_telling(context, node) for node in tree.walk(one.node))


def _changed(context: Context, figure: cst.CSTNode, statement: cst.CSTNode) -> set[str] | None:
    """The names whose objects a statement may change before what follows it; None where that is not known."""
    if isinstance(statement, cst.If):  # what stands below it is left before what follows
        leaves = _leaves(statement.body)
        inside = any(node is figure for node in tree.walk(statement.test))
        tells = all(_is_telling(context, node) for node in tree.walk(statement.test))
        return set() if inside and leaves and tells and statement.orelse is None else None
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
        return tree.names(small.value.func)
    if isinstance(small, cst.AugAssign):
        return tree.names(small.target)
    if isinstance(small, cst.Assign) and all(_is_telling(context, node) for node in tree.walk(small.value)):
        return {name for target in small.targets for name in tree.names(target.target)}
    return None


def _leaves(body: cst.BaseSuite) -> bool:
    return isinstance(tree.small_statements(body)[-1], (cst.Break, cst.Continue, cst.Return, cst.Raise))


def _is_telling(context: Context, node: cst.CSTNode) -> bool:
    if isinstance(node, (cst.Lambda, cst.BaseComp, cst.NamedExpr, cst.Await, cst.Yield)):
        return False
    if not isinstance(node, cst.Call):
        return True
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in TELLING:
        return True
    names = [str(getattr(obj, "name", "")) for obj in context.facts.value(node.func).objs]
    draws = any(name.startswith(guarded.DRAWS_RANDOM_NUMBERS) for name in names)
    return bool(names) and not draws and all(map(guarded.leaves_nothing, names))


def _at_once(context: Context, together: Sequence[Averaging]) -> None:
    """One line above the first of the statements, which gives each figure a name."""
    module, first = together[0].module, together[0]
    rt, plan = context.rt(module), context.plan(module)
    means = all(one.how is Putting.MEAN for one in together)
    names: dict[str, str] = {}  # by what is put together
    for one in together:
        text = tree.code_of(one.node)
        if not means and one.how is Putting.MEAN:
            text = tree.code_of(call_of(f"{{}} / {rt}.world_size()")(one.node))
        if text not in names:
            names[text] = context.fresh(module, f"global_{_root(context, one)}")
        plan.replace(one.node, instead(cst.Name(names[text])), context.code, one.why)
    function = Putting.MEAN.value if means else Putting.SUM.value
    text = f"{', '.join(names.values())} = {rt}.{function}({', '.join(names)})"
    reason = "all figures of the place in one collective"
    plan.insert_before(module.statement(first.node), text, context.code, reason)


def _root(context: Context, one: Averaging) -> str:
    """`loss` of `torch.sqrt(loss).item()`: what it is a figure of."""
    names = [node for node in tree.walk(one.node) if isinstance(node, cst.Name)]
    data = (node.value for node in names if not any(isinstance(obj, _CODE) for obj in context.facts.value(node).objs))
    return next(data, "").strip("_") or "figure"
