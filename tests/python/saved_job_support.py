"""What the tests of saved jobs share: data, command lines, and what they compare."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from job_support import LIMIT, MPIS, end_with_test, environment

from trireme.launch.mpi import Layout, command_line
from trireme.launch.programs import server_program

SCRIPT = Path(__file__).parent / "jobs" / "saved.py"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """100 lines in two files: a label, six numbers, some words."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.RandomState(2)
    for name, lines in (("a.txt", 70), ("b.txt", 30)):
        with open(folder / name, "w") as out:
            for _ in range(lines):
                words = rng.randint(0, 40, rng.randint(1, 6))
                numbers = " ".join(f"{value:.5g}" for value in rng.randn(6))
                out.write(f"1 {words.sum() % 5} 6 {numbers} {len(words)} {' '.join(map(str, words))}\n")
    return str(folder / "*.txt")


def run(*line, **env):
    done = subprocess.run([str(word) for word in line], check=False, env=environment(**env), capture_output=True, text=True,
                          timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def script(data, *args):
    code, out, err = run(sys.executable, SCRIPT, data, *args)
    assert code == 0, out + err
    return out


def mpirun(servers, trainers, *trainer, timeout=10):
    mpi = next(iter(MPIS.values()))
    line = command_line(mpi, Layout(servers, trainers), [server_program()], [str(word) for word in trainer])
    return run(*line, TRIREME_TIMEOUT=str(timeout), **({"LD_LIBRARY_PATH": mpi.libdir} if mpi.major < 5 else {}))


def values(folder):
    """Files, which hold dense arrays; a sparse table is a folder."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def assert_holds(folder, wanted):
    """The folder has the wanted parameters' bytes (and perhaps more: optimizers' state)."""
    got, want = values(folder), values(wanted)
    assert len(want) > 3 and want.keys() <= got.keys()
    assert [name for name in want if got[name] != want[name]] == []


def begin(*line):
    process = subprocess.Popen([str(word) for word in line], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end_with_test(process)
    return process
