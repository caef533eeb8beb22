"""What an event of a run does to files; and calls of which that is not known, although they are given a path."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.answers import answered_once
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core, made_of, root
from distify_codemods.interpreter import files
from distify_codemods.libraries import computing, effects, listings, outside, paths, progress, torch_nn, torch_tensors
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.naming import brief
from distify_codemods.objects import (
    Bound,
    Class,
    External,
    Function,
    Instance,
    Mapping,
    Parameters,
    Partial,
    Sequence,
    Setting,
)
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import Origin
from distify_codemods.program import Module
from distify_codemods.scale import Scale
from distify_codemods.values import Value

_HANDLES = frozenset("stream fp file f".split())
_PATH_KEYWORDS = frozenset("path path_or_buf excel_writer buf fname file filename".split())


def writes(event: Event) -> bool:
    if event.kind is Kind.METHOD:
        return _opens(event, written=True) or (is_writing_method(event) and not shows(event))
    if event.kind is not Kind.CALL or shows(event) or is_in_memory(event) or tells_only(event):
        return False
    if event.name in effects.WRITES or event.name in effects.ALWAYS_WRITE or is_mapped_to_be_written(event):
        return True
    opened = _is_opened(event.name) and not is_for_both(event)
    return opened and files.is_written(files.modes(event.name, event.arguments)) is True


def shows(event: Event) -> bool:
    """Whether an event that counts as one that writes does so in a window."""
    return event.name in (effects.SHOWING_METHODS if event.kind is Kind.METHOD else effects.SHOWS)


def tells_only(event: Event) -> bool:
    """Whether a command is seen to do nothing but answer."""
    return files.tells_only(event.name, event.arguments)


def _returns_a_text(event: Event) -> bool:
    """`yaml.dump(settings)`, with nothing to write into."""
    given = event.arguments
    if event.name not in effects.INTO_A_HANDLE or given.star is not None or given.unseen is not None:
        return False
    named = {**given.expanded(), **given.keywords}
    into = [*given.positional[1:2], *(value for name, value in named.items() if name in _HANDLES)]
    return all(value.is_none for value in into)


def is_mapped_to_be_written(event: Event) -> bool:
    """`np.memmap(path, mode="w+")`."""
    if event.name not in effects.MAPPED:
        return False
    unknown = "w" if "+" in effects.default_mode(event.name) else "r"
    return any("w" in mode for mode in files.modes(event.name, event.arguments) or (unknown,))


def is_for_both(event: Event) -> bool:
    """Whether something is opened so that its parts can be read and set, which says of neither that it is done:
    `np.memmap(path)`, `np.load(path, mmap_mode="r+")`, `zarr.open(path)`.
    """
    if event.kind is not Kind.CALL:
        return False
    modes = files.modes(event.name, event.arguments)
    if event.name in effects.MAPPED:
        return not is_mapped_to_be_written(event) and any("+" in mode for mode in modes or ("+",))
    told = event.arguments.get(effects.told_by(event.name), effects.place_of_mode(event.name))
    return event.name in effects.STORES and told is None and modes == frozenset("a")


def reads(event: Event) -> bool:
    """Whether a file is read, before which ranks may have to wait."""
    if event.kind is Kind.METHOD:
        return _opens(event, written=False) or event.name in effects.READING_METHODS
    if event.kind is not Kind.CALL:
        return False
    if event.name in effects.MAPPED:
        modes = files.modes(event.name, event.arguments)
        read = modes is None or any("w" not in mode for mode in modes)
    elif _is_opened(event.name):
        read = is_for_both(event) or files.is_written(files.modes(event.name, event.arguments)) is False
    else:
        read = effects.reading(event.name) is not None
    return read and not is_in_memory(event)


def _is_opened(name: str) -> bool:
    return (name in effects.HANDLES and name not in effects.THROUGH) or name in effects.STORES


def _opens(event: Event, written: bool) -> bool:
    modes = files.modes(effects.PATHS_OPEN, event.arguments)
    return event.name == "open" and files.is_written(modes) is written


@answered_once
def caches(facts: Facts) -> list[Event]:
    """Calls that keep what was computed in files by themselves."""
    return [event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if _keeps(event)]


def _keeps(event: Event) -> bool:
    if event.kind is Kind.CALL:
        return event.name in effects.CACHES
    makers = effects.CACHING_METHODS[event.name].of if event.name in effects.CACHING_METHODS else ()
    owners = [obj for obj in map(root, event.receiver.objs) if isinstance(obj, External)]
    return any(makers and one.name.startswith(makers) and not _is_streamed(one) for one in owners)


def _is_streamed(obj: External) -> bool:
    told = obj.arguments.get("streaming") if obj.arguments is not None else None
    return told is not None and told.constant() is True


def place_of_path(event: Event, written: bool = False) -> int:
    """Which argument the path of the file is that an event reads, or writes: its number, or a word of `effects`.

    `written`: of what does both (`shutil.unpack_archive`), what it writes.
    """
    if event.kind is Kind.METHOD:
        if event.name in listings.METHODS_THAT_TELL:
            return effects.ITSELF
        if event.name == "open":
            return effects.ITSELF
        known = effects.WRITING_METHODS.get(event.name) or effects.READING_METHODS.get(event.name)
        return known.path if known is not None else effects.UNSEEN
    reading, writing = effects.reading(event.name), effects.WRITES.get(event.name)
    known = writing or reading if written else reading or writing
    return known.path if known is not None else 0


def path_of(event: Event, written: bool = False) -> Value:
    """The path of the file that an event reads, or writes; nothing where it is not seen."""
    place, given = place_of_path(event, written), event.arguments.positional
    if place == effects.ITSELF:
        return event.receiver
    return given[place] if 0 <= place < len(given) else Value()


def is_in_memory(event: Event) -> bool:
    """Whether what takes the place of the path is a buffer, or nothing: `torch.save(state, io.BytesIO())`."""
    if event.kind is Kind.METHOD and place_of_path(event) == effects.ITSELF:
        return False
    if event.kind is Kind.CALL and _returns_a_text(event):
        return True
    to = path_of(event).objs or [obj for value in event.arguments.keywords.values() for obj in value.objs]
    buffers = [obj for obj in to if isinstance(obj, External) and obj.name in effects.IN_MEMORY]
    return bool(buffers) and (len(buffers) == len(to) or not path_of(event).objs)


def is_taken_by_its_name(event: Event) -> bool:
    """Whether a method of something that is not known is taken for one that writes, since it is called so."""
    if event.kind is not Kind.METHOD or event.name not in effects.WRITING_METHODS:
        return False
    owners = [library for obj in event.receiver.objs for library in _libraries(core(obj))]
    return not all(map(is_quiet, owners))


def is_writing_method(event: Event) -> bool:
    """Whether a method of a library writes a file, by its name and what it is a method of."""
    name = event.name
    if not _is_called_as_one(event) or not _is_of_a_library(event.receiver, name) or is_in_memory(event):
        return False
    used = not isinstance(event.module.parents.get(event.node), cst.Expr)
    if makers := effects.WRITING_METHODS[name].of:
        owners = [obj.name for obj in event.receiver.objs if isinstance(obj, External) and obj.name != "?"]
        return all(one.startswith(makers) for one in owners) if owners else not (used or shows(event))
    if name.startswith(effects.TEXTS) and used:  # without a path it returns the text
        given = event.arguments
        return bool(given.positional or given.double_star or _PATH_KEYWORDS & given.keywords.keys())
    return True


def _is_called_as_one(event: Event) -> bool:
    return effects.is_writing_method(event.name, len(event.arguments.all()))


def _is_of_a_library(receiver: Value, name: str) -> bool:
    """Methods of the script's own classes are followed instead."""
    own = [obj.of for obj in map(core, receiver.objs) if isinstance(obj, Instance)]
    return all(
        one is not None and bool(one.libraries) and all(name not in cls.attributes for cls in one.order) for one in own
    )


