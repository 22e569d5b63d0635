"""A function of Python as an operator: what it is given, what it may return, its gradient, and where it does not go."""

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers
from trireme.layers.functions import py_func
from trireme.run.py_functions import PyFuncRegistry


def variable(name, shape, dtype="float64"):
    return fluid.default_main_program().current_block().create_var(name=name, shape=shape, dtype=dtype)


def swish(a, b):
    return np.array(a) * np.tanh(b), np.square(np.array(a)) + b


def swish_grad(a, b, first, second, dfirst, dsecond):
    a, b, dfirst, dsecond = map(np.array, (a, b, dfirst, dsecond))
    assert np.allclose(first, a * np.tanh(b)) and np.allclose(second, a * a + b)
    return dfirst * np.tanh(b) + dsecond * 2 * a, dfirst * a * (1 - np.tanh(b) ** 2) + dsecond


def pair(rows=-1):
    """Return two inputs and what the function makes of them."""
    a, b = (layers.data(name, [rows, 3], dtype="float64", append_batch_size=False, stop_gradient=False) for name in "ab")
    return [a, b], [variable("first", [rows, 3]), variable("second", [rows, 3])]


def feed_of(rows=2, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(rows, 3)) for name in "ab"}


@pytest.mark.parametrize("rows", [-1, 2])
def test_a_function_is_called_with_the_values_and_fills_the_outputs(exe, rows):
    x, out = pair(rows)
    assert layers.py_func(swish, x, out) is out
    total = layers.elementwise_add(*out)
    for count in (2, 4, 2) if rows < 0 else (2, 2):
        feed = feed_of(count)
        first, second, both = exe.run(feed=feed, fetch_list=[*out, total])
        np.testing.assert_array_equal(first, feed["a"] * np.tanh(feed["b"]))
        np.testing.assert_array_equal(second, feed["a"] ** 2 + feed["b"])
        np.testing.assert_array_equal(both, first + second)


def test_a_prepared_run_calls_it_each_time(exe):
    seen = []
    x = layers.data("x", [2])
    y = variable("y", [-1, 2], "float32")
    layers.py_func(lambda x: (seen.append(x), 2 * np.array(x))[1], x, y)
    step = exe.prepare(feed=[x], fetch_list=[y])
    for i in range(3):
        np.testing.assert_array_equal(step.run({"x": np.full((1, 2), i, "float32")})[0], [[2 * i, 2 * i]])
    assert [np.array(one).tolist() for one in seen] == [[[i, i]] for i in range(3)]      # copies, which may be kept


def numeric(run, feed, name, step=1e-6):
    grad = np.zeros_like(feed[name])
    for at in np.ndindex(grad.shape):
        ends = []
        for sign in (1, -1):
            moved = {**feed, name: feed[name].copy()}
            moved[name][at] += sign * step
            ends.append(run(moved))
        grad[at] = (ends[0] - ends[1]) / (2 * step)
    return grad


def skipping_grad(first, second, dfirst, dsecond):
    """Without X: b is not needed by half of it."""
    return np.array(dfirst) * 2, None


def doubled(a, b):
    return 2 * np.array(a), 0 * np.array(b)


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("parts", ["both", "first"])
@pytest.mark.parametrize("function", [(swish, swish_grad, False), (doubled, skipping_grad, True)], ids=["whole", "skips"])
def test_the_gradient_is_numeric(exe, rows, parts, function):
    forward, backward, skips = function
    x, out = pair()
    layers.py_func(forward, x, out, backward, skip_vars_in_backward_input=x if skips else None)
    used = out if parts == "both" else out[:1]         # the other one's gradient is zeros
    loss = layers.reduce_sum(layers.sums([layers.square(one) for one in used]))
    grads = fluid.gradients(loss, x)
    feed = feed_of(rows)
    found = exe.run(feed=feed, fetch_list=[loss, *[grad for grad in grads if grad is not None]])
    if skips:
        np.testing.assert_allclose(found[1], numeric(lambda moved: exe.run(feed=moved, fetch_list=[loss])[0].item(), feed, "a"), atol=1e-6)
        return
    for name, grad in zip("ab", found[1:]):
        np.testing.assert_allclose(grad, numeric(lambda moved: exe.run(feed=moved, fetch_list=[loss])[0].item(), feed, name), atol=1e-6)


