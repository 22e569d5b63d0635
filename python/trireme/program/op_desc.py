"""The handle of an operator's description: its slots and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._core import ffi, lib
from ..native.errors import InvalidArgumentError, user_line
from ..native.handles import Uncopied
from ..native.names import name_array, name_chars, text_of
from .op_protos import (
    ATTR_NAMES, BLOCK, BLOCKS, BOOL, BOOLS, FLOAT, FLOATS, INT, INTS, LONG, LONGS, STRING, STRINGS, block_attrs_of, op_proto)

if TYPE_CHECKING:
    from .desc import BlockDesc


class _Part(Uncopied):
    """A part of a program. It loses ``_ptr`` when it is removed from there."""

    __slots__ = ()
    _instead = "Its program can be copied by clone(), and pickled as serialize_to_string()"

    def __getattr__(self, name: str) -> Any:           # only for what is not there
        if name == "_ptr":
            raise InvalidArgumentError(f"this {type(self).__name__} was removed from its program, and cannot be used any more\n"
                                       f"  your line: {user_line()}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


_WHOLE = (INT, LONG, BOOL, BLOCK)
_WHOLES = (INTS, LONGS, BOOLS, BLOCKS)


class OpDesc(_Part):
    """An operator: its type, the variables in its slots, its attributes.

    ``type`` is the operator's name.

    >>> op = fluid.core.OpDesc("scale")
    >>> op.set_input("X", ["x"])
    >>> op.set_attr("scale", 2.0)
    >>> op.input_arg_names(), op.attr("scale")
    (['x'], 2.0)
    """

    __slots__ = ("_ptr", "_block")

    def __init__(self, type: str, _ptr: Any = None, _block: BlockDesc | None = None) -> None:
        self._ptr = lib.tr_op_desc_new(name_chars(type)) if _ptr is None else _ptr
        self._block = _block

    def __del__(self) -> None:
        if getattr(self, "_block", self) is None:      # it is made, and no block owns it
            lib.tr_op_desc_free(self._ptr)

    def type(self) -> str:
        """Return the operator's type, such as ``"mul"``."""
        return text_of(lib.tr_op_desc_type(self._ptr))

    def copy(self) -> OpDesc:
        """Return the operator anew, in no block, without the attributes that say where it was made."""
        return OpDesc("", lib.tr_op_desc_copy(self._ptr))

    def set_input(self, slot: str, names: Sequence[str]) -> None:
        """Set the variables of an input: ``slot`` is its name, ``names`` are those of the variables."""
        count, pointers, _keep = name_array(names)
        lib.tr_op_desc_set_input(self._ptr, name_chars(slot), count, pointers)

    def set_output(self, slot: str, names: Sequence[str]) -> None:
        """Set the variables of an output: ``slot`` is its name, ``names`` are those of the variables."""
        count, pointers, _keep = name_array(names)
        lib.tr_op_desc_set_output(self._ptr, name_chars(slot), count, pointers)

    def input_names(self) -> list[str]:
        """Return the names of the input slots."""
        ptr = self._ptr
        return [text_of(lib.tr_op_desc_input_slot(ptr, i)) for i in range(lib.tr_op_desc_input_slots(ptr))]

    def output_names(self) -> list[str]:
        """Return the names of the output slots."""
        ptr = self._ptr
        return [text_of(lib.tr_op_desc_output_slot(ptr, i)) for i in range(lib.tr_op_desc_output_slots(ptr))]

    def input(self, slot: str) -> list[str]:
        """Return the names of the variables in the input ``slot``."""
        ptr, chars = self._ptr, name_chars(slot)
        return [text_of(lib.tr_op_desc_input(ptr, chars, i)) for i in range(lib.tr_op_desc_input_count(ptr, chars))]

    def output(self, slot: str) -> list[str]:
        """Return the names of the variables in the output ``slot``."""
        ptr, chars = self._ptr, name_chars(slot)
        return [text_of(lib.tr_op_desc_output(ptr, chars, i)) for i in range(lib.tr_op_desc_output_count(ptr, chars))]

    def inputs(self) -> dict[str, list[str]]:
        """Return the names of the variables of each input slot."""
        return {slot: self.input(slot) for slot in self.input_names()}

    def outputs(self) -> dict[str, list[str]]:
        """Return the names of the variables of each output slot."""
        return {slot: self.output(slot) for slot in self.output_names()}

    def input_arg_names(self) -> list[str]:
        """Return the names of all variables that the operator reads."""
        ptr = self._ptr
        return [ffi.string(lib.tr_op_desc_input_arg(ptr, i)).decode("utf-8", "surrogateescape")
                for i in range(lib.tr_op_desc_input_args(ptr))]

    def output_arg_names(self) -> list[str]:
        """Return the names of all variables that the operator writes."""
        ptr = self._ptr
        return [ffi.string(lib.tr_op_desc_output_arg(ptr, i)).decode("utf-8", "surrogateescape")
                for i in range(lib.tr_op_desc_output_args(ptr))]

    def role(self) -> int:
        """Return its attribute op_role; 0, which is Forward, where it has none."""
        ptr = self._ptr
        return lib.tr_op_desc_attr_int(ptr, b"op_role", 0) if lib.tr_op_desc_has_attr(ptr, b"op_role") else 0

    def attr_names(self) -> list[str]:
        """Return the names of the attributes."""
        return [text_of(lib.tr_op_desc_attr_name(self._ptr, i)) for i in range(lib.tr_op_desc_attr_count(self._ptr))]

    def block_attrs(self) -> list[str]:
        """Return the names of its attributes that are blocks; mostly there is none, which the operator's proto tells."""
        names = block_attrs_of(self.type())
        names = self.attr_names() if names is None else names
        return [name for name in names if self.has_attr(name) and self.attr_type(name) == BLOCK]

    def has_attr(self, name: str) -> bool:
        """Return whether the operator has an attribute of this name."""
        return bool(lib.tr_op_desc_has_attr(self._ptr, name_chars(name)))

    def attr_type(self, name: str) -> int:
        """Return the number of an attribute's type."""
        return int(lib.tr_op_desc_attr_type(self._ptr, name_chars(name)))

    def attr(self, name: str) -> Any:
        """Return an attribute's value; a block is its index."""
        ptr, chars = self._ptr, name_chars(name)
        if not lib.tr_op_desc_has_attr(ptr, chars):
            raise KeyError(f"{self.type()} has no attribute {name!r}; it has {', '.join(self.attr_names())}")
        kind = lib.tr_op_desc_attr_type(ptr, chars)
        read = _READERS[kind]
        if kind in (INTS, FLOATS, STRINGS, BOOLS, BLOCKS, LONGS):
            return [read(ptr, chars, i) for i in range(lib.tr_op_desc_attr_size(ptr, chars))]
        return read(ptr, chars, 0)

    def set_attr(self, name: str, value: Any, kind: int | None = None) -> None:
        """Set an attribute. Its type is ``kind``, or what the operator's proto says, or what the value suggests."""
        if kind is None:
            kind = attr_kind(self.type(), name, value)
        ptr, chars = self._ptr, name_chars(name)
        try:
            if kind in _WHOLE:
                lib.tr_op_desc_set_int(ptr, chars, whole_number(value, kind), kind)
            elif kind == FLOAT:
                lib.tr_op_desc_set_float(ptr, chars, float(value))
            elif kind == STRING:
                data = value if isinstance(value, bytes) else _as_str(value).encode("utf-8", "surrogateescape")
                lib.tr_op_desc_set_string(ptr, chars, data, len(data))
            elif kind in _WHOLES:
                numbers = [whole_number(x, kind) for x in _as_list(value)]
                lib.tr_op_desc_set_ints(ptr, chars, len(numbers), numbers, kind)
            elif kind == FLOATS:
                floats = [float(x) for x in _as_list(value)]
                lib.tr_op_desc_set_floats(ptr, chars, len(floats), floats)
            else:
                count, pointers, _keep = name_array([_as_str(x) for x in _as_list(value)])
                lib.tr_op_desc_set_strings(ptr, chars, count, pointers)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{self.type()}: attribute {name!r} is {ATTR_NAMES[kind]}, got {value!r} "
                            f"({error})") from None

    def remove_attr(self, name: str) -> None:
        """Remove an attribute."""
        lib.tr_op_desc_remove_attr(self._ptr, name_chars(name))

    def infer_shape(self, block: BlockDesc) -> None:
        """Infer the types and shapes of the outputs from what ``block`` says of the inputs, as appending the operator does."""
        block.append_op(self.copy())
        block.remove_op(block.op_size() - 1)

    infer_var_type = infer_shape

    def __repr__(self) -> str:
        return f"<OpDesc {self.type()!r}>"