# ---- calls that no table names


@answered_once
def given_a_path(facts: Facts) -> list[Event]:
    """Calls of which it is not known what they do with a path that they are given."""
    kinds = (Kind.CALL, Kind.METHOD, Kind.FORWARD)
    return [event for event in facts.of_kind(*kinds) if is_unknown(event) and _paths(facts, event)]


@answered_once
def named_writers(facts: Facts) -> list[Event]:
    """Those of them that say that they write, return nothing that is used, and have no trained model in reach."""
    found = [
        event
        for event in given_a_path(facts)
        if event.kind is not Kind.FORWARD
        and _own_name(event).lstrip("_").lower().startswith(effects.WRITING_WORDS)
        and isinstance(event.module.parents.get(event.node), cst.Expr)
    ]
    with_model = {event.node for event in found if _has_a_model(facts, [event.receiver, *event.arguments.all()])}
    return [event for event in found if event.node not in with_model]


def _has_a_model(facts: Facts, values: list[Value]) -> bool:
    """Whether a model, or what may call one, is among these or what they were made of."""
    for obj in (core(one) for value in made_of(values) for one in value.objs):
        if obj in facts.models or isinstance(obj, (Function, Bound, Partial, Parameters, Class)):
            return True
        if isinstance(obj, Instance) and obj.of is not None and obj.of.derives_from(torch_nn.MODULE):
            return True
    return False


