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
        with pytest.raises(ValueError, match="batch_size=.*; a whole number from 1"):
            fluid.contrib.memory_usage(fluid.default_main_program(), batch_size)
    with pytest.raises(TypeError, match="must be a Program"):
        fluid.contrib.op_freq_statistic("main")


def test_the_installation_checks_itself(capsys):
    before = len(fluid.default_main_program().global_block().ops)
    fluid.install_check.run_check()
    assert "works: a layer learnt a plane" in capsys.readouterr().out
    assert len(fluid.default_main_program().global_block().ops) == before and not fluid.global_scope().local_var_names()


# -- tensors by hand: what scripts do in any order ---------------------------------------------------


def test_offsets_may_be_set_before_values():
    tensor = core.LoDTensor([[2, 2]])
    tensor.set(np.zeros((4, 1), "float32"), fluid.CPUPlace())
    assert tensor.lod() == [[0, 2, 4]]
    first = core.Scope().var("x").get_tensor()
    first.set_lod([[0, 1, 3]])
    first.set(np.ones((3, 2), "float32"), fluid.CPUPlace())
    assert first.recursive_sequence_lengths() == [[1, 2]]
    with pytest.raises(core.EnforceNotMet, match="ends at 4, but there are 3 rows"):
        first.set_lod([[0, 4]])


def test_slices_of_tensors_are_copies():
    tensor = core.LoDTensor()
    values = np.arange(24, dtype="float32").reshape(4, 3, 2)
    tensor.set(values, fluid.CPUPlace())
    for index, same in ((slice(1, 3), np.s_[1:3]), (1, np.s_[1:2]), (-1, np.s_[3:4]), ((slice(None), 2), np.s_[:, 2:3]),
                        (slice(3, 0, -2), np.s_[3:0:-2])):
        part = tensor[index]
        assert isinstance(part, core.LoDTensor)
        np.testing.assert_array_equal(np.array(part), values[same])
    part = tensor[0:1]
    part.set(np.zeros((1, 3, 2), "float32"), fluid.CPUPlace())
    np.testing.assert_array_equal(np.array(tensor), values)
    with pytest.raises(IndexError, match="index 4 is outside of dimension 0"):
        tensor[4]


def test_dimensions_and_elements_of_a_tensor():
    tensor = core.Scope().var("x").get_tensor()
    tensor._set_dims([2, 3])
    tensor._alloc_int(fluid.CPUPlace())
    assert tensor._dtype() == core.VarType.INT32 and tensor._get_dims() == [2, 3]
    tensor._alloc_float(fluid.CPUPlace())
    tensor._set_float_element(5, 2.5)
    assert tensor._get_float_element(5) == 2.5
    tensor._set_dims([6])
    assert np.array(tensor).tolist() == [0, 0, 0, 0, 0, 2.5]


def test_an_element_of_an_array_of_tensors_is_replaced():
    array, tensor = core.LoDTensorArray(), core.LoDTensor()
    tensor.set(np.zeros((4, 1), "float32"), fluid.CPUPlace())
    array.append(tensor)
    other = fluid.create_lod_tensor(np.ones((2, 1), "float32"), [[1, 1]], fluid.CPUPlace())
    array[-1] = other
    other.set(np.full((2, 1), 5, "float32"), fluid.CPUPlace())
    assert np.array(array[0]).tolist() == [[1], [1]] and array[0].lod() == [[0, 1, 2]]
    with pytest.raises(IndexError, match="no number 1"):
        array[1] = other
    with pytest.raises(TypeError, match="is a LoDTensor"):
        array[0] = np.ones(2)


def test_selected_rows_are_filled_in_any_order():
    values = np.arange(6, dtype="float32").reshape(2, 3)
    fill = {"height": lambda rows: rows.set_height(10), "rows": lambda rows: rows.set_rows([4, 1]),
            "values": lambda rows: rows.get_tensor().set(values, fluid.CPUPlace())}
    for order in ("height rows values", "values rows height", "rows values height", "values height rows"):
        rows = core.Scope().var("g").get_selected_rows()
        for step in order.split():
            fill[step](rows)
        rows.sync_index()
        assert (rows.rows(), rows.height(), rows.numel()) == ([4, 1], 10, 6), order
        np.testing.assert_array_equal(rows.to_dense()[[4, 1]], values)


