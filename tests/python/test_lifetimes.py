"""Memory of runs goes with the scope, the executor or the program that it was for: counted in plans and in bytes of the C heap."""

import ctypes
import gc
import sys
import threading

import numpy as np
import pytest

import trireme as fluid
from trireme.run import runner
from trireme import layers
from trireme._core import lib

FEED = {"x": np.ones((2, 4), "float32")}
KEPT, WARM, ROUNDS = 8, 20, 80


@pytest.fixture(autouse=True)
def _few_are_kept(monkeypatch):
    """A program keeps this many prepared runs, so that few rounds show what stays."""
    monkeypatch.setattr(runner, "_MAX_KEPT", KEPT)


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def heap():
    """Return how many bytes of the C heap are in use."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    info = mallinfo()
    return info.uordblks + info.hblkhd


@pytest.fixture
def net():
    """A program of ten layers with their gradients: its plan takes tens of KB."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = layers.data("x", [4])
        for _ in range(10):
            hidden = layers.fc(hidden, 4)
        loss = layers.mean(hidden)
        fluid.optimizer.Adam(0.01).minimize(loss)
    main.loss, main.startup = loss.name, startup
    return main


def assert_nothing_stays(action, *, plans=0, bytes_each=600):
    """Do something often. So many plans and bytes may stay of each time; a plan of the net here has 100 KB."""
    for i in range(WARM):
        action(i)
    gc.collect()
    plans_before, heap_before = lib.tr_plan_count(), heap()
    for i in range(WARM, ROUNDS):
        action(i)
    gc.collect()
    assert lib.tr_plan_count() - plans_before <= plans
    assert (heap() - heap_before) / (ROUNDS - WARM) < bytes_each


def started(main):
    scope = fluid.Scope()
    exe = fluid.Executor()
    exe.run(main.startup, scope=scope)
    return exe, scope


def test_a_scope(net, exe):
    def train(i):
        with fluid.scope_guard(fluid.Scope()):
            exe.run(net.startup)
            exe.run(net, feed=FEED, fetch_list=[net.loss])

    assert_nothing_stays(train)


def test_a_scope_within_a_scope(net):
    exe, scope = started(net)

    def infer(i):
        exe.run(net, feed=FEED, fetch_list=[net.loss], scope=scope.new_scope())

    assert_nothing_stays(infer)


@pytest.mark.parametrize("how", ["new", "close", "close and go on"])
def test_an_executor(net, how):
    first, scope = started(net)

    def infer(i):
        exe = first if how == "close and go on" else fluid.Executor()
        exe.run(net, feed=FEED, fetch_list=[net.loss], scope=scope)
        if how != "new":
            exe.close()

    assert_nothing_stays(infer)


def test_a_closed_executor_is_as_it_was_told_to_be(net):
    exe = fluid.Executor(check_nan=True, matmul_precision="bfloat16")
    exe.close()
    assert exe.check_nan and exe.matmul_precision == "bfloat16"


def test_a_prepared_run_goes_on_after_close(net):
    exe, scope = started(net)
    run = exe.prepare(net, ["x"], [net.loss], scope)
    run.run(FEED)
    exe.close()
    assert np.isfinite(run.run(FEED)[0]).all()


@pytest.mark.parametrize("what", ["clone", "changed"])
def test_a_program(net, what):
    exe, scope = started(net)

    def infer(i):
        if what == "clone":
            exe.run(net.clone(for_test=True), feed=FEED, fetch_list=[net.loss], scope=scope)
            gc.collect()
        else:
            net.random_seed = i
            net.global_block().create_var(name=f"new_{i}")
            exe.run(net, feed=FEED, fetch_list=[net.loss], scope=scope)

    assert_nothing_stays(infer, bytes_each=2000)        # the variable itself


