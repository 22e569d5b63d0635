"""What the transpiler makes of a program, run without MPI: trainers and servers by turns in one process."""

import numpy as np
import pytest

import trireme as fluid
from trireme.core import OpRole
from trireme.distributed.transpiler import transpile
from trireme.distributed.fluid_transpiler import DistributeTranspiler

ROWS, WIDTH, CLASSES, TABLE = 12, 6, 5, 40


def build(optimizer, *, is_sparse=False):
    """A net with an embedding, two layers and a schedule's worth of parameters; returns its loss."""
    fluid.default_startup_program().random_seed = 7
    ids = fluid.layers.data("ids", [1], dtype="int64")
    x = fluid.layers.data("x", [WIDTH])
    label = fluid.layers.data("label", [1], dtype="int64")
    word = fluid.layers.embedding(ids, [TABLE, WIDTH], is_sparse=is_sparse)
    hidden = fluid.layers.fc([x, word], 9, act="tanh")
    predict = fluid.layers.fc(hidden, CLASSES, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    optimizer().minimize(loss)
    return loss


def batches(count):
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield {"ids": rng.integers(0, TABLE, (ROWS, 1)), "x": rng.normal(size=(ROWS, WIDTH)).astype("float32"),
               "label": rng.integers(0, CLASSES, (ROWS, 1))}


def value(scope, name):
    return np.array(scope.find_var(name).get_tensor())


def train_alone(loss, steps):
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for feed in batches(steps)]
    return losses, {p.name: value(fluid.global_scope(), p.name) for p in fluid.default_main_program().all_parameters()}


class Cluster:
    """The servers, and trainers that share one scope: each step's gradients are carried over by hand."""

    def __init__(self, servers, min_block=16):
        config = fluid.DistributeTranspilerConfig()
        config.min_block_size = min_block
        self.transpiler = DistributeTranspiler(config)
        self.names = [f"s{i}" for i in range(servers)]
        self.transpiler.transpile(0, pservers=",".join(self.names))
        self.result = self.transpiler._result
        self.exe = fluid.Executor()
        self.scopes = []
        for name in self.names:
            scope = fluid.Scope()
            self.exe.run(self.transpiler.get_startup_program(name), scope=scope)
            self.scopes.append(scope)
        self.exe.run(fluid.default_startup_program())
        self.local = self.result.trainer.clone()
        block = self.local.global_block()
        for index in reversed(range(len(block.ops))):
            if block.ops[index].attr("op_role") & OpRole.RPC:
                block._remove_op(index)

    def grad_of(self, one):
        sent = {name: op.input("X")[0] for op in self.result.trainer.global_block().ops if op.type == "send"
                for name in op.attr("send_varnames")}
        return sent[one.grad]

    def step(self, shards):
        blocks = self.result.blocks
        names = list(dict.fromkeys(self.grad_of(one) for one in blocks))
        total = dict.fromkeys(names, 0.0)
        size = sum(len(feed["x"]) for feed in shards)
        for feed in shards:
            for name, grad in zip(names, self.exe.run(self.local, feed=feed, fetch_list=names)):
                total[name] = total[name] + grad.astype("float64") * (len(feed["x"]) / size)
        for server, name in enumerate(self.names):
            mine = [one for one in blocks if one.server == server]
            feed = {one.grad: np.float32(total[self.grad_of(one)][one.begin:one.end]) for one in mine}
            self.exe.run(self.transpiler.get_pserver_program(name), feed=feed, scope=self.scopes[server])
        loss = None
        for one in blocks:
            got = value(self.scopes[one.server], one.param)
            assert got.nbytes == one.bytes
            if one.source in self.result.means:
                loss = got.item()
            else:
                whole = value(fluid.global_scope(), one.source)
                whole[one.begin:one.end] = got
                fluid.global_scope().find_var(one.source).get_tensor().set(whole)
        return loss


