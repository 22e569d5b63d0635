"""Trains on leased tasks in loops: the same files twice, then other files on each day. With --kill trainer 1 dies between two days,
once."""

import os
import signal
import sys
from pathlib import Path

import trireme as fluid

folder, distributed, L = Path(sys.argv[1]), fluid.distributed, fluid.layers
me = distributed.trainer_index()
x = L.data("x", [1])
loss = L.mean(L.fc(x, 1))
fluid.optimizer.SGD(0.001).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
if me == 0:
    for name, lines in (("first", 90), ("day1", 60), ("day2", 40)):
        for part in range(3):
            (folder / f"{name}-{part}.csv").write_text("1\n" * (lines // 3))
distributed.barrier()


def train(call, files, **how):
    data = fluid.Dataset(str(folder / files), "csv", batch_size=5, slots=[x], split="tasks")
    try:
        exe.train_from_dataset(fluid.default_main_program(), data, **how)
    finally:
        print(f"call {call}: {data.lines_read} lines", flush=True)


train("first", "first-*.csv", epochs=2)
train("again", "first-*.csv")
train("day1", "day1-*.csv")
mark = folder / "died"
if "--kill" in sys.argv and me == 1 and not mark.exists():
    mark.write_text("")
    os.kill(os.getpid(), signal.SIGKILL)
train("day2", "day2-*.csv")
