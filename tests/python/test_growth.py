"""What is done once must take as long as the program is large, not as its square: counted in calls, not in seconds."""

import math
import sys
import tempfile
import time

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.distributed.optimize_part import OptimizePart
from trireme.job.mode import parse
from trireme.distributed.training import facts_of
from trireme.distributed.transpiler import transpile

FEW, MANY = 20, 200


def build(count, optimizer):
    """A program of ``count`` small parameters, cut for one server or several."""
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup), fluid.unique_name.guard():
        hidden = layers.data("x", [8])
        for _ in range(count // 2):
            hidden = layers.fc(hidden, 8, act="tanh")
        optimizer().minimize(layers.mean(hidden))
    return program


def work(action):
    """Return how many functions ``action`` calls, Python's and the core's: a loop over the whole program for each parameter shows."""
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def growth(action):
    few, many = (work(lambda count=count: action(count)) for count in (FEW, MANY))
    return many / few / (MANY / FEW)


def assert_linear(action):
    action(FEW)                                        # what is worked out once for the process
    assert growth(action) < 1.3


OPTIMIZERS = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "adam": lambda: fluid.optimizer.Adam(0.1),
    "decay": lambda: fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.1)),
}


@pytest.mark.parametrize(("optimizer", "mode", "servers"), [
    ("sgd", "sync", 1), ("adam", "sync", 3), ("decay", "async", 3), ("sgd", "geo(4)", 3)])
def test_a_jobs_programs(optimizer, mode, servers):
    programs = {count: build(count, OPTIMIZERS[optimizer]) for count in (FEW, MANY)}

    def cut(count):
        facts_of(transpile(programs[count], servers, mode=parse(mode)), {})

    assert_linear(cut)


def test_a_job_of_many_servers():
    """Each operator is looked at once, not once for each server."""
    part = OptimizePart(build(MANY, OPTIMIZERS["sgd"]))
    params = list(part.params)

    def split(servers):
        for server in range(servers):
            list(part.ops_of(params[server::servers]))

    split(1)
    assert work(lambda: split(100)) < 2 * work(lambda: split(1)) + 100 * 20


@pytest.mark.parametrize("what", ["clone", "prune", "run"])
def test_programs_in_one_process(exe, what):
    programs = {count: build(count, OPTIMIZERS["sgd"]) for count in (FEW, MANY)}
    actions = {
        "clone": lambda program: program.clone(for_test=True),
        "prune": lambda program: program.prune([program.global_block().ops[0].output_arg_names[0]]),
        "run": lambda program: exe.plan(program, feed=["x"]),
    }
    assert_linear(lambda count: actions[what](programs[count]))


def test_building_while_looking_at_the_operators():
    """A layer that asks for the operators, or makes variables, does not have all handles made anew."""
    def add(count):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            x = layers.data("x", [8])
            block = fluid.default_main_program().global_block()
            for i in range(count):
                x = layers.scale(x, 2.0)
                made = block.append_op(type="scale", inputs={"X": x}, outputs={"Out": f"undeclared_{i}"})
                assert block.ops[-1] is made and block.vars[f"undeclared_{i}"] is block.var(f"undeclared_{i}")

    assert_linear(add)


# -- in the core, whose work shows in CPU time: an exponent of 2 is told from 1 on any machine -----------------------------


def deep(count, optimizer=None):
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup), fluid.unique_name.guard():
        hidden = layers.data("x", [4])
        for i in range(count):
            hidden = layers.fc(hidden, 4 + i % 7)
        loss = layers.mean(hidden)
        if optimizer:
            optimizer.minimize(loss)
    return program, startup, loss


def append_backward(count):
    program, startup, loss = deep(count)
    start = time.process_time()
    with fluid.program_guard(program, startup):
        fluid.backward.append_backward(loss)
    return time.process_time() - start


def first_run(count):
    """Of a program with its gradients, and of another set of shapes."""
    program, startup, loss = deep(count, fluid.optimizer.SGD(0.1))
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        start = time.process_time()
        for rows in (1, 2):
            exe.run(program, feed={"x": np.ones((rows, 4), "float32")})
        return time.process_time() - start


def exported_and_served(count):
    program, startup, loss = deep(count)
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()), tempfile.TemporaryDirectory() as folder:
        exe.run(startup)
        start = time.process_time()
        fluid.io.save_inference_model(folder, ["x"], [loss], exe, program, params_filename="all")
        fluid.serving.Predictor(folder, params_filename="all").close()
        return time.process_time() - start


@pytest.mark.parametrize("cost", [append_backward, first_run, exported_and_served])
def test_a_deep_program(cost):
    few, many = min(cost(300) for _ in range(3)), cost(2400)
    assert math.log(many / few, 8) < 1.6