def train_together(servers, trainers, steps):
    cluster = Cluster(servers)
    losses = []
    for feed in batches(steps):
        shards = [{name: fluid.distributed.slice_of(array, i, trainers) for name, array in feed.items()}
                  for i in range(trainers)]
        losses.append(cluster.step([shard for shard in shards if len(shard["x"])]))
    return losses, {p.name: value(fluid.global_scope(), p.name) for p in fluid.default_main_program().all_parameters()}


L2 = fluid.regularizer.L2Decay
OPTIMIZERS = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "sgd, rate halved every 3 steps, l2": lambda: fluid.optimizer.SGD(
        fluid.layers.exponential_decay(0.1, 3, 0.5, staircase=True), regularization=L2(0.01)),
    "momentum, piecewise": lambda: fluid.optimizer.Momentum(fluid.layers.piecewise_decay([2, 4], [0.1, 0.05, 0.01]), 0.9),
    "nesterov, l1": lambda: fluid.optimizer.Momentum(0.05, 0.9, use_nesterov=True,
                                                     regularization=fluid.regularizer.L1Decay(0.001)),
    "adam, noam, l2": lambda: fluid.optimizer.Adam(fluid.layers.noam_decay(WIDTH, 3, 0.2), regularization=L2(0.02)),
    "adam, clipped by value": lambda: fluid.optimizer.Adam(0.01, grad_clip=fluid.clip.GradientClipByValue(0.02)),
    "adagrad, clipped by norm": lambda: fluid.optimizer.Adagrad(0.05, grad_clip=fluid.clip.GradientClipByNorm(0.1)),
    "adamax": lambda: fluid.optimizer.Adamax(0.02),
    "adadelta": lambda: fluid.optimizer.Adadelta(1.0),
    "decayed adagrad": lambda: fluid.optimizer.DecayedAdagrad(0.05),
    "rmsprop, centered": lambda: fluid.optimizer.RMSProp(0.01, momentum=0.5, centered=True),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.1, l1=0.001, l2=0.001),
}


