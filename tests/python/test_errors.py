"""What a mistake says: the operator, the values, what would be right, and the user's own line."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers


def raises(kind, *parts):
    """Expect an error whose text holds all parts."""
    class Expectation:
        def __enter__(self):
            return self

        def __exit__(self, found, error, trace):
            assert found is not None, f"no error; {kind.__name__} was expected"
            if not issubclass(found, kind):
                return False
            for part in parts:
                assert part in str(error), f"{part!r} is not in:\n{error}"
            self.value = error
            return True

    return Expectation()


def test_wrong_shapes_name_operator_slots_shapes_and_line(line):
    x = layers.data("x", [3])
    w = layers.create_parameter([4, 2], "float32", name="w")
    with raises(core.ShapeError, "mul", "[?, 3]", "[4, 2]", line(1)) as error:
        layers.mul(x, w)
    assert "layers.mul(x, w)" in str(error.value)
    assert error.value.status == "ESHAPE" and isinstance(error.value, (ValueError, core.EnforceNotMet))
    assert "__grad" not in str(fluid.default_main_program()) and not fluid.default_main_program().global_block().ops


def test_a_failed_operator_leaves_the_program_as_it_was():
    x, y = layers.data("x", [3]), layers.data("y", [4])
    block = fluid.default_main_program().global_block()
    with raises(core.ShapeError, "elementwise_add"):
        block.append_op(type="elementwise_add", inputs={"X": x, "Y": y}, outputs={"Out": "z"})
    assert block.ops == [] and not block.has_var("z")


def test_wrong_types():
    x, i = layers.data("x", [3]), layers.data("i", [3], dtype="int64")
    with raises(core.DTypeError, "elementwise_add", "float32", "int64"):
        layers.elementwise_add(x, i)
    with raises(core.DTypeError, "lookup_table", "int64", "float32"):
        layers.embedding(layers.scale(x, 1.0), [10, 2])


def test_a_type_without_a_kernel_is_refused_on_the_line_that_adds_the_operator(line):
    i = layers.data("i", [3], dtype="int64")
    with raises(core.DTypeError, "tanh: input X 'i' is int64, but there are kernels for float16, float32, float64, bfloat16 only", line(1)):
        layers.tanh(i)
    block = fluid.default_main_program().global_block()
    with raises(core.DTypeError, "gaussian_random: output Out 'noise' is int64", "float32", line(1)):
        block.append_op(type="gaussian_random", outputs={"Out": "noise"}, attrs={"shape": [2], "dtype": core.VarDesc.VarType.INT64})
    assert block.ops == [] and not block.has_var("noise")


def test_a_type_that_is_not_known_yet_is_not_refused(exe):
    block = fluid.default_main_program().global_block()
    block.create_var(name="late")
    block.append_op(type="tanh", inputs={"X": "late"}, outputs={"Out": "out"})
    block.prepend_op(type="fill_constant", outputs={"Out": "late"}, attrs={"shape": [2], "dtype": core.VarDesc.VarType.FP32})
    np.testing.assert_array_equal(exe.run(fetch_list=["out"])[0], [0, 0])


def test_unknown_operators_and_slots():
    block = fluid.default_main_program().global_block()
    x = layers.data("x", [3])
    with raises(core.NotFoundError, "there is no operator 'sclae'; did you mean 'scale'?"):
        block.append_op(type="sclae", inputs={"X": x}, outputs={"Out": "y"})
    with raises(core.EnforceNotMet, "scale: there is no input named Y"):
        block.append_op(type="scale", inputs={"X": x, "Y": x}, outputs={"Out": "y"})
    with raises(core.EnforceNotMet, "scale", "X"):
        block.append_op(type="scale", outputs={"Out": "y"})
    with raises(core.NotFoundError, "nobody"):
        block.append_op(type="scale", inputs={"X": "nobody"}, outputs={"Out": "y"})
    with raises(AttributeError, "there is no operator 'sigmiod'; did you mean 'sigmoid'"):
        fluid.operator.sigmiod
    with raises(ValueError, "there is no operator 'sclae'; did you mean 'scale'"):
        fluid.operator.create_operator("sclae", input=[x])


def test_unknown_and_wrong_attributes():
    block = fluid.default_main_program().global_block()
    x = layers.data("x", [3])

    def scale(**attrs):
        block.append_op(type="scale", inputs={"X": x}, outputs={"Out": "y"}, attrs=attrs)

    with raises(core.EnforceNotMet, "scale", "'slope'"):
        scale(slope=1.0)
    with raises(TypeError, "scale: attribute 'scale' is FLOAT, got 'two'"):
        scale(scale="two")
    with raises(TypeError, "attribute 'bias_after_scale' is BOOLEAN, got 7"):
        scale(bias_after_scale=7)
    with raises(TypeError, "concat: attribute 'axis' is INT, got 1.5"):
        layers.concat([x, x], axis=1.5)
    with raises(TypeError, "attribute 'axis' is INT", "outside [-2147483648, 2147483648)"):
        layers.concat([x, x], axis=1 << 40)
    with raises(TypeError, "scale has no input, output or attribute 'skale'; did you mean 'scale'"):
        fluid.operator.scale(X=x, skale=2.0)
    with raises(TypeError, "mul: input Y is missing"):
        fluid.operator.mul(X=x)


def test_values_out_of_range():
    x = layers.data("x", [3])
    with raises(core.RangeError, "elementwise_add", "axis", "-7"):
        fluid.operator.elementwise_add(X=x, Y=x, axis=-7)
    with raises(core.EnforceNotMet, "pool2d", "pooling_type", "median"):
        fluid.operator.pool2d(X=layers.data("image", [1, 8, 8]), pooling_type="median", ksize=[2, 2])
    with raises(ValueError, "dropout_prob must be in [0, 1], got 1.5"):
        layers.dropout(x, 1.5)


@pytest.mark.parametrize("call, text", [
    (lambda x: layers.fc(x, 0), "fc: size must be a positive int, got 0"),
    (lambda x: layers.fc("x", 3), "fc: input must be a Variable, got 'x'"),
    (lambda x: layers.fc(x, 3, act="relo"), "fc: act must be one of"),
    (lambda x: layers.fc(x, 3, num_flatten_dims=5), "cannot be flattened after 5 dimensions"),
    (lambda x: layers.fc(x, 3, param_attr=7), "got 7"),
    (lambda x: layers.embedding(x, [10]), "embedding: size must be [rows, width], got [10]"),
    (lambda x: layers.conv2d(x, 3, 3), "conv2d: input must be [n, channels, height, width]"),
    (lambda x: layers.pool2d(x, 2, pool_type="sum"), "pool_type must be 'max' or 'avg', got 'sum'"),
    (lambda x: layers.transpose(x, [0]), "has 2 dimensions, perm is [0]"),
    (lambda x: layers.data("", [1]), "name must be a string with at least one letter, got ''"),
    (lambda x: layers.data("y", [1], dtype="float31"), "dtype must be one of bool, int16"),
    (lambda x: layers.create_parameter([0, 2], "float32"), "dimensions of a parameter must be positive, got [0, 2]"),
    (lambda x: layers.While(x), "While: cond must be bool"),
    (lambda x: layers.piecewise_decay([10], [0.1]), "1 boundaries need 2 values, got 1"),
    (lambda x: layers.relu(x, slope=1), "relu takes x, name; got slope=1"),
    (lambda x: fluid.optimizer.SGD("fast"), "learning_rate must be a number or a Variable, got 'fast'"),
    (lambda x: fluid.optimizer.Adam(beta1=1.0), "beta1 must be in [0, 1), got 1.0"),
    (lambda x: fluid.optimizer.SGD(-0.1), "SGDOptimizer: learning_rate must be a finite number of at least 0, got -0.1"),
    (lambda x: fluid.optimizer.SGD(float("nan")), "learning_rate must be a finite number of at least 0, got nan"),
    (lambda x: fluid.optimizer.SGD(float("inf")), "learning_rate must be a finite number of at least 0, got inf"),
    (lambda x: fluid.optimizer.Momentum(0.1, float("nan")), "MomentumOptimizer: momentum must be in [0, 1], got nan"),
    (lambda x: fluid.optimizer.Momentum(0.1, "much"), "momentum must be a number, got 'much'"),
    (lambda x: fluid.optimizer.LarsMomentum(0.1, 0.9, lars_weight_decay=-1), "lars_weight_decay must be a finite number of at least 0"),
    (lambda x: fluid.optimizer.Adagrad(0.1, epsilon=-1e-6), "epsilon must be a finite number of at least 0, got -1e-06"),
    (lambda x: fluid.optimizer.Adagrad(0.1, initial_accumulator_value=-1), "initial_accumulator_value must be"),
    (lambda x: fluid.optimizer.DecayedAdagrad(0.1, decay=1.5), "decay must be in [0, 1], got 1.5"),
    (lambda x: fluid.optimizer.Adam(epsilon=float("inf")), "AdamOptimizer: epsilon must be a finite number"),
    (lambda x: fluid.optimizer.Adamax(beta2=float("nan")), "beta2 must be in [0, 1), got nan"),
    (lambda x: fluid.optimizer.Adadelta(0.1, rho=-0.5), "rho must be in [0, 1], got -0.5"),
    (lambda x: fluid.optimizer.RMSProp(0.1, momentum=-0.5), "momentum must be in [0, 1], got -0.5"),
    (lambda x: fluid.optimizer.Ftrl(0.1, l1=-1), "FtrlOptimizer: l1 must be a finite number of at least 0"),
    (lambda x: fluid.optimizer.Ftrl(0.1, lr_power=0.5), "lr_power must be a finite number of at most 0, got 0.5"),
    (lambda x: fluid.ParamAttr(learning_rate=-1.0), "ParamAttr: learning_rate must be a finite number of at least 0, got -1.0"),
    (lambda x: fluid.regularizer.L2Decay(float("nan")), "L2DecayRegularizer: regularization_coeff must be a finite number"),
    (lambda x: fluid.clip.GradientClipByGlobalNorm(float("nan")), "clip_norm must be above 0, got nan"),
    (lambda x: fluid.clip.GradientClipByNorm(-1.0), "clip_norm must be above 0, got -1.0"),
    (lambda x: fluid.clip.GradientClipByValue(float("nan")), "min must not be above max"),
    (lambda x: layers.exponential_decay(-0.1, 10, 0.5), "exponential_decay: learning_rate must be a finite number of at least 0, got -0.1"),
    (lambda x: layers.exponential_decay(0.1, 0, 0.5), "exponential_decay: decay_steps must be a finite number above 0, got 0"),
    (lambda x: layers.natural_exp_decay(0.1, 10, float("inf")), "natural_exp_decay: decay_rate must be a finite number, got inf"),
    (lambda x: layers.inverse_time_decay(0.1, 10, -1), "inverse_time_decay: decay_rate must be"),
    (lambda x: layers.polynomial_decay(0.1, 10, -0.1), "polynomial_decay: end_learning_rate must be"),
    (lambda x: layers.piecewise_decay([10], [0.1, float("nan")]),
     "piecewise_decay: values[1] must be a finite number of at least 0, got nan"),
    (lambda x: layers.noam_decay(0, 10), "noam_decay: d_model must be a finite number above 0, got 0"),
    (lambda x: layers.cosine_decay(0.1, 10, 0), "cosine_decay: epochs must be"),
    (lambda x: layers.linear_lr_warmup(0.1, 10, -0.1, 0.1), "linear_lr_warmup: start_lr must be"),
    (lambda x: fluid.optimizer.SGD(0.1).minimize(3), "minimize: loss must be a Variable, got 3"),
    (lambda x: fluid.optimizer.SGD(0.1).minimize(x), "the loss must have one element"),
    (lambda x: fluid.initializer.Uniform(1.0, 1.0), "low must be below high, got low=1.0, high=1.0"),
    (lambda x: fluid.Executor("gpu"), "the place must be CPUPlace(), got 'gpu'"),
    (lambda x: fluid.default_main_program().global_block().var("xx"), "no variable 'xx'; did you mean 'x'?"),
    (lambda x: fluid.program_guard("main").__enter__(), "program_guard takes Programs, got 'main'"),
    (lambda x: fluid.reader.batch(None, 0), "batch_size=0; a whole number from 1"),
    (lambda x: core.LoDTensor().set(np.array(["a"])), "no tensor can hold a NumPy array of <U1"),
])
def test_a_wrong_argument_is_shown(call, text):
    x = layers.data("x", [3])
    with raises(Exception, text):
        call(x)


def test_feeds_that_do_not_fit(exe, line):
    x = layers.data("x", [3])
    y = layers.exp(x)
    good = np.ones((2, 3), "float32")
    with raises(core.ShapeError, "feed 'x' has the shape [3], the program wants [?, 3]", line(1)):
        exe.run(feed={"x": np.ones(3, "float32")}, fetch_list=[y])
    with raises(core.DTypeError, "feed 'x' is float64, the program wants float32: give x.astype('float32')", line(1)):
        exe.run(feed={"x": np.ones((2, 3))}, fetch_list=[y])
    with raises(core.NotFoundError, "feed 'xx' is no variable of the program; did you mean 'x'?"):
        exe.run(feed={"xx": good}, fetch_list=[y])
    with raises(core.EnforceNotMet, "'x'", "fed"):
        exe.run(fetch_list=[y])
    assert exe.run(feed={"x": good}, fetch_list=[y])[0].shape == (2, 3)     # and it goes on


def test_fetches_that_are_not_there(exe):
    x = layers.data("x", [3])
    with raises(core.NotFoundError, "loss"):
        exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=["loss"])
    with raises(TypeError, "fetch_list must be a list, got Variable('x'"):
        exe.run(fetch_list=x)
    with raises(TypeError, "fetch_list holds Variables or names, got 3"):
        exe.run(fetch_list=[3])
    with raises(TypeError, "program must be a Program, got 'main'"):
        exe.run("main")
    with raises(TypeError, "feed must be a dict of names to arrays, got 7"):
        exe.run(feed=7)


def test_parameters_without_a_value(exe):
    y = layers.fc(layers.data("x", [3]), 2)
    with raises(core.EnforceNotMet, "fc_0.w_0"):
        exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[y])


def test_a_runtime_mistake_names_the_line_that_made_the_operator(exe, line):
    ids = layers.data("ids", [1], dtype="int64")
    rows, made = layers.embedding(ids, [10, 2]), line()
    exe.run(fluid.default_startup_program())
    with raises(core.EnforceNotMet, "lookup_table", "10", made):
        exe.run(feed={"ids": np.array([[10]])}, fetch_list=[rows])


def test_shapes_that_only_the_run_shows(exe):
    x, y = layers.data("x", [None], append_batch_size=False), layers.data("y", [None], append_batch_size=False)
    z = layers.elementwise_add(x, y)
    with raises(core.ShapeError, "elementwise_add", "3", "4"):
        exe.run(feed={"x": np.ones(3, "float32"), "y": np.ones(4, "float32")}, fetch_list=[z])


def test_nan_is_found_when_looked_for():
    x = layers.data("x", [1])
    y = layers.log(x)
    feed = {"x": np.array([[-1.0]], "float32")}
    assert np.isnan(fluid.Executor().run(feed=feed, fetch_list=[y])[0]).all()
    with raises(core.NotFiniteError, "log", y.name) as error:
        fluid.Executor(check_nan=True).run(feed=feed, fetch_list=[y])
    assert isinstance(error.value, ArithmeticError)


def test_damaged_programs_are_refused(tmp_path):
    layers.fc(layers.data("x", [3]), 2)
    data = fluid.default_main_program().serialize_to_string()
    for cut in (1, 7, len(data) // 2, len(data) - 1):
        with raises(core.FormatError):
            fluid.Program.parse_from_string(data[:cut])
    path = tmp_path / "__model__"
    path.write_bytes(data[:-5])
    with raises(core.FormatError, "__model__"):
        fluid.io.load_program(str(path))
    with raises(core.FileError, "nowhere"):
        fluid.io.load_program("nowhere")


def test_damaged_parameters_are_refused(exe, tmp_path):
    layers.fc(layers.data("x", [3]), 2)
    exe.run(fluid.default_startup_program())
    fluid.io.save_params(exe, str(tmp_path))
    path = tmp_path / "fc_0.w_0"
    data = path.read_bytes()
    path.write_bytes(data[:-4])
    with raises(core.EnforceNotMet, "fc_0.w_0"):
        fluid.io.load_params(exe, str(tmp_path))
    os.remove(path)
    with raises(core.FileError, "fc_0.w_0"):
        fluid.io.load_params(exe, str(tmp_path))
    path.write_bytes(data)
    fluid.io.load_params(exe, str(tmp_path))


def test_loops_that_cannot_end():
    cond = layers.less_than(layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 1))
    loop = layers.While(cond)
    with raises(ValueError, "the block never changes", "it would not end"):
        with loop.block():
            layers.fill_constant([1], "float32", 1.0)


def test_samples_that_do_not_fit():
    x = layers.data("x", [2])
    feeder = fluid.DataFeeder([x])
    with raises(ValueError, "sample 1 has 2 fields, the feed list 1: x"):
        feeder.feed([([1, 2],), ([1, 2], 3)])
    with raises(ValueError, "feed 'x': 2 samples do not make a float32 array of [2, 2]"):
        feeder.feed([([1, 2],), ([1, 2, 3],)])


def test_all_codes_have_their_class():
    kinds = {cls.status: cls for cls in core.EnforceNotMet.__subclasses__()}
    assert kinds["ENOTFOUND"] is core.NotFoundError and issubclass(core.NotFoundError, KeyError)
    assert issubclass(core.ShapeError, ValueError) and issubclass(core.DTypeError, TypeError)
    assert issubclass(core.FileError, OSError) and issubclass(core.EnforceNotMet, RuntimeError)
    assert str(core.NotFoundError("no 'x'")) == "no 'x'"


def test_a_failure_before_a_run_without_fetches_keeps_its_message():
    def fail(*args):
        raise TypeError("the real reason")

    exe = fluid.Executor()
    exe._steps = SimpleNamespace(before_run=fail)      # as in a job
    with raises(TypeError, "the real reason"):
        exe.run(fluid.default_main_program())


@pytest.mark.parametrize("rate", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("optimizer", [fluid.optimizer.SGD, fluid.optimizer.Adam, fluid.optimizer.Adagrad,
                                       lambda rate: fluid.optimizer.LarsMomentum(rate, 0.9)])
def test_a_rate_that_is_set_by_hand_must_make_sense(exe, optimizer, rate):
    x = layers.data("x", [3])
    made = optimizer(0.1)
    made.minimize(layers.mean(layers.fc(x, 1)))
    exe.run(fluid.default_startup_program())
    name = made._global_learning_rate().name
    fluid.global_scope().var(name).get_tensor().set(np.array([rate], "float32"), fluid.CPUPlace())
    with raises(ValueError, f"the learning rate in '{name}' is {rate:g}; it must be finite and at least 0"):
        exe.run(feed={"x": np.ones((2, 3), "float32")})
