"""SHARE01: each forward pass of a trained model in training is computed by all ranks, a part of the batch by each."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.decisions.base import SharedPass
from distify_codemods.decisions.entire import computed_entirely
from distify_codemods.decisions.one_sample import given_one_sample
from distify_codemods.decisions.touching import parts_of
from distify_codemods.decisions.writing_passes import writing_passes
from distify_codemods.inside import core
from distify_codemods.interpreter.sparing import TIMES, TIMES_IN_ALL
from distify_codemods.libraries import torch_nn
from distify_codemods.naming import brief
from distify_codemods.program import Module
from distify_codemods.results import Finding, Level
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "SHARE01"
_WHY = "each rank computes its part of the batch in each forward pass, and all see the whole result"


def run(context: Context) -> None:
    if not context.shares_forwards:
        alone = any(context.facts.left_alone(loader) for loader in context.facts.training_loaders)
        but = ", but where READ01 says otherwise" * alone
        for finding in context.against:
            context.advice_at(f"sharded as asked for, against what was seen: {_told(finding)}", finding.place)
        if not context.against:
            context.not_needed(f"each rank trains on its own samples{but}")
        return
    context.tell_blocked()
    for left in context.decisions.unshared if context.decisions.shared else ():
        context.advice(f"{left.message} ({left.fix})", left.module, left.node)
    for text, shared in _lines(context):
        module, plan = shared[0].module, context.plan(shared[0].module)
        statement, after = shared[0].statement, shared[0].after
        if not context.editable(module, statement, "the trained model is built here"):
            continue
        plan.insert(statement, text, CODE, _WHY, 10, after=after)
        for one in shared:
            context.applied(
                f"forward passes of `{one.target}`{_with(one)} are shared where the run's check finds that they can "
                "be; it says so where they cannot", module, statement,
            )  # fmt: skip
    if context.decisions.shared:
        _whole_where_they_write(context)
        _not_compiled(context)
    for whole in computed_entirely(context.facts) if context.decisions.shared else ():
        context.advice(whole.message, whole.module, whole.node)
    for single in given_one_sample(context.facts, (one.held for one in context.decisions.shared)):
        context.advice(single.message, single.module, single.node)
    _spared(context)
    for finding in context.in_the_way:
        but = ", and need you first:" if finding.level is Level.BLOCKING else ", but"
        context.advice_at(f"sharded data would be faster{but} {_told(finding)}", finding.place)


def _whole_where_they_write(context: Context) -> None:
    """Forward passes that print or write see whole batches, and each of them once; so do those that keep something."""
    for one in writing_passes(context.facts):
        does = f"`{brief(one.writes[1])}` {one.does}"
        first = one.first(context.facts)
        if first is None or one.function is None or not context.editable(one.module, one.function, does):
            context.advice(f"{does}, of rank 0's part of the batch", *one.writes)
            continue
        why = f"what {one.does} sees whole batches, on every rank; the modules that it calls are shared"
        context.plan(one.module).insert_before(first, f"{context.rt(one.module)}.compute_whole()", CODE, why)
        does += ", which a constant turns off" * one.unused
        said = f"{does}: computed whole by every rank; the modules that it calls are shared"
        context.applied(said, *one.writes)


def _not_compiled(context: Context) -> None:
    """Of models, and their parts, that are given to a compiler: a shared pass meets the other ranks in its course."""
    shared = {part for one in context.decisions.shared for part in parts_of(core(one.held))}
    for event in context.facts.calls(torch_nn.COMPILES):
        given = [core(obj) for value in event.arguments.all()[:1] for obj in value.objs]
        if not shared.isdisjoint(given):
            context.advice(
                "on several ranks this compiles nothing: a forward pass that is shared runs as it is written",
                event.module, event.node,
            )  # fmt: skip


def _told(finding: Finding) -> str:
    return f"{finding.message} ({finding.fix})" if finding.fix else finding.message


def _spared(context: Context) -> None:
    """Says what was not followed, where a program is too large to follow each call."""
    spared = context.facts.run.machine.spared
    if not spared:
        return
    most = max(spared, key=lambda function: spared[function])
    node = most.node
    assert most.module is not None
    assert node is not None
    name = f"`{node.name.value}`" if isinstance(node, cst.FunctionDef) else "this function"
    context.advice(
        f"the program is too large to follow each call: of calls that look alike the first {TIMES} were followed "
        f"(inside of models, {TIMES_IN_ALL} of a function at most), and "
        f"{sum(spared.values()):,} were not, most of them of {name}; what only those would do was not seen",
        most.module, node,
    )  # fmt: skip


def _lines(context: Context) -> Iterator[tuple[str, list[SharedPass]]]:
    """What is shared from one place on is named in one line."""
    found: dict[tuple[Module, cst.CSTNode, bool, tuple[str, ...], bool], list[SharedPass]] = {}
    for one in context.decisions.shared:
        same = found.setdefault((one.module, one.statement, one.after, one.methods, one.forward), [])
        same += [one] if one.target not in [other.target for other in same] else []
    for (module, _, _, methods, forward), shared in found.items():
        targets = ", ".join(one.target for one in shared)
        named = "".join(f'"{name}", ' for name in methods)
        options = f", methods=({named.strip() if len(methods) == 1 else named.removesuffix(', ')})" if methods else ""
        options += "" if forward else ", forward=False"
        yield f"{context.rt(module)}.data_parallel({targets}{options})", shared


def _with(one: SharedPass) -> str:
    return f", and its {' and '.join(f'`{name}`' for name in one.methods)}," if one.methods else ""


RULE = Rule(
    code=CODE,
    name="shared forward passes",
    why="What comes after the forward pass, losses, metrics, decisions, can be anything. A rank that sees only its own "
    "samples computes another thing there.",
    safety="Where a conversion to sharded data would need you, where something between the batch and the step is not "
    "known (advice says what), or with --strategy shared. Every rank then runs the script as it stands, on the same "
    "batches and with the same random numbers. Each call of a trained model splits the batch over the ranks and "
    "gathers what the model returns; gradients come out whole and equal on all ranks.",
    run=run,
    limits="With --strategy sharded, what speaks against sharded data is advice, and no more. Loading and all that is "
    "not a model's are done by every rank, which costs time where it is much. A script that trains no module, plays an "
    "environment or starts processes of its own is left to a person, and so is one of which each forward pass is seen "
    "to be of one sample that its models do not take apart.",
    examples=(
        Example(
            strategy="shared",
            data="data = TensorDataset(torch.randn(64, 4), torch.randn(64, 2))",
            loader="loader = DataLoader(data, batch_size=8, shuffle=True)",
            model="model = nn.Linear(4, 2)",
            wrap="+ rt.data_parallel(model)",
            apart="",
            epoch="",
            loss="loss = torch.cdist(model(x), y).mean()",
            end="""
            - torch.save(model.state_dict(), "model.pt")
            + if rt.is_main_process():
            +     torch.save(model.state_dict(), "model.pt")
            """,
        ),
        LeftAlone(
            strategy="shared",
            data="data = TensorDataset(torch.randn(64, 4), torch.randn(64, 2))",
            model="weights = nn.Parameter(torch.zeros(4, 2))",
            optimizer="optimizer = torch.optim.SGD([weights], lr=0.1)",
            loss="loss = nn.functional.mse_loss(x @ weights, y)",
        ),
    ),
)
