"""Weight decay: terms that are added to the gradients of parameters."""

from __future__ import annotations

from typing import Any

from ..native.checks import finite
from ..program import Block, Parameter, Variable


class WeightDecayRegularizer:
    """Base: ``regularizer(param, grad, block)`` returns the term to add to the gradient.

    A class of your own returns a Variable of the parameter's shape:

    >>> class ToOne(fluid.regularizer.WeightDecayRegularizer):
    ...     def __call__(self, param, grad, block):
    ...         return fluid.layers.scale(param, self._coeff, bias=-self._coeff)
    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(0.0))
    >>> _ = fluid.optimizer.SGD(1.0, regularization=ToOne(0.5)).minimize(fluid.layers.mean(fluid.layers.scale(w, 0.0)))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [float(exe.run(fetch_list=[w])[0]) for _ in range(3)]
    [0.5, 0.75, 0.875]
    """

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        self._coeff = finite(f"{type(self).__name__}: regularization_coeff", regularization_coeff, at_least=0)

    def __call__(self, param: Parameter, grad: Variable, block: Block) -> Variable:
        raise NotImplementedError(f"{type(self).__name__} does not say what it adds")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._coeff!r})"

    @staticmethod
    def _term(block: Block, param: Parameter, type: str, source: Any, **attrs: Any) -> Variable:
        out = block.create_var(dtype=param.dtype, shape=param.shape)
        block.append_op(type=type, inputs={"X": source}, outputs={"Out": out}, attrs=attrs)
        return out


class L2DecayRegularizer(WeightDecayRegularizer):
    """Adds ``coeff * param``: the gradient of ``coeff / 2 * sum(param ** 2)``.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1))
    >>> _ = fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(1e-4)).minimize(loss)
    >>> fluid.regularizer.L2Decay(1e-4)
    L2DecayRegularizer(0.0001)
    """

    def __call__(self, param: Parameter, grad: Variable, block: Block) -> Variable:
        return self._term(block, param, "scale", param, scale=self._coeff)


class L1DecayRegularizer(WeightDecayRegularizer):
    """Adds ``coeff * sign(param)``: the gradient of ``coeff * sum(abs(param))``.

    >>> weights = fluid.ParamAttr(regularizer=fluid.regularizer.L1Decay(1e-4))
    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1, param_attr=weights))
    >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
    >>> [op.type for op in fluid.default_main_program().global_block().ops][-5:]
    ['sign', 'scale', 'sum', 'sgd', 'sgd']
    """

    def __call__(self, param: Parameter, grad: Variable, block: Block) -> Variable:
        sign = self._term(block, param, "sign", param)
        return self._term(block, param, "scale", sign, scale=self._coeff)


def append_regularization_ops(params_grads: list[tuple[Parameter, Variable]],
                              regularization: WeightDecayRegularizer | None = None) -> list[tuple[Any, Any]]:
    """Return the pairs with each gradient plus its parameter's own regularizer's term, or else the given one's.

    ``regularization`` is a regularizer, or None. ``Optimizer.minimize`` calls this function.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1, bias_attr=False))
    >>> (param, grad), = fluid.backward.append_backward(loss)
    >>> (param, total), = fluid.regularizer.append_regularization_ops([(param, grad)], fluid.regularizer.L2Decay(0.1))
    >>> total.shape == param.shape, total is grad
    (True, False)
    """
    result = []
    for param, grad in params_grads:
        regularizer = getattr(param, "regularizer", None) or regularization
        if grad is None or regularizer is None:
            result.append((param, grad))
            continue
        block = grad.block
        with block.program._optimized_guard([param, grad]):
            term = regularizer(param, grad, block)
            total = block.create_var(dtype=param.dtype, shape=param.shape)
            block.append_op(type="sum", inputs={"X": [grad, term]}, outputs={"Out": total})
        result.append((param, total))
    return result


L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer

__all__ = ["WeightDecayRegularizer", "L1Decay", "L2Decay", "L1DecayRegularizer", "L2DecayRegularizer",
           "append_regularization_ops"]
