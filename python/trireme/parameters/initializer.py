"""First values of parameters.

An initializer appends one operator to the startup program. Random ones draw element i of a parameter from
(program seed, operator seed, i) alone, so that a parameter starts with the same bits wherever it lives and
however it is cut.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..native.dtypes import VarType, constant_for
from ..program import Block, Operator, Variable


def force_init_on_cpu() -> bool:
    """Return False: every value begins on the processor, so none is forced to.

    >>> fluid.initializer.force_init_on_cpu()
    False
    """
    return False


@contextlib.contextmanager
def init_on_cpu() -> Iterator[None]:
    """Change nothing inside the ``with``: every value begins on the processor.

    >>> with fluid.initializer.init_on_cpu():
    ...     rate = fluid.layers.fill_constant([1], "float32", 0.1)
    """
    yield


class Initializer:
    """Base: ``initializer(variable, block)`` appends the operator that gives the variable its value.

    A class of your own appends an operator with ``var`` as its output:

    >>> class Ones(fluid.initializer.Initializer):
    ...     def __call__(self, var, block):
    ...         attrs = {"shape": list(var.shape), "dtype": var.dtype, "value": 1.0}
    ...         return block.prepend_op(type="fill_constant", outputs={"Out": [var]}, attrs=attrs)
    >>> w = fluid.layers.create_parameter([2], "float32", "w", default_initializer=Ones())
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> fluid.executor.fetch_var("w")
    array([1., 1.], dtype=float32)
    """

    def __call__(self, var: Variable, block: Block) -> Operator:
        raise NotImplementedError(f"{type(self).__name__} does not say how it initialises")

    def __repr__(self) -> str:
        values = ", ".join(f"{k.lstrip('_')}={v!r}" for k, v in self.__dict__.items())
        return f"{type(self).__name__}({values})"

    @staticmethod
    def _fans(var: Variable) -> tuple[float, float]:
        """Return how many inputs and outputs one unit has: of a matrix its sides, of a filter with its window."""
        shape = [dim or 1 for dim in var.shape]
        if len(shape) < 2:
            return float(shape[0] if shape else 1), float(shape[0] if shape else 1)
        if len(shape) == 2:
            return float(shape[0]), float(shape[1])
        window = math.prod(shape[2:])
        return float(shape[1] * window), float(shape[0] * window)


def _random(block: Block, var: Variable, type: str, seed: int, **attrs: Any) -> Operator:
    return block.prepend_op(type=type, outputs={"Out": [var]},
                            attrs={"shape": list(var.desc.shape()), "dtype": var.dtype, "seed": seed, **attrs})


class ConstantInitializer(Initializer):
    """The same value everywhere.

    >>> w = fluid.ParamAttr("w", fluid.initializer.Constant(0.5))
    >>> fluid.layers.fc(fluid.layers.data("x", [4]), 2, param_attr=w)
    Variable('fc_0.tmp_1', float32[?, 2])
    """

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        self._value = float(value)

    def __call__(self, var: Variable, block: Block) -> Operator:
        return block.prepend_op(type="fill_constant", outputs={"Out": [var]},
                                attrs={"shape": list(var.desc.shape()), "dtype": var.dtype,
                                       "value": constant_for(f"Constant: the value of {var.name!r}", self._value, var.dtype)})


class UniformInitializer(Initializer):
    """Uniform in [low, high).

    >>> w = fluid.ParamAttr("w", fluid.initializer.Uniform(-0.1, 0.1, seed=3))
    >>> fluid.layers.fc(fluid.layers.data("x", [4]), 2, param_attr=w)
    Variable('fc_0.tmp_1', float32[?, 2])
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0) -> None:
        if low >= high:
            raise ValueError(f"Uniform: low must be below high, got low={low!r}, high={high!r}")
        self._low, self._high, self._seed = float(low), float(high), int(seed)

    def __call__(self, var: Variable, block: Block) -> Operator:
        return _random(block, var, "uniform_random", self._seed, min=self._low, max=self._high)


class NormalInitializer(Initializer):
    """Normal with mean ``loc`` and standard deviation ``scale``.

    >>> w = fluid.ParamAttr("w", fluid.initializer.Normal(0.0, 0.02))
    >>> fluid.layers.fc(fluid.layers.data("x", [4]), 2, param_attr=w)
    Variable('fc_0.tmp_1', float32[?, 2])
    """

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        if scale < 0:
            raise ValueError(f"{type(self).__name__}: scale must be at least 0, got {scale!r}")
        self._loc, self._scale, self._seed = float(loc), float(scale), int(seed)

    def __call__(self, var: Variable, block: Block) -> Operator:
        return _random(block, var, "gaussian_random", self._seed, mean=self._loc, std=self._scale)


class TruncatedNormalInitializer(NormalInitializer):
    """Normal, without what is further than two standard deviations from the mean.

    ``loc`` is the mean and ``scale`` the standard deviation.

    >>> w = fluid.ParamAttr("w", fluid.initializer.TruncatedNormal(0.0, 0.02))
    >>> fluid.layers.fc(fluid.layers.data("x", [4]), 2, param_attr=w)
    Variable('fc_0.tmp_1', float32[?, 2])
    """

    def __call__(self, var: Variable, block: Block) -> Operator:
        return _random(block, var, "truncated_gaussian_random", self._seed, mean=self._loc, std=self._scale)