def call_in_a_loop(h, backward):
    """Call the function once for each step of sequences."""
    rnn = layers.DynamicRNN()
    with rnn.block():
        one = rnn.step_input(h)
        rnn.output(layers.py_func(np.array, one, variable("out", [-1, 4], "float32"), backward_func=backward))
    return layers.sequence_last_step(rnn())


@pytest.mark.parametrize("is_in_a_loop", [False, True])
def test_an_exception_of_a_backward_function_leaves_all_parameters_unchanged(exe, is_in_a_loop):
    """The update of the last layer would otherwise run as soon as its gradient is there."""
    fails = [True]

    def backward(value, out, gradient):
        if fails[0]:
            raise ValueError("a bad batch")
        return np.array(gradient)

    h = layers.fc(layers.data("x", [4], lod_level=int(is_in_a_loop)), 4)
    h = call_in_a_loop(h, backward) if is_in_a_loop else layers.py_func(np.array, h, variable("out", [-1, 4], "float32"),
                                                                        backward_func=backward)
    loss = layers.mean(layers.fc(layers.fc(h, 3), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(fluid.default_startup_program())
    x = np.ones((3, 4), "float32")
    feed = {"x": fluid.create_lod_tensor(x, [[1, 2]], fluid.CPUPlace()) if is_in_a_loop else x}

    def parameters():
        return {one.name: np.array(fluid.global_scope().find_var(one.name).get_tensor())
                for one in fluid.default_main_program().all_parameters()}

    before = parameters()
    with pytest.raises(ValueError, match="a bad batch"):
        exe.run(feed=feed, fetch_list=[loss])
    for name, value in parameters().items():
        assert np.array_equal(value, before[name]), name
    fails[0] = False
    exe.run(feed=feed, fetch_list=[loss])
    assert all(not np.array_equal(value, before[name]) for name, value in parameters().items())


def test_without_a_backward_function_no_gradient_flows(exe):
    x, out = pair()
    layers.py_func(swish, x, out)
    loss = layers.reduce_sum(layers.elementwise_add(out[0], x[0]))
    assert fluid.gradients(loss, x)[1] is None
    grad, = exe.run(feed=feed_of(), fetch_list=fluid.gradients(loss, x[:1]))
    np.testing.assert_array_equal(grad, np.ones((2, 3)))


def test_a_py_func_trains_and_replicas_compute_the_same():
    def run(places):
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        startup.random_seed = 5
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x, y = layers.data("x", [3]), layers.data("y", [1])
            hidden = layers.fc(x, 4)
            out = variable("hidden", [-1, 4], "float32")
            layers.py_func(lambda h: np.tanh(h), hidden, out, lambda h, out, grad: np.array(grad) * (1 - np.square(out)))
            loss = layers.mean(layers.square_error_cost(layers.fc(out, 1), y))
            fluid.optimizer.SGD(0.2).minimize(loss)
        exe = fluid.Executor()
        exe.run(startup, scope=scope)
        program = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=places) if places else main
        rng = np.random.default_rng(2)
        costs = []
        for _ in range(12):
            a = rng.normal(size=(9, 3)).astype("float32")
            costs.append(np.mean(exe.run(program, feed={"x": a, "y": a[:, :1]}, fetch_list=[loss], scope=scope)[0]))
        return costs, np.array(scope.find_var("fc_0.w_0").get_tensor())

    costs, weight = run(0)
    assert costs[-1] < 0.3 * costs[0]
    np.testing.assert_allclose(run(3)[1], weight, rtol=1e-4, atol=1e-6)


def test_sequences_come_and_go_with_tensors(exe):
    words = layers.data("words", [1], lod_level=1)
    out = variable("firsts", [-1, 1], "float32")

    def firsts(tensor):
        begins = tensor.lod()[0]
        found = core.LoDTensor()
        found.set(np.repeat(np.array(tensor)[begins[:-1]], 2, axis=0))
        found.set_lod([[2 * i for i in range(len(begins))]])
        return found

    layers.py_func(firsts, words, out)
    pooled = layers.sequence_pool(out, "sum")
    feed = {"words": fluid.create_lod_tensor(np.arange(5, dtype="float32").reshape(-1, 1), [[2, 3]], fluid.CPUPlace())}
    values, sums = exe.run(feed=feed, fetch_list=[out, pooled], return_numpy=False)
    assert values.lod() == [[0, 2, 4]]
    np.testing.assert_array_equal(np.array(sums), [[0], [4]])


def test_a_function_may_only_look_and_stand_in_a_loop(exe):
    seen = []
    i, limit = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 4)
    going = layers.less_than(i, limit)
    loop = layers.While(going)
    with loop.block():
        assert layers.py_func(lambda i: seen.append(np.array(i).item()), i, None) is None
        layers.increment(i, in_place=True)
        layers.less_than(i, limit, cond=going)
    exe.run()
    assert seen == [0, 1, 2, 3]


