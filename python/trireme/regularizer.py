"""Weight decay: terms that are added to the gradients of parameters."""

from __future__ import annotations

from typing import Any

from .checks import finite
from .framework import Block, Parameter, Variable


class WeightDecayRegularizer:
    """Base: ``regularizer(param, grad, block)`` returns the term to add to the gradient."""

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
    """Adds ``coeff * param``: the gradient of ``coeff / 2 * sum(param ** 2)``."""

    def __call__(self, param: Parameter, grad: Variable, block: Block) -> Variable:
        return self._term(block, param, "scale", param, scale=self._coeff)


class L1DecayRegularizer(WeightDecayRegularizer):
    """Adds ``coeff * sign(param)``: the gradient of ``coeff * sum(abs(param))``."""

    def __call__(self, param: Parameter, grad: Variable, block: Block) -> Variable:
        sign = self._term(block, param, "sign", param)
        return self._term(block, param, "scale", sign, scale=self._coeff)


def append_regularization_ops(params_grads: list[tuple[Parameter, Variable]],
                              regularization: WeightDecayRegularizer | None = None) -> list[tuple[Any, Any]]:
    """Return the pairs with each gradient plus its parameter's own regularizer's term, or else the given one's."""
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
