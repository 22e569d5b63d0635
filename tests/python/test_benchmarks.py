"""The programs of benchmarks/ start, and their rows and operators run: what they use of Trireme is still there. What they measure is not
looked at."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
STARTED_BY_OTHERS = {"worker", "op_worker", "ps_worker"}
PEERS = {"jax_rows", "torch_rows", "op_torch"}

ONE_STEP = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
import trireme as fluid
from rows import ROWS
import trireme_rows
for name in {names}:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        feeds, step = trireme_rows.prepare(name, ROWS[name](), 1)
        assert np.isfinite(step(feeds[0])).all(), name
"""

ONE_RUN = """
import sys
sys.path.insert(0, {folder!r})
from op_cases import CASES
import op_trireme
for name in {names}:
    for mode in CASES[name].modes:
        assert op_trireme.arrays(op_trireme.prepare(CASES[name], mode, 1, None)()), name
"""


def succeeds(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in STARTED_BY_OTHERS | PEERS))
def test_a_benchmark_starts(name):
    succeeds(str(FOLDER / f"{name}.py"), "--help")


def test_a_row_trains_one_step():
    succeeds("-c", ONE_STEP.format(folder=str(FOLDER), names=["linreg", "mlp_sgd", "mlp_adam", "lenet5", "widedeep_sgd"]))


def test_an_operator_runs():
    succeeds("-c", ONE_RUN.format(folder=str(FOLDER), names=["relu", "softmax_words", "embedding", "sum_rows", "sgd"]))
