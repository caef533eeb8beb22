"""PATH01: a checkpoint that is moved to its place is a file: making its folder waits for nobody."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, LOOP, converted, indented, script

SAVE = """
def save(path, state):
    path.parent.mkdir(parents=True, exist_ok=True)
{lines}

"""
IN_EACH_EPOCH = LOOP + '    save(Path("out") / f"{epoch}.pt", model.state_dict())\n'


@pytest.mark.parametrize(
    ("lines", "waits"),
    [
        ('part = path.with_suffix(".tmp")\ntorch.save(state, part)\npart.replace(path)\n', False),
        ('part = str(path) + ".tmp"\ntorch.save(state, part)\nos.replace(part, path)\n', False),
        ("old = path.parent\ntorch.save(state, path)\nold.rename(str(old) + '.old')\n", True),
        ("torch.save(state, path)\nshutil.move(str(path.parent), '/tmp/kept')\n", True),
    ],
)
def test_what_was_written_by_its_name_is_no_folder(lines: str, waits: bool) -> None:
    imports = f"import os\nimport shutil\nfrom pathlib import Path\n{IMPORTS}"
    before = script(imports=imports, setup=SAVE.format(lines=indented(lines)), loop=IN_EACH_EPOCH)
    head = "    rt.barrier()\n    path.parent.mkdir"
    assert (head in converted(before)) is waits