@answered_once
def may_write(facts: Facts) -> list[Event]:
    """The others of them that are called for what they do, or say that they write, or are told to."""
    writers = set(named_writers(facts))
    found = [event for event in given_a_path(facts) if event not in writers and _may_write(event)]
    return found + [event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if _says_it_writes(facts, event)]


def _says_it_writes(facts: Facts, event: Event) -> bool:
    """Whether something unknown says that it writes, and is given what may name a file: `vectors.save_as(args.out)`."""
    if not _own_name(event).lstrip("_").lower().startswith(effects.WRITING_WORDS) or event.name in effects.OF_HANDLES:
        return False
    if not isinstance(event.module.parents.get(event.node), cst.Expr) or not is_unknown(event) or is_in_memory(event):
        return False
    named = any(isinstance(obj, Setting) for value in event.arguments.all() for obj in value.objs)
    texts = any(isinstance(value.constant(), str) for value in event.arguments.all())
    return (named or texts or any(map(_may_be_anything, event.arguments.all()))) and not _paths(facts, event)


def _may_be_anything(value: Value) -> bool:
    """Of which nothing is known: what `config["name"]` or `config.name` gives, where it is not seen what made that."""
    made = (root(obj) for obj in value.objs)
    return (
        all(isinstance(one, External) and not is_quiet(one.name) for one in made)
        and value.scale is Scale.CONST
        and not value.sources
    )


@answered_once
def fetched_by_connections(facts: Facts) -> list[Event]:
    """What rank 0, which alone has the connection, puts into a file."""
    return [event for event in facts.of_kind(Kind.METHOD) if _is_fetched(event)]


def _is_fetched(event: Event) -> bool:
    if not outside.fetches_a_file(event.name, len(event.arguments.positional)):
        return False
    owners = [obj.name for obj in map(root, event.receiver.objs) if isinstance(obj, External)]
    return any(map(outside.connects, owners)) and isinstance(event.module.parents.get(event.node), cst.Expr)


def code_of(event: Event) -> str:
    """What is called, as it is spelled; of a chain of calls its last name."""
    called = event.node.func if isinstance(event.node, cst.Call) else None
    named = (called and tree.dotted(called)) or event.name
    return brief(called) if named == "?" and called is not None else named


def _own_name(event: Event) -> str:
    return event.name.rsplit(".", 1)[-1]


def _may_write(event: Event) -> bool:
    name = _own_name(event)
    told = (value.constant() for value in event.arguments.all())
    keeps = effects.says_that_it_keeps_a_log(name) and not effects.says_that_it_reads(name)
    says = effects.says_that_it_writes(name) or keeps
    if says or any(one in effects.WRITING_MODES for one in told):
        return True
    return is_called_for_itself(event) and not effects.says_that_it_reads(name)


