"""Values and gradients at 0 and at the ends of domains: finite where Fluid, NumPy or PyTorch has a finite value, and never 0 / 0 or 0 times
infinity."""

import sys

import numpy as np
import pytest
from job_support import SCRIPT
from operator_cases import cases_of, run_case
from second_gradient_cases import CASES as SMALL_CASES
from second_gradient_cases import REFUSED, Case

import trireme as fluid
from trireme.errors import TriremeError
from trireme.program.op_protos import op_proto, op_types

sys.path.insert(0, str(SCRIPT.parent))
import every_operator  # it appends any operator's case to a program

L = fluid.layers
ROWS = np.float32([[0, 0, 0], [1, 2, 3]])
COMMON = np.float32([[-1000, -88.8, 0], [88, 1, 1000]])


def column(*values):
    return L.assign(np.float32(values).reshape(-1, 1))


CASES = {                                              # a layer, and what it is tried at
    "cos_sim with itself": (lambda x: L.cos_sim(x, x), ROWS),
    "cos_sim": (lambda x: L.cos_sim(x, L.assign(np.ones((2, 3), "float32"))), ROWS),
    "cos_sim of one row": (lambda x: L.cos_sim(L.assign(np.ones((2, 3), "float32")), L.slice(x, [0], [0], [1])), ROWS),
    "l2_normalize": (lambda x: L.l2_normalize(x, axis=1), ROWS),
    "layer_norm of equal numbers": (lambda x: L.layer_norm(x), np.ones((2, 3), "float32")),
    "batch_norm of one row": (lambda x: L.batch_norm(x), ROWS[:1]),
    "pow 0": (lambda x: L.pow(x, 0.0), ROWS),
    "pow 1": (lambda x: L.pow(x, 1.0), ROWS),
    "pow 2": (lambda x: L.pow(x, 2.0), ROWS),
    "elementwise_pow 0": (lambda x: L.elementwise_pow(x, L.assign(np.zeros((2, 3), "float32"))), ROWS),
    "elementwise_pow of 0": (lambda x: L.elementwise_pow(L.assign(np.zeros((2, 3), "float32")), x), ROWS),
    "reduce_prod": (lambda x: L.reduce_prod(x, dim=1), np.float32([[0, 2, 3], [0, 0, 4]])),
    "reduce_prod of columns": (lambda x: L.reduce_prod(x, dim=0), ROWS),
    "abs": (L.abs, ROWS), "square": (L.square, ROWS), "sign": (L.sign, ROWS), "softsign": (L.softsign, ROWS), "relu": (L.relu, ROWS),
    "sigmoid": (L.sigmoid, COMMON), "logsigmoid": (L.logsigmoid, COMMON), "softplus": (L.softplus, COMMON), "tanh": (L.tanh, COMMON),
    "elu": (L.elu, COMMON), "swish": (L.swish, COMMON), "softmax": (L.softmax, COMMON * 1e30),
    "log_loss": (lambda x: L.log_loss(x, column(0, 1, 0, 1)), np.float32([[0], [1], [1], [0]])),
    "huber_loss": (lambda x: L.huber_loss(x, column(0, 1), 1.0), np.float32([[0], [1]])),
    "smooth_l1": (lambda x: L.smooth_l1(x, L.assign(ROWS)), ROWS),
    "kldiv_loss": (lambda x: L.kldiv_loss(x, L.assign(np.zeros((2, 3), "float32")), "mean"), ROWS),
    "rank_loss": (lambda x: L.rank_loss(column(0, 1), x, x), np.float32([[0], [1000]])),
    "cross_entropy of softmax": (lambda x: L.cross_entropy(L.softmax(x), L.cast(column(1, 0), "int64")), COMMON),
    "sigmoid cross entropy": (lambda x: L.sigmoid_cross_entropy_with_logits(x, L.assign(np.zeros((2, 3), "float32"))), COMMON),
    "softmax cross entropy": (lambda x: L.softmax_with_cross_entropy(x, L.cast(column(0, 2), "int64")), COMMON),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_finite(name):
    layer, at = CASES[name]
    x = L.data("x", list(at.shape[1:]))
    x.stop_gradient = False
    out = layer(x)
    grad, = fluid.backward.gradients(L.reduce_sum(out), [x])
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    for value in exe.run(feed={"x": at}, fetch_list=[out, grad]):
        assert np.isfinite(value).all(), value


def gradient(layer, at):
    x = L.data("x", list(at.shape[1:]))
    x.stop_gradient = False
    grad, = fluid.backward.gradients(L.reduce_sum(layer(x)), [x])
    return fluid.Executor().run(feed={"x": np.float32(at)}, fetch_list=[grad])[0]


def test_the_gradient_of_a_product_is_the_product_of_the_others():
    at = np.float32([[0, 2, 3], [0, 0, 4], [5, 1, 2]])
    np.testing.assert_array_equal(gradient(lambda x: L.reduce_prod(x, dim=1), at), [[6, 0, 0], [0, 0, 0], [2, 10, 5]])
    np.testing.assert_array_equal(gradient(lambda x: L.reduce_prod(x, dim=0), at), [[0, 0, 8], [0, 2, 6], [0, 0, 12]])


def test_a_gradient_of_zero_leaves_a_parameter_that_has_had_none():
    """Not 0 / 0: the first step of an embedding's other rows, or a batch without samples."""
    start = np.float32([1, -2])
    program = fluid.Program()
    block = program.global_block()
    for name, shape in (("p", [2]), ("m", [2]), ("g", [2]), ("rate", [1])):
        block.create_var(name=name, shape=shape, dtype="float32", is_data=True)
    for name in ("p_out", "m_out"):
        block.create_var(name=name, dtype="float32")
    block.append_op(type="proximal_adagrad", inputs={"Param": ["p"], "Moment": ["m"], "Grad": ["g"], "LearningRate": ["rate"]},
                    outputs={"ParamOut": ["p_out"], "MomentOut": ["m_out"]})
    got = fluid.Executor().run(program, feed={"p": start, "m": np.zeros(2, "float32"), "g": np.zeros(2, "float32"),
                                              "rate": np.float32([0.1])},
                               fetch_list=["p_out", "m_out"])
    np.testing.assert_array_equal(got, [start, [0, 0]])


# -- every operator, with one number in place of all floating-point numbers ----------------------------------------------

NUMBERS = (0.0, 1e-30, 1e4, -1e4)
AT_0 = "the value or the slope at 0 is infinite"
SMALL = "beyond float32"
LARGE = "beyond the largest number"
DOMAIN = "outside of its domain"
NOT_FINITE = {                                         # at these numbers, and why
    "log": {0.0: AT_0, -1e4: DOMAIN}, "sqrt": {0.0: AT_0, -1e4: DOMAIN}, "rsqrt": {0.0: AT_0, 1e-30: SMALL, -1e4: DOMAIN},
    "reciprocal": {0.0: AT_0, 1e-30: SMALL}, "elementwise_div": {0.0: AT_0, 1e-30: SMALL},
    "cross_entropy": {0.0: AT_0, -1e4: DOMAIN}, "cross_entropy2": {0.0: AT_0, -1e4: DOMAIN},       # -1 / X; softmax gives no 0
    "acos": {1e4: DOMAIN, -1e4: DOMAIN}, "asin": {1e4: DOMAIN, -1e4: DOMAIN},
    "exp": {1e4: LARGE}, "pow": {-1e4: DOMAIN}, "elementwise_pow": {1e4: LARGE, -1e4: DOMAIN},
    "linear_chain_crf": {1e4: LARGE, -1e4: "no way through the classes has a probability: exp(Transition) is all of it"},
    "cvm": {-1e4: DOMAIN}, "sample_logits": {-1e4: DOMAIN},                                        # logarithms of counts and probabilities
    "batch_norm": {-1e4: "a variance below 0"}, "adadelta": {-1e4: "a mean of squares below 0"}, "lamb": {1e4: "powers of beta above 1"},
}


def filled(value, number):
    """A value with a number in place of each floating-point number."""
    array = np.array(value)
    if array.dtype.kind != "f":
        return value
    array = np.full_like(array, number)
    if not isinstance(value, fluid.LoDTensor):
        return array
    tensor = fluid.LoDTensor()
    tensor.set(array)
    tensor.set_lod(value.lod())
    return tensor


def is_finite(values):
    arrays = [np.array(value.get_tensor() if isinstance(value, fluid.core.SelectedRows) else value) for value in values]
    return all(array.dtype.kind != "f" or np.isfinite(array).all() for array in arrays)


def of_tables(number):
    """The operators of the table of small cases that give something that is not finite."""
    exe = fluid.Executor()
    for name in SMALL_CASES:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            case = Case(name)
            grads = [grad for grad in fluid.backward.gradients(case.out, list(case.wanted)) if grad is not None]
            try:
                if not is_finite(case.run(exe, {name: filled(value, number) for name, value in case.feeds.items()}, [case.out, *grads])):
                    yield name.split(",")[0]
            except TriremeError:
                assert number                          # such labels are refused


def of_recurrent_ones(number):
    """The same of those that have no second gradient: all parameters are the number, too."""
    for name in sorted(set(REFUSED) - {"merge_lod_tensor", "py_func"}):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            x = L.data("x", [4, 4], append_batch_size=False, dtype="float64")
            x.stop_gradient = False
            out, exe = REFUSED[name](x), fluid.Executor()
            wanted = [x, *fluid.default_main_program().all_parameters()]
            grads = [grad for grad in fluid.backward.gradients(out, wanted) if grad is not None]
            exe.run(fluid.default_startup_program())
            for param in wanted[1:]:
                tensor = fluid.global_scope().find_var(param.name).get_tensor()
                tensor.set(np.full(tensor.shape(), number))
            if not is_finite(exe.run(feed={"x": np.full((4, 4), number)}, fetch_list=[out, *grads], return_numpy=False)):
                yield name


def gradients_of(case):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        loss, feeds = every_operator.append_case(case)
        grads = [grad for _, grad in fluid.backward.append_backward(loss)]
        fluid.Executor().run(fluid.default_startup_program())
        return fluid.Executor().run(feed=feeds, fetch_list=grads)


def of_own_tests(number, folder):
    """The same of the cases with which the operators' own tests run them: optimizers among them, and batches without rows."""
    for type_ in (type_ for type_ in op_types() if not type_.endswith(("_grad", "_grad2"))):
        for case in cases_of(type_, folder):
            case.values = {name: filled(value, number) for name, value in case.values.items()}
            try:
                values = run_case(case.program, case, case.fetches)
                values += gradients_of(case) if op_proto(type_).has_grad else []
            except (TriremeError, TypeError):
                continue                               # a mistake on purpose, or what cannot be fetched
            if not is_finite(values):
                yield type_


@pytest.mark.parametrize("number", NUMBERS)
def test_every_operator_gives_finite_numbers_or_its_reason_is_known(number, tmp_path):
    known = {type_ for type_, reasons in NOT_FINITE.items() if number in reasons}
    found = {*of_tables(number), *of_recurrent_ones(number), *of_own_tests(number, tmp_path)}
    assert found == known


# -- what has a value of its own at 0 --------------------------------------------------------------------------------------


def test_an_improbable_class_has_the_gradient_of_softmax_and_cross_entropy_together():
    at = np.float32([[1000, 0, 0], [0, -200, 5]])
    label = lambda: L.cast(column(1, 1), "int64")
    apart = gradient(lambda x: L.cross_entropy(L.softmax(x), label()), at)
    with fluid.program_guard(fluid.Program()):
        np.testing.assert_allclose(apart, gradient(lambda x: L.softmax_with_cross_entropy(x, label()), at), rtol=1e-5)
    np.testing.assert_allclose(apart[0], [1, -1, 0], atol=1e-6)


def run_operator(type_, inputs, outputs, **attrs):
    program = fluid.Program()
    block = program.global_block()
    for name, value in inputs.items():
        block.create_var(name=name, shape=list(value.shape), dtype=str(value.dtype), is_data=True)
    for name in outputs:
        block.create_var(name=f"{name}.out", dtype="float32")
    block.append_op(type=type_, inputs={name: [name] for name in inputs}, outputs={name: [f"{name}.out"] for name in outputs}, attrs=attrs)
    return fluid.Executor().run(program, feed=inputs, fetch_list=[f"{name}.out" for name in outputs])


def test_a_rate_of_zero_leaves_what_ftrl_has_as_it_is():
    start, some = np.float32([1, -2]), np.float32([0.5, 0])
    got = run_operator("ftrl", {"Param": start, "SquaredAccumulator": some, "LinearAccumulator": -some, "Grad": some,
                                "LearningRate": np.float32([0])},
                       ["ParamOut", "SquaredAccumOut", "LinearAccumOut"])
    np.testing.assert_array_equal(got, [start, some, -some])


def test_statistics_of_no_rows_leave_data_as_they_are():
    x, none = np.float32([[1, 2], [3, 4]]), np.zeros(2, "float32")
    got, = run_operator("data_norm", {"X": x, "BatchSize": none, "BatchSum": none, "BatchSquareSum": none}, ["Y"])
    np.testing.assert_array_equal(got, x)


def test_a_weight_of_zeros_stays_zero_under_spectral_norm():
    got, = run_operator("spectral_norm", {"Weight": np.zeros((2, 3), "float32"), "U": np.ones(2, "float32"), "V": np.ones(3, "float32")},
                        ["Out"])
    np.testing.assert_array_equal(got, np.zeros((2, 3)))
