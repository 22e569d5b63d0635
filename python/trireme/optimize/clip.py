"""Gradients kept small: each value, each gradient, or all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import layers
from ..native.dtypes import VarType
from ..parameters.layer_helper import LayerHelper
from ..program import Block, Parameter, Program, Variable, default_main_program


class BaseErrorClipAttr:
    """Base of what ``variable.error_clip`` may be."""

    def _insert(self, block: Block, index: int, grad_name: str) -> None:
        raise NotImplementedError


class ErrorClipByValue(BaseErrorClipAttr):
    """Move each value of the gradient *of a variable* into [min, max] on its way back.

    ``max`` is a number; ``min`` is ``-max`` where it is None. ``min`` above ``max`` is a ValueError.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> y = fluid.layers.scale(w, 2.0)
    >>> y.error_clip = fluid.clip.ErrorClipByValue(max=0.1)
    >>> (_, grad), = fluid.backward.append_backward(fluid.layers.reduce_sum(y))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exe.run(fetch_list=[grad])[0]
    array([0.2], dtype=float32)
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max, self.min = _bounds(max, min)

    def _insert(self, block: Block, index: int, grad_name: str) -> None:
        block._insert_op(index, "clip", {"X": [grad_name]}, {"Out": [grad_name]}, {"min": self.min, "max": self.max})


def _bounds(max: float, min: float | None) -> tuple[float, float]:
    low = -float(max) if min is None else float(min)
    if not low <= max:                                   # NaN is in no order
        raise ValueError(f"clip: min must not be above max, got min={min!r}, max={max!r}")
    return float(max), low


def _norm(clip_norm: float) -> float:
    """Return the length to clip at: above 0, infinity (which clips nothing) included."""
    if not float(clip_norm) > 0:
        raise ValueError(f"clip: clip_norm must be above 0, got {clip_norm!r}")
    return float(clip_norm)


