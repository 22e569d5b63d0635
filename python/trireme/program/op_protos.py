"""The protos of operators: their slots, attributes and documentation, as the native core has them."""

from __future__ import annotations

from typing import Any

from .._core import ffi, lib
from ..native.errors import check
from ..native.handles import Uncopied
from ..native.names import name_chars, take_bytes, text_of

check(lib.tr_dist_init())            # all operators are known from here on

# Types of attributes, as AttrType numbers them.
INT, FLOAT, STRING, INTS, FLOATS, STRINGS, BOOL, BOOLS, BLOCK, LONG, BLOCKS, LONGS = range(12)
ATTR_NAMES = ("INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS", "BOOLEAN", "BOOLEANS", "BLOCK", "LONG",
              "BLOCKS", "LONGS")


class SlotProto:
    """A named input or output of an operator's proto."""

    __slots__ = ("name", "comment", "duplicable", "dispensable", "intermediate")

    def __init__(self, name: str, comment: str, flags: int) -> None:
        self.name = name
        self.comment = comment
        self.duplicable = bool(flags & lib.TR_SLOT_REPEATED)
        self.dispensable = bool(flags & lib.TR_SLOT_OPTIONAL)
        self.intermediate = bool(flags & lib.TR_SLOT_INTERMEDIATE)


class AttrProto:
    """An attribute of an operator's proto; default and range as text, ``""`` when there is none."""

    __slots__ = ("name", "type", "comment", "required", "default", "range")

    def __init__(self, op: Any, index: int) -> None:
        self.name = text_of(lib.tr_op_attr_name(op, index))
        self.type = lib.tr_op_attr_type(op, index)
        self.comment = text_of(lib.tr_op_attr_comment(op, index))
        self.required = lib.tr_op_attr_required(op, index)
        self.default = text_of(lib.tr_op_attr_default(op, index))
        self.range = text_of(lib.tr_op_attr_range(op, index))


class OpProto(Uncopied):
    """What an operator says of itself: its slots, its attributes with default and range, its comment.

    ``op`` is the core's record.

    >>> proto = fluid.core.op_proto("clip")
    >>> [slot.name for slot in proto.inputs], list(proto.attrs), proto.has_grad
    (['X'], ['min', 'max'], True)
    >>> print(proto.inputs[0].comment)
    any shape, float; selected rows too
    """

    __slots__ = ("type", "comment", "inputs", "outputs", "attrs", "has_grad", "io", "is_composite", "locality", "_ptr")

    def __init__(self, op: Any) -> None:
        self._ptr = op
        self.type = text_of(lib.tr_op_type(op))
        self.comment = text_of(lib.tr_op_doc(op))
        self.has_grad = lib.tr_op_has_grad(op)
        self.io = lib.tr_op_io(op)                     # what it reaches beyond the scope: 0, TR_IO_FILES, TR_IO_PEERS
        self.is_composite = lib.tr_op_is_composite(op)     # it is made of other operators when it is planned
        self.locality = int(lib.tr_op_get_locality(op))    # what its outputs depend on: TR_NOT_LOCAL, TR_ROWWISE or TR_POINTWISE
        self.inputs = [SlotProto(text_of(lib.tr_op_input_name(op, i)), text_of(lib.tr_op_input_comment(op, i)),
                                 lib.tr_op_input_flags(op, i)) for i in range(lib.tr_op_input_count(op))]
        self.outputs = [SlotProto(text_of(lib.tr_op_output_name(op, i)), text_of(lib.tr_op_output_comment(op, i)),
                                  lib.tr_op_output_flags(op, i)) for i in range(lib.tr_op_output_count(op))]
        attrs = [AttrProto(op, i) for i in range(lib.tr_op_attr_count(op))]
        self.attrs = {attr.name: attr for attr in attrs}

    def serialize_to_string(self) -> bytes:
        """Return the OpProto message of ``framework.proto``."""
        out, size = ffi.new("void **"), ffi.new("size_t *")
        check(lib.tr_op_serialize_proto(out, size, self._ptr))
        return take_bytes(out, size)


_protos: dict[str, OpProto | None] = {}


def op_proto(type: str) -> OpProto | None:
    """Return the proto of an operator, or None when there is no such operator.

    ``type`` is the operator's name, such as ``"mul"``.

    >>> fluid.core.op_proto("mul").comment
    'Out = X Y, the product of matrices. Tensors of higher rank are flattened to matrices first.'
    >>> fluid.core.op_proto("mull") is None
    True
    """
    if type not in _protos:
        op = lib.tr_op_find(name_chars(type))
        _protos[type] = OpProto(op) if op else None
    return _protos[type]


_block_attrs: dict[str, list[str] | None] = {}


def block_attrs_of(type: str) -> list[str] | None:
    """Return the names of the attributes of an operator that may be blocks, or None when there is no such operator."""
    if type not in _block_attrs:
        proto = op_proto(type)
        _block_attrs[type] = None if proto is None else [name for name, attr in proto.attrs.items() if attr.type == BLOCK]
    return _block_attrs[type]


def op_types() -> list[str]:
    """Return the names of all operators, in alphabetical order.

    >>> types = fluid.core.op_types()
    >>> "mul" in types, types == sorted(types)
    (True, True)
    """
    return [text_of(lib.tr_op_type(lib.tr_op_at(i))) for i in range(lib.tr_op_count())]


def get_all_op_protos() -> list[OpProto]:
    """Return the protos of all operators.

    >>> with_gradient = [proto.type for proto in fluid.core.get_all_op_protos() if proto.has_grad]
    >>> "mul" in with_gradient, "accuracy" in with_gradient
    (True, False)
    """
    return [proto for name in op_types() if (proto := op_proto(name)) is not None]
