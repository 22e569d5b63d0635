"""Optimizers that scale each element's step by what its gradients were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..program import Parameter, Variable

if TYPE_CHECKING:
    from ..parameters.regularizer import WeightDecayRegularizer
from .optimizer import Optimizer


class AdagradOptimizer(Optimizer):
    """``m += g * g;  w -= rate * g / (sqrt(m) + epsilon)``

    From Duchi, Hazan and Singer, "Adaptive subgradient methods", JMLR 2011.

    ``m`` begins with ``initial_accumulator_value``.

    ``epsilon`` and ``initial_accumulator_value`` are at least 0.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.Adagrad(learning_rate=0.1).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.9, 0.829, 0.772]
    """

    type = "adagrad"
    _states: ClassVar = {"Moment": "moment"}

    def __init__(self, learning_rate: float | Variable, epsilon: float = 1e-6, regularization: WeightDecayRegularizer | None = None,
                 name: str | None = None, initial_accumulator_value: float = 0.0, **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {"epsilon": self._number("epsilon", epsilon, at_least=0)}
        self._first_value = self._number("initial_accumulator_value", initial_accumulator_value, at_least=0)


class DecayedAdagradOptimizer(Optimizer):
    """``m = decay * m + (1 - decay) * g * g;  w -= rate * g / (sqrt(m) + epsilon)``

    ``decay`` is from 0 to 1: the weight of the old in the average ``m`` of squared gradients.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.DecayedAdagrad(learning_rate=0.01, decay=0.9).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.968, 0.945, 0.926]
    """

    type = "decayed_adagrad"
    _states: ClassVar = {"Moment": "moment"}

    def __init__(self, learning_rate: float | Variable, decay: float = 0.95, epsilon: float = 1e-6,
                 regularization: WeightDecayRegularizer | None = None, name: str | None = None, **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {"decay": self._number("decay", decay, at_least=0, at_most=1),
                       "epsilon": self._number("epsilon", epsilon, at_least=0)}


class AdamOptimizer(Optimizer):
    """``m1 = beta1 m1 + (1 - beta1) g;  m2 = beta2 m2 + (1 - beta2) g g;
    w -= rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m1 / (sqrt(m2) + epsilon)``

    With ``lazy_mode`` a sparse gradient moves only the rows it has, without those that are zero in it. From Kingma and Ba, "Adam: a method
    for stochastic optimization", ICLR 2015, end of section 2.

    ``beta1`` and ``beta2`` are at least 0 and below 1.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.Adam(learning_rate=0.1).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.9, 0.8, 0.7]
    """

    type = "adam"
    _states: ClassVar = {"Moment1": "moment1", "Moment2": "moment2"}
    _powers: ClassVar = {"Beta1Pow": ("beta1_pow_acc", "beta1"), "Beta2Pow": ("beta2_pow_acc", "beta2")}

    def __init__(self, learning_rate: float | Variable = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 regularization: WeightDecayRegularizer | None = None, name: str | None = None, lazy_mode: bool = False,
                 **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {**self._betas(beta1, beta2), "epsilon": self._number("epsilon", epsilon, at_least=0), "lazy_mode": lazy_mode}


class AdamaxOptimizer(Optimizer):
    """``m = beta1 m + (1 - beta1) g;  n = max(beta2 n, |g|);  w -= rate / (1 - beta1^t) * m / (n + epsilon)``

    From the same paper as Adam, section 7.1.

    ``beta1`` and ``beta2`` are at least 0 and below 1.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.Adamax(learning_rate=0.1).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.9, 0.8, 0.7]
    """

    type = "adamax"
    _states: ClassVar = {"Moment": "moment", "InfNorm": "inf_norm"}
    _powers: ClassVar = {"Beta1Pow": ("beta1_pow_acc", "beta1")}

    def __init__(self, learning_rate: float | Variable = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 regularization: WeightDecayRegularizer | None = None, name: str | None = None, **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {**self._betas(beta1, beta2), "epsilon": self._number("epsilon", epsilon, at_least=0)}


class AdadeltaOptimizer(Optimizer):
    """``a = rho a + (1 - rho) g g;  d = g sqrt((u + epsilon) / (a + epsilon));  u = rho u + (1 - rho) d d;  w -= d``

    From Zeiler, "ADADELTA: an adaptive learning rate method", 2012. The learning rate is not used.

    ``rho`` is from 0 to 1: the weight of the old in both averages.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.Adadelta(learning_rate=1.0, epsilon=1e-3).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.86, 0.718, 0.575]
    """

    type = "adadelta"
    _states: ClassVar = {"AvgSquaredGrad": "_avg_squared_grad", "AvgSquaredUpdate": "_avg_squared_update"}
    _takes_rate = False

    def __init__(self, learning_rate: float | Variable, epsilon: float = 1e-6, rho: float = 0.95,
                 regularization: WeightDecayRegularizer | None = None, name: str | None = None, **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {"epsilon": self._number("epsilon", epsilon, at_least=0), "rho": self._number("rho", rho, at_least=0, at_most=1)}


class RMSPropOptimizer(Optimizer):
    """``a = rho a + (1 - rho) g g;  m = momentum m + rate g / sqrt(a + epsilon);  w -= m``

    ``centered`` subtracts the square of the average gradient from ``a``. From Hinton's lecture 6e.

    ``rho`` and ``momentum`` are from 0 to 1.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.RMSProp(learning_rate=0.01, rho=0.9).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.968, 0.945, 0.926]
    """

    type = "rmsprop"
    _states: ClassVar = {"Moment": "momentum", "MeanSquare": "mean_square", "MeanGrad": "mean_grad"}

    def __init__(self, learning_rate: float | Variable, rho: float = 0.95, epsilon: float = 1e-6, momentum: float = 0.0,
                 centered: bool = False, regularization: WeightDecayRegularizer | None = None, name: str | None = None,
                 **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {"decay": self._number("rho", rho, at_least=0, at_most=1),
                       "epsilon": self._number("epsilon", epsilon, at_least=0),
                       "momentum": self._number("momentum", momentum, at_least=0, at_most=1), "centered": bool(centered)}


class FtrlOptimizer(Optimizer):
    """Follow the regularised leader, with sums of squares ``n`` and of gradients ``z`` for each weight.

    From McMahan and others, "Ad click prediction: a view from the trenches", KDD 2013, algorithm 1.

    ``l1`` and ``l2`` are the weights of the two penalties, of at least 0. ``lr_power`` is the power of the sum of squares by which the rate
    falls; -0.5 is its root.

    With a large ``l1`` weights that matter little are exactly 0:

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> _ = fluid.optimizer.Ftrl(learning_rate=0.1, l1=20.0).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.0, 0.0, 0.0]
    """

    type = "ftrl"
    _states: ClassVar = {"SquaredAccumulator": "squared", "LinearAccumulator": "linear"}

    def __init__(self, learning_rate: float | Variable, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5,
                 regularization: WeightDecayRegularizer | None = None, name: str | None = None, **options: Any) -> None:
        super().__init__(learning_rate, regularization, name, **options)
        self._attrs = {"l1": self._number("l1", l1, at_least=0), "l2": self._number("l2", l2, at_least=0),
                       "lr_power": self._number("lr_power", lr_power, at_most=0)}


class LambOptimizer(AdamOptimizer):
    """Adam whose step, with ``lamb_weight_decay * w`` in it, is scaled by ``|w| / |step|`` for each parameter, for large batches.

    ``exclude_from_weight_decay_fn`` takes a parameter and says whether it does not decay. In a sparse table each row has a step of its
    own. From You and others, "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020.

    ``beta1`` and ``beta2`` are those of ``Adam``: the weights of the old in the averages of gradients and of their squares.

    ``lamb_weight_decay`` is at least 0. ``beta1`` and ``beta2`` are at least 0 and below 1.

    >>> w = fluid.layers.create_parameter([1], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
    >>> no_decay = lambda param: param.name.endswith(".b_0")
    >>> _ = fluid.optimizer.Lamb(learning_rate=0.1, exclude_from_weight_decay_fn=no_decay).minimize(fluid.layers.mean(w))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[w])[0]), 3) for _ in range(3)]
    [0.9, 0.81, 0.729]
    """

    type = "lamb"

    def __init__(self, learning_rate: float | Variable = 0.001, lamb_weight_decay: float = 0.01, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, regularization: WeightDecayRegularizer | None = None, exclude_from_weight_decay_fn: Any = None,
                 name: str | None = None, **options: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, regularization, name, **options)
        self._attrs = {what: value for what, value in self._attrs.items() if what != "lazy_mode"}
        self._weight_decay = self._number("lamb_weight_decay", lamb_weight_decay, at_least=0)
        self._excludes = exclude_from_weight_decay_fn

    def _attrs_of(self, param: Parameter) -> dict[str, Any]:
        from ..parameters.sparse_table import is_tile

        decay = 0.0 if self._excludes is not None and self._excludes(param) else self._weight_decay
        return {**self._attrs, "weight_decay": decay, "per_row": is_tile(param)}


Adagrad = AdagradOptimizer
DecayedAdagrad = DecayedAdagradOptimizer
Adam = AdamOptimizer
Adamax = AdamaxOptimizer
Adadelta = AdadeltaOptimizer
RMSProp = RMSPropOptimizer
Ftrl = FtrlOptimizer
Lamb = LambOptimizer


__all__ = ["AdagradOptimizer", "DecayedAdagradOptimizer", "AdamOptimizer", "AdamaxOptimizer", "AdadeltaOptimizer", "RMSPropOptimizer",
           "FtrlOptimizer", "LambOptimizer", "Adagrad", "DecayedAdagrad", "Adam", "Adamax", "Adadelta", "RMSProp", "Ftrl", "Lamb"]
