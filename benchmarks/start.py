"""What starting a job costs: from `trireme launch` to the first step of 2 servers and 2 trainers, beside mpirun of nothing.

    python benchmarks/start.py [--rounds 7] [--mpirun PATH]

Run it with the package on PYTHONPATH or installed. Every round runs both, and finds the bytecode ready, as after an installation; the parts
of a job's start are those of trainer 0, by the clock that all processes share. Medians and quartiles.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trireme.launch import mpi

SCRIPT = """
import time
times = [time.monotonic()]
import trireme as fluid
times.append(time.monotonic())
import numpy
x = fluid.layers.data("x", [13])
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
fluid.distributed.trainer_index()
times.append(time.monotonic())
exe.run(feed={"x": numpy.ones([4, 13], "float32")}, fetch_list=[loss])
times.append(time.monotonic())
if fluid.distributed.trainer_index() == 0:
    print("times", *times, flush=True)
"""
PARTS = ("the launcher, to its first line", "mpirun, to the script's first line", "`import trireme`, which a trainer's NumPy comes with",
         "the layers, the program, and joining the job", "the first step", "from there to the end of `trireme launch`")


def nothing(mpirun: str) -> float:
    """Seconds of four processes under mpirun that do nothing."""
    line = [mpirun, *["--allow-run-as-root"] * (os.geteuid() == 0), "--oversubscribe", "--bind-to", "none", "-np", "4", "true"]
    begun = time.monotonic()
    subprocess.run(line, check=True, capture_output=True, timeout=120)
    return time.monotonic() - begun


def job(mpirun: str, script: Path, env: dict[str, str]) -> list[float]:
    """Seconds of each part of a job's life."""
    line = [sys.executable, "-m", "trireme", "launch", "--mpirun", mpirun, "--servers", "2", "--trainers", "2", str(script)]
    begun = time.monotonic()
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout and process.stderr
        first = process.stderr.readline()
        said = time.monotonic()
        out, error = process.communicate(timeout=120)
    if process.returncode:
        sys.exit(first + error + out)
    times = [float(word) for word in next(text for text in out.splitlines() if text.startswith("times")).split()[1:]]
    moments = [begun, said, *times, time.monotonic()]
    return [after - before for before, after in zip(moments, moments[1:])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mpirun")
    args = parser.parse_args()
    which = mpi.find(args.mpirun)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "first_step.py"
        script.write_text(SCRIPT)
        env = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "PYTHONDONTWRITEBYTECODE": ""}
        job(which.mpirun, script, env)
        rounds = [(nothing(which.mpirun), job(which.mpirun, script, env)) for _ in range(args.rounds)]
    beside, parts = [one for one, _ in rounds], [one for _, one in rounds]
    first = [sum(one[:-1]) for one in parts]
    print(f"{which}; {args.rounds} rounds, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs\n")
    print("| seconds | median | quartiles |\n|---|---|---|")
    for name, values in (("`trireme launch` to the first step", first), ("mpirun of nothing", beside),
                         ("the difference (<= 1)", [a - b for a, b in zip(first, beside)]), *zip(PARTS, zip(*parts))):
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"| {name} | {middle:.3f} | {low:.3f}..{high:.3f} |")


if __name__ == "__main__":
    main()
