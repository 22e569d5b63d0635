"""Training programs as Fluid's own backward pass writes them: their gradient operators have other inputs than ours, fewer or more."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.errors import InvalidArgumentError

RANDOM = np.random.RandomState(4)


def dense():
    x, y = layers.data("x", [6]), layers.data("y", [1])
    hidden = layers.fc(layers.fc(x, 5, act="tanh"), 4, act="sigmoid")
    loss = layers.mean(layers.square_error_cost(layers.fc([hidden, x], 1), y))
    return loss, {"x": RANDOM.rand(8, 6).astype("float32"), "y": RANDOM.rand(8, 1).astype("float32")}


def images():
    x, label = layers.data("x", [2, 6, 6]), layers.data("label", [1], dtype="int64")
    hidden = layers.batch_norm(layers.conv2d(x, 4, 3, padding=1, act=None), act="relu")
    hidden = layers.pool2d(layers.elementwise_add(hidden, layers.conv2d(x, 4, 1)), 2, "max", 2)
    loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, 3), label))
    return loss, {"x": RANDOM.rand(4, 2, 6, 6).astype("float32"), "label": np.array([[0], [2], [1], [1]])}


def sequences():
    words, label = layers.data("words", [1], dtype="int64", lod_level=1), layers.data("label", [1], dtype="int64")
    hidden, _ = layers.dynamic_lstm(layers.fc(layers.embedding(words, [20, 8]), 16), 16)
    pooled = layers.concat([layers.sequence_pool(hidden, "max"), layers.sequence_last_step(hidden)], axis=1)
    loss = layers.mean(layers.cross_entropy(layers.fc(pooled, 2, act="softmax"), label))
    fed = fluid.create_lod_tensor(RANDOM.randint(0, 20, (7, 1)).astype("int64"), [[3, 4]], fluid.CPUPlace())
    return loss, {"words": fed, "label": np.array([[0], [1]])}


def steps():
    x, rnn = layers.data("x", [3, 2, 4], append_batch_size=False), layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 4], batch_ref=row, ref_batch_dim_idx=1)
        after = layers.fc([row, before], 4, act="tanh")
        rnn.update_memory(before, after)
        rnn.step_output(after)
    return layers.mean(layers.square(rnn())), {"x": RANDOM.rand(3, 2, 4).astype("float32")}


NETS = [dense, images, sequences, steps]


def gradient_operators(program):
    """Yield (block, desc) of the gradient operators whose inputs come from their forward operators."""
    for index in range(program.num_blocks):
        block = program.desc.block(index)
        for op in (block.op(i) for i in range(block.op_size())):
            if op.type().endswith("_grad") and op.type() not in ("recurrent_grad", "while_grad"):
                yield block, op


def without_forward_inputs(program):
    """The program with gradient operators that read the gradients of outputs alone; how many have lost something."""
    changed = program.clone()
    count = 0
    for _, op in gradient_operators(changed):
        for slot in [slot for slot in op.input_names() if not slot.endswith("@GRAD") and op.input(slot)]:
            op.set_input(slot, [])
            count += 1
    return changed, count


@pytest.mark.parametrize("net", NETS)
def test_a_gradient_operator_gets_missing_inputs_from_its_forward_operator(net, exe, tmp_path):
    loss, feed = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    start, program = fluid.default_startup_program(), fluid.default_main_program()
    start.random_seed = 3
    changed, count = without_forward_inputs(program)
    assert count > 5
    fluid.io.save_program(changed, str(tmp_path / "program"))
    costs = []
    for one in (program, changed, fluid.io.load_program(str(tmp_path / "program"))):
        exe.run(start)
        costs.append([exe.run(one, feed=feed, fetch_list=[loss.name])[0].item() for _ in range(4)])
    assert costs[1] == costs[0] and costs[2] == costs[0] and costs[0][3] < costs[0][0]


def test_the_bias_of_a_layer_of_fluid_trains(exe):
    """Fluid's gradient of elementwise_add reads Y and the gradient of Out; that of elementwise_mul reads Out, too."""
    loss, feed = dense()
    fluid.optimizer.SGD(0.1).minimize(loss)
    program = fluid.default_main_program().clone()
    for _, op in gradient_operators(program):
        if op.type() in ("elementwise_add_grad", "elementwise_sub_grad"):
            op.set_input("X", [])
        elif op.type() == "square_grad":
            op.set_input("Out", [op.input("Out@GRAD")[0].removesuffix("@GRAD")])
    exe.run(fluid.default_startup_program())
    costs = [exe.run(program, feed=feed, fetch_list=[loss.name])[0].item() for _ in range(5)]
    assert costs[4] < costs[0]


def square_of(x, overwrite):
    """A program with the gradient of x * x, whose operator lacks X and Y; x is written once more before it, perhaps."""
    out = layers.elementwise_mul(x, x)
    if overwrite:
        layers.assign(layers.fill_constant([2], "float32", 9.0), x)
    block = fluid.default_main_program().global_block()
    grad, dout = block.create_var(name="g", dtype="float32", shape=[2]), block.create_var(name=f"{out.name}@GRAD", dtype="float32",
                                                                                          shape=[2])
    layers.fill_constant([2], "float32", 1.0, out=dout)
    op = block.append_op(type="elementwise_mul_grad", inputs={"X": x, "Y": x, "Out@GRAD": dout}, outputs={"X@GRAD": grad})
    for slot in ("X", "Y"):
        op.desc.set_input(slot, [])
    return out, grad


