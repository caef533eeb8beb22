"""PATH01: ranks wait for a file that may be the one that is read, not for a folder, nor before a call with numbers."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import IMPORTS, conversion_of, script

HEAD = f"""{IMPORTS}import os
import time
import numpy as np
import uuid
import unheard_of
"""
WRITE = "with open(os.environ['OUT'], 'w') as note:\n    note.write('x')\n"
FOLDER = "os.mkdir(os.environ['OUT'])\n"


def waits(after: str) -> bool:
    (new,) = conversion_of(script(imports=HEAD, after=after), options=Options(strategy="sharded")).files
    return b"rt.barrier()" in new.after


@pytest.mark.parametrize(
    "after",
    [
        f"{FOLDER}print(open('notes.txt').read())\n",
        f"{FOLDER}print(np.load('samples.npy'))\n",
        "os.mkdir('runs')\nprint(open('runs/notes.txt').read())\n",
        f"{WRITE}unheard_of.context().buffer(np.sin(np.arange(4) + time.time()))\n",
        f"{WRITE}array = np.sin(np.arange(4) + time.time()).astype('f4')\nunheard_of.context().buffer(array)\n",
        f"{WRITE}array = torch.ones(3) * time.time()\nunheard_of.context().buffer(array)\n",
    ],
)
def test_nothing_is_waited_for(after: str) -> None:
    assert not waits(after)


@pytest.mark.parametrize(
    "after",
    [
        f"{WRITE}print(open('notes.txt').read())\n",
        f"{FOLDER}{WRITE}print(np.load('samples.npy'))\n",
        f"{WRITE}unheard_of.context().buffer('notes.txt')\n",
        f"{WRITE}unheard_of.context().buffer(time.strftime('%H'))\n",
        f"{WRITE}name = f'run-{{uuid.uuid4()}}'\nunheard_of.context().buffer(name)\n",
        f"{WRITE}name = np.sin(time.time())\nname = time.strftime('%H')\nunheard_of.context().buffer(name)\n",
        f"{FOLDER}unheard_of.listed(os.path.join('runs', 'a'))\n",
    ],
)
def test_what_may_be_the_file_is_waited_for(after: str) -> None:
    assert waits(after)
