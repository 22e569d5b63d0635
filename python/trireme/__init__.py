"""Trireme trains deep-learning models on clusters of CPU machines.

A network is described in Python as a program of operators; the native core runs it. The names are those of
Fluid 1.x, so that ``import trireme as fluid`` is most of a port:

>>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
>>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, size=1), y))
>>> _ = fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
>>> exe = fluid.Executor(fluid.CPUPlace())
>>> _ = exe.run(fluid.default_startup_program())
>>> a = np.array([[0.0], [1.0]], "float32")
>>> for _ in range(200):
...     value, = exe.run(feed={"x": a, "y": 3 * a + 1}, fetch_list=[loss])
>>> bool(value < 1e-3)
True

The examples of this package stand after ``import trireme as fluid`` and ``import numpy as np``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .native.lazy import load_later

if TYPE_CHECKING:
    from . import (
        async_executor, average, backward, callbacks, clip, compiler, contrib, core, data_feed_desc, data_feeder, dataset, debugger,
        distributed, errors, evaluator, executor, feeds, formats, framework, graphviz, incubate, initializer, install_check, io, layer,
        layers, lod_tensor, metrics, mlflow, nets, op, operator, optimizer, parallel_executor, param_attr, port, profiler, reader,
        recordio_writer, regularizer, serving, trainer, transpiler, unique_name, version)
    from .distributed import DistributeTranspiler, DistributeTranspilerConfig
    from .feeding.data_feed_desc import DataFeedDesc
    from .feeding.data_feeder import DataFeeder
    from .feeding.feeds import Dataset, DatasetFactory
    from .feeding.slots import Slot
    from .fluid.async_executor import AsyncExecutor
    from .native.errors import TriremeError
    from .native.precision import get_matmul_precision, get_winograd, set_matmul_precision, set_winograd
    from .native.tensor import CPUPlace, LoDTensor, Tensor, create_lod_tensor, create_random_int_lodtensor
    from .native.scope import LoDTensorArray, Scope
    from .native.selected_rows import SelectedRows
    from .native.threads import __version__
    from .optimize.clip import ErrorClipByValue, set_gradient_clip
    from .parameters.initializer import NumpyArrayInitializer
    from .parameters.param_attr import ParamAttr, WeightNormParamAttr
    from .program import (Block, Operator, Parameter, Program, Variable, default_main_program, default_startup_program, name_scope,
                          program_guard)
    from .program.backward import gradients
    from .program.places import CUDAPinnedPlace, CUDAPlace, cpu_places, cuda_pinned_places, cuda_places, is_compiled_with_cuda
    from .program.program import in_dygraph_mode
    from .reader import batch
    from .run.compiler import CompiledProgram
    from .run.parallel_executor import ParallelExecutor
    from .run.scopes import fetch_var, global_scope, scope_guard
    from .run.strategies import BuildStrategy, ExecutionStrategy
    from .train.executor import Executor
    from .train.progress import Progress
    from .train.trainer import Trainer
    from .transpiler import InferenceTranspiler, memory_optimize, release_memory

# All of these are loaded when they are first used: the launcher, and a standby that waits, need none of them, nor NumPy.
if not TYPE_CHECKING:                                  # a checker that saw it would take any name
    __getattr__, __dir__ = load_later(__name__, {
        "": ("async_executor", "average", "backward", "callbacks", "clip", "compiler", "contrib", "core", "data_feed_desc", "data_feeder",
             "dataset", "debugger", "distributed", "errors", "evaluator", "executor", "feeds", "formats", "framework", "graphviz",
             "incubate", "initializer", "install_check", "io", "layer", "layers", "lod_tensor", "metrics", "mlflow", "nets", "op",
             "operator", "optimizer", "parallel_executor", "param_attr", "port", "profiler", "reader", "recordio_writer",
             "regularizer", "serving", "trainer", "transpiler", "unique_name", "version"),
        "distributed": ("DistributeTranspiler", "DistributeTranspilerConfig"),
        "feeding.data_feed_desc": ("DataFeedDesc",),
        "feeding.data_feeder": ("DataFeeder",),
        "feeding.feeds": ("Dataset", "DatasetFactory"),
        "feeding.slots": ("Slot",),
        "fluid.async_executor": ("AsyncExecutor",),
        "native.errors": ("TriremeError",),
        "native.precision": ("get_matmul_precision", "get_winograd", "set_matmul_precision", "set_winograd"),
        "native.scope": ("LoDTensorArray", "Scope"),
        "native.selected_rows": ("SelectedRows",),
        "native.tensor": ("CPUPlace", "LoDTensor", "Tensor", "create_lod_tensor", "create_random_int_lodtensor"),
        "native.threads": ("__version__",),
        "optimize.clip": ("ErrorClipByValue", "set_gradient_clip"),
        "parameters.initializer": ("NumpyArrayInitializer",),
        "parameters.param_attr": ("ParamAttr", "WeightNormParamAttr"),
        "program": ("Block", "Operator", "Parameter", "Program", "Variable", "default_main_program", "default_startup_program",
                    "name_scope", "program_guard"),
        "program.backward": ("gradients",),
        "program.places": ("CUDAPinnedPlace", "CUDAPlace", "cpu_places", "cuda_pinned_places", "cuda_places", "is_compiled_with_cuda"),
        "program.program": ("in_dygraph_mode",),
        "reader": ("batch",),
        "run.compiler": ("CompiledProgram",),
        "run.parallel_executor": ("ParallelExecutor",),
        "run.scopes": ("fetch_var", "global_scope", "scope_guard"),
        "run.strategies": ("BuildStrategy", "ExecutionStrategy"),
        "train.executor": ("Executor",),
        "train.progress": ("Progress",),
        "train.trainer": ("Trainer",),
        "transpiler": ("InferenceTranspiler", "memory_optimize", "release_memory"),
    })

if any(_name.startswith("TRIREME_") for _name in os.environ):
    from .native.env_names import warn as _warn

    _warn(os.environ)

if os.environ.keys() & {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}:      # tr_job_is_launched
    from .distributed import rank as _rank

    _rank.begin()                                      # from here on it sees how this process ends


__all__ = ["Block", "CPUPlace", "DataFeeder", "ErrorClipByValue", "Executor", "LoDTensor", "LoDTensorArray",
           "NumpyArrayInitializer", "Operator", "ParamAttr", "Parameter", "Program", "Scope", "SelectedRows", "Tensor",
           "Trainer", "TriremeError", "Variable", "backward", "batch", "callbacks", "clip", "core", "cpu_places",
           "create_lod_tensor", "create_random_int_lodtensor", "dataset", "default_main_program",
           "default_startup_program", "executor", "fetch_var", "framework", "get_matmul_precision", "get_winograd", "global_scope",
           "graphviz", "in_dygraph_mode", "initializer", "io", "layer", "layers", "lod_tensor", "metrics", "name_scope", "nets",
           "operator", "optimizer", "param_attr", "profiler", "program_guard", "reader", "regularizer", "serving",
           "scope_guard", "set_gradient_clip", "set_matmul_precision", "set_winograd", "trainer", "unique_name"]
