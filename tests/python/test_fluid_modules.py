"""The small modules that scripts of Fluid use: op, transpiler, evaluator, average, contrib, install_check, places, and tensors by hand."""

import warnings

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers

Operator = fluid.op.Operator


def put(scope, **values):
    for name, value in values.items():
        scope.var(name).get_tensor().set(value, fluid.CPUPlace())


def got(scope, name):
    return np.array(scope.find_var(name).get_tensor())


# -- operators on a scope --------------------------------------------------------------------------


def test_an_operator_runs_on_a_scope(rng):
    scope, a, b = core.Scope(), rng.normal(size=(3, 4)).astype("float32"), rng.normal(size=(4, 2)).astype("float32")
    put(scope, a=a, b=b)
    mul = Operator("mul", X="a", Y="b", Out="c")
    for factor in (1, 2):                                # what the scope holds then, of any shape
        put(scope, a=np.repeat(a, factor, 0))
        mul.run(scope, fluid.CPUPlace())
        np.testing.assert_allclose(got(scope, "c"), np.repeat(a @ b, factor, 0), rtol=1e-5)
    assert (mul.type(), mul.input("X"), mul.output("Out"), mul.inputs()) == ("mul", ["a"], ["c"], {"X": ["a"], "Y": ["b"]})


def test_an_operator_changes_its_input_in_place():
    scope = core.Scope()
    put(scope, w=np.ones(3, "float32"), g=np.ones(3, "float32"), lr=np.array([0.5], "float32"))
    step = Operator(type="sgd", Param="w", Grad="g", LearningRate="lr", ParamOut="w")
    step.run(scope, fluid.CPUPlace())
    step.run(scope, fluid.CPUPlace())
    assert got(scope, "w").tolist() == [0, 0, 0]


def test_an_operator_takes_lists_rows_and_sequences():
    scope = core.Scope()
    put(scope, w=np.ones((5, 2), "float32"), lr=np.array([1.0], "float32"), a=np.ones(2, "float32"), b=np.full(2, 3, "float32"))
    rows = scope.var("g").get_selected_rows()
    rows.set_height(5)
    rows.set_rows([1, 3])
    rows.get_tensor().set(np.full((2, 2), 2, "float32"), fluid.CPUPlace())
    Operator("sgd", Param="w", Grad="g", LearningRate="lr", ParamOut="w").run(scope, fluid.CPUPlace())
    assert got(scope, "w")[:, 0].tolist() == [1, -1, 1, -1, 1]
    Operator("sum", X=["a", "b"], Out="total").run(scope, fluid.CPUPlace())
    assert got(scope, "total").tolist() == [4, 4]
    tensor = scope.var("s").get_tensor()
    tensor.set(np.arange(4, dtype="float32").reshape(4, 1), fluid.CPUPlace())
    tensor.set_recursive_sequence_lengths([[3, 1]])
    Operator("sequence_pool", X="s", Out="pooled", pooltype="SUM").run(scope, fluid.CPUPlace())
    assert got(scope, "pooled").ravel().tolist() == [3, 3]


@pytest.mark.parametrize("call, text", [
    (lambda: Operator("scle", X="x"), "there is no operator 'scle'; did you mean 'scale'"),
    (lambda: Operator("scale", X="x", Out="y", scal=1.0), "scale has no input, output or attribute 'scal'; did you mean 'scale'"),
    (lambda: Operator("mul", X="x", Out="y"), "mul: input Y is missing"),
    (lambda: Operator("mul", X=["x", "z"], Y="y", Out="o"), "mul: X takes the name of a variable, got"),
    (lambda: Operator(), "Operator takes the operator's name"),
    (lambda: Operator("while", Condition="c", sub_block=0), "has a block"),
    (lambda: Operator("scale", X="x", Out="y").run(core.Scope(), fluid.CPUPlace()), "the scope has no variable 'x' with a value"),
    (lambda: fluid.framework.OpProtoHolder.instance().get_op_proto("scle"), "there is no operator 'scle'"),
])
def test_a_wrong_operator_is_explained(call, text):
    with pytest.raises(Exception) as caught:
        call()
    assert text in str(caught.value)


def test_protos_tell_slots_and_attributes():
    holder = fluid.framework.OpProtoHolder.instance()
    assert holder is fluid.framework.OpProtoHolder.instance()
    proto = holder.get_op_proto("huber_loss")
    assert [slot.name for slot in proto.inputs] == ["X", "Y"] and [attr.name for attr in proto.attrs] == ["delta"]
    assert b"huber_loss" in proto.SerializeToString() and "op_role" in holder.generated_op_attr_names()
    assert Operator.get_op_input_names("mul") == ["X", "Y"] and Operator.get_op_attrs("clip")["min"]
    assert set(Operator.types()) == set(holder.op_proto_map) == {proto.type for proto in fluid.framework.get_all_op_protos()}


