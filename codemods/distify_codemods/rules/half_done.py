"""OLD02: what a script does of its own to be distributed gives way to what the conversion does."""

from __future__ import annotations

import libcst as cst

from distify_codemods import half_done, tree
from distify_codemods.allocation import Ref
from distify_codemods.arguments import bound
from distify_codemods.decisions.base import Sharding
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import distributed, python, torch_data
from distify_codemods.rules import shards
from distify_codemods.rules.base import Context, Rule, instead
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "OLD02"
_GONE = {
    distributed.GROUP: "the runtime joins the process group",
    distributed.LEAVES: "the runtime leaves the process group at exit",
}


def run(context: Context) -> None:
    calls = context.facts.calls(distributed.GROUP, distributed.SPAWN)
    shards.leave_whole(context, CODE)
    unfinished = bool(calls) and not context.shares_forwards
    if not unfinished:
        _keep_what_the_launcher_says(context)
    if not calls and not any(one.code == CODE for one in context.findings):
        context.not_needed_if_known("the script does nothing of its own to be distributed")
    if not unfinished:
        return
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD, Kind.STORE):
        _one(context, event)
    for loader in context.facts.loaders:
        used = any(loader.obj in loop.loaders for loop in context.facts.evaluation_loops)
        dealt = context.decisions.sharding_of(loader.obj) in (Sharding.TRAINING, Sharding.SUMS)
        if used and not dealt and half_done.samplers(loader):
            context.needs_you(
                "this evaluation is dealt out by a DistributedSampler, which counts some samples twice",
                loader.made.module, loader.made.node, "give its loader no sampler: the conversion deals it out",
            )  # fmt: skip
    _dealt_by_hand(context)
    if context.facts.training_loaders:
        context.advice(
            "what the script calls its batch size is now that of all ranks together, as in one process; "
            "`--scale none` leaves it to each rank", calls[0].module, calls[0].node,
        )  # fmt: skip
    context.applied("what was half done is finished", calls[0].module, calls[0].node)


def _keep_what_the_launcher_says(context: Context) -> None:
    """`os.environ["WORLD_SIZE"] = "1"` would have each rank train as if alone: it holds where no launcher is."""
    for event in context.facts.of_kind(Kind.STORE):
        target, module = event.node, event.module
        if event.name != "[]" or not _is_of_launcher(context, target):
            continue
        statement = module.parents.get(module.parents[target])
        if not isinstance(statement, cst.Assign) or len(statement.targets) > 1:
            context.needs_you("this changes what a launcher tells ranks who they are by", module, target, "take it out")
            continue
        assert isinstance(target, cst.Subscript)
        key, value = tree.code_of(target.slice[0].slice), tree.code_of(statement.value)
        new = cst.parse_expression(f"{tree.code_of(target.value)}.get({key}, {value})")
        reason = "what the launcher says of ranks holds; without one, what the script says"
        context.plan(module).replace(statement.value, instead(new), CODE, reason)
        context.applied("the launcher says who ranks are, and where they meet", module, target)


def _one(context: Context, event: Event) -> None:
    if event.kind is Kind.STORE:
        if event.name == "[]" and _is_of_launcher(context, event.node):
            _remove(context, event, "the launcher says where ranks meet, and who they are")
    elif event.name in _GONE:
        _remove(context, event, _GONE[event.name])
    elif event.name == distributed.SPAWN:
        _call_instead(context, event)
    elif event.kind is Kind.METHOD:
        if event.name == python.DECLARES:
            _local_rank(context, event)
    elif event.name == torch_data.OF_A_RANK:
        _of_this_group(context, event)
    elif distributed.is_collective(event.name):
        context.needs_you(
            f"the script lets ranks meet by itself (`{event.name.removeprefix('torch.')}`), and some of them once more "
            "after the conversion", event.module, event.node,
            "take it out: what is computed over the ranks' shares is put together by the conversion",
        )  # fmt: skip


def _dealt_by_hand(context: Context) -> None:
    """`data[rank::size]`, `range(rank, len(data), size)`: a share, of which each rank would get a share again."""
    for module in context.facts.run.frames:
        for node in module.nodes:
            cuts = isinstance(node, cst.Slice) or (
                isinstance(node, cst.Call) and (tree.dotted(node.func) or "") == "range"
            )
            if cuts and half_done.asks_for_rank(context.facts, node):
                context.needs_you(
                    "the script deals out its data by the number of the rank", module, node,
                    "take all of it on every rank: the conversion deals it out",
                )  # fmt: skip


