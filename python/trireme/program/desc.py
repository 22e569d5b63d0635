"""Handles to the descriptions of programs, which live in the native core.

A handle is unique: the same variable, operator or block always has the same one. What was removed from its
program raises when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._core import ffi, lib
from ..native.dtypes import VarType, convert_dtype
from ..native.errors import check
from ..native.handles import Handle, Native
from .op_desc import OpDesc, _Part
from ..native.names import name_array, name_chars, path_chars, take_bytes, take_text, text_of


class VarDesc(_Part):
    """A variable of a block: its name, kind, data type, shape.

    ``ptr`` is the core's handle of it.

    >>> var = fluid.layers.data("x", [3]).desc
    >>> var.name(), var.shape(), var.dtype(), var.persistable()
    ('x', [-1, 3], VarType.FP32, False)
    """

    __slots__ = ("_ptr", "_block")

    def __init__(self, ptr: Any, block: BlockDesc) -> None:
        self._ptr = ptr
        self._block = block

    def name(self) -> str:
        """Return the variable's name."""
        return text_of(lib.tr_var_desc_name(self._ptr))

    def type(self) -> VarType:
        """Return what the variable holds, such as ``VarType.LOD_TENSOR``."""
        return VarType(lib.tr_var_desc_kind(self._ptr))

    def set_type(self, kind: int) -> None:
        """Set what the variable holds: ``kind`` is a VarType."""
        lib.tr_var_desc_set_kind(self._ptr, int(kind))

    def dtype(self) -> VarType | None:
        """Return the type of the elements, or None when it is not known."""
        code = lib.tr_var_desc_dtype(self._ptr)
        return VarType(code) if code >= 0 else None

    def set_dtype(self, dtype: Any) -> None:
        """Set the type of the elements."""
        lib.tr_var_desc_set_dtype(self._ptr, int(convert_dtype(dtype)))

    def shape(self) -> list[int]:
        """Return the dimensions; -1 is one that is not known before the run."""
        return list(ffi.unpack(lib.tr_var_desc_dims(self._ptr), lib.tr_var_desc_rank(self._ptr)))

    def set_shape(self, shape: Iterable[int | None]) -> None:
        """Set the dimensions; None and -1 are ones that are not known before the run."""
        dims = [-1 if dim is None else int(dim) for dim in shape]
        check(lib.tr_var_desc_set_shape(self._ptr, len(dims), dims))

    def lod_level(self) -> int:
        """Return how many levels of sequences the variable has."""
        return int(lib.tr_var_desc_lod_level(self._ptr))

    def set_lod_level(self, level: int) -> None:
        """Set how many levels of sequences the variable has: ``level`` is a whole number of at least 0."""
        lib.tr_var_desc_set_lod_level(self._ptr, level)

    def persistable(self) -> bool:
        """Return whether the variable outlives a run."""
        return bool(lib.tr_var_desc_persistable(self._ptr))

    def set_persistable(self, persistable: bool) -> None:
        """Set whether the variable outlives a run: ``persistable`` is True or False."""
        lib.tr_var_desc_set_persistable(self._ptr, bool(persistable))

    def gradient(self) -> str | None:
        """Return the name of its gradient that the last ``append_backward`` or ``append_gradients`` made, if any."""
        name = lib.tr_var_desc_gradient(self._ptr)
        return None if name == ffi.NULL else text_of(name)

    def __repr__(self) -> str:
        return f"<VarDesc {self.name()!r}>"

    VarType = VarType                # as Fluid's scripts say it: core.VarDesc.VarType.FP32


