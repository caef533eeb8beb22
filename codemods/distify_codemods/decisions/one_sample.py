"""Training that gives a model one sample in each forward pass: of that, ranks can share nothing.

It shows in the text, where a batch is made of one (`x.unsqueeze(0)`, `torch.stack([x])`, `torch.tensor([[2, 3]])`), and
in the batch size of a loader; an item of a list may be one. A model may still take it apart inside, into patches or
words, so that this is advice; where it is seen that it does not (`apart_inside.py`), and that no other pass has more,
every rank would do all of the work: that is no conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.apart_inside import takes_none_apart
from distify_codemods.decisions.entire import Entire
from distify_codemods.decisions.training_calls import in_training
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, loaders_of
from distify_codemods.inside import core
from distify_codemods.libraries import in_place
from distify_codemods.naming import brief
from distify_codemods.objects import Function, Sequence
from distify_codemods.program import Module

#: Methods after which a tensor, or what holds some, has as many samples as before.
_KEEPING = frozenset("to cuda cpu float double half long int bool detach clone contiguous requires_grad_".split())
#: What a tokenizer is told that is to give tensors, of a list of texts.
_TOKENS = "return_tensors"
#: Functions that make a tensor of the lists that they are given.
_LITERAL = frozenset(["tensor", "as_tensor", "asarray", "array", "LongTensor", "FloatTensor", "IntTensor"])
#: What makes a tensor of the rows that it is given.
_OF_ROWS = _LITERAL | {"from_numpy"}
#: What makes a tensor of the shape of another, and what puts tensors beside each other.
_LIKE = frozenset(["ones_like", "zeros_like", "full_like", "rand_like", "randn_like", "empty_like"])
_JOINS = frozenset(["cat", "concat", "concatenate"])
#: What gives a tensor a first dimension of one; and what makes one of the sizes that it is given.
_ADDING = frozenset(["unsqueeze", "expand_dims"])
_SIZED = frozenset(["randn", "rand", "zeros", "ones", "empty", "full"])
_DEEPEST = 16


def given_one_sample(facts: Facts, models: Iterable[Obj]) -> Iterator[Entire]:
    """The models, each at its first call, whose calls in training are all seen to be given one sample."""
    for model in dict.fromkeys(models):
        calls = [
            event for event in facts.of_kind(Kind.FORWARD)
            if any(core(obj) is model for obj in event.receiver.objs) and in_training(facts, event)
        ]  # fmt: skip
        ones = [_of_one(facts, event) for event in calls]
        if calls and all(ones):
            yield Entire(calls[0].module, calls[0].node, _told(facts, model, ones[0]))
            continue
        items = [one or _of_a_list(facts, event) for one, event in zip(ones, calls, strict=True)]
        if calls and all(items):
            yield Entire(calls[0].module, calls[0].node, _told_of_items(facts, model, items[0]))


def nothing_to_share(facts: Facts, models: Iterable[Obj]) -> Entire | None:
    """Where all passes of all of these models are seen to be of one sample, which none takes apart: the first."""
    if any(event.name in in_place.RESHAPING for event in facts.of_kind(Kind.METHOD)):
        return None  # what has how many rows then is not followed
    first: Entire | None = None
    for model in dict.fromkeys(models):
        calls = [one for one in facts.of_kind(Kind.FORWARD) if any(core(obj) is model for obj in one.receiver.objs)]
        ones = [_of_nothing_else(facts, event) for event in calls]
        if not calls or not all(ones) or not takes_none_apart(facts, model) or _is_handed_over(facts, model):
            return None
        told = (
            f"each forward pass of `{facts.names.of(model)}` is given one sample ({ones[0]}), which it does not take "
            "apart: there is nothing to share, and every rank would do all of the work"
        )
        first = first or Entire(calls[0].module, calls[0].node, told)
    return first


def _of_nothing_else(facts: Facts, event: Event) -> str:
    """What makes each of its arguments one sample; what is no tensor is none."""
    if not isinstance(event.node, cst.Call):
        return ""
    found = [
        _made_of_one(facts, event.module, one.value, _DEEPEST)
        or _of_a_loader(facts, event.module, one.value, True)
        or (f"`{brief(one.value)}` has one row" if facts.value(one.value).one_row else "")
        for one in event.node.args
        if not facts.value(one.value).are_literals
    ]
    return found[0] if found and all(found) and not any(one.star for one in event.node.args) else ""


def _is_handed_over(facts: Facts, model: Obj) -> bool:
    """Whether something that is not known may call it, with whatever it has."""
    for event in facts.of_kind(Kind.CALL, Kind.METHOD):
        known = event.kind is Kind.CALL and event.name.startswith(("torch.", "builtins.", "copy.", "local."))
        if not known and any(core(obj) is model for value in event.arguments.all() for obj in value.objs):
            return True
    return False


def _told(facts: Facts, model: Obj, made: str) -> str:
    return (
        f"each forward pass of `{facts.names.of(model)}` in training is given one sample ({made}): unless the model "
        "takes it apart, there is nothing to share, and every rank does all of the work, which is right but no faster; "
        "with several samples in a step there would be"
    )


def _told_of_items(facts: Facts, model: Obj, item: str) -> str:
    return (
        f"each forward pass of `{facts.names.of(model)}` in training is given {item}: where that is one sample, and "
        "the model does not take it apart, there is nothing to share, and every rank does all of the work; with "
        "several samples in a step there would be"
    )


def _of_a_list(facts: Facts, event: Event) -> str:
    """`for x, y in rows: model(x)`, of a list of the script's own: one of its items."""
    given = event.node.args[0].value if isinstance(event.node, cst.Call) and event.node.args else None
    while isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute) and given.func.attr.value in _KEEPING:
        given = given.func.value
    if not isinstance(given, cst.Name):
        return ""
    found = [_list_behind(facts, event.module, bound) for bound in event.module.flow(given).reaching(given)]
    return f"one item of `{brief(found[0])}`" if found and found[0] is not None and None not in found else ""


