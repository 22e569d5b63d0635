"""Loops, conditions, comparison, printing."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..native.lazy import answer_for_package
from ..native.dtypes import VarType
from ..parameters.layer_helper import LayerHelper
from ..program import Block, Variable, default_main_program


def _outer_names(block: Block, parent: Block) -> tuple[list[str], list[str]]:
    """Return what a block reads from outside, and what it writes there; each name once, in order of use."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for op in block.ops:
        for name in op.input_arg_names:
            if name not in writes and not block.has_var(name):
                reads[name] = None
        for name in op.output_arg_names:
            if parent.has_var_recursive(name):
                writes[name] = None
    return [name for name in reads if parent.has_var_recursive(name)], list(writes)


class _BlockLayer:
    """A layer that runs a block of its own."""

    def __init__(self, type: str, name: str | None) -> None:
        self.helper = LayerHelper(type, name=name)

    @contextlib.contextmanager
    def block(self) -> Iterator[Block]:
        """Add what stands inside the ``with`` to the layer's block."""
        program = default_main_program()
        block = program.create_block()
        try:
            yield block
        finally:
            program.rollback()
        self._complete(block, program.current_block())

    def _complete(self, block: Block, parent: Block) -> None:
        raise NotImplementedError

    @staticmethod
    def _step_scopes(parent: Block) -> Variable:
        return parent.create_var(type=VarType.STEP_SCOPES, prefix="step_scopes")


class While(_BlockLayer):
    """Run a block again and again while ``cond`` (bool [1]) is true. The block must change ``cond``.

    >>> i = fluid.layers.fill_constant([1], "int64", 0)
    >>> n = fluid.layers.fill_constant([1], "int64", 10)
    >>> cond = fluid.layers.less_than(i, n)
    >>> loop = fluid.layers.While(cond)
    >>> with loop.block():
    ...     _ = fluid.layers.increment(i, 1)
    ...     _ = fluid.layers.less_than(i, n, cond=cond)
    >>> fluid.Executor().run(fetch_list=[i])[0]
    array([10])
    """

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None) -> None:
        super().__init__("while", name)
        self.helper.check_variable(cond, "cond")
        if cond.dtype != VarType.BOOL:
            raise TypeError(f"While: cond must be bool, got {cond!r}")
        if cond.shape not in ((1,), ()):
            raise ValueError(f"While: cond must have one element, got {cond!r}")
        self.cond_var = cond
        self.is_test = is_test

    def _complete(self, block: Block, parent: Block) -> None:
        reads, writes = _outer_names(block, parent)
        if self.cond_var.name not in writes:
            raise ValueError(f"While: the block never changes {self.cond_var.name}, so it would not end")
        parent.append_op(type="while", inputs={"X": reads, "Condition": [self.cond_var]},
                         outputs={"Out": writes, "StepScopes": [self._step_scopes(parent)]},
                         attrs={"sub_block": block, "is_test": self.is_test})


class ConditionalBlock(_BlockLayer):
    """Run a block once, if ``inputs`` are not empty, or, with ``is_scalar_condition``, if the one input is true.

    >>> x = fluid.layers.fill_constant([1], "float32", 3.0)
    >>> y = fluid.layers.fill_constant([1], "float32", 0.0)
    >>> if_positive = fluid.layers.ConditionalBlock([x > 0.0], is_scalar_condition=True)
    >>> with if_positive.block():
    ...     _ = fluid.layers.assign(x * 2.0, y)
    >>> fluid.Executor().run(fetch_list=[y])[0]
    array([6.], dtype=float32)
    """

    def __init__(self, inputs: Sequence[Variable], is_scalar_condition: bool = False,
                 name: str | None = None) -> None:
        super().__init__("conditional_block", name)
        self.inputs = [self.helper.check_variable(var, "inputs") for var in inputs]
        self.is_scalar_condition = is_scalar_condition

    def _complete(self, block: Block, parent: Block) -> None:
        reads, writes = _outer_names(block, parent)
        parent.append_op(type="conditional_block", inputs={"Cond": self.inputs, "Input": reads},
                         outputs={"Out": writes, "Scope": [self._step_scopes(parent)]},
                         attrs={"sub_block": block, "is_scalar_condition": self.is_scalar_condition})


def _into(helper: LayerHelper, out: Variable | None, type: str, inputs: dict[str, Any]) -> Variable:
    if out is None:
        return helper.append(type, inputs, dtype=VarType.BOOL, stop_gradient=True)
    helper.append_op(type=type, inputs=inputs, outputs={"Out": [out]})
    return out