class BlockDesc(_Part):
    """A block: its variables by name, its operators in order.

    ``ptr`` is the core's handle of it; ``program`` keeps that alive.

    >>> _ = fluid.layers.scale(fluid.layers.data("x", [3]), 2.0)
    >>> block = fluid.default_main_program().desc.block(0)
    >>> block.id, [var.name() for var in block.all_vars()], block.find_var("y") is None
    (0, ['x', 'scale_0.tmp_0'], True)
    """

    __slots__ = ("_ptr", "_program", "_vars", "_ops")

    def __init__(self, ptr: Any, program: ProgramDesc) -> None:
        self._ptr = ptr
        self._program = program
        self._vars: dict[int, VarDesc] = {}            # by address
        self._ops: dict[int, OpDesc] = {}

    @property
    def id(self) -> int:
        return int(lib.tr_block_index(self._ptr))

    @property
    def parent(self) -> int:
        """The parent's index; -1 for the global block."""
        return int(lib.tr_block_parent(self._ptr))

    @property
    def forward_block_idx(self) -> int:
        return int(lib.tr_block_forward(self._ptr))

    @property
    def revision(self) -> int:
        """Grows by 1 for each variable or operator that is added, removed, renamed or moved."""
        return int(lib.tr_block_revision(self._ptr))

    def _wrap_var(self, ptr: Any) -> VarDesc:
        address = int(ffi.cast("intptr_t", ptr))
        var = self._vars.get(address)
        if var is None:
            var = self._vars[address] = VarDesc(ptr, self)
        return var

    def _wrap_op(self, ptr: Any) -> OpDesc:
        address = int(ffi.cast("intptr_t", ptr))
        op = self._ops.get(address)
        if op is None:
            op = self._ops[address] = OpDesc("", ptr, self)
        return op

    def var(self, name: str) -> VarDesc:
        """Return the variable of this block, made when there is none."""
        chars = name_chars(name)
        ptr = lib.tr_block_create_var(self._ptr, chars)
        if not ptr:
            check(lib.tr_name_check(chars))
        return self._wrap_var(ptr)

    def declare_var(self, name: str, kind: int, dtype: VarType | None, shape: Sequence[int],
                    persistable: bool = False) -> None:
        """Make a variable that the block does not have. Raises ExistsError where there is one.
        ``kind`` is a VarType. ``persistable`` True: the variable outlives a run.
        """
        code = lib.TR_DTYPE_NONE if dtype is None else int(dtype)
        check(lib.tr_block_declare_var(self._ptr, name_chars(name), int(kind), code, len(shape), shape, persistable))

    def find_var(self, name: str) -> VarDesc | None:
        """Return the variable of this block, or None."""
        ptr = lib.tr_block_find_var(self._ptr, name_chars(name))
        return self._wrap_var(ptr) if ptr else None

    def has_var_recursive(self, name: str) -> bool:
        """Return whether this block or one of its parents has the variable."""
        return bool(lib.tr_block_find_var_recursive(self._ptr, name_chars(name)))

    def all_vars(self, begin: int = 0) -> list[VarDesc]:
        """Return the variables in order of creation, from number ``begin`` on."""
        return [self._wrap_var(lib.tr_block_var_at(self._ptr, i)) for i in range(begin, self.var_size())]

    def vars_of_type(self, kind: VarType) -> list[VarDesc]:
        """Return the variables that hold this, in order of creation. ``kind`` is a VarType."""
        return self._vars_where(lambda ptr: lib.tr_var_desc_kind(ptr) == kind)

    def persistable_vars(self) -> list[VarDesc]:
        """Return the variables that outlive a run, in order of creation."""
        return self._vars_where(lib.tr_var_desc_persistable)

    def _vars_where(self, is_wanted: Callable[[Any], bool]) -> list[VarDesc]:
        at, block = lib.tr_block_var_at, self._ptr
        return [self._wrap_var(ptr) for i in range(self.var_size()) if is_wanted(ptr := at(block, i))]

    def var_size(self) -> int:
        """Return the number of variables."""
        return int(lib.tr_block_var_count(self._ptr))

    def remove_var(self, name: str) -> None:
        """Remove a variable."""
        var = self.find_var(name)
        if var is None:
            raise KeyError(f"block {self.id} has no variable {name!r}")
        del self._vars[int(ffi.cast("intptr_t", var._ptr))]
        lib.tr_block_remove_var(self._ptr, name_chars(name))
        del var._ptr

    def rename_var(self, old: str, new: str) -> None:
        """Rename the variable ``old`` to ``new``."""
        self._rename_vars({old: new})

    def _rename_vars(self, names: dict[str, str]) -> None:
        """Rename all or none of these, in one pass over the operators."""
        old, new = ([ffi.new("char[]", name_chars(name)) for name in part] for part in (names, names.values()))
        check(lib.tr_block_rename_vars(self._ptr, len(old), ffi.new("char *[]", old), ffi.new("char *[]", new)))

    def op_size(self) -> int:
        """Return the number of operators."""
        return int(lib.tr_block_op_count(self._ptr))

    def op(self, index: int) -> OpDesc:
        """Return the operator at ``index``, which counts from 0."""
        if not 0 <= index < self.op_size():
            raise IndexError(f"block {self.id} has {self.op_size()} operators, there is no number {index}")
        return self._wrap_op(lib.tr_block_op_at(self._ptr, index))

    def insert_op(self, index: int, op: OpDesc) -> None:
        """Check ``op``, infer the shapes of its outputs and put it before ``index`` (-1: at the end)."""
        if op._block is not None:
            raise ValueError(f"{op.type()} is in a block already")
        check(lib.tr_block_insert_op(self._ptr, index, op._ptr))
        op._block = self
        self._ops[int(ffi.cast("intptr_t", op._ptr))] = op

    def append_op(self, op: OpDesc) -> None:
        """Append an operator: ``op`` is an OpDesc."""
        self.insert_op(-1, op)

    def prepend_op(self, op: OpDesc) -> None:
        """Insert an operator before all others: ``op`` is an OpDesc."""
        self.insert_op(0, op)

    def remove_op(self, index: int) -> None:
        """Remove the operator at ``index``, which counts from 0."""
        op = self.op(index)
        del self._ops[int(ffi.cast("intptr_t", op._ptr))]
        lib.tr_block_remove_op(self._ptr, index)
        del op._ptr

    @property
    def op_revision(self) -> int:
        """Grows when an operator is added, removed, moved or changed."""
        return int(lib.tr_block_op_revision(self._ptr))

    def read_ops(self, begin: int = 0) -> bytes:
        """Return all that the operators from number ``begin`` on say, as ``OpView`` reads it."""
        out, size = ffi.new("void **"), ffi.new("size_t *")
        check(lib.tr_block_read_ops(out, size, self._ptr, begin))
        return take_bytes(out, size)

    def append_ops(self, words: bytes) -> None:
        """Append the operators of such a text (``op_words.joined``), each as by ``insert_op``. ``words`` is that text."""
        check(lib.tr_block_append_ops(self._ptr, words, len(words)))

    def arrange_ops(self, places: Sequence[int]) -> None:
        """Let the operators be those that now stand at ``places``, in that order; remove the others."""
        kept = set(places)
        gone = [lib.tr_block_op_at(self._ptr, i) for i in range(self.op_size()) if i not in kept]
        addresses = [int(ffi.cast("intptr_t", ptr)) for ptr in gone]
        check(lib.tr_block_arrange_ops(self._ptr, len(places), places))
        for address in addresses:
            op = self._ops.pop(address, None)
            if op is not None:
                del op._ptr


