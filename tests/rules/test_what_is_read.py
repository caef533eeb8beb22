"""PATH01: ranks wait for a file that may be the one that is read, not for a folder, nor before a call with numbers."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import IMPORTS, conversion_of, converted, findings, script

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


MODEL = "model = nn.Linear(4, 1)\nmodel.register_forward_hook(scale)\n"
HOOK = "def scale(module, given, out):\n    return out * float({read})\n\n\n"


@pytest.mark.parametrize(
    ("write", "read"),
    [("np.save('a.npy', 3.0)", "np.load('a.npy')"), ("torch.save(3, 'a.pt')", "torch.load('a.pt')")],
)
def test_ranks_wait_where_a_hook_is_handed_over_and_not_in_it(write: str, read: str) -> None:
    """They come to it in unequal numbers, once evaluations are shared out."""
    before = script(imports=HEAD, setup=f"{write}\n{HOOK.format(read=read)}", model=MODEL)
    after = converted(before)
    assert "rt.barrier()\nmodel.register_forward_hook(scale)\n" in after
    assert after.count("rt.barrier()") == 1


@pytest.mark.parametrize(
    ("read", "named"), [("np.load('a.npy')", "np.load"), ("torch.load('a.npy')", "torch.load"), ("b(np.load)", "")]
)
def test_what_a_hook_reads_later_is_named(read: str, named: str) -> None:
    after = "np.save('a.npy', 3.0)\nprint(model(torch.ones(1, 4)))\n"
    setup = "def b(call):\n    return 3\n\n\n" + HOOK.format(read=read)
    (one,) = findings("PATH01", script(imports=HEAD, setup=setup, model=MODEL, after=after), Level.NOT_NEEDED)
    assert (f", unless by `{named}` at " in one.message) is bool(named)


def test_what_a_hook_reads_of_what_is_written_anew_is_advised_about() -> None:
    setup = "np.save('a.npy', 3.0)\n" + HOOK.format(read="np.load('a.npy')")
    before = script(imports=HEAD, setup=setup, model=MODEL, after="np.save('a.npy', 4.0)\n")
    (one,) = findings("PATH01", before, Level.ADVICE)
    assert one.message.startswith("a library calls this at a time of its own")
    other = before.replace("np.save('a.npy', 4.0)", "np.save('b.npy', 4.0)")
    assert findings("PATH01", other, Level.ADVICE) == []


ROWS = """\
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.as_tensor({read})[index], torch.ones(1)


held_out = DataLoader(Rows(), batch_size=4, num_workers=2)
"""
EVALUATED = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = 0.0
    for x, y in held_out:
        total += nn.functional.mse_loss(model(x), y, reduction='sum').item()
    {write}
"""


@pytest.mark.parametrize(
    ("read", "write", "number"),
    [
        ("np.load('a.npy')", "np.save('a.npy', np.ones((8, 4)))", 2),
        ("torch.load('a.pt')", "torch.save(torch.ones(8, 4), 'a.pt')", 2),
        ("np.load('a.npy')", "np.save('b.npy', np.ones((8, 4)))", 0),
        ("torch.load('a.pt')", "torch.save(torch.ones(8, 4), 'b.pt')", 0),
    ],
)
def test_rank_zero_waits_for_workers_of_an_evaluation(read: str, write: str, number: int) -> None:
    before = script(imports=HEAD, setup=ROWS.format(read=read), loop=EVALUATED.format(write=write))
    after = converted(before)
    assert after.count("rt.barrier()\n") == number
    assert ("rt.barrier()\n    if rt.is_main_process():\n" in after) is bool(number)