def test_a_feeders_arrays_are_read_like_tensors():
    x, word = layers.data("x", [2]), layers.data("word", [1], dtype="int64", lod_level=1)
    feed = fluid.DataFeeder([x, word], fluid.CPUPlace()).feed([([1, 2], [1, 2, 3]), ([3, 4], [4])])
    assert (feed["x"].shape(), feed["x"].lod(), feed["word"].shape(), feed["word"].lod()) == ([2, 2], [], [4, 1], [[0, 3, 4]])
    assert feed["x"].shape == (2, 2) and feed["x"][:1].shape() == [1, 2] and feed["x"].sum() == 10


def test_a_feeder_reshapes_samples_of_another_rank_alone():
    x, word = layers.data("x", [7, 1]), layers.data("word", [2], lod_level=1)
    feeder = fluid.DataFeeder([x, word], fluid.CPUPlace())
    feed = feeder.feed([(np.zeros((2, 1), "float32"), np.zeros((3, 4), "float32"))] * 16)
    assert feed["x"].shape == (16, 2, 1) and feed["word"].shape() == [48, 4]
    feed = feeder.feed([(np.zeros(7, "float32"), np.zeros(6, "float32").reshape(3, 2).tolist())])
    assert feed["x"].shape == (1, 7, 1) and feed["word"].shape() == [3, 2]


# -- programs ----------------------------------------------------------------------------------------


def test_assign_moves_values_between_variables_of_another_program(exe):
    w = layers.create_parameter([2], "float32", "w", default_initializer=fluid.initializer.Constant(3.0))
    exe.run(fluid.default_startup_program())
    keep = fluid.Program()
    with fluid.program_guard(keep, fluid.Program()):
        backup = layers.create_global_var([2], 0.0, "float32", persistable=True, name="backup")
        layers.assign(w, backup)
    exe.run(keep)
    assert got(fluid.global_scope(), "backup").tolist() == [3, 3]
    with fluid.program_guard(fluid.Program(), fluid.Program()) as _:
        layers.assign(layers.fill_constant([2], "float32", 1.0), w)
        exe.run(fluid.default_main_program())
    assert got(fluid.global_scope(), "w").tolist() == [1, 1]


def test_a_started_reader_completes_a_list_of_feeds(exe, monkeypatch):
    monkeypatch.setenv("CPU_NUM", "2")
    reader = layers.py_reader(8, [[-1, 4]], ["float32"])
    x, scale = layers.read_file(reader), layers.data("scale", [1])
    out = layers.reduce_sum(layers.elementwise_mul(x, scale, axis=0))
    reader.decorate_batch_generator(lambda: iter([np.full((3, 4), i, "float32") for i in (1, 2, 3, 4)]))
    assert (reader.queue.size(), reader.queue.capacity(), reader.queue.is_closed()) == (0, 8, True)
    reader.start()
    parallel = fluid.ParallelExecutor(use_cuda=False)
    feeds = [{"scale": np.ones((3, 1), "float32")}, {"scale": np.full((3, 1), 10, "float32")}]
    for want in ([12, 240], [36, 480]):
        value, = parallel.run([out.name], feed=feeds)
        assert value.tolist() == want
    with pytest.raises(fluid.core.EOFException):
        parallel.run([out.name], feed=feeds)


def test_shapes_are_inferred_anew():
    y = layers.fc(layers.data("x", [4]), 3)
    op, block = fluid.default_main_program().global_block().ops[0], fluid.default_main_program().desc.block(0)
    block.find_var("x").set_shape([7, 4])
    count = block.op_size()
    op.desc.infer_var_type(block)
    op.desc.infer_shape(block)
    assert block.find_var(op.output("Out")[0]).shape() == [7, 3] and block.op_size() == count and y.shape == (None, 3)


