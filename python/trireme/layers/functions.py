"""Functions of Python as layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..native.errors import InvalidArgumentError, ShapeError, user_line
from ..parameters.layer_helper import LayerHelper
from ..program.variable import Variable


def _listed(what: str, given: Any) -> list[Variable]:
    """Return the variables as a list."""
    if given is None:
        return []
    variables = [given] if isinstance(given, Variable) else given
    if not isinstance(variables, (list, tuple)) or not all(isinstance(one, Variable) for one in variables):
        raise TypeError(f"py_func: {what} must be a Variable or a list of them, got {given!r}")
    return list(variables)


def py_func(func: Callable[..., Any], x: Variable | Sequence[Variable] | None, out: Variable | Sequence[Variable] | None,
            backward_func: Callable[..., Any] | None = None,
            skip_vars_in_backward_input: Variable | Sequence[Variable] | None = None) -> Variable | Sequence[Variable] | None:
    """Call ``func`` with the values of ``x`` whenever the program comes by, and return ``out``, which has what it returns.

    ``func`` gets a ``LoDTensor`` for each of ``x`` (``np.array(tensor)`` is its array), copies that it may keep. It returns an array or a
    LoDTensor for each of ``out``: variables that the script has created with the type and shape of the results. Another type or shape ends
    the run. ``out=None``: the function only looks. An exception in it ends the run with its traceback.

    ``backward_func`` gets the values of ``x`` and ``out`` and the gradients of ``out``, in this order, and returns a gradient for each of
    ``x``, or None where there is none to return. ``skip_vars_in_backward_input`` are those of ``x`` and ``out`` that it does not get.
    Without ``backward_func`` no gradient flows.

    A function runs no program. It stays where the script runs: on each trainer of a job, on the thread of each replica, and in no saved
    model. It is kept until the process ends. Raises TypeError, ShapeError (an output without a shape), InvalidArgumentError.

    >>> x = fluid.layers.data("x", [3])
    >>> y = fluid.default_main_program().current_block().create_var(name="y", dtype="float32", shape=[-1, 3])
    >>> _ = fluid.layers.py_func(lambda x: np.tanh(x), x, y, lambda x, y, dy: np.array(dy) * (1 - np.square(y)))
    >>> fluid.Executor().run(feed={"x": np.zeros((1, 3), "float32")}, fetch_list=[y])
    [array([[0., 0., 0.]], dtype=float32)]
    """
    from ..run.py_functions import PyFuncRegistry

    ins, outs = _listed("x", x), _listed("out", out)
    skipped = [var.name for var in _listed("skip_vars_in_backward_input", skip_vars_in_backward_input)]
    for var in outs:
        if var.dtype is None or not var.desc.shape():
            raise ShapeError(f"py_func: out {var.name!r} has no declared type and shape, which only the function knows; create it by "
                             f"block.create_var(name=..., dtype=..., shape=...)\n  your line: {user_line()}")
    known = {var.name for var in (*ins, *outs)}
    for name in skipped:
        if backward_func is not None and name not in known:
            raise InvalidArgumentError(f"py_func: {name!r} of skip_vars_in_backward_input is neither in x nor in out; there are "
                                       f"{sorted(known)}\n  your line: {user_line()}")
    forward = PyFuncRegistry(func).id
    backward = -1 if backward_func is None else PyFuncRegistry(backward_func).id
    LayerHelper("py_func").append_op(type="py_func", inputs={"X": ins}, outputs={"Out": outs}, attrs={
        "forward_callable_id": forward, "backward_callable_id": backward,
        "backward_skip_vars": skipped if backward_func is not None else []})
    return out


__all__ = ["py_func"]
