"""Optimizers with decoupled weight decay, such as AdamW. (Loshchilov and Hutter, Decoupled weight decay regularization, 2019)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..native.checks import finite
from ..optimize.optimizer import Optimizer
from ..program import Block, Operator, Parameter, Variable


class DecoupledWeightDecay:
    """What `extend_with_decoupled_weight_decay` puts before an optimizer: in each step a parameter is multiplied by
    ``1 - weight_decay`` before the update.

    ``apply_decay_param_fun`` takes a parameter's name and says whether it decays; None: all do.
    """

    def __init__(self, weight_decay: float = 0.0, apply_decay_param_fun: Callable[[str], bool] | None = None, **kwargs: Any) -> None:
        self._decay = finite("weight_decay", weight_decay, at_least=0, at_most=1)
        if apply_decay_param_fun is not None and not callable(apply_decay_param_fun):
            raise TypeError(f"apply_decay_param_fun must be a function of a name, got {apply_decay_param_fun!r}")
        self._decays = apply_decay_param_fun
        super().__init__(**kwargs)

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Parameter, Variable]) -> Operator:
        param = param_and_grad[0]
        if self._decay and (self._decays is None or self._decays(param.name)):
            block.append_op(type="scale", inputs={"X": param}, outputs={"Out": param}, attrs={"scale": 1.0 - self._decay})
        return super()._append_optimize_op(block, param_and_grad)           # type: ignore[misc,no-any-return]


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> type[Optimizer]:
    """Return an optimizer with decoupled weight decay made of another one; it takes ``weight_decay`` and what that takes, by keyword.

    ``base_optimizer`` is a class, such as ``fluid.optimizer.Momentum``.

    >>> AdamW = fluid.contrib.extend_optimizer.extend_with_decoupled_weight_decay(fluid.optimizer.Adam)
    >>> x, y = fluid.layers.data("x", [13]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> ops, _ = AdamW(weight_decay=1e-4, learning_rate=0.001).minimize(loss)
    >>> [op.type for op in ops]
    ['adam', 'adam']
    """
    if not (isinstance(base_optimizer, type) and issubclass(base_optimizer, Optimizer)):
        raise TypeError(f"extend_with_decoupled_weight_decay takes a class of fluid.optimizer, got {base_optimizer!r}")

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecay, base_optimizer):        # type: ignore[valid-type,misc]
        pass

    OptimizerWithDecoupledWeightDecay.__name__ = f"{base_optimizer.__name__}WithDecoupledWeightDecay"
    return OptimizerWithDecoupledWeightDecay


__all__ = ["extend_with_decoupled_weight_decay", "DecoupledWeightDecay"]
