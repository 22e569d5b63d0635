"""One operator on its own: made from Python by its proto, run on the variables of a scope.

>>> scope = fluid.core.Scope()
>>> scope.var("x").get_tensor().set(np.ones((2, 2), "float32"), fluid.CPUPlace())
>>> double = fluid.op.Operator("scale", X="x", Out="y", scale=2.0)
>>> double
{Out=y} = scale(X=x) {'scale': 2.0}
>>> double.run(scope, fluid.CPUPlace())
>>> np.array(scope.find_var("y").get_tensor()).tolist()
[[2.0, 2.0], [2.0, 2.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..native.dtypes import VarType
from ..native.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from ..native.suggest import did_you_mean
from ..program import Program
from ..program.op_protos import ATTR_NAMES, BLOCK, BLOCKS, AttrProto, OpProto, op_proto, op_types
from ..program.op_protos import get_all_op_protos as get_all_op_protos
from ..program.op_view import text_of
from .runner import Runner

if TYPE_CHECKING:
    from ..native.scope import Scope

_EVERYWHERE = ("op_role", "op_role_var", "op_namescope", "op_callstack")


class OpProtoHolder:
    """The protos of all operators: ``OpProtoHolder.instance().get_op_proto("mul")``.

    >>> holder = fluid.framework.OpProtoHolder.instance()
    >>> [slot.name for slot in holder.get_op_proto("mul").inputs]
    ['X', 'Y']
    >>> [attr.name for attr in holder.get_op_proto("clip").attrs]
    ['min', 'max']
    """

    _one: OpProtoHolder | None = None

    @classmethod
    def instance(cls) -> OpProtoHolder:
        """Return the one that all share."""
        if OpProtoHolder._one is None:
            OpProtoHolder._one = OpProtoHolder()
        return OpProtoHolder._one

    def get_op_proto(self, type: str) -> Proto:
        """Return the proto of an operator. Raises ValueError where there is none of that name. ``type`` is the operator's name."""
        return Proto(_proto(type))

    @property
    def op_proto_map(self) -> dict[str, Proto]:
        return {name: self.get_op_proto(name) for name in op_types()}

    @staticmethod
    def generated_op_attr_names() -> set[str]:
        """Return the names of the attributes that every operator carries."""
        return set(_EVERYWHERE)


class Proto:
    """An operator's proto as Fluid's message has it: ``type``, ``comment``, and lists of ``inputs``, ``outputs`` and ``attrs``."""

    def __init__(self, proto: OpProto) -> None:
        self._proto = proto
        self.type, self.comment = proto.type, proto.comment
        self.inputs, self.outputs = proto.inputs, proto.outputs
        self.attrs: list[AttrProto] = list(proto.attrs.values())

    def SerializeToString(self) -> bytes:
        """Return the OpProto message of ``framework.proto``."""
        return self._proto.serialize_to_string()


def _proto(type: str) -> OpProto:
    proto = op_proto(type)
    if proto is None:
        raise InvalidArgumentError(f"there is no operator {type!r}{did_you_mean(type, op_types())}")
    return proto


class ScopeOperator:
    """An operator between variables of a scope. Made by ``Operator(type, slot=names, attribute=value)``."""

    def __init__(self, proto: OpProto, inputs: dict[str, list[str]], outputs: dict[str, list[str]], attrs: dict[str, Any]) -> None:
        self._proto, self._inputs, self._outputs, self._attrs = proto, inputs, outputs, attrs

    def type(self) -> str:
        return self._proto.type

    def inputs(self) -> dict[str, list[str]]:
        return {slot: list(names) for slot, names in self._inputs.items()}

    def outputs(self) -> dict[str, list[str]]:
        return {slot: list(names) for slot, names in self._outputs.items()}

    def input(self, slot: str) -> list[str]:
        """Return the names of the variables in an input slot."""
        return list(self._inputs.get(slot, ()))

    def output(self, slot: str) -> list[str]:
        return list(self._outputs.get(slot, ()))

    def input_vars(self) -> list[str]:
        return [name for names in self._inputs.values() for name in names]

    def output_vars(self) -> list[str]:
        return [name for names in self._outputs.values() for name in names]

    def no_intermediate_outputs(self) -> list[str]:
        """Return the names of the outputs that are not for the gradient alone."""
        return [name for slot in self._proto.outputs if not slot.intermediate for name in self._outputs.get(slot.name, ())]

    def attrs(self) -> dict[str, Any]:
        return dict(self._attrs)

    def run(self, scope: Scope, place: Any = None) -> None:
        """Read the inputs from ``scope`` and write the outputs there, made when they do not exist. ``place`` is CPUPlace().

        Raises NotFoundError for an input without a value, and what the operator finds wrong with its inputs.
        """
        program = Program()
        block = program.global_block()
        for name in dict.fromkeys(self.input_vars()):
            self._declare_input(block, scope, name)
        for name in self.output_vars():
            if name not in block.vars:
                scope.var(name)
                block.create_var(name=name, persistable=True)
        block.append_op(type=self._proto.type, inputs=self._inputs, outputs=self._outputs, attrs=self._attrs)
        Runner(place).run(program, scope=scope)

    def _declare_input(self, block: Any, scope: Scope, name: str) -> None:
        var = scope.find_var(name)
        kind = var.kind() if var is not None else None
        if var is None or kind is None:
            raise NotFoundError(f"{self._proto.type}: the scope has no variable {name!r} with a value")
        facts: dict[str, Any] = {}
        if kind in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
            tensor = var.get_tensor()
            height = [var.get_selected_rows().height()] if kind == VarType.SELECTED_ROWS else tensor.shape()[:1]
            facts = {"dtype": tensor._dtype(), "shape": [*height, *tensor.shape()[1:]], "lod_level": len(tensor.lod())}
        block.create_var(name=name, type=kind, persistable=True, **facts)

    def __repr__(self) -> str:
        return text_of(self._proto.type, self._inputs, self._outputs, self._attrs)

    __str__ = __repr__


