"""DEVICE01: one process, one device; every spelling of a device number means the rank's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.command_line import is_integer
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import devices
from distify_codemods.objects import Setting
from distify_codemods.program import Module
from distify_codemods.rules import apple, device_map, device_options, device_texts, gpu_counts, visible_devices
from distify_codemods.rules.base import Context, Rule, instead
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "DEVICE01"
_NUMBERED = re.compile(r"^cuda:(\d+)$")
#: A script in which none of these words stands names no device.
_DEVICE = re.compile("cuda|gpu|device|accelerat|mps|xpu|hpu|npu", re.IGNORECASE)
_REASON = "`cuda` is the rank's own GPU, which the process group has set; a number would put every rank on one"


def run(context: Context) -> None:
    numbered = list(_numbered(context))
    named = [one for one in numbered if one[2] and not _is_choice(*one[:2])]
    if len({index for *_, index in named}) > 1:
        arriving = _given_elsewhere(context)
        named = [one for one in named if one[1] in arriving or not _is_kept(*one[:2])]
    indices = {index for *_, index in named}
    if len(indices) > 1:
        module, node, _ = named[0]
        context.needs_you(
            f"tensors are put on several GPUs ({', '.join(sorted(indices))}): a model-parallel script",
            module, node, "data parallelism needs a model that fits on one GPU",
        )  # fmt: skip
        return
    changed = device_texts.run(context, {part for _, node, _ in numbered for part in tree.walk(node)})
    for module, node, _ in numbered:
        if context.editable(module, node, "a GPU is named by its number"):
            context.plan(module).replace(node, _plain_cuda, CODE, _REASON)
            changed = True
    read = visible_devices.readings(context)
    changed = sum(_of_event(context, event, read) for event in context.facts.run.events) > 0 or changed
    found = [part.run(context) for part in (gpu_counts, device_map, device_options, apple)]
    if changed:
        return context.applied(f"device numbers mean the rank's own GPU{device_texts.unless(context)}")
    if not any(found):
        context.not_needed_if_known(_unnumbered(context))


def _unnumbered(context: Context) -> str:
    unless = device_texts.unless(context)
    if not unless and not any(map(_speaks_of_devices, context.facts.run.frames)):
        return "no device is named: what no library moves to a GPU, each rank computes on the CPU"
    own = "`cuda` means the rank's own, which the process group sets"
    return f"no GPU is named by its number{unless}; {own}"


def _speaks_of_devices(module: Module) -> bool:
    spoken = (node.value for node in module.nodes if isinstance(node, (cst.Name, cst.SimpleString)))
    return any(_DEVICE.search(text) for text in spoken) or any(
        isinstance(node, cst.FormattedStringText) and _DEVICE.search(node.value) for node in module.nodes
    )


def _is_choice(module: Module, node: cst.CSTNode) -> bool:
    """Whether a GPU is one of those that an option may name, and not one that the script uses."""
    around = (one for one in module.enclosing(node) if isinstance(one, cst.Arg))
    return any(arg.keyword is not None and arg.keyword.value == "choices" for arg in around)


def _is_kept(module: Module, node: cst.CSTNode) -> bool:
    """Whether a GPU is named as a default, or under a name: nothing is put there unless somebody reads it."""
    return isinstance(module.parents[node], (cst.Param, cst.Assign, cst.AnnAssign))


def _given_elsewhere(context: Context) -> set[cst.CSTNode | None]:
    """The literals that some other expression gives: a default that each call overrides is none of them."""
    run = context.facts.run
    return {
        obj.site
        for module in run.frames for node in module.nodes
        if node in run.values and not _is_bound(node, module.parents.get(node))
        for obj in run.values[node].objs if obj.site is not node
    }  # fmt: skip


def _is_bound(node: cst.CSTNode, holder: cst.CSTNode | None) -> bool:
    return isinstance(holder, (cst.AssignTarget, cst.AnnAssign)) and holder.target is node


def _plain_cuda(updated: cst.BaseExpression) -> cst.BaseExpression:
    quote = "'" if "'" in tree.code_of(updated)[:3] else '"'
    return cst.SimpleString(f"{quote}cuda{quote}")


def _numbered(context: Context) -> Iterator[tuple[Module, cst.BaseExpression, str]]:
    """Expressions that spell `cuda:N`, each with its file and, where it is a literal, its number."""
    for module in context.facts.run.frames:
        for node in module.nodes:
            known = _begins_with_cuda(node) and node in context.facts.run.values
            if not known or _in_device_table(module, node):
                continue
            assert isinstance(node, cst.BaseExpression)
            match = _NUMBERED.match(tree.string(node) or "")
            if match:
                if isinstance(module.parents[node], cst.ConcatenatedString):
                    continue
                yield module, node, match.group(1)
            elif isinstance(node, cst.FormattedString):
                yield module, node, ""
            else:
                whole = _computed(module, node)
                if whole is not None:
                    yield module, whole, ""


def _computed(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """`"cuda:" + str(gpu)`, `"cuda:%d" % gpu`, `"cuda:{}".format(gpu)`."""
    parent = module.parents[node]
    if isinstance(parent, cst.BinaryOperation) and parent.left is node:
        return parent
    holder = module.parents.get(parent)
    if isinstance(parent, cst.Attribute) and parent.attr.value == "format" and isinstance(holder, cst.Call):
        return holder
    return None


def _begins_with_cuda(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.FormattedString):
        first = node.parts[0] if node.parts else None
        return isinstance(first, cst.FormattedStringText) and first.value.startswith("cuda:")
    return isinstance(node, cst.BaseString) and (tree.string(node) or "").startswith("cuda:")


def _in_device_table(module: Module, node: cst.CSTNode) -> bool:
    """In `map_location={"cuda:1": "cuda:0"}`, which is replaced as a whole."""
    parent = module.parents[node]
    if not isinstance(parent, cst.DictElement):
        return False
    argument = module.parents[module.parents[parent]]
    return isinstance(argument, cst.Arg) and argument.keyword is not None and argument.keyword.value == "map_location"


def _of_event(context: Context, event: Event, read: list[Event]) -> bool:
    node = event.node
    if visible_devices.is_set(context, event):
        return _hidden(context, event, read)
    if not isinstance(node, cst.Call) or not node.args:
        return False
    named = tree.keywords(node).get("device")
    if named is not None and event.name != "cuda" and not event.name.startswith(devices.CUDA):
        return _by_number(context, event, named, named, negative=False)
    spell = _SPELLINGS.get((event.kind, event.name))
    return spell is not None and spell(context, event, node)


def _made(context: Context, event: Event, node: cst.Call) -> bool:
    """`torch.device("cuda", 1)`"""
    if len(node.args) > 1:
        return _replace(context, event, node, "device")
    return _by_number(context, event, node.args[0].value, node)


def _moved(context: Context, event: Event, node: cst.Call) -> bool:
    """`model.to(1)`"""
    first = node.args[0].value
    return _by_number(context, event, first, first)


def _by_number(
    context: Context, event: Event, given: cst.BaseExpression, whole: cst.BaseExpression, negative: bool = True
) -> bool:
    """Replaces the whole where a number is given; where an option chooses between one and "cpu", the number alone."""
    if isinstance(given, cst.IfExp) and _is_optional(context, given.test):
        arms = [one for one in (given.body, given.orelse) if is_integer(context.facts, one, negative)]
        if len(arms) == 1:
            return _replace(context, event, arms[0], "device")
    return is_integer(context.facts, given, negative) and _replace(context, event, whole, "device")


def _is_optional(context: Context, test: cst.BaseExpression) -> bool:
    """Whether the person who starts the script has a say in it."""
    return any(isinstance(obj, Setting) for one in tree.walk(test) for obj in context.facts.value(one).objs)


def _hidden(context: Context, event: Event, read: list[Event]) -> bool:
    """A fixed list of GPUs goes; where the script reads it again, it goes by another name."""
    if not read:
        gone = _remove(context, event, "the launcher gives each rank its GPU; a list would hide it")
        if gone:
            visible_devices.tell_the_launcher(context, event)
        return gone
    if not context.editable(event.module, event.node, "the GPU is chosen here"):
        return False
    if visible_devices.rename(context, event, read):
        visible_devices.tell_the_launcher(context, event)
    else:
        message = "a list of GPUs is set here, where each rank has its own, and read again"
        context.needs_you(message, event.module, event.node, "remove it here, and what reads it")
    return True


def _remove(context: Context, event: Event, reason: str) -> bool:
    parent = event.module.parents[event.node]
    if isinstance(parent, cst.AssignTarget):
        parent = event.module.parents[parent]
    if not isinstance(parent, cst.BaseSmallStatement):
        context.needs_you("the GPU is chosen here", event.module, event.node, "remove it: each rank has its own GPU")
        return False
    if not context.editable(event.module, event.node, "the GPU is chosen here"):
        return False
    context.plan(event.module).remove(parent, CODE, reason)
    return True


def _replace(context: Context, event: Event, node: cst.BaseExpression, function: str) -> bool:
    if not context.editable(event.module, node, "a GPU is named by its number"):
        return False
    new = context.text(event.module, f"{context.rt(event.module)}.{function}()")
    context.plan(event.module).replace(node, instead(new), CODE, "the rank's own device")
    return True


def _cuda_call(context: Context, event: Event, node: cst.Call) -> bool:
    """`.cuda(0)`, `.cuda(args.gpu)`, `.cuda(device=gpu)`; `.cuda(non_blocking=True)` stays."""
    kept = [
        arg
        for arg in node.args
        if arg.keyword is not None and arg.keyword.value in ("non_blocking", "async", "memory_format")
    ]
    if len(kept) == len(node.args) or not context.editable(event.module, node, "a GPU is named by its number"):
        return False
    kept = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) if arg is kept[-1] else arg for arg in kept]

    def without(updated: cst.BaseExpression) -> cst.BaseExpression:
        return updated.with_changes(args=kept)

    context.plan(event.module).replace(node, without, CODE, _REASON)
    return True


#: What names a GPU by its number, and how it is spelled for a rank.
_SPELLINGS: dict[tuple[Kind, str], Callable[[Context, Event, cst.Call], bool]] = {
    (Kind.CALL, devices.CHOOSES): lambda context, event, _: _remove(
        context, event, "the process group has set the rank's GPU"
    ),
    (Kind.CALL, devices.UNDER): lambda context, event, node: _replace(context, event, node.args[0].value, "gpu_index"),
    (Kind.CALL, devices.DEVICE): _made,
    (Kind.METHOD, "cuda"): _cuda_call,
    (Kind.METHOD, "to"): _moved,
}

RULE = Rule(
    code=CODE,
    name="device pinning",
    why="A GPU named by its number puts every rank on that one GPU: it runs out of memory, and the others idle.",
    safety="The process group sets the rank's GPU, so that `cuda` and `.cuda()` mean it and stay as they are. "
    "Numbers, `set_device` and `CUDA_VISIBLE_DEVICES` go; a list that is read again gets another name. What goes by "
    "the number of GPUs, or spreads a model over them, goes by the rank's one. Several GPUs by number are refused. Of "
    "`--device cuda:1` on the command line the number goes, too.",
    run=run,
    pitfalls=(13, 37, 38),
    examples=(
        Example(
            group="""
            - device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
            + device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
              {group}
            """,
            model="model = nn.Linear(4, 1).to(device)",
            loss="x, y = x.to(device), y.to(device)\n{loss}",
        ),
        Example(
            torch="import os\n\n{torch}",
            group="""
            - os.environ["CUDA_VISIBLE_DEVICES"] = "0"
              {group}
            """,
            model="""
            - model = nn.Linear(4, 1).cuda(0)
            + model = nn.Linear(4, 1).cuda()
            """,
            loss="""
            - x, y = x.cuda(0), y.cuda(0)
            + x, y = x.cuda(), y.cuda()
              {loss}
            """,
        ),
        LeftAlone(
            group='device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
            model="model = nn.Linear(4, 1).to(device)",
            loss="x, y = x.to(device), y.to(device)\n{loss}",
        ),
    ),
)
