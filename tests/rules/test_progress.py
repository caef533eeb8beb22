"""OUT02: one rank draws progress bars."""

from __future__ import annotations

import pytest
from distify_codemods import Level
from distify_codemods.results import Options

from tests.rules.scripts import (
    IMPORTS,
    LOOP,
    SHUFFLED,
    changes,
    conversion_of,
    converted,
    distributed,
    findings,
    script,
)

BARS = f"from tqdm import tqdm\n{IMPORTS}"
QUIET = "disable=not rt.is_main_process()"


def over(loop: str, bar: str) -> str:
    return loop.replace("in loader:", f"in {bar}:")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tqdm(loader)", f"tqdm(loader, {QUIET})"),
        ("tqdm(loader, desc='train')", f"tqdm(loader, desc='train', {QUIET})"),
        ("tqdm(loader, 'train', leave=False)", f"tqdm(loader, 'train', leave=False, {QUIET})"),
        ("tqdm(loader, disable=False)", f"tqdm(loader, {QUIET})"),
        ("tqdm(loader, disable=quiet)", f"tqdm(loader, disable=quiet or {QUIET[8:]})"),
        ("tqdm(loader, disable=not quiet)", f"tqdm(loader, disable=not quiet or {QUIET[8:]})"),
        ("tqdm(loader, disable=quiet if data else False)",
         f"tqdm(loader, disable=(quiet if data else False) or {QUIET[8:]})"),
        ("tqdm(loader, disable=None)", f"tqdm(loader, disable=None or {QUIET[8:]})"),
        ("tqdm(\n        loader,\n        leave=False,  # gone\n    )",
         f"tqdm(\n        loader,\n        leave=False,  # gone\n        {QUIET},\n    )"),
        ("tqdm(\n        loader,\n        leave=False\n    )",
         f"tqdm(\n        loader,\n        leave=False,\n        {QUIET}\n    )"),
        ("tqdm(loader, **options)", f"tqdm(loader, {QUIET}, **options)"),
        ("tqdm(iterable=loader)", f"tqdm(iterable=loader, {QUIET})"),
    ],
)  # fmt: skip
def test_disabled_on_the_others(before: str, after: str) -> None:
    setup = "quiet = len(IMAGES) > 3\noptions = {'leave': False}\n"
    given = script(imports=BARS, setup=f"IMAGES = [1]\n{setup}", loop=over(LOOP, before))
    assert converted(given) == distributed(imports=BARS, setup=f"IMAGES = [1]\n{setup}", loop=over(SHUFFLED, after))


RICH = "from rich import progress\nfrom rich.progress import BarColumn, Progress, TextColumn, track\n"
LINE = "every rank draws the bar of"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("track(loader)", f"track(loader, {QUIET})"),
        ("track(loader, 'train', len(loader))", f"track(loader, 'train', len(loader), {QUIET})"),
        ("progress.track(loader, disable=False)", f"progress.track(loader, {QUIET})"),
        ("track(loader, disable=len(data) > 3)", f"track(loader, disable=len(data) > 3 or {QUIET[8:]})"),
    ],
)  # fmt: skip
def test_what_goes_through_a_bar_of_rich_is_drawn_on_rank_0(before: str, after: str) -> None:
    given = script(imports=RICH + IMPORTS, setup="columns = [BarColumn()]\n", loop=over(LOOP, before))
    conversion = conversion_of(given)
    assert f"in {after}:\n" in conversion.files[0].after.decode()
    assert not [one for one in conversion.of(Level.ADVICE) if LINE in one.message]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Progress()", f"Progress({QUIET})"),
        ("Progress(TextColumn('x'), BarColumn())", f"Progress(TextColumn('x'), BarColumn(), {QUIET})"),
        ("Progress(*columns, expand=True)", f"Progress(*columns, expand=True, {QUIET})"),
    ],
)
def test_a_bar_of_rich_is_one_and_its_columns_are_none(before: str, after: str) -> None:
    shown = "with {} as bar:\n    task = bar.add_task('all', total=3)\n    bar.update(task, advance=1)\n"
    given = script(imports=RICH + IMPORTS, setup="columns = [BarColumn()]\n", after=shown.format(before))
    conversion = conversion_of(given)
    assert shown.format(after) in conversion.files[0].after.decode()
    assert not [one for one in conversion.of(Level.ADVICE) if LINE in one.message]


