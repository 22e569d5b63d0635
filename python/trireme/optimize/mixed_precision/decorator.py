"""An optimizer that trains in 16 bits, with parameters and updates in float32."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...layers.tensor import create_global_var
from ...native import unique_name
from ...native.checks import finite
from ...native.dtypes import VarType, convert_dtype
from ...native.errors import check_whole
from ...program import Operator, Parameter, Variable, default_main_program, default_startup_program, program_guard
from ..optimizer import Optimizer
from .lists import AutoMixedPrecisionLists
from .rewrite import rewrite_program


class OptimizerWithMixedPrecision:
    """What ``decorate`` returns: used as the optimizer that it wraps.

    ``minimize`` puts casts into the program, scales the loss if that is asked for, appends the gradients and brings them back to their
    size. Then clipping, regularization and the updates of the optimizer follow, all in float32.
    """

    def __init__(self, optimizer: Optimizer, amp_lists: AutoMixedPrecisionLists, dtype: VarType, init_loss_scaling: float,
                 use_dynamic_loss_scaling: bool, scaling_attrs: dict[str, Any]) -> None:
        self._optimizer, self._amp_lists, self._dtype = optimizer, amp_lists, dtype
        self._init_loss_scaling, self._is_dynamic, self._attrs = init_loss_scaling, use_dynamic_loss_scaling, scaling_attrs
        self._loss_scaling: Variable | None = None
        self._scaled_loss: Variable | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_optimizer"], name)

    def get_loss_scaling(self) -> Variable | None:
        """Return the variable with the factor of the loss; None where the loss is not scaled, or before ``backward``."""
        return self._loss_scaling

    def get_scaled_loss(self) -> Variable | None:
        """Return the loss that gradients are taken of; None before ``backward``."""
        return self._scaled_loss

    @property
    def _scales(self) -> bool:
        return self._is_dynamic or self._init_loss_scaling != 1.0

    def _create_state(self) -> dict[str, Variable]:
        def number(name: str, value: float, dtype: str) -> Variable:
            return create_global_var([1], value, dtype, persistable=True, name=unique_name.generate(name))

        self._loss_scaling = number("loss_scaling", self._init_loss_scaling, "float32")
        return {} if not self._is_dynamic else {"InGoodSteps": number("good_steps", 0, "int32"),
                                                "InBadSteps": number("bad_steps", 0, "int32")}

    def backward(self, loss: Variable, startup_program: Any = None, parameter_list: Sequence[Any] | None = None,
                 no_grad_set: Iterable[Any] | None = None, callbacks: Any = None) -> list[tuple[Parameter, Variable]]:
        """Rewrite the program of ``loss``, append the gradient's operators, and return pairs of parameter and gradient, which is float32
        and of its true size."""
        program = loss.block.program
        with program_guard(program, startup_program or default_startup_program()):
            rewrite_program(program, self._amp_lists, self._dtype)
            if not self._scales:
                self._scaled_loss = loss
                return self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)
            state = self._create_state()
            self._scaled_loss = loss * self._loss_scaling
            pairs = self._optimizer.backward(self._scaled_loss, startup_program, parameter_list, no_grad_set, callbacks)
            with program._backward_role_guard():
                self._unscale([grad for _, grad in pairs if grad is not None], state)
            return pairs

    def _unscale(self, grads: list[Variable], state: dict[str, Variable]) -> None:
        """Divide the gradients by the factor. Where one is not finite, all become 0 and the factor shrinks."""
        block, scaling = default_main_program().global_block(), self._loss_scaling
        found = block.create_var(name=unique_name.generate("found_infinite"), shape=[1], dtype="bool", stop_gradient=True)
        block.append_op("check_finite_and_unscale", {"X": grads, "Scale": scaling}, {"Out": grads, "FoundInfinite": found})
        if self._is_dynamic:
            block.append_op("update_loss_scaling", {"X": grads, "FoundInfinite": found, "PrevLossScaling": scaling, **state},
                            {"Out": grads, "LossScaling": scaling, "OutGoodSteps": state["InGoodSteps"],
                             "OutBadSteps": state["InBadSteps"]},
                            self._attrs)

    def apply_gradients(self, params_grads: Sequence[tuple[Parameter, Variable]]) -> list[Operator]:
        """Append clipping, regularization and the updates; return the updates' operators."""
        return self._optimizer.apply_gradients(params_grads)

    def minimize(self, loss: Variable, startup_program: Any = None, parameter_list: Sequence[Any] | None = None,
                 no_grad_set: Iterable[Any] | None = None) -> tuple[list[Operator], list[tuple[Parameter, Variable]]]:
        """Append all it takes to make ``loss`` smaller; return the updates' operators and the pairs of parameter and gradient."""
        if not isinstance(loss, Variable):
            raise TypeError(f"minimize: loss must be a Variable, got {loss!r}")
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
            return self.apply_gradients(params_grads), params_grads


