"""What programs do beside training: files, folders, logs, other processes. Ranks leave what one process leaves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effect:
    """Statements before training, in each epoch (where `epoch` and `accuracy` are known) and at the end."""

    setup: str = ""
    epoch: str = ""
    end: str = ""


EFFECTS = {
    "a folder by the time": Effect(
        'run = os.path.join("runs", str(time.time_ns()))\nos.makedirs(run)\n',
        'with open(os.path.join(run, "log.txt"), "a") as log:\n    log.write(f"{epoch} {accuracy:.4f}\\n")\n',
    ),
    "a table": Effect(
        'table = open("table.csv", "w", newline="")\nrows = csv.writer(table)\nrows.writerow(["epoch", "accuracy"])\n',
        'rows.writerow([epoch, f"{accuracy:.4f}"])\ntable.flush()\n',
        "table.close()\n",
    ),
    "a history": Effect(
        "history = []\n",
        "history.append(round(accuracy, 4))\n",
        'with open("history.json", "w") as file:\n    json.dump({"accuracy": history, "best": max(history)}, file)\n',
    ),
    "paths": Effect(
        'out_dir = Path("out")\nout_dir.mkdir(exist_ok=True)\n',
        '(out_dir / f"epoch{epoch}.txt").write_text(f"{accuracy:.4f}")\n',
        '(out_dir / "done").touch()\n',
    ),
    "arrays": Effect(
        "found_by_epoch = []\n",
        'found_by_epoch.append(accuracy)\nnp.save("found.npy", np.round(np.array(found_by_epoch), 6))\n',
    ),
    "a pickle": Effect(end='with open("kept.pkl", "wb") as file:\n    pickle.dump([round(accuracy, 4)], file)\n'),
    "a log": Effect(
        'logging.basicConfig(filename="train.log", level=logging.INFO, format="%(message)s")\n',
        'logging.info("epoch %d accuracy %.4f", epoch, accuracy)\n',
    ),
    "a logger": Effect(
        'logger = logging.getLogger("training")\nlogger.setLevel(logging.INFO)\n'
        'logger.addHandler(logging.FileHandler("logger.log"))\n',
        'logger.info(f"{epoch}: {accuracy:.4f}")\n',
    ),
    "a second screen": Effect(
        """
class Tee:
    def __init__(self, path):
        self.file = open(path, "a")
        self.screen = sys.stdout

    def write(self, text):
        self.screen.write(text)
        self.file.write(text)

    def flush(self):
        self.screen.flush()
        self.file.flush()


sys.stdout = Tee("screen.txt")
""",
        end="sys.stdout.flush()\n",
    ),
    "a cache": Effect(
        """
if not os.path.exists("cache/samples.pt"):
    os.makedirs("cache", exist_ok=True)
    torch.save(samples * 2, "cache/samples.pt")
samples = torch.load("cache/samples.pt").to(samples.dtype)
""",
    ),
    "data that is made": Effect(
        """
def prepare(path):
    if os.path.isfile(path):
        return
    with open(path, "w") as file:
        for row in samples[:4].tolist():
            file.write(" ".join(f"{x:.6f}" for x in row) + "\\n")


prepare("data.txt")
lines_of_data = open("data.txt").read().splitlines()
print(len(lines_of_data), "lines")
""",
    ),
    "what is removed first": Effect(
        'shutil.rmtree("fresh", ignore_errors=True)\nos.makedirs("fresh")\n',
        'with open(f"fresh/{epoch}", "w") as file:\n    print(f"{accuracy:.4f}", file=file)\n',
        'print(sorted(os.listdir("fresh")))\n',
    ),
    "the next number": Effect(
        'number = 0\nwhile os.path.exists(f"run{number}"):\n    number += 1\nos.makedirs(f"run{number}")\n',
        'torch.save({"epoch": epoch}, os.path.join(f"run{number}", "state.pt"))\n',
    ),
    "checkpoints that replace each other": Effect(
        epoch='torch.save(net.state_dict(), f"epoch{epoch}.pt")\n'
        'if os.path.exists(f"epoch{epoch - 1}.pt"):\n    os.remove(f"epoch{epoch - 1}.pt")\n',
    ),
    "the newest": Effect(
        epoch='torch.save(net.state_dict(), f"state{epoch}.pt")\n',
        end='newest = sorted(glob.glob("state*.pt"))[-1]\n'
        'net.load_state_dict(torch.load(newest))\nprint("from", newest)\n',
    ),
    "a file that is moved": Effect(
        epoch='torch.save({"net": net.state_dict(), "epoch": epoch}, "last.tmp")\nos.replace("last.tmp", "last.pt")\n',
        end='print("last", torch.load("last.pt")["epoch"])\n',
    ),
    "a function that saves": Effect(
        """
def save_checkpoint(state, is_best, filename="checkpoint.pt"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pt")


""",
        'save_checkpoint({"epoch": epoch, "state": net.state_dict()}, epoch == 0)\n',
    ),
    "another process": Effect(
        epoch="subprocess.run([sys.executable, \"-c\", \"open('sub.txt', 'a').write('x')\"], check=True)\n",
    ),
    "a shell": Effect('os.system("echo started >> started.txt")\n', end='os.system("echo ended >> started.txt")\n'),
    "at exit": Effect('atexit.register(lambda: open("ended.txt", "a").write("ended\\n"))\n'),
    "a time limit": Effect("began = time.time()\n", "if time.time() - began > 3600:\n    sys.exit(1)\n"),
    "an archive": Effect(
        epoch='torch.save(net.state_dict(), "packed.pt")\n',
        end='with zipfile.ZipFile("pack.zip", "w") as pack:\n    pack.write("packed.pt")\n',
    ),
    "bytes": Effect(
        end='buffer = io.BytesIO()\ntorch.save({"accuracy": round(accuracy, 4)}, buffer)\n'
        'with open("bytes.bin", "wb") as file:\n    file.write(buffer.getvalue())\n',
    ),
    "a link": Effect(
        epoch='with open(f"text{epoch}", "w") as file:\n    file.write(str(epoch))\n'
        'if os.path.lexists("latest"):\n    os.unlink("latest")\nos.symlink(f"text{epoch}", "latest")\n',
        end='print("latest", open("latest").read())\n',
    ),
    "a lock": Effect(
        'if os.path.exists("lock"):\n    raise RuntimeError("another run is going on")\nopen("lock", "w").close()\n',
        end='os.remove("lock")\n',
    ),
    "the model's text": Effect(
        'with open("settings.txt", "w") as file:\n    file.write(str(sorted({"lr": 0.05, "seed": 1}.items())))\n',
        end='with open("model.txt", "w") as file:\n    print(sum(p.numel() for p in net.parameters()), file=file)\n',
    ),
    "standard error": Effect(epoch='sys.stderr.write(f"{epoch}\\n")\nsys.stdout.write(f"out {epoch}\\n")\n'),
    "a worker": Effect(
        """
def note(text):
    with open("notes.txt", "a") as file:
        file.write(text)


""",
        'thread = threading.Thread(target=note, args=(f"{epoch}\\n",))\nthread.start()\nthread.join()\n',
    ),
    "nothing": Effect(),
}

IMPORTS = """\
import atexit
import csv
import glob
import io
import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

"""