def _list_behind(facts: Facts, module: Module, bound: cst.CSTNode) -> cst.BaseExpression | None:
    """The list that a loop goes over whose variable this is."""
    loop = next((one for one in module.enclosing(bound) if isinstance(one, cst.For)), None)
    if loop is None or not any(bound is node for node in tree.walk(loop.target)):
        return None
    over = facts.value(loop.iter)
    lists = [isinstance(obj, Sequence) and not obj.deals and not obj.per_sample for obj in over.objs]
    return loop.iter if lists and all(lists) and not over.open and not loaders_of(over.sources) else None


def _of_one(facts: Facts, event: Event) -> str:
    """What makes the first argument of a call one sample; empty where that is not seen."""
    if not isinstance(event.node, cst.Call) or not event.node.args:
        return ""
    given, grows = event.node.args[0].value, facts.program.options.per_rank_batch
    made = _made_of_one(facts, event.module, given, _DEEPEST)
    return made or ("" if grows else _of_a_loader(facts, event.module, given))


def _of_a_loader(facts: Facts, module: Module, given: cst.BaseExpression, surely: bool = False) -> str:
    """`surely`: not where it may be the one sample of the batch that is taken out of it, which may be several."""
    if not _is_a_batch(module, given, _DEEPEST, surely):
        return ""
    loaders = loaders_of(facts.value(given).sources)
    sizes = [one.arguments.get("batch_size", 1) for one in loaders if one.arguments is not None]
    plain = all(
        one.arguments is not None and one.arguments.double_star is None and one.arguments.star is None
        and not {"batch_sampler", "collate_fn"} & one.arguments.keywords.keys()
        for one in loaders
    )  # fmt: skip
    ones = plain and bool(sizes) and all(size is None or size.constant() == 1 for size in sizes)
    return "a batch of its loader is one" if ones else ""


