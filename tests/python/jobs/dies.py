"""Trains 20 steps and writes the last losses to the file OUT that it is given. If there is
a file OUT.dies, trainer 0 removes it and dies before step 13."""

import os
import signal
import sys
import time

import numpy as np

import trireme as fluid
from trireme.checkpoint import steps

fluid.default_startup_program().random_seed = 3
x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.Adam(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
random, losses, dies = np.random.default_rng(5), [], f"{sys.argv[1]}.dies"
for step in range(20):
    if step == 13 and fluid.distributed.trainer_index() == 0 and os.path.exists(dies):
        end = time.monotonic() + 60
        while not steps(os.environ["TRIREME_CHECKPOINT"]) and time.monotonic() < end:
            time.sleep(0.01)
        os.remove(dies)
        os.kill(os.getpid(), signal.SIGKILL)
    rows = random.normal(size=(8, 4)).astype("float32")
    losses.append(exe.run(feed={"x": rows, "y": rows.sum(axis=1, keepdims=True)}, fetch_list=[loss])[0].item())
if fluid.distributed.trainer_index() == 0:
    np.savez(sys.argv[1], losses=losses[15:])
