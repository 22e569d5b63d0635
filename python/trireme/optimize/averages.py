"""Means of parameters over the last steps, for evaluation: `ModelAverage` and `ExponentialMovingAverage`.

Both keep persistable variables of the trainer, which the training program moves once a step. In a job each trainer has its own, and waits
for the new parameters at the end of a step, so its means are those of one process. `apply` puts the means in the parameters' place and
`restore` takes them out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..layers.tensor import fill_constant
from ..native import unique_name
from ..native.checks import finite
from ..parameters.initializer import Constant
from ..parameters.layer_helper import LayerHelper
from ..parameters.sparse_table import is_table, refuse_table
from ..program import Parameter, Program, Variable, default_main_program
from ..program.roles import OpRole
from ..run.runner import Runner
from ..run.scopes import fetch_var, global_scope


class _Averages:
    """What both have in common: the parameters, their variables, and the exchange."""

    def __init__(self, kind: str, name: str | None) -> None:
        self._helper = LayerHelper(kind, name=name)
        self._params: list[Parameter] = []
        self._kept: dict[str, np.ndarray] = {}

    def _choose(self, program: Program) -> None:
        """Take the parameters that train, and those that ask for it by ``do_model_average``."""
        self._params = [param for param in program.all_parameters() if param.trainable or param.do_model_average]
        if not self._params:
            raise ValueError(f"{type(self).__name__}: the program has no parameter that trains")
        if table := next(filter(is_table, self._params), None):
            refuse_table(f"{type(self).__name__}: means are kept", table.name)

    def _variable(self, name: str, shape: Any, dtype: Any, value: float = 0.0) -> Variable:
        var = self._helper.create_global_variable(name=unique_name.generate(f"{self._helper.name}.{name}"), persistable=True, dtype=dtype,
                                                  shape=shape, stop_gradient=True)
        self._helper.set_variable_initializer(var, Constant(value))
        return var

    def _mean(self, param: Parameter) -> np.ndarray:
        raise NotImplementedError

    @contextmanager
    def apply(self, executor: Runner | None = None, need_restore: bool = True) -> Iterator[None]:
        """Within ``with``, the parameters are the means; after it they are themselves, unless ``need_restore`` is False."""
        if self._kept:
            raise RuntimeError(f"{type(self).__name__}: the means are applied already; call restore() first")
        means = {param.name: self._mean(param) for param in self._params}
        self._kept = {name: np.array(fetch_var(name)) for name in means}
        _put(means)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Runner | None = None) -> None:
        """Give the parameters the values that they had before `apply`."""
        _put(self._kept)
        self._kept = {}


def _put(values: dict[str, np.ndarray]) -> None:
    for name, value in values.items():
        global_scope().var(name).get_tensor().set(value)


class ExponentialMovingAverage(_Averages):
    """Moving means of all parameters: ``mean = decay mean + (1 - decay) parameter``, over ``1 - decay^t``.

    Call `update` once, after ``minimize``: it appends operators that move the means in each step. ``thres_steps``, a variable [1]
    that counts steps, makes the decay smaller at first: ``min(decay, (1 + steps) / (10 + steps))``.

    >>> x, y = fluid.layers.data("x", [13]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> _ = fluid.optimizer.SGD(0.01).minimize(loss)
    >>> ema = fluid.optimizer.ExponentialMovingAverage(0.999)
    >>> ema.update()
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = exe.run(feed={"x": np.zeros((2, 13), "float32"), "y": np.ones((2, 1), "float32")})
    >>> with ema.apply(exe):
    ...     pass                                               # evaluate here
    """

    def __init__(self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None) -> None:
        super().__init__("exponential_moving_average", name)
        self._decay, self._steps = finite("ExponentialMovingAverage: decay", decay, at_least=0, below=1), thres_steps
        self._means: dict[str, Variable] = {}

    def update(self) -> None:
        """Append the operators that move the means."""
        if self._means:
            raise RuntimeError("ExponentialMovingAverage: update() was called before")
        program = default_main_program()
        self._choose(program)
        with program._role_guard(OpRole.Optimize):     # once in a step, behind the updates
            self._append()

    def _append(self) -> None:
        self._power = self._variable("decay_power", [1], "float32", 1.0)
        decay = self._current_decay()
        share = 1.0 - decay
        self._times(self._power, decay, self._power)
        for param in self._params:
            mean = self._means[param.name] = self._variable(f"{param.name}.mean", param.shape, param.dtype)
            added = self._helper.create_variable_for_type_inference(param.dtype, stop_gradient=True)
            self._times(mean, decay, mean)
            self._times(param, share, added)
            self._helper.append_op(type="elementwise_add", inputs={"X": [mean], "Y": [added]}, outputs={"Out": [mean]})

    def _current_decay(self) -> Any:
        if self._steps is None:
            return self._decay
        from ..layers.math import elementwise_min
        from ..layers.tensor import cast
        steps = cast(self._steps, "float32")
        return elementwise_min((steps + 1.0) / (steps + 10.0), fill_constant([1], "float32", self._decay))

    def _times(self, x: Variable, factor: Any, out: Variable) -> None:
        if isinstance(factor, Variable):
            self._helper.append_op(type="elementwise_mul", inputs={"X": [x], "Y": [factor]}, outputs={"Out": [out]})
        else:
            self._helper.append_op(type="scale", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"scale": factor})

    def _mean(self, param: Parameter) -> np.ndarray:
        power = float(np.ravel(fetch_var(self._power.name))[0])
        if power == 1.0:
            raise RuntimeError("ExponentialMovingAverage: there is no mean before the first step")
        return np.asarray(fetch_var(self._means[param.name].name)) / np.float32(1.0 - power)


class ModelAverage(_Averages):
    """Means of all parameters over a window of the last steps. Make it after ``minimize``.

    The window is ``average_window_rate`` times the number of steps, at least ``min_average_window`` and at most
    ``max_average_window``. ``regularization`` means nothing here.

    >>> x, y = fluid.layers.data("x", [13]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> _ = fluid.optimizer.SGD(0.01).minimize(loss)
    >>> average = fluid.optimizer.ModelAverage(0.15, min_average_window=2, max_average_window=10)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = exe.run(feed={"x": np.zeros((2, 13), "float32"), "y": np.ones((2, 1), "float32")})
    >>> with average.apply(exe):
    ...     pass                                               # evaluate here
    """

    def __init__(self, average_window_rate: float, min_average_window: int = 10000, max_average_window: int = 10000,
                 regularization: Any = None, name: str | None = None) -> None:
        super().__init__("model_average", name)
        rate = finite("ModelAverage: average_window_rate", average_window_rate, at_least=0)
        attrs = {"average_window": rate, "min_average_window": min_average_window, "max_average_window": max_average_window}
        program = default_main_program()
        self._choose(program)
        with program._role_guard(OpRole.Optimize):
            self._append(attrs)

    def _append(self, attrs: dict[str, Any]) -> None:
        self._state: dict[str, dict[str, Variable]] = {}
        for param in self._params:
            state = {end: self._variable(f"{param.name}.{end}", param.shape, param.dtype) for end in ("sum_1", "sum_2", "sum_3")}
            state |= {end: self._variable(f"{param.name}.{end}", [1], "int64")
                      for end in ("num_accumulates", "old_num_accumulates", "num_updates")}
            self._state[param.name] = state
            self._helper.append_op(type="average_accumulates", attrs=attrs,
                                   inputs={"param": [param], **{f"in_{end}": [var] for end, var in state.items()}},
                                   outputs={f"out_{end}": [var] for end, var in state.items()})

    def _mean(self, param: Parameter) -> np.ndarray:
        value = {end: np.asarray(fetch_var(var.name)) for end, var in self._state[param.name].items()}
        count = int(value["num_accumulates"][0] + value["old_num_accumulates"][0])
        if count == 0:
            raise RuntimeError("ModelAverage: there is no mean before the first step")
        return np.asarray((value["sum_1"] + value["sum_2"] + value["sum_3"]) / np.float32(count))