@pytest.mark.parametrize(
    "before",
    [
        "tqdm_of_mine(loader)",
        "enumerate(loader)",
        "zip(loader, loader)",
    ],
)
def test_what_is_no_bar_of_rich_is_left(before: str) -> None:
    setup = "def tqdm_of_mine(values):\n    return values\n\n\n"
    after = converted(script(imports=RICH + IMPORTS, setup=setup, after=f"for one in {before}:\n    pass\n"))
    assert "disable=" not in after


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import tqdm\n", "tqdm.tqdm"),
        ("from tqdm.auto import tqdm\n", "tqdm"),
        ("from tqdm import tqdm as bar\n", "bar"),
        ("import tqdm as t\n", "t.tqdm"),
    ],
)
def test_under_any_name(imports: str, name: str) -> None:
    imports = imports + IMPORTS
    before = script(imports=imports, loop=over(LOOP, f"{name}(loader)"))
    assert converted(before) == distributed(imports=imports, loop=over(SHUFFLED, f"{name}(loader, {QUIET})"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for x, y in tqdm(enumerate(loader), total=9)", f"for x, y in tqdm(enumerate(loader), total=9, {QUIET})"),
        ("for x, y in enumerate(tqdm(loader))", f"for x, y in enumerate(tqdm(loader, {QUIET}))"),
    ],
)
def test_numbered(before: str, after: str) -> None:
    numbered = LOOP.replace("for x, y in loader", before.replace("x, y", "i, (x, y)"))
    new = SHUFFLED.replace("for x, y in loader", after.replace("x, y", "i, (x, y)"))
    assert converted(script(imports=BARS, loop=numbered)) == distributed(imports=BARS, loop=new)


def test_bar_over_the_epochs() -> None:
    imports = f"from tqdm import trange\n{IMPORTS}"
    before = script(imports=imports, loop=LOOP.replace("range(3)", "trange(3)"))
    after = distributed(imports=imports, loop=SHUFFLED.replace("range(3)", f"trange(3, {QUIET})"))
    assert converted(before) == after


def test_bar_with_a_name() -> None:
    line = "    bar = tqdm(loader)\n"
    loop = over(LOOP, "bar").replace("    for x", f"{line}    for x") + "        bar.set_postfix(loss=loss.item())\n"
    after = converted(script(imports=BARS, loop=loop))
    assert f"    bar = tqdm(loader, {QUIET})\n" in after
    assert "    loader.sampler.set_epoch(epoch)\n    for x, y in bar:\n" in after
    assert "        bar.set_postfix(loss=loss.item())\n" in after


def test_bar_as_a_context() -> None:
    before = script(imports=BARS, after="with tqdm(total=3) as bar: bar.update(1)\n")
    after = f"with tqdm(total=3, {QUIET}) as bar: bar.update(1)\n"
    assert converted(before) == distributed(imports=BARS, after=after)


def test_text_beside_the_bar() -> None:
    before = script(imports=BARS, after='tqdm.write("done")\n')
    after = 'if rt.is_main_process():\n    tqdm.write("done")\n'
    assert converted(before) == distributed(imports=BARS, after=after)


def test_what_such_a_text_says_is_no_path() -> None:
    """Whatever it is made of: it goes to the screen."""
    before = script(imports=f"{BARS}import time\n", after='tqdm.write("%d epochs, %f s" % (3, time.time()))\n')
    assert not [one for one in conversion_of(before).of(Level.ADVICE) if one.code == "OUT03"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bar = tqdm(total=3)\nbar.write('done')\n",
         f"bar = tqdm(total=3, {QUIET})\nif rt.is_main_process():\n    bar.write('done')\n"),
        ("bar = tqdm(range(3))\nsay = lambda text: bar.write(text)\nsay('done')\n",
         f"bar = tqdm(range(3), {QUIET})\nsay = lambda text: rt.main_process_only(bar.write)(text)\nsay('done')\n"),
    ],
)  # fmt: skip
def test_text_that_a_bar_writes(before: str, after: str) -> None:
    """It comes even of a bar that is not drawn."""
    assert converted(script(imports=BARS, after=before)) == distributed(imports=BARS, after=after)


@pytest.mark.parametrize(
    "imports",
    [
        "try:\n    from tqdm import tqdm\nexcept ImportError:\n    tqdm = lambda values: values\n",
        "try: from tqdm import tqdm\nexcept ImportError:\n    def tqdm(values): return values\n",
    ],
)
def test_stand_in_that_knows_no_disable(imports: str) -> None:
    before = script(imports=IMPORTS + imports, loop=over(LOOP, "tqdm(loader)"))
    assert "in tqdm(loader):" in converted(before)
    assert findings("OUT02", before, Level.ADVICE)