class BaseGradientClipAttr:
    """Base of what limits gradients; ``clip(params_grads)`` returns the pairs with new gradients."""

    def __call__(self, params_grads: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        result: list[tuple[Any, Any]] = []
        for param, grad in params_grads:
            if grad is None:
                result.append((param, grad))
                continue
            with grad.block.program._optimized_guard([param, grad]):
                result.append((param, self._clip(grad)))
        return result

    def _clip(self, grad: Variable) -> Variable:
        raise NotImplementedError


class GradientClipByValue(BaseGradientClipAttr):
    """Move each value into [min, max]; ``min`` is ``-max`` unless given.

    ``min`` above ``max`` is a ValueError.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> clip = fluid.clip.GradientClipByValue(max=0.5)
    >>> _ = fluid.optimizer.SGD(1.0, grad_clip=clip).minimize(fluid.layers.reduce_sum(fluid.layers.scale(w, 3.0)))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exe.run(fetch_list=[w])[0]
    array([0.5], dtype=float32)
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max, self.min = _bounds(max, min)

    def _clip(self, grad: Variable) -> Variable:
        return layers.clip(grad, self.min, self.max)


class GradientClipByNorm(BaseGradientClipAttr):
    """Shorten each gradient to the length ``clip_norm``, when it is longer.

    ``clip_norm`` is a number above 0; another is a ValueError.

    >>> w = fluid.layers.create_parameter([2], "float32", "w", default_initializer=fluid.initializer.Constant(0.0))
    >>> aim = fluid.layers.assign(np.array([-3.0, -4.0], "float32"))
    >>> clip = fluid.clip.GradientClipByNorm(clip_norm=1.0)
    >>> _ = fluid.optimizer.SGD(1.0, grad_clip=clip).minimize(fluid.layers.reduce_sum(fluid.layers.elementwise_mul(w, aim)))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exe.run(fetch_list=[w])[0]
    array([0.6, 0.8], dtype=float32)
    """

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = _norm(clip_norm)

    def __call__(self, params_grads: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        from ..parameters.sparse_table import is_table

        result: list[tuple[Any, Any]] = []
        for pair in params_grads:
            # A table's rows are on all servers of a job: its length is computed as that of several parameters is.
            is_shared = pair[1] is not None and is_table(pair[0])
            result += _shorten([pair], self.clip_norm) if is_shared else super().__call__([pair])
        return result

    def _clip(self, grad: Variable) -> Variable:
        return layers.clip_by_norm(grad, self.clip_norm)


class GradientClipByGlobalNorm(BaseGradientClipAttr):
    """Shorten all gradients alike, when their common length ``sqrt(sum of squares)`` is above ``clip_norm``.

    The sum is exact and rounded once, so the length does not depend on how many servers share the gradients.

    Gradients of one ``group_name`` have one common length.

    ``clip_norm`` is a number above 0; another is a ValueError.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1))
    >>> clip = fluid.clip.GradientClipByGlobalNorm(clip_norm=5.0)
    >>> ops, _ = fluid.optimizer.Adam(0.001, grad_clip=clip).minimize(loss)
    >>> [op.type for op in ops]
    ['adam', 'adam']
    """

    def __init__(self, clip_norm: float, group_name: str = "default_group") -> None:
        self.clip_norm = _norm(clip_norm)
        self.group_name = group_name

    def __call__(self, params_grads: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        pairs = [(param, grad) for param, grad in params_grads if grad is not None]
        shortened = iter(_shorten(pairs, self.clip_norm) if pairs else ())
        return [(param, grad) if grad is None else next(shortened) for param, grad in params_grads]


def _shorten(pairs: Sequence[tuple[Any, Variable]], clip_norm: float) -> list[tuple[Any, Variable]]:
    """Return the pairs with gradients times one factor, which makes their common length ``clip_norm`` if that is less."""
    program = pairs[0][1].block.program
    merged, values = [], []
    for param, grad in pairs:
        with program._optimized_guard([param, grad]):
            merged.append(_merged(grad))
            values.append(_values(merged[-1]))
    with program._optimized_guard([]):
        norm = layers.sqrt(LayerHelper("sum_of_squares").append("sum_of_squares", {"X": values}))
        limit = layers.fill_constant([1], norm.dtype, clip_norm)
        factor = layers.elementwise_div(limit, layers.elementwise_max(norm, limit))
    result = []
    for (param, old), grad in zip(pairs, merged):
        with program._optimized_guard([param, old]):
            result.append((param, layers.elementwise_mul(grad, factor)))
    return result


def _merged(grad: Variable) -> Variable:
    """Return a gradient; of a sparse one with each row once."""
    if grad.type != VarType.SELECTED_ROWS:
        return grad
    return LayerHelper("merge_selected_rows").append("merge_selected_rows", {"X": [grad]})


def _values(grad: Variable) -> Variable:
    """Return the values of a gradient; of a sparse one those of the rows that it has."""
    if grad.type != VarType.SELECTED_ROWS:
        return grad
    return LayerHelper("get_tensor_from_selected_rows").append("get_tensor_from_selected_rows", {"X": [grad]})


def set_gradient_clip(clip: BaseGradientClipAttr, param_list: Sequence[Any] | None = None,
                      program: Program | None = None) -> None:
    """Limit the gradients of these parameters (default: of all there are) by ``clip``.

    ``param_list`` has Parameters or names.

    An optimizer's ``grad_clip`` does the same for all parameters that it trains.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [4]), 1, name="out")
    >>> fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(1.0), param_list=["out.w_0"])
    >>> [param.name for param in fluid.default_main_program().all_parameters() if param.gradient_clip_attr]
    ['out.w_0']
    """
    if not isinstance(clip, BaseGradientClipAttr):
        raise TypeError(f"set_gradient_clip takes GradientClipByValue, ByNorm or ByGlobalNorm, got {clip!r}")
    program = program or default_main_program()
    params = program.all_parameters() if param_list is None else [
        program.global_block().var(param) if isinstance(param, str) else param for param in param_list]
    for param in params:
        if not isinstance(param, Parameter):
            raise TypeError(f"set_gradient_clip: {param!r} is no parameter")
        param.gradient_clip_attr = clip


def append_gradient_clip_ops(params_grads: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the pairs with gradients limited as their parameters ask for.

    ``Optimizer.minimize`` calls this function.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1, bias_attr=False))
    >>> fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(0.1))
    >>> (param, grad), = fluid.backward.append_backward(loss)
    >>> (_, limited), = fluid.clip.append_gradient_clip_ops([(param, grad)])
    >>> limited is grad
    False
    """
    groups: dict[Any, list[tuple[Any, Any]]] = {}
    for param, grad in params_grads:
        clip = getattr(param, "gradient_clip_attr", None)
        if clip is not None and grad is not None:
            key = (clip.group_name, clip.clip_norm) if isinstance(clip, GradientClipByGlobalNorm) else id(clip)
            groups.setdefault(key, []).append((param, grad))
    clipped = {}
    for pairs in groups.values():
        for param, grad in pairs[0][0].gradient_clip_attr(pairs):
            clipped[param.name] = grad
    return [(param, clipped.get(param.name, grad)) for param, grad in params_grads]


__all__ = ["ErrorClipByValue", "GradientClipByValue", "GradientClipByNorm", "GradientClipByGlobalNorm",
           "set_gradient_clip", "append_gradient_clip_ops"]
