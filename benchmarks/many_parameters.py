"""What the first step costs by the number of parameters: one process, and a job of 2 servers and 2 trainers.

    python benchmarks/many_parameters.py [--counts 100,1000,10000] [--rounds 3]

Run it with the package on PYTHONPATH or installed. A parameter has 64 floats. Seconds are those of the first training run of a script
that has built its program and run its startup program; in a job the run joins it, transpiles, sets the servers up and pulls. The growth is
the ratio of a row to the row above, beside the ratio of the numbers of parameters: a quadratic part would show there. Best of the
rounds, by wall clock and by the CPU time of trainer 0, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import sys, time
import numpy as np
import trireme as fluid
hidden = fluid.layers.data("x", [64])
start = fluid.initializer.Constant(0.01)
for i in range(int(sys.argv[1])):
    weight = fluid.layers.create_parameter([64], "float32", name=f"w{i}", default_initializer=start)
    hidden = fluid.layers.elementwise_add(hidden, weight)
loss = fluid.layers.mean(hidden)
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
begun, cpu = time.monotonic(), time.process_time()
exe.run(feed={"x": np.ones((4, 64), "float32")}, fetch_list=[loss])
if fluid.distributed.trainer_index() == 0:
    print("took", time.monotonic() - begun, time.process_time() - cpu, flush=True)
"""


def seconds(command: list[str]) -> tuple[float, float]:
    """Return what a script says: seconds by the clock, and of CPU time."""
    done = subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True, timeout=1800)
    took = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("took")]
    if not took:
        raise RuntimeError(f"{command} printed no times:\n{done.stdout}{done.stderr}")
    return float(took[0][0]), float(took[0][1])


def best(rounds: int, command: list[str]) -> tuple[float, float]:
    """Return the least of each time over the rounds."""
    found = [seconds(command) for _ in range(rounds)]
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def growth(now: float, before: float | None) -> str:
    return "" if not before else f"{now / before:.1f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--counts", default="100,1000,10000")
    options.add_argument("--rounds", type=int, default=3)
    args = options.parse_args()
    launch = ["-m", "trireme", "launch", "--servers", "2", "--trainers", "2", "--progress", "0"]
    print("| parameters | growth | one process, s (CPU) | growth | 2 + 2, s (CPU) | growth | 2 + 2 more, s "
          "|\n|---|---|---|---|---|---|---|")
    before: tuple[float, float, float] | None = None
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "many.py"
        script.write_text(SCRIPT)
        for count in map(int, args.counts.split(",")):
            one, one_cpu = best(args.rounds, [str(script), str(count)])
            job, job_cpu = best(args.rounds, [*launch, str(script), str(count)])
            grown = [growth(now, old) for now, old in zip((count, one_cpu, job_cpu), before or (None,) * 3)]
            print(f"| {count} | {grown[0]} | {one:.3f} ({one_cpu:.3f}) | {grown[1]} | {job:.3f} ({job_cpu:.3f}) | {grown[2]} | "
                  f"{job - one:.3f} |",
                  flush=True)
            before = count, one_cpu, job_cpu


if __name__ == "__main__":
    main()