class XavierInitializer(Initializer):
    """Keep the variance of activations and of gradients alike from layer to layer.

    Variance 2 / (fan_in + fan_out): uniform in +-sqrt(6 / (fan_in + fan_out)), or normal. From Glorot and
    Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010, eq. 16.

    >>> w = fluid.ParamAttr("w", fluid.initializer.Xavier(uniform=False))
    >>> fluid.layers.fc(fluid.layers.data("x", [4]), 2, param_attr=w)
    Variable('fc_0.tmp_1', float32[?, 2])
    """

    def __init__(self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None,
                 seed: int = 0) -> None:
        self._uniform, self._fan_in, self._fan_out, self._seed = uniform, fan_in, fan_out, int(seed)

    def __call__(self, var: Variable, block: Block) -> Operator:
        fan_in, fan_out = self._fans(var)
        fan_in = fan_in if self._fan_in is None else self._fan_in
        fans = fan_in + (fan_out if self._fan_out is None else self._fan_out)
        if self._uniform:
            limit = math.sqrt(6.0 / fans)
            return _random(block, var, "uniform_random", self._seed, min=-limit, max=limit)
        return _random(block, var, "gaussian_random", self._seed, mean=0.0, std=math.sqrt(2.0 / fans))


class MSRAInitializer(Initializer):
    """Keep the variance of activations from layer to layer of rectifiers.

    Variance 2 / fan_in: uniform in +-sqrt(6 / fan_in), or normal. From He, Zhang, Ren and Sun, "Delving deep
    into rectifiers", ICCV 2015, eq. 10.

    >>> w = fluid.ParamAttr("w", fluid.initializer.MSRA())
    >>> fluid.layers.fc(fluid.layers.data("x", [4]), 2, param_attr=w)
    Variable('fc_0.tmp_1', float32[?, 2])
    """

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        self._uniform, self._fan_in, self._seed = uniform, fan_in, int(seed)

    def __call__(self, var: Variable, block: Block) -> Operator:
        fan_in = self._fans(var)[0] if self._fan_in is None else self._fan_in
        if self._uniform:
            limit = math.sqrt(6.0 / fan_in)
            return _random(block, var, "uniform_random", self._seed, min=-limit, max=limit)
        return _random(block, var, "gaussian_random", self._seed, mean=0.0, std=math.sqrt(2.0 / fan_in))


class BilinearInitializer(Initializer):
    """The filters of a transposed convolution that makes images larger by bilinear interpolation.

    For weights [..., k, k]: with ``f = ceil(k / 2)`` and ``c = (2 f - 1 - f mod 2) / (2 f)`` element (y, x) is
    ``(1 - |x / f - c|) (1 - |y / f - c|)``. A factor f wants ``k = 2 f - f mod 2``, stride f and padding ``ceil((f - 1) / 2)``.

    >>> image = fluid.layers.data("image", [3, 8, 8])
    >>> w = fluid.ParamAttr(initializer=fluid.initializer.Bilinear(), learning_rate=0.0)
    >>> fluid.layers.conv2d_transpose(image, 3, filter_size=4, stride=2, padding=1, groups=3, param_attr=w, bias_attr=False).shape
    (None, 3, 16, 16)
    """

    def __call__(self, var: Variable, block: Block) -> Operator:
        shape = list(var.desc.shape())
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ValueError(f"Bilinear: {var.name} must be [.., .., k, k], got {shape}")
        factor = math.ceil(shape[3] / 2)
        centre = (2 * factor - 1 - factor % 2) / (2 * factor)
        line = 1 - np.abs(np.arange(shape[3]) / factor - centre)
        return NumpyArrayInitializer(np.broadcast_to(line[:, None] * line, shape).astype(np.float32))(var, block)


class NumpyArrayInitializer(Initializer):
    """The values of an array.

    ``value`` is an array of the parameter's shape.

    >>> w = fluid.layers.create_parameter([2, 2], "float32", name="w",
    ...     default_initializer=fluid.initializer.NumpyArrayInitializer(np.eye(2)))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exe.run(fetch_list=[w])[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, value: np.ndarray) -> None:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"NumpyArrayInitializer takes a NumPy array, got {value!r}")
        self._value = value

    def __call__(self, var: Variable, block: Block) -> Operator:
        if list(self._value.shape) != list(var.desc.shape()):
            raise ValueError(f"{var.name} has the shape {list(var.shape)}, the array {list(self._value.shape)}")
        if var.dtype not in (VarType.FP32, VarType.INT32):
            raise TypeError(f"NumpyArrayInitializer: {var.name} is {var.dtype}; float32 and int32 are possible")
        slot, kind = ("fp32_values", float) if var.dtype == VarType.FP32 else ("int32_values", int)
        values = self._value.astype(np.float32 if kind is float else np.int32).ravel().tolist()
        return block.prepend_op(type="assign_value", outputs={"Out": [var]},
                                attrs={"shape": list(self._value.shape), "dtype": int(var.dtype), slot: values})


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer

__all__ = ["force_init_on_cpu", "init_on_cpu", "Initializer", "Constant", "Uniform", "Normal", "TruncatedNormal", "Xavier", "MSRA",
           "ConstantInitializer", "UniformInitializer", "NormalInitializer", "TruncatedNormalInitializer",
           "XavierInitializer", "MSRAInitializer", "Bilinear", "BilinearInitializer", "NumpyArrayInitializer"]