def _is_of_launcher(context: Context, target: cst.CSTNode) -> bool:
    if not isinstance(target, cst.Subscript) or not isinstance(target.slice[0].slice, cst.Index):
        return False
    holder = context.facts.value(target.value).single()
    key = tree.string(target.slice[0].slice.value)
    return isinstance(holder, Ref) and holder.name == python.ENVIRONMENT and key in distributed.LAUNCHER


def _remove(context: Context, event: Event, reason: str) -> None:
    parent = event.module.parents[event.node]
    if isinstance(parent, cst.AssignTarget):
        parent = event.module.parents[parent]
    if isinstance(parent, cst.BaseSmallStatement):
        context.plan(event.module).remove(parent, CODE, reason)
    else:
        context.needs_you(f"{reason}: this does it too", event.module, event.node, "take it out")


def _call_instead(context: Context, event: Event) -> None:
    """`mp.spawn(work, args=(2, a), nprocs=2)` becomes `work(rt.rank(), rt.world_size(), a)`."""
    node, module = event.node, event.module
    assert isinstance(node, cst.Call)
    given = bound(node, ("fn", "args", "nprocs", "join"))
    args = given["args"].value if "args" in given else cst.Tuple([])
    if "fn" not in given or not isinstance(args, (cst.Tuple, cst.List)):
        context.needs_you(
            "processes are started here with arguments that are not seen", module, node,
            "call the function that they run, with `rt.rank()` first: the launcher starts the processes",
        )  # fmt: skip
        return
    rt = context.rt(module)
    sizes = _world_sizes(context, event)
    texts = [
        f"{rt}.world_size()" if place in sizes else tree.code_of(one.value) for place, one in enumerate(args.elements)
    ]
    text = f"{tree.code_of(given['fn'].value)}({', '.join([f'{rt}.rank()', *texts])})"
    new = context.text(module, text)
    context.plan(module).replace(node, instead(new), CODE, "the launcher starts the processes")


def _world_sizes(context: Context, spawn: Event) -> set[int]:
    """Which of the arguments of the function that is spawned are the number of processes."""
    given = spawn.arguments.get("fn", 0)
    found: set[int] = set()
    for obj in given.objs if given is not None else ():
        function = getattr(obj, "node", None)
        if not isinstance(function, cst.FunctionDef):
            continue
        names = [one.name.value for one in function.params.params][1:]
        for event in context.facts.calls(distributed.GROUP, torch_data.OF_A_RANK):
            for name in ("world_size", "num_replicas"):
                size = tree.keywords(event.node).get(name)
                told = tree.dotted(size) if size is not None else None
                found |= {place for place, one in enumerate(names) if one == told}
    return found


def _local_rank(context: Context, event: Event) -> None:
    """torchrun gives the number of a process in the environment, and no argument."""
    node = event.node
    assert isinstance(node, cst.Call)
    options = {tree.string(arg.value) for arg in node.args if arg.keyword is None}
    if not options & {"--local_rank", "--local-rank"}:
        return
    text = f"{context.rt(event.module)}.local_rank()"
    plan = context.plan(event.module)
    plan.set_keyword(node, "default", text, CODE, "the launcher's environment has it, no argument does")
    if "required" in tree.keywords(node):
        plan.drop_keyword(node, "required")


def _of_this_group(context: Context, event: Event) -> None:
    """The group knows its size and each rank's number; a variable of the script's may not."""
    node = event.node
    assert isinstance(node, cst.Call)
    for name in ("num_replicas", "rank"):
        if name in bound(node, torch_data.OF_A_SAMPLER):
            context.plan(event.module).drop_keyword(node, name)


RULE = Rule(
    code=CODE,
    name="half-distributed scripts",
    why="Models in DistributedDataParallel that all train on the same samples, or samples that are dealt out to models "
    "which never hear of each other, cost as much as distributed training and are none.",
    safety="Where torch's own means are there in part, the rest is added: what wraps, joins or starts processes gives "
    "way to the runtime's, a DistributedSampler stays. The reference is the script in one process, and its batch size "
    "that of all ranks. Collectives of the script's own need you.",
    run=run,
    pitfalls=(36, 40),
    examples=(
        Example(
            torch="""
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, TensorDataset
            """,
            ours="+ import distify_runtime as rt",
            group="""
            - dist.init_process_group("nccl")
              {group}
            """,
            model="""
            - model = DistributedDataParallel(nn.Linear(4, 1))
            + model = nn.Linear(4, 1)
            """,
            end="""
              if dist.get_rank() == 0:
            -     torch.save(model.module.state_dict(), "net.pt")
            +     if rt.is_main_process():
            +         torch.save(model.module.state_dict(), "net.pt")
            - dist.destroy_process_group()
            """,
        ),
        LeftAlone(),
    ),
)
