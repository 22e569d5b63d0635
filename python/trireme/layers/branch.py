"""Conditions over control_flow.ConditionalBlock: IfElse, row by row; Switch, the first case that holds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..native import unique_name
from ..native.dtypes import VarType
from ..native.errors import UnsupportedError
from ..parameters.layer_helper import LayerHelper
from ..program import Block, Variable, default_main_program
from .array import merge_lod_tensor
from .control_flow import ConditionalBlock, logical_and, logical_not
from .tensor import assign


class IfElse:
    """Compute rows (or sequences) where ``cond`` (bool [n, 1]) is true in one way, the others in another.

    Both blocks name the same number of outputs; calling the object gives them, merged, as a list.

    >>> x = fluid.layers.data("x", [1])
    >>> choose = fluid.layers.IfElse(x < 0.0)
    >>> with choose.true_block():
    ...     choose.output(choose.input(x) * -1.0)
    >>> with choose.false_block():
    ...     choose.output(choose.input(x) * 10.0)
    >>> fluid.Executor().run(feed={"x": np.float32([[-2], [3]])}, fetch_list=choose())[0].tolist()
    [[2.0], [30.0]]
    """

    def __init__(self, cond: Variable, name: str | None = None) -> None:
        self.helper = LayerHelper("ifelse", name=name)
        self.cond = self.helper.check_variable(cond, "cond")
        self._inputs: dict[str, tuple[Variable, Variable]] = {}
        self._outputs: dict[bool, list[Variable]] = {}
        self._branch: bool | None = None

    @contextlib.contextmanager
    def _block(self, branch: bool) -> Iterator[None]:
        if self._branch is not None or branch in self._outputs:
            raise ValueError(f"IfElse: {self._name(branch)} inside another block, or for the second time")
        self._branch, self._outputs[branch] = branch, []
        try:
            with ConditionalBlock([self.cond]).block():
                yield
        finally:
            self._branch = None
        if not self._outputs[branch]:
            raise ValueError(f"IfElse: {self._name(branch)} has no output")

    @staticmethod
    def _name(branch: bool) -> str:
        return f"{str(branch).lower()}_block()"

    def true_block(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which the layers of the true branch are made."""
        return self._block(True)

    def false_block(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which the layers of the false branch are made."""
        return self._block(False)

    def _inside(self, what: str) -> bool:
        if self._branch is None:
            raise ValueError(f"IfElse: {what} must stand inside true_block() or false_block()")
        return self._branch

    @staticmethod
    def _parent() -> Block:
        parent = default_main_program().current_block().parent
        assert parent is not None                      # of a block that this object has made
        return parent

    def input(self, x: Variable) -> Variable:
        """Return the rows of ``x`` that this block is for."""
        branch = self._inside("input")
        if x.name not in self._inputs:
            parent = self._parent()
            yes, no = (parent.create_var(name=unique_name.generate(f"{self.helper.name}.input"), dtype=x.dtype)
                       for _ in range(2))
            parent.append_op(type="split_lod_tensor", inputs={"X": [x], "Mask": [self.cond]},
                             outputs={"OutTrue": [yes], "OutFalse": [no]}, attrs={"level": 0})
            self._inputs[x.name] = yes, no
        return self._inputs[x.name][0 if branch else 1]

    def output(self, *outs: Variable) -> None:
        """Name the results of this block."""
        branch = self._inside("output")
        parent = self._parent()
        for out in outs:
            outside = parent.create_var(name=unique_name.generate(f"{self.helper.name}.output"), dtype=out.dtype)
            self._outputs[branch].append(outside)
            assign(out, outside)

    def __call__(self) -> list[Variable]:
        if self._branch is not None or not self._outputs:
            raise ValueError("IfElse: call it after its blocks")
        if len(self._outputs) == 1:
            return next(iter(self._outputs.values()))
        yes, no = self._outputs[True], self._outputs[False]
        if len(yes) != len(no):
            raise ValueError(f"IfElse: true_block has {len(yes)} outputs, false_block {len(no)}")
        return [merge_lod_tensor(in_true=one, in_false=other, x=self.cond, mask=self.cond)
                for one, other in zip(yes, no)]


class Switch:
    """Run the block of the first case whose condition (bool [1]) is true, or that of ``default``.

    >>> step = fluid.layers.fill_constant([1], "int64", 7)
    >>> rate = fluid.layers.create_global_var([1], 0.0, "float32", persistable=True, name="rate")
    >>> with fluid.layers.Switch() as switch:
    ...     with switch.case(step < 5):
    ...         _ = fluid.layers.fill_constant([1], "float32", 1.0, out=rate)
    ...     with switch.default():
    ...         _ = fluid.layers.fill_constant([1], "float32", 0.5, out=rate)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exe.run(fetch_list=[rate])[0]
    array([0.5], dtype=float32)
    """

    def __init__(self, name: str | None = None) -> None:
        self.helper = LayerHelper("switch", name=name)
        self._is_open = False
        self._none_before: Variable | None = None        # no case so far holds

    def __enter__(self) -> Switch:
        self._is_open = True
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_open = False

    def _check(self, what: str) -> None:
        if not self._is_open:
            raise ValueError(f"Switch: {what} must stand inside `with Switch() as switch:`")

    def case(self, condition: Variable) -> contextlib.AbstractContextManager[object]:
        """Return the context of a case: its layers run where ``condition``, a bool Variable of one element, is the first true one."""
        self._check("case")
        if self.helper.check_variable(condition, "condition").dtype != VarType.BOOL:
            raise TypeError(f"Switch: a case's condition must be bool, got {condition!r}")
        before, otherwise = self._none_before, logical_not(condition)
        holds = condition if before is None else logical_and(before, condition)
        self._none_before = otherwise if before is None else logical_and(before, otherwise)
        return ConditionalBlock([holds], is_scalar_condition=True).block()

    def default(self) -> contextlib.AbstractContextManager[object]:
        """Return the context of the layers that run where no case is true."""
        self._check("default")
        if self._none_before is None:
            raise ValueError("Switch: default comes after at least one case")
        return ConditionalBlock([self._none_before], is_scalar_condition=True).block()


class ParallelDo:
    """Refuses to be made: Fluid 1.0 had it for several devices. ``CompiledProgram.with_data_parallel`` runs replicas of a program.

    ``places``, ``use_nccl`` and ``name`` are what Fluid's class takes.

    >>> fluid.layers.ParallelDo(fluid.layers.device.get_places())
    Traceback (most recent call last):
        ...
    trireme.errors.UnsupportedError: ParallelDo: replicas of a program are made by CompiledProgram(program).with_data_parallel(), ...
    """

    def __init__(self, places: Any, use_nccl: bool = False, name: str | None = None) -> None:
        raise UnsupportedError("ParallelDo: replicas of a program are made by CompiledProgram(program).with_data_parallel(), or by "
                               "ParallelExecutor; more processes are trainers of a job ('trireme launch --trainers N SCRIPT')")


__all__ = ["IfElse", "ParallelDo", "Switch"]
