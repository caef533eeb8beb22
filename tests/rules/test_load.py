"""LOAD01: every rank reads a checkpoint onto its own device, and after it has been written."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, LOOP, MODEL, SHUFFLED, changes, converted, distributed, script

ON_MAIN = "if rt.is_main_process():\n    "


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('torch.load("a.pt")', 'torch.load("a.pt", map_location=rt.map_location)'),
        ('torch.load("a.pt", None)', 'torch.load("a.pt", rt.map_location)'),
        ('torch.load("a.pt", map_location=None)', 'torch.load("a.pt", map_location=rt.map_location)'),
        ('torch.load("a.pt", mmap=True)', 'torch.load("a.pt", mmap=True, map_location=rt.map_location)'),
        ('torch.load("a.pt", map_location={"cuda:1": "cuda:0"})', 'torch.load("a.pt", map_location=rt.map_location)'),
        (
            'torch.load(\n    "a.pt",  # the last\n)',
            'torch.load(\n    "a.pt",  # the last\n    map_location=rt.map_location,\n)',
        ),
        ('torch.load("a.pt")["net"]', 'torch.load("a.pt", map_location=rt.map_location)["net"]'),
        ('torch.load(open("a.pt", "rb"))', 'torch.load(open("a.pt", "rb"), map_location=rt.map_location)'),
    ],
)
def test_map_location(before: str, after: str) -> None:
    given = script(model=f"{MODEL}weights = {before}\nmodel.load_state_dict(weights)\n")
    assert converted(given) == distributed(model=f"{MODEL}weights = {after}\nmodel.load_state_dict(weights)\n")


@pytest.mark.parametrize(
    "load",
    [
        'torch.load("a.pt", "cpu")',
        'torch.load("a.pt", map_location="cpu")',
        'torch.load("a.pt", map_location=device)',
        'torch.load("a.pt", map_location=lambda storage, place: storage)',
        'torch.load("a.pt", **{"map_location": "cpu"})',
    ],
)
def test_place_that_the_author_chose(load: str) -> None:
    setup = 'device = torch.device("cpu")\n'
    model = f"{MODEL}model.load_state_dict({load})\n"
    before = script(setup=setup, model=model)
    assert converted(before) == distributed(setup=setup, model=model)


@pytest.mark.parametrize(
    ("imports", "name"), [("from torch import load\n", "load"), ("from torch import load as read\n", "read")]
)
def test_under_any_name(imports: str, name: str) -> None:
    imports = IMPORTS + imports
    model = f'{MODEL}model.load_state_dict({name}("a.pt"))\n'
    new = f'{MODEL}model.load_state_dict({name}("a.pt", map_location=rt.map_location))\n'
    assert converted(script(imports=imports, model=model)) == distributed(imports=imports, model=new)


def test_after_the_wrap_into_the_model() -> None:
    after = 'model.load_state_dict(torch.load("a.pt", "cpu"))\n'
    assert converted(script(after=after)) == distributed(after=after.replace("model.load", "model.module.load"))


def test_file_that_the_run_has_written() -> None:
    """Rank 1 would read what rank 0 is still writing."""
    before = script(after='torch.save(data, "a.pt")\nagain = torch.load("a.pt", "cpu")\n')
    after = f'{ON_MAIN}torch.save(data, "a.pt")\nrt.barrier()\nagain = torch.load("a.pt", "cpu")\n'
    assert converted(before) == distributed(after=after)


def test_file_that_the_run_has_written_in_its_loop() -> None:
    loop = LOOP + '    torch.save(data, "a.pt")\n'
    before = script(loop=loop, after='if True: again = torch.load("a.pt", "cpu")\n')
    after = 'if True:\n    rt.barrier()\n    again = torch.load("a.pt", "cpu")\n'
    new = f'{SHUFFLED}    if rt.is_main_process():\n        torch.save(data, "a.pt")\n'
    assert converted(before) == distributed(loop=new, after=after)


@pytest.mark.parametrize("test", ['os.path.exists("a.pt")', 'os.path.isfile("a.pt")'])
def test_looks_for_the_file_that_the_run_has_written(test: str) -> None:
    """A rank that looks too early would pass by a barrier inside the branch, and the others wait for ever."""
    imports = f"import os\n{IMPORTS}"
    read = f'if {test}:\n    again = torch.load("a.pt", "cpu")\n'
    before = script(imports=imports, after=f'torch.save(data, "a.pt")\n{read}')
    after = f'{ON_MAIN}torch.save(data, "a.pt")\nrt.barrier()\n{read}'
    assert converted(before) == distributed(imports=imports, after=after)


@pytest.mark.parametrize(
    ("load", "waiting"),
    [
        pytest.param('with open("last.pt", "rb") as f:\n    state = torch.load(f, map_location="cpu")\n',
                     'rt.barrier()\nwith open("last.pt", "rb") as f:\n', id="a block"),
        pytest.param('f = open("last.pt", "rb")\nstate = torch.load(f, map_location="cpu")\n',
                     'rt.barrier()\nf = open("last.pt", "rb")\n', id="a name"),
        pytest.param('state = torch.load(open("last.pt", "rb"), map_location="cpu")\n',
                     'rt.barrier()\nstate = torch.load(open(', id="in one line"),
        pytest.param('def read(f):\n    return torch.load(f, map_location="cpu")\n\n\n'
                     'with open("last.pt", "rb") as f:\n    state = read(f)\n',
                     'rt.barrier()\nwith open("last.pt", "rb") as f:\n', id="handed over"),
        pytest.param('with open("a.txt") as f:\n    print(f)\n    state = torch.load("last.pt", map_location="cpu")\n',
                     '    rt.barrier()\n    state = torch.load("last.pt"', id="another file is open"),
    ],
)  # fmt: skip
def test_ranks_wait_once_and_before_the_file_is_open(load: str, waiting: str) -> None:
    """Who has it open already reads what it was."""
    new = converted(script(after=f'torch.save(model.state_dict(), "last.pt")\n{load}'))
    assert waiting in new
    assert new.count("rt.barrier()") == 1


def test_file_of_an_earlier_run() -> None:
    """Read before anything is written: there is nothing to wait for."""
    before = script(model=f'{MODEL}kept = torch.load("a.pt", "cpu")\n', after='torch.save(data, "b.pt")\n')
    assert "barrier" not in converted(before)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("import json\nvalues = json.load(open('a.json'))\n", id="json"),
        pytest.param("import pickle\nvalues = pickle.load(open('a', 'rb'))\n", id="pickle"),
        pytest.param("import numpy\nvalues = numpy.load('a.npy')\n", id="numpy"),
        pytest.param("def load(path):\n    return path\n\n\nload('a.pt')\n", id="own function"),
        pytest.param("class Store:\n    def load(self, path): pass\n\n\nStore().load('a.pt')\n", id="own class"),
    ],
)
def test_left_alone(after: str) -> None:
    before = script(after=after)
    assert changes("LOAD01", before) == []
    assert converted(before) == distributed(after=after)


@pytest.mark.parametrize(
    ("put", "waits"),
    [
        ('os.replace("new.pt", "last.pt")', 1),
        ('os.rename("new.pt", "last.pt")', 1),
        ('shutil.copy("new.pt", "last.pt")', 1),
        ('shutil.copyfile("new.pt", "last.pt")', 1),
        ('shutil.move("new.pt", ".")', 1),
        ('os.symlink("new.pt", "last.pt")', 1),
        ('Path("new.pt").rename("last.pt")', 1),
        ('Path("new.pt").replace("last.pt")', 1),
        ('Path("new.pt").replace(target=Path("last.pt"))', 1),
        ('Path("new.pt").replace("best.pt")', 0),
        ('name = "new.pt".replace("new", "last")', 0),
        ('input().replace("new.pt", "last.pt")', 0),
        ('os.replace("new.pt", "best.pt")', 0),
        ('shutil.copytree("source", "runs/source")', 0),
        ('os.makedirs("last.pt.d", exist_ok=True)', 0),
    ],
)
def test_a_file_that_is_put_where_it_is_read(put: str, waits: int) -> None:
    imports = f"import os\nimport shutil\nfrom pathlib import Path\n{IMPORTS}"
    new = converted(script(imports=imports, after=f'{put}\nmodel.load_state_dict(torch.load("last.pt"))\n'))
    assert new.count("rt.barrier()") == waits


def the_last(find: str, name: str) -> tuple[str, str]:
    load = '    state = torch.load(found)\n    model.load_state_dict(state["model"])\n    start = state["epoch"] + 1\n'
    return f"start = 0\n{find}{load}", name


@pytest.mark.parametrize(
    ("resume", "name"),
    [
        the_last('found = "last.pt"\nif os.path.isfile(found):\n', '"last.pt"'),
        the_last('found = Path("runs") / "last.pt"\nif found.exists():\n', "found"),
        the_last('found = "last.pt"\ntry:\n    os.stat(found)\nexcept FileNotFoundError:\n    pass\nelse:\n', "found"),
        the_last('names = sorted(glob.glob("runs/*.pt"))\nif names:\n    found = names[-1]\n', 'f"runs/{epoch}.pt"'),
        the_last('names = list(Path("runs").glob("*.pt"))\nif names:\n    found = max(names, key=os.path.getmtime)\n',
                 'f"runs/{epoch}.pt"'),
        the_last('names = [one for one in os.listdir("runs") if one.endswith(".pt")]\nif len(names) > 0:\n'
                 '    found = os.path.join("runs", max(names, key=lambda one: int(one[:-3])))\n', 'f"runs/{epoch}.pt"'),
    ],
)  # fmt: skip
def test_a_run_goes_on_on_all_ranks_from_one_file(resume: str, name: str) -> None:
    """Whatever finds it: all ranks read it, before the first of them can write the next one; rank 0 writes."""
    imports = f"import glob\nimport os\nfrom pathlib import Path\n{IMPORTS}"
    save = f'    torch.save({{"model": model.state_dict(), "epoch": epoch}}, {name})\n'
    loop = LOOP.replace("range(", "range(start, ") + save
    new = converted(script(imports=imports, model=MODEL + resume, loop=loop))
    read, wrap, write = (new.index(word) for word in ("state = torch.load(", "model = Distributed", "torch.save("))
    assert read < wrap < write
    assert "    state = torch.load(found, map_location=rt.map_location)\n" in new
    assert f"    if rt.is_main_process():\n    {save.replace('model.state', 'model.module.state')}" in new


TURNS = """\
for turn in range(3):
    {read}
    for x, y in loader:
        {step}
    torch.save(model.state_dict(), {path})
