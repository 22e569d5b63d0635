"""The native core as Python objects, under the names by which Fluid's scripts know this module.

Programs (``ProgramDesc``, ``BlockDesc``, ``OpDesc``, ``VarDesc``), memory (``Scope``, ``LoDTensor``,
``SelectedRows``, ``LoDTensorArray``), what the operators say of themselves (``op_proto``), and the
exceptions that a failure raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .native.dtypes import VarType, bfloat16_bits, convert_dtype, floats_of_bfloat16, numpy_dtype
from .native.errors import (
    DTypeError, EnforceNotMet, EOFException, ExistsError, FileError, FormatError, InvalidArgumentError, NotFiniteError, NotFoundError,
    OutOfMemoryError, PeerError, RangeError, RunInterruptedError, ShapeError, TimedOutError, TriremeError, UnsupportedError)
from .native.lazy import load_later
from .native.tensor import CPUPlace, LoDTensor
from .native.scope import LoDTensorArray, Scope, ScopeVariable
from .native.selected_rows import SelectedRows
from .native.threads import __version__ as __version__
from .native.threads import blas_core as blas_core
from .native.threads import num_threads, set_num_threads
from .native.threads import table_page_bytes as table_page_bytes
from .program.desc import BlockDesc, ProgramDesc, VarDesc
from .program.op_desc import OpDesc
from .program.op_protos import OpProto, get_all_op_protos, op_proto, op_types
from .program.places import CUDAPinnedPlace, CUDAPlace, get_cuda_device_count, is_compiled_with_cuda
from .program.roles import GRAD_SUFFIX as GRAD_SUFFIX
from .program.roles import OpRole, grad_var_suffix, kEmptyVarName, op_proto_and_checker_maker

if TYPE_CHECKING:
    from .program.backward import get_grad_op_desc as get_grad_op_desc
    from .run.parallel_executor import ParallelExecutor as ParallelExecutor
    from .serving.paddle_api import AnalysisConfig as AnalysisConfig
    from .serving.paddle_api import NativeConfig as NativeConfig
    from .serving.paddle_api import PaddleBuf as PaddleBuf
    from .serving.paddle_api import PaddleDType as PaddleDType
    from .serving.paddle_api import PaddlePredictor as PaddlePredictor
    from .serving.paddle_api import PaddleTensor as PaddleTensor
    from .serving.paddle_api import create_paddle_predictor as create_paddle_predictor
else:
    __getattr__, __dir__ = load_later(__name__, {
        "..program.backward": ("get_grad_op_desc",),
        "..run.parallel_executor": ("ParallelExecutor",),
        "..serving.paddle_api": ("AnalysisConfig", "NativeConfig", "PaddleBuf", "PaddleDType", "PaddlePredictor", "PaddleTensor",
                                 "create_paddle_predictor"),
    })


__all__ = ["ProgramDesc", "BlockDesc", "OpDesc", "VarDesc", "OpProto", "op_proto", "op_types", "get_all_op_protos",
           "VarType", "bfloat16_bits", "convert_dtype", "floats_of_bfloat16", "numpy_dtype", "Scope", "ScopeVariable", "LoDTensor",
           "SelectedRows", "LoDTensorArray", "CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "get_cuda_device_count", "OpRole",
           "op_proto_and_checker_maker", "TriremeError", "EnforceNotMet", "InvalidArgumentError", "ShapeError", "DTypeError", "RangeError",
           "NotFoundError", "ExistsError", "FileError", "FormatError", "OutOfMemoryError", "NotFiniteError", "UnsupportedError",
           "TimedOutError", "PeerError", "RunInterruptedError", "EOFException", "grad_var_suffix", "kEmptyVarName", "is_compiled_with_cuda",
           "set_num_threads",
           "num_threads"]
