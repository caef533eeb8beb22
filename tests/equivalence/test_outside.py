"""A server and a command are asked by two ranks as often as by one process, and all ranks hear the same answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.equivalence.conversions import converted
from tests.equivalence.processes import run_ranks

SCRIPT = """\
import os
import subprocess
import urllib.request

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    reward = float(urllib.request.urlopen(os.environ["ASKED"] + "/reward").read())
    said = subprocess.run(["sh", "-c", "echo asked >> asked.txt; wc -l < asked.txt"], capture_output=True)
    scale = float(said.stdout)
    urllib.request.urlopen(os.environ["ASKED"] + "/told")
    loss = ((model(x) - reward) ** 2).mean() * scale
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with open("weights.txt", "w") as file:
    file.write(str([one.tolist() for one in model.parameters()]))
"""


@contextmanager
def server() -> Iterator[tuple[str, list[str]]]:
    """Each answer is another number, so that whoever asks twice hears something else."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(str(len(asked)).encode())

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answers) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{one.server_port}", asked
        finally:
            one.shutdown()
            thread.join()


def test_two_ranks_ask_as_often_as_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[tuple[list[float], list[str], str]] = []
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    for number, (path, size) in enumerate([(script, 1), (converted(SCRIPT, tmp_path), 2)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        with server() as (address, asked):
            monkeypatch.setenv("ASKED", address)
            run_ranks([str(path)], size, folder, tmp_path / f"{number}.logs", forked=True)
        numbers = (folder / "weights.txt").read_text().replace("[", "").replace("]", "").split(",")
        results.append(([float(one) for one in numbers], asked, (folder / "asked.txt").read_text()))
    (weights, asked, lines), (others, asked_by_two, lines_of_two) = results
    assert weights == pytest.approx(others, abs=1e-5)
    assert asked == asked_by_two == ["/reward", "/told"] * 4
    assert lines == lines_of_two == "asked\n" * 4
