"""The graph that an export builds: nodes, constants and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import NUMPY_DTYPES
from ..errors import UnsupportedError
from ..framework import Block, Operator, Variable

OPSET = 17


class Graph:
    """Nodes in the order of their operators. A name of the program is a name of the graph, unless it is written twice."""

    def __init__(self, onnx: Any, block: Block) -> None:
        self.onnx, self.block = onnx, block
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self._now: dict[str, str] = {}                 # the graph's name of what a variable holds at this place
        self._count = 0

    # -- names -------------------------------------------------------------------------------------------------------------

    def name_of(self, var: str) -> str:
        return self._now.get(var, var)

    def written(self, var: str) -> str:
        """Return the name for a value that is written to a variable: a new one where it was written before."""
        self._now[var] = self.fresh(var) if var in self._now else var
        return self._now[var]

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}.{self._count}"

    def var(self, name: str) -> Variable:
        return self.block._find_var_recursive(name)

    def shape(self, name: str) -> list[int]:
        return list(self.var(name).desc.shape())

    # -- nodes -------------------------------------------------------------------------------------------------------------

    def add(self, type: str, inputs: Sequence[str], out: str | None = None, **attrs: Any) -> str:
        """Append a node of one output; return its name."""
        out = out or self.fresh(type.lower())
        self.nodes.append(self.onnx.helper.make_node(type, list(inputs), [out], **attrs))
        return out

    def constant(self, value: Any, dtype: Any) -> str:
        name = self.fresh("constant")
        self.constants[name] = np.asarray(value, dtype)
        return name

    def longs(self, values: Sequence[int]) -> str:
        return self.constant(list(values), np.int64)

    def number(self, value: float | np.ndarray, like: str) -> str:
        """A number, or an array, of the type of a variable of the program."""
        return self.constant(value, NUMPY_DTYPES[int(self.var(like).dtype)])

    def reshaped(self, value: str, dims: Sequence[int], op: Operator, out: str | None = None) -> str:
        """Give a value these dimensions, one of which may be -1."""
        if sum(dim < 0 for dim in dims) > 1:
            raise UnsupportedError(f"export_onnx: {op.type} gives {op.output_arg_names[0]!r} of the shape {list(dims)}, of which more than one dimension is not known")
        return self.add("Reshape", [value, self.longs(dims)], out)


__all__ = ["OPSET", "Graph"]
