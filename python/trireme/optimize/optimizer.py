"""Optimizers: how parameters follow their gradients.

An optimizer adds one operator per parameter to the program. What it remembers (momentum, averages) are
persistable variables named after the parameter, with their first values in the startup program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..layers.tensor import create_global_var
from ..native import unique_name
from ..native.checks import finite, plain
from ..parameters.initializer import Constant
from ..parameters.layer_helper import LayerHelper
from ..parameters.regularizer import WeightDecayRegularizer, append_regularization_ops
from ..program import Block, Operator, Parameter, Program, Variable, default_main_program, default_startup_program, program_guard
from ..program.backward import append_backward
from .clip import BaseGradientClipAttr, append_gradient_clip_ops

if TYPE_CHECKING:
    from ..native.dtypes import DTypeLike


class Optimizer:
    """Base of the optimizers.

    ``learning_rate`` is a finite number of at least 0, or a schedule (``layers.exponential_decay`` and its kind).
    ``regularization`` holds for parameters without their own; so does ``grad_clip``. A value that makes no sense, such as a
    negative or infinite rate, is a ValueError that shows it.

    >>> x, y = fluid.layers.data("x", [13]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> ops, pairs = fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    >>> [op.type for op in ops]
    ['sgd', 'sgd']
    """

    type = ""
    # Of a kind whose update is one operator of this type:
    _attrs: Mapping[str, Any] = {}                              # its attributes
    _states: ClassVar[Mapping[str, str]] = {}                   # slot -> accumulator as large as the parameter, which is written back
    _first_value = 0.0                                          # of these accumulators
    _powers: ClassVar[Mapping[str, tuple[str, str]]] = {}       # slot -> accumulator of beta^t, and the attribute beta
    _takes_rate = True

    def __init__(self, learning_rate: float | Variable, regularization: WeightDecayRegularizer | None = None, name: str | None = None, *,
                 grad_clip: BaseGradientClipAttr | None = None) -> None:
        learning_rate = plain(learning_rate)
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float, Variable)):
            raise TypeError(f"learning_rate must be a number or a Variable, got {learning_rate!r}")
        if not isinstance(learning_rate, Variable):
            finite(f"{type(self).__name__}: learning_rate", learning_rate, at_least=0)
        if grad_clip is not None and not isinstance(grad_clip, BaseGradientClipAttr):
            raise TypeError(f"grad_clip must be GradientClipByValue, ByNorm or ByGlobalNorm, got {grad_clip!r}")
        self._learning_rate = learning_rate
        self.regularization = regularization
        self.grad_clip = grad_clip
        self._name = name
        self._rates: dict[Program, Variable] = {}
        self._accumulators: dict[str, dict[str, Variable]] = {}
        self.helper = LayerHelper(type(self).__name__, name=type(self).__name__)

    def _number(self, what: str, value: Any, **bounds: float) -> float:
        """Return a hyperparameter as a float; an error names this optimizer."""
        return finite(f"{type(self).__name__}: {what}", value, **bounds)

    def _betas(self, beta1: float, beta2: float) -> dict[str, float]:
        return {what: self._number(what, beta, at_least=0, below=1) for what, beta in (("beta1", beta1), ("beta2", beta2))}

    # -- what a kind of optimizer says -----------------------------------------------------------------

    def _create_accumulators(self, block: Block, parameters: Sequence[Parameter]) -> None:
        """Create what is remembered of each parameter."""
        for param in parameters:
            for name in self._states.values():
                self._add_accumulator(name, param, fill_value=self._first_value)
            for name, beta in self._powers.values():
                self._add_accumulator(name, param, fill_value=self._attrs[beta], shape=[1])

    def _attrs_of(self, param: Parameter) -> Mapping[str, Any]:
        """Return the attributes of the operator that updates this parameter."""
        return self._attrs

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Parameter, Variable]) -> Operator:
        """Append the operator that updates one parameter."""
        if not self.type:
            raise NotImplementedError(f"{type(self).__name__} does not say how it updates")
        param, grad = param_and_grad
        rate = {"LearningRate": self._create_param_lr(param_and_grad)} if self._takes_rate else {}
        states = {slot: self._get_accumulator(name, param) for slot, name in self._states.items()}
        powers = {slot: self._get_accumulator(name, param) for slot, (name, _) in self._powers.items()}
        written = {f"{slot.removesuffix('ulator')}Out": var for slot, var in states.items()}       # SquaredAccumulator: SquaredAccumOut
        return block.append_op(type=self.type, inputs={"Param": param, "Grad": grad, **rate, **states, **powers},
                               outputs={"ParamOut": param, **written}, attrs=dict(self._attrs_of(param)))

    def _finish_update(self, block: Block, params_grads: Sequence[tuple[Parameter, Variable]]) -> None:
        """Append what comes once a step, after the updates."""
        for pair in params_grads if self._powers else ():
            with block.program._optimized_guard(pair):
                for name, beta in self._powers.values():
                    power = self._get_accumulator(name, pair[0])
                    block.append_op(type="scale", inputs={"X": power}, outputs={"Out": power}, attrs={"scale": self._attrs[beta]})

    # -- learning rate and accumulators ------------------------------------------------------------------

    def _create_global_learning_rate(self) -> Variable:
        program = default_main_program()
        if program not in self._rates:
            rate = self._learning_rate
            if not isinstance(rate, Variable):
                rate = create_global_var([1], float(rate), "float32", persistable=True,
                                         name=unique_name.generate("learning_rate"))
            self._rates[program] = rate
            program.__dict__.setdefault("_learning_rate", rate.name)       # for callbacks.LearningRateLogger
        return self._rates[program]

    def _global_learning_rate(self, program: Program | None = None) -> Variable | None:
        return self._rates.get(program or default_main_program())

    def _create_param_lr(self, param_and_grad: tuple[Parameter, Variable]) -> Variable:
        """Return the learning rate of a parameter: the global one times its own."""
        rate = self._create_global_learning_rate()
        own = param_and_grad[0].optimize_attr["learning_rate"]
        if isinstance(own, Variable):
            return own
        return rate if own == 1.0 else rate * finite(f"{param_and_grad[0].name}: learning_rate", own, at_least=0)

    def _add_accumulator(self, name: str, param: Parameter, dtype: DTypeLike | None = None, fill_value: float = 0.0,
                         shape: Sequence[int] | None = None) -> Variable:
        if self._name is not None:
            name = f"{self._name}_{name}"
        known = self._accumulators.setdefault(name, {})
        if param.name in known:
            raise ValueError(f"accumulator {name!r} of {param.name!r} exists")
        var = self.helper.create_global_variable(
            name=unique_name.generate(f"{param.name}_{name}"), persistable=True,
            dtype=dtype if dtype is not None else param.dtype, shape=param.shape if shape is None else shape,
            stop_gradient=True)
        self.helper.set_variable_initializer(var, Constant(fill_value))
        known[param.name] = var
        return var

    def _get_accumulator(self, name: str, param: Parameter) -> Variable:
        if self._name is not None:
            name = f"{self._name}_{name}"
        try:
            return self._accumulators[name][param.name]
        except KeyError:
            raise ValueError(f"there is no accumulator {name!r} of {param.name!r}") from None

    # -- what scripts call ---------------------------------------------------------------------------------

    def backward(self, loss: Variable, startup_program: Program | None = None,
                 parameter_list: Sequence[Any] | None = None, no_grad_set: Iterable[Any] | None = None,
                 callbacks: Any = None) -> list[tuple[Parameter, Variable]]:
        """Append the gradient's operators; return pairs of parameter and gradient. ``loss`` is a Variable of one element."""
        pairs: list[Any] = append_backward(loss, parameter_list, no_grad_set, callbacks)
        return pairs

    def apply_gradients(self, params_grads: Sequence[tuple[Parameter, Variable]]) -> list[Operator]:
        """Append clipping, regularization and the updates; return the updates' operators."""
        from ..parameters.sparse_table import Tiles

        pairs = sorted(((p, g) for p, g in params_grads if g is not None), key=lambda pair: pair[0].name)
        if not pairs:
            raise ValueError(f"{type(self).__name__}: no parameter has a gradient")
        if self.grad_clip is not None:
            pairs = self.grad_clip(pairs)
        tiles = Tiles(append_gradient_clip_ops(pairs))
        return tiles.finish(self._create_optimization_pass(self._regularized(tiles.pairs)))

    def _regularized(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return append_regularization_ops(pairs, self.regularization)

    def apply_optimize(self, loss: Variable, startup_program: Program | None,
                       params_grads: Sequence[tuple[Parameter, Variable]]) -> list[Operator]:
        """As ``apply_gradients``, in the program of ``loss`` and with ``startup_program`` for first values (None: the default one)."""
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return self.apply_gradients(params_grads)

    def _create_optimization_pass(self, pairs: Sequence[tuple[Parameter, Variable]]) -> list[Operator]:
        block = default_main_program().global_block()
        self._create_global_learning_rate()
        self._create_accumulators(block, [param for param, _ in pairs])
        ops = []
        for pair in pairs:
            if pair[0].trainable:
                with block.program._optimized_guard(pair):
                    ops.append(self._append_optimize_op(block, pair))
        self._finish_update(block, pairs)
        return ops

    def minimize(self, loss: Variable, startup_program: Program | None = None,
                 parameter_list: Sequence[Any] | None = None,
                 no_grad_set: Iterable[Any] | None = None) -> tuple[list[Operator], list[tuple[Parameter, Variable]]]:
        """Append all it takes to make ``loss`` smaller; return the updates' operators and the pairs."""
        if not isinstance(loss, Variable):
            raise TypeError(f"minimize: loss must be a Variable, got {loss!r}")
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
            return self.apply_gradients(params_grads), params_grads


class SGDOptimizer(Optimizer):
    """``w -= rate * g``

    A sparse gradient changes the rows that it has.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.SGD(learning_rate=0.1).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.9, 0.8, 0.7]
    """

    type = "sgd"


class MomentumOptimizer(Optimizer):
    """``v = momentum * v + g;  w -= rate * v``, or, by Nesterov, ``w -= rate * (g + momentum * v)``

    ``use_nesterov`` chooses the second form.

    ``momentum`` is a number from 0 to 1. ``velocity`` starts with 0.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.Momentum(learning_rate=0.1, momentum=0.9).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.9, 0.71, 0.439]
    """

    type = "momentum"
    _states: ClassVar = {"Velocity": "velocity"}

    def __init__(self, learning_rate: float | Variable, momentum: float, use_nesterov: bool = False,
                 regularization: WeightDecayRegularizer | None = None, name: str | None = None, **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {"mu": self._number("momentum", momentum, at_least=0, at_most=1), "use_nesterov": bool(use_nesterov)}


class LarsMomentumOptimizer(Optimizer):
    """Momentum with a rate for each parameter: ``rate * coeff * |w| / (|g| + decay * |w|)``

    In a sparse table, of which a step knows only the rows that it uses, each row has a rate of its own. From You, Gitman
    and Ginsburg, "Large batch training of convolutional networks", 2017.

    ``momentum`` is that of ``Momentum``; ``coeff`` is ``lars_coeff`` and ``decay`` is ``lars_weight_decay``.

    ``momentum`` is from 0 to 1, ``lars_coeff`` and ``lars_weight_decay`` are at least 0.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.LarsMomentum(learning_rate=10.0, momentum=0.9).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.99, 0.971, 0.944]
    """

    type = "lars_momentum"
    _states: ClassVar = {"Velocity": "velocity"}

    def __init__(self, learning_rate: float | Variable, momentum: float, lars_coeff: float = 0.001,
                 lars_weight_decay: float = 0.0005, regularization: WeightDecayRegularizer | None = None, name: str | None = None,
                 **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {"mu": self._number("momentum", momentum, at_least=0, at_most=1),
                       "lars_coeff": self._number("lars_coeff", lars_coeff, at_least=0),
                       "lars_weight_decay": self._number("lars_weight_decay", lars_weight_decay, at_least=0)}

    def _attrs_of(self, param: Parameter) -> Mapping[str, Any]:
        from ..parameters.sparse_table import is_tile

        return {**self._attrs, "per_row": True} if is_tile(param) else self._attrs


SGD = SGDOptimizer
Momentum = MomentumOptimizer
LarsMomentum = LarsMomentumOptimizer


__all__ = ["Optimizer", "SGD", "Momentum", "LarsMomentum", "SGDOptimizer", "MomentumOptimizer", "LarsMomentumOptimizer"]