class OperatorFactory:
    """``Operator``: call it with an operator's name, and by keyword with names of variables for slots and values for attributes.

    A slot that takes several variables is given a list of names. TypeError: an input is missing, or there is no slot or attribute of a
    name.

    >>> scope = fluid.Scope()
    >>> scope.var("x").get_tensor().set(np.array([1.0, 2.0], "float32"))
    >>> double = fluid.op.Operator("scale", X="x", Out="y", scale=2.0)
    >>> double.run(scope, fluid.CPUPlace())
    >>> fluid.executor.fetch_var("y", scope)
    array([2., 4.], dtype=float32)
    >>> fluid.op.Operator.get_op_input_names("mul")
    ['X', 'Y']
    """

    def __call__(self, *args: Any, **kwargs: Any) -> ScopeOperator:
        if len(args) + ("type" in kwargs) != 1:
            raise TypeError("Operator takes the operator's name, and slots and attributes by keyword")
        proto = _proto(args[0] if args else kwargs.pop("type"))
        inputs: dict[str, list[str]] = {}
        outputs: dict[str, list[str]] = {}
        attrs: dict[str, Any] = {}
        slots = {slot.name: (inputs, slot) for slot in proto.inputs} | {slot.name: (outputs, slot) for slot in proto.outputs}
        for key, value in kwargs.items():
            if key in slots:
                kind, slot = slots[key]
                kind[key] = _names_of(proto, key, value, slot.duplicable)
            elif key in proto.attrs or key in _EVERYWHERE:
                attrs[key] = value
            else:
                raise TypeError(f"{proto.type} has no input, output or attribute {key!r}{did_you_mean(key, [*slots, *proto.attrs])}")
        for slot in proto.inputs:
            if slot.name not in inputs and not slot.dispensable:
                raise TypeError(f"{proto.type}: input {slot.name} is missing ({slot.comment})")
        if any(proto.attrs[key].type in (BLOCK, BLOCKS) for key in attrs if key in proto.attrs):
            raise UnsupportedError(f"Operator: {proto.type} has a block, which only an operator of a program can have")
        return ScopeOperator(proto, inputs, outputs, attrs)

    def types(self) -> list[str]:
        """Return the names of all operators."""
        return op_types()

    def get_op_input_names(self, type: str) -> list[str]:
        """Return the names of the input slots of an operator; ``type`` is its name."""
        return [slot.name for slot in _proto(type).inputs]

    def get_op_inputs(self, type: str) -> list[tuple[str, bool]]:
        """Return the input slots of an operator, each with whether it takes several variables; ``type`` is the operator's name."""
        return [(slot.name, slot.duplicable) for slot in _proto(type).inputs]

    def get_op_outputs(self, type: str) -> list[tuple[str, bool]]:
        """Return the output slots, as ``get_op_inputs`` does; ``type`` is the operator's name."""
        return [(slot.name, slot.duplicable) for slot in _proto(type).outputs]

    def get_op_output_names(self, type: str) -> list[str]:
        """Return the names of the output slots of an operator; ``type`` is its name."""
        return [slot.name for slot in _proto(type).outputs]

    def get_op_attr_names(self, type: str) -> list[str]:
        """Return the names of the attributes of an operator; ``type`` is its name."""
        return list(_proto(type).attrs)

    def get_op_attrs(self, type: str) -> dict[str, str]:
        """Return the attributes with the names of their types. ``type`` is the operator's name."""
        return {name: ATTR_NAMES[attr.type] for name, attr in _proto(type).attrs.items()}


def _names_of(proto: OpProto, slot: str, value: Any, is_list: bool) -> list[str]:
    names = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if not all(isinstance(name, str) for name in names) or (len(names) != 1 and not is_list):
        raise TypeError(f"{proto.type}: {slot} takes {'names of variables' if is_list else 'the name of a variable'}, got {value!r}")
    return names


Operator = OperatorFactory()

__all__ = ["Operator", "OperatorFactory", "OpProtoHolder", "get_all_op_protos"]
