"""The way of the data: program, facts, decisions, rules, plan, new files."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from distify_codemods import decisions, facts, half_done, later, program, refusals
from distify_codemods.answers import answered_once
from distify_codemods.apply import apply
from distify_codemods.backends import BACKENDS, Backend
from distify_codemods.decisions import played
from distify_codemods.facts import Facts
from distify_codemods.plan import Plan
from distify_codemods.program import Module
from distify_codemods.results import (
    Belief,
    Conversion,
    Finding,
    Level,
    NewFile,
    OptionError,
    Options,
    Outcome,
    Resolver,
    SourceError,
    SourceFile,
    Strategy,
)
from distify_codemods.room import with_room
from distify_codemods.rules import RULES, Context, Rule, as_a_whole, imports
from distify_codemods.starting import started
from distify_codemods.twins import twin_path
from distify_codemods.twins.graph import Graph
from distify_codemods.twins.missing import missing, told
from distify_codemods.unbound import unbound_names
from distify_codemods.wholes import without

SHARED = (
    "shared forward passes: every rank runs the script as it stands, and computes its part of a batch wherever the run "
    "finds that parts make up the whole"
)
AGAINST = ", as asked for: not all of what a rank would have to know for that was seen (advice SHARE01)"
_OF_A_KIND = 3  # rows about the same thing
_CODE = re.compile(r"`[^`]*`")
_ORDER = {Level.APPLIED: 0, Level.NOT_NEEDED: 1, Level.ADVICE: 2, Level.BLOCKING: 3}


def convert(
    source: SourceFile,
    resolver: Resolver,
    options: Options | None = None,
    on_run: Callable[[int], None] | None = None,
) -> Conversion:
    """Converts a script. Raises SourceError when it is not Python 3 source, KeyError for an unknown backend.

    `on_run` is called each time the program is followed anew, with about how many times that will be.
    """
    try:
        return _convert(source, resolver, options, on_run)
    except RecursionError:
        raise SourceError(source.path, "nests expressions, calls or imports too deeply to be followed") from None


@with_room
def _convert(
    source: SourceFile, resolver: Resolver, options: Options | None, on_run: Callable[[int], None] | None
) -> Conversion:
    options = options or Options()
    try:
        backend = BACKENDS[options.backend].with_options(options.compression, options.op)
    except ValueError as error:
        raise OptionError(str(error)) from None
    if options.strategy == Strategy.SHARED.value and (other := options.only_sharded):
        raise OptionError(f"{other} goes with --strategy sharded: shared forward passes leave steps alone")
    loaded = program.load(source, resolver, options)
    loaded.on_run = on_run
    entry = loaded.entry
    if refusals.converted_already(entry):
        return Conversion(Outcome.ALREADY_CONVERTED, (), ())
    refusal = refusals.distributed_already(entry) or refusals.runs_on_tpu(entry) or refusals.left_alone(entry)
    if refusal is not None:
        return Conversion(Outcome.REFUSED, (), (refusal,))
    found = facts.follow(loaded)
    if options.commands is not None and not found.backwards:
        by_command = started(source, options, lambda script, given: _convert(script, resolver, given, on_run))
        if by_command is not None:
            return by_command
    refusal = refusals.distributed_by_torch(entry, found.run.events)
    if half_done.missing(found):
        refusal = None
    refusal = refusal or refusals.distributed_in_other_file(entry, found.run.events)
    if refusal is not None:
        return Conversion(Outcome.REFUSED, (), (refusal,))
    made = _convert_followed(found, backend, options)
    ends = unbound_names(found) if made.outcome is Outcome.REFUSED else ()
    return replace(made, findings=(*ends, *made.findings)) if ends else made


def _convert_followed(found: Facts, backend: Backend, options: Options) -> Conversion:
    entry = found.program.entry
    if not found.backwards and (by_horovod := _convert_tensorflow(found, backend, options)) is not None:
        return by_horovod
    other = refusals.trains_otherwise(found.run.events)
    if other is not None:
        return Conversion(Outcome.REFUSED, (), (other,), _beliefs(options, found))
    if not found.backwards or not (found.optimizers or found.by_hand or found.training_loops):
        findings = (_no_training(entry, found), *_not_found(found.program))
        return Conversion(Outcome.REFUSED, (), findings, _beliefs(options, found))
    if not found.run.complete and not options.partial:  # no trial run would tell more
        return Conversion(Outcome.REFUSED, (), (refusals.too_large(entry),), _beliefs(options, found))
    if found.run.trial.sparing:
        return _by_few_calls(found, backend, options)
    return _by_strategy(found, backend, options)


def _by_few_calls(found: Facts, backend: Backend, options: Options) -> Conversion:
    """Shared forward passes: what differs between calls that look alike need not be known for these."""
    if _may_share(options):
        return _convert_shared(found, backend, options)
    if options.partial:
        return _by_strategy(found.tried(shared=False), backend, options)
    refusal = refusals.too_large(
        found.program.entry, "leave out what asks for sharded data: forward passes can be shared"
    )
    return Conversion(Outcome.REFUSED, (), (refusal,), _beliefs(options, found))


def _by_strategy(found: Facts, backend: Backend, options: Options) -> Conversion:
    if options.strategy == Strategy.SHARED.value:
        return _convert_shared(found, backend, options)
    try:
        return _tried_out(found, backend, options)
    except facts.OverBudget:
        reason = refusals.over_budget(found.program.entry, options)
    if _may_share(options):
        return _convert_shared(found, backend, options, (replace(reason, level=Level.ADVICE),))
    return Conversion(Outcome.REFUSED, (), (reason,), _beliefs(options, found))


def _tried_out(found: Facts, backend: Backend, options: Options) -> Conversion:
    """The first strategy of the ladder that is seen to be right; if none is, the one that needs a person less often."""
    if links := _links_at_once(found, options):
        return _convert_shared(found, backend, options, _doubts(links))
    dealt = decisions.decide_cuts(found)
    if dealt.facts is not found and (links := _links_at_once(dealt.facts, options)):
        return _convert_shared(found, backend, options, _doubts(links))
    made = decisions.decide(dealt, backend)
    doubts = _doubts(decisions.unknown_links(made))
    asked_for = not _may_share(options)
    if doubts and not asked_for:  # whoever did what sharded data need would come to shared forward passes
        return _convert_shared(found, backend, options, doubts)
    figures = () if asked_for else _doubts(list(decisions.figures_of_one_rank(made)))
    made.facts = later.with_later(made.facts.with_unused)
    sharded = _convert_by(RULES, Context(made, backend, {}, options, against=doubts))
    blocking = sharded.of(Level.BLOCKING)
    if asked_for or not blocking:
        return _with_all_figures(found, backend, options, figures, sharded) if figures else sharded
    shared = _convert_shared(found, backend, options, blocking)
    if _shared(found).nothing_to_share and len(shared.of(Level.BLOCKING)) == len(blocking):
        return shared  # which tells what is in the way of sharded data as well
    return sharded if len(blocking) <= len(shared.of(Level.BLOCKING)) else shared


def _with_all_figures(
    found: Facts, backend: Backend, options: Options, figures: tuple[Finding, ...], sharded: Conversion
) -> Conversion:
    """Some of what the script keeps or shows would be of rank 0's samples, unless every rank sees whole batches."""
    shared = _convert_shared(found, backend, options, figures)
    return sharded if shared.of(Level.BLOCKING) else shared


