"""Runs the conversion over every Python file of folders: crashes, and CPU time per line.

python benchmarks/corpus.py FOLDER... [--slowest 10]

Each file is taken for an entry script, with the local modules that it reaches; lines are those of all files read for
it. Files that are no Python 3 source, and scripts that are refused, count as done: what counts here is that nothing
breaks, and how long it takes.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from distify_codemods import SourceError, SourceFile, convert

from distify.resolver import LocalModules


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--slowest", type=int, default=10)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    times: list[tuple[float, float, int, Path]] = []
    files = sorted(path for folder in options.folders for path in folder.rglob("*.py") if path.is_file())
    for number, path in enumerate(files, 1):
        if sys.stderr.isatty():
            print(f"\r{number}/{len(files)}", end="", file=sys.stderr)
        data = path.read_bytes()
        modules = LocalModules(str(path))
        began = time.process_time()
        try:
            outcomes[convert(SourceFile(str(path), data), modules).outcome.value] += 1
        except SourceError:
            outcomes["no Python 3 source"] += 1
        except Exception:
            outcomes["CRASH"] += 1
            print(f"\n{path}", file=sys.stderr)
            traceback.print_exc()
        spent = time.process_time() - began
        lines = sum(source.data.count(b"\n") for source in modules.found.values()) + data.count(b"\n") + 1
        times.append((1000 * spent / lines, spent, lines, path))
    total, lines = sum(one[1] for one in times), sum(one[2] for one in times)
    print(f"{len(files)} files, {lines} lines, {total:.1f} s: {1000 * total / max(1, lines):.3f} ms a line")
    print(", ".join(f"{name} {count}" for name, count in outcomes.most_common()))
    large = [one for one in times if one[2] >= 20]
    print(f"over 1 ms a line (of files of 20 lines or more): {sum(one[0] > 1 for one in large)}")
    for per_line, spent, size, path in sorted(large, reverse=True)[: options.slowest]:
        print(f"  {per_line:7.2f} ms a line  {spent:6.2f} s  {size:5} lines  {path}")
    return 1 if outcomes["CRASH"] else 0


if __name__ == "__main__":
    sys.exit(main())
