"""Gradients: the core turns every operator's rule into operators of the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..native.dtypes import VarType
from ..native.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from ..native.gc_pause import gc_paused
from .variable import Parameter, Variable
from .desc import BlockDesc, ProgramDesc
from .op_desc import OpDesc
from .program import Program
from .roles import GRAD_SUFFIX, OpRole


def _name(var: Any) -> str:
    return var.name if isinstance(var, Variable) else str(var)


def _without_gradient(program: Program, no_grad_set: Iterable[Any] | None, wanted: Iterable[str] = ()) -> list[str]:
    """Return the names of the variables that want no gradient."""
    names = {_name(var) for var in no_grad_set or ()}
    for block in program.blocks:
        for name, var in block._vars.items():
            if var.stop_gradient or (isinstance(var, Parameter) and not var.trainable):
                names.add(name)
    return sorted(names.difference(wanted))


def append_backward(loss: Variable, parameter_list: Sequence[Any] | None = None,
                    no_grad_set: Iterable[Any] | None = None,
                    callbacks: Any = None) -> list[tuple[Variable, Variable]]:
    """Append the operators for the gradient of ``loss`` ([1]); return pairs of parameter and gradient.

    The gradient of ``w`` is ``w@GRAD``; of a second loss ``w@GRAD_0``, and so on. ``parameter_list`` (default: all parameters that are
    trainable) says which pairs are returned; it may name any variables. Variables of ``no_grad_set`` get none, nor do those with
    ``stop_gradient`` that are not in ``parameter_list``.

    ``callbacks`` is accepted for old programs and changes nothing.

    >>> x = fluid.layers.data("x", [13])
    >>> loss = fluid.layers.mean(fluid.layers.fc(x, 1))
    >>> [(p.name, g.name) for p, g in fluid.backward.append_backward(loss)]
    [('fc_0.w_0', 'fc_0.w_0@GRAD'), ('fc_0.b_0', 'fc_0.b_0@GRAD')]
    """
    if not isinstance(loss, Variable):
        raise TypeError(f"append_backward: loss must be a Variable, got {loss!r}")
    program = loss.block.program
    if loss.block.idx != 0:
        raise ValueError(f"append_backward: {loss.name} is a variable of block {loss.block.idx}, not of the global one")
    if loss.shape not in ((1,), ()):
        raise ValueError(f"append_backward: the loss must have one element, got {loss!r}; take layers.mean of it")
    if loss.op is not None and not loss.op.attr("op_role") & OpRole.Loss:
        loss.op._set_attr("op_role", OpRole.Forward | OpRole.Loss)
    wanted = [_name(param) for param in parameter_list or ()]
    with gc_paused():
        program.desc.append_backward(loss.name, wanted, _without_gradient(program, no_grad_set, wanted))
        _clip_errors(program)
    block = program.global_block()
    params: list[Variable] = [param for param in program.all_parameters() if param.trainable]
    if parameter_list is not None:
        params = [block.var(name) for name in wanted]
    with gc_paused():
        pairs = [(param, grad) for param in params if (grad := _gradient(param)) is not None]
    if parameter_list is not None and len(pairs) < len(params):
        found = {param.name for param, _ in pairs}
        lost = ", ".join(param.name for param in params if param.name not in found)
        raise ValueError(f"append_backward: {loss.name} does not depend on {lost}")
    return pairs


def get_grad_op_desc(op_desc: OpDesc, no_grad_set: Iterable[str] = (), grad_sub_block: Any = None) -> tuple[list[OpDesc], dict[str, str]]:
    """Return the operators for the gradient of one operator, in no block, and of which variable each gradient is.

    ``op_desc`` is an operator of a block, which tells of its variables. Those of ``no_grad_set``, a set of names, get no gradient.
    ``grad_sub_block`` is what Fluid's function takes; operators with blocks are refused (UnsupportedError).

    >>> y = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> descs, of = fluid.core.get_grad_op_desc(y.op.desc, set())
    >>> descs[0].type(), of["x@GRAD"]
    ('scale', 'x')
    """
    if op_desc._block is None:
        raise InvalidArgumentError(f"get_grad_op_desc: {op_desc.type()} is in no block, which would tell the types of its variables")
    if op_desc.block_attrs():
        raise UnsupportedError(f"get_grad_op_desc: {op_desc.type()} has a block; append_backward makes the gradient of a whole program")
    alone = ProgramDesc()
    inputs, outputs = op_desc.input_arg_names(), op_desc.output_arg_names()
    for name in dict.fromkeys([*inputs, *outputs]):
        _copy_var(alone, op_desc._block, name, name)
    alone.block(0).append_op(op_desc.copy())
    targets = [name for name in dict.fromkeys(outputs) if alone.block(0).var(name).dtype() in _FLOATS]
    for name in targets:
        _copy_var(alone, op_desc._block, name, name + GRAD_SUFFIX)
    alone.append_gradients(targets, [name + GRAD_SUFFIX for name in targets], list(dict.fromkeys(inputs)), list(no_grad_set))
    found = [alone.block(0).op(i).copy() for i in range(1, alone.block(0).op_size())]
    of = {grad: name for name in inputs if (grad := alone.block(0).var(name).gradient()) is not None}
    return found, of


_FLOATS = (VarType.FP32, VarType.FP64, VarType.FP16, VarType.BF16)


def _copy_var(program: ProgramDesc, block: BlockDesc, name: str, new: str) -> None:
    """Make a variable ``new`` in the program's global block like the variable ``name`` that the block, or one around it, has."""
    var = block.find_var(name)
    while var is None and block.parent >= 0:
        block = block._program.block(block.parent)
        var = block.find_var(name)
    if var is None:
        raise NotFoundError(f"get_grad_op_desc: no block around the operator has the variable {name!r}")
    program.block(0).declare_var(new, var.type(), var.dtype(), var.shape())


