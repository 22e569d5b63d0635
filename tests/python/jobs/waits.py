"""Two trainers, of which trainer 1 never makes its second step, so that trainer 0 waits for servers; then it is told Ctrl-C."""

import os
import signal
import sys
import threading
import time

import numpy as np

import trireme as fluid
from trireme.distributed import trainer_index

x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {"x": np.ones((2, 4), "float32")}
exe.run(feed=feed, fetch_list=[loss])
if trainer_index() == 1:
    time.sleep(5)
pressed = time.monotonic() + 0.5
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for _ in range(2):
        exe.run(feed=feed, fetch_list=[loss])
except KeyboardInterrupt:
    print(f"waited {time.monotonic() - pressed:.3f} s more", flush=True)
    sys.exit(3)
