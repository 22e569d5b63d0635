"""A forked child: what no thread was using works on, what one was using is refused by name, and nothing hangs."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme._core import lib
from trireme.errors import InvalidArgumentError

LIMIT = 30                                             # seconds


def in_child(action):
    """Fork, call ``action`` in the child, and return whether it went well; a child that hangs is killed."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail("the child hangs")


def double():
    program = fluid.Program()
    with fluid.program_guard(program):
        y = layers.scale(layers.data("x", [2]), 2.0)
    return program, y


FEED = {"x": np.ones((1, 2), "float32")}


@pytest.fixture
def busy(exe):
    """A thread runs an endless program in the global scope; yields (program, scope, executor)."""
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup):
        count = layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
        always = layers.fill_constant([1], "bool", True)
        loop = layers.While(cond=always)
        with loop.block():
            layers.increment(count)
            layers.assign(layers.fill_constant([1], "bool", True), always)
    exe.run(startup)
    scope = fluid.global_scope()

    def run():
        with pytest.raises(InterruptedError):
            exe.run(program, scope=scope)

    thread = threading.Thread(target=run)
    thread.start()
    value = scope.find_var("count").get_tensor()
    while np.asarray(value)[0] == 0:
        time.sleep(0.001)
    yield program, scope, exe
    lib.tr_interrupt()
    thread.join()


def test_objects_that_no_thread_uses_work_in_the_child(exe):
    program, y = double()
    exe.run(program, feed=FEED, fetch_list=[y])
    assert in_child(lambda: exe.run(program, feed=FEED, fetch_list=[y]))


def test_objects_in_use_by_another_thread_are_refused_by_name_in_the_child(busy):
    program, scope, exe = busy
    other, y = double()

    def expect(kind, **run):
        with pytest.raises(InvalidArgumentError, match=f"this {kind} was in use by another thread when process [0-9]+ was forked"
                                                       r"[^$]*spawn[^$]*your line: .*test_fork.py"):
            run.pop("by").run(**run)

    def child():
        expect("Scope", by=fluid.Executor(), program=other, feed=FEED, fetch_list=[y], scope=scope)
        expect("Scope", by=fluid.Executor(), program=other, feed=FEED, fetch_list=[y], scope=scope.new_scope())
        expect("Executor", by=exe, program=other, feed=FEED, fetch_list=[y], scope=fluid.Scope())
        expect("Program", by=fluid.Executor(), program=program, scope=fluid.Scope())

    assert in_child(child)


def test_objects_that_the_child_makes_itself_work(busy):
    def child():
        program, y = double()
        value, = fluid.Executor().run(program, feed=FEED, fetch_list=[y], scope=fluid.Scope())
        assert value.tolist() == [[2, 2]]

    assert in_child(child)


def test_the_parent_goes_on(busy):
    program, y = double()
    assert in_child(lambda: None)
    assert fluid.Executor().run(program, feed=FEED, fetch_list=[y], scope=fluid.Scope())[0].sum() == 4


def test_a_child_of_a_process_that_keeps_checkpoints_ends_when_it_is_asked_to():
    script = """
        import multiprocessing, signal, time
        from trireme._core import lib
        from trireme.distributed import stop_signals
        stop_signals.listen()
        ready = multiprocessing.get_context("fork").Event()
        child = multiprocessing.get_context("fork").Process(target=lambda: (ready.set(), time.sleep(1000)), daemon=True)
        child.start()
        ready.wait()
        child.terminate()
        child.join()
        assert child.exitcode == -signal.SIGTERM and not lib.tr_stop_signal_came(), child.exitcode
        signal.raise_signal(signal.SIGTERM)
        assert lib.tr_stop_signal_came()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=LIMIT)


HAMMER = """
    import faulthandler, os, sys, tempfile, threading
    import numpy as np
    import trireme as fluid
    from trireme import layers, profiler
    from trireme.run import py_functions

    folder, feed, over = tempfile.mkdtemp(), {"x": np.ones((4, 64), "float32")}, threading.Event()
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup):
        y = layers.fc(layers.data("x", [64]), 64)
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        fluid.Executor().run(startup)
        fluid.io.save_inference_model(folder + "/model", ["x"], [y], fluid.Executor(), main_program=program)

    class Thread:
        '''What one thread has to itself: a scope, an executor and a folder for what it writes.'''

        def __init__(self):
            self.scope, self.exe, self.folder = fluid.Scope(), fluid.Executor(), tempfile.mkdtemp()
            self.exe.run(startup, scope=self.scope)
            self.program = program.clone()

    shared = fluid.serving.Predictor(folder + "/model")
    shared.run(feed)                                   # loads OpenBLAS: a child that is forked in the middle of that has no products
    works = [
        lambda own: shared.run(feed),
        lambda own: fluid.serving.Predictor(folder + "/model").run(feed),
        lambda own: fluid.Executor().run(own.program, feed=feed, fetch_list=[y], scope=own.scope),
        lambda own: own.exe.run(fluid.Program(), scope=fluid.Scope()),
        lambda own: fluid.io.save_vars(own.exe, own.folder + "/saved", main_program=own.program, vars=own.program.all_parameters()) if own.scope is
            fluid.global_scope() else fluid.LoDTensor().set(feed["x"]),
        lambda own: fluid.io.save_checkpoint(own.exe, own.folder + "/kept", main_program=own.program),
        lambda own: (profiler.start_profiler("CPU"), own.exe.run(own.program, feed=feed, scope=own.scope)),
        lambda own: py_functions.PyFuncRegistry(lambda: None),
        lambda own: fluid.core.SelectedRows([4, 7], 10).set(np.ones((2, 3), "float32")),
    ]

    def hammer(own, first):
        for i in range(first, 1 << 30):
            if over.is_set():
                return
            works[i % len(works)](own)

    of_all = fluid.scope_guard(Thread().scope)         # one for all threads: the global scope is that of the process
    of_all.__enter__()

    threads = [threading.Thread(target=hammer, args=(Thread(), 2 * i)) for i in range(4)]     # made here: a program in use is refused in a child
    [thread.start() for thread in threads]
    codes = []
    for _ in range(FORKS):
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            own = Thread()
            with fluid.scope_guard(own.scope):
                [work(own) for work in works]
            os._exit(7)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    over.set()
    [thread.join() for thread in threads]
    print(set(codes))
"""


def test_a_child_that_is_forked_while_threads_do_everything_does_everything():
    script = textwrap.dedent(HAMMER).replace("FORKS", "40").replace("LIMIT", str(LIMIT))
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", script], check=False, capture_output=True, text=True,
                          timeout=10 * LIMIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{7}\n", "")