# -- transpiler ------------------------------------------------------------------------------------


def test_memory_is_optimized_anyway_and_that_is_said_once(monkeypatch):
    from trireme.transpiler import memory
    monkeypatch.setattr(memory, "_said", set())
    for function in (fluid.memory_optimize, fluid.transpiler.release_memory):
        with pytest.warns(UserWarning, match=f"{function.__name__} does nothing"):
            function(fluid.default_main_program())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(fluid.default_main_program(), skip_opt_set={"x"})


def test_a_program_is_printed_as_text(tmp_path):
    i = layers.fill_constant([1], "int64", 0)
    limit = layers.fill_constant([1], "int64", 3)
    going = layers.less_than(i, limit)
    with layers.While(going).block():
        layers.increment(i)
        layers.less_than(i, limit, cond=going)
    with open(tmp_path / "p.txt", "w") as file:
        fluid.transpiler.details.program_to_code(fluid.default_main_program(), file)
    text = (tmp_path / "p.txt").read_text()
    assert "{ // block 0" in text and "{ // block 1" in text and "increment(" in text and "op_callstack" not in text


def test_dispatchers_spread_variables():
    x = [layers.data(name, [1]) for name in "abcd"]
    turns = fluid.transpiler.RoundRobin(["u", "v"])
    assert turns.dispatch(x[:3]) + turns.dispatch(x[3:]) == ["u", "v", "u", "v"]
    turns.reset()
    assert turns.dispatch(x[:1]) == ["u"]
    assert fluid.transpiler.HashName(["u", "v"]).dispatch(x) == fluid.transpiler.HashName(["u", "v"]).dispatch(list("abcd"))
    with pytest.raises(ValueError, match="there must be a server"):
        fluid.transpiler.HashName([])


# -- places ----------------------------------------------------------------------------------------


def test_gpus_are_refused_where_one_is_asked_for():
    use_gpu = core.get_cuda_device_count() > 0 or fluid.is_compiled_with_cuda()
    place = fluid.CUDAPlace(0) if use_gpu else fluid.CPUPlace()
    assert not isinstance(place, fluid.CUDAPlace)
    for make in (lambda: fluid.CUDAPlace(0), core.CUDAPinnedPlace, fluid.cuda_places, fluid.framework.cuda_pinned_places):
        with pytest.raises(core.UnsupportedError, match="use fluid.CPUPlace"):
            make()
    assert layers.device.get_places(3) == [fluid.CPUPlace()] * 3
    with pytest.raises(ValueError, match="device_type"):
        layers.device.get_places(1, "GPU")


# -- tensors by hand -------------------------------------------------------------------------------


def test_sequences_stay_when_a_tensor_is_set_again():
    tensor = fluid.create_lod_tensor(np.zeros((5, 1), "float32"), [[2, 3]])
    tensor.set(np.ones((5, 2), "float32"), fluid.CPUPlace())
    assert tensor.recursive_sequence_lengths() == [[2, 3]] and np.array(tensor).shape == (5, 2)
    tensor.set(np.ones((4, 2), "float32"), fluid.CPUPlace())
    assert tensor.lod() == []


def test_arrays_of_tensors_grow_by_hand():
    scope = core.Scope()
    for array in (fluid.LoDTensorArray(), scope.var("array").get_lod_tensor_array()):
        for i in range(10):
            array.append(fluid.create_lod_tensor(np.full((2, 1), i, "float32"), [[1, 1]]))
        assert len(array) == 10 and [float(np.array(one)[0, 0]) for one in array] == list(range(10))
        assert array[3].lod() == [[0, 1, 2]]
        with pytest.raises(TypeError, match="takes a LoDTensor"):
            array.append(np.ones(3))
    scope.var("t").get_tensor().set(np.ones(1), fluid.CPUPlace())
    with pytest.raises(ValueError, match="no array of tensors"):
        scope.var("t").get_lod_tensor_array().append(fluid.create_lod_tensor(np.ones((1, 1)), [[1]]))
    assert scope.find_var("array").kind() == core.VarType.LOD_TENSOR_ARRAY


def test_rows_and_height_are_set_before_and_after_the_values():
    rows = core.SelectedRows()
    rows.set_rows([4, 1])
    rows.set_height(6)
    assert (rows.rows(), rows.height()) == ([4, 1], 6)
    rows.get_tensor().set(np.ones((2, 3), "float32"), fluid.CPUPlace())
    rows.set_rows([0, 5])
    rows.set_height(9)
    assert (rows.rows(), rows.height(), np.array(rows.get_tensor()).shape) == ([0, 5], 9, (2, 3))
    with pytest.raises(ValueError, match="row"):
        rows.set_rows([0, 9])


# -- gradients -------------------------------------------------------------------------------------


