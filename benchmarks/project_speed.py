"""Measures what converting a script of a large project costs: it must depend on the files that are reached alone.

    python benchmarks/project_speed.py [--files 500] [--reached 10 50 250 500]

Writes a project of that many files (blocks, meters and helpers of some 60 lines each) into a temporary folder. The
entry trains with what the first of them define; they import from one another as a tree. CPU time of `convert` with
the resolver of the command line, each size in a fresh process. Exits with 1 where a file costs over 1.5 times what it
costs in the smallest size measured (of 50 files or more).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from convert_speed import PIECES, TAIL
from distify_codemods import Outcome, SourceFile, convert

from distify.resolver import LocalModules

GROWTH_TARGET = 1.5
FANOUT = 4  # files that a file imports
HEAD = "import argparse\nimport os\n\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
DATA = "from torch.utils.data import DataLoader, Dataset\n"


def write_project(folder: Path, files: int, reached: int) -> Path:
    """Returns the entry. File 0 imports files 1 to FANOUT, and so on; beyond `reached` nobody imports anything."""
    for number in range(files):
        first = FANOUT * number + 1
        below = [n for n in range(first, first + FANOUT) if n < reached]
        imports = "".join(f"from part{n} import Block{n}, topk{n}\n" for n in below)
        uses = "".join(f"\n\ndef wide{n}(width):\n    return Block{n}(2 * width)\n" for n in below)
        (folder / f"part{number}.py").write_text(HEAD + imports + PIECES.format(n=number) + uses, encoding="utf-8")
    entry = folder / "train.py"
    tail = TAIL.format(
        transforms="        sample = sample / 2",
        blocks="        self.block0 = Block0(width)",
        forward="        x = self.block0(x)",
        nets="",
        model="Net",
    )
    entry.write_text(f"{HEAD}{DATA}from part0 import Block0\n{tail}", encoding="utf-8")
    return entry


def measure(entry: Path) -> tuple[float, int]:
    """CPU seconds, and the files read."""
    modules = LocalModules(str(entry))
    start = time.process_time()
    conversion = convert(SourceFile(str(entry), entry.read_bytes()), modules)
    seconds = time.process_time() - start
    assert conversion.outcome is Outcome.CONVERTED, conversion.findings
    return seconds, len(modules.found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--reached", type=int, nargs="+", default=[10, 50, 250, 500])
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(*measure(options.measure))
        return 0
    per_file: dict[int, float] = {}
    print(f"{'reached':>8}  {'CPU':>9}  {'per file':>9}")
    for reached in options.reached:
        with tempfile.TemporaryDirectory() as folder:
            entry = write_project(Path(folder), options.files, reached)
            command = [sys.executable, __file__, "--measure", str(entry)]
            seconds, read = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert int(read) == reached, f"{read} files were read instead of {reached}"
        per_file[reached] = float(seconds) / reached
        print(f"{reached:>8}  {1e3 * float(seconds):>6.0f} ms  {1e3 * per_file[reached]:>6.1f} ms")
    compared = [cost for reached, cost in per_file.items() if reached >= 50]
    growth = compared[-1] / compared[0] if compared else 1.0
    print(f"a file costs {growth:.2f} of what it costs in the smallest project (target: at most {GROWTH_TARGET})")
    return 0 if growth <= GROWTH_TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