def _read_string(ptr: Any, name: bytes, index: int) -> str:
    size = ffi.new("size_t *")
    chars = lib.tr_op_desc_attr_string(ptr, name, index, size)
    return bytes(ffi.buffer(chars, size[0])).decode("utf-8", "surrogateescape")


def _read_bool(ptr: Any, name: bytes, index: int) -> bool:
    return bool(lib.tr_op_desc_attr_int(ptr, name, index))


_READERS = {INT: lib.tr_op_desc_attr_int, LONG: lib.tr_op_desc_attr_int, BLOCK: lib.tr_op_desc_attr_int,
            INTS: lib.tr_op_desc_attr_int, LONGS: lib.tr_op_desc_attr_int, BLOCKS: lib.tr_op_desc_attr_int,
            FLOAT: lib.tr_op_desc_attr_float, FLOATS: lib.tr_op_desc_attr_float,
            STRING: _read_string, STRINGS: _read_string, BOOL: _read_bool, BOOLS: _read_bool}


def whole_number(value: Any, kind: int) -> int:
    """Return the value of an attribute of a type for whole numbers, bools or blocks; TypeError and OverflowError say what does not fit."""
    if kind in (BOOL, BOOLS):
        if value not in (0, 1, True, False):
            raise TypeError("neither True nor False")
        return int(value)
    if kind in (BLOCK, BLOCKS):
        return int(getattr(value, "idx", value))
    if isinstance(value, str) or (isinstance(value, type)):
        raise TypeError("not a whole number")
    number = int(value)
    if number != value:
        raise TypeError("not a whole number")
    low, high = (-2**31, 2**31) if kind in (INT, INTS) else (-2**63, 2**63)
    if not low <= number < high:
        raise OverflowError(f"outside [{low}, {high})")
    return number


def _as_str(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError("not a string")
    return str.__str__(value)


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError("not a list")
    return list(value)


COMMON_ATTRS = {"op_role": INT, "op_role_var": STRINGS, "op_namescope": STRING, "op_callstack": STRINGS, "op_pointwise_on": STRING}
_DTYPE_ATTRS = ("dtype", "in_dtype", "out_dtype")


def attr_kind(op: str, name: str, value: Any) -> int:
    """Return the type of an attribute: as the proto has it, else (the core will refuse it) as the value looks."""
    if name in COMMON_ATTRS:
        return COMMON_ATTRS[name]
    proto = op_proto(op)
    if proto is not None and name in proto.attrs:
        kind: int = proto.attrs[name].type
        return kind
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT if -2**31 <= value < 2**31 else LONG
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, (list, tuple)):
        first = value[0] if value else 0
        return {bool: BOOLS, float: FLOATS, str: STRINGS}.get(type(first), INTS)
    return STRING
