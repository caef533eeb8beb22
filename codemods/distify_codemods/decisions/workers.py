"""Workers of the training loaders that would draw alike on all ranks, and which of them a conversion tells apart."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.batches import Beginning
from distify_codemods.decisions import streams
from distify_codemods.decisions.base import Dealing, Decisions, Link, Sharding
from distify_codemods.facts import Facts, Loader
from distify_codemods.libraries import drawing, seeding
from distify_codemods.objects import External, Function
from distify_codemods.values import Value


def links(decisions: Decisions) -> Iterator[Link]:
    """Those that are not told apart."""
    for loader, link in _alike(decisions):
        if loader.call not in _told_apart(decisions):
            yield link


def are_told_apart(decisions: Decisions, node: cst.Call) -> bool:
    """Whether the workers of what is made here would draw alike, and can be seeded apart where it is made."""
    return node in _told_apart(decisions) and any(loader.call is node for loader, _ in _alike(decisions))


def _told_apart(decisions: Decisions) -> set[cst.Call]:
    """Where a training loader is made by arguments that are all seen. All ranks read a stream as one.

    Where a worker is given generators of its own, or what is not seen, those of a process in common are not all.
    """
    return {
        one.node for one in decisions.loaders
        if one.sharding is Sharding.TRAINING and not one.returned
        and one.dealing not in (Dealing.STREAM, Dealing.EXAMPLES) and not any(arg.star for arg in one.node.args)
        and all(_seeds_streams(decisions.facts, loader.arguments.get("worker_init_fn", 10)) for loader in one.loaders)
    }  # fmt: skip


def _seeds_streams(facts: Facts, started: Value | None) -> bool:
    """Whether it is seen to do nothing but to seed what a process has in common."""
    if _is_nothing(started):
        return True
    objs = started.objs if started is not None else ()
    found = [obj for obj in objs if isinstance(obj, Function) and obj.node is not None]
    calls = ((obj, one) for obj in found for one in tree.walk(obj.node or cst.Pass()) if isinstance(one, cst.Call))
    return 0 < len(found) == len(objs) and all(_is_of_streams(facts, *each) for each in calls)


def _is_nothing(started: Value | None) -> bool:
    """`worker_init_fn=None`, also as what seeds a stream returns it: `worker_init_fn=np.random.seed()`."""
    if started is None or started.is_none:
        return True
    return bool(started.objs) and all(
        isinstance(obj, External) and seeding.is_seeding(obj.name) for obj in started.objs
    )


def _is_of_streams(facts: Facts, function: Function, call: cst.Call) -> bool:
    """By the names of its module: it is called in another process."""
    root, _, rest = (tree.dotted(call.func) or "").partition(".")
    frame = facts.run.frames.get(function.module) if function.module is not None else None
    held = frame.env.get(root) if frame is not None else None
    if held is None:
        return call.func.deep_equals(cst.Name(root)) and root in _BUILTINS
    names = [f"{obj.name}.{rest}".rstrip(".") if isinstance(obj, Ref) else "" for obj in held.objs]
    return bool(names) and all(seeding.is_seeding(name) or name.startswith(seeding.PLAIN) for name in names)


_BUILTINS = frozenset({"int", "print", "len", "range", "hash", "abs", "min", "max"})


def _alike(decisions: Decisions) -> Iterator[tuple[Loader, Link]]:
    facts = decisions.facts
    trained = [loader for loader in facts.loaders if loader.obj in facts.training_loaders and _has_workers(loader)]
    for loader in trained:
        started = loader.arguments.get("worker_init_fn", 10)
        if started is not None and not _is_nothing(started) and not _seeds_apart(started):
            yield loader, Link(
                loader.made.module, loader.made.node,
                "its `worker_init_fn` may give the workers of all ranks the same seeds, and so the same augmentation",
                "a seed that is made of `torch.initial_seed()` differs from rank to rank",
            )  # fmt: skip
        if (given := loader.arguments.get("generator", 12)) is not None and not given.is_none:
            yield loader, Link(
                loader.made.module, loader.made.node,
                "its `generator` gives the workers of all ranks the same seeds, and so the same augmentation",
            )  # fmt: skip
    apart = streams.stretches(decisions)
    for beginning in facts.beginnings if not decisions.slicings else ():
        if _is_of_a_loop(facts, beginning) or any(one.holds(beginning.event) for one in apart):
            continue
        once = _is_thrown_away(beginning)
        for loader in trained:
            if loader.obj in beginning.loaders and not (once and _starts_anew(loader)):
                yield loader, Link(
                    beginning.module, beginning.event.node,
                    "the workers of the training loader are started here, where all ranks draw alike, and augment "
                    "alike", "start them in the training loop: `for batch in loader`",
                )  # fmt: skip


def _is_of_a_loop(facts: Facts, beginning: Beginning) -> bool:
    return any(loop.event.node is beginning.event.node for loop in facts.training_loops)


def _is_thrown_away(beginning: Beginning) -> bool:
    """`next(iter(loader))`, a loop, `list(loader)`: where the iterator has no name that training could go on with."""
    node = beginning.event.node
    if isinstance(node, cst.For):
        return not any(isinstance(one, cst.Yield) for one in tree.walk(node))
    if not isinstance(node, cst.Call) or tree.dotted(node.func) == "list":
        return isinstance(node, cst.Call)
    holder = beginning.module.parents.get(node)
    call = beginning.module.parents.get(holder) if isinstance(holder, cst.Arg) else None
    return tree.dotted(node.func) == "iter" and isinstance(call, cst.Call) and tree.dotted(call.func) == "next"


def _starts_anew(loader: Loader) -> bool:
    """Whether each pass over it starts workers of its own, with seeds that are drawn then."""
    given = loader.arguments
    kept = given.keywords.get("persistent_workers")
    hidden = given.star is not None or given.double_star is not None
    return not hidden and (kept is None or kept.is_none or kept.constant() is False)


def _has_workers(loader: Loader) -> bool:
    given = loader.arguments.get("num_workers", 5)
    if loader.arguments.double_star is not None and given is None:
        return True
    return given is not None and given.constant() != 0


def _seeds_apart(started: Value) -> bool:
    """Whether each seed that a worker is given is made of the one that torch gave it."""
    bodies = [obj.node for obj in started.objs if isinstance(obj, Function) and obj.node is not None]
    return bool(bodies) and len(bodies) == len(started.objs) and all(map(_is_of_torch, bodies))


def _is_of_torch(function: cst.FunctionDef | cst.Lambda) -> bool:
    names = [tree.dotted(node.func) or "" for node in tree.walk(function) if isinstance(node, cst.Call)]
    last = {name.rsplit(".", 1)[-1] for name in names}
    seeds = any("seed" in name.lower() or name in _GENERATORS for name in last)
    return bool(last & {"initial_seed", "get_worker_info"}) or not seeds


_GENERATORS = frozenset(name.rpartition(".")[2] for name in drawing.EVERY_GENERATOR)