class ProgramDesc(Handle):
    """A program: a list of blocks. ``ProgramDesc(data)`` parses a serialised one.

    >>> desc = fluid.core.ProgramDesc()
    >>> desc.num_blocks(), desc.block(0).parent
    (1, -1)
    """

    _instead = "Copy it by clone(), pickle it as serialize_to_string()"

    def __init__(self, data: bytes | None = None, *, _ptr: Any = None) -> None:
        if data is not None:
            out = ffi.new("tr_program **")
            check(lib.tr_program_parse(out, data, len(data)))
            _ptr = out[0]
        elif _ptr is None:
            _ptr = lib.tr_program_new()
        self._blocks: list[BlockDesc] = []
        self._native = Native(_ptr, lib.tr_program_free, owner="ProgramDesc")

    @classmethod
    def load(cls, path: str, allow_io: bool = False) -> ProgramDesc:
        """Read a program from a file. Operators that reach files or other processes are refused, unless ``allow_io``."""
        out = ffi.new("tr_program **")
        check(lib.tr_program_load(out, path_chars(path), lib.TR_IO_ALL if allow_io else 0))
        return cls(_ptr=out[0])

    def clone(self) -> ProgramDesc:
        """Return a copy."""
        return ProgramDesc(_ptr=lib.tr_program_clone(self._native.ptr))

    def expand(self) -> ProgramDesc:
        """Return a copy in which composite operators are replaced by those that they are made of."""
        out = ffi.new("tr_program **")
        check(lib.tr_program_expand(out, self._native.ptr))
        return ProgramDesc(_ptr=out[0])

    def serialize_to_string(self) -> bytes:
        """Return the program as bytes, in Fluid's format."""
        out, size = ffi.new("void **"), ffi.new("size_t *")
        check(lib.tr_program_serialize(out, size, self._native.ptr))
        return take_bytes(out, size)

    def to_string(self) -> str:
        """Return the program as text."""
        out = ffi.new("char **")
        check(lib.tr_program_to_string(out, self._native.ptr))
        return take_text(out)

    def num_blocks(self) -> int:
        """Return the number of blocks."""
        return int(lib.tr_program_block_count(self._native.ptr))

    def block(self, index: int) -> BlockDesc:
        """Return the block at ``index``; 0 is the global block."""
        count = self.num_blocks()
        if not 0 <= index < count:
            raise IndexError(f"the program has {count} blocks, there is no number {index}")
        for i in range(len(self._blocks), count):
            self._blocks.append(BlockDesc(lib.tr_program_block(self._native.ptr, i), self))
        return self._blocks[index]

    def append_block(self, parent: BlockDesc | int) -> BlockDesc:
        """Append a block and return it: ``parent`` is the block that it belongs to, or its index."""
        index = parent if isinstance(parent, int) else parent.id
        if not lib.tr_program_append_block(self._native.ptr, index):
            raise IndexError(f"the program has {self.num_blocks()} blocks, there is no parent {index}")
        return self.block(self.num_blocks() - 1)

    @property
    def revision(self) -> int:
        """Changes with every change of the program."""
        return int(lib.tr_program_revision(self._native.ptr))

    @property
    def random_seed(self) -> int:
        return int(lib.tr_program_random_seed(self._native.ptr))

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        lib.tr_program_set_random_seed(self._native.ptr, seed)

    def append_backward(self, loss: str, inputs: Sequence[str], no_grad: Iterable[str]) -> None:
        """Append the operators that compute the gradient of ``loss``, with respect to ``inputs`` in any case.
        ``no_grad`` names the variables that get no gradient.
        """
        input_count, input_names, _keep_inputs = name_array(inputs)
        count, pointers, _keep = name_array(no_grad)
        check(lib.tr_append_backward(self._native.ptr, name_chars(loss), input_count, input_names, count, pointers))

    def append_gradients(self, targets: Sequence[str], grads: Sequence[str | None], inputs: Sequence[str], no_grad: Iterable[str]) -> None:
        """The same for any targets, whose gradients are ``grads``, or ones where that is None, and with respect to ``inputs`` alone.
        ``no_grad`` names the variables that get no gradient.
        """
        given = [ffi.NULL if grad is None else ffi.new("char[]", name_chars(grad)) for grad in grads]
        target_count, target_names, _keep = name_array(targets)
        input_count, input_names, _keep_inputs = name_array(inputs)
        count, pointers, _keep_too = name_array(no_grad)
        check(lib.tr_append_gradients(self._native.ptr, target_count, target_names, ffi.new("char *[]", given),
                                      input_count, input_names, count, pointers))
