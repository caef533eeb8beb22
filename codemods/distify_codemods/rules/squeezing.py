"""`model(x).squeeze()`: a rank's share may be one sample where the batch had more, and loses its dimension there."""

from __future__ import annotations

import libcst as cst

from distify_codemods import command_line
from distify_codemods.allocation import Const, Obj
from distify_codemods.batches import loaders_of
from distify_codemods.decisions.base import Sharding
from distify_codemods.decisions.loaders_of_one import of_one_sample
from distify_codemods.decisions.single_samples import is_one_sample
from distify_codemods.facts import Facts, Loader
from distify_codemods.libraries.torch_tensors import SQUEEZES
from distify_codemods.objects import Setting
from distify_codemods.origins import Share
from distify_codemods.plan import Rewrite
from distify_codemods.rules.base import Context
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

_REASON = "a rank's share may be one sample, which keeps its dimension"
#: Which dimension is that of the samples.
_DIMENSIONS = {Scale.SAMPLES: 0, Scale.TURNED: 1}
_EVALUATION = (Sharding.SUMS, Sharding.GATHERED)


def run(context: Context) -> bool:
    """Whether there are any, of what ranks have shares of."""
    found = False
    dealt: set[Obj] = {
        loader.obj for one in context.decisions.loaders for loader in one.loaders
        if (one.sharding is Sharding.TRAINING and not of_one_sample(context.facts, loader))
        or (one.sharding in _EVALUATION and _has_several(context.facts, loader))
    }  # fmt: skip
    for module in context.facts.run.frames:
        for node in module.nodes:
            batch = _squeezed(context, node) if isinstance(node, cst.Call) else None
            value = context.facts.value(batch) if batch is not None else NOTHING
            if not isinstance(node, cst.Call) or batch is None or not _is_share(value, dealt):
                continue
            if is_one_sample(context.facts, module, batch):
                continue  # its first dimension is none of samples
            if context.editable(module, node, "a batch is squeezed"):
                found = True
                rewrite = _squeezing(context.rt(module), _DIMENSIONS[value.scale])
                context.plan(module).replace(node, rewrite, context.code, _REASON)
                context.applied(
                    "`squeeze()` leaves the dimension of the samples, of which a rank may have one", module, node
                )
    return found


def _has_several(facts: Facts, loader: Loader) -> bool:
    """Whether its batches are seen to be of more than one sample: else what is one has no dimension in the original
    either. (Of training there is one for each rank at least.)"""
    given = loader.arguments.get("batch_size", 1)
    only = given.single() if given is not None and not given.open else None
    option = command_line.integers(facts).get(only.name) if isinstance(only, Setting) else None
    size = only.value if isinstance(only, Const) else option
    return type(size) is int and size > 1


def _squeezed(context: Context, node: cst.Call) -> cst.BaseExpression | None:
    """What loses all dimensions of one entry there."""
    called = context.facts.run.values.get(node.func)
    if called is not None and any(getattr(obj, "name", "") in SQUEEZES for obj in called.objs):
        return node.args[0].value if len(node.args) == 1 and not node.args[0].star else None
    is_method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "squeeze"
    return node.func.value if isinstance(node.func, cst.Attribute) and is_method and not node.args else None


def _is_share(value: Value, dealt: set[Obj]) -> bool:
    """Whether it is of the samples of a rank, of batches that may have had more than one, always."""
    loaders = loaders_of(value.sources)
    shares = any(isinstance(source, Share) for source in value.sources)
    return value.scale in _DIMENSIONS and (bool(loaders) or shares) and all(one in dealt for one in loaders)


def _squeezing(rt: str, dimension: int) -> Rewrite:
    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(updated, cst.Call)
        given = updated.args[0].value if updated.args else updated.func
        batch = given.value if given is updated.func and isinstance(given, cst.Attribute) else given
        call = cst.parse_expression(f"{rt}.squeeze(batch{f', dim={dimension}' if dimension else ''})")
        assert isinstance(call, cst.Call)
        return call.with_changes(args=[call.args[0].with_changes(value=batch), *call.args[1:]])

    return rewrite
