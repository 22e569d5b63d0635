"""Ctrl-C ends runs and loops within a second, and what was trained is still there."""

import os
import re
import signal
import threading
import time

import numpy as np
import pytest
from job_support import LIMIT, SCRIPT, Launched, assert_within, needs_mpi

import trireme as fluid
from trireme.native import interrupt
from trireme import layers
from trireme._core import lib
from trireme.errors import RunInterruptedError


@pytest.fixture(autouse=True)
def ctrl_c_means_something():
    """What a shell starts in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.due = 0.0                                # the next run looks at that
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ctrl_c():
    """Return a function that presses Ctrl-C so many seconds later. It returns a list, which then has the time of that."""
    timers = []

    def press(seconds=0.3):
        pressed = []

        def now():
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timers.append(threading.Timer(seconds, now))
        timers[-1].start()
        return pressed

    yield press
    for timer in timers:
        timer.cancel()
        timer.join()


def line_fit():
    """A model with one parameter ``w``, and its loss."""
    x, y = layers.data("x", [1]), layers.data("y", [1])
    loss = layers.mean(layers.square_error_cost(layers.fc(x, 1, param_attr="w", bias_attr=False), y))
    fluid.optimizer.SGD(0.01).minimize(loss)
    return loss


BATCH = {"x": np.ones((4, 1), "float32"), "y": np.full((4, 1), 3, "float32")}


def endless(body=lambda: None):
    """A program that never ends; each iteration adds 1 to ``count``."""
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup):
        count = layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
        always = layers.fill_constant([1], "bool", True)
        loop = layers.While(cond=always)
        with loop.block():
            layers.increment(count)
            body()
            layers.assign(layers.fill_constant([1], "bool", True), always)
    return program, startup


def count():
    return float(np.asarray(fluid.global_scope().find_var("count").get_tensor())[0])


def test_an_endless_while_ends_and_training_goes_on(exe, ctrl_c):
    loss = line_fit()
    exe.run(fluid.default_startup_program())
    before, = exe.run(feed=BATCH, fetch_list=[loss])
    program, startup = endless()
    exe.run(startup)
    for _ in range(2):                                 # the abandoned plan runs again
        pressed, so_far = ctrl_c(), count()
        with pytest.raises(KeyboardInterrupt):
            exe.run(program)
        assert_within(1, time.monotonic() - pressed[0])
        assert count() > so_far
    after, = exe.run(feed=BATCH, fetch_list=[loss])
    assert after < before


def test_loops_inside_loops_end(exe, ctrl_c):
    def inner():
        i = layers.fill_constant([1], "float32", 0.0)
        limit = layers.fill_constant([1], "float32", 1e9)
        is_less = layers.less_than(i, limit)
        loop = layers.While(cond=is_less)
        with loop.block():
            layers.increment(i)
            layers.less_than(i, limit, cond=is_less)

    program, startup = endless(inner)
    exe.run(startup)
    pressed = ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        exe.run(program)
    assert_within(1, time.monotonic() - pressed[0])
    assert count() == 1


def test_a_long_step_ends_between_two_operators(exe, ctrl_c):
    total = 3000
    counter = layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
    x = layers.data("x", [512, 512], append_batch_size=False)
    y = x
    for _ in range(total):
        layers.increment(counter)
        y = layers.scale(layers.matmul(y, x), 0.01)
    exe.run(fluid.default_startup_program())
    pressed = ctrl_c(0.5)
    with pytest.raises(KeyboardInterrupt):
        exe.run(feed={"x": np.eye(512, dtype="float32")}, fetch_list=[y])
    assert_within(1, time.monotonic() - pressed[0])
    assert count() < total


def test_a_long_recurrent_ends(exe, ctrl_c):
    x = layers.data("x", [4_000_000, 1, 1], append_batch_size=False)
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        state = rnn.memory(shape=[-1, 1], batch_ref=word)
        new = layers.elementwise_add(state, word)
        rnn.update_memory(state, new)
        rnn.step_output(new)
    feed = {"x": np.ones((4_000_000, 1, 1), "float32")}
    pressed = ctrl_c(0.2)
    with pytest.raises(KeyboardInterrupt):
        exe.run(feed=feed, fetch_list=[rnn()])
    assert_within(1, time.monotonic() - pressed[0])
    short = feed["x"][:5]
    program = fluid.Program()
    with fluid.program_guard(program):
        out = layers.scale(layers.data("x", [5, 1, 1], append_batch_size=False), 2.0)
    assert exe.run(program, feed={"x": short}, fetch_list=[out])[0].sum() == 10


@pytest.mark.parametrize("threads", [1, 2])
def test_train_from_dataset_ends(exe, ctrl_c, tmp_path, threads):
    path = tmp_path / "data.csv"
    path.write_text("x,y\n" + "1,3\n" * 8)
    loss = line_fit()
    exe.run(fluid.default_startup_program())
    before, = exe.run(feed=BATCH, fetch_list=[loss])
    block = fluid.default_main_program().global_block()
    data = fluid.Dataset(str(path), "csv", batch_size=4, header=True, slots=[block.var("x"), block.var("y")])
    pressed = ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        exe.train_from_dataset(dataset=data, epochs=2_000_000_000, thread=threads)
    assert_within(1, time.monotonic() - pressed[0])
    after, = exe.run(feed=BATCH, fetch_list=[loss])
    assert after < before
    exe.train_from_dataset(dataset=data, epochs=2, thread=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_endless_step_of_a_dataset_ends(exe, ctrl_c, tmp_path, threads):
    path = tmp_path / "data.csv"
    path.write_text("x\n" + "1\n" * 8)
    program, startup = endless()
    with fluid.program_guard(program, startup):
        x = layers.data("x", [1])
    exe.run(startup)
    data = fluid.Dataset(str(path), "csv", batch_size=2, header=True, slots=[x])
    pressed = ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        exe.train_from_dataset(program, data, thread=threads)
    assert_within(1, time.monotonic() - pressed[0])
    assert count() > 0


def test_a_handler_of_the_script_decides_itself(exe, ctrl_c):
    """A script that wants to end after the step is not disturbed in it."""
    line_fit()
    exe.run(fluid.default_startup_program())           # the core's handler is there now
    seen = []
    old = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        ctrl_c(0)
        deadline = time.monotonic() + LIMIT
        while not seen and time.monotonic() < deadline:
            exe.run(feed=BATCH)
    finally:
        signal.signal(signal.SIGINT, old)
    assert seen == [signal.SIGINT]


def test_a_handler_set_again_is_seen(exe, ctrl_c):
    line_fit()
    exe.run(fluid.default_startup_program())
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))      # which takes the core's away
    program, startup = endless()
    time.sleep(0.2)
    exe.run(startup)
    pressed = ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        exe.run(program)
    assert_within(1, time.monotonic() - pressed[0])


def test_an_interrupt_without_a_signal_is_an_error_of_the_run(exe):
    program, startup = endless()
    exe.run(startup)
    timer = threading.Timer(0.2, lib.tr_interrupt)
    timer.start()
    with pytest.raises(RunInterruptedError, match="interrupted.*\n.*while|after operator"):
        exe.run(program)
    timer.join()


def test_an_interrupt_before_a_run_does_not_end_it(exe):
    loss = line_fit()
    exe.run(fluid.default_startup_program())
    lib.tr_interrupt()
    assert exe.run(feed=BATCH, fetch_list=[loss])[0] > 0


@pytest.mark.mpi
@needs_mpi
def test_a_trainer_that_waits_for_servers_ends():
    code, text = Launched(1, 2, script=SCRIPT.with_name("waits.py")).end()
    waited = re.search(r"waited ([0-9.]+) s more", text)
    assert waited, text
    assert_within(1, float(waited[1]), text)
    assert code != 0
