"""The native core as Python objects.

Programs (``ProgramDesc``, ``BlockDesc``, ``OpDesc``, ``VarDesc``), memory (``Scope``, ``LoDTensor``,
``SelectedRows``, ``LoDTensorArray``), what the operators say of themselves (``op_proto``), and the
exceptions that a failure raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._core import ffi, lib
from .desc import BlockDesc, OpDesc, ProgramDesc, VarDesc
from .op_protos import OpProto, get_all_op_protos, op_proto, op_types
from .dtypes import VarType, bfloat16_bits, convert_dtype, floats_of_bfloat16, numpy_dtype
from .lazy import load_later
from .errors import (DTypeError, EnforceNotMet, EOFException, ExistsError, FileError, FormatError, InvalidArgumentError,
                     NotFiniteError, NotFoundError, OutOfMemoryError, PeerError, RangeError, RunInterruptedError, ShapeError,
                     TimedOutError, TriremeError, UnsupportedError, check)
from .places import CUDAPinnedPlace, CUDAPlace, get_cuda_device_count, is_compiled_with_cuda
from .tensor import CPUPlace, LoDTensor, LoDTensorArray, Scope, ScopeVariable, SelectedRows

__version__: str = ffi.string(lib.tr_version()).decode()

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


def set_num_threads(count: int) -> None:
    """Set the threads that operators use; 0 is the default. Results do not depend on it.

    ``count`` is a whole number from 0 to 256.

    A number below 0 is a ValueError; a larger one than 256 means 256. ``TRIREME_NUM_THREADS`` is the default.

    >>> fluid.core.set_num_threads(2)
    >>> fluid.core.num_threads()
    2
    >>> fluid.core.set_num_threads(0)
    """
    if count < 0:
        raise ValueError(f"the number of threads must be at least 0, got {count!r}")
    lib.tr_set_num_threads(count)


def num_threads() -> int:
    """Return the threads that operators use. Raises InvalidArgumentError when TRIREME_NUM_THREADS is no number of them.

    >>> 1 <= fluid.core.num_threads() <= 256
    True
    """
    check(lib.tr_num_threads_check())
    return lib.tr_num_threads()


def blas_core() -> str:
    """Return the name of the kernels that OpenBLAS has chosen. Raises UnsupportedError when they do not fit the processor,
    NotFoundError when there is no OpenBLAS."""
    core = ffi.new("const char **")
    check(lib.tr_blas_check(core))
    return ffi.string(core[0]).decode()


def table_page_bytes() -> int:
    """Return the bytes of the pages that large tables of servers get on this machine: 2 MiB, or 4096."""
    return lib.tr_table_page_bytes()


class op_proto_and_checker_maker:
    """Names of the attributes that every operator carries.

    >>> names = fluid.core.op_proto_and_checker_maker
    >>> y = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> y.op.attr(names.kOpRoleAttrName()) == names.OpRole.Forward
    True
    """

    class OpRole:
        """What an operator is for: the attribute ``op_role``, a number.

        ``Forward``, ``Backward`` and ``Optimize`` are the parts of a step. ``RPC`` and ``Dist`` are what a job adds, ``LRSched`` computes learning rates.
        ``Loss`` is added to the role of the operator that makes the loss.

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


# What Fluid has here and stands on this module is loaded when it is asked for.
if TYPE_CHECKING:
    from .backward import get_grad_op_desc
    from .parallel_executor import ParallelExecutor
    from .serving.paddle_api import AnalysisConfig, NativeConfig, PaddleBuf, PaddleDType, PaddlePredictor, PaddleTensor, create_paddle_predictor
else:
    __getattr__, __dir__ = load_later(__name__, {
        "backward": ("get_grad_op_desc",),
        "parallel_executor": ("ParallelExecutor",),
        "serving.paddle_api": ("AnalysisConfig", "NativeConfig", "PaddleBuf", "PaddleDType", "PaddlePredictor", "PaddleTensor", "create_paddle_predictor"),
    }, "trireme")


__all__ = ["ProgramDesc", "BlockDesc", "OpDesc", "VarDesc", "OpProto", "op_proto", "op_types", "get_all_op_protos",
           "VarType", "bfloat16_bits", "convert_dtype", "floats_of_bfloat16", "numpy_dtype", "Scope", "ScopeVariable", "LoDTensor", "SelectedRows",
           "LoDTensorArray", "CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "get_cuda_device_count", "OpRole", "op_proto_and_checker_maker", "TriremeError", "EnforceNotMet",
           "InvalidArgumentError", "ShapeError", "DTypeError", "RangeError", "NotFoundError", "ExistsError",
           "FileError", "FormatError", "OutOfMemoryError", "NotFiniteError", "UnsupportedError", "TimedOutError",
           "PeerError", "RunInterruptedError", "EOFException", "grad_var_suffix", "kEmptyVarName", "is_compiled_with_cuda", "set_num_threads",
           "num_threads"]
