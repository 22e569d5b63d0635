"""The operator lookup_sparse_table by itself, as a program of Fluid has it: reference, gradient, mistakes. Layers: test_sparse_tables."""

import numpy as np
import pytest

import trireme as fluid
from trireme.core import SelectedRows
from trireme.native.dtypes import VarType
from trireme.errors import InvalidArgumentError, NotFiniteError, NotFoundError, TriremeError

WIDTH = 3


@pytest.fixture
def block():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield fluid.default_main_program().global_block()


def ids_of(block, shape=(-1, 1)):
    return fluid.layers.data("ids", list(shape), dtype="int64", append_batch_size=False)


def table(block, **attrs):
    """A table of uniform values that the startup program makes."""
    made = fluid.default_startup_program().global_block().create_var(name="w", persistable=True)
    attrs = {"width": WIDTH, "init": "uniform", "a": -1.0, "b": 1.0, "seed": 5, **attrs}
    fluid.default_startup_program().global_block().append_op(type="lookup_sparse_table_init", outputs={"Out": made}, attrs=attrs)
    return block.create_var(name="w", shape=[-1, WIDTH], dtype="float32", persistable=True)


def held_rows(block, rows, values, shape=(100, WIDTH), dtype="float32"):
    held = fluid.global_scope().var("w").get_selected_rows()
    held.set_height(100)
    held.set_rows(rows)
    held.get_tensor().set(np.asarray(values, dtype), fluid.CPUPlace())
    return block.create_var(name="w", shape=list(shape), dtype=dtype, type=VarType.SELECTED_ROWS, persistable=True)


def look_up(block, w, ids, **attrs):
    if w.type != VarType.SELECTED_ROWS:
        attrs.setdefault("width", WIDTH)
    out = block.create_var(name="out", dtype="float32")
    block.append_op(type="lookup_sparse_table", inputs={"W": w, "Ids": ids}, outputs={"Out": out}, attrs=attrs)
    return out


def run(feed, *fetches):
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(fetches), return_numpy=False)


KEYS = {"ragged": [[5], [-7], [5], [2**40 + 1], [0], [9], [5]], "one": [[3]], "empty": np.zeros((0, 1))}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("padding", [-1, 9])
def test_each_key_has_its_row_and_the_padding_zeros(block, keys, padding):
    out = look_up(block, table(block), ids_of(block), padding_idx=padding)
    every = fluid.layers.data("every", [-1, 1], dtype="int64", append_batch_size=False)
    rows = block.create_var(name="rows", dtype="float32")
    block.append_op(type="lookup_sparse_table", inputs={"W": block.var("w"), "Ids": every}, outputs={"Out": rows}, attrs={"width": WIDTH})
    unique = np.unique(np.asarray(keys, np.int64))
    got, rows = map(np.array, run({"ids": np.asarray(keys, np.int64), "every": unique.reshape(-1, 1)}, out, rows))
    want = np.zeros((len(keys), WIDTH), "float32")
    for i, (key,) in enumerate(np.asarray(keys, np.int64)):
        want[i] = 0 if padding != -1 and key == padding else rows[np.searchsorted(unique, key)]
    np.testing.assert_array_equal(got, want)
    assert out.shape == (None, WIDTH) and len({tuple(row) for row in rows}) == len(unique) and (abs(rows) <= 1).all()


@pytest.mark.parametrize("shape", [(4, 2, 1), (3, 1)], ids=str)
def test_ids_may_have_several_dimensions(block, shape):
    out = look_up(block, table(block, init="constant", a=2.5), ids_of(block, shape))
    got, = run({"ids": np.arange(np.prod(shape)).reshape(shape)}, out)
    np.testing.assert_array_equal(np.array(got), np.full((*shape[:-1], WIDTH), 2.5, "float32"))


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("padding", [-1, 9])
def test_the_gradient_is_numeric(block, keys, padding):
    """A row of selected rows W is moved by a little; the loss is a polynomial of second degree, so central differences are exact but for
    rounding."""
    keys = abs(np.asarray(keys, np.int64)) % 100
    unique = [int(key) for key in np.unique(keys)]
    held = np.random.default_rng(1).integers(-8, 8, (len(unique), WIDTH)) / 8
    weight = np.arange(1, keys.size * WIDTH + 1).reshape(-1, WIDTH) / 8
    w = held_rows(block, unique, held)
    w.stop_gradient = False
    ids, factor = ids_of(block), fluid.layers.data("factor", [-1, WIDTH], append_batch_size=False)
    out = look_up(block, w, ids, padding_idx=padding)
    loss = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(fluid.layers.square(out), factor))
    gradient = fluid.backward.calc_gradient(loss, w)
    feed = {"ids": keys, "factor": weight.astype("float32")}

    def cost(values):
        held_rows_value(unique, values)
        return float(np.array(run(feed, loss)[0])[0])

    held_rows_value(unique, held)
    got = run(feed, gradient)[0]
    assert isinstance(got, SelectedRows)
    dense = {key: np.zeros(WIDTH) for key in unique}
    for row, value in zip(got.rows(), np.array(got.get_tensor()), strict=True):
        dense[row] += value
    assert padding not in got.rows() or padding == -1
    for i, key in enumerate(unique):
        for j in range(WIDTH):
            step = np.zeros_like(held)
            step[i, j] = 0.125
            assert dense[key][j] == pytest.approx((cost(held + step) - cost(held - step)) / 0.25, rel=1e-4, abs=1e-3)


