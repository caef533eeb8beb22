"""torch brings no NumPy: ranks meet, share and are verified where it is not installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import TRAIN, CommandLine

from tests.grid import some

#: Python runs it first in every process, the ranks' too: NumPy is not found, as where it was never installed.
HIDE = """
import sys
from importlib.machinery import PathFinder


class Without:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] == "numpy" else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""
#: Samples of several types, drawn from the streams that ranks hand on; what is saved is read again.
SAMPLES = b"""\
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.randn(8), torch.randn(1) + (random.random() < 0.5) + len(str(index))


def main():
    dataset = Samples()
"""


@pytest.fixture
def without(distify: CommandLine, tmp_path: Path) -> CommandLine:
    folder = tmp_path / "hidden"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDE)
    packages = os.pathsep.join([str(folder), distify.env["PYTHONPATH"]])
    project = tmp_path / "project"
    project.mkdir()
    before = b"def main():\n    dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))  # [bold]\n"
    assert before in TRAIN
    (project / "train.py").write_bytes(b"import random\n" + TRAIN.replace(before, SAMPLES))
    return CommandLine(project, {**distify.env, "PYTHONPATH": packages})


@pytest.mark.parametrize("strategy", some(["sharded", "shared"], ["shared"]))
def test_two_ranks_follow_one_process(without: CommandLine, strategy: str) -> None:
    (without.folder / "train.py").write_bytes(
        b"import sys\n" + (without.folder / "train.py").read_bytes() + b"    assert 'numpy' not in sys.modules\n"
    )
    ended = without("verify", "train.py", "--strategy", strategy)
    assert (ended.code, ended.out.decode().splitlines()[-1:]) == (0, ["train.py: the same steps"]), ended.err


def test_a_conversion_is_launched(without: CommandLine) -> None:
    assert without("convert", "train.py", "--yes").code == 0
    ended = without("run", "-np", "2", "train_dist.py")
    assert ended.code == 0, ended.out.decode() + ended.err
    assert "[epoch] 1" in ended.out.decode()