POINTWISE = {"sgd", "momentum", "adam", "adamax", "adagrad", "decayed_adagrad", "adadelta", "rmsprop", "ftrl"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_servers_update_bit_by_bit_like_one_process(name):
    loss = build(OPTIMIZERS[name])
    losses, alone = train_alone(loss, 6)
    for servers in (1, 2, 3):
        with fluid.scope_guard(fluid.Scope()):
            got, params = train_together(servers, 1, 6)
        assert got == losses
        for param, array in alone.items():
            np.testing.assert_array_equal(params[param], array, err_msg=f"{param}, {servers} servers")


@pytest.mark.parametrize("trainers", [2, 3, 5])
def test_trainers_follow_the_whole_batch(trainers):
    loss = build(OPTIMIZERS["adam, noam, l2"])
    losses, alone = train_alone(loss, 6)
    with fluid.scope_guard(fluid.Scope()):
        got, params = train_together(2, trainers, 6)
    np.testing.assert_allclose(got, losses, rtol=1e-6)
    for param, array in alone.items():
        np.testing.assert_allclose(params[param], array, rtol=1e-5, atol=1e-6, err_msg=param)


def test_sparse_gradients_travel_dense():
    loss = build(OPTIMIZERS["momentum, piecewise"], is_sparse=True)
    losses, alone = train_alone(loss, 5)
    with fluid.scope_guard(fluid.Scope()):
        got, params = train_together(2, 1, 5)
    np.testing.assert_allclose(got, losses, rtol=1e-6)
    for param, array in alone.items():
        np.testing.assert_allclose(params[param], array, rtol=1e-5, atol=1e-7, err_msg=param)


def test_a_gradient_leaves_as_soon_as_it_exists():
    build(OPTIMIZERS["sgd"])
    ops = transpile(fluid.default_main_program(), 2).trainer.global_block().ops
    for i, op in enumerate(ops):
        if op.type == "send":
            assert op.input("X")[0] in ops[i - 1].output_arg_names
            assert not any(op.input("X")[0] in later.output_arg_names for later in ops[i:])
    kinds = [op.type for op in ops]
    last = len(kinds) - kinds[::-1].index("send")
    assert set(kinds[last:]) == {"send_barrier", "recv", "fetch_barrier"}
    barrier = next(op for op in ops if op.type == "send_barrier")
    assert sorted(barrier.input("X")) == sorted(op.input("X")[0] for op in ops if op.type == "send")


def readers(ops, name):
    """Where a parameter is read, by the blocks inside an operator as well."""
    def reads(op):
        inside = [one for block in op.block.program._sub_blocks(op) for one in block.ops]
        return name in op.input_arg_names or any(reads(one) for one in inside)

    return [i for i, op in enumerate(ops) if op.type != "recv_wait" and reads(op)]


def check_waits(program):
    """Each parameter is waited for right before its first reader, and asked for in that order."""
    program = transpile(program, 2).trainer
    ops = program.global_block().ops
    waited = [name for op in ops if op.type == "recv_wait" for name in op.input("X")]
    for i, op in enumerate(ops):
        for name in op.input("X") if op.type == "recv_wait" else ():
            assert readers(ops, name)[0] == i + 1
    received = [op.output("Out")[0] for op in ops if op.type == "recv"]
    assert received[0].endswith("@MEAN") and received[1:] == waited
    assert sorted(waited) == sorted(param.name for param in program.all_parameters())
    return ops


def test_a_parameter_is_waited_for_before_its_first_reader():
    build(OPTIMIZERS["sgd"])
    ops = check_waits(fluid.default_main_program())
    program = ops[0].block.program
    for op in ops:
        if op.type == "send" and op.attr("zero_copy"):
            assert program.global_block().var(op.input("X")[0]).persistable, "it may be sent again in the next step"


def test_a_parameter_of_a_block_inside_is_waited_for_outside():
    x = fluid.layers.data("x", [4], lod_level=1)
    rnn = fluid.layers.DynamicRNN()
    with rnn.block():
        word, memory = rnn.step_input(x), rnn.memory(shape=[8], value=0.0)
        hidden = fluid.layers.fc([word, memory], 8, act="tanh")
        rnn.update_memory(memory, hidden)
        rnn.output(hidden)
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.sequence_last_step(rnn()), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    ops = check_waits(fluid.default_main_program())
    copied = [op.input("X")[0] for op in ops if op.type == "send" and not op.attr("zero_copy")]
    assert {"fc_0.w_0@GRAD", "fc_0.w_1@GRAD", "fc_0.b_0@GRAD"} <= set(copied)        # a block inside adds up there


def test_schedules_run_on_both_sides_and_updates_on_the_servers_alone():
    build(OPTIMIZERS["sgd, rate halved every 3 steps, l2"])
    result = transpile(fluid.default_main_program(), 2)
    here = [op.type for op in result.trainer.global_block().ops]
    assert "increment" in here and "sgd" not in here
    for server in result.servers:
        there = [op.type for op in server.global_block().ops]
        assert there.count("increment") == 1 and "sgd" in there and "mul" not in there


def test_the_programs_are_the_same_on_every_trainer():
    build(OPTIMIZERS["adam, noam, l2"])
    program = fluid.default_main_program()
    a, b = transpile(program, 3, trainer=0), transpile(program, 3, trainer=1)
    assert [s.serialize_to_string() for s in a.servers] == [s.serialize_to_string() for s in b.servers]
    assert a.blocks == b.blocks and a.values == b.values
    assert [repr(op) for op in a.trainer.global_block().ops] == [repr(op) for op in b.trainer.global_block().ops]


def test_clipping_by_norm_keeps_a_parameter_whole():
    build(OPTIMIZERS["adagrad, clipped by norm"])
    result = transpile(fluid.default_main_program(), 3, min_block_bytes=4)
    assert all(one.param == one.source for one in result.blocks if one.source not in result.means)


@pytest.mark.parametrize("update", ["proximal_gd", "proximal_adagrad"])
def test_any_optimizer_that_works_point_by_point_is_cut(update):
    x = fluid.layers.data("x", [6])
    pairs = fluid.backward.append_backward(fluid.layers.mean(fluid.layers.fc(x, 8)))
    program = fluid.default_main_program()
    block = program.global_block()
    rate = block.create_var(name="rate", shape=[1], dtype="float32", persistable=True)
    for param, grad in pairs:
        inputs, outputs = {"Param": param, "Grad": grad, "LearningRate": rate}, {"ParamOut": param}
        if update == "proximal_adagrad":
            moment = block.create_var(name=param.name + ".moment", shape=param.shape, dtype="float32", persistable=True)
            inputs["Moment"] = outputs["MomentOut"] = moment
        block.append_op(type=update, inputs=inputs, outputs=outputs,
                        attrs={"op_role": OpRole.Optimize, "op_role_var": [param.name, grad.name]})
    result = transpile(program, 3, min_block_bytes=4)
    assert any(one.param != one.source for one in result.blocks if one.source not in result.means)


def marks(program, servers=1):
    """The operators of the servers' programs with the blocks that they are marked to work on point by point."""
    result = transpile(program, servers, min_block_bytes=4)
    return [(op.type, op.attr("op_pointwise_on") if op.has_attr("op_pointwise_on") else None)
            for server in result.servers for op in server.global_block().ops], {one.param
                                                                                for one in result.blocks} - set(result.means.values())


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if "norm" not in name])
def test_operators_that_may_run_on_pieces_of_a_block_say_so(name):
    build(OPTIMIZERS[name])
    found, blocks = marks(fluid.default_main_program(), 3)
    updates = [on for type, on in found if type in POINTWISE]
    assert len(updates) == len(blocks) and set(updates) == blocks
    assert any(on is None for _, on in found), "the loss, learning rates and powers are numbers"