def held_rows_value(rows, values):
    held = fluid.global_scope().find_var("w").get_selected_rows()
    held.set_rows(rows)
    held.get_tensor().set(np.asarray(values, "float32"), fluid.CPUPlace())


def test_selected_rows_are_looked_up_as_by_lookup_table(block):
    values = np.arange(4 * WIDTH).reshape(4, WIDTH)
    w, ids = held_rows(block, [7, 3, 9, 0], values), ids_of(block)
    out = look_up(block, w, ids)
    other = block.create_var(name="other", dtype="float32")
    block.append_op(type="lookup_table", inputs={"W": w, "Ids": ids}, outputs={"Out": other})
    got, want = map(np.array, run({"ids": np.array([[9], [0], [9], [7]])}, out, other))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got, values[[2, 3, 2, 0]])


def test_in_a_test_a_key_that_selected_rows_do_not_hold_gives_zeros(block):
    out = look_up(block, held_rows(block, [7], np.ones((1, WIDTH))), ids_of(block), is_test=True)
    got, = run({"ids": np.array([[7], [8]])}, out)
    np.testing.assert_array_equal(np.array(got), [[1, 1, 1], [0, 0, 0]])


def test_mistakes_are_explained(block):
    ids = ids_of(block)
    with pytest.raises(ValueError, match="of a table the attribute width must say how many values a row has"):
        look_up(block, block.create_var(name="unknown", dtype="float32"), ids, width=0)
    with pytest.raises(TriremeError, match="selected rows must be float32, W is float64; lookup_table takes others"):
        look_up(block, block.create_var(name="double", shape=[9, WIDTH], dtype="float64", type=VarType.SELECTED_ROWS), ids)
    w = held_rows(block, [7], np.ones((1, WIDTH)))
    with pytest.raises(ValueError, match="W has rows of 3 values, width is 4"):
        look_up(block, w, ids, width=4)
    with pytest.raises(ValueError, match="'width' must be >= 0, got -1"):
        look_up(block, w, ids, width=-1)
    with pytest.raises(TriremeError, match="last dimension of Ids must be 1"):
        look_up(block, w, fluid.layers.data("pairs", [-1, 2], dtype="int64", append_batch_size=False))
    with pytest.raises(TriremeError, match="Ids must be int64"):
        look_up(block, w, fluid.layers.data("real", [-1, 1], append_batch_size=False))
    with pytest.raises(TriremeError, match="auto_grown_table"):
        look_up(block, w, ids, auto_grown_table=False)


def test_mistakes_of_values_are_explained(block):
    out = look_up(block, held_rows(block, [7], np.ones((1, WIDTH))), ids_of(block))
    with pytest.raises(TriremeError, match="lookup_sparse_table: id 8 at position 1 of 'ids' is none of the 1 rows that 'w' holds"):
        run({"ids": np.array([[7], [8]])}, out)


def test_a_table_that_was_not_made_is_named(block):
    out = look_up(block, block.create_var(name="none", shape=[9, WIDTH], dtype="float32", persistable=True), ids_of(block))
    fluid.global_scope().var("none").get_tensor().set(np.ones((9, WIDTH), "float32"), fluid.CPUPlace())
    with pytest.raises((NotFoundError, InvalidArgumentError), match="none"):
        run({"ids": np.array([[7]])}, out)


