"""Deep gradient compression: an optimizer whose trainers send the largest gradients alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..layers.tensor import create_global_var
from ..native import unique_name
from ..native.dtypes import VarType
from ..native.errors import InvalidArgumentError, check_whole, user_line
from ..program import Block, Operator, Parameter, Program, Variable
from ..program.roles import OpRole
from .optimizer import MomentumOptimizer

_LEAST = 16384                         # elements of a parameter whose gradient is worth it


class DGCMomentumOptimizer(MomentumOptimizer):
    """Momentum, of which only the largest values are sent and applied; the rest is accumulated until it is large enough.

    For each dense parameter of at least 16384 elements: ``u = momentum * u + g;  v += u``. The ``1 - sparsity`` of the values of ``v`` that
    are largest in magnitude are sent, and become 0 in ``u`` and ``v``. Then ``w -= rate * sent``. With ``use_nesterov`` it is ``v += g +
    momentum * u``. Other parameters get ``Momentum``. From Lin et al., "Deep gradient compression", ICLR 2018.

    Steps before ``rampup_begin_step`` (the first is 0) send the whole momentum, as ``Momentum`` does. ``sparsity`` is a list of shares that
    are not sent, from 0 to below 1. They share the ``rampup_step`` steps from there on, and the last one stays: ``[0.75, 0.9375, 0.984375,
    0.996, 0.999]`` warms up.

    ``local_grad_clip_norm`` limits the norm of each such gradient to ``local_grad_clip_norm / sqrt(num_trainers)`` before it is
    accumulated, from ``rampup_begin_step`` on. ``num_trainers`` is the number of the job's trainers unless given. ``regularization`` is
    added before, too. Other clipping sees what is sent.

    In a job ``u`` and ``v`` belong to each trainer and outlive it, and the zeros do not travel (compression ``nonzero``, unless another one
    was chosen). A mistake in a number is a ValueError.

    >>> x, y = fluid.layers.data("x", [256]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(fluid.layers.fc(x, 64), 1), y))
    >>> optimizer = fluid.optimizer.DGCMomentumOptimizer(0.01, 0.9, rampup_begin_step=100, sparsity=[0.75, 0.99], rampup_step=200)
    >>> ops, pairs = optimizer.minimize(loss)
    >>> [op.type for op in ops]
    ['momentum', 'sgd', 'momentum', 'momentum']
    """

    def __init__(self, learning_rate: Any, momentum: float, rampup_begin_step: int, rampup_step: int = 1,
                 sparsity: Sequence[float] = (0.999,), use_nesterov: bool = False, local_grad_clip_norm: float | None = None,
                 num_trainers: int | None = None,
                 regularization: Any = None, name: str | None = None, **options: Any) -> None:
        super().__init__(learning_rate, momentum, use_nesterov, regularization, name, **options)
        rampup_begin_step = check_whole("DGCMomentumOptimizer: rampup_begin_step", rampup_begin_step)
        rampup_step = check_whole("DGCMomentumOptimizer: rampup_step", rampup_step, 1)
        if num_trainers is not None:
            num_trainers = check_whole("DGCMomentumOptimizer: num_trainers", num_trainers, 1)
        self._begin, self._period, self._shares = rampup_begin_step, rampup_step, self._checked(sparsity)
        self._norm = None if local_grad_clip_norm is None else self._number("local_grad_clip_norm", local_grad_clip_norm, above=0)
        self._trainers = num_trainers
        self._steps: dict[Program, Variable] = {}
        self._sent: set[str] = set()

    def _checked(self, sparsity: Any) -> list[float]:
        if not isinstance(sparsity, (list, tuple)) or not sparsity:
            raise InvalidArgumentError(f"DGCMomentumOptimizer: sparsity={sparsity!r}; a list of shares is possible, such as [0.75, 0.999]\n"
                                       f"  your line: {user_line()}")
        return [self._number("sparsity", share, at_least=0, below=1) for share in sparsity]

    # -- what trainers do with a gradient ----------------------------------------------------------------------

    def _step(self, program: Program) -> Variable:
        """Return the number of the step, which is raised once in each."""
        if program not in self._steps:
            step = create_global_var([1], -1, "int64", persistable=True, name=unique_name.generate("dgc_step"))
            program.global_block().append_op(type="increment", inputs={"X": step}, outputs={"Out": step}, attrs={"step": 1.0})
            self._steps[program] = step
        return self._steps[program]

    def _clipped(self, block: Block, grad: Variable) -> Variable:
        if self._norm is None:
            return grad
        trainers = self._trainers
        if trainers is None:
            from ..job.job import trainer_count  # loaded where it is used

            trainers = trainer_count()
        out = block.create_var(dtype=grad.dtype, shape=grad.shape)
        block.append_op(type="dgc_clip_by_norm", inputs={"X": grad, "current_step": self._step(block.program)}, outputs={"Out": out},
                        attrs={"max_norm": self._norm / float(trainers) ** 0.5, "rampup_begin_step": float(self._begin)})
        return out

    def _decayed(self, block: Block, param: Parameter, grad: Variable) -> Variable:
        regularizer = getattr(param, "regularizer", None) or self.regularization
        if regularizer is None:
            return grad
        term, out = regularizer(param, grad, block), block.create_var(dtype=param.dtype, shape=param.shape)
        block.append_op(type="sum", inputs={"X": [grad, term]}, outputs={"Out": out})
        return out

    def _encoded(self, param: Parameter, grad: Variable) -> Variable:
        """Append what is done once a step on each trainer, also where it has replicas; return what is sent."""
        block = grad.block
        with block.program._role_guard(OpRole.Dist, [param, grad]):
            step = self._step(block.program)
            grad = self._decayed(block, param, self._clipped(block, grad))
            u, v = (self._add_accumulator(name, param) for name in ("dgc_u", "dgc_v"))
            sent = block.create_var(name=unique_name.generate(f"{param.name}.dgc"), dtype=param.dtype, shape=param.shape)
            block.append_op(type="dgc", inputs={"U": u, "V": v, "Grad": grad, "current_step": step},
                            outputs={"U_out": u, "V_out": v, "Grad_out": sent},
                            attrs={"m": self._attrs["mu"], "use_nesterov": self._attrs["use_nesterov"], "sparsity": self._shares,
                                   "rampup_begin_step": float(self._begin), "rampup_step": float(self._period)})
        self._sent.add(param.name)
        return sent

    # -- what the base asks ---------------------------------------------------------------------------------------

    def apply_gradients(self, params_grads: Sequence[tuple[Parameter, Variable]]) -> list[Operator]:
        """Append what trainers do with their gradients, clipping, regularization and the updates; return the updates' operators.

        ``params_grads`` are pairs of a parameter and its gradient, as ``backward`` returns them.
        """
        pairs = sorted(((param, grad) for param, grad in params_grads if grad is not None), key=lambda pair: pair[0].name)
        return super().apply_gradients([(param, self._encoded(param, grad) if _is_large(param, grad) else grad) for param, grad in pairs])

    def _regularized(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        others = iter(super()._regularized([pair for pair in pairs if pair[0].name not in self._sent]))
        return [pair if pair[0].name in self._sent else next(others) for pair in pairs]

    def _create_accumulators(self, block: Block, parameters: Sequence[Parameter]) -> None:
        super()._create_accumulators(block, [param for param in parameters if param.name not in self._sent])

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Parameter, Variable]) -> Operator:
        param, grad = param_and_grad
        if param.name not in self._sent:
            return super()._append_optimize_op(block, param_and_grad)
        return block.append_op(type="sgd", inputs={"Param": param, "Grad": grad, "LearningRate": self._create_param_lr(param_and_grad)},
                               outputs={"ParamOut": param})


def _is_large(param: Parameter, grad: Variable) -> bool:
    count = 1
    for dim in param.shape:
        count *= dim or 0
    return param.trainable and grad.type == VarType.LOD_TENSOR and count >= _LEAST
