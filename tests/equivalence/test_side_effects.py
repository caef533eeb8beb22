"""Scripts that log, plot, ask and name their folders by the time leave on two ranks what one process leaves."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from tests.equivalence.conversions import converted
from tests.equivalence.processes import run_ranks

HEAD = """\
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
TRAIN = """
torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    end_of_epoch(epoch)
"""


def left_by(script: Path, world_size: int, folder: Path) -> dict[str, str]:
    """The text of each file that a run leaves, by path; a time in a path is written as TIME."""
    outputs = run_ranks([str(script)], world_size, folder, folder.with_name(folder.name + ".logs"), forked=True)
    files = {
        re.sub(r"\d{6,}", "TIME", str(path.relative_to(folder))): path.read_text(errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    found = sum(path.is_file() for path in folder.rglob("*"))
    assert len(files) == found, "two folders that only the time tells apart"
    assert not any(outputs[1:]), "another rank than rank 0 printed"
    return {**files, "screen": outputs[0]}


SCRIPTS = {
    # Each rank starts at another time: nanoseconds tell them apart.
    "folder named by the time": """
import csv, json
folder = os.path.join("runs", str(time.time_ns()))
os.makedirs(folder)
os.makedirs(os.path.join(folder, "checkpoints"))
table = csv.writer(open(os.path.join(folder, "log.csv"), "w"))
def end_of_epoch(epoch):
    table.writerow([epoch, len(data)])
    with open(os.path.join(folder, f"{epoch}.json"), "w") as f:
        json.dump({"epoch": epoch}, f)
    with open(os.path.join(folder, f"{epoch}.json")) as f:
        print(json.load(f), len(os.listdir(folder)) > 0)
""",
    # Rank 0 takes its time to fetch; the others would read what is not whole, or unpack over each other.
    "files that rank 0 fetches": """
import xml.dom.minidom, zipfile
def fetch(path):
    with zipfile.ZipFile("made.zip", "w") as made:
        made.writestr(zipfile.ZipInfo("in/a.txt"), "x" * 100000)
    with open(path, "wb") as out:
        for part in (b"", open("made.zip", "rb").read()):
            time.sleep(0.5)
            out.write(part)
    with zipfile.ZipFile(path) as archive:
        archive.extractall("unpacked")
    with open("a.xml", "w") as out:
        time.sleep(0.5)
        out.write("<a><b/></a>")
fetch("fetched.zip")
length = len(open("unpacked/in/a.txt").read())
tree = xml.dom.minidom.parse("a.xml")
def end_of_epoch(epoch):
    print(length, tree.documentElement.tagName)
""",
    # What runs beside a rank has nobody to wait for, and would find nothing yet, or half of it.
    "files that threads and processes read": """
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
def read(path):
    with open(path) as f:
        return len(f.read())
def work(path):
    return read(path) + 1
def keep(path, length):
    with open(path, "w") as f:
        time.sleep(0.5)
        f.write("x" * length)
keep("a.txt", 9)
first = read("a.txt")
keep("b.txt", 5)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for one in pool.imap(work, ["a.txt", "b.txt"]):
        first += one
keep("b.txt", 7)
with ThreadPoolExecutor(2) as pool:
    rows = list(pool.map(work, ["a.txt", "b.txt"]))
def end_of_epoch(epoch):
    print(first, rows, len(data))
""",
    "logging": """
import logging
os.makedirs("logs", exist_ok=True)
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
log = logging.getLogger("run")
handler = logging.FileHandler("logs/run.log", mode="w")
log.addHandler(handler)
log.info("begins")
def end_of_epoch(epoch):
    log.info("epoch %d", epoch)
    log.debug("not shown")
    logging.getLogger("other").warning("warned")
""",
    "logging configured from a file": """
import json, logging, logging.config
class Configured:
    def __init__(self, path):
        with open(path) as f:
            config = json.load(f)
        for handler in config["handlers"].values():
            if "filename" in handler:
                handler["filename"] = os.path.join("logs", handler["filename"])
        os.makedirs("logs", exist_ok=True)
        logging.config.dictConfig(config)
        self.log = logging.getLogger("run")
with open("config.json", "w") as f:
    json.dump({"version": 1, "handlers": {"f": {"class": "logging.FileHandler", "filename": "a.log", "mode": "w"}},
               "root": {"level": "INFO", "handlers": ["f"]}}, f)
configured = Configured("config.json")
def end_of_epoch(epoch):
    configured.log.info("epoch %d", epoch)
    print("epoch", epoch)
""",
    "screen and file at once": """
class Tee:
    def __init__(self, path):
        self.screen, self.file = sys.stdout, open(path, "a")
    def write(self, text):
        self.screen.write(text)
        self.file.write(text)
    def flush(self):
        self.screen.flush()
        self.file.flush()
sys.stdout = Tee("output.txt")
import builtins
def end_of_epoch(epoch):
    print("epoch", epoch)
    builtins.print("end", epoch)
    sys.stdout.write(f"{epoch}\\n")
    with open("log.txt", "a") as f:
        print("epoch", epoch, file=f)
""",
    "numbered folders and a cache": """
import numpy as np
number = 0
while os.path.exists(f"run{number}"):
    number += 1
os.makedirs(f"run{number}")
if os.path.exists("cache.npy"):
    values = np.load("cache.npy")
else:
    values = np.arange(3.0)
    time.sleep(0.2)
    np.save("cache.npy", values)
    print("made")
values = np.load("cache.npy")
def end_of_epoch(epoch):
    np.savetxt(f"run{number}/{epoch}.txt", values + epoch)
    print(epoch, values.sum())
""",
    # Opened to be read and written, filled by threads; fetched from an address; read where writing it has failed.
    "what is kept for later, made as a whole": """
import json, threading, urllib.request
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
import numpy as np
np.random.seed(1)
kept = threading.local()
def features(i, rows):
    if not hasattr(kept, "scale"):
        kept.scale = 0.5
    rows[i] = np.sin(np.arange(3) * i) * kept.scale
    return i
class Cache:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.fill(8)
    def fill(self, n):
        path = os.path.join(self.folder, "rows.npy")
        if not os.path.exists(path):
            print("computing", n)
            rows = np.memmap(path, dtype="float32", mode="w+", shape=(n, 3))
            done = []
            with ThreadPoolExecutor(max_workers=3) as pool:
                waiting = [pool.submit(features, i, rows) for i in range(n)]
                for one in as_completed(waiting):
                    done.append(one.result())
            time.sleep(0.3)
            rows[:] = np.array(rows)[np.random.permutation(n)]
            rows.flush()
        self.rows = np.array(np.memmap(path, dtype="float32", mode="r", shape=(n, 3)))
def fetch(url):
    target = os.path.join(".", url.split("/")[-1] + ".copy")
    if os.path.isfile(target):
        return target
    with urllib.request.urlopen(url) as source, open(target, "wb") as output:
        output.write(source.read(int(source.info().get("Content-Length"))))
    return target
def settings(name):
    path = Path(f"{name}.json")
    if path.exists():
        with open(path) as file:
            return json.load(file)
    try:
        found = {"width": int(np.random.randint(100)), "by": os.getpid() > 0}
        time.sleep(0.2)
        path.write_text(json.dumps(found))
        return found
    except OSError as error:
        if path.exists():
            with open(path) as file:
                return json.load(file)
        raise RuntimeError("no settings") from error
Path("there.txt").write_text("x" * 10)
print(len(open(fetch(Path("there.txt").resolve().as_uri())).read()), settings("net"))
rows = Cache("cache").rows
def end_of_epoch(epoch):
    np.savetxt(f"{epoch}.txt", rows)
    print(epoch, np.random.rand())
""",
    "folder that must be new": """
try:
    os.makedirs("new")
except FileExistsError:
    sys.exit("it is there")
if os.path.exists("new/log.txt"):
    raise SystemExit("it is there")
f = open("new/log.txt", "x")
def end_of_epoch(epoch):
    f.write(f"{epoch}\\n")
    f.flush()
    print(epoch)
""",
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_files_and_screen(name: str, tmp_path: Path) -> None:
    source = HEAD + SCRIPTS[name] + TRAIN
    original = tmp_path / "train.py"
    original.write_text(source)
    wanted = left_by(original, 0, tmp_path / "original")
    assert left_by(converted(source, tmp_path), 2, tmp_path / "ranks") == wanted
    assert left_by(tmp_path / "train_dist.py", 0, tmp_path / "plain") == wanted
    assert len(wanted) > 1


MAIN = """
import threading
def main():
    with open("a.txt", "w") as f:
        time.sleep(0.5)
        f.write("xxx")
    length = len(open("a.txt").read())
    end_of_epoch = lambda epoch: print(length)
"""
STARTS = "thread = threading.Thread(target=main)\nthread.start()\nthread.join()\n"


def test_files_in_a_thread_that_trains(tmp_path: Path) -> None:
    """Where ranks train in it, they wait in it, and not in front of it."""
    source = f"{HEAD}{MAIN}{indent(TRAIN, '    ')}{STARTS}"
    assert left_by(converted(source, tmp_path), 2, tmp_path / "ranks") == {"a.txt": "xxx", "screen": "3\n3\n"}


BOARD = """
from torch.utils.tensorboard import SummaryWriter
class Run:
    def __init__(self):
        self.writer = SummaryWriter()
        os.makedirs(os.path.join(self.writer.log_dir, "images"), exist_ok=True)
    def __getattr__(self, name):
        return getattr(self.writer, name)
run = Run()
def end_of_epoch(epoch):
    run.add_scalar("epoch", epoch, epoch)
    run.writer.add_histogram("weights", next(model.parameters()), epoch)
    with open(os.path.join(run.writer.log_dir, f"{epoch}.csv"), "w") as f:
        f.write(f"{epoch}\\n")
    with open(os.path.join(run.writer.log_dir, f"{epoch}.csv")) as f:
        print(f.read())
"""


def test_tensorboard(tmp_path: Path) -> None:
    """One event file with every step once, in one folder, whose name all ranks know."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    script = converted(HEAD + BOARD + TRAIN, tmp_path)
    outputs = run_ranks([str(script)], 2, tmp_path / "work", tmp_path / "logs", forked=True)
    assert outputs == ["0\n\n1\n\n", ""]
    (folder,) = (tmp_path / "work" / "runs").iterdir()
    assert sorted(path.name for path in folder.iterdir() if "tfevents" not in path.name) == ["0.csv", "1.csv", "images"]
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("epoch")] == [(0, 0.0), (1, 1.0)]
    assert (folder / "1.csv").read_text() == "1\n"