def _gradient(var: Variable) -> Variable | None:
    """Return the gradient of ``var`` that was made last."""
    name = var.desc.gradient()
    return None if name is None else var.block._find(name)


def _clip_errors(program: Program) -> None:
    """Insert what a variable's ``error_clip`` asks for, after the operator that makes its gradient."""
    block = program.global_block()
    for var in list(block.vars.values()):
        grad = var.desc.gradient()
        if var.error_clip is None or grad is None:
            continue
        makers = [i for i, op in enumerate(block.ops) if grad in op.output_arg_names]
        if makers:
            with program._backward_role_guard():
                var.error_clip._insert(block, makers[-1] + 1, grad)


def calc_gradient(targets: Any, inputs: Any, target_gradients: Any = None,
                  no_grad_set: Iterable[Any] | None = None) -> Variable | list[Variable | None] | None:
    """As ``gradients``, but with one input the gradient itself is returned, not a list of one: so does Fluid.

    ``targets``, ``inputs``, ``target_gradients`` and ``no_grad_set`` are those of ``gradients``.

    >>> x = fluid.layers.data("x", [3])
    >>> x.stop_gradient = False
    >>> fluid.backward.calc_gradient(fluid.layers.square(x), x)
    Variable('x@GRAD', float32[?, 3])
    """
    grads = gradients(targets, inputs, target_gradients, no_grad_set)
    return grads[0] if len(grads) == 1 else grads


def gradients(targets: Any, inputs: Any, target_gradients: Any = None,
              no_grad_set: Iterable[Any] | None = None) -> list[Variable | None]:
    """Append the operators for the gradient of ``targets`` with respect to ``inputs``; return one for each input.

    The gradient of ``x`` is ``x@GRAD``; when the program has that already ``x@GRAD_0``, and so on.
    ``target_gradients`` weigh the targets' elements (default: ones). An input may be any variable, computed from others or not. None is
    returned for an input that no target depends on.

    A target may depend on gradients that were made before, as in a gradient penalty. An operator whose gradient has no gradient is refused
    by name (UnsupportedError); a variable with ``stop_gradient`` counts as a constant.

    Variables of ``no_grad_set`` get no gradient, and none flows through them.

    >>> x = fluid.layers.data("x", [3])
    >>> x.stop_gradient = False
    >>> fluid.backward.gradients([fluid.layers.square(x)], [x])
    [Variable('x@GRAD', float32[?, 3])]
    """
    targets = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    grads = list(target_gradients) if isinstance(target_gradients, (list, tuple)) else [target_gradients]
    if target_gradients is None:
        grads = [None] * len(targets)
    if len(grads) != len(targets):
        raise ValueError(f"gradients: {len(targets)} targets, but {len(grads)} target_gradients")
    program = targets[0].block.program
    wanted = [var.name for var in inputs]
    program.desc.append_gradients([var.name for var in targets], [None if g is None else g.name for g in grads], wanted,
                                  _without_gradient(program, no_grad_set, wanted))
    return [_gradient(var) for var in inputs]


__all__ = ["append_backward", "calc_gradient", "get_grad_op_desc", "gradients"]