def _is_a_batch(module: Module, node: cst.BaseExpression, depth: int, surely: bool = False) -> bool:
    """Whether it is what a loop is given, or a part of that: nothing that was cut, folded or computed of it."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPING:
        return _is_a_batch(module, node.func.value, depth, surely)
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        kinds = cst.SimpleString if surely else (cst.Integer, cst.SimpleString)
        literal = isinstance(index, cst.Index) and isinstance(index.value, kinds)
        return literal and _is_a_batch(module, node.value, depth, surely)
    if not isinstance(node, cst.Name) or depth == 0:
        return isinstance(node, cst.Attribute) and _is_a_batch(module, node.value, depth, surely)
    found = module.flow(node).reaching(node)
    return bool(found) and all(_is_bound_to_a_batch(module, bound, depth - 1, surely) for bound in found)


def _is_bound_to_a_batch(module: Module, bound: cst.CSTNode, depth: int, surely: bool) -> bool:
    for holder in module.enclosing(bound):
        if isinstance(holder, cst.For):
            return any(bound is one for one in tree.walk(holder.target))
        if isinstance(holder, cst.Assign):
            return isinstance(holder.value, cst.BaseExpression) and _is_a_batch(module, holder.value, depth, surely)
    return False


def is_of_one_row(cut: cst.Slice) -> bool:
    """`i : i + 1`, `7:8`, `:1`"""
    lower, upper = cut.lower, cut.upper
    if cut.step is not None or upper is None:
        return False
    if lower is None:
        return tree.integer(upper) == 1
    if isinstance(lower, cst.Integer) and isinstance(upper, cst.Integer):
        return upper.evaluated_value - lower.evaluated_value == 1
    if not isinstance(upper, cst.BinaryOperation) or not isinstance(upper.operator, cst.Add):
        return False
    return {tree.code_of(upper.left), tree.code_of(upper.right)} == {tree.code_of(lower), "1"}


def _made_of_one(facts: Facts, module: Module, node: cst.BaseExpression, depth: int, part: int | str = "") -> str:
    """What makes it one sample. part: the item of it that counts, of a tuple or a dictionary."""
    if depth == 0:
        return ""
    if isinstance(node, cst.Name):
        return _of_a_name(facts, module, node, depth, part)
    if isinstance(node, (cst.Tuple, cst.Dict)):
        item = _item(node, part)
        return _made_of_one(facts, module, item, depth - 1) if item is not None else ""
    if isinstance(node, cst.Attribute):  # `tokens.input_ids`
        return _made_of_one(facts, module, node.value, depth - 1)
    if isinstance(node, cst.Subscript):
        first = node.slice[0].slice
        if isinstance(first, cst.Slice) and is_of_one_row(first):
            return f"`{brief(node)}`"
        index = first.value if isinstance(first, cst.Index) else None
        if isinstance(index, cst.Name) and index.value == "None":
            return f"`{brief(node)}`"
        key = tree.string(index or node)
        return _made_of_one(facts, module, node.value, depth - 1, key) if key is not None else ""
    return _of_a_call(facts, module, node, depth, part) if isinstance(node, cst.Call) else ""


def _item(node: cst.Tuple | cst.Dict, part: int | str) -> cst.BaseExpression | None:
    """Of a dictionary that is given as a whole, the first."""
    if isinstance(node, cst.Dict):
        plain = [one for one in node.elements if isinstance(one, cst.DictElement)]
        asked = [one.value for one in plain if part in ("", tree.string(one.key))]
        return asked[0] if asked and len(plain) == len(node.elements) else None
    items = [one.value for one in node.elements if isinstance(one, cst.Element)]
    return items[part] if isinstance(part, int) and part < len(items) == len(node.elements) else None


def _of_a_name(facts: Facts, module: Module, node: cst.Name, depth: int, part: int | str) -> str:
    found = []
    for bound in module.flow(node).reaching(node):
        statement = module.parents.get(module.parents.get(bound, bound))
        if isinstance(statement, cst.Assign) and statement.targets[0].target is bound:
            found.append(_made_of_one(facts, module, statement.value, depth - 1, part))
            continue
        holder = module.parents.get(statement) if isinstance(statement, cst.Tuple) else None  # `x, n = prepared(row)`
        outer = module.parents.get(holder) if isinstance(holder, cst.AssignTarget) else None
        place = _place(statement, bound) if isinstance(statement, cst.Tuple) and part == "" else None
        found.append("")
        if isinstance(outer, cst.Assign) and place is not None:
            found[-1] = _made_of_one(facts, module, outer.value, depth - 1, place)
    return found[0] if found and all(found) else ""


def _place(of: cst.Tuple, bound: cst.CSTNode) -> int | None:
    if any(isinstance(one, cst.StarredElement) for one in of.elements):
        return None
    return next((index for index, one in enumerate(of.elements) if one.value is bound), None)


def _of_a_call(facts: Facts, module: Module, node: cst.Call, depth: int, part: int | str) -> str:
    own = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if own in _ADDING and any(tree.integer(arg.value) == 0 for arg in node.args):
        return f"`{brief(node)}`"
    if own in _KEEPING and isinstance(node.func, cst.Attribute):
        return _made_of_one(facts, module, node.func.value, depth - 1)
    if own in _SIZED and node.args and _is_of_one_at_first(node):
        return f"`{brief(node)}`"
    if node.args and any(core(obj) in facts.models for obj in facts.value(node.func).objs):
        return _made_of_one(facts, module, node.args[0].value, depth - 1)  # what a model makes of one sample
    functions = [obj for obj in facts.value(node.func).objs if isinstance(obj, Function)]
    if functions:
        found = [_of_a_function(facts, one, depth, part) for one in functions]
        return found[0] if all(found) and not facts.value(node.func).open else ""
    if own in _LIKE and node.args and not node.args[0].star:
        return _made_of_one(facts, module, node.args[0].value, depth - 1)
    if own in _JOINS and _joins_beside(node):
        return _of_the_first(facts, module, node.args[0].value, depth)
    gathers = (
        own == "stack"
        or own in _LITERAL
        or any(arg.keyword is not None and arg.keyword.value == _TOKENS for arg in node.args)
    )
    listed = node.args[0].value if gathers and node.args and not node.args[0].star else None
    single = isinstance(listed, (cst.List, cst.Tuple)) and len(listed.elements) == 1
    if single and isinstance(listed, (cst.List, cst.Tuple)) and isinstance(listed.elements[0], cst.Element):
        return f"`{brief(node)}`"
    rows = node.args[0].value if own in _OF_ROWS and node.args and not node.args[0].star else None
    return _made_of_one(facts, module, rows, depth - 1) if isinstance(rows, (cst.Name, cst.Subscript)) else ""


def _of_a_function(facts: Facts, function: Function, depth: int, part: int | str) -> str:
    """What a function of the script's makes, if all that it returns is one sample."""
    if function.module is None or not isinstance(function.node, cst.FunctionDef):
        return ""
    own = [
        one for one in tree.walk(function.node.body)
        if isinstance(one, cst.Return) and function.module.function(one) is function.node
    ]  # fmt: skip
    found = [
        _made_of_one(facts, function.module, one.value, depth - 1, part) if one.value is not None else "" for one in own
    ]
    return found[0] if found and all(found) else ""


def _is_of_one_at_first(node: cst.Call) -> bool:
    """`torch.randn(1, 3, 64, 64)`, `torch.zeros((1, 8))`"""
    sizes = [one.value for one in node.args if one.keyword is None]
    if sizes and isinstance(sizes[0], (cst.Tuple, cst.List)):
        sizes = [one.value for one in sizes[0].elements]
    return len(sizes) > 1 and tree.integer(sizes[0]) == 1


def _joins_beside(node: cst.Call) -> bool:
    """Along another dimension than the samples'."""
    told = [arg.value for arg in node.args[1:] if arg.keyword is None or arg.keyword.value in ("dim", "axis")]
    return len(told) == 1 and tree.integer(told[0]) not in (None, 0)


def _of_the_first(facts: Facts, module: Module, listed: cst.BaseExpression, depth: int) -> str:
    plain = isinstance(listed, (cst.List, cst.Tuple)) and listed.elements
    first = listed.elements[0] if plain and isinstance(listed, (cst.List, cst.Tuple)) else None
    return _made_of_one(facts, module, first.value, depth - 1) if isinstance(first, cst.Element) else ""
