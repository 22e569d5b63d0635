"""Names that operators and gradients carry: what an operator is for, and what a gradient is called."""

from __future__ import annotations

GRAD_SUFFIX = "@GRAD"


def grad_var_suffix() -> str:
    """Return what the name of a gradient ends with: ``"@GRAD"``.

    >>> fluid.core.grad_var_suffix()
    '@GRAD'
    """
    return GRAD_SUFFIX


def kEmptyVarName() -> str:
    """Return the name that stands where an operator has no variable: ``"@EMPTY@"``.

    >>> fluid.core.kEmptyVarName()
    '@EMPTY@'
    """
    return "@EMPTY@"


def grad_var_name(name: str) -> str:
    """Return the name of the gradient of a variable.

    ``name`` is the variable's name.

    >>> fluid.framework.grad_var_name("fc_0.w_0")
    'fc_0.w_0@GRAD'
    """
    return name + GRAD_SUFFIX


class op_proto_and_checker_maker:
    """Names of the attributes that every operator carries.

    >>> names = fluid.core.op_proto_and_checker_maker
    >>> y = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> y.op.attr(names.kOpRoleAttrName()) == names.OpRole.Forward
    True
    """

    class OpRole:
        """What an operator is for: the attribute ``op_role``, a number.

        ``Forward``, ``Backward`` and ``Optimize`` are the parts of a step. ``RPC`` and ``Dist`` are what a job adds, ``LRSched`` computes
        learning rates. ``Loss`` is added to the role of the operator that makes the loss.

        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))
        >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
        >>> ops = fluid.default_main_program().global_block().ops
        >>> [op.type for op in ops if op.role == fluid.core.OpRole.Optimize]
        ['sgd', 'sgd']
        """

        Forward = 0x0000
        Backward = 0x0001
        Optimize = 0x0002
        RPC = 0x0004
        Dist = 0x0008
        LRSched = 0x0010
        Loss = 0x0100
        NotSpecified = 0x1000

    @staticmethod
    def kOpRoleAttrName() -> str:
        """Return the name of the attribute that says which part of a step an operator belongs to."""
        return "op_role"

    @staticmethod
    def kOpRoleVarAttrName() -> str:
        """Return the name of the attribute with pairs of a parameter and its gradient."""
        return "op_role_var"

    @staticmethod
    def kOpNameScopeAttrName() -> str:
        """Return the name of the attribute with the name scope."""
        return "op_namescope"

    @staticmethod
    def kOpCreationCallstackAttrName() -> str:
        """Return the name of the attribute with the line of the script that made an operator."""
        return "op_callstack"


OpRole = op_proto_and_checker_maker.OpRole
