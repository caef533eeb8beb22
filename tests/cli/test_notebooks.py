"""Notebooks: their code becomes a script, what only a notebook can do is set aside and listed, places are cells."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from nbformat import v4, write

from distify.bars import in_text
from distify.cells import plain_lines
from distify.displays import displayed, given_by

SETUP = """\
%matplotlib inline
!pip install torch \\
    torchvision
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset"""
DATA = """\
dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
loader = DataLoader(dataset, batch_size=16, shuffle=True)
DataLoader?"""
TRAIN = """\
%%time
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch);"""

CONVERTED = """\
# The code of train.ipynb. What only a notebook can do is a comment.

# %% cell 1 [markdown]
# # Lines
# A straight one.

# %% cell 2
# %matplotlib inline
# !pip install torch \\
# torchvision
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from distify_runtime import rank_zero_print as print
from torch.nn.parallel import DistributedDataParallel

rt.init_process_group()

# %% cell 3
dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
loader = DataLoader(dataset, batch_size=rt.per_rank_batch_size(16),
                    sampler=rt.TrainingSampler(dataset))
# DataLoader?

# %% cell 4
# %%time
model = nn.Linear(8, 1)
model = DistributedDataParallel(model, device_ids=rt.device_ids(model))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rt.seed_ranks_apart()
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch);
"""


def notebook(folder: Path, *code: str, text: str = "# Lines\nA straight one.", **metadata: Any) -> Path:
    """Writes train.ipynb: a cell of text, then cells of code."""
    metadata = metadata or {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [v4.new_markdown_cell(text), *map(v4.new_code_cell, code)]
    path = folder / "train.ipynb"
    write(v4.new_notebook(cells=cells, metadata=metadata), path)
    return path


# ---- commands


def test_a_notebook_becomes_a_script(distify: CommandLine) -> None:
    path = notebook(distify.folder, SETUP, DATA, TRAIN)
    before = path.read_bytes()
    ended = distify("convert", "train.ipynb", "--yes")
    assert ended.code == 0
    script = (distify.folder / "train_dist.py").read_text()
    assert script == CONVERTED
    compile(script, "train_dist.py", "exec")
    assert path.read_bytes() == before
    assert "wrote train_dist.py\n" in ended.err
    assert ended.err.endswith("\n  distify run -np 2 train_dist.py ...\n")
    assert "train.ipynb, cell 3, line 2: the training loader deals each rank its share" in ended.err
    aside = [line.strip() for line in ended.err.splitlines() if "set aside" in line]
    assert aside == [
        "train.ipynb, cell 2, line 1: set aside: `%matplotlib inline`",
        "train.ipynb, cell 2, line 2: set aside: `!pip install torch \\`",
        "train.ipynb, cell 3, line 3: set aside: `DataLoader?`",
        "train.ipynb, cell 4, line 1: set aside: `%%time`",
    ]
    again = distify("convert", "train_dist.py", "--yes")
    assert again.err == "train_dist.py: already converted; nothing to do\n"


def test_a_second_conversion_finds_nothing_to_do(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, DATA, TRAIN)
    assert distify("convert", "train.ipynb", "--check").code == 1
    assert distify("convert", "train.ipynb", "--yes").code == 0
    assert distify("convert", "train.ipynb", "--check").code == 0
    assert distify("convert", "train.ipynb", "--yes").err == "train_dist.py is there already, and up to date\n"


def test_the_diff_is_a_patch_that_adds_the_script(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, DATA, TRAIN)
    ended = distify("convert", "train.ipynb", "--diff")
    lines = ended.out.decode().splitlines()
    assert lines[:2] == ["--- /dev/null", "+++ b/train_dist.py"]
    assert lines[3:] == [f"+{line}" for line in CONVERTED.splitlines()]
    assert [path.name for path in distify.folder.iterdir()] == ["train.ipynb"]


def test_output_names_the_script(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, DATA, TRAIN)
    assert distify("convert", "train.ipynb", "--yes", "-o", "ddp.py").code == 0
    assert (distify.folder / "ddp.py").read_text() == CONVERTED
    ended = distify("convert", "train.ipynb", "--yes", "-o", "ddp.ipynb")
    assert (ended.code, ended.err) == (
        2,
        "distify: ddp.ipynb: the conversion of a notebook is a script: name a .py file\n",
    )


def test_no_notebook_is_changed_in_place(distify: CommandLine) -> None:
    path = notebook(distify.folder, SETUP, DATA, TRAIN)
    before = path.read_bytes()
    ended = distify("convert", "train.ipynb", "--in-place", "--yes")
    assert (ended.code, ended.err) == (
        2,
        "distify: train.ipynb: a notebook cannot be changed in place, because ranks are started from a script: "
        "leave out --in-place\n",
    )
    assert path.read_bytes() == before


def test_check_names_cells(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, DATA, TRAIN)
    ended = distify("check", "--json", "train.ipynb")
    [report] = json.loads(ended.out)
    assert (ended.code, report["verdict"]) == (0, "convertible")
    places = {(one["code"], one["cell"], one["line"]) for one in report["findings"] if one["line"]}
    assert {("DATA01", 3, 2), ("BOOK01", 2, 1), ("MODEL01", 4, 2)} <= places


def test_why_names_cells(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, DATA, TRAIN)
    lines = distify("check", "--why", "train.ipynb").out.decode().splitlines()
    assert (
        "  train.ipynb, cell 4, line 9: `optimizer.step()` is a step of `optimizer`: `optimizer` is the optimizer "
        "made at train.ipynb, cell 4, line 3"
    ) in lines


def test_modules_beside_the_notebook_are_followed(distify: CommandLine) -> None:
    (distify.folder / "nets.py").write_text("from torch import nn\n\n\ndef build():\n    return nn.Linear(8, 1)\n")
    notebook(distify.folder, f"{SETUP}\nfrom nets import build", DATA, TRAIN.replace("nn.Linear(8, 1)", "build()"))
    assert distify("convert", "train.ipynb", "--yes").code == 0
    assert "DistributedDataParallel(model" in (distify.folder / "train_dist.py").read_text()


# ---- what a script cannot do


def test_names_that_a_magic_binds_need_a_person(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, f"files = !ls\n%run setup.py\n{DATA}", TRAIN)
    ended = distify("convert", "train.ipynb", "--yes")
    assert ended.code == 3
    assert "train.ipynb, cell 3, line 1: `files = !ls` binds what the script may need, and is no Python" in ended.err
    assert "train.ipynb, cell 3, line 2: `%run setup.py` binds what" in ended.err
    assert not (distify.folder / "train_dist.py").exists()
    assert distify("convert", "train.ipynb", "--yes", "--partial").code == 3
    script = (distify.folder / "train_dist.py").read_text()
    assert "\n# distify: needs you BOOK01: files = !ls\n# distify: needs you BOOK01: %run setup.py\n" in script


def test_the_shell_object_needs_a_person_where_it_is_more_than_a_magic(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, f"get_ipython().system('ls')\n{DATA}", TRAIN)
    ended = distify("check", "train.ipynb")
    assert ended.code == 0
    assert b"train.ipynb, cell 3, line 1: set aside: `get_ipython().system('ls')`" in ended.out
    notebook(distify.folder, SETUP, f"colab = 'colab' in str(get_ipython())\n{DATA}", TRAIN)
    ended = distify("check", "train.ipynb")
    assert ended.code == 3
    assert b"line 1: `colab = 'colab' in str(get_ipython())`: a script has no get_ipython()" in ended.out


def test_imports_from_the_future_come_first(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, f"import os\nfrom __future__ import annotations\n{DATA}", TRAIN)
    assert distify("convert", "train.ipynb", "--yes").code == 0
    script = (distify.folder / "train_dist.py").read_text()
    assert script.splitlines()[1] == "from __future__ import annotations"
    compile(script, "train_dist.py", "exec")


def test_display_prints(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, DATA, TRAIN, "display(model)")
    ended = distify("convert", "train.ipynb", "--yes")
    assert "cell 5, line 1: `display(model)` shows rich output in a notebook; a script prints text" in ended.err
    script = (distify.folder / "train_dist.py").read_text()
    assert script.endswith("display = print  # a notebook has this function without an import\ndisplay(model.module)\n")


GIVING = """\
import matplotlib.pyplot as plt
def evaluate(m):
    return 1
