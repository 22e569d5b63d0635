"""Batches without samples: an empty slice of a job, a pass over nothing, branches that no row takes. Statistics stay, gradients are 0, no
rows give no rows."""

import numpy as np
import pytest
from job_support import SCRIPT, launch, needs_mpi, own_of

import trireme as fluid
from trireme.errors import NotFiniteError, NotFoundError

L = fluid.layers
IMAGE, VECTOR = [3, 8, 8], [6]


def labels():
    return L.data("y", [1], dtype="int64")


def if_else(x):
    choose = L.IfElse(L.less_than(L.reduce_sum(x, dim=1, keep_dim=True), L.fill_constant_batch_size_like(x, [-1, 1], "float32", 0.0)))
    with choose.true_block():
        choose.output(L.fc(choose.input(x), 2))
    with choose.false_block():
        choose.output(L.fc(choose.input(x), 2))
    return choose()[0]


def static_rnn(x):
    steps, rnn = L.transpose(x, [1, 0, 2]), L.StaticRNN()
    with rnn.step():
        word = rnn.step_input(steps)
        memory = rnn.memory(shape=[-1, 3], batch_ref=word)
        hidden = L.fc([word, memory], 3, act="tanh")
        rnn.update_memory(memory, hidden)
        rnn.step_output(hidden)
    return rnn()


def dynamic_rnn(x):
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        memory = rnn.memory(shape=[3], value=0.0)
        hidden = L.fc([word, memory], 3, act="tanh")
        rnn.update_memory(memory, hidden)
        rnn.output(hidden)
    return L.sequence_pool(rnn(), "sum")


NETS = {
    "fc": (VECTOR, lambda x: L.fc(x, 2)),
    "conv, batch_norm": (IMAGE, lambda x: L.fc(L.batch_norm(L.conv2d(x, 4, 3)), 2)),
    "batch_norm of rows": (VECTOR, lambda x: L.fc(L.batch_norm(x), 2)),
    "batch_norm, channels last": ([8, 8, 3], lambda x: L.fc(L.batch_norm(x, data_layout="NHWC"), 2)),
    "data_norm": (VECTOR, lambda x: L.fc(L.data_norm(x), 2)),
    "layer_norm": (VECTOR, lambda x: L.fc(L.layer_norm(x), 2)),
    "group_norm": (IMAGE, lambda x: L.fc(L.group_norm(x, 3), 2)),
    "spectral_norm": (VECTOR, lambda x: L.matmul(x, L.spectral_norm(L.create_parameter([6, 2], "float32"), power_iters=1))),
    "pool, lrn, prelu": (IMAGE, lambda x: L.fc(L.prelu(L.lrn(L.pool2d(x, 2, "max", 2)), "channel"), 2)),
    "embedding": (VECTOR, lambda x: L.embedding(labels(), [10, 3])),
    "sparse embedding": (VECTOR, lambda x: L.embedding(labels(), [10, 3], is_sparse=True)),
    "a table": (VECTOR, lambda x: L.fc(L.embedding(labels(), [10, 3], is_distributed=True), 2)),
    "nce": (VECTOR, lambda x: L.nce(L.fc(x, 4), labels(), 20, num_neg_samples=3)),
    "hsigmoid": (VECTOR, lambda x: L.hsigmoid(L.fc(x, 4), labels(), 10)),
    "softmax, cross entropy": (VECTOR, lambda x: L.cross_entropy(L.fc(x, 4, act="softmax"), labels())),
    "IfElse": (VECTOR, if_else),
    "StaticRNN": ([5, 6], static_rnn),
    "attention": (VECTOR, lambda x: fluid.nets.scaled_dot_product_attention(*[L.reshape(L.fc(x, 8), [-1, 2, 4]) for _ in range(3)],
                                                                            num_heads=2)),
    "means over the batch": (VECTOR, lambda x: L.fc(L.elementwise_sub(L.fc(x, 3), L.reduce_mean(L.fc(x, 3), dim=0)), 2)),
}
SEQUENCES = {
    "lstm": lambda x: L.sequence_pool(L.dynamic_lstm(L.fc(x, 12), 12)[0], "max"),
    "gru": lambda x: L.sequence_pool(L.dynamic_gru(L.fc(x, 9), 3), "last"),
    "sequence_conv, softmax": lambda x: L.sequence_pool(L.sequence_conv(x, 3), "average"),
    "DynamicRNN": dynamic_rnn,
    "padding": lambda x: L.reduce_sum(L.sequence_pad(L.fc(x, 2), L.fill_constant([1], "float32", 0.0))[0], dim=[1]),
}


def state(program):
    found = {}
    for var in program.list_vars():
        value = fluid.global_scope().find_var(var.name) if var.persistable else None
        if value is not None and value.kind() == fluid.core.VarDesc.VarType.LOD_TENSOR and value.get_tensor()._is_initialized():
            found[var.name] = np.array(value.get_tensor())
    return found