def test_a_function_without_parameters_and_storage_types(exe):
    ones = variable("ones", [2], "bfloat16")
    layers.py_func(lambda: np.ones(2, "float32"), None, ones)
    number = variable("number", [1], "float32")
    layers.py_func(lambda: np.float32(7), [], number)
    got = exe.run(fetch_list=[layers.cast(ones, "float32"), number])
    assert [value.tolist() for value in got] == [[1, 1], [7]]


# -- mistakes ----------------------------------------------------------------------------------------


def fails(x):
    raise KeyError("no such word")


def test_an_exception_ends_the_run_with_operator_line_and_traceback(exe):
    x, out = layers.data("x", [2]), variable("y", [-1, 2], "float32")
    layers.py_func(fails, x, out)
    feed = {"x": np.ones((1, 2), "float32")}
    for program in (None, fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(places=2)):
        with pytest.raises(core.InvalidArgumentError) as caught:
            exe.run(program, feed={"x": np.ones((2, 2), "float32")}, fetch_list=[out])
        text = str(caught.value)
        for part in ("function 'fails'", "has raised KeyError: 'no such word'", "Traceback", 'raise KeyError("no such word")',
                     "operator 'py_func'", "test_py_func.py:", "your line:"):
            assert part in text, text
        assert isinstance(caught.value.__cause__, KeyError)
    layers.py_func(lambda x: np.array(x), x, variable("z", [-1, 2], "float32"))      # the executor works afterwards
    fluid.default_main_program().global_block()._remove_op(0)
    assert exe.run(feed=feed, fetch_list=["z"])[0].shape == (1, 2)


def test_ctrl_c_in_a_function_is_a_keyboard_interrupt(exe):
    def interrupted():
        raise KeyboardInterrupt

    layers.py_func(interrupted, None, None)
    with pytest.raises(KeyboardInterrupt):
        exe.run()


@pytest.mark.parametrize(("returned", "error", "text"), [
    (np.ones((3, 2), "float32"), core.ShapeError,
     r"output 0 \('y'\) must be \[\?, 4\], as the program declares it; the function has returned \[3, 2\]"),
    (np.ones((3, 4)), core.DTypeError,
     r"output 0 \('y'\) must be float32, as the program declares it; the function has returned float64 \[3, 4\]"),
    (np.ones(4, "float32"), core.ShapeError, r"must be \[\?, 4\].*returned \[4\]"),
    ((np.ones((3, 4), "float32"),) * 2, core.InvalidArgumentError, "must return 1 arrays, one for each output, and has returned 2"),
    (None, core.InvalidArgumentError, r"has returned nothing for output 0 \('y'\)"),
    ("text", core.InvalidArgumentError, "TypeError: output 0 is an array of <U4"),
])
def test_a_wrong_result_of_a_py_func_is_refused_with_expected_and_got(exe, returned, error, text):
    def wrong(x):
        return returned

    y = variable("y", [-1, 4], "float32")
    layers.py_func(wrong, layers.data("x", [1]), y)
    with pytest.raises(error, match=text) as caught:
        exe.run(feed={"x": np.ones((3, 1), "float32")}, fetch_list=[y])
    assert "operator 'py_func'" in str(caught.value) and "test_py_func.py" in str(caught.value)


def test_a_gradient_must_be_like_its_variable(exe):
    x, out = pair()
    layers.py_func(swish, x, out, lambda *values: (np.ones((1, 3)), np.ones((2, 3))))
    grads = fluid.gradients(layers.reduce_sum(out[0]), x)
    with pytest.raises(core.ShapeError, match=r"output 0 \('a@GRAD'\) must be \[2, 3\].*returned \[1, 3\]"):
        exe.run(feed=feed_of(), fetch_list=grads)