def _links_at_once(found: Facts, options: Options) -> list[decisions.Link]:
    return decisions.links_at_once(found) if _may_share(options) else []


def _doubts(links: Sequence[decisions.Link]) -> tuple[Finding, ...]:
    """The first few of each kind; the last of them tells how many more there are."""
    kinds: dict[str, list[decisions.Link]] = {}
    for link in links:
        kinds.setdefault(_CODE.sub("", link.message), []).append(link)
    return tuple(_doubted(link, left) for found in kinds.values() for link, left in _few(found))


def _few(links: list[decisions.Link]) -> Iterator[tuple[decisions.Link, int]]:
    more = len(links) - _OF_A_KIND
    for number, link in enumerate(links[:_OF_A_KIND], 1):
        yield link, more if more > 0 and number == _OF_A_KIND else 0


def _doubted(link: decisions.Link, more: int) -> Finding:
    text = f"{link.message} (as in {more} more places)" if more else link.message
    return Finding(Level.ADVICE, "SHARE01", "", text, link.module.place(link.node), link.fix)


def _convert_shared(
    found: Facts, backend: Backend, options: Options, in_the_way: tuple[Finding, ...] = ()
) -> Conversion:
    return _convert_by(RULES, Context(_shared(found), backend, {}, options, in_the_way=in_the_way))


@answered_once
def _shared(found: Facts) -> decisions.Decisions:
    made = decisions.decide_shared(found)
    made.facts = later.with_later(made.facts.with_unused)
    return made


def _may_share(options: Options) -> bool:
    return options.strategy != Strategy.SHARDED.value and not options.only_sharded


def _convert_tensorflow(found: Facts, backend: Backend, options: Options) -> Conversion | None:
    """Of a script that trains with TensorFlow. What that takes is imported for no other."""
    from distify_codemods import tensorflow

    if not tensorflow.trains(found):
        return None
    if not found.run.exact and not options.partial:
        return Conversion(Outcome.REFUSED, (), (refusals.too_large(found.program.entry),))
    context = tensorflow.context_for(found, backend, options)
    if isinstance(context, Finding):
        return Conversion(Outcome.REFUSED, (), (context,))
    return _convert_by(tensorflow.RULES, context)