def test_the_gradient_of_one_operator():
    x = layers.data("x", [4])
    y = layers.fc(x, 3, param_attr="w", bias_attr=False)
    (desc,), of = core.get_grad_op_desc(y.op.desc, {"x"})
    assert desc.type() == "mul_grad" and desc.input("Out@GRAD") == [y.name + "@GRAD"] and of == {"w@GRAD": "w"}
    with pytest.raises(core.EnforceNotMet, match="is in no block"):
        core.get_grad_op_desc(core.OpDesc("scale"), set())


def test_an_operators_slots_say_whether_they_take_several_variables():
    assert Operator.get_op_inputs("sum") == [("X", True)] and Operator.get_op_outputs("mul") == [("Out", False)]


def test_modules_of_layers_answer_for_every_layer():
    for module in ("nn", "control_flow", "ops", "tensor", "io", "metric_op", "learning_rate_scheduler"):
        found = getattr(layers, module)
        assert all(getattr(found, name) is getattr(layers, name) for name in ("relu", "fc", "While", "accuracy", "noam_decay", "topk",
                                                                              "array_write")), module
        with pytest.raises(AttributeError, match="has no attribute 'no_such_layer'"):
            found.no_such_layer


def test_names_that_do_nothing_or_are_refused_say_so(monkeypatch):
    monkeypatch.setattr(fluid.transpiler.memory, "_said", set())
    with pytest.warns(UserWarning, match="InferenceTranspiler does nothing"):
        fluid.InferenceTranspiler().transpile(fluid.default_main_program(), fluid.CPUPlace())
    with pytest.raises(core.UnsupportedError, match="with_data_parallel"):
        layers.ParallelDo([fluid.CPUPlace()])
    with pytest.raises(core.UnsupportedError, match="processors alone"), fluid.profiler.cuda_profiler("out"):
        pass
    with fluid.initializer.init_on_cpu():
        assert not fluid.initializer.force_init_on_cpu()


def test_a_schedule_of_a_scripts_own_counts_steps(exe):
    step = layers.learning_rate_scheduler._decay_step_counter(1)
    exe.run(fluid.default_startup_program())
    assert [float(exe.run(fetch_list=[step])[0]) for _ in range(3)] == [1, 2, 3]


def test_a_predictor_of_fluids_inference_library(exe, tmp_path):
    word = layers.data("word", [1], dtype="int64", lod_level=1)
    x = layers.data("x", [2])
    sums = layers.sequence_pool(layers.embedding(word, [4, 1],
                                                 param_attr=fluid.initializer.NumpyArrayInitializer(np.arange(4,
                                                                                                              dtype="float32").reshape(4,
                                                                                                                                       1))),
                                "sum")
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path), ["word", "x"], [sums, layers.scale(x, 2.0)], exe,
                                  model_filename="model", params_filename="params")
    config = core.AnalysisConfig(str(tmp_path / "model"), str(tmp_path / "params"))
    config.disable_gpu()
    predictor = core.create_paddle_predictor(config)
    assert predictor.get_input_names() == ["word", "x"]
    words = core.PaddleTensor(np.array([[1], [2], [3]]), lod=[[0, 1, 3]])
    rows = core.PaddleTensor()
    rows.name, rows.shape, rows.data, rows.dtype = "x", [1, 2], core.PaddleBuf([1.0, 2.0]), core.PaddleDType.FLOAT32
    total, double = predictor.clone().run([words, rows])
    assert total.as_ndarray().tolist() == [[1], [5]] and double.data.float_data() == [2, 4] and double.shape == [1, 2]
    with pytest.raises(core.InvalidArgumentError, match="1 inputs, the model has 2: word, x"):
        predictor.run([words])
    with pytest.raises(core.UnsupportedError):
        config.enable_use_gpu(100, 0)
