"""The predictor of Fluid's inference library, as scripts make it from ``fluid.core``: a `Predictor` behind its names."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from ..native.errors import InvalidArgumentError, UnsupportedError
from ..native.tensor import LoDTensor
from .predictor import Predictor


class PaddleDType(IntEnum):
    """The type of a `PaddleTensor`'s elements.

    >>> fluid.core.PaddleDType.INT64.name
    'INT64'
    """

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2


_NUMPY: dict[PaddleDType, np.dtype] = {PaddleDType.FLOAT32: np.dtype(np.float32), PaddleDType.INT64: np.dtype(np.int64),
                                       PaddleDType.INT32: np.dtype(np.int32)}


class PaddleBuf:
    """The values of a `PaddleTensor`, one after the other.

    ``data`` is a list of numbers or an array.

    >>> buf = fluid.core.PaddleBuf([1.0, 2.0])
    >>> buf.float_data(), buf.length()
    ([1.0, 2.0], 8)
    """

    def __init__(self, data: Any = ()) -> None:
        self.reset(data)

    def reset(self, data: Any) -> None:
        """Take other values: ``data`` is a list of numbers or an array. Floats become float32."""
        array = np.ravel(np.asarray(data))
        self._array = array.astype(np.float32) if array.dtype.kind == "f" else array

    def empty(self) -> bool:
        """Return whether there are no values."""
        return self._array.size == 0

    def length(self) -> int:
        """Return the number of bytes."""
        return self._array.nbytes

    def tolist(self) -> list[Any]:
        """Return the values as a list of numbers."""
        return self._array.tolist()

    float_data = int64_data = int32_data = tolist


class PaddleTensor:
    """An input or output of a predictor: ``name``, ``shape``, ``data``, ``lod``, ``dtype``.

    ``data`` is an array, or a `PaddleBuf` to which ``shape`` and ``dtype`` are added; ``lod`` is the offsets of sequences.

    >>> tensor = fluid.core.PaddleTensor(np.ones((2, 3), "float32"), name="x")
    >>> tensor.shape, tensor.dtype.name, tensor.as_ndarray().shape
    ([2, 3], 'FLOAT32', (2, 3))
    """

    def __init__(self, data: Any = None, name: str = "", lod: Sequence[Sequence[int]] = ()) -> None:
        self.name, self.lod = name, [list(level) for level in lod]
        self.shape: list[int] = []
        self.dtype = PaddleDType.FLOAT32
        self.data = data if isinstance(data, PaddleBuf) else PaddleBuf()
        if data is not None and not isinstance(data, PaddleBuf):
            array = np.asarray(data)
            self.data.reset(array)
            found = [code for code, dtype in _NUMPY.items() if dtype == self.data._array.dtype]
            if not found:
                raise InvalidArgumentError(f"PaddleTensor: the array is {array.dtype}; float32, int64 and int32 are possible")
            self.shape, self.dtype = list(array.shape), found[0]

    def as_ndarray(self) -> np.ndarray:
        """Return the values as an array of the tensor's type and shape."""
        if self.data._array.size != math.prod(self.shape):
            raise InvalidArgumentError(f"PaddleTensor {self.name!r}: data has {self.data._array.size} values, shape {self.shape} is for "
                                       f"{math.prod(self.shape)}; set both")
        return self.data._array.astype(_NUMPY[PaddleDType(self.dtype)], copy=False).reshape(tuple(self.shape))


class NativeConfig:
    """What a predictor loads: ``model_dir``, or ``prog_file`` and ``param_file`` of one folder. There is no GPU: ``use_gpu`` must be False.

    >>> config = fluid.core.NativeConfig()
    >>> config.model_dir, config.use_gpu
    ('', False)
    """

    def __init__(self) -> None:
        self.model_dir, self.prog_file, self.param_file = "", "", ""
        self.use_gpu, self.device, self.fraction_of_gpu_memory = False, 0, 0.0
        self.specify_input_name = True
        self.cpu_math_library_num_threads = 1


