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

from .lazy import load_later

if TYPE_CHECKING:
    from . import (async_executor, average, backward, callbacks, clip, compiler, contrib, core, data_feed_desc, data_feeder, dataset, debugger, distributed, errors, evaluator, executor, feeds, formats, framework,
                   graphviz, initializer, install_check, io, layer, layers, lod_tensor, metrics, nets, op, operator, optimizer, param_attr,
                   parallel_executor, port, profiler, reader, recordio_writer, regularizer, serving, trainer, transpiler, unique_name, version)
    from .async_executor import AsyncExecutor
    from .backward import gradients
    from .clip import ErrorClipByValue, set_gradient_clip
    from .compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
    from .core import CPUPlace, LoDTensor, LoDTensorArray, Scope, SelectedRows, TriremeError, __version__
    from .data_feed_desc import DataFeedDesc
    from .data_feeder import DataFeeder
    from .distributed import DistributeTranspiler, DistributeTranspilerConfig
    from .executor import Executor, fetch_var, global_scope, scope_guard
    from .feeds import Dataset, DatasetFactory, Slot
    from .framework import (Block, Operator, Parameter, Program, Variable, cpu_places, default_main_program,
                            default_startup_program, in_dygraph_mode, name_scope, program_guard)
    from .initializer import NumpyArrayInitializer
    from .parallel_executor import ParallelExecutor
    from .param_attr import ParamAttr, WeightNormParamAttr
    from .places import CUDAPinnedPlace, CUDAPlace, cuda_pinned_places, cuda_places, is_compiled_with_cuda
    from .precision import get_matmul_precision, get_winograd, set_matmul_precision, set_winograd
    from .progress import Progress
    from .reader import batch
    from .tensor import Tensor, create_lod_tensor, create_random_int_lodtensor
    from .trainer import Trainer
    from .transpiler import InferenceTranspiler, memory_optimize, release_memory

# All of these are loaded when they are first used: the launcher, and a standby that waits, need none of them, nor NumPy.
if not TYPE_CHECKING:                                  # a checker that saw it would take any name
    __getattr__, __dir__ = load_later(__name__, {
        "": ("async_executor", "average", "backward", "callbacks", "clip", "compiler", "contrib", "core", "data_feed_desc", "data_feeder", "dataset", "debugger", "distributed", "errors", "evaluator", "executor", "feeds", "formats",
             "framework", "graphviz", "initializer", "install_check", "io", "layer", "layers", "lod_tensor", "metrics", "nets", "op", "operator",
             "optimizer", "parallel_executor", "param_attr", "port", "profiler", "reader", "recordio_writer", "regularizer", "serving", "trainer", "transpiler", "unique_name", "version"),
        "async_executor": ("AsyncExecutor",),
        "backward": ("gradients",),
        "clip": ("ErrorClipByValue", "set_gradient_clip"),
        "compiler": ("BuildStrategy", "CompiledProgram", "ExecutionStrategy"),
        "core": ("CPUPlace", "LoDTensor", "LoDTensorArray", "Scope", "SelectedRows", "TriremeError", "__version__"),
        "data_feed_desc": ("DataFeedDesc",),
        "data_feeder": ("DataFeeder",),
        "distributed": ("DistributeTranspiler", "DistributeTranspilerConfig"),
        "executor": ("Executor", "fetch_var", "global_scope", "scope_guard"),
        "feeds": ("Dataset", "DatasetFactory", "Slot"),
        "framework": ("Block", "Operator", "Parameter", "Program", "Variable", "cpu_places", "default_main_program",
                      "default_startup_program", "in_dygraph_mode", "name_scope", "program_guard"),
        "initializer": ("NumpyArrayInitializer",),
        "parallel_executor": ("ParallelExecutor",),
        "param_attr": ("ParamAttr", "WeightNormParamAttr"),
        "places": ("CUDAPinnedPlace", "CUDAPlace", "cuda_pinned_places", "cuda_places", "is_compiled_with_cuda"),
        "precision": ("get_matmul_precision", "get_winograd", "set_matmul_precision", "set_winograd"),
        "progress": ("Progress",),
        "reader": ("batch",),
        "tensor": ("Tensor", "create_lod_tensor", "create_random_int_lodtensor"),
        "trainer": ("Trainer",),
        "transpiler": ("InferenceTranspiler", "memory_optimize", "release_memory"),
    })

if any(_name.startswith("TRIREME_") for _name in os.environ):
    from .env_names import warn as _warn

    _warn(os.environ)

if os.environ.keys() & {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}:      # tr_job_is_launched
    from .distributed import job as _job

    if _job.is_launched():
        _job.prepare()                                 # from here on it sees how this process ends


__all__ = ["Block", "CPUPlace", "DataFeeder", "ErrorClipByValue", "Executor", "LoDTensor", "LoDTensorArray",
           "NumpyArrayInitializer", "Operator", "ParamAttr", "Parameter", "Program", "Scope", "SelectedRows", "Tensor",
           "Trainer", "TriremeError", "Variable", "backward", "batch", "callbacks", "clip", "core", "cpu_places",
           "create_lod_tensor", "create_random_int_lodtensor", "dataset", "default_main_program",
           "default_startup_program", "executor", "fetch_var", "framework", "get_matmul_precision", "get_winograd", "global_scope", "graphviz",
           "in_dygraph_mode", "initializer", "io", "layer", "layers", "lod_tensor", "metrics", "name_scope", "nets",
           "operator", "optimizer", "param_attr", "profiler", "program_guard", "reader", "regularizer", "serving",
           "scope_guard", "set_gradient_clip", "set_matmul_precision", "set_winograd", "trainer", "unique_name"]
