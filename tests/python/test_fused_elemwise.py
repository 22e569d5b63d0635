"""fused_elemwise_activation as the operator tests of Fluid have it: all pairs of functions, each argument as the smaller one, any axis,
with gradients."""

import numpy as np
import pytest

import trireme as fluid

BINARY = {"elementwise_add": np.add, "elementwise_mul": np.multiply}
UNARY = {"scale": lambda a: 0.1 * a, "relu": lambda a: np.maximum(a, 0), "tanh": np.tanh, "sigmoid": lambda a: 1 / (1 + np.exp(-a))}
SHAPES = {                                             # the larger one, the smaller one, the axis, and the smaller one as NumPy repeats it
    "equal": ([5, 7], [5, 7], -1, [5, 7]),
    "one number": ([2, 3, 4], [1], -1, [1]),
    "one number of two dimensions": ([2, 3, 4], [1, 1], -1, [1]),
    "vectors": ([32], [32], -1, [32]),
    "first": ([2, 3, 4], [2], 0, [2, 1, 1]),
    "middle": ([2, 3, 4], [3], 1, [3, 1]),
    "last": ([2, 3, 4], [4], -1, [4]),
    "two in the middle": ([2, 3, 4, 5], [3, 4], 1, [3, 4, 1]),
    "ones at its end": ([2, 3, 4, 5], [2, 1], 0, [2, 1, 1, 1]),
    "rows": ([2, 3, 4], [3, 4], 1, [3, 4]),
    "one column": ([2, 1], [1], 1, [1]),
    "channels, of as many dimensions": ([3, 5, 5], [3, 1, 1], -1, [3, 1, 1]),
}


def numeric(function, arrays, which, step=1e-6):
    """The gradient of the sum of what the function gives."""
    found = np.zeros(arrays[which].shape)
    for place in np.ndindex(found.shape):
        sides = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[which][place] += sign * step
            sides.append(function(*moved).sum())
        found[place] = (sides[0] - sides[1]) / (2 * step)
    return found


@pytest.mark.parametrize("order", ["binary first", "unary first"])
@pytest.mark.parametrize("x_is_small", [False, True], ids=["Y into X", "X into Y"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_fused_operator_computes_both_functions_and_their_gradients(name, x_is_small, order):
    large, small, axis, repeated = SHAPES[name]
    shapes = [small, large] if x_is_small else [large, small]
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.1, 1, shape) for shape in shapes]
    views = [repeated, large] if x_is_small else [large, repeated]
    for binary in BINARY:
        for unary in UNARY:
            functors = [binary, unary] if order == "binary first" else [unary, binary]
            with fluid.program_guard(fluid.Program(), fluid.Program()):
                block = fluid.default_main_program().global_block()
                names = [block.create_var(name=name, shape=shape, dtype="float64", stop_gradient=False) for name,
                         shape in zip("xy", shapes)]
                out, middle = (block.create_var(name=name, dtype="float64") for name in ("out", "middle"))
                block.append_op(type="fused_elemwise_activation", inputs={"X": [names[0]], "Y": [names[1]]},
                                outputs={"Out": [out], "IntermediateOut": [middle]},
                                attrs={"axis": axis, "scale": 0.1, "functor_list": functors, "save_intermediate_out": True})
                assert list(out.shape) == large
                grads = fluid.backward.gradients(fluid.layers.reduce_sum(out), names)
                got = fluid.Executor().run(feed=dict(zip("xy", arrays)), fetch_list=[out, middle, *grads])

            def both(x, y):
                x, y = x.reshape(views[0]), y.reshape(views[1])
                return BINARY[binary](x, UNARY[unary](y)) if order == "binary first" else UNARY[unary](BINARY[binary](x, y))

            between = UNARY[unary](arrays[1]) if order == "binary first" else BINARY[binary](*[a.reshape(v) for a, v in zip(arrays, views)])
            np.testing.assert_allclose(got[0], both(*arrays), rtol=2e-7)
            np.testing.assert_allclose(got[1], between, rtol=2e-7)
            for which in range(2):
                np.testing.assert_allclose(got[2 + which], numeric(both, arrays, which), rtol=1e-6, atol=1e-8, err_msg=str(functors))