class Comparison(Protocol):
    """The layer of an operator that compares elements."""

    def __call__(self, x: Variable, y: Variable, cond: Variable | None = None) -> Variable: ...


class LessThan(Protocol):
    def __call__(self, x: Variable, y: Variable, force_cpu: bool | Variable | None = None, cond: Variable | None = None) -> Variable: ...


class Logical(Protocol):
    def __call__(self, x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable: ...


def _binary(type: str, formula: str, dtype: str, *options: str) -> Any:
    """Return the layer of an operator with these arguments after x and y; ``cond`` or ``out`` is what it writes."""
    kind, out_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, "cond" if "cond" in options else "out"
    signature = inspect.Signature([*(inspect.Parameter(name, kind) for name in ("x", "y")),
                                   *(inspect.Parameter(name, kind, default=None) for name in options)])

    def layer(*args: Any, **named: Any) -> Variable:
        try:
            given = signature.bind(*args, **named).arguments
        except TypeError as error:
            raise TypeError(f"{type} takes {', '.join(signature.parameters)}: {error}") from None
        out = given.get(out_name)
        if isinstance(given.get("force_cpu"), Variable):         # where later versions of Fluid have cond
            out = given["force_cpu"]
        helper = LayerHelper(type, name=given.get("name"))
        inputs = {key.upper(): [helper.check_variable(given[key], key)] for key in ("x", "y")}
        return _into(helper, out, type, inputs)

    setattr(layer, "__signature__", signature)
    layer.__name__ = layer.__qualname__ = type
    layer.__module__ = __name__
    layer.__doc__ = (f"``{type}(x, y, {out_name}=None)``: return {formula}, element by element, as bool.\n\n"
                     f"    >>> x, y = (fluid.layers.data(name, [4], dtype=\"{dtype}\") for name in \"xy\")\n"
                     f"    >>> fluid.layers.{type}(x, y)\n"
                     f"    Variable('{type}_0.tmp_0', bool[?, 4])\n    ")
    return layer


less_than: LessThan = _binary("less_than", "x < y", "float32", "force_cpu", "cond")
less_equal: Comparison = _binary("less_equal", "x <= y", "float32", "cond")
greater_than: Comparison = _binary("greater_than", "x > y", "float32", "cond")
greater_equal: Comparison = _binary("greater_equal", "x >= y", "float32", "cond")
equal: Comparison = _binary("equal", "x == y", "float32", "cond")
not_equal: Comparison = _binary("not_equal", "x != y", "float32", "cond")
logical_and: Logical = _binary("logical_and", "x and y", "bool", "out", "name")
logical_or: Logical = _binary("logical_or", "x or y", "bool", "out", "name")
logical_xor: Logical = _binary("logical_xor", "one of x and y, not both", "bool", "out", "name")


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Return not x, element by element.

    >>> fluid.layers.logical_not(fluid.layers.data("seen", [1], dtype="bool"))
    Variable('logical_not_0.tmp_0', bool[?, 1])
    """
    return _into(LayerHelper("logical_not", name=name), out, "logical_not", {"X": [x]})


def Print(input: Variable, first_n: int = -1, message: str | None = None, summarize: int = -1,
          print_tensor_name: bool = True, print_tensor_type: bool = True, print_tensor_shape: bool = True,
          print_tensor_lod: bool = True, print_phase: str = "both") -> Variable:
    """Print a tensor in every run (or only the first ``first_n`` times), and return it.

    ``message`` stands before it. ``summarize`` elements are shown (-1: all). ``print_tensor_name``, ``print_tensor_type``,
    ``print_tensor_shape`` and ``print_tensor_lod`` say what else is. ``print_phase`` is ``"forward"``, ``"backward"`` or ``"both"``: the
    value, its gradient, or both.

    >>> fluid.layers.Print(fluid.layers.data("x", [4]), message="x is", summarize=3)
    Variable('print_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("print").append(
        "print", {"In": [input]}, {"first_n": first_n, "summarize": summarize, "message": message or "",
                                   "print_tensor_name": print_tensor_name, "print_tensor_type": print_tensor_type,
                                   "print_tensor_shape": print_tensor_shape, "print_tensor_lod": print_tensor_lod,
                                   "print_phase": print_phase.upper()})


__all__ = ["While", "ConditionalBlock", "logical_not", "Print", "less_than", "less_equal", "greater_than",
           "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"]

if not TYPE_CHECKING:                # a checker that saw it would take any name
    __getattr__ = answer_for_package(__name__)
