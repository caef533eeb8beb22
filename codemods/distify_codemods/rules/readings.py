"""READ01: nothing is guessed: where two readings are possible a person chooses, and what they have chosen is said."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions.doubts import CODE
from distify_codemods.facts import Facts
from distify_codemods.objects import External
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import LeftAlone

#: Rules without whose edits the ranks would train apart, or run files as they were.
_ESSENTIAL = frozenset({"GROUP01", "SHARE01", "MODEL01", "IMPORT01"})


def run(context: Context) -> None:
    before = len(context.findings)
    context.tell_blocked()
    for obj, who in context.facts.settled.models.items():
        _settled_model(context, obj, who)
    for obj, who in context.facts.settled.not_models.items():
        _settled_as_none(context, obj, who)
    for loader, who in context.facts.settled.train_loaders.items():
        _settled_loader(context, loader, who)
    for problem in context.facts.settled.unused:
        context.advice(problem)
    _left_alone(context)
    if len(context.findings) == before:
        context.not_needed("nothing can be read in two ways, and nothing is to be left alone")


# ---- what the user has settled


def _settled_model(context: Context, obj: Obj, who: str) -> None:
    facts, name = context.facts, context.facts.names.of(obj)
    module, node = _made(obj)
    given = [one for one in facts.optimizers if obj in one.models]
    if module is None or node is None:
        return
    if given:
        context.applied(f"`{name}` is a trained model, as you say (`{who}`)", module, node)
    else:
        context.advice(
            f"`{name}` is {'shared' if context.shares_forwards else 'wrapped'}, as you say (`{who}`), though no "
            "optimizer is seen to have its parameters", module, node,
        )  # fmt: skip


def _settled_as_none(context: Context, obj: Obj, who: str) -> None:
    facts = context.facts
    optimizer = next((one for one in facts.optimizers if one.obj is obj), None)
    trained = any(obj in one.not_models for one in facts.optimizers)
    module, node = _made(obj)
    if module is None or node is None or not (optimizer or trained):
        return
    what = f"what `{facts.names.of(obj)}` trains" if optimizer else f"`{facts.names.of(obj)}`"
    if context.shares_forwards:
        context.advice(f"{what} is not shared, as you say (`{who}`): each rank computes all of it", module, node)
        return
    context.advice(
        f"{what} is not wrapped, as you say (`{who}`): each rank trains it on its own share, and the ranks' copies "
        "drift apart unless its gradients are averaged by hand",
        module, node,
    )  # fmt: skip


def _settled_loader(context: Context, loader: External, who: str) -> None:
    facts, name = context.facts, context.facts.names.of(loader)
    module, node = _made(loader)
    if module is None or node is None or context.shares_forwards:  # nothing hangs on it where all ranks load alike
        return
    if any(loader in event.receiver.sources for event in facts.backwards):
        context.applied(f"`{name}` is a training loader, as you say (`{who}`)", module, node)
    else:
        context.advice(
            f"`{name}` is dealt out as a training loader, as you say (`{who}`), though no backward pass of its batches "
            "is seen", module, node,
        )  # fmt: skip
    for other in _excluded(facts, loader):
        module, node = _made(other)
        if module is not None and node is not None:
            context.advice(
                f"`{facts.names.of(other)}` shares a loop with `{name}` and is not named as a training loader: every "
                "rank goes through all of it", module, node,
            )  # fmt: skip


def _excluded(facts: Facts, loader: External) -> list[External]:
    """Loaders that share a loop with a training loader and are none."""
    nodes = {loop.node for loop in facts.training_loops if loader in loop.trained}
    return list(
        dict.fromkeys(
            one
            for loop in facts.loops
            if loop.node in nodes
            for one in loop.loaders
            if one not in facts.training_loaders
        )
    )


def _made(obj: Obj) -> tuple[Module | None, cst.CSTNode | None]:
    known = obj.module is not None and obj.site in obj.module.parents
    return (obj.module, obj.site) if known else (None, None)


# ---- what the user leaves alone


def _left_alone(context: Context) -> None:
    told: dict[tuple[Module, cst.CSTNode], list[str]] = {}
    for module in context.facts.program.modules.values():
        for directive in module.directives:
            if directive.word == "skip" and module.skipped(directive.about) is directive.about:
                told[module, directive.about] = []
    for (module, statement), missing in told.items():
        for change in context.plan(module).left_alone.get(statement, ()):
            if change.code in _ESSENTIAL:
                context.needs_you(
                    f"a comment leaves this alone, and line {change.place.line} must change: {change.reason}",
                    module, statement, "make the comment `# distify: skip` one of smaller parts of it",
                )  # fmt: skip
            else:
                missing.append(f"not done: {change.reason} ({change.code})")
        missing += [message for where, node, message in context.left_alone if (where, node) == (module, statement)]
        missing += _loaders(context, module, statement)
        why = "; ".join(dict.fromkeys(missing)) or "nothing would change here anyway"
        context.advice(f"left alone, as you say (`# distify: skip`): {why}", module, statement)


def _loaders(context: Context, module: Module, statement: cst.CSTNode) -> Iterator[str]:
    for loader in context.facts.training_loaders:
        if loader.module is module and loader.site is not None and module.skipped(loader.site) is statement:
            yield f"every rank trains on all of `{context.facts.names.of(loader)}`, in batches of the size given"


RULE = Rule(
    code=CODE,
    name="readings",
    why="What a script means can be in doubt: a guess that is wrong trains another model, or half of one.",
    safety="A doubt is left to a person, with both readings. `--model`, `--train-loader`, `[tool.distify]` and "
    "comments settle it; they are followed also against what is seen, and the checklist says so.",
    run=run,
    pitfalls=(40,),
    examples=(
        LeftAlone(end='torch.save(torch.get_rng_state(), "rng.pt")  # distify: skip'),
        LeftAlone(
            torch="{torch}\nfrom timm.optim import param_groups_weight_decay",
            optimizer="optimizer = torch.optim.SGD(param_groups_weight_decay(model), lr=0.1)",
        ),
        LeftAlone(),
    ),
)
