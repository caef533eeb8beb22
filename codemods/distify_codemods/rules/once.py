"""Where a side effect can go under `if rt.is_main_process():`, and what to write where it cannot."""

from __future__ import annotations

import libcst as cst

from distify_codemods import own_tests, tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.decisions.names import bound_by
from distify_codemods.events import Event, Kind
from distify_codemods.facts import loaders_in
from distify_codemods.inside import core, root
from distify_codemods.interpreter.files import writes_to_a_file
from distify_codemods.libraries import effects, guarded
from distify_codemods.libraries.registry import Role, find, is_tracker, methods
from distify_codemods.objects import Bound, External, Function, Mapping, Method, Sequence
from distify_codemods.ordered import EMPTY
from distify_codemods.program import Module
from distify_codemods.rules.base import Context

_OF_HANDLES = frozenset("write writelines writerow writerows writeheader flush close fileno truncate".split())
#: Methods without effect beyond what they return.
_QUIET = frozenset(
    "format join strip rstrip lstrip split replace upper lower title zfill ljust rjust center encode decode "
    "items keys values get copy item tolist numpy cpu detach float double mean sum min max abs sqrt std clamp "
    "size dim view reshape permute transpose squeeze unsqueeze argmax state_dict named_parameters parameters "
    "total_seconds isoformat strftime timestamp hexdigest as_posix with_suffix with_name joinpath resolve "
    "absolute expanduser exists is_file is_dir get_last_lr to_dict round mkdir read_text read_bytes".split()
)
#: Those of a model that are no forward pass.
_OF_STATE = frozenset("state_dict parameters named_parameters save".split())
_SHARED_METHODS = frozenset({"exists", "is_file", "is_dir", "read_text", "read_bytes"})
_LEAVING = (cst.Return, cst.Break, cst.Continue)
_NEEDED = (
    cst.Yield, cst.Global, cst.Nonlocal, cst.Raise, cst.Del, cst.NamedExpr, cst.FunctionDef, cst.ClassDef, cst.Import,
    cst.ImportFrom, cst.Try, cst.Await,
)  # fmt: skip
_LOOKING = (cst.Subscript, cst.Comparison, cst.BinaryOperation, cst.BooleanOperation, cst.UnaryOperation)
_DEEPEST = 3
_GIVE_DATA = (Role.FUNCTION, Role.IN_PLACE, Role.DATA, Role.SHELL)


def once(context: Context, event: Event, reason: str) -> None:
    """Lets rank 0 alone do what an event does: by a guard, where its statement does nothing that others need."""
    module, node = event.module, event.node
    assert isinstance(node, cst.Call)
    if own_tests.is_the_runtimes(context.facts, module, node):
        return
    statement = guardable(context, event)
    if statement is not None:
        context.plan(module).guard_alone(statement, context.rt(module), context.code, reason)
    elif _is_looked_into(context, event) and not context.is_on_main(module, node):
        context.call_for_all(module, node, reason)
    else:
        context.call_alone(module, node, reason)


def _is_looked_into(context: Context, event: Event) -> bool:
    """`best, epoch = saver.save(...)`: of what it gives all ranks need what rank 0 has."""
    module, call = event.module, event.node
    user = next(iter(module.enclosing(call)), None)
    if isinstance(user, (cst.Assign, cst.AnnAssign)):
        targets = tree.targets(user)
        if any(isinstance(one, (cst.Tuple, cst.List)) for one in targets):
            return True
        names = [one.value for one in targets if isinstance(one, cst.Name)]
        return _gives_data(event) and any(module.flow(user).reads_after(user, name) for name in names)
    if isinstance(user, (cst.Return, cst.Arg, cst.Attribute)):
        return _gives_data(event)
    return isinstance(user, _LOOKING) or (isinstance(user, (cst.If, cst.While, cst.IfExp)) and user.test is call)


def _gives_data(event: Event) -> bool:
    """Whether what a call gives is the name of a file, a number, a text, and nothing that would write on."""
    if event.kind is Kind.CALL:
        return find(event.name, *_GIVE_DATA) is not None
    return event.name in methods(*_GIVE_DATA, Role.CHECKPOINT)


def guardable(context: Context, event: Event) -> cst.CSTNode | None:
    """The statement, as large as it may be, that does nothing but write what the event writes."""
    found: cst.CSTNode | None = None
    for holder in event.module.enclosing(event.node):
        if isinstance(holder, (cst.FunctionDef, cst.Lambda, cst.For, cst.While, cst.ClassDef, cst.BaseComp)):
            break
        large = isinstance(holder, cst.If) and found is not None and _is_about_files(context, event.module, holder)
        large = large or (isinstance(holder, cst.With) and _opens(context, holder))
        if (large or isinstance(holder, cst.Expr)) and only_writes(context, event.module, holder, event.node):
            found = holder
    return found


def _opens(context: Context, block: cst.With) -> bool:
    return any(_is_told_to_write(context, item.item) for item in block.items) or any(
        isinstance(obj, External)
        and (obj.name in effects.STORES or (obj.name in effects.HANDLES and writes_to_a_file(obj)))
        for item in block.items
        for obj in context.facts.value(item.item).objs
    )


