"""The graph that an export builds: nodes, constants and names; a block of an operator is a graph inside another.

ONNX has no sequences: where a variable has some, each level of them is a value of its own, the offsets of that level ([sequences + 1]
int64).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..native.dtypes import NUMPY_DTYPES, VarType
from ..native.errors import InvalidArgumentError, UnsupportedError
from ..program import Block, Variable

OPSET = 17


class _Shared:
    """What a graph and those inside it have in common. A name is given once, in all of them."""

    def __init__(self, onnx: Any, names: Iterable[str]) -> None:
        self.onnx = onnx
        self.constants: dict[str, np.ndarray] = {}
        self.parameters: dict[str, None] = {}          # variables of the scope that nodes read
        self.reserved = set(names)                     # of variables, which others do not get
        self.taken: set[str] = set()
        self.count = 0


class Graph:
    """Nodes in the order of their operators. A name of the program is a name of the graph, unless it is written twice.

    A graph inside another one reads what that one holds at this place; all names that it writes are new.
    """

    def __init__(self, onnx: Any, block: Block, feeds: Sequence[str] = (), parent: Graph | None = None) -> None:
        self.onnx, self.block, self.parent = onnx, block, parent
        self.nodes: list[Any] = []
        self._now: dict[str, str] = {name: name for name in feeds}         # the graph's name of what a variable holds at this place
        self._shared: _Shared = parent._shared if parent else _Shared(onnx, (name for one in block.program.blocks for name in one.vars))
        # its sequences' offsets, level by level
        self._lods: dict[str, list[str]] = {name: offsets_of(name, block.var(name).lod_level) for name in feeds}
        self._made: dict[tuple[str, ...], str] = {}
        self._shared.taken.update(feeds, *self._lods.values())

    def inside(self, block: Block) -> Graph:
        """Return an empty graph for a block of an operator."""
        return Graph(self.onnx, block, parent=self)

    @property
    def constants(self) -> dict[str, np.ndarray]:
        return self._shared.constants

    @property
    def parameters(self) -> list[str]:
        return list(self._shared.parameters)

    # -- names -------------------------------------------------------------------------------------------------------------

    def _writer(self, var: str) -> Graph | None:
        """The graph that wrote what a variable holds at this place."""
        if var in self._now:
            return self
        if self.parent is None or self._declares(var):                 # a variable of this block hides that of outer ones
            return None
        return self.parent._writer(var)

    def find(self, var: str) -> str | None:
        """Return the name of what a variable holds at this place; None where nothing has been written to it."""
        writer = self._writer(var)
        if writer:
            return writer._now[var]
        if self.var(var).persistable:
            self._shared.parameters[var] = None
            self._shared.taken.add(var)
            return var
        return None

    def name_of(self, var: str) -> str:
        found = self.find(var)
        if found is None and self.var(var).type == VarType.LOD_TENSOR_ARRAY:
            return self._owner(var)._empty_array(var)
        if found is None:
            raise InvalidArgumentError(f"export_onnx: {var!r} is read before anything is written to it; feed it, or write to it first")
        return found

    def _declares(self, var: str) -> bool:
        """Whether this graph is the outermost one of the block that declares the variable."""
        return self.parent is None or (self.block.idx != self.parent.block.idx and self.block.has_var(var))

    def _owner(self, var: str) -> Graph:
        return self if self.parent is None or self._declares(var) else self.parent._owner(var)

    def _empty_array(self, var: str) -> str:
        self._now[var] = self.add("SequenceEmpty", [], dtype=self.type_of(var))
        self._lods[var] = [self.add("SequenceEmpty", [], dtype=int(self.onnx.TensorProto.INT64)) for _ in range(self.var(var).lod_level)]
        return self._now[var]

    def written(self, var: str) -> str:
        """Return the name for a value that is written to a variable: a new one where it was written before."""
        is_free = self.parent is None and var not in self._shared.taken and not self.var(var).persistable
        self._now[var] = var if is_free else self.fresh(var)
        self._shared.taken.add(var)
        self._lods[var] = []
        return self._now[var]

    def fresh(self, hint: str) -> str:
        shared = self._shared
        while True:
            shared.count += 1
            name = f"{hint}.{shared.count}"
            if name not in shared.taken and name not in shared.reserved:
                shared.taken.add(name)
                return name

    # -- sequences -----------------------------------------------------------------------------------------------------------

    def lods(self, var: str) -> list[str]:
        """Return the offsets of a variable's sequences at this place, level by level."""
        writer = self._writer(var)
        return writer._lods.get(var, []) if writer else []

    def put_lods(self, var: str, levels: Iterable[str]) -> None:
        """Give sequences to what has just been written to a variable."""
        self._lods[var] = list(levels)

    def once(self, key: tuple[str, ...], make: Callable[[], str]) -> str:
        """Return what has been made under this key, here or in a graph around; make it if there is none."""
        graph: Graph | None = self
        while graph is not None:
            if key in graph._made:
                return graph._made[key]
            graph = graph.parent
        self._made[key] = make()
        return self._made[key]

    # -- variables ---------------------------------------------------------------------------------------------------------

    def var(self, name: str) -> Variable:
        found = self.block._find_var_recursive(name)
        assert found is not None
        return found

    def shape(self, name: str) -> list[int]:
        return list(self.var(name).desc.shape())

    def dtype(self, name: str) -> Any:
        dtype = self.var(name).dtype
        if dtype is None:
            raise UnsupportedError(f"export_onnx: the type of {name!r} is not known")
        return np.dtype(NUMPY_DTYPES[int(dtype)])

    def type_of(self, name: str) -> int:
        """ONNX's number for the type of a variable's elements."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype(name)))

    # -- nodes -------------------------------------------------------------------------------------------------------------

    def add(self, type: str, inputs: Sequence[str], out: str | None = None, **attrs: Any) -> str:
        """Append a node of one output; return its name."""
        return self.add_node(type, inputs, [out or self.fresh(type.lower())], **attrs)[0]

    def add_node(self, type: str, inputs: Sequence[str], outs: Sequence[str], **attrs: Any) -> list[str]:
        self.nodes.append(self.onnx.helper.make_node(type, list(inputs), list(outs), **attrs))
        return list(outs)

    def constant(self, value: Any, dtype: Any) -> str:
        name = self.fresh("constant")
        self.constants[name] = np.asarray(value, dtype)
        return name

    def longs(self, values: Sequence[int]) -> str:
        return self.constant(list(values), np.int64)

    def number(self, value: float | np.ndarray, like: str) -> str:
        """A number, or an array, of the type of a variable of the program."""
        return self.constant(value, self.dtype(like))


def offsets_of(name: str, levels: int) -> list[str]:
    """Return the names under which a model takes or gives the offsets of the sequences of an input or output."""
    return [f"{name}.offsets"] if levels == 1 else [f"{name}.offsets.{level}" for level in range(levels)]
