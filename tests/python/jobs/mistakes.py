"""Mistakes of scripts in a job, which one trainer makes: an error in the middle of a step that is caught, or calls that wait for each
other."""

import sys

import numpy as np

import trireme as fluid

L, distributed, case = fluid.layers, fluid.distributed, sys.argv[1]
me = distributed.trainer_index()
is_bad = False


def forward(a):
    if is_bad and case == "forward":
        raise ValueError("a bad batch")
    return np.array(a)


def backward(a, b, grad):
    if is_bad and case == "backward":
        raise ValueError("a bad batch")
    return np.array(grad)


x = L.data("x", [4])
out = fluid.default_main_program().current_block().create_var(name="out", dtype="float32", shape=[-1, 4])
loss = L.mean(L.fc(L.py_func(forward, L.fc(x, 4), out, backward_func=backward), 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
made = 0
while made < 5:
    is_bad = made == 2 and me == 1 and not is_bad
    try:
        exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[loss])
        made += 1
    except Exception as error:                         # as a script does that skips bad batches
        print(f"trainer {me} catches {type(error).__name__}", flush=True)
        if case == "backward":
            made += 1
if case == "ring":
    distributed.barrier() if me == 0 else fluid.io.save_params(exe, sys.argv[2])
print(f"trainer {me} ends", flush=True)
