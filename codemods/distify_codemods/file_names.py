"""What is seen of a file's name where its path is put together: enough to tell that two files are not the same."""

from __future__ import annotations

import posixpath
import re

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.events import Event
from distify_codemods.facts import Facts
from distify_codemods.file_beginnings import beginnings, lie_apart
from distify_codemods.file_events import path_of, place_of_path
from distify_codemods.libraries import effects, paths
from distify_codemods.objects import External
from distify_codemods.ordered import Ordered
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.values import Value

_FILLED_IN = {"%": re.compile(r"%[-+# 0-9.]*[a-zA-Z]"), "format": re.compile(r"\{[^{}]*\}")}
_DEEPEST = 5


@dataclass(frozen=True)
class _Path:
    """What is known of the path that an event writes or reads."""

    whole: object  # a text, or None
    ends: frozenset[str]
    objs: Ordered[Obj]
    spelled: str


class Names:
    """What is seen of the names of the files that events write and read."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[tuple[cst.CSTNode, bool], frozenset[str]] = {}
        self._paths: dict[tuple[Event, bool], _Path] = {}
        self._begun: dict[tuple[Event, bool], frozenset[str]] = {}

    def differ(self, write: Event, read: Event) -> bool:
        """Whether one event writes another file than the other reads."""
        if not effects.writes_one_file(write.name) or not effects.reads_one_file(read.name):
            return False
        written, wanted = self._ends(write, True), self._ends(read, False)
        if not written or not wanted:
            return False
        added = effects.ending(write.name)
        known = all(paths.ends_like_a_file(one) for one in (*written, *wanted)) and all(
            one.endswith(added) for one in written
        )
        return known and not any(one.endswith(two) or two.endswith(one) for one in written for two in wanted)

    def may_be_one(self, write: Event, read: Event, path: Value | None = None) -> bool:
        """Whether both may be about one file. `path`: what is read, if not what the table says."""
        wanted = path_of(read) if path is None else path
        if not may_be_same(path_of(write, True).constant(), wanted.constant()) or self.differ(write, read):
            return False
        if path is None or path is path_of(read):
            return not effects.hold_different_things(write.name, read.name) and not self._lie_apart(write, read)
        return not self._lies_beside(write, path)

    def may_hold(self, write: Event, question: Event) -> bool:
        """Whether what is written may be what a question is about, or lie in the folder that it is about."""
        if not effects.writes_one_file(write.name) or "root_dir" in question.arguments.keywords:
            return True
        written, asked = path_of(write, True).constant(), path_of(question).constant()
        wanted = frozenset(paths.before_patterns(one) for one in self._beginnings(question, False))
        if all(wanted) and lie_apart(self._beginnings(write, True), wanted):
            return False
        has_patterns = isinstance(asked, str) and paths.before_patterns(asked) != asked
        return has_patterns or may_be_same(written, asked)

    def _lies_beside(self, write: Event, path: Value) -> bool:
        """Whether a file is written in another folder than a path leads to that something unknown is given. What it
        does there is not known: it may read what lies beside that.
        """
        if not effects.writes_one_file(write.name):
            return False
        wanted = beginnings(self._facts, path, None)
        folders = frozenset(one[: one.rfind("/") + 1] for one in wanted)
        return all(folders) and lie_apart(self._beginnings(write, True), folders)

    def _lie_apart(self, write: Event, read: Event) -> bool:
        """Whether one file is written in another folder than the other is read in."""
        if not effects.writes_one_file(write.name):
            return False
        return lie_apart(self._beginnings(write, True), self._beginnings(read, False))

    def _beginnings(self, event: Event, written: bool) -> frozenset[str]:
        if (event, written) not in self._begun:
            found = beginnings(self._facts, path_of(event, written), _path_node(event, written))
            self._begun[event, written] = found
        return self._begun[event, written]

    def agree(self, write: Event, read: Event) -> bool:
        """Whether something says that both may be about one file: all of their paths, how these end or are spelled."""
        one, other = self._path(write, True), self._path(read, False)
        if one.whole is not None and other.whole is not None:
            return may_be_same(one.whole, other.whole)
        if one.ends and other.ends:
            return any(end.endswith(two) or two.endswith(end) for end in one.ends for two in other.ends)
        return not one.objs.isdisjoint(other.objs) or (bool(one.spelled) and one.spelled == other.spelled)

    def _path(self, event: Event, written: bool) -> _Path:
        if (event, written) not in self._paths:
            path, node = path_of(event, written), _path_node(event, written)
            spelled = tree.code_of(node) if node is not None else ""
            self._paths[event, written] = _Path(path.constant(), self._ends(event, written), _same(path.objs), spelled)
        return self._paths[event, written]

    def _ends(self, event: Event, written: bool) -> frozenset[str]:
        if (event.node, written) not in self._known:
            self._known[event.node, written] = _ends(self._facts, event, written)
        return self._known[event.node, written]


def _same(objs: Ordered[Obj]) -> Ordered[Obj]:
    """With what each is another form of, as `Path(path)` is."""
    found, more = objs, objs
    while more:
        forms = (one.arguments for one in more if isinstance(one, External) and one.name in (paths.PATH, *paths.KEEPS))
        given = (one.first for one in forms if one is not None and len(one.all()) == 1)
        more = Ordered(obj for value in given for obj in value.objs) - found
        found |= more
    return found


def into_a_handle(event: Event) -> bool:
    """Whether something is written into a file that was opened before: that one is known for itself."""
    return event.name in effects.INTO_A_HANDLE and any(
        bool(value.objs)
        and all(isinstance(obj, External) and obj.name in (*effects.FILES, effects.PATHS_OPEN) for obj in value.objs)
        for value in event.arguments.all()
    )


def may_be_same(written: object, wanted: object) -> bool:
    """Whether what is written may be what is read, by what is known of both paths: a file in a folder that is written
    as a whole, or one to whose name an ending is added, as well.
    """
    if not isinstance(written, str) or not isinstance(wanted, str):
        return True
    one, other = (posixpath.normpath(path.replace("\\", "/")) for path in (written, wanted))
    if one.startswith("/") is not other.startswith("/"):
        return other.endswith(f"/{one}") or one.endswith(f"/{other}")  # wherever the script is started
    ended = other.startswith(f"{one}.") and other != one
    return one in (other, ".") or other == "." or ended or other.startswith(f"{one}/") or one.startswith(f"{other}/")


def _ends(facts: Facts, event: Event, written: bool) -> frozenset[str]:
    """How the name of an event's file may end; after a `/` all of it is known. Empty: that is not seen."""
    node = _path_node(event, written)
    found = _of(facts, event.module, node, 0) if node is not None else frozenset()
    return frozenset(one.lower() for one in found)


