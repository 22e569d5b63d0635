"""How much memory a program's variables take."""

from __future__ import annotations

from ..native.dtypes import VarType, numpy_dtype
from ..native.errors import check_whole
from ..parameters.sparse_table import is_table, table_names
from ..program import Program, Variable
from ..program.roles import GRAD_SUFFIX

_UNITS = ("B", "KB", "MB", "GB", "TB")


def _bytes(var: Variable, batch_size: int) -> int:
    if is_table(var) or var.dtype is None or var.type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
        return 0
    size = numpy_dtype(var.dtype).itemsize
    for dim in var.shape:
        size *= batch_size if dim is None else dim
    return size


def memory_usage(program: Program, batch_size: int) -> tuple[float, float, str]:
    """Return the least and the most memory that a step of ``program`` takes, and their unit ("B", "KB", "MB", ...).

    The least is what persists and what is fed, which share no memory; the most is all variables, none of which share any. A plan lies
    between the two: ``Executor.plan`` prints what it takes. Unknown dimensions count as ``batch_size``. A distributed table counts nothing:
    it has the rows that were trained (`distributed.table_report` tells their memory).

    >>> y = fluid.layers.fc(fluid.layers.data("x", [100]), 100)
    >>> fluid.contrib.memory_usage(fluid.default_main_program(), batch_size=10)
    (43.359375, 51.171875, 'KB')
    """
    if not isinstance(program, Program):
        raise TypeError(f"memory_usage: program must be a Program, got {program!r}")
    batch_size = check_whole("memory_usage: batch_size", batch_size, 1)
    tables = {name + GRAD_SUFFIX for name in table_names(program)}
    variables = [var for var in program.list_vars() if var.name not in tables]
    low = sum(_bytes(var, batch_size) for var in variables if var.persistable or var.is_data)
    high = sum(_bytes(var, batch_size) for var in variables)
    unit = 0
    while high >= 1024 ** (unit + 1) and unit + 1 < len(_UNITS):
        unit += 1
    return low / 1024 ** unit, high / 1024 ** unit, _UNITS[unit]


__all__ = ["memory_usage"]