def test_mistakes_are_found_where_they_are_made():
    x = layers.data("x", [2])
    with pytest.raises(TypeError, match="func must be a function, got 3"):
        py_func(3, x, None)
    with pytest.raises(TypeError, match="x must be a Variable or a list"):
        py_func(abs, "x", None)
    with pytest.raises(core.ShapeError, match="'bare' has no declared type and shape"):
        py_func(abs, x, fluid.default_main_program().current_block().create_var(name="bare"))
    y = variable("y", [-1, 2], "float32")
    with pytest.raises(core.InvalidArgumentError, match="'other' of skip_vars_in_backward_input is neither in x nor in out"):
        py_func(abs, x, y, abs, skip_vars_in_backward_input=layers.data("other", [1]))
    with pytest.raises(core.NotFoundError, match="this process has no function 1000000"):
        PyFuncRegistry.registered_func(1000000)


@pytest.mark.parametrize("places", [0, 2])
def test_a_function_runs_no_program(exe, places):
    other, inner = fluid.Program(), fluid.Executor()
    scope = fluid.Scope()
    main = fluid.default_main_program()

    def nested(x):
        (exe if places else inner).run(main if places else other, scope=fluid.global_scope() if places else scope)

    layers.py_func(nested, layers.data("x", [1]), None)
    program = fluid.CompiledProgram(main).with_data_parallel(places=places) if places else main
    with pytest.raises(core.InvalidArgumentError, match=r"layers.py_func\) may not run a program") as caught:
        exe.run(program, feed={"x": np.ones((2, 1), "float32")})
    assert isinstance(caught.value.__cause__, core.UnsupportedError)


def test_a_saved_model_with_a_function_is_refused(exe, tmp_path):
    x = layers.data("x", [2])
    y = variable("y", [-1, 2], "float32")
    layers.py_func(lambda x: np.array(x), x, y)
    fluid.io.save_inference_model(str(tmp_path), ["x"], [layers.scale(y, 2.0)], exe)
    for allow_io in (False, True):
        with pytest.raises(core.UnsupportedError, match=r"operator \d+ \(py_func\) calls a function of the process that has made the "
                                                        r"program, and no "
                                                        "file holds the function"):
            fluid.io.load_inference_model(str(tmp_path), exe, allow_io=allow_io)
    fluid.io.save_inference_model(str(tmp_path / "without"), ["x"], [layers.scale(x, 2.0)], exe)
    fluid.io.load_inference_model(str(tmp_path / "without"), exe)


def test_a_program_of_another_process_finds_no_function(exe):
    layers.py_func(lambda: None, None, None)
    block = fluid.default_main_program().global_block()
    block.ops[0]._set_attr("forward_callable_id", 123456)
    with pytest.raises(core.InvalidArgumentError, match="this process has no function 123456"):
        exe.run()


def test_a_function_never_moves_to_a_server():
    x, y = layers.data("x", [2]), layers.data("y", [1])
    loss = layers.mean(layers.square_error_cost(layers.fc(x, 1, bias_attr=False), y))
    optimizer = fluid.optimizer.SGD(0.1)
    grads = optimizer.backward(loss)
    limited = []
    for param, grad in grads:
        out = variable(grad.name + ".limited", param.shape, "float32")
        limited.append((param, layers.py_func(lambda grad: np.clip(grad, -1, 1), grad, out)))
    optimizer.apply_gradients(limited)
    t = fluid.DistributeTranspiler()
    t.transpile(trainer_id=0, trainers=2, pservers="a:1,b:1")
    assert "py_func" in [op.type for op in t.get_trainer_program().global_block().ops]
    for server in ("a:1", "b:1"):
        assert "py_func" not in [op.type for op in t.get_pserver_program(server).global_block().ops]


def test_a_function_among_the_updates_is_refused():
    x, y = layers.data("x", [2]), layers.data("y", [1])
    main = fluid.default_main_program()
    loss = layers.mean(layers.square_error_cost(layers.fc(x, 1, bias_attr=False), y))
    optimizer = fluid.optimizer.SGD(0.1)
    (param, grad), = optimizer.backward(loss)
    out = variable("limited", param.shape, "float32")
    with main._optimized_guard([param, grad]):
        layers.py_func(lambda grad: np.clip(grad, -1, 1), grad, out)
    optimizer.apply_gradients([(param, out)])
    with pytest.raises(core.UnsupportedError, match="py_func: a function of Python cannot run on a parameter server"):
        fluid.DistributeTranspiler().transpile(trainer_id=0, trainers=2, pservers="a:1,b:1")