"""
STEP = "optimizer.zero_grad(); nn.functional.mse_loss(model(x), y).backward(); optimizer.step()"


@pytest.mark.parametrize(
    ("setup", "read", "path", "waits"),
    [
        ("", 'model.load_state_dict(torch.load("a.pt"))', '"a.pt"', 1),
        ("", 'if turn: model.load_state_dict(torch.load("a.pt"))', '"a.pt"', 1),
        ("", 'model.load_state_dict(torch.load(f"{turn}.pt"))', 'f"{turn + 1}.pt"', 1),
        ("def last(path):\n    return torch.load(path)\n\n\n", 'model.load_state_dict(last("a.pt"))', '"a.pt"', 1),
        ("", 'model.load_state_dict(torch.load("begin.pt"))', '"a.pt"', 0),
        ("first = torch.load('a.pt')\n", "model.load_state_dict(first)", '"a.pt"', 0),
    ],
)
def test_what_a_turn_has_written_the_next_one_reads(setup: str, read: str, path: str, waits: int) -> None:
    text = converted(script(setup=setup, loop=TURNS.format(read=read, step=STEP, path=path)))
    assert text.count("rt.barrier()") == waits
    begin = text.index("def last") if setup.startswith("def") else text.index("for turn")
    assert not waits or text.index("rt.barrier()") > begin