def _convert_by(rules: Sequence[Rule], context: Context) -> Conversion:
    """What needs a person piece by piece is tried once more as a whole."""
    made = _convert_once(rules, context)
    while rules is RULES and context.blocked_at and (more := as_a_whole.around(context, context.blocked_at)):
        wholes = (*context.facts.wholes, *more)
        context = context.anew(replace(context.decisions, facts=without(context.facts, wholes)))
        once_more = _convert_once(rules, context)
        if len(once_more.of(Level.BLOCKING)) >= len(made.of(Level.BLOCKING)):
            break
        made = once_more
    return made


def _convert_once(rules: Sequence[Rule], context: Context) -> Conversion:
    options = context.options
    for rule in rules:
        context.rule = rule
        if rule.shared and context.shares_forwards:
            context.not_needed(rule.shared)
        else:
            rule.run(context)
    strategy, headline = (None, "") if rules is not RULES else (context.decisions.strategy, _headline(context))
    beliefs = _beliefs(options, context.facts, context.decisions)
    blocking = [finding for finding in context.findings if finding.level is Level.BLOCKING]
    if blocking and not options.partial:
        ends = any(finding.fix == played.FIX for finding in blocking)
        done = "" if ends else f"; once that is done: {headline}"
        once_done = headline and f"not converted: it needs you, below{done}"
        return Conversion(Outcome.REFUSED, (), _in_order(rules, context.findings), beliefs, strategy, once_done)
    if options.partial:
        _leave_comments(context)
    files = tuple(_new_file(context, plan) for plan in context.plans.values() if plan)
    return Conversion(Outcome.CONVERTED, files, _in_order(rules, context.findings), beliefs, strategy, headline)


def _beliefs(options: Options, found: Facts, made: decisions.Decisions | None = None) -> tuple[Belief, ...]:
    if not options.why:
        return ()
    from distify_codemods import why

    return why.beliefs(found, made)


def _headline(context: Context) -> str:
    if context.shares_forwards:
        return SHARED
    backend, made = context.backend, context.decisions
    by_lines = backend.without_wraps if made.broadcasts and not made.wraps else ""
    return f"{by_lines or backend.headline}{AGAINST if context.against else ''}"


def _no_training(entry: Module, found: Facts) -> Finding:
    parts = [
        f"{len(found.optimizers)} optimizer{'s' * (len(found.optimizers) != 1)}",
        f"{len(found.backwards)} backward pass{'es' * (len(found.backwards) != 1)}",
        f"{len(found.loaders)} DataLoader{'s' * (len(found.loaders) != 1)}",
    ]
    return refusals.no_training(entry, f"what it runs has {', '.join(parts)}", found.with_unused.run)


def _not_found(loaded: program.Program) -> tuple[Finding, ...]:
    """Advice: training may be in what is imported and not found."""
    found = missing(Graph(loaded))
    place = found[0].module.place(found[0].node) if found else None
    return (Finding(Level.ADVICE, imports.CODE, imports.RULE.name, told(found), place),) if found else ()


def _in_order(rules: Sequence[Rule], findings: list[Finding]) -> tuple[Finding, ...]:
    """By rule, then by place: the order of the checklist."""
    codes = [rule.code for rule in rules]
    return tuple(
        sorted(
            findings,
            key=lambda one: (codes.index(one.code), _ORDER[one.level], one.place.line if one.place else 0),
        )
    )


def _leave_comments(context: Context) -> None:
    """With --partial, each place that needs a person is marked in the file."""
    modules = {module.path: module for module in context.facts.program.modules.values()}
    for finding in context.findings:
        if finding.level is Level.BLOCKING and finding.place is not None:
            text = f"# distify: needs you {finding.code}: {finding.message}"
            context.plan(modules[finding.place.path]).comment(finding.place.line, text, finding.code)


def _is_read_by_python(data: bytes) -> bool:
    """By the one that this is: libcst reads what some later one may."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
    except (SyntaxError, ValueError):
        return False
    return True


def _new_file(context: Context, plan: Plan) -> NewFile:
    module, target = plan.module, plan.module.path
    if context.options.twins:
        target = context.output if module is context.entry else twin_path(target)
    changes = tuple(sorted(plan.changes, key=lambda change: (change.place.line, change.place.column)))
    after = apply(plan).bytes
    if not _is_read_by_python(after) and _is_read_by_python(module.file.data):
        raise AssertionError(f"what was written for {module.path} is no Python")
    return NewFile(module.path, module.file.data, after, changes, target)
