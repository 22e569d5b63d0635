"""In a job the servers have the optimizers' states. A script reads them as in one process."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from compare_scripts import build_transport
from forked_jobs import Built, Outcome, run_alone, run_job

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")

# The weight is larger than 64 KiB, so two servers have a part of it each.
BUILD = """
x, y = L.data("x", [300]), L.data("y", [1])
h = L.fc(x, 60, act="tanh", param_attr="w", bias_attr="b")
calls = []
def backward(value, out, gradient):
    for call in calls:
        call()
    return np.array(gradient)
out = fluid.default_main_program().current_block().create_var(name="out", dtype="float32", shape=h.shape)
h = L.py_func(lambda value: np.array(value), h, out, backward_func=backward)
loss = L.mean(L.square_error_cost(L.fc(h, 1, param_attr="v", bias_attr=False), y))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adam(0.05).minimize(loss)
"""

HEAD = """
exe, main, scope = fluid.Executor(), fluid.default_main_program(), fluid.global_scope()
exe.run(fluid.default_startup_program())
names = sorted(one.name for one in main.list_vars() if "moment" in one.name or "_pow_" in one.name)
def feed(number):
    r = np.random.default_rng(number)
    return {"x": r.normal(size=(4, 300)).astype("float32"), "y": r.normal(size=(4, 1)).astype("float32")}
def step(number, *more):
    return exe.run(main, feed=feed(number), fetch_list=[loss, *more])
def value(name):
    return np.array(scope.find_var(name).get_tensor())
"""

READS = HEAD + """
for name in names:
    note("before " + name, value(name))
step(1)
for name in names:
    note(name, value(name))
held = scope.find_var(names[0]).get_tensor().numpy()
for number in (2, 3):
    for name, found in zip(names, step(number, *names)[1:]):
        note("fetched " + name, found)
    note("held", np.array(held))
for name, found in zip(names, exe.run(test, feed=feed(9), fetch_list=names)):
    note("fetched by a test " + name, found)
step(4)
fluid.io.save_persistables(exe, folder, main)
D.barrier()
for name in names:
    array = scope.find_var(name).get_tensor().numpy()
    array *= np.float32(0.5)
    note("half " + name, np.array(array))
step(5)
for name in names:
    note("after half " + name, value(name))
fluid.io.load_persistables(exe, folder, main)
for name in [*names, "w"]:
    note("loaded " + name, value(name))
step(6)
fluid.io.save_checkpoint(exe, folder + "/checkpoints", main)
D.barrier()
with fluid.scope_guard(fluid.Scope()):
    exe.run(fluid.default_startup_program())
    fluid.io.load_checkpoint(fluid.global_scope(), folder + "/checkpoints", main)
    for name in names:
        note("in a checkpoint " + name, np.array(fluid.global_scope().find_var(name).get_tensor()))
"""


def same(one: Outcome, other: Outcome) -> bool:
    assert not one.error and not other.error, (one, other)
    assert [name for name, _ in one.notes] == [name for name, _ in other.notes]
    wrong = [name for (name, a), (_, b) in zip(one.notes, other.notes) if np.asarray(a).tobytes() != np.asarray(b).tobytes()]
    assert not wrong, wrong
    return True


def test_each_way_to_read_a_state_gives_the_bits_of_one_process(tmp_path: Path) -> None:
    transport, built = build_transport(tmp_path), Built(BUILD, READS)
    (tmp_path / "one").mkdir()
    alone = run_alone(built, str(tmp_path / "one"))
    assert len(alone.notes) > 100
    for servers, trainers, mode in [(1, 1, "sync"), (2, 1, "async"), (2, 1, "ssp(1)"), (2, 2, "sync"), (3, 2, "sync(degraded)")]:
        folder = tmp_path / f"{servers}-{trainers}-{mode}"
        folder.mkdir()
        for one in run_job(transport, built, str(folder), servers, trainers, mode)[:trainers]:
            assert same(one, alone)
        assert not list(folder.glob(".state*"))


def test_a_value_that_a_script_has_set_is_read_until_the_next_step(tmp_path: Path) -> None:
    built = Built(BUILD, HEAD + """
step(1)
name = next(one for one in names if one.startswith("b_moment1"))
scope.find_var(name).get_tensor().set(np.full(60, 7, "float32"), fluid.CPUPlace())
note("set", value(name))
exe.run(test, feed=feed(1), fetch_list=[name])
note("still", value(name))
step(2)
note("after a step", value(name))
""")
    alone = run_alone(built, str(tmp_path))
    assert np.all(alone.notes[1][1] == 7)
    assert same(run_job(build_transport(tmp_path), built, str(tmp_path), 2, 1)[0], alone)


def test_reads_that_have_no_one_value_are_refused_by_name(tmp_path: Path) -> None:
    built = Built(BUILD, HEAD + """
import threading
def read(where):
    try:
        note(where, value("v_moment1_0"))
    except Exception as error:
        note(where, str(error).partition("\\n")[0])
step(1)
thread = threading.Thread(target=read, args=("thread",))
thread.start()
thread.join()
calls.append(lambda: read("within"))
step(2)
calls.clear()
note("after", value("v_moment1_0"))
""")
    alone = run_alone(built, str(tmp_path))
    found = run_job(build_transport(tmp_path), built, str(tmp_path), 1, 1)[0]
    assert not found.error and [name for name, _ in found.notes] == ["thread", "within", "after"]
    assert found.notes[2][1].tobytes() == alone.notes[2][1].tobytes()
    assert "the thread that makes the steps gets it" in found.notes[0][1] and "v_moment1_0" in found.notes[0][1], found.notes[0]
    assert "in the middle of step 2" in found.notes[1][1] and "v_moment1_0" in found.notes[1][1], found.notes[1]
