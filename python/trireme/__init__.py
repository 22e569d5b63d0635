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

from typing import Any

from . import (backward, clip, core, executor, framework, initializer, io, layers, nets, optimizer, param_attr,
               regularizer, unique_name)
from ._core import lib as _lib
from .clip import ErrorClipByValue, set_gradient_clip
from .core import CPUPlace, LoDTensor, LoDTensorArray, Scope, SelectedRows, TriremeError
from .data_feeder import DataFeeder
from .executor import Executor, fetch_var, global_scope, scope_guard
from .framework import (Block, Operator, Parameter, Program, Variable, cpu_places, default_main_program,
                        default_startup_program, in_dygraph_mode, name_scope, program_guard)
from .initializer import NumpyArrayInitializer
from .param_attr import ParamAttr
from .reader import batch
from .tensor import create_lod_tensor, create_random_int_lodtensor

Tensor = LoDTensor
__version__ = core.__version__

# Loaded when they are first used: attribute -> module, and name there.
_LAZY = {
    "Dataset": ("feeds", "Dataset"), "DatasetFactory": ("feeds", "DatasetFactory"), "Slot": ("feeds", "Slot"),
    "feeds": ("feeds", None), "dataset": ("dataset", None), "distributed": ("distributed", None), "graphviz": ("graphviz", None),
    "layer": ("layer", None), "lod_tensor": ("lod_tensor", None), "metrics": ("metrics", None),
    "operator": ("operator", None), "profiler": ("profiler", None), "reader": ("reader", None),
    "trainer": ("trainer", None), "Trainer": ("trainer", "Trainer"), "Progress": ("progress", "Progress"),
    "DistributeTranspiler": ("distributed", "DistributeTranspiler"),
    "DistributeTranspilerConfig": ("distributed", "DistributeTranspilerConfig"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'trireme' has no attribute {name!r}")
    import importlib

    module_name, attribute = _LAZY[name]
    module = importlib.import_module(f".{module_name}", __name__)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


if _lib.tr_job_is_launched():
    __getattr__("distributed")                         # from here on it sees how this process ends


__all__ = ["Block", "CPUPlace", "DataFeeder", "ErrorClipByValue", "Executor", "LoDTensor", "LoDTensorArray",
           "NumpyArrayInitializer", "Operator", "ParamAttr", "Parameter", "Program", "Scope", "SelectedRows", "Tensor",
           "Trainer", "TriremeError", "Variable", "backward", "batch", "clip", "core", "cpu_places",
           "create_lod_tensor", "create_random_int_lodtensor", "dataset", "default_main_program",
           "default_startup_program", "executor", "fetch_var", "framework", "global_scope", "graphviz",
           "in_dygraph_mode", "initializer", "io", "layer", "layers", "lod_tensor", "metrics", "name_scope", "nets",
           "operator", "optimizer", "param_attr", "profiler", "program_guard", "reader", "regularizer",
           "scope_guard", "set_gradient_clip", "trainer", "unique_name"]