def is_called_for_itself(event: Event) -> bool:
    """Whether nothing is done with what it returns, but to call a method of it: `Report(path).make()`."""
    parents, node = event.module.parents, event.node
    while isinstance(above := parents.get(node), (cst.Attribute, cst.Call)) and node in (
        above.value if isinstance(above, cst.Attribute) else above.func,
    ):
        node = above
    return isinstance(above, cst.Expr)


def unknown_paths(facts: Facts, event: Event) -> list[Value]:
    """The paths that something is given which is not known, or which opens what it is given the path of."""
    if not opens_what_it_is_given(event):
        return [facts.value(node) for node in _paths(facts, event)] if is_unknown(event) else []
    first = event.arguments.positional[:1]
    return [facts.value(node) for node in _paths(facts, event)] or [one for one in first if _is_not_known(one)]


def opens_what_it_is_given(event: Event) -> bool:
    """`wandb.Image(path)`, `artifact.add_file(path)`."""
    if event.kind is Kind.CALL:
        return effects.opens(event.name)
    known = effects.OPENING_METHODS.get(event.name) if event.kind is Kind.METHOD else None
    owners = [obj.name for obj in map(root, event.receiver.objs) if isinstance(obj, External)]
    return known is not None and any(one.startswith(known.of) for one in owners)


def _is_not_known(value: Value) -> bool:
    """Whether nothing is seen of a value, as of a text that is put together by the caller: it may be a path."""
    return not value.objs and not value.sources and value.scale is Scale.CONST


def own_paths_out_of_sight(facts: Facts, event: Event) -> Iterator[Value]:
    """Paths, made of the time or the like, that go out of sight: to a call that is not known, into a configuration."""
    if event.kind is Kind.STORE:
        parent = event.module.parents.get(event.node)
        target = event.module.parents.get(parent) if isinstance(parent, cst.AssignTarget) else parent
        given = [target.value] if isinstance(target, (cst.Assign, cst.AnnAssign)) and target.value is not None else []
        known = (isinstance(obj, (Mapping, Sequence, Instance)) for obj in event.receiver.objs)
        unknown = not event.receiver.objs or not all(known)
        given = given if event.name == "[]" and unknown else []
    else:
        call = event.node
        given = [one.value for one in call.args] if isinstance(call, cst.Call) else []
    for node in given:
        value = facts.value(node)
        if not any(isinstance(one, Origin) for one in value.sources):
            continue
        texts = [text for one in (node, *assigned(event.module, node)) for text in _texts(one)]
        if any(_stands_for_a_path(obj) for obj in value.objs) or any(map(_looks_like_a_path, texts)):
            yield value


def is_unknown(event: Event) -> bool:
    """Whether a call of a library is in no table, and the library is none that is known to leave files alone."""
    if event.kind is Kind.CALL:
        named = event.name.startswith("local.") or effects.is_named(event.name)
        named = named or progress.writes_beside(event.name)  # to the screen
        return not named and not effects.is_known(event.name, event.name.rsplit(".", 1)[-1])
    if event.kind is Kind.METHOD and not _is_of_a_library(event.receiver, event.name):
        return False
    if event.kind is Kind.METHOD and (is_writing_method(event) or event.name in effects.READING_METHODS):
        return False
    owners = [library for obj in event.receiver.objs for library in _libraries(core(root(obj)))]
    if event.kind is Kind.FORWARD:
        owners = [one for one in owners if not computing.is_a_model(one)]  # which is given tensors, or texts
    name = event.name if event.kind is Kind.METHOD else ""
    return any(not effects.is_tracker(one) and not effects.is_known(one, name) for one in owners)


def _libraries(obj: Obj) -> Ordered[str]:
    if isinstance(obj, External):
        return Ordered([obj.name])
    return obj.of.libraries if isinstance(obj, Instance) and obj.of is not None else EMPTY


def _paths(facts: Facts, event: Event) -> list[cst.BaseExpression]:
    call = event.node
    given = call.args if isinstance(call, cst.Call) else []
    return [one.value for one in given if _is_named_a_path(facts, one) or _is_a_path(facts, event.module, one.value)]


