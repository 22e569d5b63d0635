"""The extension's way from a call of `Executor.run` to the core and back: what is kept is used while it holds, and no longer."""

import copy
import gc
import sys
import threading

import numpy as np
import pytest

import trireme as fluid
from trireme._core import Lock, lib
from trireme.errors import DTypeError, InvalidArgumentError, ShapeError
from trireme.native.tensor import FedArray

layers = fluid.layers


def scaled(count=1, shape=(None, 3), dtype="float32", scale=2.0):
    """A program with so many feeds and fetches: (program, names, results)."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        xs = [layers.data(f"x{i}", list(shape), dtype=dtype, append_batch_size=False) for i in range(count)]
        return program, [x.name for x in xs], [layers.scale(x, scale=scale) for x in xs]


def events_of(call):
    """Return how many functions of Python and of C a call goes through."""
    count = 0

    def note(_frame, event, _function):
        nonlocal count
        count += event in ("call", "c_call")

    call()
    sys.setprofile(note)
    try:
        _results = call()                              # kept: their end is another matter
    finally:
        sys.setprofile(None)
    return count


def test_ten_feeds_and_fetches_are_as_many_calls_as_none():
    exe, counts = fluid.Executor(), []
    for count in (0, 10):
        program, names, results = scaled(count)
        feed = {name: np.ones((2, 3), "float32") for name in names}
        for arrays in (True, False):
            counts.append(events_of(lambda: exe.run(program, feed, results, return_numpy=arrays)))
        prepared = exe.prepare(program, names, results)
        counts.append(events_of(lambda: prepared.run(feed)))
    assert counts[:3] == counts[3:] and max(counts) <= 8


def test_a_changed_program_is_seen_by_a_repeated_run():
    exe = fluid.Executor()
    program, (x,), (y,) = scaled()
    feed = {x: np.ones((1, 3), "float32")}
    prepared = exe.prepare(program, [x], [y])
    for _ in range(2):
        assert exe.run(program, feed, [y])[0].tolist() == prepared.run(feed)[0].tolist() == [[2, 2, 2]]
    program.global_block().ops[0]._set_attr("scale", 5.0)
    assert exe.run(program, feed, [y])[0].tolist() == prepared.run(feed)[0].tolist() == [[5, 5, 5]]


def test_a_feed_of_another_type_or_rank_is_seen_by_a_repeated_run():
    exe = fluid.Executor()
    program, (x,), (y,) = scaled()
    good = {x: np.ones((1, 3), "float32")}
    for bad, kind in ((np.ones((1, 3)), DTypeError), (np.ones((1, 3), ">f4"), DTypeError), (np.ones(3, "float32"), ShapeError),
                      (np.ones((1, 3), "int32"), DTypeError)):
        exe.run(program, good, [y])
        with pytest.raises(kind, match=r"feed 'x0'(.|\n)*your line: .*test_plan_calls\.py"):
            exe.run(program, {x: bad}, [y])
    assert exe.run(program, {x: np.ones((4, 3), "float32")}, [y])[0].shape == (4, 3)
    with pytest.raises(ShapeError, match="batches of different sizes: 'x0' has 2, 'x1' has 3"):
        program, names, results = scaled(2)
        with fluid.program_guard(program):
            total = layers.elementwise_add(*results)
        exe.run(program, {name: np.ones((rows, 3), "float32") for rows, name in enumerate(names, 2)}, [total])


def test_values_of_every_kind_give_the_same_result_in_any_order():
    exe = fluid.Executor()
    program, (x,), (y,) = scaled()
    values = np.arange(6, dtype="float32").reshape(2, 3)
    unaligned = np.frombuffer(b"\0" + values.tobytes(), "uint8")[1:].view("float32").reshape(2, 3)
    tensor = fluid.create_lod_tensor(values, [[1, 1]])
    kinds = [values, values.tolist(), np.asfortranarray(values), unaligned, tensor, values.view(FedArray),
             np.repeat(values, 2, axis=0)[::2]]
    for one in (*kinds, *kinds[::-1]):
        result, = exe.run(program, {x: one}, [y], return_numpy=False)
        assert np.array_equal(result.numpy(), 2 * values) and result.lod() == ([[0, 1, 2]] if one is tensor else [])


def test_bits_of_bfloat16_are_not_taken_for_floats():
    exe = fluid.Executor()
    program, (x,), (y,) = scaled(dtype="bfloat16")
    for value in (np.full((1, 3), 1.5, "float32"), fluid.core.bfloat16_bits(np.full((1, 3), 1.5, "float32"))) * 2:
        assert exe.run(program, {x: value}, [y])[0].tolist() == [[3, 3, 3]]


def test_scopes_and_executors_are_told_apart_also_where_one_takes_the_place_of_another():
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup):
        w = layers.create_parameter([1], "float32", name="w", default_initializer=fluid.initializer.Constant(0.0))
        y = layers.scale(w, scale=1.0)
    for value in range(6):                             # memory, and Python's id, of what is gone is used again
        exe, scope = fluid.Executor(), fluid.Scope()
        exe.run(startup, scope=scope)
        scope.find_var("w").get_tensor().set(np.array([value], "float32"))
        assert [exe.run(program, fetch_list=[y], scope=scope)[0].tolist() for _ in range(2)] == [[value]] * 2
        exe.close()
        assert exe.run(program, fetch_list=[y], scope=scope)[0].tolist() == [value]


def test_a_dropped_program_takes_its_plans_along():
    gc.collect()
    exe, before = fluid.Executor(), lib.tr_plan_count()
    program, (x,), (y,) = scaled()
    exe.run(program, {x: np.ones((1, 3), "float32")}, [y])
    assert lib.tr_plan_count() == before + 1
    del program, y
    gc.collect()
    assert lib.tr_plan_count() == before


def test_a_prepared_run_goes_on_after_its_executor_was_closed():
    exe = fluid.Executor()
    program, (x,), (y,) = scaled()
    prepared, feed = exe.prepare(program, [x], [y]), {x: np.ones((1, 3), "float32")}
    prepared.run(feed)
    exe.close()
    assert prepared.run(feed)[0].tolist() == [[2, 2, 2]]


def test_code_within_a_run_may_not_begin_it_again():
    exe = fluid.Executor()
    program, (x,), (y,) = scaled()
    good = np.ones((1, 3), "float32")
    exe.run(program, {x: good}, [y])

    class Nested:
        def __array__(self, *_args, **_kwargs):
            exe.run(program, {x: good}, [y])
            return good

    with pytest.raises(RuntimeError, match="has begun and is not over"):
        exe.run(program, {x: Nested()}, [y])
    assert exe.run(program, {x: good}, [y])[0].tolist() == [[2, 2, 2]]


def test_memory_that_is_fed_is_let_go_after_a_run_and_after_a_mistake():
    exe = fluid.Executor()
    program, names, results = scaled(2)
    feed = {name: np.ones((1, 3), "float32") for name in names}
    exe.run(program, feed, results)
    with pytest.raises(DTypeError):
        exe.run(program, {names[0]: feed[names[0]], names[1]: np.ones((1, 3))}, results)
    for value in feed.values():
        assert sys.getrefcount(value) == 3             # the dict's, the loop's, the argument's


@pytest.mark.parametrize("rows", [1, 0, 5000], ids=["small", "empty", "large"])
def test_results_stay_what_they_were_in_both_forms(rows):
    exe = fluid.Executor()
    program, (x,), (y,) = scaled()
    kept = []
    for i in range(4):
        feed = {x: np.full((rows, 3), i, "float32")}
        kept.append((exe.run(program, feed, [y])[0], exe.run(program, feed, [y], return_numpy=False)[0]))
    for i, (array, tensor) in enumerate(kept):
        assert array.shape == tuple(tensor.shape()) == (rows, 3) and array.flags.writeable
        assert (array == 2 * i).all() and (tensor.numpy() == 2 * i).all()
        array[:] = 7
    assert (kept[0][1].numpy() == 0).all()


def test_a_result_that_is_a_tensor_is_a_handle_like_any_other():
    exe = fluid.Executor()
    program, (x,), (y,) = scaled()
    one, = exe.run(program, {x: np.ones((1, 3), "float32")}, [y], return_numpy=False)
    with pytest.raises(AttributeError, match="'LoDTensor' object has no attribute 'nothing'"):
        one.nothing
    other = copy.copy(one)
    view = one.numpy()
    assert one._let_go() and not one._let_go()
    with pytest.raises(InvalidArgumentError, match="this LoDTensor is closed"):
        one._native.ptr
    del one
    assert view.tolist() == other.numpy().tolist() == [[2, 2, 2]]


def test_whether_results_are_arrays_is_any_truth():
    exe = fluid.Executor()
    program, (x,), (y,) = scaled()
    feed = {x: np.ones((1, 3), "float32")}
    for truth, kind in ((1, np.ndarray), (0, fluid.LoDTensor), ("yes", np.ndarray), (None, fluid.LoDTensor)):
        assert type(exe.run(program, feed, [y], return_numpy=truth)[0]) is kind
    with pytest.raises(ValueError, match="truth value of an array"):
        exe.run(program, feed, [y], return_numpy=np.ones(2))


# -- the lock ---------------------------------------------------------------------------------------------------------


def test_a_lock_is_taken_by_one_thread_as_often_as_it_likes():
    lock, order = Lock(), []
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with lock, lock:
            inside.set()
            leave.wait(30)
            order.append("first")

    def wait():
        with lock:
            order.append("second")

    threads = [threading.Thread(target=hold), threading.Thread(target=wait)]
    threads[0].start()
    assert inside.wait(30) and not lock.try_enter(0) and not lock.try_enter(0.001)
    threads[1].start()
    leave.set()
    for thread in threads:
        thread.join(30)
    assert order == ["first", "second"] and lock.try_enter(0) and lock.try_enter(1)
    lock.__exit__()
    lock.__exit__()
    with pytest.raises(RuntimeError, match="left by the thread that has taken it"):
        lock.__exit__()


def test_a_lock_is_left_where_its_block_raises():
    lock = Lock()
    with pytest.raises(ZeroDivisionError), lock:
        1 / 0
    found = []
    thread = threading.Thread(target=lambda: found.append(lock.try_enter(0)))
    thread.start()
    thread.join(30)
    assert found == [True]
