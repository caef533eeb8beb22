"""Import statements: libraries become references, local modules are run."""

from __future__ import annotations

import builtins
from pathlib import PurePath
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.interpreter import spelled_twice
from distify_codemods.libraries import spelling
from distify_codemods.objects import Arguments, Local, Sequence
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine
    from distify_codemods.program import Module

_BUILTINS = frozenset(dir(builtins))


def reference(machine: Machine, name: str) -> Value:
    """A library's thing: one object per name."""
    name = spelling.usual(name)
    key = (Ref, name)
    obj = machine.objects.get(key)
    if obj is None:
        obj = machine.objects[key] = Ref(None, name=name)
    return Value(obj.alone)


def builtin(machine: Machine, name: str) -> Value:
    if name == "__name__":
        return machine.literal(None, machine.frame.module.name)
    if name == "__file__":
        return machine.literal(None, machine.frame.module.path)
    if name in _BUILTINS:
        return reference(machine, f"builtins.{name}")
    star = machine.module_frame(machine.frame.module).env.get("*")
    if star is not None:
        only = star.single()
        return reference(machine, f"{only.name}.{name}") if isinstance(only, Ref) else NOTHING
    return NOTHING


def execute(machine: Machine, node: cst.Import | cst.ImportFrom) -> None:
    if isinstance(node, cst.Import):
        for alias in node.names:
            _import(machine, node, alias)
    elif isinstance(node.names, cst.ImportStar):
        _import_star(machine, node)
    else:
        _run_packages(machine, *_source(machine, node))
        for alias in node.names:
            assert isinstance(alias.name, cst.Name)
            _import_from(machine, node, alias, alias.name.value)


def _import(machine: Machine, node: cst.Import, alias: cst.ImportAlias) -> None:
    name, importer = tree.dotted(alias.name) or "", machine.frame.module
    module = machine.program.local_module(importer, name, spelled_twice.level_of(machine.program, importer, node, name))
    first = name.split(".")[0]
    if module is not None and (alias.asname is not None or "." not in name):
        value = local(machine, module)
    elif module is not None:
        _run_packages(machine, name, 0)
        machine.module_frame(module)
        value = package(machine, name)
    else:
        value = reference(machine, name if alias.asname else first)
    bound = alias.asname.name if alias.asname else None
    machine.bind(bound.value if isinstance(bound, cst.Name) else first, value)


def package(machine: Machine, name: str) -> Value:
    """`import a.b.c` binds `a`; with local files, a chain of modules whose attributes lead to the last."""
    parts = name.split(".")
    value: Value | None = None
    for size in range(len(parts), 0, -1):
        module = machine.program.local_module(machine.frame.module, ".".join(parts[:size]), 0)
        own = local(machine, module) if module else reference(machine, ".".join(parts[:size]))
        if value is not None:
            for obj in own.objs:
                if module is None or parts[size] not in machine.module_frame(module).env:
                    obj.attributes[parts[size]] = value
        value = own
    assert value is not None
    return value


def local(machine: Machine, module: Module) -> Value:
    machine.module_frame(module)
    key = (Local, module)
    obj = machine.objects.get(key)
    if obj is None:
        obj = machine.objects[key] = Local(None, module=module, target=module)
    return Value(obj.alone)


def by_its_name(machine: Machine, name: object) -> Value:
    """`sys.modules[__name__]`: a local module that runs."""
    return join(*(local(machine, module) for module in list(machine.globals) if module.name == name))


def _source(machine: Machine, node: cst.ImportFrom) -> tuple[str, int]:
    name = tree.dotted(node.module) or "" if node.module else ""
    return name, spelled_twice.level_of(machine.program, machine.frame.module, node, name)


def _import_from(machine: Machine, node: cst.ImportFrom, alias: cst.ImportAlias, name: str) -> None:
    source, level = _source(machine, node)
    importer = machine.frame.module
    module = machine.program.local_module(importer, source, level)
    bound = alias.asname.name.value if alias.asname and isinstance(alias.asname.name, cst.Name) else name
    if module is not None:
        env = machine.module_frame(module).env
        found = env[name] if name in env else made_when_asked(machine, env, name, alias)
        if found is not None:
            machine.bind(bound, found)
            return
    inner = machine.program.local_module(importer, f"{source}.{name}" if source else name, level)
    if inner is not None and (module is not None or level or inner is not machine.program.entry):
        machine.bind(bound, local(machine, inner))
    else:
        machine.bind(bound, reference(machine, f"{source}.{name}"))


def made_when_asked(machine: Machine, env: dict[str, Value], name: str, node: cst.CSTNode) -> Value | None:
    """What a module's own `__getattr__` gives for a name that it does not have (PEP 562)."""
    asked = env.get("__getattr__")
    if asked is None or (name.startswith("__") and name.endswith("__")):
        return None
    given = machine.call(asked, Arguments([machine.literal(None, name)]), node)
    return given if given.objs else None


def _run_packages(machine: Machine, source: str, level: int) -> None:
    """Before `a.b` is imported, `a` is."""
    parts = source.split(".")
    for size in range(1, len(parts)):
        package = machine.program.local_module(machine.frame.module, ".".join(parts[:size]), level)
        if package is not None:
            machine.module_frame(package)


def bind_to_package(machine: Machine, module: Module) -> None:
    """Once `a.b` is run, whoever imports it and how, `b` is a name of `a`; what `a` says of it later counts."""
    path = PurePath(module.path)
    path = path.parent if module.is_package else path
    package = machine.program.modules.get(str(path.parent / "__init__.py"))
    if package is not None and package is not module and package in machine.globals:
        machine.globals[package].env[path.stem] = local(machine, module)


def _exported(env: dict[str, Value]) -> list[tuple[str, Value]]:
    """What `import *` takes."""
    named = env["__all__"].single() if "__all__" in env else None
    names = [one.constant() for one in named.items] if isinstance(named, Sequence) and named.items is not None else []
    listed = bool(names) and all(isinstance(one, str) for one in names)
    return [(name, value) for name, value in env.items() if (name in names if listed else not name.startswith("_"))]


def _import_star(machine: Machine, node: cst.ImportFrom) -> None:
    source, level = _source(machine, node)
    _run_packages(machine, source, level)
    module = machine.program.local_module(machine.frame.module, source, level)
    if module is None:
        machine.frame.env.setdefault("*", reference(machine, source))
        return
    for name, value in _exported(machine.module_frame(module).env):
        machine.bind(name, value)
