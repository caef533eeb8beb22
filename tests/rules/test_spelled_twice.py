"""An import of a file of the project in two spellings, of which one is right: each means that file."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, script

LOSSES = "def loss_of(out, y):\n    return {called}(out, y).mean()\n"
FILES = {
    "pkg/__init__.py": "",
    "pkg/sizes.py": "def squares(out, y):\n    return ((out - y) ** 2).mean(dim=1)\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/losses.py": LOSSES.format(called="squares"),
}
EITHER = "try:\n    {}\nexcept ImportError:\n    {}\n\n\n"


def conversion(imports: str, called: str = "squares", place: str = "losses", there: str = "torch") -> Conversion:
    loop = LOOP.replace("nn.functional.mse_loss", "loss_of")
    before = script(imports=f"{IMPORTS}from pkg.{place} import loss_of\n", loop=loop)
    path = f"pkg/{place.replace('.', '/')}.py"
    files = {**FILES, path: imports + LOSSES.format(called=called)}
    return conversion_of(before, options=Options(installed=lambda name: name in (there, "torch")), files=files)


@pytest.mark.parametrize(
    ("one", "other", "called", "place"),
    [
        ("from .sizes import squares", "from sizes import squares", "squares", "losses"),
        ("from . import sizes", "import sizes", "sizes.squares", "losses"),
        ("from . import sizes as s", "import sizes as s", "s.squares", "losses"),
        ("from ..sizes import squares", "from sizes import squares", "squares", "deep.losses"),
    ],
)
def test_both_mean_the_file(one: str, other: str, called: str, place: str) -> None:
    for imports in (EITHER.format(one, other), EITHER.format(other, one)):
        found = conversion(imports, called, place)
        assert found.strategy is Strategy.SHARDED
        assert not any("squares" in told.message for told in found.of(Level.ADVICE))


@pytest.mark.parametrize(
    ("imports", "there"),
    [
        (EITHER.format("from .sizes import squares", "from sizes import squares"), "sizes"),
        (EITHER.format("from .sizes import squares", "from fast.sizes import squares"), "torch"),
        (EITHER.format("from fast import squares", "from .sizes import squares"), "torch"),
        ("from sizes import squares\n\n\n", "torch"),
    ],
)
def test_what_a_library_may_have_is_not_known(imports: str, there: str) -> None:
    found = conversion(imports, there=there)
    assert found.strategy is Strategy.SHARED
    assert any("`squares(out, y)`, of which is not known" in told.message for told in found.of(Level.ADVICE))
