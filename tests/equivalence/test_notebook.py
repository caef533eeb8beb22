"""A converted notebook takes the same steps on two ranks as the script with the same code."""

from __future__ import annotations

import re
from pathlib import Path

from distify_codemods import Options, Outcome
from nbformat import v4, write

from distify.engine import convert_script
from distify.files import read_script
from distify.resolver import LocalModules
from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT

SCRIPT = ROOT / "fixtures" / "flat" / "train.py"


def test_two_ranks_follow_the_code_of_the_notebook(tmp_path: Path) -> None:
    parts = re.split(r"\n\n(?=\S)", SCRIPT.read_text())  # at module level
    assert len(parts) > 8
    cells = [v4.new_code_cell("%matplotlib inline\n!nvidia-smi"), v4.new_markdown_cell("# Stripes")]
    cells += [v4.new_code_cell(f"%%time\n{part}") for part in parts]
    path = tmp_path / "train.ipynb"
    write(v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}}), path)
    conversion = convert_script(read_script(str(path)), LocalModules(str(path)), Options())
    assert conversion.outcome is Outcome.CONVERTED, conversion.findings
    [new] = conversion.files
    converted = tmp_path / "train_dist.py"
    converted.write_bytes(new.after)
    ranks = run_converted(converted, [], 2, tmp_path / "dist")
    assert_equivalent(run_original(SCRIPT, [], tmp_path / "base"), ranks)
