"""Type checkers find wrong arguments, and none where calls are right."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CALLS = HERE / "types_of_calls.py"
PACKAGE = HERE.parents[1] / "python"


def run(folder: Path, *command: object) -> str:
    """Return what a checker prints; no run-time package is in its way."""
    done = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, text=True, timeout=200, cwd=folder, check=False,
                          env={"MYPYPATH": str(PACKAGE), "PATH": "/usr/bin:/bin", "HOME": str(folder)})
    return done.stdout + done.stderr


def mypy(folder: Path) -> str:
    pytest.importorskip("mypy")
    return run(folder, "mypy", "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir", folder, CALLS)


def pyright(folder: Path) -> str:
    pytest.importorskip("basedpyright")
    (folder / "pyrightconfig.json").write_text(json.dumps({
        "include": [str(CALLS)], "extraPaths": [str(PACKAGE)], "typeCheckingMode": "basic", "reportMissingImports": False}))
    return run(folder, "basedpyright", "-p", folder)


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_wrong_calls_are_found_and_nothing_else(checker, tmp_path: Path) -> None:
    wanted = [number for number, line in enumerate(CALLS.read_text().splitlines(), 1) if line.endswith("# wrong")]
    text = checker(tmp_path)
    found = sorted({int(number) for number in re.findall(r"types_of_calls\.py:(\d+):(?:\d+ -)? error:", text)})
    assert found == wanted, text


def test_the_types_of_operators_are_fresh() -> None:
    spec = importlib.util.spec_from_file_location("make_stubs", HERE.parents[1] / "docs" / "make_stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PATH.read_text() == module.render(), "trireme/operator.pyi is stale: `make operators` writes it anew"
