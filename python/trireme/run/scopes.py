"""The scope that programs run in unless another is given, and the values in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..native.dtypes import VarType
from ..native.errors import NotFoundError
from ..native.scope import Scope
from ..program import Variable

current = Scope()


def global_scope() -> Scope:
    """Return the scope that programs run in unless another is given.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> fluid.global_scope().find_var("line.w_0").get_tensor().shape()
    [2, 1]
    """
    return current


@contextlib.contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Make ``scope`` the global one inside the block.

    >>> scope = fluid.Scope()
    >>> with fluid.scope_guard(scope):
    ...     fluid.global_scope() is scope
    True
    """
    global current
    if not isinstance(scope, Scope):
        raise TypeError(f"scope_guard takes a Scope, got {scope!r}")
    old, current = current, scope
    try:
        yield
    finally:
        current = old


def as_numpy(tensor: Any) -> Any:
    """Return the array of a LoDTensor, or a list of them.

    ``tensor`` is a LoDTensor, or a list of such and of lists.

    >>> tensor = fluid.create_lod_tensor(np.array([[1], [2]]), [[1, 1]])
    >>> fluid.executor.as_numpy([tensor])[0].tolist()
    [[1], [2]]
    """
    if isinstance(tensor, (list, tuple)):
        return [as_numpy(one) for one in tensor]
    return np.asarray(tensor)


def fetch_var(name: str | Variable, scope: Scope | None = None, return_numpy: bool = True) -> Any:
    """Return the value that a variable has in a scope.

    With ``return_numpy`` (True) it is an array, otherwise a LoDTensor.

    ``name`` is a variable's name, or the Variable. NotFoundError: it has no value there.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> fluid.executor.fetch_var("line.b_0")
    array([0.], dtype=float32)
    """
    name = name.name if isinstance(name, Variable) else name
    var = (scope or current).find_var(name)
    if var is None or var.kind() is None:
        raise NotFoundError(f"the scope has no variable {name!r} with a value")
    tensor = var.get_selected_rows() if var.kind() == VarType.SELECTED_ROWS else var.get_tensor()
    return np.array(tensor) if return_numpy else tensor


__all__ = ["as_numpy", "fetch_var", "global_scope", "scope_guard"]