def _path_node(event: Event, written: bool) -> cst.BaseExpression | None:
    place, call = place_of_path(event, written), event.node
    if place < 0 or not isinstance(call, cst.Call) or any(arg.star for arg in call.args):
        return event.receiver_node if place == effects.ITSELF else None
    given = [arg.value for arg in call.args if arg.keyword is None]
    return given[place] if place < len(given) else None


def _of(facts: Facts, module: Module, node: cst.BaseExpression, depth: int) -> frozenset[str]:
    text = tree.string(node)
    if text is None and isinstance(facts.value(node).constant(), str):
        text = str(facts.value(node).constant())
    if text is not None:
        return _last("/" + text)
    if depth > _DEEPEST:
        return frozenset()
    if isinstance(node, cst.FormattedString):
        last = node.parts[-1] if node.parts else None
        plain = isinstance(last, cst.FormattedStringText) and not set(last.value) & set("{}\\")
        return _last(last.value) if plain and isinstance(last, cst.FormattedStringText) else frozenset()
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Modulo):
            return _behind(node.left, "%")
        right = _of(facts, module, node.right, depth + 1)
        if isinstance(node.operator, cst.Divide):
            return right
        if not isinstance(node.operator, cst.Add):
            return frozenset()
        slash = "/" in (tree.string(node.right) or "")
        return right if slash else frozenset(one.removeprefix("/") for one in right)
    if isinstance(node, cst.Call):
        return _of_call(facts, module, node, depth)
    return _of_name(facts, module, node, depth) if isinstance(node, cst.Name) else frozenset()


def _of_call(facts: Facts, module: Module, call: cst.Call, depth: int) -> frozenset[str]:
    """`os.path.join(folder, name)`, `Path(folder, name)`, `str(path)`, `"{}.txt".format(name)`."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "format":
        return _behind(call.func.value, "format")
    callee = facts.value(call.func).single()
    known = isinstance(callee, Ref) and callee.name in paths.ENDS
    if not known or not call.args or any(arg.star or arg.keyword for arg in call.args):
        return frozenset()
    return _of(facts, module, call.args[-1].value, depth + 1)


def _behind(template: cst.BaseExpression, kind: str) -> frozenset[str]:
    """What comes behind the last thing that is filled in."""
    text = tree.string(template)
    return _last(_FILLED_IN[kind].split(text)[-1]) if text is not None else frozenset()


def _last(text: str) -> frozenset[str]:
    """The name of the file, with a `/` before it if it is whole."""
    text = text.replace("\\", "/")
    end = text[text.rfind("/") :] if "/" in text else text
    return frozenset([end]) if end.strip("/.") else frozenset()


def _of_name(facts: Facts, module: Module, name: cst.Name, depth: int) -> frozenset[str]:
    """Where all that a name may be bound to when it is read are assignments that tell it."""
    found: frozenset[str] = frozenset()
    for bound in module.flow(name).reaching(name):
        target = module.parents[bound]
        holder = module.parents.get(target)
        one = _of(facts, module, holder.value, depth + 1) if isinstance(holder, cst.Assign) else frozenset()
        if not one or not isinstance(target, cst.AssignTarget):
            return frozenset()
        found |= one
    return found