def test_a_value_that_was_overwritten_is_not_taken(exe):
    x = layers.scale(layers.data("x", [2], append_batch_size=False), 1.0)
    _, grad = square_of(x, overwrite=False)
    np.testing.assert_array_equal(exe.run(feed={"x": np.array([3.0, 4.0], "float32")}, fetch_list=[grad])[0], [3, 4])
    with fluid.program_guard(fluid.Program()):
        x = layers.scale(layers.data("x", [2], append_batch_size=False), 1.0)
        _, grad = square_of(x, overwrite=True)
        with pytest.raises(InvalidArgumentError, match="elementwise_mul_grad: input X is missing"):
            exe.run(feed={"x": np.array([3.0, 4.0], "float32")}, fetch_list=[grad])


def test_without_its_forward_operator_it_is_refused(exe):
    block = fluid.default_main_program().global_block()
    x, dout = layers.data("x", [2], append_batch_size=False), layers.fill_constant([2], "float32", 1.0)
    grad = block.create_var(name="g", dtype="float32", shape=[2])
    op = block.append_op(type="square_grad", inputs={"X": x, "Out@GRAD": dout}, outputs={"X@GRAD": grad})
    op.desc.set_input("X", [])
    with pytest.raises(InvalidArgumentError, match="square_grad: input X is missing"):
        exe.run(feed={"x": np.array([3.0, 4.0], "float32")}, fetch_list=[grad])


# -- inputs that are not read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("type, build", [("scale", lambda x: layers.scale(x, 2.0)),
                                         ("label_smooth", lambda x: layers.label_smooth(x, epsilon=0.1))])
def test_an_input_of_a_later_version_is_refused(type, build, exe):
    """An operator with kernels, and one that is made of others: a ScaleTensor would give another result."""
    x = layers.data("x", [3])
    out, other = build(x), layers.fill_constant([1], "float32", 5.0)
    op = next(op for op in fluid.default_main_program().global_block().ops if op.type == type)
    op.desc.set_input("ScaleTensor", ["@EMPTY@"])
    exe.run(feed={"x": np.ones((1, 3), "float32")}, fetch_list=[out])
    op.desc.set_input("ScaleTensor", [other.name])
    with pytest.raises(fluid.core.UnsupportedError, match=f"{type}: there is no input named ScaleTensor, which the program gives "
                                                          f"'{other.name}'"):
        exe.run(feed={"x": np.ones((1, 3), "float32")}, fetch_list=[out])


@pytest.mark.parametrize("made_by, is_refused", [("fill_zeros_like", False), ("assign", True)])
def test_a_gradient_of_one_more_output_must_be_zero(made_by, is_refused, exe):
    loss, feed = images()
    fluid.backward.append_backward(loss)
    block = fluid.default_main_program().global_block()
    index, op = next((i, op) for i, op in enumerate(block.ops) if op.type == "softmax_with_cross_entropy_grad")
    softmax = op.input("Softmax")[0]
    block._insert_op(index, type=made_by, inputs={"X": [softmax]},
                     outputs={"Out": [block.create_var(name=f"{softmax}@GRAD", dtype="float32")]})
    op = next(op for op in block.ops if op.type == "softmax_with_cross_entropy_grad")
    op.desc.set_input("Softmax@GRAD", [f"{softmax}@GRAD"])
    exe.run(fluid.default_startup_program())
    grads = [param.name + "@GRAD" for param in fluid.default_main_program().all_parameters() if param.trainable]
    if is_refused:
        with pytest.raises(fluid.core.UnsupportedError, match="softmax_with_cross_entropy_grad: there is no input named Softmax@GRAD"):
            exe.run(feed=feed, fetch_list=grads)
    else:
        assert all(np.isfinite(value).all() for value in exe.run(feed=feed, fetch_list=grads))


def test_the_gradient_of_a_loop_of_fluid_is_refused(exe):
    """It works on arrays of gradients, which are Out@GRAD; ours has none of these."""
    x, i = layers.data("x", [2], append_batch_size=False), layers.fill_constant([1], "int64", 0)
    x.stop_gradient = False
    total, n = layers.scale(x, 1.0), layers.fill_constant([1], "int64", 2)
    cond = layers.less_than(i, n)
    loop = layers.While(cond)
    with loop.block():
        layers.assign(layers.elementwise_mul(total, x), total)
        layers.increment(i)
        layers.less_than(i, n, cond=cond)
    grad, = fluid.backward.gradients(layers.reduce_sum(total), x)
    feed = {"x": np.array([1.0, 2.0], "float32")}
    np.testing.assert_allclose(exe.run(feed=feed, fetch_list=[grad])[0], [3, 12])
    op = next(op for op in fluid.default_main_program().global_block().ops if op.type == "while_grad")
    op.desc.set_input("Out@GRAD", [f"{total.name}@GRAD"])
    with pytest.raises(fluid.core.UnsupportedError, match="while_grad: there is no input named Out@GRAD"):
        exe.run(feed=feed, fetch_list=[grad])