def train_without_samples(out, usual, none):
    """A step with samples, one without, one with: the second changes nothing."""
    fluid.optimizer.SGD(0.1).minimize(L.mean(out))
    exe, program = fluid.Executor(), fluid.default_main_program()
    exe.run(fluid.default_startup_program())
    feeds = [{name: value for name, value in feed.items() if program.global_block().has_var(name)} for feed in (usual, none)]
    exe.run(feed=feeds[0])
    before = state(program)
    value, = exe.run(feed=feeds[1], fetch_list=[out], return_numpy=False)
    after = state(program)
    assert before.keys() == after.keys() and len(before) >= 1
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)
    assert np.isfinite(exe.run(feed=feeds[0], fetch_list=[out], return_numpy=False)[0].numpy()).all()
    return value


@pytest.mark.parametrize("name", NETS)
def test_a_step_without_samples_changes_nothing(name):
    shape, net = NETS[name]
    x = L.data("x", shape)
    value = train_without_samples(net(x), *[{"x": np.ones([n, *shape], "float32"), "y": np.ones((n, 1), "int64")} for n in (2, 0)])
    assert value.shape()[0] == (5 if name == "StaticRNN" else 0)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]], ids=["no sequences", "an empty one", "empty ones"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_step_without_sequences_changes_nothing(name, lengths):
    x = L.data("x", [6], lod_level=1)
    fluid.default_startup_program().random_seed = 1
    usual, none = [fluid.create_lod_tensor(np.ones((sum(some), 6), "float32"), [some]) for some in ([2, 3], lengths)]
    value = train_without_samples(L.fc(SEQUENCES[name](x), 2, bias_attr=False), {"x": usual}, {"x": none})
    assert value.shape() == [len(lengths), 2]


# -- branches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[0], [2, 0], [-2, 0], [3, -3, 0, 4], [0, -1, 0]])
def test_branches_that_no_row_takes_give_no_rows(rows):
    """As many rows of 1 or -1; each run has its own values."""
    x = L.data("x", [2])
    choose = L.IfElse(L.less_than(L.reduce_sum(x, dim=1, keep_dim=True), L.fill_constant_batch_size_like(x, [-1, 1], "float32", 0.0)))
    with choose.true_block():
        choose.output(choose.input(x) * 2.0)
    with choose.false_block():
        choose.output(choose.input(x) * 3.0)
    out, exe = choose()[0], fluid.Executor()
    for count in rows:
        value = np.full((abs(count), 2), np.sign(count), "float32")
        np.testing.assert_array_equal(exe.run(feed={"x": value}, fetch_list=[out])[0], value * (2 if count < 0 else 3))


@pytest.mark.parametrize("block", ["Switch", "ConditionalBlock", "While"])
def test_a_block_that_does_not_run_leaves_no_value_of_another_run(block):
    """Not that of the run before: as in a first run, there is none."""
    go, program = L.data("go", [1], dtype="bool", append_batch_size=False), fluid.default_main_program()
    out = program.global_block().create_var(name="out", shape=[1], dtype="float32")
    if block == "While":
        loop = L.While(go)
        with loop.block():
            L.fill_constant([1], "float32", 5.0, out=out)
            L.assign(L.fill_constant([1], "bool", False), go)
    else:
        with (L.Switch() if block == "Switch" else fluid.layers.control_flow.ConditionalBlock([go],
                                                                                              is_scalar_condition=True).block()) as switch:
            if block == "Switch":
                with switch.case(go):
                    L.fill_constant([1], "float32", 5.0, out=out)
            else:
                L.fill_constant([1], "float32", 5.0, out=out)
    doubled, exe = L.scale(out, 2.0), fluid.Executor()
    for wanted in (True, False, True, False):
        feed = {"go": np.array([wanted])}
        if wanted:
            assert exe.run(feed=feed, fetch_list=[doubled])[0] == 10
        else:
            with pytest.raises(NotFoundError, match="'out' has no value: the block that writes it did not run"):
                exe.run(feed=feed, fetch_list=[doubled])


# -- the search for NaN -------------------------------------------------------------------------------------------------


def test_the_loss_of_no_samples_is_not_looked_at():
    x = L.data("x", [2])
    loss, exe = L.mean(L.log(x)), fluid.Executor(check_nan=True)
    assert np.isnan(exe.run(feed={"x": np.ones((0, 2), "float32")}, fetch_list=[loss])[0]).all()
    with pytest.raises(NotFiniteError, match="log"):
        exe.run(feed={"x": -np.ones((1, 2), "float32")}, fetch_list=[loss])


@needs_mpi
@pytest.mark.mpi
def test_a_job_trains_on_where_a_slice_is_empty(tmp_path):
    """Statistics stay finite, IfElse gives no rows, the table that is fed stays, and --check-nan finds nothing."""
    script = SCRIPT.with_name("empty.py")
    text = launch(1, 2, "--out", tmp_path / "job", script=script, options=("--check-nan",))
    assert "a slice of 0" in text, text
    found = own_of(tmp_path / "job", 2)
    assert len(found) > 20 and all(np.isfinite(value).all() for value in found.values())
    for trainer in range(2):
        np.testing.assert_array_equal(found[trainer, "positions"], np.arange(1, 7))
