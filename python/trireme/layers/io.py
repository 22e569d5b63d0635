"""Where data enters a program."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..native.checks import path_text, plain
from ..native.lazy import answer_for_package
from ..native.dtypes import DTypeLike, VarType
from ..parameters.layer_helper import LayerHelper
from ..program import Variable, default_main_program


def data(name: str, shape: Sequence[int | None], append_batch_size: bool = True, dtype: DTypeLike = "float32",
         lod_level: int = 0, type: Any = VarType.LOD_TENSOR, stop_gradient: bool = True) -> Variable:
    """Return a variable that is fed: ``exe.run(feed={name: array})``.

    ``shape`` is that of one sample; a batch dimension is put before it, unless ``append_batch_size`` is False
    or a dimension is given as -1 or None.

    ``type`` is the kind of variable: ``VarType.LOD_TENSOR`` is the only one that can be fed.

    >>> fluid.layers.data("image", [1, 28, 28])
    Variable('image', float32[?, 1, 28, 28])
    >>> fluid.layers.data("table", [3, 4], append_batch_size=False)
    Variable('table', float32[3, 4])
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"data: name must be a string with at least one letter, got {name!r}")
    shape = shape.tolist() if hasattr(shape, "tolist") and getattr(shape, "ndim", 0) == 1 else plain(shape)
    if isinstance(shape, str) or not isinstance(shape, Sequence) or not all(dim is None or isinstance(dim, numbers.Integral)
                                                                            for dim in shape):
        raise TypeError(f"data: the shape of {name!r} must be a list of whole numbers, or None for any size, got {shape!r}")
    dims = [-1 if dim is None else int(dim) for dim in shape]
    if append_batch_size and not any(dim < 0 for dim in dims):
        dims = [-1, *dims]
    return default_main_program().global_block().create_var(
        name=name, shape=dims, dtype=dtype, type=type, stop_gradient=stop_gradient, lod_level=lod_level, is_data=True)


def load(out: Variable, file_path: str, load_as_fp16: bool | None = None) -> None:
    """Append an operator that reads ``out`` from the file ``file_path``, which ``io.save_vars`` or the operator ``save`` has written.

    With ``load_as_fp16`` the variable becomes float16.

    ``out`` is a Variable; its value changes when the operator runs. ``load_as_fp16`` None (the default) and False keep the file's type.

    >>> w = fluid.layers.create_parameter([2], "float32", "w", default_initializer=fluid.initializer.Constant(3.0))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.save_vars(exe, "model", vars=[w])
    >>> out = fluid.default_main_program().global_block().create_var(name="again", shape=[2], dtype="float32")
    >>> fluid.layers.load(out, "model/w")
    >>> exe.run(fetch_list=[out])[0].tolist()
    [3.0, 3.0]
    """
    attrs: dict[str, Any] = {"file_path": path_text(file_path)}
    if load_as_fp16 is not None:
        attrs["load_as_fp16"] = load_as_fp16
    LayerHelper("load").append_op(type="load", outputs={"Out": [out]}, attrs=attrs)


__all__ = ["data", "load"]

if not TYPE_CHECKING:                # a checker that saw it would take any name
    __getattr__ = answer_for_package(__name__)