def test_kwargs_that_set_it_already() -> None:
    """A second `disable` would be a TypeError."""
    setup = "options = {'disable': False}\n"
    before = script(imports=BARS, setup=setup, loop=over(LOOP, "tqdm(loader, **options)"))
    assert "in tqdm(loader, **options):" in converted(before)
    assert findings("OUT02", before, Level.ADVICE)


@pytest.mark.parametrize(
    "own",
    [
        "def tqdm(values, disable=False):\n    return values\n\n\n",
        "class tqdm:\n    def __init__(self, values): pass\n    def __iter__(self): return iter([1])\n\n\n",
    ],
)
def test_own_function_of_that_name(own: str) -> None:
    before = script(setup=own, after="for value in tqdm([1, 2]): pass\n")
    assert changes("OUT02", before) == []
    assert own in converted(before)


def test_no_bar() -> None:
    assert changes("OUT02", script()) == []


def bar(line: str) -> str:
    loop = LOOP.replace("    for x, y in loader:\n", "    bar = tqdm(loader)\n    for x, y in bar:\n")
    return script(
        imports=BARS, loop=loop.replace("        loss.backward()\n", f"        loss.backward()\n        {line}\n")
    )


@pytest.mark.parametrize(
    "line",
    [
        "bar.set_postfix(loss=loss.item())",
        'bar.set_postfix({"loss": f"{loss.item():.3f}"})',
        'bar.set_description(f"{epoch} {loss:.3f}")',
        'bar.set_postfix_str("%.3f" % loss)',
        "bar.update(len(x))",
    ],
)
def test_figures_of_rank_0s_share_are_said_to_be_that(line: str) -> None:
    (one,) = findings("OUT02", bar(f"{line}\n        {line}"), Level.ADVICE)
    assert one.message == "figures beside the bar, and samples that it counts, are of rank 0's share alone"


@pytest.mark.parametrize("line", ["bar.set_postfix(epoch=epoch)", "bar.update(1)", "bar.refresh()", "print(loss)"])
def test_what_says_nothing_of_a_share_needs_no_word(line: str) -> None:
    assert findings("OUT02", bar(line), Level.ADVICE) == []


def test_where_forward_passes_are_shared_a_bar_shows_whole_batches() -> None:
    seen = conversion_of(bar("bar.set_postfix(loss=loss.item())"), options=Options(strategy="shared"))
    assert [one for one in seen.of(Level.ADVICE) if one.code == "OUT02"] == []


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        ("logging.logging_redirect_tqdm", False),
        ("logging.tqdm_logging_redirect", True),
        ("tzip", True),
        ("concurrent.thread_map", True),
    ],
)
def test_what_of_tqdms_parts_draws_a_bar(name: str, draws: bool) -> None:
    given = script(imports=f"import tqdm.contrib.{name.split('.')[0]}\n{IMPORTS}", after=f"tqdm.contrib.{name}()\n")
    assert any(LINE in one.message for one in conversion_of(given).of(Level.ADVICE)) is draws


COUNTING = """\
with tqdm(total=12) as bar:
    while bar.n < bar.total:
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y) * (1 + bar.n / 12)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bar.update(1)
            {line}
"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("if bar.n % 5 == 0: torch.save(model.state_dict(), 'm.pt')", "if rt.from_main_process(bar.n % 5 == 0):"),
        ("optimizer.param_groups[0]['lr'] = 0.1 / (1 + bar.n)", "0.1 / (1 + rt.from_main_process(bar.n))"),
        ("if bar.n >= 12: break", "if rt.from_main_process(bar.n >= 12): break"),
    ],
)
def test_what_a_bar_has_counted_it_has_on_rank_0_alone(line: str, told: str) -> None:
    text = converted(script(imports=BARS, loop=COUNTING.format(line=line)))
    assert "with tqdm(total=12, disable=not rt.is_main_process()) as bar:" in text
    assert "    while rt.from_main_process(bar.n < bar.total):\n" in text
    assert "(1 + rt.from_main_process(bar.n) / 12)" in text
    assert told in text


def test_what_a_bar_has_counted_and_shows() -> None:
    text = converted(bar("print(bar.n, bar.total)"))
    assert "print(bar.n, bar.total)" in text
