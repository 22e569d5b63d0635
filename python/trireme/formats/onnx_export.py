"""An inference program as a model of ONNX."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..native.checks import path_text
from ..native.errors import InvalidArgumentError, NotFoundError
from ..native.files import new_file
from ..native.optional import load
from ..program import Program, Variable, default_main_program
from ..run.runner import Runner
from ..run.scopes import global_scope
from ..saving.io import _inference_program
from . import (  # noqa: F401  they fill CONVERTERS
    onnx_arrays, onnx_beams, onnx_blocks, onnx_converters, onnx_images, onnx_labels,
    onnx_losses, onnx_masks, onnx_metrics, onnx_ranks, onnx_recurrent, onnx_selections,
    onnx_sequences, onnx_units, onnx_windows)
from .onnx_graph import OPSET, Graph, offsets_of
from .onnx_registry import CONVERTERS, convert


def onnx_operators() -> list[str]:
    """Return the operators that ``export_onnx`` knows.

    >>> "softmax" in fluid.formats.onnx_operators()
    True
    """
    return sorted(CONVERTERS)


def export_onnx(path: str | os.PathLike[str], feeds: Sequence[str], targets: Sequence[Variable], executor: Runner,
                main_program: Program | None = None) -> list[str]:
    """Write what computes ``targets`` from ``feeds``, with its parameters, as a model of ONNX (operator set 17); return the targets' names.

    ``path``: the file, ``NAME.onnx``. Other arguments are those of ``save_inference_model``. Operators that are made of others are replaced
    by those. Dimensions that the program does not know are free in the model, too. It needs the library onnx: ``pip install
    '.[onnx]'``.

    Loops, conditions and recurrent nets become ONNX's Loop, If and Scan, and arrays become its sequences of tensors.

    The model takes the offsets of the sequences (LoD) of a variable in ``feeds`` as input ``NAME.offsets``, int64 [sequences + 1]; with
    more than one level as ``NAME.offsets.0``, ``NAME.offsets.1``, and so on. Those of a target are outputs of such names, behind the
    target.

    UnsupportedError names an operator that ONNX does not have, or whose form there is another one, such as those of sparse tables.
    ``onnx_operators()`` lists what is known. InvalidArgumentError: a variable is read before anything is written to it.
    ValueError: a feed is no variable of the program.

    >>> import tempfile, os
    >>> x = fluid.layers.data("x", [2])
    >>> y = fluid.layers.fc(x, 1, act="relu")
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> len(fluid.formats.export_onnx(os.path.join(tempfile.mkdtemp(), "m.onnx"), ["x"], [y], exe))
    1
    """
    onnx = load("onnx", "export_onnx")
    program = main_program or default_main_program()
    feeds = [feeds] if isinstance(feeds, str) else list(feeds)
    targets = [targets] if isinstance(targets, Variable) else list(targets)
    if not str(path_text(path)).endswith(".onnx"):
        raise InvalidArgumentError(f"export_onnx: {path_text(path)!r}; a model of ONNX is a file NAME.onnx")
    for name in feeds:
        program.global_block().var(name)               # complains about a name that is none
    model = _inference_program(program, feeds, targets)
    model = model if all(op.type in (*CONVERTERS, "feed", "fetch") for one in model.blocks for op in one.ops) else model.expand()
    block = model.global_block()
    graph = Graph(onnx, block, feeds)
    convert(graph, block.ops)
    proto = _model_of(onnx, graph, feeds, [var.name for var in targets])
    with new_file(path_text(path)) as file:
        file.write(proto.SerializeToString())
    return [var.name for var in targets]


def _model_of(onnx: Any, graph: Graph, feeds: Sequence[str], targets: Sequence[str]) -> Any:
    helper = onnx.helper
    arrays = {}
    for name in graph.parameters:
        found = global_scope().find_var(name)
        if found is None or found.kind() is None:
            raise NotFoundError(f"export_onnx: {name!r} has no value yet: run the startup program first")
        arrays[name] = np.array(found.get_tensor())
    ins = [info for name in feeds for info in _values(graph, name, name, offsets_of(name, graph.var(name).lod_level))]
    outs = []
    for name in targets:                               # a target that is fed, or written twice, gets a node of its name
        is_new = graph.name_of(name) == name and name not in feeds
        now = name if is_new else graph.add("Identity", [graph.name_of(name)], f"{name}.out")
        lods = graph.lods(name)
        outs += _values(graph, name, now, [graph.add("Identity", pair[:1], pair[1]) for pair in zip(lods, offsets_of(now, len(lods)))])
    used = _read_by(graph.nodes) | {info.name for info in outs}
    arrays |= {name: value for name, value in graph.constants.items() if name in used}
    made = helper.make_graph(graph.nodes, "trireme", ins, outs,
                             [onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name) for name,
                              array in arrays.items()])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="trireme")
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def _read_by(nodes: Iterable[Any]) -> set[str]:
    """The names of all that nodes read, and those of the graphs inside them."""
    names = set()
    for node in nodes:
        names.update(node.input)
        for attribute in node.attribute:
            names |= _read_by(attribute.g.node)
    return names


def _values(graph: Graph, var: str, name: str, offsets: Sequence[str]) -> list[Any]:
    """Describe an input or output and its offsets. Each unknown dimension gets a name of its own. The first one of all values without
    sequences is the batch."""
    helper, first = graph.onnx.helper, f"{name}.rows" if offsets else "batch"
    dims = [dim if dim >= 0 else (first if i == 0 else f"{name}.{i}") for i, dim in enumerate(graph.shape(var))]
    return [helper.make_tensor_value_info(name, graph.type_of(var), dims),
            *(helper.make_tensor_value_info(level, graph.onnx.TensorProto.INT64, [f"{level}.count"]) for level in offsets)]
