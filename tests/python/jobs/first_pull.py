"""A job that stands in its first step, between telling the servers their work and taking the parameters, until FILE is gone."""

import os
import sys
import time
from pathlib import Path

import numpy as np

import trireme as fluid
from trireme.distributed import training

mark, pull = Path(sys.argv[1]), training.Training._pull


def pull_later(self):
    if os.environ["TRIREME_ATTEMPT"] == "0":
        mark.write_text("")
        while mark.exists():
            time.sleep(0.01)
    pull(self)


training.Training._pull = pull_later
loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 3))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for _ in range(3):
    exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[loss])
