"""GROUP01: one process group, before anything that must be the same, or different, on each rank."""

from __future__ import annotations

from distify_codemods.events import Kind
from distify_codemods.libraries.registry import tracker
from distify_codemods.rules import start
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example


def run(context: Context) -> None:
    found = start.place(context)
    if found is None:
        return
    statement, after = found
    module, plan = context.entry, context.plan(context.entry)
    per_rank = context.options.per_rank_batch and not context.shares_forwards
    own = _that_draw_alone(context)
    text = context.backend.process_group(context.rt(module), per_rank, context.shares_forwards, own)
    reason = "each process joins the group, takes its own GPU, and starts from rank 0's random numbers"
    for line in context.backend.starts(context.engine(module)):
        plan.insert(statement, line, "GROUP01", reason, -11, after=after)
    plan.insert(statement, text, "GROUP01", reason, -10, after=after)
    context.applied("one process group, torn down at exit", module, statement)


def _that_draw_alone(context: Context) -> tuple[str, ...]:
    """The packages of trackers that draw from the script's own random numbers, where rank 0 alone calls them."""
    called = ((event.name, tracker(event.name)) for event in context.facts.of_kind(Kind.CALL))
    names = {name.partition(".")[0] for name, known in called if known is not None and known.draws}
    return tuple(sorted(names))


RULE = Rule(
    code="GROUP01",
    name="process group",
    why="Without a process group the processes train N models that know nothing of each other.",
    safety="Inserted once, after the command line is read and before the first thing that touches data, models or "
    "devices; above the import of a file of the project in which random numbers are drawn, or a GPU is used. The "
    "group takes itself down at exit, also after `return`, `sys.exit` and exceptions.",
    run=run,
    limits="A script whose first such step is inside a condition gets it before the condition.",
    pitfalls=(13, 23, 46),
    examples=(
        Example(),
        Example(
            script="""
            import argparse

            {torch}
            {ours}


            def main():
                parser = argparse.ArgumentParser()
                parser.add_argument("--lr", type=float, default=0.1)
                args = parser.parse_args()
                {group}
                torch.manual_seed(0)
                {data}
                {loader}
                {model}
                {wrap}
                optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
                {apart}
                {loop}


            if __name__ == "__main__":
                main()
            """
        ),
    ),
)
