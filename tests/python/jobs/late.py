"""A trainer whose server is asleep while it reads parameters in every way there is: each must wait and see the new value.

With inputs of ones and a mean as the loss every gradient is 1, so that after k steps of size 0.5 from zeros a parameter is -k/2.
"""

import argparse
import os
import signal
import tempfile
import threading

import numpy as np

import trireme as fluid
from trireme._core import ffi, lib
from trireme.job import job

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=300000)
args = parser.parse_args()

zeros = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.0))
x = fluid.layers.data("x", [args.rows])
a = fluid.layers.fc(x, 1, param_attr=zeros, bias_attr=False)
b = fluid.layers.fc(x, 1, param_attr=zeros)
loss = fluid.layers.mean(a + b)
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.SGD(0.5).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {"x": np.ones((2, args.rows), "float32")}
names = [param.name for param in fluid.default_main_program().all_parameters()]
scope = fluid.global_scope()
steps = 0


def server() -> int:
    ptr = job.current().ptr
    name = next(text for text in (ffi.string(lib.tr_job_rank_name(ptr, rank)).decode() for rank in range(2)) if "server" in text)
    return int(name.split("pid ")[1].rstrip(")"))


def is_open() -> bool:
    ptr = job.current().ptr
    return not lib.tr_job_is_done(ptr, lib.tr_job_last_ticket(ptr))


def array(name: str) -> np.ndarray:
    return np.array(scope.find_var(name).get_tensor())


def by_thread(name: str) -> np.ndarray:
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append(array(name)))
    thread.start()
    thread.join()
    return found[0]


def by_test_program(name: str) -> np.ndarray:
    value, = exe.run(test, feed=feed, fetch_list=[loss])
    parameters = 2 * args.rows + 1                     # the loss is their sum
    np.testing.assert_allclose(value, -0.5 * steps * parameters, rtol=1e-5)
    return np.array(exe.run(test, feed=feed, fetch_list=[name])[0])


def by_file(name: str) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        fluid.io.save_params(exe, folder, fluid.default_main_program())
        with fluid.scope_guard(fluid.Scope()):
            fluid.io.load_params(exe, folder, fluid.default_main_program())
            return np.array(fluid.global_scope().find_var(name).get_tensor())


def overwritten(name: str) -> np.ndarray:
    """What is set after a step is not undone by what comes."""
    tensor = scope.find_var(name).get_tensor()
    tensor.set(np.full(tensor.shape(), 7, "float32"))
    got = array(name)
    tensor.set(np.full(tensor.shape(), -0.5 * steps, "float32"))
    assert (got == 7).all()
    return array(name)


def step(**options) -> list:
    global steps
    steps += 1
    return exe.run(feed=feed, **options)


def expect(name: str, got: np.ndarray) -> None:
    assert (got == -0.5 * steps).all(), (name, steps, got.min(), got.max())


step()
for read in (array, by_thread, by_test_program, by_file, overwritten):
    for name in names:
        lib.tr_job_finish_pulls(job.current().ptr)
        os.kill(server(), signal.SIGSTOP)
        awake = threading.Timer(5, os.kill, (server(), signal.SIGCONT))
        awake.start()
        step()
        assert is_open(), "the server sleeps, so nothing can have come"
        assert awake.is_alive(), "the run waited for the server"
        awake.cancel()
        threading.Timer(0.1, os.kill, (server(), signal.SIGCONT)).start()
        expect(name, read(name))
for name in names:
    got, = step(fetch_list=[name])                     # in the very step
    expect(name, got)
    view = scope.find_var(name).get_tensor().numpy()
    step()
    assert not is_open(), "an array looks at the memory"
    expect(name, view)
    del view
step()                                                 # and leave
print("all was new")