def test_other_fetches(net):
    exe, scope = started(net)
    names = [name for op in net.global_block().ops[:20] for name in op.output_arg_names]

    def infer(i):
        chosen = [names[i % len(names)], names[(3 * i + 1) % len(names)], names[(i // 7) % len(names)]]
        exe.run(net, feed=FEED, fetch_list=chosen, scope=scope)

    gc.collect()
    before = lib.tr_plan_count()
    for i in range(60):
        infer(i)
    assert lib.tr_plan_count() - before <= KEPT


def test_other_shapes(net):
    exe, scope = started(net)
    assert_nothing_stays(lambda i: exe.run(net, feed={"x": np.ones((1 + i % 97, 4), "float32")}, fetch_list=[net.loss], scope=scope),
                         bytes_each=2000)              # the longest of them


def test_runs_that_fail(net):
    exe, scope = started(net)

    def fail(i):
        with pytest.raises(fluid.core.EnforceNotMet):
            exe.run(net, feed={"x": np.ones((2, 5), "float32")}, fetch_list=[net.loss], scope=scope)
        with pytest.raises(fluid.core.EnforceNotMet):
            exe.run(net, feed=FEED, fetch_list=[f"nothing_{i}"], scope=scope)
        with pytest.raises(fluid.core.EnforceNotMet):                       # no value yet
            fluid.Executor().run(net, feed=FEED, fetch_list=[net.loss], scope=fluid.Scope())

    assert_nothing_stays(fail)


def test_threads_that_end(net):
    def train():
        exe, scope = started(net)
        exe.run(net, feed=FEED, fetch_list=[net.loss], scope=scope)

    def in_a_thread(i):
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()

    assert_nothing_stays(in_a_thread, bytes_each=5000)   # threads leave caches of malloc


def test_replicas(net, exe):
    compiled = fluid.CompiledProgram(net).with_data_parallel(loss_name=net.loss, places=2)

    def train(i):
        with fluid.scope_guard(fluid.Scope()):
            exe.run(net.startup)
            exe.run(compiled, feed=FEED, fetch_list=[net.loss])
        if i % 10 == 0:
            gc.collect()                               # programs of replicas are in circles

    assert_nothing_stays(train, bytes_each=2000)


def test_loops_over_datasets(net, exe, tmp_path):
    (tmp_path / "data").write_text("4 1 2 3 4\n" * 8)

    def train(i):
        with fluid.scope_guard(fluid.Scope()):
            exe.run(net.startup)
            data = fluid.Dataset(tmp_path / "data", "multislot", batch_size=4, slots=[net.global_block().var("x")])
            exe.train_from_dataset(net, data)

    assert_nothing_stays(train, bytes_each=2000)


def test_predictors(net, exe, tmp_path):
    with fluid.scope_guard(fluid.Scope()):
        exe.run(net.startup)
        infer = net.clone(for_test=True)
        fluid.serving.export_model(str(tmp_path / "model"), ["x"], [infer.global_block().var(net.loss)], exe, main_program=infer)

    def predict(i):
        fluid.serving.Predictor(str(tmp_path / "model")).run(FEED)

    assert_nothing_stays(predict)


def test_a_plan_whose_scope_is_gone_says_so():
    """In C: whoever retained a plan may ask it to run, and gets an answer."""
    from trireme._core import ffi

    program, scope, executor = lib.tr_program_new(), lib.tr_scope_new(ffi.NULL), lib.tr_executor_new()
    out = ffi.new("tr_plan **")
    before = lib.tr_plan_count()
    assert lib.tr_executor_prepare(out, executor, program, scope, 0, ffi.NULL, 0, ffi.NULL) == 0
    lib.tr_plan_retain(out[0])
    assert lib.tr_plan_count() == before + 1
    lib.tr_scope_free(scope)
    assert lib.tr_plan_count() == before
    assert lib.tr_plan_run(out[0], ffi.NULL, ffi.NULL) != 0
    assert b"the plan is gone" in ffi.string(lib.tr_error())
    lib.tr_plan_release(out[0])
    lib.tr_program_free(program)
    lib.tr_executor_free(executor)


def test_a_chain_of_scopes_that_is_longer_than_a_stack_is_deep(monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: ignored.append(type(failure.exc_value)))
    first = last = fluid.Scope()
    first.var("x").get_tensor().set(np.ones(1, "float32"))
    for _ in range(5000):
        last = last.new_scope()
    assert last.find_var("x") is not None
    del first, last
    gc.collect()
    assert ignored == []