def test_pairs_are_of_any_variable(run):
    x = layers.data("x", [3])
    w = layers.create_parameter([3, 1], "float32", name="w", default_initializer=fluid.initializer.Constant(2.0))
    h = layers.square(layers.mul(x, w))
    loss = layers.mean(h)
    pairs = fluid.backward.append_backward(loss, parameter_list=[x, "w", h.name])
    assert [(var.name, grad.name) for var, grad in pairs] == [("x", "x@GRAD"), ("w", "w@GRAD"), (h.name, f"{h.name}@GRAD")]
    dx, = run({"x": np.ones((1, 3), "float32")}, [pairs[0][1]])
    np.testing.assert_allclose(dx, np.full((1, 3), 24.0))


def test_an_error_clip_is_set_by_call(run):
    x = layers.data("x", [3])
    w = layers.create_parameter([3, 1], "float32", name="w", default_initializer=fluid.initializer.Constant(1.0))
    h = layers.mul(x, w)
    h._set_error_clip(fluid.clip.ErrorClipByValue(0.25))
    (_, grad), = fluid.backward.append_backward(layers.reduce_sum(layers.square(h)))
    slope, = run({"x": np.ones((1, 3), "float32")}, [grad])
    np.testing.assert_allclose(slope, np.full((3, 1), 0.25))
    assert fluid.framework._get_var("w") is fluid.default_main_program()._get_var("w") is w


# -- averages, evaluators, estimates ---------------------------------------------------------------


def test_a_weighted_average():
    mean = fluid.average.WeightedAverage()
    with pytest.raises(ValueError, match="nothing was added"):
        mean.eval()
    mean.add(np.array([1.0, 2.0]), 1)
    mean.add(np.array([4.0, 8.0]), np.array([2]))
    np.testing.assert_allclose(mean.eval(), [3, 6])
    mean.reset()
    with pytest.raises(ValueError, match="weight must be a number"):
        mean.add(1.0, np.ones(2))
    with pytest.raises(ValueError, match="value must be a number"):
        mean.add("1", 1)


def ids(rows, lengths):
    return fluid.create_lod_tensor(np.array(rows, "int64").reshape(-1, 1), [lengths])


def test_chunks_are_counted_in_the_program(exe):
    found, real = (layers.data(name, [1], dtype="int64", lod_level=1) for name in ("found", "real"))
    chunks = fluid.evaluator.ChunkEvaluator(found, real, "IOB", num_chunk_types=2)
    exe.run(fluid.default_startup_program())
    feeds = [([0, 1, 4, 2, 3, 0], [0, 1, 4, 2, 4, 0]), ([0, 0], [4, 4])]
    for _ in range(2):
        chunks.reset(exe)
        for a, b in feeds:
            exe.run(feed={"found": ids(a, [len(a)]), "real": ids(b, [len(b)])}, fetch_list=chunks.metrics)
        precision, recall, f1 = (value.item() for value in chunks.eval(exe))
        assert (precision, recall) == (2 / 5, 2 / 3) and f1 == pytest.approx(2 * 2 / 8)


def test_distances_are_counted_in_the_program(exe):
    found, real = (layers.data(name, [1], dtype="int64", lod_level=1) for name in ("found", "real"))
    distance = fluid.evaluator.EditDistance(found, real)
    exe.run(fluid.default_startup_program())
    with pytest.raises(ValueError, match="no data"):
        distance.eval(exe)
    distance.reset(exe)
    for a, b in [([1, 2, 3], [1, 2, 3]), ([1, 2], [3, 4, 5]), ([7], [7])]:
        exe.run(feed={"found": ids(a, [len(a)]), "real": ids(b, [len(b)])}, fetch_list=distance.metrics)
    mean, wrong = (value.item() for value in distance.eval(exe))
    assert mean == pytest.approx(distance_of(feeds=3)) and wrong == pytest.approx(1 / 3)


def distance_of(feeds):
    return 1.0 / feeds                                   # 3 changes in a sequence of 3, and none in the others


def test_memory_is_estimated():
    layers.fc(layers.data("x", [256]), 256)
    low, high, unit = fluid.contrib.memory_usage(fluid.default_main_program(), batch_size=1024)
    assert unit == "MB" and low == pytest.approx(1.251, rel=1e-3) and high == pytest.approx(3.251, rel=1e-3)
    for batch_size in (0, True, 1.5):
        with pytest.raises(ValueError, match="batch_size must be a positive int"):
            fluid.contrib.memory_usage(fluid.default_main_program(), batch_size)
    with pytest.raises(TypeError, match="must be a Program"):
        fluid.contrib.op_freq_statistic("main")


def test_the_installation_checks_itself(capsys):
    before = len(fluid.default_main_program().global_block().ops)
    fluid.install_check.run_check()
    assert "works: a layer learnt a plane" in capsys.readouterr().out
    assert len(fluid.default_main_program().global_block().ops) == before and not fluid.global_scope().local_var_names()
