"""Every operator as a function: ``trireme.operator.<name>(X=x, Y=y, attribute=value)``.

The functions are made from what the operators say of themselves, when they are first asked for. Inputs and
attributes are given by keyword (inputs also in their order); outputs are created unless given. The core
fills in defaults and checks ranges.

>>> x = fluid.layers.data("x", [4])
>>> w = fluid.layers.create_parameter([4, 2], "float32", name="w")
>>> fluid.operator.mul(X=x, Y=w)
Variable('mul_0.tmp_0', float32[?, 2])
>>> fluid.operator.add(fluid.operator.mul(x, w), 1.0)
Traceback (most recent call last):
    ...
TypeError: elementwise_add: Y must be a Variable, a name, or a list of them; got 1.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..native import unique_name
from ..native.dtypes import convert_dtype
from ..native.suggest import did_you_mean
from .variable import Variable
from .op_protos import ATTR_NAMES, OpProto, op_proto, op_types
from .program import default_main_program

_ALIASES = {"add": "elementwise_add", "sub": "elementwise_sub", "div": "elementwise_div"}
_made: dict[str, Callable[..., Any]] = {}
_COMMON = ("op_role", "op_role_var", "op_namescope", "op_callstack", "name")


def create_operator(type: str, input: Any = None, output: Any = None, attrs: dict[str, Any] | None = None) -> Any:
    """Append operator ``type`` to the current block and return its output, or the tuple of its outputs.

    ``input`` and ``output`` are dicts by slot, or lists in the order of the slots; outputs that are not given
    are created.

    >>> x = fluid.layers.data("x", [4])
    >>> fluid.operator.create_operator("scale", input=[x], attrs={"scale": 2.0})
    Variable('scale_0.tmp_0', float32[?, 4])
    """
    proto = op_proto(type)
    if proto is None:
        raise ValueError(f"there is no operator {type!r}{did_you_mean(type, op_types())}")
    inputs = _by_slot(proto, proto.inputs, input, "input")
    outputs = _by_slot(proto, proto.outputs, output, "output")
    return _append(proto, inputs, outputs, dict(attrs or {}))


def _by_slot(proto: OpProto, slots: list[Any], args: Any, what: str) -> dict[str, Any]:
    if args is None:
        return {}
    if isinstance(args, dict):
        return dict(args)
    args = list(args) if isinstance(args, (list, tuple)) else [args]
    if len(slots) == 1 and slots[0].duplicable:
        return {slots[0].name: args}
    if len(args) > len(slots):
        raise TypeError(f"{proto.type} has the {what}s {', '.join(slot.name for slot in slots)}; got {len(args)}")
    return {slot.name: arg for slot, arg in zip(slots, args)}


def _append(proto: OpProto, inputs: dict[str, Any], outputs: dict[str, Any], attrs: dict[str, Any]) -> Any:
    block = default_main_program().current_block()
    prefix = attrs.pop("name", None) or unique_name.generate(proto.type)
    given = next((v for args in inputs.values() for v in (args if isinstance(args, (list, tuple)) else [args])
                  if isinstance(v, Variable)), None)
    dtype = given.dtype if given is not None else None
    if attrs.get("dtype") is not None:
        attrs["dtype"] = int(convert_dtype(attrs["dtype"]))
    results = []
    for slot in proto.outputs:
        out = outputs.get(slot.name)
        if out is None and slot.dispensable:
            continue
        if out is None and slot.duplicable:
            raise TypeError(f"{proto.type}: say how many {slot.name} there are ({slot.name}=2), or give the variables")
        if out is None or isinstance(out, int):
            made = [block.create_var(name=unique_name.generate(f"{prefix}.tmp")) for _ in range(out or 1)]
            out = made if slot.duplicable else made[0]
            outputs[slot.name] = out
        if not slot.intermediate:
            results.append(out)
    block.append_op(type=proto.type, inputs=inputs, outputs=outputs, attrs=attrs)
    for out in results:
        for var in out if isinstance(out, (list, tuple)) else [out]:
            if isinstance(var, Variable) and var.dtype is None and dtype is not None:
                var.desc.set_dtype(dtype)
    return results[0] if len(results) == 1 else tuple(results) if results else None


def _make(proto: OpProto) -> Callable[..., Any]:
    input_names = [slot.name for slot in proto.inputs]
    output_names = [slot.name for slot in proto.outputs]
    single_list = len(proto.inputs) == 1 and proto.inputs[0].duplicable

    def operator(*args: Any, **kwargs: Any) -> Any:
        if single_list and len(args) > 1:
            args = (list(args),)
        if len(args) > len(input_names):
            raise TypeError(f"{proto.type} has the inputs {', '.join(input_names) or 'none'}; got {len(args)}")
        inputs = dict(zip(input_names, args))
        outputs: dict[str, Any] = {}
        attrs: dict[str, Any] = {}
        for key, value in kwargs.items():
            if key in inputs:
                raise TypeError(f"{proto.type}: input {key} was given twice")
            if value is None:
                continue
            if key in input_names:
                inputs[key] = value
            elif key in output_names:
                outputs[key] = value
            elif key in proto.attrs or key in _COMMON:
                attrs[key] = value
            else:
                raise TypeError(f"{proto.type} has no input, output or attribute {key!r}"
                                f"{did_you_mean(key, [*input_names, *output_names, *proto.attrs])}")
        for slot in proto.inputs:
            if slot.name not in inputs and not slot.dispensable:
                raise TypeError(f"{proto.type}: input {slot.name} is missing ({slot.comment})")
        return _append(proto, inputs, outputs, attrs)

    operator.__name__ = operator.__qualname__ = proto.type
    operator.__module__ = __name__
    operator.__doc__ = doc_of(proto)
    return operator


def doc_of(proto: OpProto) -> str:
    """Return the text of ``help(trireme.operator.<name>)``.

    >>> print(fluid.operator.doc_of(fluid.core.op_proto("scale")).splitlines()[2])
    Inputs:
    """
    lines = [proto.comment.strip(), ""]

    def section(title: str, slots: list[Any]) -> None:
        if slots:
            lines.append(f"{title}:")
        for slot in slots:
            notes = [text for flag, text in ((slot.duplicable, "list"), (slot.dispensable, "optional"),
                                             (slot.intermediate, "intermediate")) if flag]
            lines.append(f"    {slot.name}{' (' + ', '.join(notes) + ')' if notes else ''}: {slot.comment}")

    section("Inputs", proto.inputs)
    section("Outputs", proto.outputs)
    if proto.attrs:
        lines.append("Attributes:")
    for attr in proto.attrs.values():
        facts = [ATTR_NAMES[attr.type], "required" if attr.required else f"default {attr.default or 'none'}"]
        if attr.range:
            facts.append(attr.range)
        lines.append(f"    {attr.name} ({', '.join(facts)}): {attr.comment}")
    return "\n".join(lines)


def __getattr__(name: str) -> Callable[..., Any]:
    if name in _made:                                  # asked for by another module's name for this one
        return _made[name]
    proto = None if name.startswith("__") else op_proto(_ALIASES.get(name, name))
    if proto is None:
        near = "" if name.startswith("_") else did_you_mean(name, op_types())
        raise AttributeError(f"there is no operator {name!r}{near}")
    function = globals()[name] = _made[name] = _make(proto)
    return function


def __dir__() -> list[str]:
    return sorted([*op_types(), *_ALIASES, "create_operator"])
