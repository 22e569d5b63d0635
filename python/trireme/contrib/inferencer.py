"""Fluid's inferencer: what a function describes, with parameters from a folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..native import unique_name
from ..native.scope import Scope
from ..program import Program, Variable, program_guard
from ..run.scopes import scope_guard
from ..saving import io
from ..train.executor import Executor


class Inferencer:
    """Computes what ``infer_func`` returns, with the parameters that ``Trainer.save_params`` wrote to ``param_path``.

    >>> import tempfile
    >>> def network():
    ...     return fluid.layers.fc(fluid.layers.data("x", [2]), 1, param_attr="w", bias_attr=False)
    >>> def cost():
    ...     return fluid.layers.mean(network())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fluid.contrib.trainer.Trainer(cost, lambda: fluid.optimizer.SGD(0.1)).save_params(folder)
    ...     inferencer = fluid.contrib.inferencer.Inferencer(network, folder, place=fluid.CPUPlace())
    >>> inferencer.infer({"x": np.zeros((3, 2), "float32")})[0].shape
    (3, 1)
    """

    def __init__(self, infer_func: Callable[[], Any], param_path: str, place: Any = None, parallel: bool = False) -> None:
        self.param_path, self.scope, self.parallel = param_path, Scope(), parallel
        self.inference_program, startup = Program(), Program()
        with program_guard(self.inference_program, startup), unique_name.guard():
            outputs = infer_func()
        self._outputs: list[Variable] = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        self.predict_var = outputs
        self.exe = Executor(place)
        with scope_guard(self.scope):
            io.load_params(self.exe, param_path, self.inference_program)
        self.inference_program = self.inference_program.clone(for_test=True)

    def infer(self, inputs: dict[str, Any], return_numpy: bool = True) -> list[Any]:
        """Return the values for ``inputs``, a dict of names to arrays."""
        if not isinstance(inputs, dict):
            raise ValueError(f"infer: inputs must be a dict of names to arrays, got {inputs!r}")
        with scope_guard(self.scope):
            return self.exe.run(self.inference_program, feed=inputs, fetch_list=self._outputs, return_numpy=return_numpy)


__all__ = ["Inferencer"]