@pytest.mark.parametrize("optimizer", [OPTIMIZERS["adagrad, clipped by norm"],
                                       lambda: fluid.optimizer.SGD(0.5, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1)),
                                       lambda: fluid.optimizer.Lamb(0.01), lambda: fluid.optimizer.LarsMomentum(0.01, 0.9)])
@pytest.mark.parametrize("servers", [1, 2])
def test_operators_that_wait_for_a_whole_gradient_do_not(optimizer, servers):
    build(optimizer)
    assert not [on for _, on in marks(fluid.default_main_program(), servers)[0] if on]


def test_lazy_adam_does_not():
    build(lambda: fluid.optimizer.Adam(0.01, lazy_mode=True), is_sparse=True)
    on = {on for _, on in marks(fluid.default_main_program())[0]}
    assert "embedding_0.w_0" not in on and "fc_0.w_0" in on


def test_parameters_that_share_an_accumulator_stay_whole():
    """A mask belongs to neither parameter, so nobody cuts it."""
    x = fluid.layers.data("x", [WIDTH])
    program = fluid.default_main_program()
    pairs = fluid.backward.append_backward(fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, WIDTH, bias_attr=False), WIDTH,
                                                                             bias_attr=False)))
    mask = program.global_block().create_var(name="mask", shape=[WIDTH, WIDTH], dtype="float32", persistable=True)
    masked = []
    for param, grad in pairs:
        with program._optimized_guard([param, grad]):
            masked.append((param, fluid.layers.elementwise_mul(grad, mask)))
    fluid.optimizer.SGD(0.5).apply_gradients(masked)
    found, blocks = marks(program, 2)
    assert blocks == {param.name for param, _ in pairs} and not [on for _, on in found if on]