def test_a_table_of_another_width_is_refused(block):
    out = look_up(block, table(block), ids_of(block), width=4)
    with pytest.raises(ValueError, match="'w' has rows of 3 values, 4 are wanted"):
        run({"ids": np.array([[7]])}, out)


@pytest.mark.parametrize("operator", [fluid.layers.mean, lambda w: fluid.layers.fc(w, 2), lambda w: fluid.layers.scale(w, 2.0),
                                      fluid.layers.shape, lambda w: fluid.layers.concat([fluid.layers.ones([1, WIDTH], "float32"), w])])
def test_a_table_in_the_place_of_a_tensor_is_named(block, operator):
    w = fluid.layers.embedding(ids_of(block), [100, WIDTH], is_sparse=True, is_distributed=True, param_attr="w") and block.var("w")
    out = operator(w)
    fluid.Executor().run(fluid.default_startup_program())
    with pytest.raises(TriremeError, match=r"input (X|Input) must be a dense tensor.*, got a sparse table\s+the sparse table is 'w': give "
                                           r"the operator rows"):
        fluid.Executor().run(feed={"ids": np.array([[7]])}, fetch_list=[out])


def test_a_table_that_is_fetched_is_named(block):
    out = look_up(block, table(block), ids_of(block))
    fluid.Executor().run(fluid.default_startup_program())
    with pytest.raises(TriremeError, match="fetch 'w': it is a sparse table, and a fetch gives tensors; fetch rows that lookup_table"):
        fluid.Executor().run(feed={"ids": np.array([[7]])}, fetch_list=[out, "w"])


@pytest.mark.parametrize("optimizer", [fluid.optimizer.Adagrad, fluid.optimizer.Adam])
def test_an_update_has_the_bits_of_one_thread(optimizer, rng):
    """Threads have tiles of their own; the last one is not full."""
    keys = [rng.permutation(50_000)[:n].reshape(-1, 1) for n in (9_001, 300, 20_000)]
    before, found = fluid.core.num_threads(), []
    for threads in (1, 3):
        fluid.core.set_num_threads(threads)
        try:
            with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
                ids, weight = fluid.layers.data("ids", [1], dtype="int64"), fluid.layers.data("weight", [1])
                rows = fluid.layers.embedding(ids, [1 << 40, 6], is_distributed=True, param_attr="rows")
                optimizer(0.1).minimize(fluid.layers.mean(fluid.layers.square(rows) * weight))
                exe = fluid.Executor()
                exe.run(fluid.default_startup_program())
                for number, some in enumerate(keys):
                    exe.run(feed={"ids": some, "weight": np.float32(some % 7 + number)})
                found.append(exe.run(fluid.default_main_program().clone(for_test=True),
                                     feed={"ids": np.arange(50_000).reshape(-1, 1), "weight": np.zeros((50_000, 1), "float32")},
                                     fetch_list=[rows])[0])
        finally:
            fluid.core.set_num_threads(before)
    assert found[0].tobytes() == found[1].tobytes()


def test_what_a_failed_update_leaves_depends_on_no_number_of_threads(monkeypatch):
    """One row in the middle overflows: its tile stays as it was, all others are updated."""
    monkeypatch.setenv("TRIREME_CHECK_NAN", "1")
    keys, before, found = np.arange(9_001).reshape(-1, 1), fluid.core.num_threads(), []
    weight = np.ones((len(keys), 1), "float32")
    weight[5_000] = 1e30
    for threads in (1, 3):
        fluid.core.set_num_threads(threads)
        try:
            with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
                ids, weights = fluid.layers.data("ids", [1], dtype="int64"), fluid.layers.data("weight", [1])
                rows = fluid.layers.embedding(ids, [1 << 40, 6], is_distributed=True, param_attr="rows")
                test = fluid.default_main_program().clone(for_test=True)
                fluid.optimizer.Adagrad(0.1).minimize(fluid.layers.mean(rows * weights))
                exe = fluid.Executor()
                exe.run(fluid.default_startup_program())
                first, = exe.run(test, feed={"ids": keys, "weight": weight}, fetch_list=[rows])
                with pytest.raises(NotFiniteError, match="in an update of the sparse table 'rows'"):
                    exe.run(feed={"ids": keys, "weight": weight})
                found.append(exe.run(test, feed={"ids": keys, "weight": weight}, fetch_list=[rows])[0])
        finally:
            fluid.core.set_num_threads(before)
    changed = (found[0] != first).any(1)
    assert found[0].tobytes() == found[1].tobytes() and changed[0] and changed[-1] and not changed[5_000]
