"""A script with files beside it, converted together."""

from __future__ import annotations

from distify_codemods import Conversion, Level, Outcome

from tests.rules.scripts import LOOP, SHUFFLED, conversion_of, indented

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x)
"""
TRAIN = f"def train(model, optimizer, loader):\n{indented(LOOP)}"
SEEDED = "    rt.seed_ranks_apart()\n"
TRAIN_DIST = f"def train(model, optimizer, loader):\n{SEEDED}{indented(SHUFFLED)}"


def together(before: str, files: dict[str, str], **options: object) -> dict[str, str]:
    """The new files by where they go. Each compiles; with them in place of the originals, nothing is left to do."""
    conversion = conversion_of(before, files=files, **options)
    assert conversion.outcome is Outcome.CONVERTED, needs(conversion)
    for new in conversion.files:
        compile(new.after, new.target, "exec", dont_inherit=True)
    by_path = {new.path: new.after.decode() for new in conversion.files}
    again = conversion_of(by_path["train.py"], files={**files, **by_path}, **options)
    assert again.outcome is Outcome.ALREADY_CONVERTED
    return {new.target or new.path: new.after.decode() for new in conversion.files}


def needs(conversion: Conversion) -> set[tuple[str, str, str]]:
    return {(one.code, one.place.path, one.message) for one in conversion.of(Level.BLOCKING) if one.place}
