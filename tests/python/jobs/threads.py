"""A trainer whose steps are made by several threads, each with its own Executor or all with one."""

import argparse
import threading

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--own", action="store_true", help="each thread has its Executor")
parser.add_argument("--prepare", action="store_true", help="and the first one joins the job")
args = parser.parse_args()

x = fluid.layers.data("x", [8])
steps = fluid.layers.autoincreased_step_counter()
loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 64, act="tanh"), 1))
fluid.optimizer.Adam(0.01).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
seen, failed = [], []


def work(own, sizes):
    try:
        for size in sizes:
            value, = own.run(feed={"x": np.ones((size, 8), "float32")}, fetch_list=[steps])
            seen.append(int(value[0]))
    except BaseException as error:
        failed.append(error)
        raise


if not args.prepare:
    work(exe, [3])
threads = [threading.Thread(target=work, args=(fluid.Executor() if args.own else exe, [1 + (i * k) % 7 for i in range(60)]))
           for k in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failed:
    raise failed[0]
print(f"{len(seen)} steps, the last {max(seen)}, {len(set(seen))} numbers")
