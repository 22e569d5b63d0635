"""sum_of_squares against fractions: the nearest number, whatever comes together."""

from fractions import Fraction

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.parameters.layer_helper import LayerHelper


def total(exe, arrays):
    """Run the operator on arrays."""
    inputs = [layers.data(f"x{i}", list(a.shape), append_batch_size=False, dtype=str(a.dtype)) for i, a in enumerate(arrays)]
    out = LayerHelper("sum_of_squares").append("sum_of_squares", {"X": inputs})
    got, = exe.run(feed={f"x{i}": a for i, a in enumerate(arrays)}, fetch_list=[out])
    assert got.shape == (1,) and got.dtype == arrays[0].dtype
    return got[0]


def nearest(value, dtype):
    """Return the nearest number to a fraction, of two the even one."""
    guess = dtype(float(value))                             # off by one at most
    near = [guess, np.nextafter(guess, dtype(0)), np.nextafter(guess, dtype(np.inf))]
    near = [number for number in near if np.isfinite(number)]
    bits = np.uint32 if dtype is np.float32 else np.uint64
    return min(near, key=lambda number: (abs(Fraction(float(number)) - value), number.view(bits) & 1))


MAKERS = {
    "gradients": lambda rng, n: rng.standard_normal(n) * 1e-3,
    "far apart": lambda rng, n: rng.standard_normal(n) * 10.0 ** rng.integers(-12, 12, n),
    "some huge": lambda rng, n: np.where(rng.random(n) < 0.001, 1e15, 1e-15) * rng.standard_normal(n),
    "subnormal": lambda rng, n: rng.standard_normal(n) * 1e-40,
    "mostly zeros": lambda rng, n: np.where(rng.random(n) < 0.01, rng.standard_normal(n), 0.0),
    "ties": lambda rng, n: np.concatenate([[1.0], np.full(n - 1, 2.0 ** -12)]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MAKERS)
def test_the_sum_of_squares_is_the_nearest_number(exe, rng, name, dtype):
    arrays = [MAKERS[name](rng, n).astype(dtype) for n in (1, 2, 1023, 1024, 5000)]
    want = nearest(sum(Fraction(float(v)) ** 2 for a in arrays for v in a), dtype)
    assert total(exe, arrays) == want


def test_nan_and_infinities_pass(exe):
    big = np.full(3, 3e38, "float32")
    assert np.isinf(total(exe, [big]))


@pytest.mark.parametrize("bad, want", [([1.0, np.nan, np.inf], np.nan), ([1.0, -np.inf], np.inf)])
def test_nan_and_infinity_pass(exe, bad, want):
    np.testing.assert_equal(total(exe, [np.array(bad, "float32"), np.ones(3, "float32")]), np.float32(want))


def test_two_types_are_explained():
    x, y = layers.data("x", [2]), layers.data("y", [2], dtype="float64")
    with pytest.raises(fluid.errors.TriremeError, match=r"sum_of_squares: X\[0\] is float32, so X\[1\] must be, too; got float64"):
        LayerHelper("sum_of_squares").append("sum_of_squares", {"X": [x, y]})