def clipped_by_global_norm():
    return fluid.optimizer.SGD(0.5, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1))


def test_the_global_norm_with_one_server():
    loss = build(clipped_by_global_norm)
    losses, alone = train_alone(loss, 4)
    with fluid.scope_guard(fluid.Scope()):
        got, params = train_together(1, 1, 4)
    assert got == losses
    for param, array in alone.items():
        np.testing.assert_array_equal(params[param], array)


def test_several_servers_exchange_the_squares_of_what_they_hold():
    build(clipped_by_global_norm, is_sparse=True)
    result = transpile(fluid.default_main_program(), 3, min_block_bytes=4)
    squared = []
    for index, server in enumerate(result.servers):
        ops = server.global_block().ops
        exchange, = [op for op in ops if op.type == "exchange_squares"]
        assert "sum_of_squares" not in [op.type for op in ops]
        here = {one.grad for one in result.blocks if one.server == index and one.source not in result.means}
        assert len(exchange.input("X")) == len(here)
        assert exchange.attr("dtype") == fluid.core.VarType.FP32
        squared += exchange.input("X")
    assert len(squared) == len(set(squared)) == len(result.blocks) - len(result.means)
    assert any(one.param != one.source for one in result.blocks if one.source not in result.means)      # some were cut


def test_a_server_that_holds_nothing_takes_part_in_the_exchange():
    x = fluid.layers.data("x", [4])
    loss = fluid.layers.mean(fluid.layers.fc(x, 3, bias_attr=False))
    clipped_by_global_norm().minimize(loss)
    result = transpile(fluid.default_main_program(), 2)
    inputs = [op.input("X") for server in result.servers for op in server.global_block().ops if op.type == "exchange_squares"]
    assert sorted(map(len, inputs)) == [0, 1]


def test_other_operators_of_several_parameters_need_one_server():
    x = fluid.layers.data("x", [WIDTH])
    loss = fluid.layers.mean(fluid.layers.fc(x, 3))
    program = fluid.default_main_program()
    pairs = fluid.backward.append_backward(loss)
    with program._optimized_guard([]):
        mean = fluid.layers.sums([fluid.layers.reduce_mean(grad) for _, grad in pairs])
    scaled = []
    for param, grad in pairs:
        with program._optimized_guard([param, grad]):
            scaled.append((param, fluid.layers.elementwise_mul(grad, mean)))
    fluid.optimizer.SGD(0.5).apply_gradients(scaled)
    transpile(program, 1)
    with pytest.raises(fluid.core.UnsupportedError, match=r"sum of the optimizers needs parameters 'fc_0.w_0', 'fc_0.b_0'.* "
                                                          r"2 servers: run with one server; .* only sum_of_squares"):
        transpile(program, 2)


def test_lazy_adam_finds_the_rows_of_a_sparse_gradient_again():
    build(lambda: fluid.optimizer.Adam(0.01, lazy_mode=True), is_sparse=True)
    server, = transpile(fluid.default_main_program(), 1).servers
    made = {name: op for op in server.global_block().ops for name in op.output_arg_names}
    sources = {op.input("Param")[0]: made.get(op.input("Grad")[0]) for op in server.global_block().ops if op.type == "adam"}
    assert sources.pop("embedding_0.w_0").type == "nonzero_rows" and set(sources.values()) == {None}


def test_a_job_without_servers_is_refused():
    build(OPTIMIZERS["sgd"])
    with pytest.raises(fluid.core.InvalidArgumentError, match="this job has no server: start some beside the trainers"):
        transpile(fluid.default_main_program(), 0)


def test_a_program_without_optimizer_is_refused():
    with pytest.raises(fluid.core.InvalidArgumentError, match="no optimizer"):
        transpile(fluid.Program(), 1)