def decorate(optimizer: Optimizer, amp_lists: AutoMixedPrecisionLists | None = None, init_loss_scaling: float = 1.0,
             incr_every_n_steps: int = 1000, decr_every_n_nan_or_inf: int = 2, incr_ratio: float = 2.0, decr_ratio: float = 0.8,
             use_dynamic_loss_scaling: bool | None = None, dtype: Any = "bfloat16") -> OptimizerWithMixedPrecision:
    """Return an optimizer that trains in mixed precision: activations and their gradients in 16 bits, parameters in float32.

    ``amp_lists`` says which operators compute in 16 bits (``AutoMixedPrecisionLists``). ``dtype`` is ``"bfloat16"``, the default, or
    ``"float16"``, for which CPUs have no products: it is slow. bfloat16 has the range of float32, so its loss is not scaled unless
    ``init_loss_scaling`` is not 1.

    The loss is multiplied by the loss scaling, and gradients are divided by it, so that small gradients are not lost in float16. With
    ``use_dynamic_loss_scaling`` (default: for float16 only) a step whose gradients are not all finite updates nothing but what an optimizer
    does for gradients of 0; after ``decr_every_n_nan_or_inf`` of such steps in a row the factor is multiplied by ``decr_ratio`` (between 0
    and 1), and after ``incr_every_n_steps`` good ones by ``incr_ratio`` (above 1).

    >>> x, y = fluid.layers.data("x", [13]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> optimizer = fluid.contrib.mixed_precision.decorate(fluid.optimizer.SGD(learning_rate=0.01))
    >>> ops, pairs = optimizer.minimize(loss)
    >>> [op.type for op in fluid.default_main_program().global_block().ops][:4]
    ['cast', 'mul', 'elementwise_add', 'cast']
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"decorate: optimizer must be an Optimizer, got {optimizer!r}")
    if amp_lists is not None and not isinstance(amp_lists, AutoMixedPrecisionLists):
        raise TypeError(f"decorate: amp_lists must be AutoMixedPrecisionLists, got {amp_lists!r}")
    half = convert_dtype(dtype)
    if half not in (VarType.BF16, VarType.FP16):
        raise ValueError(f"decorate: dtype must be 'bfloat16' or 'float16', got {dtype!r}")
    scaling = finite("decorate: init_loss_scaling", init_loss_scaling, above=0)
    attrs = {"incr_every_n_steps": _steps("incr_every_n_steps", incr_every_n_steps),
             "decr_every_n_nan_or_inf": _steps("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf),
             "incr_ratio": finite("decorate: incr_ratio", incr_ratio, above=1),
             "decr_ratio": finite("decorate: decr_ratio", decr_ratio, above=0, below=1)}
    is_dynamic = half == VarType.FP16 if use_dynamic_loss_scaling is None else bool(use_dynamic_loss_scaling)
    return OptimizerWithMixedPrecision(optimizer, amp_lists or AutoMixedPrecisionLists(), half, scaling, is_dynamic, attrs)


def _steps(name: str, value: Any) -> int:
    return check_whole(f"decorate: {name}", value, 1)
