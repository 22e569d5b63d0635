"""Recurrent nets from a block for one step: StaticRNN over a fixed number of steps, DynamicRNN over sequences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..native import unique_name
from ..native.dtypes import DTypeLike, VarType, convert_dtype
from ..parameters.layer_helper import LayerHelper
from ..program import Block, Variable, default_main_program
from .array import array_read, array_to_lod_tensor, array_write, shrink_memory
from .control_flow import While, _outer_names, less_than
from .tensor import fill_constant, increment


class _Rnn:
    """What both share: a block for a step, around which the net is called."""

    def __init__(self, type: str, name: str | None) -> None:
        self.helper = LayerHelper(type, name=name)
        self._type = type
        self._state = "before"

    def _begin(self) -> None:
        if self._state != "before":
            raise ValueError(f"{self._type}: there can be only one block")
        self._state = "inside"

    def _check_inside(self, what: str) -> None:
        if self._state != "inside":
            raise ValueError(f"{self._type}: {what} must stand inside the block")

    def _results(self, outputs: list[Variable]) -> Any:
        if self._state != "behind":
            raise ValueError(f"{self._type}: call it after its block")
        if not outputs:
            raise ValueError(f"{self._type}: it has no outputs")
        return outputs[0] if len(outputs) == 1 else outputs


class StaticRNN(_Rnn):
    """Run a block for each step along dimension 0 of its inputs ([steps, batch, ...]).

    >>> x = fluid.layers.data("x", [5, 2, 3], append_batch_size=False)
    >>> rnn = fluid.layers.StaticRNN()
    >>> with rnn.step():
    ...     word = rnn.step_input(x)
    ...     total = rnn.memory(shape=[-1, 3], batch_ref=word)
    ...     new_total = total + word
    ...     rnn.update_memory(total, new_total)
    ...     rnn.step_output(new_total)
    >>> rnn()
    Variable('static_rnn_0.output_0', float32[5, 2, 3])
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__("static_rnn", name)
        self.seq_len: int | None = None
        self._inputs: list[Variable] = []                    # outside
        self._memories: dict[str, tuple[Variable, Variable | None]] = {}      # in the block: (initial, updated)
        self._outputs: list[Variable] = []                   # outside; inside they have the same names

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Add what stands inside the ``with`` to the block that runs for every step."""
        self._begin()
        program = default_main_program()
        block = program.create_block()
        try:
            yield
        finally:
            program.rollback()
        self._state = "behind"
        self._complete(block, program.current_block())

    @property
    def _parent(self) -> Block:
        parent = default_main_program().current_block().parent
        assert parent is not None
        return parent

    def step_input(self, x: Variable) -> Variable:
        """Return one step of ``x``."""
        self._check_inside("step_input")
        self.helper.check_variable(x, "x")
        if not x.shape:
            raise ValueError(f"static_rnn: step_input takes [steps, ...], got {x!r}")
        if self.seq_len is not None and x.shape[0] is not None and x.shape[0] != self.seq_len:
            raise ValueError(f"static_rnn: inputs have {self.seq_len} steps, {x!r} has {x.shape[0]}")
        self.seq_len = x.shape[0] if x.shape[0] is not None else self.seq_len
        self._inputs.append(x)
        return self.helper.create_variable(name=x.name, dtype=x.dtype, shape=list(x.shape[1:]) or [1])

    def memory(self, init: Variable | None = None, shape: Sequence[int] | None = None,
               batch_ref: Variable | None = None, init_value: float = 0.0, init_batch_dim_idx: int = 0,
               ref_batch_dim_idx: int = 1) -> Variable:
        """Return a memory: ``init`` at the first step, then what ``update_memory`` gave it at the step before.

        Without ``init``, it starts as ``init_value`` in ``shape``, whose dimension ``init_batch_dim_idx`` is that
        of the batch: dimension ``ref_batch_dim_idx`` of ``batch_ref``, counted as outside the block: of a step
        input, the steps are dimension 0.
        """
        self._check_inside("memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("static_rnn: memory needs init, or shape and batch_ref")
            init = self._fill_init(batch_ref, shape, init_value, init_batch_dim_idx, ref_batch_dim_idx)
        memory = self.helper.create_variable(name=unique_name.generate(f"{self.helper.name}.memory"), dtype=init.dtype,
                                             shape=list(init.shape))
        self._memories[memory.name] = init, None
        return memory

    def _fill_init(self, ref: Variable, shape: Sequence[int], value: float, dim: int, ref_dim: int) -> Variable:
        parent = self._parent
        outside = parent._find_var_recursive(ref.name)
        if outside is None:
            raise ValueError(f"static_rnn: batch_ref must be a step input or stand outside the block, got {ref!r}")
        init = parent.create_var(name=unique_name.generate(f"{self.helper.name}.init"), dtype=ref.dtype,
                                 stop_gradient=True)
        parent.append_op(type="fill_constant_batch_size_like", inputs={"Input": [outside]}, outputs={"Out": [init]},
                         attrs={"value": float(value), "dtype": ref.dtype,
                                "shape": [-1 if size is None else int(size) for size in shape],
                                "input_dim_idx": ref_dim, "output_dim_idx": dim})
        return init

    def update_memory(self, mem: Variable, var: Variable) -> None:
        """Say what a memory is at the next step. ``mem`` is what ``memory`` returned, ``var`` its value at the next step."""
        self._check_inside("update_memory")
        if mem.name not in self._memories:
            raise ValueError(f"static_rnn: {mem!r} is no memory of this net")
        self._memories[mem.name] = self._memories[mem.name][0], self.helper.check_variable(var, "var")

    def step_output(self, o: Variable) -> None:
        """Make ``o``, over all steps, an output of the net."""
        self._check_inside("step_output")
        self.helper.check_variable(o, "o")
        name = unique_name.generate(f"{self.helper.name}.output")
        self._hand_on(o, name)
        self._outputs.append(self._parent.create_var(name=name, dtype=o.dtype, shape=[self.seq_len, *o.shape]))

    output_var = step_output

    def output(self, *outputs: Variable) -> None:
        """Make all of these outputs."""
        for one in outputs:
            self.step_output(one)

    def _hand_on(self, var: Variable, name: str) -> None:
        block = default_main_program().current_block()
        copy = block.create_var(name=name, dtype=var.dtype)
        block.append_op(type="rnn_memory_helper", inputs={"X": [var]}, outputs={"Out": [copy]},
                        attrs={"dtype": var.dtype})

    def _complete(self, block: Block, parent: Block) -> None:
        if not self._inputs:
            raise ValueError("static_rnn: the block has no step_input")
        states = []
        for name, (_, updated) in self._memories.items():
            if updated is None:
                raise ValueError(f"static_rnn: memory {name!r} has no update_memory")
            states.append(unique_name.generate(f"{self.helper.name}.state"))
            copy = block.create_var(name=states[-1], dtype=updated.dtype)
            block.append_op(type="rnn_memory_helper", inputs={"X": [updated]}, outputs={"Out": [copy]},
                            attrs={"dtype": updated.dtype})
        reads, _ = _outer_names(block, parent)
        scopes = parent.create_var(type=VarType.STEP_SCOPES, prefix="step_scopes")
        parent.append_op(type="recurrent",
                         inputs={"inputs": self._inputs, "parameters": reads,
                                 "initial_states": [init for init, _ in self._memories.values()]},
                         outputs={"outputs": self._outputs, "step_scopes": [scopes]},
                         attrs={"has_states": bool(states), "ex_states": list(self._memories), "states": states,
                                "sub_block": block})

    def __call__(self) -> Any:
        """Return the output, or the list of them: [steps, ...]."""
        return self._results(self._outputs)


class DynamicRNN(_Rnn):
    """Run a block for each step of sequences, all sequences that are long enough at once, without padding.

    >>> words = fluid.layers.data("words", [3], lod_level=1)
    >>> rnn = fluid.layers.DynamicRNN()
    >>> with rnn.block():
    ...     word = rnn.step_input(words)
    ...     total = rnn.memory(shape=[3])
    ...     new_total = total + word
    ...     rnn.update_memory(total, new_total)
    ...     rnn.output(new_total)
    >>> x = fluid.create_lod_tensor(np.ones((5, 3), "float32"), [[2, 3]], fluid.CPUPlace())
    >>> np.array(fluid.Executor().run(feed={"words": x}, fetch_list=[rnn()], return_numpy=False)[0])[:, 0].tolist()
    [1.0, 2.0, 1.0, 2.0, 3.0]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__("dynamic_rnn", name)
        self.lod_rank_table: Any = None
        self.max_seq_len: Any = None
        self.cond = self.helper.create_variable_for_type_inference(VarType.BOOL, stop_gradient=True)
        self.while_op = While(self.cond)
        self.outputs: list[Variable] = []
        self._arrays: list[Variable] = []                    # of step inputs
        self._output_arrays: list[Variable] = []
        self._memory_array: dict[str, Variable] = {}
        self._updates: list[tuple[Variable, Variable]] = []

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Add what stands inside the ``with`` to the block that runs for every step."""
        self._begin()
        self._first = fill_constant([1], "int64", 0)         # where memories start
        self.step_idx = fill_constant([1], "int64", 0)
        with self.while_op.block():
            yield
            if self.lod_rank_table is None:
                raise ValueError("dynamic_rnn: the block has no step_input")
            increment(self.step_idx)
            for var, array in self._updates:
                array_write(var, self.step_idx, array)
            less_than(self.step_idx, self.max_seq_len, cond=self.cond)
        self._state = "behind"
        self.outputs = [array_to_lod_tensor(array, self.lod_rank_table) for array in self._output_arrays]

    @property
    def _parent(self) -> Block:
        parent = default_main_program().current_block().parent
        assert parent is not None
        return parent

    def _outside(self, type: str, inputs: dict[str, Any], dtype: DTypeLike = None, attrs: dict[str, Any] | None = None,
                 out: Variable | None = None, kind: VarType = VarType.LOD_TENSOR,
                 stop_gradient: bool = False) -> Variable:
        """Append an operator to the block around, and return its output."""
        parent = self._parent
        if out is None:
            out = parent.create_var(name=unique_name.generate(f"{self.helper.name}.{type}"), dtype=dtype,
                                    type=kind, stop_gradient=stop_gradient)
        parent.append_op(type=type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
        return out

    def step_input(self, x: Variable, level: int = 0) -> Variable:
        """Return one step of the sequences of ``x``: a row (or a sequence, below ``level``) of each that goes on."""
        self._check_inside("step_input")
        self.helper.check_variable(x, "x")
        if self.lod_rank_table is None:
            self.lod_rank_table = self._outside("lod_rank_table", {"X": [x]}, attrs={"level": level},
                                                kind=VarType.LOD_RANK_TABLE)
            self.max_seq_len = self._outside("max_sequence_len", {"RankTable": [self.lod_rank_table]}, "int64",
                                             stop_gradient=True)
            self._outside("less_than", {"X": [self.step_idx], "Y": [self.max_seq_len]}, out=self.cond)
        array = self._outside("lod_tensor_to_array", {"X": [x], "RankTable": [self.lod_rank_table]}, x.dtype,
                              kind=VarType.LOD_TENSOR_ARRAY)
        self._arrays.append(array)
        return array_read(array, self.step_idx)

    def _check_has_input(self, what: str) -> None:
        self._check_inside(what)
        if self.lod_rank_table is None:
            raise ValueError(f"dynamic_rnn: {what} must come after step_input")

    def static_input(self, x: Variable) -> Variable:
        """Return what ``x`` (a row, or a sequence, for each sequence) has of the sequences that go on."""
        self._check_has_input("static_input")
        return shrink_memory(self._reorder(x), self.step_idx, self.lod_rank_table)

    def _reorder(self, x: Variable) -> Variable:
        return self._outside("reorder_lod_tensor_by_rank", {"X": [x], "RankTable": [self.lod_rank_table]}, x.dtype)

    def memory(self, init: Variable | None = None, shape: Sequence[int] | None = None, value: float = 0.0,
               need_reorder: bool = False, dtype: DTypeLike = "float32") -> Variable:
        """Return a memory: ``init`` at the first step, then what ``update_memory`` gave it at the step before.

        ``init`` has a row for each sequence; with ``need_reorder`` in the order of the input, otherwise from the
        longest sequence to the shortest. Without it, the memory starts as ``value`` in rows of ``shape``.
        """
        self._check_has_input("memory")
        if init is None:
            if shape is None:
                raise ValueError("dynamic_rnn: memory needs init or shape")
            first = self._outside("read_from_array", {"X": [self._arrays[0]], "I": [self._first]},
                                  self._arrays[0].dtype, stop_gradient=True)
            init = self._outside("fill_constant_batch_size_like", {"Input": [first]}, dtype, stop_gradient=True,
                                 attrs={"shape": [-1, *shape], "value": float(value), "dtype": int(convert_dtype(dtype)),
                                        "input_dim_idx": 0, "output_dim_idx": 0})
        elif need_reorder:
            init = self._reorder(init)
        array = self._outside("write_to_array", {"X": [init], "I": [self._first]}, init.dtype,
                              kind=VarType.LOD_TENSOR_ARRAY)
        memory = shrink_memory(array_read(array, self.step_idx), self.step_idx, self.lod_rank_table)
        self._memory_array[memory.name] = array
        return memory

    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """Say what a memory is at the next step. ``ex_mem`` is what ``memory`` returned, ``new_mem`` its value at the next step."""
        self._check_inside("update_memory")
        if ex_mem.name not in self._memory_array:
            raise ValueError(f"dynamic_rnn: {ex_mem!r} is no memory of this net")
        self._updates.append((self.helper.check_variable(new_mem, "new_mem"), self._memory_array[ex_mem.name]))

    def output(self, *outputs: Variable) -> None:
        """Make these, over all steps, outputs of the net."""
        self._check_inside("output")
        for out in outputs:
            array = self._parent.create_var(name=unique_name.generate(f"{self.helper.name}.output"), dtype=out.dtype,
                                            type=VarType.LOD_TENSOR_ARRAY)
            array_write(out, self.step_idx, array)
            self._output_arrays.append(array)

    def __call__(self) -> Any:
        """Return the output, or the list of them, with the LoD of the input."""
        return self._results(self.outputs)


__all__ = ["StaticRNN", "DynamicRNN"]