def test_only_gradients_travel():
    x = fluid.layers.data("x", [WIDTH])
    out = fluid.layers.fc(x, 3)
    loss = fluid.layers.mean(out)
    _, pairs = fluid.optimizer.SGD(0.1).minimize(loss)
    with fluid.default_main_program()._optimized_guard(pairs[0]):
        fluid.layers.scale(out, 2.0)
    with pytest.raises(fluid.core.UnsupportedError, match="scale of parameter 'fc_0.[wb]_0' reads .* only gradients"):
        transpile(fluid.default_main_program(), 1)


def test_float64_travels_as_float64():
    x = fluid.layers.data("x", [WIDTH], dtype="float64")
    loss = fluid.layers.mean(fluid.layers.fc(x, 3))
    fluid.optimizer.SGD(0.1).minimize(loss)
    result = transpile(fluid.default_main_program(), 1)
    assert {one.dtype for one in result.blocks} == {fluid.core.VarType.FP64}


def test_all_mean_needs_a_number():
    x = fluid.layers.data("x", [WIDTH])
    with pytest.raises(ValueError, match="must have a known shape"):
        fluid.distributed.all_mean(x)


def test_all_mean_is_averaged_like_the_loss():
    loss = build(OPTIMIZERS["sgd"])
    half = fluid.distributed.all_mean(fluid.layers.scale(loss, 0.5))
    result = transpile(fluid.default_main_program(), 2)
    assert set(result.means) == {loss.name, half.name}


@pytest.mark.parametrize("flags, given, mode", [
    ({}, {}, "sync"), ({"sync_mode": False}, {}, "async"), ({}, {"sync_mode": False}, "async"),
    ({"geo_sgd_mode": True, "geo_sgd_need_push_nums": 5}, {"sync_mode": False}, "geo(5)"),
    ({"sync_mode": False, "mode": "ssp(2)"}, {}, "ssp(2)")])
def test_fluids_flags_choose_the_mode(flags, given, mode):
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    for name, value in flags.items():
        setattr(config, name, value)
    transpiler = DistributeTranspiler(config)
    transpiler.transpile(0, pservers="a:1", trainers=2, **given)
    assert transpiler._result.mode.text == mode
    sends = [op.type for op in transpiler.get_trainer_program().global_block().ops]
    assert ("exchange_deltas" in sends) == mode.startswith("geo") and ("send" in sends) != mode.startswith("geo")


@pytest.mark.parametrize("given, text", [
    (dict(trainer_id="x"), "transpile: trainer_id='x'; a whole number from 0 to 1"),
    (dict(trainer_id=2), "trainer_id=2; a whole number from 0 to 1"),
    (dict(trainers=0), "transpile: trainers=0; a whole number from 1"), (dict(pservers=3), "transpile: pservers=3; the names of servers"),
    (dict(pservers=" , "), "pservers=' , '; the names of servers"), (dict(pservers="a:1,a:1"), "a server stands twice")])
def test_impossible_arguments_of_transpile_are_explained(given, text):
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    with pytest.raises(ValueError, match=text):
        DistributeTranspiler().transpile(**{"trainer_id": 0, "pservers": "a:1", "trainers": 2, **given})


def test_an_invalid_configuration_is_explained():
    with pytest.raises(ValueError, match="DistributeTranspiler: config=3 is no DistributeTranspilerConfig"):
        DistributeTranspiler(3)
    config = fluid.DistributeTranspilerConfig()
    config.min_block_size = "8k"
    with pytest.raises(ValueError, match="DistributeTranspilerConfig: min_block_size='8k'; a whole number from 1"):
        DistributeTranspiler(config).transpile(0, pservers="a:1", trainers=2)


def test_a_wrong_period_of_geo_is_explained():
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    config.geo_sgd_mode, config.geo_sgd_need_push_nums = True, 0
    with pytest.raises(fluid.core.RangeError, match=r"geo\(0\)"):
        DistributeTranspiler(config).transpile(0, pservers="a:1", trainers=2)
