"""What goes from one step of a decoder to the next, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import layers
from ...program import Variable

if TYPE_CHECKING:
    from .beam_search_decoder import BeamSearchDecoder, TrainingDecoder


class InitState:
    """A state before the first step: ``init``, or ``value`` in rows of ``shape``, as many as ``init_boot`` has.

    ``need_reorder``: in training, rows of ``init`` are in the order of the samples; otherwise from the longest sequence to the shortest.

    ValueError: neither ``init`` nor ``init_boot`` is given, or ``init_boot`` without ``shape``.

    >>> boot = fluid.layers.data("boot", [4])
    >>> fluid.contrib.decoder.InitState(init_boot=boot, shape=[-1, 8], value=1.0).value.shape
    (None, 8)
    """

    def __init__(self, init: Variable | None = None, shape: Sequence[int] | None = None, value: float = 0.0,
                 init_boot: Variable | None = None, need_reorder: bool = False, dtype: Any = "float32") -> None:
        if init is None:
            if init_boot is None:
                raise ValueError("InitState: init or init_boot is needed; the latter says how many rows there are")
            if shape is None:
                raise ValueError("InitState: with init_boot a shape is needed")
            init = layers.fill_constant_batch_size_like(init_boot, list(shape), dtype, value)
        self.value: Variable = init
        self.need_reorder = need_reorder


class StateCell:
    """The states of a recurrent net by name, its inputs by name, and the function that makes the next states of them.

    ``inputs`` maps names to variables, or to None where each step gives its own; ``states`` maps names to ``InitState``. ``out_state`` is
    the state from which scores of words are computed.

    ``state_updater`` decorates the function, and a decoder calls it in each step (``TrainingDecoder``, ``BeamSearchDecoder``).

    >>> first = fluid.layers.data("first", [4])
    >>> cell = fluid.contrib.decoder.StateCell({"x": None}, {"h": fluid.contrib.decoder.InitState(first)}, out_state="h")
    >>> @cell.state_updater
    ... def update(cell):
    ...     cell.set_state("h", fluid.layers.fc([cell.get_input("x"), cell.get_state("h")], 4, act="tanh"))
    >>> cell.input_names, cell.state_names
    (['x'], ['h'])
    """

    def __init__(self, inputs: dict[str, Variable | None], states: dict[str, InitState], out_state: str, name: str | None = None) -> None:
        for key, state in states.items():
            if not isinstance(state, InitState):
                raise ValueError(f"StateCell: state {key!r} must be an InitState, got {state!r}")
        if out_state not in states:
            raise ValueError(f"StateCell: out_state must be one of {', '.join(states)}; got {out_state!r}")
        self.name = name
        self._inputs, self._init, self._out = dict(inputs), dict(states), out_state
        self._now: dict[str, Variable] = {}            # in a decoder: the states' values
        self._keep: dict[str, Callable[[Variable], None]] = {}
        self._updater: Callable[[StateCell], None] | None = None
        self._decoder: TrainingDecoder | BeamSearchDecoder | None = None

    @property
    def state_names(self) -> list[str]:
        return list(self._init)

    @property
    def input_names(self) -> list[str]:
        return list(self._inputs)

    def _enter(self, decoder: Any) -> None:
        if self._decoder is not None:
            raise ValueError("StateCell: it is in a decoder already")
        self._decoder, self._now, self._keep = decoder, {}, {}

    def _leave(self) -> None:
        self._decoder, self._now, self._keep = None, {}, {}

    def _begin(self) -> None:
        """Read all states at their first use in the decoder's block."""
        if self._decoder is None:
            raise ValueError("StateCell: states are known inside of a decoder's block")
        if not self._now:
            for name, init in self._init.items():
                self._now[name], self._keep[name] = self._decoder._keep_state(init)

    def get_state(self, state_name: str) -> Variable:
        """Return the value of a state at this step. ``state_name`` is one of the cell's states."""
        self._begin()
        if state_name not in self._now:
            raise ValueError(f"StateCell: there is no state {state_name!r}; there are {', '.join(self._init)}")
        return self._now[state_name]

    def get_input(self, input_name: str) -> Variable:
        """Return an input of this step. ``input_name`` is one of the cell's inputs."""
        value = self._inputs.get(input_name)
        if value is None:
            raise ValueError(f"StateCell: input {input_name!r} has no value; inputs are {', '.join(self._inputs)}, which compute_state "
                             "gives")
        return value

    def set_state(self, state_name: str, state_value: Variable) -> None:
        """Give a state a new value. ``state_name`` is one of the cell's states, ``state_value`` a Variable."""
        if state_name not in self._init:
            raise ValueError(f"StateCell: there is no state {state_name!r}; there are {', '.join(self._init)}")
        self._begin()
        self._now[state_name] = state_value

    def state_updater(self, updater: Callable[[StateCell], None]) -> Callable[[StateCell], None]:
        """Decorate the function that computes the next states: it takes the cell, and calls ``get_input``, ``get_state`` and ``set_state``.
        ``updater`` is that function.
        """
        self._updater = updater
        return updater

    def compute_state(self, inputs: dict[str, Variable]) -> None:
        """Compute the next states of these inputs."""
        self._begin()
        for name, value in inputs.items():
            if name not in self._inputs:
                raise ValueError(f"StateCell: there is no input {name!r}; there are {', '.join(self._inputs)}")
            self._inputs[name] = value
        if self._updater is None:
            raise ValueError("StateCell: there is no function that computes the next states: decorate one with state_updater")
        self._updater(self)

    def update_states(self) -> None:
        """Hand the states on to the next step."""
        self._begin()
        for name, keep in self._keep.items():
            keep(self._now[name])

    def out_state(self) -> Variable:
        """Return the state from which scores are computed."""
        return self.get_state(self._out)


__all__ = ["InitState", "StateCell"]