def _is_named_a_path(facts: Facts, given: cst.Arg) -> bool:
    """`output_dir="out"`: one word, or what somebody types."""
    if given.keyword is None or not paths.names_a_path(given.keyword.value):
        return False
    texts = [obj.value for obj in facts.value(given.value).objs if isinstance(obj, Const)]
    typed = any(isinstance(obj, Setting) for obj in facts.value(given.value).objs)
    return typed or any(isinstance(one, str) and one and "://" not in one and " " not in one for one in texts)


def _is_a_path(facts: Facts, module: Module, node: cst.BaseExpression) -> bool:
    value = facts.value(node)
    if any(_stands_for_a_path(obj) and not _names_a_module(facts, obj) for obj in value.objs):
        return True
    own = (one for one in value.sources if isinstance(one, Origin) and one.name not in listings.ANSWERS)
    if any(own) and not _is_an_array(facts, module, node):
        return True
    texts = [text for one in (node, *assigned(module, node)) for text in _texts(one)]
    return any(map(_looks_like_a_path, texts))


def _names_a_module(facts: Facts, obj: Obj) -> bool:
    """`__name__`, which ends as names of files do: `models.parts`."""
    return isinstance(obj, Const) and any(one.name == obj.value for one in facts.program.modules.values())


def _is_an_array(facts: Facts, module: Module, node: cst.BaseExpression) -> bool:
    """Numbers that were computed, if of the time: what is named like a method that reads may be given these."""
    return all(_computes(facts, one) for one in assigned(module, node) or [node])


def _computes(facts: Facts, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        of_numbers = not isinstance(node.operator, _ALSO_OF_PATHS)
        return of_numbers or _computes(facts, node.left) or _computes(facts, node.right)
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in torch_tensors.OF_ARRAYS:
        return True
    called = facts.value(node.func).objs
    known = bool(called) and all(isinstance(obj, Ref) and _is_a_number(obj.name) for obj in called)
    return known or (isinstance(node.func, cst.Attribute) and _computes(facts, node.func.value))


def _is_a_number(function: str) -> bool:
    return function.startswith(_ARITHMETIC) or function in outside.SECONDS


_ARITHMETIC = ("numpy.", "torch.", "math.")
#: What puts texts together, or parts of a path, as well.
_ALSO_OF_PATHS = (cst.Add, cst.Divide, cst.Modulo, cst.Multiply)


def _stands_for_a_path(obj: Obj) -> bool:
    if isinstance(obj, External):
        return paths.makes_a_path(obj.name)
    if isinstance(obj, Setting):
        return paths.names_a_path(obj.name)
    return isinstance(obj, Const) and isinstance(obj.value, str) and _looks_like_a_path(obj.value)


def _looks_like_a_path(text: str) -> bool:
    if "://" in text or any(one.isspace() for one in text) or paths.has_markup(text):
        return False
    return "/" in text or "\\" in text or paths.ends_like_a_file(text)


def _texts(node: cst.BaseExpression) -> Iterator[str]:
    """The text that an expression is put together of, what is filled in left out."""
    if isinstance(node, cst.FormattedString):
        yield tree.filled_in(node, "x")
    elif isinstance(node, cst.BinaryOperation):
        yield from (text for one in (node.left, node.right) for text in _texts(one))
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        yield from _texts(node.func.value)
    elif (text := tree.string(node)) is not None:
        yield text


def assigned(module: Module, name: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What is assigned to a name in its function."""
    return _assignments(module.lines_around(name)).get(name.value, []) if isinstance(name, cst.Name) else []


@lru_cache(maxsize=4096)
def _assignments(lines: cst.CSTNode) -> dict[str, list[cst.BaseExpression]]:
    found: dict[str, list[cst.BaseExpression]] = {}
    for node in tree.walk(lines):
        if isinstance(node, cst.Assign):
            for name in dict.fromkeys(name for one in node.targets for name in tree.target_names(one.target)):
                found.setdefault(name, []).append(node.value)
    return found
