"""What starting costs: `import trireme`, and what nearly every script uses of it, beyond `import numpy`; and the peak memory of a process
that trains the mlp.

    python benchmarks/imports.py [--rounds 15] [--peers]

Each measurement is a fresh process that finds the bytecode ready, as after an installation; times are CPU time. With
--peers the same is measured for torch and jax where they are installed (--peer-python or TRIREME_PEER_PYTHON).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TIMED = "import numpy, time; t = time.process_time(); {}; print(1e3 * (time.process_time() - t))"
IMPORTS = {"trireme": "import trireme; trireme.layers, trireme.optimizer, trireme.Executor", "torch": "import torch", "jax": "import jax"}
TRAIN = """
import resource, sys
sys.path.insert(0, {folder!r})
from rows import ROWS
import {side}_rows as side
feeds, step = side.prepare("mlp_sgd", ROWS["mlp_sgd"](), 1)
for i in range(200):
    loss = step(feeds[i % len(feeds)])
side.wait(loss)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


BYTECODE = tempfile.TemporaryDirectory()
ENVIRONMENT = {**os.environ, "TRIREME_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu",
               "PYTHONPYCACHEPREFIX": BYTECODE.name, "PYTHONDONTWRITEBYTECODE": ""}


def number_from(python, code):
    """Run the code in a fresh process and return the number it prints, or None if it fails."""
    done = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True, env=ENVIRONMENT)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def imports(python, module, rounds):
    """Return the milliseconds of CPU time that the module adds to numpy, of each round; None if it is not there."""
    code = TIMED.format(IMPORTS[module])
    if number_from(python, code) is None:
        return None
    return [number_from(python, code) for _ in range(rounds)]


def memory(python, side):
    return number_from(python, TRAIN.format(folder=str(Path(__file__).parent), side=side))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--peers", action="store_true")
    options.add_argument("--peer-python", default=os.environ.get("TRIREME_PEER_PYTHON", sys.executable))
    options = options.parse_args()

    for side in ("trireme", *(("torch", "jax") if options.peers else ())):
        python = sys.executable if side == "trireme" else options.peer_python
        found = imports(python, side, options.rounds)
        if found is None:
            print(f"{side} was left out: it is not installed")
            continue
        low, middle, high = statistics.quantiles(found, n=4)
        targets = ("target <= 18", "target <= 60") if side == "trireme" else ("", "")
        print(f"import {side} beyond numpy   {middle:8.1f} ms   ({low:.1f}..{high:.1f})   {targets[0]}", flush=True)
        print(f"peak memory of the mlp, {side:8s} {memory(python, side):5.0f} MiB   {targets[1]}", flush=True)


if __name__ == "__main__":
    main()
