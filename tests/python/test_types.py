"""A type checker finds wrong arguments, and none where calls are right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

HERE = Path(__file__).parent
CALLS = HERE / "types_of_calls.py"


def test_mypy_finds_wrong_calls_and_nothing_else(tmp_path: Path) -> None:
    wanted = [number for number, line in enumerate(CALLS.read_text().splitlines(), 1) if line.endswith("# wrong")]
    done = subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir", tmp_path, CALLS], capture_output=True,
                          text=True, timeout=200, cwd=tmp_path, env={"MYPYPATH": str(HERE.parents[1] / "python"), "PATH": "/usr/bin:/bin"}, check=False)
    found = sorted({int(number) for number in re.findall(r"types_of_calls\.py:(\d+): error:", done.stdout)})
    assert found == wanted, done.stdout + done.stderr
