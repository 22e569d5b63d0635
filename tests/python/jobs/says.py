"""Make a step, wait for the file that the first argument names, then print many rows."""

import sys
import time
from pathlib import Path

import numpy as np

import trireme as fluid

go, rows = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000
x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[loss])
index = fluid.distributed.trainer_index()
go.with_name(f"{go.name}.{index}").touch()
while not go.exists():
    time.sleep(0.01)
for row in range(rows):
    print(f"trainer {index} says {row}")