def _is_told_to_write(context: Context, opened: cst.BaseExpression) -> bool:
    """`bucket.open(path, "w")`, of whichever library: what has a method of that name and takes a mode opens a file."""
    named = isinstance(opened, cst.Call) and isinstance(opened.func, cst.Attribute) and opened.func.attr.value == "open"
    given = [one.value for one in opened.args] if named and isinstance(opened, cst.Call) else []
    return any(context.facts.value(one).constant() in effects.WRITING_MODES for one in given)


def _is_about_files(context: Context, module: Module, branch: cst.If) -> bool:
    """`if not os.path.isdir(d): os.mkdir(d)`: who looks must be who writes."""
    alone = branch.orelse is None and not tree.is_elif(module.parents, branch)
    return alone and "file" in context.facts.value(branch.test).sources


# ---- what else a statement does


def only_writes(context: Context, module: Module, statement: cst.CSTNode, own: cst.CSTNode | None = None) -> bool:
    """Whether a rank that leaves the statement out goes on as one that does not. `own`: the call that writes."""
    leaves = any(isinstance(node, _LEAVING) for node in tree.walk(statement))
    return not leaves and _is_quiet_code(context, statement, own) and not is_used_later(module, statement)


def _is_quiet_code(context: Context, code: cst.CSTNode, own: cst.CSTNode | None = None, depth: int = 0) -> bool:
    return not any(node is not own and _needed(context, node, depth) for node in tree.walk(code))


def _needed(context: Context, node: cst.CSTNode, depth: int) -> bool:
    """Whether a part of a statement does what every rank has to do."""
    decisions = context.decisions
    figures = [*(one.node for one in decisions.averages), *(one.node for one in decisions.loss_reductions)]
    if isinstance(node, _NEEDED) or any(one is node for one in figures):
        return True
    if any(node in one.before for one in decisions.deferrals):
        return True  # ranks meet before it
    if isinstance(node, cst.AssignTarget):
        return any(isinstance(one, (cst.Attribute, cst.Subscript)) for one in tree.leaves(node.target))
    if isinstance(node, cst.AugAssign):
        return not isinstance(node.target, cst.Name)
    if isinstance(node, cst.Call) and _is_told_to_write(context, node):
        return False
    if isinstance(node, (cst.For, cst.CompFor)):
        return bool(loaders_in(context.facts.value(node.iter)))
    return isinstance(node, cst.Call) and not _is_quiet(context, node, depth)


def _is_quiet(context: Context, call: cst.Call, depth: int) -> bool:
    callee = context.facts.value(call.func)
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if not callee.objs:
        return name in _QUIET or effects.is_writing_method(name, len(call.args))
    return all(_is_quiet_object(context, obj, call, depth) for obj in callee.objs)


def _is_quiet_object(context: Context, obj: Obj, call: cst.Call, depth: int) -> bool:
    if isinstance(obj, Bound):
        return obj.function is not None and _is_quiet_object(context, obj.function, call, depth)
    if isinstance(obj, Function):
        return obj.node is not None and depth < _DEEPEST and _is_quiet_code(context, obj.node.body, depth=depth + 1)
    if isinstance(obj, Ref):
        return _is_quiet_function(context, obj.name, call, depth)
    return isinstance(obj, Method) and _is_quiet_method(context, obj, call, depth)


def _is_quiet_function(context: Context, name: str, call: cst.Call, depth: int) -> bool:
    if depth > 0 and guarded.is_shared(name):
        return False
    about_files = name in effects.WRITES or name in effects.HANDLES or name in effects.STORES
    chance = [value.sources for value in map(context.facts.value, (call, *(one.value for one in call.args)))]
    by_itself = "random" in chance[0] and not any("random" in given for given in chance[1:])
    draws = by_itself or name.startswith(guarded.DRAWS_RANDOM_NUMBERS)
    return about_files or (guarded.leaves_nothing(name) and not draws)


def _is_quiet_method(context: Context, method: Method, call: cst.Call, depth: int) -> bool:
    name, of = method.name, method.receiver.objs if method.receiver is not None else EMPTY
    if name not in _OF_STATE and any(core(one) in context.facts.models for one in of):
        return False  # `model.encode(x)`: a forward pass by another name
    if effects.is_writing_method(name, len(call.args)) or name in _QUIET:
        return depth == 0 or name not in _SHARED_METHODS
    libraries = [one.name for one in map(root, of) if isinstance(one, External)]
    if name == "append":  # one more that keeps the log: `ex.observers.append(...)`
        return 0 < len(of) == len(libraries) and all(map(is_tracker, libraries))
    if name in _OF_HANDLES or name == "open":
        return not any(isinstance(one, (Sequence, Mapping)) for one in of)
    drawn = [isinstance(one, External) and one.name.startswith(guarded.PICTURES) for one in of]
    return any(isinstance(one, Const) for one in of) or (bool(drawn) and all(drawn))


# ---- names that it binds


def is_used_later(module: Module, block: cst.CSTNode) -> bool:
    """Whether a name that is bound inside may be read outside with that value."""
    flow, inside = module.flow(block), set(tree.walk(block))
    return any(node not in inside for name in bound_by(block) for node in flow.reads_after(block, name, deleted=True))
