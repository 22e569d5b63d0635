"""Selected rows that split_ids and split_selected_rows share out: the gradients that come back to them, in programs that are saved and
loaded, too."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.core import SelectedRows
from trireme.native.dtypes import VarType
from trireme.errors import TriremeError

WIDTH, HEIGHT = 2, 9
ROWS = {"ragged": [7, 0, 3, 8, 1], "repeated": [4, 4, 1, 4], "one": [5], "empty": []}
OPERATORS = {"split_ids": ("Ids", 3, {}), "split_selected_rows": ("X", 3, {"height_sections": [3, 5, 1]})}


def put(name, rows, values, height=HEIGHT, dtype="float64"):
    held = fluid.global_scope().var(name).get_selected_rows()
    held.set_height(height)
    held.set_rows(list(rows))
    held.get_tensor().set(np.asarray(values, dtype).reshape(-1, WIDTH), fluid.CPUPlace())


def rows_var(name, height=HEIGHT, dtype="float64"):
    return fluid.default_main_program().global_block().create_var(
        name=name, shape=[height, WIDTH], dtype=dtype, type=VarType.SELECTED_ROWS, persistable=True, stop_gradient=False)


def shared_out(type, x):
    slot, count, attrs = OPERATORS[type]
    block = fluid.default_main_program().global_block()
    parts = [block.create_var(name=f"part{k}", dtype="float64") for k in range(count)]
    block.append_op(type=type, inputs={slot: x}, outputs={"Out": parts}, attrs=attrs)
    return parts


def height_of(type, k):
    return OPERATORS[type][2].get("height_sections", [HEIGHT] * 3)[k]


def dense_of(rows, height=HEIGHT):
    """The tensor that selected rows stand for."""
    whole = np.zeros((height, WIDTH))
    np.add.at(whole, list(rows.rows()), np.array(rows.get_tensor()).reshape(-1, WIDTH))
    return whole


def loss_of(type, parts, used):
    """A number that depends on the squares of the parts as dense tensors, each element with a weight of its own."""
    terms = []
    for k in used:
        weight = np.random.default_rng(k).uniform(0.5, 1.5, (height_of(type, k), WIDTH))
        zeros = layers.fill_constant(list(weight.shape), "float64", 0.0)
        factor = layers.cast(layers.assign(weight.astype("float32")), "float64")
        terms.append(layers.reduce_sum(layers.square(layers.sum([zeros, parts[k]])) * factor))
    return layers.sum(terms)


@pytest.mark.parametrize("used", [(0, 1, 2), (1,), (0, 2)], ids=str)
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("type", OPERATORS)
def test_the_gradient_is_numeric(type, rows, used, exe):
    """Each part becomes dense, so the gradient is dense: that of the tensor which the rows stand for."""
    x = rows_var("x")
    loss = loss_of(type, shared_out(type, x), used)
    grad, = fluid.backward.gradients(loss, x)
    values = np.random.default_rng(9).normal(size=(len(rows), WIDTH))

    def cost(values):
        put("x", rows, values)
        return exe.run(fetch_list=[loss])[0].item()

    put("x", rows, values)
    got, = exe.run(fetch_list=[grad])
    assert got.shape == (HEIGHT, WIDTH)
    for i, row in enumerate(rows):
        for j in range(WIDTH):
            step = np.zeros_like(values)
            step[i, j] = 1e-5
            assert got[row, j] == pytest.approx((cost(values + step) - cost(values - step)) / 2e-5, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("type", OPERATORS)
def test_the_gradient_of_rows_is_rows(type, exe):
    """Gradients of parts that are selected rows are put together with the numbers that they have in the whole."""
    x = rows_var("x")
    parts = shared_out(type, x)
    given = [rows_var(f"given{k}", height_of(type, k)) for k in (0, 2)]
    grad, = fluid.backward.gradients([parts[0], parts[2]], x, target_gradients=given)
    put("x", [7, 0, 3], np.ones((3, WIDTH)))
    put("given0", [2, 0], [[1, 2], [3, 4]], height_of(type, 0))
    put("given2", [0], [[5, 6]], height_of(type, 2))
    got, = exe.run(fetch_list=[grad], return_numpy=False)
    assert isinstance(got, SelectedRows) and got.height() == HEIGHT
    if type == "split_ids":                                 # row 2 belongs to part 2, row 0 to part 0: the others have no gradient
        assert got.rows() == [0]
        np.testing.assert_array_equal(np.array(got.get_tensor()), [[3, 4]])
    else:
        assert got.rows() == [2, 0, 8]
        np.testing.assert_array_equal(np.array(got.get_tensor()), [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize("type", OPERATORS)
def test_rows_and_dense_gradients_add_up(type, exe):
    x = rows_var("x")
    parts = shared_out(type, x)
    dense = layers.data("dense", [height_of(type, 0), WIDTH], append_batch_size=False, dtype="float64")
    given = rows_var("given", height_of(type, 1))
    grad, = fluid.backward.gradients([parts[0], parts[1]], x, target_gradients=[dense, given])
    put("x", [7, 0, 3], np.ones((3, WIDTH)))
    put("given", [1, 4, 1], [[1, 1], [2, 2], [4, 4]], height_of(type, 1))
    fed = np.arange(1.0, 1 + height_of(type, 0) * WIDTH).reshape(-1, WIDTH)
    got, = exe.run(feed={"dense": fed}, fetch_list=[grad])
    want = np.zeros((HEIGHT, WIDTH))
    if type == "split_ids":
        want[::3] = fed[::3]
        want[1], want[4] = 5, 2
    else:
        want[:3] = fed
        want[4], want[7] = 5, 2
    np.testing.assert_array_equal(got, want)


def test_numbers_have_no_gradient():
    ids, w = layers.data("ids", [1], dtype="int64"), layers.create_parameter([HEIGHT, WIDTH], "float32", name="w")
    block = fluid.default_main_program().global_block()
    part = block.create_var(name="part", dtype="int64")
    block.append_op(type="split_ids", inputs={"Ids": ids}, outputs={"Out": [part]})
    out = block.create_var(name="out", dtype="float32")
    block.append_op(type="lookup_table", inputs={"W": w, "Ids": part}, outputs={"Out": out})
    fluid.backward.append_backward(layers.mean(out))
    assert "split_ids_grad" not in [op.type for op in block.ops]


@pytest.mark.parametrize("type", OPERATORS)
def test_a_saved_program_computes_the_same_gradient(type, exe, tmp_path):
    x = rows_var("x")
    loss = loss_of(type, shared_out(type, x), (0, 1, 2))
    grad, = fluid.backward.gradients(loss, x)
    put("x", [7, 0, 3, 8], np.arange(8.0))
    want, = exe.run(fetch_list=[grad])
    fluid.io.save_program(fluid.default_main_program(), str(tmp_path / "program"))
    loaded = fluid.io.load_program(str(tmp_path / "program"))
    np.testing.assert_array_equal(exe.run(loaded, fetch_list=[grad.name])[0], want)
    assert want.any()


def test_rows_train_by_their_gradient(exe):
    """Rows of a held table are looked up in its sections; steps against the gradient bring them to 1."""
    x = rows_var("x", dtype="float32")
    parts = shared_out("split_selected_rows", x)
    terms = []
    for k, ids in enumerate(([[0], [2]], [[0], [4]])):
        taken = layers.create_tensor("float32")
        fluid.default_main_program().global_block().append_op(
            type="lookup_sparse_table", outputs={"Out": taken},
            inputs={"W": parts[k], "Ids": layers.cast(layers.assign(np.array(ids, "int32")), "int64")})
        terms.append(layers.reduce_sum(layers.square(taken - layers.ones_like(taken))))
    loss = layers.sum(terms)
    grad, = fluid.backward.gradients(loss, x)
    values = np.array([[0.0, 3.0], [2.0, -1.0], [4.0, 0.5], [9.0, 9.0]])
    rows, costs = [0, 2, 3, 7], []
    for _ in range(20):
        put("x", rows, values, dtype="float32")
        cost, slope = exe.run(fetch_list=[loss, grad], return_numpy=False)
        costs.append(np.array(cost).item())
        values -= 0.25 * dense_of(slope)[rows]
    assert costs[-1] < 1e-6 < costs[0]
    np.testing.assert_allclose(values, np.ones((4, WIDTH)), atol=1e-3)


def test_a_row_that_a_part_does_not_have_is_refused(exe):
    x = rows_var("x")
    part, given = shared_out("split_selected_rows", x)[2], rows_var("given", HEIGHT)
    grad, = fluid.backward.gradients(part, x, target_gradients=given)
    put("x", [8], [[1, 1]])
    put("given", [0, 1], [[1, 1], [2, 2]])
    with pytest.raises(TriremeError, match="'given' has row 1, but the part whose gradient it is has 1 rows"):
        exe.run(fetch_list=[grad])


@pytest.mark.parametrize("type", OPERATORS)
def test_a_parameter_is_trained_through_its_rows(type, exe):
    w = layers.create_parameter([HEIGHT, WIDTH], "float64", name="w", default_initializer=fluid.initializer.Constant(2.0))
    rows = fluid.operator.nonzero_rows(w)
    loss = loss_of(type, shared_out(type, rows), (0, 1, 2))
    fluid.optimizer.SGD(0.2).minimize(loss)
    exe.run(fluid.default_startup_program())
    costs = [exe.run(fetch_list=[loss])[0].item() for _ in range(30)]
    assert costs[-1] < 1e-3 * costs[0] and abs(fluid.fetch_var("w")).max() < 0.1


def test_mistakes_are_explained(exe):
    x = rows_var("x")
    for type in OPERATORS:
        with fluid.program_guard(fluid.Program()), pytest.raises(TriremeError,
                                                                 match=rf"{type}_grad: input Out@GRAD has no gradient of any part"):
            fluid.default_main_program().global_block().append_op(
                type=f"{type}_grad", inputs={"Out@GRAD": ["@EMPTY@"] * 3}, outputs={f"{OPERATORS[type][0]}@GRAD": ["g"]},
                attrs=OPERATORS[type][2])
    parts = shared_out("split_selected_rows", x)
    high = layers.data("high", [HEIGHT, WIDTH], append_batch_size=False, dtype="float64")
    with pytest.raises(TriremeError, match=r"split_selected_rows_grad: Out@GRAD\[0\] must be \[3, 2\], got \[9, 2\]"):
        fluid.backward.gradients(parts[0], x, target_gradients=high)
    first, = fluid.backward.gradients(loss_of("split_selected_rows", parts, (0,)), x)
    with pytest.raises(fluid.core.UnsupportedError, match="gradients of gradients: operator 'split_selected_rows_grad' has no gradient"):
        fluid.backward.gradients(layers.reduce_sum(layers.square(first)), x)
    for sections, text in (([3, 0, 6], r"height_sections\[1\] is 0"), ([2**62, 2**62, 2**62], "add up to more than 2\\^63 rows")):
        with pytest.raises(TriremeError, match=text):
            fluid.default_main_program().global_block().append_op(type="split_selected_rows", inputs={"X": x},
                                                                  outputs={"Out": ["a", "b", "c"]}, attrs={"height_sections": sections})