def go(m):
    pass"""


def shown(cell: str) -> tuple[str, list[str]]:
    """A cell as the script has it, and what is said of what the notebook shows."""
    lines = displayed([*plain_lines(cell)], given_by([[*plain_lines(GIVING)]]))
    return "\n".join(line.text for line in lines), [line.shows for line in lines if line.shows]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("x = 1\nacc", "x = 1\nprint(acc)"),
        ("a = 1; a", "a = 1; print(a)"),
        ("cm.T  # by class; in percent", "print(cm.T)  # by class; in percent"),
        ("ü = 'ä'; f'{ü}'", "ü = 'ä'; print(f'{ü}')"),
        ("x.shape, y.bincount()", "print(x.shape, y.bincount())"),
        ("(acc,\n loss)\n# at the end", "print((acc,\n loss))\n# at the end"),
        ("100 * acc /\\\n    total", "print(100 * acc /\\\n    total)"),
        ("model(x).shape", "print(model(x).shape)"),
        ("df.head()", "print(df.head())"),
        ("len(data)", "print(len(data))"),
        ("evaluate(model)", "print(evaluate(model))"),
        ("%%time\nacc", "# %%time\nprint(acc)"),
        ("%time evaluate(model)", "print(evaluate(model))"),
        ("!ls\nacc", "# !ls\nprint(acc)"),
    ],
)
def test_what_a_notebook_shows_is_printed(cell: str, text: str) -> None:
    found, (said,) = shown(cell)
    assert found == text
    assert said.endswith(", the last of its cell, is printed: a notebook shows it by itself")
    compile(found, "cell", "exec")


@pytest.mark.parametrize("cell", ["fit(model)", "trainer.fit(model)", "[step(batch) for batch in loader]"])
def test_what_may_be_anything_is_said(cell: str) -> None:
    assert shown(cell) == (
        cell, [f"what `{cell}` gives is shown in a notebook, and not in a script: print it, if you need it"]
    )  # fmt: skip


@pytest.mark.parametrize(
    "cell",
    [
        "acc;", "acc ;  # quiet", "x = acc", "print(acc)", "go(model)", "model.eval()", "plt.plot(x)",
        "plt.gca().add_patch(x)", "ax.set_title('x')", "'a text'", "None", "for x in y:\n    x", "if x:\n    acc",
    ],
)  # fmt: skip
def test_what_a_notebook_does_not_show_stays(cell: str) -> None:
    assert shown(cell) == (cell, [])


@pytest.mark.parametrize("cell", ["acc\n!ls", "acc\n%timeit f(x)", "%%capture\nacc", "%%bash\nacc", "acc?"])
def test_what_stands_before_a_magic_stays(cell: str) -> None:
    text, said = shown(cell)
    assert (text.count("print"), said) == (0, [])


def test_figures_of_an_evaluation_that_a_notebook_shows(distify: CommandLine) -> None:
    """One process prints them as it did, and so does rank 0."""
    last = (
        "with torch.no_grad():\n    error = nn.functional.mse_loss(model(dataset[:][0]), dataset[:][1])\nerror.item()"
    )
    notebook(distify.folder, SETUP, DATA, TRAIN, last)
    ended = distify("convert", "train.ipynb", "--yes")
    assert ended.code == 0
    assert (distify.folder / "train_dist.py").read_text().endswith("\nprint(error.item())\n")
    assert (
        "cell 5, line 3: `error.item()`, the last of its cell, is printed: a notebook shows it by itself" in ended.err
    )


def test_what_belongs_to_a_kernel_is_said_and_bars_are_text(distify: CommandLine) -> None:
    first = "%%time\nfrom tqdm.notebook import tqdm\nimport ipywidgets as widgets"
    train = TRAIN.replace("in loader:", "in tqdm(loader):")
    asked = "name = input('name of the run? ')\nepochs = widgets.IntSlider(value=2)"
    notebook(distify.folder, first, asked, SETUP, DATA, train)
    ended = distify("convert", "train.ipynb", "--yes")
    assert ended.code == 0, ended.err
    script = (distify.folder / "train_dist.py").read_text()
    assert "# %%time\nfrom tqdm import tqdm\nimport ipywidgets as widgets\n" in script
    assert "name = rt.call_on_main_process(input, 'name of the run? ')\n" in script
    assert "disable=not rt.is_main_process()" in script
    assert "cell 2, line 1: set aside: `%%time`" in ended.err
    assert "cell 2, line 2: `from tqdm.notebook import tqdm`: a notebook's progress bar becomes one of" in ended.err
    assert "cell 2, line 3: widgets keep the values that they are made with" in ended.err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("from tqdm.notebook import tqdm, trange", "from tqdm import tqdm, trange"),
        ("    from tqdm.notebook import tqdm as bar  # x", "    from tqdm import tqdm as bar  # x"),
        ("from tqdm import tqdm_notebook", "from tqdm import tqdm as tqdm_notebook"),
        ("from tqdm import tqdm_notebook as tqdm, tnrange", "from tqdm import tqdm as tqdm, trange as tnrange"),
        ("import tqdm.notebook", "import tqdm"),
        ("import tqdm.notebook as tq", "import tqdm as tq"),
        ("from tqdm import notebook", "import tqdm as notebook"),
        ("for x in tqdm.notebook.tqdm(loader):", "for x in tqdm.tqdm(loader):"),
        ("for x in tqdm.tqdm_notebook(loader):", "for x in tqdm.tqdm(loader):"),
        ("for i in tqdm.notebook.trange(9): f(tqdm.tnrange(3))", "for i in tqdm.trange(9): f(tqdm.trange(3))"),
    ],
)
def test_bars_are_of_text(line: str, text: str) -> None:
    assert in_text(line) == text


@pytest.mark.parametrize(
    "line",
    [
        "from tqdm.auto import tqdm",
        "from tqdm import tqdm, trange",
        "import tqdm  # not tqdm.notebook",
        "for x in tqdm_notebook(loader):",
        "my.tqdm.notebook.tqdm(x)",
        "notebook = 'train.ipynb'",
    ],
)
def test_other_lines_stay(line: str) -> None:
    assert in_text(line) == line


def test_display_of_ipython_stays(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, DATA, TRAIN, "from IPython.display import display\ndisplay(model)")
    assert distify("convert", "train.ipynb", "--yes").code == 0
    assert "display = print" not in (distify.folder / "train_dist.py").read_text()


# ---- notebooks that are none


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no notebook: not JSON (line 1: Expecting value)"),
        ("{", "is no notebook: not JSON (line 1: Expecting property name enclosed in double quotes)"),
        ("[]", "is no notebook (its JSON is no object)"),
        ("{}", "is no notebook (it has no nbformat)"),
        (
            '{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}',
            "is a notebook of format 3; save it in Jupyter, which makes it format 4",
        ),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}', "is an empty notebook"),
        (
            '{"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"language": "R"}}, "cells": []}',
            "is a notebook in r, not in Python",
        ),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "is no valid notebook"),
    ],
)
@pytest.mark.parametrize("command", ["convert", "check"])
def test_one_line_says_what_is_wrong(distify: CommandLine, content: str, said: str, command: str) -> None:
    (distify.folder / "train.ipynb").write_text(content)
    ended = distify(command, "train.ipynb")
    assert ended.code == 2
    assert ended.err.startswith(f"distify: train.ipynb: {said}")
    assert ended.err.count("\n") == 1


def test_a_notebook_of_text_has_no_code(distify: CommandLine) -> None:
    notebook(distify.folder, "", "  \n")
    ended = distify("convert", "train.ipynb")
    assert (ended.code, ended.err) == (2, "distify: train.ipynb: is a notebook without code\n")


def test_syntax_errors_are_found_in_their_cell(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, "x = 1\ny = (")
    ended = distify("convert", "train.ipynb")
    assert (ended.code, ended.err) == (
        2,
        "distify: train.ipynb, cell 3, line 2: does not parse as Python 3: '(' was never closed\n",
    )


def test_what_works_in_a_notebook_only_is_said(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, "x = 1\nawait x")
    ended = distify("convert", "train.ipynb")
    assert (ended.code, ended.err) == (
        2,
        "distify: train.ipynb, cell 3, line 2: works in a notebook only: 'await' outside function\n",
    )


def test_without_nbformat_the_pip_command_is_named(distify: CommandLine) -> None:
    notebook(distify.folder, SETUP, DATA, TRAIN)
    blocker = distify.folder / "no" / "nbformat.py"
    blocker.parent.mkdir()
    blocker.write_text("raise ImportError\n")
    ended = distify("convert", "train.ipynb", PYTHONPATH=f"{blocker.parent}:{distify.env['PYTHONPATH']}")
    assert (ended.code, ended.err) == (
        2,
        "distify: train.ipynb: reading notebooks needs nbformat: pip install nbformat\n",
    )


# ---- cells


def plain(source: str) -> str:
    return "\n".join(line.text for line in plain_lines(source))


@pytest.mark.parametrize(
    ("cell", "script"),
    [
        ("if x:\n    !ls", "if x:\n    pass  # !ls"),
        ("%time y = f(1)", "y = f(1)"),
        ("    %prun -l 5 f(1)", "    f(1)"),
        ("%timeit f(1)", "# %timeit f(1)"),
        ("\n%%bash\nls\n  rm x", "# %%bash\n# ls\n#   rm x"),
        ("%%capture out\nx = 1", "# %%capture out\nx = 1"),
        ("a = (1\n% 2)", "a = (1\n% 2)"),
        ("s = '''\n%no\n!no\n'''\n%yes", "s = '''\n%no\n!no\n'''\n# %yes"),
        ("x = 7 \\\n% 2", "x = 7 \\\n% 2"),
        ("x = 7 # (\\\n%yes", "x = 7 # (\\\n# %yes"),
        ("model??", "# model??"),
        ("?model.fit", "# ?model.fit"),
        ("x = '?'  # why?", "x = '?'  # why?"),
        ("pip install torch", "# pip install torch"),
        ("plt.show();", "plt.show();"),
        ("a[0], b = !ls", "# a[0], b = !ls"),
        ("x != y", "x != y"),
        ("get_ipython().run_line_magic(\n'cd', '.')", "get_ipython().run_line_magic(\n'cd', '.')"),
    ],
)
def test_cells_as_plain_python(cell: str, script: str) -> None:
    assert plain(cell) == script


LIBRARY = Path(sysconfig.get_path("stdlib"))


@pytest.mark.parametrize(
    "name", ["argparse", "ast", "dataclasses", "difflib", "inspect", "tokenize", "re/_parser", "tarfile", "typing"]
)
def test_plain_python_stays_as_it_is(name: str) -> None:
    source = (LIBRARY / f"{name}.py").read_text(encoding="utf-8")
    assert plain(source) == source