class AnalysisConfig(NativeConfig):
    """A `NativeConfig` with switches, which change nothing here: a model's plan is made once, whatever they say.

    ``model_dir`` is the model's folder; ``prog_file`` and ``param_file`` are set by ``set_model``.

    >>> config = fluid.core.AnalysisConfig("line.model")
    >>> config.disable_gpu()
    >>> config.switch_ir_optim(True)
    """

    def __init__(self, model_dir: str = "", param_file: str = "") -> None:
        super().__init__()
        self.set_model(model_dir, param_file)

    def set_model(self, model: str, param_file: str = "") -> None:
        """``model`` is the folder, or the file of the program where ``param_file``, that of the parameters, is given."""
        if param_file:
            self.prog_file, self.param_file = model, param_file
        else:
            self.model_dir = model

    def enable_use_gpu(self, *args: Any) -> None:
        """Refuse: there are no GPUs. ``args`` are what Fluid's method takes."""
        raise UnsupportedError("AnalysisConfig.enable_use_gpu: Trireme computes on processors alone")

    def _change_nothing(self, *args: Any) -> None:
        """Change nothing."""

    disable_gpu = switch_ir_optim = switch_use_feed_fetch_ops = switch_specify_input_names = enable_mkldnn = _change_nothing
    enable_memory_optim = set_cpu_math_library_num_threads = disable_glog_info = switch_ir_debug = pass_builder = _change_nothing


class PaddlePredictor:
    """What ``create_paddle_predictor`` returns."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def run(self, inputs: Sequence[PaddleTensor]) -> list[PaddleTensor]:
        """Return the outputs for the ``inputs``, which are matched by name, or by place where they have none."""
        feeds = self._predictor.feeds
        if len(inputs) != len(feeds):
            raise InvalidArgumentError(f"PaddlePredictor.run: {len(inputs)} inputs, the model has {len(feeds)}: {', '.join(feeds)}")
        results = self._predictor.run({one.name or name: _fed(one) for one, name in zip(inputs, feeds)}, return_numpy=False)
        return [PaddleTensor(result.numpy(), name, result.lod()) for name, result in zip(self._predictor.fetches, results)]

    def get_input_names(self) -> list[str]:
        return list(self._predictor.feeds)

    def get_output_names(self) -> list[str]:
        return list(self._predictor.fetches)

    def clone(self) -> PaddlePredictor:
        """Return another one of the same model. Threads may also share one."""
        return PaddlePredictor(self._predictor)


def _fed(tensor: PaddleTensor) -> Any:
    if not tensor.lod:
        return tensor.as_ndarray()
    fed = LoDTensor()
    fed.set(tensor.as_ndarray())
    fed.set_lod(tensor.lod)
    return fed


def create_paddle_predictor(config: NativeConfig) -> PaddlePredictor:
    """Load the model that ``config`` names. Errors are those of `Predictor`.

    >>> x = fluid.layers.data("x", [2])
    >>> y = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(1.0), bias_attr=False)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = fluid.io.save_inference_model("sum.model", ["x"], [y], exe)
    >>> predictor = fluid.core.create_paddle_predictor(fluid.core.AnalysisConfig("sum.model"))
    >>> out, = predictor.run([fluid.core.PaddleTensor(np.array([[1, 2]], "float32"))])
    >>> out.shape, out.data.float_data()
    ([1, 1], [3.0])
    """
    if not isinstance(config, NativeConfig):
        raise TypeError(f"create_paddle_predictor takes a NativeConfig or an AnalysisConfig, got {config!r}")
    if config.use_gpu:
        raise UnsupportedError("create_paddle_predictor: use_gpu is set, but Trireme computes on processors alone")
    folder, prog, params = config.model_dir, config.prog_file, config.param_file
    if not folder:
        folder, prog = os.path.split(prog)
        params = os.path.relpath(params, folder or ".")
    return PaddlePredictor(Predictor(folder or ".", prog or None, params or None))


__all__ = ["PaddleDType", "PaddleBuf", "PaddleTensor", "NativeConfig", "AnalysisConfig", "create_paddle_predictor"]
