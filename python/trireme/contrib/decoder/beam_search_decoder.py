"""A decoder that is trained on given words, and one that searches for the best ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ... import layers
from ...native import unique_name
from ...native.dtypes import VarType
from ...program import Variable, default_main_program
from .state_cell import InitState, StateCell

if TYPE_CHECKING:
    from ...parameters.param_attr import AttrLike


class TrainingDecoder:
    """Runs a block for each word of given sentences, as ``layers.DynamicRNN`` does. ``state_cell`` is the StateCell that the block steps.

    >>> words, first = fluid.layers.data("words", [4], lod_level=1), fluid.layers.data("first", [4])
    >>> decoder_of = fluid.contrib.decoder
    >>> cell = decoder_of.StateCell({"x": None}, {"h": decoder_of.InitState(first, need_reorder=True)}, out_state="h")
    >>> @cell.state_updater
    ... def update(cell):
    ...     cell.set_state("h", fluid.layers.fc([cell.get_input("x"), cell.get_state("h")], 4, act="tanh"))
    >>> decoder = decoder_of.TrainingDecoder(cell)
    >>> with decoder.block():
    ...     decoder.state_cell.compute_state(inputs={"x": decoder.step_input(words)})
    ...     decoder.output(fluid.layers.fc(decoder.state_cell.get_state("h"), 9, act="softmax"))
    ...     decoder.state_cell.update_states()
    >>> decoder().shape
    (None, 9)
    """

    def __init__(self, state_cell: StateCell, name: str | None = None) -> None:
        self.dynamic_rnn = layers.DynamicRNN(name)
        self._cell = state_cell
        state_cell._enter(self)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Add what stands inside the ``with`` to the block of a step."""
        with self.dynamic_rnn.block():
            yield
        self._cell._leave()

    def _keep_state(self, init: InitState) -> tuple[Variable, Callable[[Variable], None]]:
        memory = self.dynamic_rnn.memory(init=init.value, need_reorder=init.need_reorder)
        return memory, lambda value: self.dynamic_rnn.update_memory(memory, value)

    @property
    def state_cell(self) -> StateCell:
        self.dynamic_rnn._check_inside("state_cell")
        return self._cell

    def step_input(self, x: Variable) -> Variable:
        """Return one step of the sequences of ``x``."""
        return self.dynamic_rnn.step_input(x)

    def static_input(self, x: Variable) -> Variable:
        """Return what ``x`` has of the sequences that go on: the same at each step."""
        return self.dynamic_rnn.static_input(x)

    def output(self, *outputs: Variable) -> None:
        """Make these, over all steps, outputs of the decoder."""
        self.dynamic_rnn.output(*outputs)

    def __call__(self) -> Any:
        """Return the output, or the list of them."""
        return self.dynamic_rnn()


class BeamSearchDecoder:
    """Searches for the likeliest sentences, word by word; ``beam_size`` prefixes of each source go on.

    ``init_ids`` [sources, 1] and ``init_scores`` hold a first word and a score of 0 for each source, as sequences of two levels.
    ``input_var_dict`` gives inputs of the state cell that are the same for all words of a source; its other inputs are the embeddings
    [``target_dict_dim``, ``word_dim``] of the last words. Of the ``topk_size`` best next words of each prefix, the best of a source are
    kept. It ends after ``max_len`` words, or when all prefixes end with ``end_id``.

    The parameters of the embedding and of the layer that scores words are named by ``embedding_attr``, ``score_attr`` and
    ``score_bias_attr`` (ParamAttr, or a name), so that they can be those of the training. ``state_cell`` is the StateCell that each word
    steps; ``sparse_emb`` makes the embedding's gradient the rows that were used. Override ``decode`` for another search.

    >>> first = fluid.layers.data("first", [4])
    >>> ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=2)
    >>> scores = fluid.layers.data("scores", [1], lod_level=2)
    >>> cell = fluid.contrib.decoder.StateCell({"x": None}, {"h": fluid.contrib.decoder.InitState(first)}, out_state="h")
    >>> @cell.state_updater
    ... def update(cell):
    ...     cell.set_state("h", fluid.layers.fc([cell.get_input("x"), cell.get_state("h")], 4, act="tanh"))
    >>> decoder = fluid.contrib.decoder.BeamSearchDecoder(cell, ids, scores, target_dict_dim=9, word_dim=4, beam_size=2, max_len=5)
    >>> decoder.decode()
    >>> sentences, their_scores = decoder()
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> feed = {"first": np.ones((1, 4), "float32"), "ids": fluid.create_lod_tensor(np.zeros((1, 1), "int64"), [[1], [1]]),
    ...         "scores": fluid.create_lod_tensor(np.zeros((1, 1), "float32"), [[1], [1]])}
    >>> found, = exe.run(feed=feed, fetch_list=[sentences], return_numpy=False)
    >>> len(found.recursive_sequence_lengths()[1])
    2
    """

    def __init__(self, state_cell: StateCell, init_ids: Variable, init_scores: Variable, target_dict_dim: int, word_dim: int,
                 input_var_dict: dict[str, Variable] | None = None, topk_size: int = 50, sparse_emb: bool = True, max_len: int = 100,
                 beam_size: int = 1, end_id: int = 1, name: str | None = None, *, embedding_attr: AttrLike = None,
                 score_attr: AttrLike = None, score_bias_attr: AttrLike = None) -> None:
        self._outside = default_main_program().current_block()
        self._counter = layers.fill_constant([1], "int64", 0)
        self._first = layers.fill_constant([1], "int64", 0)
        self._max_len = layers.fill_constant([1], "int64", max_len)
        self._cond = layers.less_than(self._counter, self._max_len)
        self._loop = layers.While(self._cond)
        self._state = "before"
        self._cell = state_cell
        state_cell._enter(self)
        self._arrays: dict[str, Variable] = {}         # what was read -> the array
        self._writes: list[tuple[Variable, Variable]] = []
        self._ids: Variable | None = None
        self._scores: Variable | None = None
        self._init_ids, self._init_scores = init_ids, init_scores
        self._words, self._width = target_dict_dim, word_dim
        self._inputs = dict(input_var_dict or {})
        self._topk, self._beam, self._end, self._is_sparse = min(topk_size, target_dict_dim), beam_size, end_id, sparse_emb
        self._embedding_attr, self._score_attr, self._score_bias_attr = embedding_attr, score_attr, score_bias_attr
        for key in self._inputs:
            if key not in state_cell.input_names:
                raise ValueError(f"BeamSearchDecoder: the state cell has no input {key!r}; it has {', '.join(state_cell.input_names)}")

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Add what stands inside the ``with`` to the block of a step; its end writes what ``update_array`` was told."""
        if self._state != "before":
            raise ValueError("BeamSearchDecoder: there can be only one block")
        self._state = "inside"
        with self._loop.block():
            yield
            with layers.Switch() as switch, switch.case(self._cond):
                layers.increment(self._counter, 1.0, in_place=True)
                for value, array in self._writes:
                    layers.array_write(value, self._counter, array)
                layers.less_than(self._counter, self._max_len, cond=self._cond)
        self._state = "behind"
        self._cell._leave()

    def _check_inside(self, what: str) -> None:
        if self._state != "inside":
            raise ValueError(f"BeamSearchDecoder: {what} must stand inside the block")

    def _keep_state(self, init: InitState) -> tuple[Variable, Callable[[Variable], None]]:
        now = self.read_array(init.value)
        return now, lambda value: self.update_array(now, value)

    @property
    def state_cell(self) -> StateCell:
        self._check_inside("state_cell")
        return self._cell

    def early_stop(self) -> None:
        """End the search with this step, whose words do not count."""
        self._check_inside("early_stop")
        layers.fill_constant([1], "bool", 0, out=self._cond)

    def read_array(self, init: Variable, is_ids: bool = False, is_scores: bool = False) -> Variable:
        """Return ``init`` in the first step, and what ``update_array`` was told in the others. ``is_ids`` and ``is_scores`` mark what the
        result is made of."""
        self._check_inside("read_array")
        if is_ids and is_scores:
            raise ValueError("BeamSearchDecoder: an array is of ids or of scores, not of both")
        if not isinstance(init, Variable):
            raise TypeError(f"BeamSearchDecoder: read_array takes a Variable, got {init!r}")
        array = self._outside.create_var(name=unique_name.generate("beam_search_array"), type=VarType.LOD_TENSOR_ARRAY, dtype=init.dtype)
        self._outside.append_op(type="write_to_array", inputs={"X": [init], "I": [self._first]}, outputs={"Out": [array]})
        if is_ids:
            self._ids = array
        if is_scores:
            self._scores = array
        value = layers.array_read(array, self._counter)
        self._arrays[value.name] = array
        return value

    def update_array(self, array: Variable, value: Variable) -> None:
        """Say what ``array``, which ``read_array`` returned, is in the next step. ``value`` is that Variable."""
        self._check_inside("update_array")
        if not isinstance(value, Variable) or not isinstance(array, Variable):
            raise TypeError(f"BeamSearchDecoder: update_array takes Variables, got {array!r} and {value!r}")
        if array.name not in self._arrays:
            raise ValueError(f"BeamSearchDecoder: {array!r} comes from no read_array")
        self._writes.append((value, self._arrays[array.name]))

    def decode(self) -> None:
        """Add the search: embed the last words, compute the states, score all words, keep the best."""
        with self.block():
            ids, scores = self.read_array(self._init_ids, is_ids=True), self.read_array(self._init_scores, is_scores=True)
            words = layers.embedding(ids, size=[self._words, self._width], is_sparse=self._is_sparse, param_attr=self._embedding_attr)
            inputs = {}
            for name, var in self._inputs.items():
                read = self.read_array(var)
                inputs[name] = layers.sequence_expand(read, scores)
                self.update_array(read, inputs[name])
            for name in self._cell.state_names:
                self._cell.set_state(name, layers.sequence_expand(self._cell.get_state(name), scores))
            self._cell.compute_state({name: inputs.get(name, words) for name in self._cell.input_names})
            for name in self._cell.state_names:        # a row for each prefix, whatever sequences it has from the words
                self._cell.set_state(name, layers.slice(self._cell.get_state(name), axes=[0], starts=[0], ends=[2**31 - 1]))
            state = layers.lod_reset(self._cell.out_state(), scores)
            chances = layers.fc(state, size=self._words, act="softmax", param_attr=self._score_attr, bias_attr=self._score_bias_attr)
            best, candidates = layers.topk(chances, k=self._topk)
            totals = layers.lod_reset(layers.elementwise_add(layers.log(best), layers.reshape(scores, [-1]), axis=0), scores)
            picked, picked_scores = layers.beam_search(ids, scores, candidates, totals, self._beam, self._end)
            self._cell.update_states()
            self.update_array(ids, picked)
            self.update_array(scores, picked_scores)
            with layers.Switch() as switch, switch.case(layers.is_empty(picked)):
                self.early_stop()

    def __call__(self) -> tuple[Variable, Variable]:
        """Return the sentences and the scores up to each word: see ``layers.beam_search_decode``."""
        if self._state != "behind" or self._ids is None or self._scores is None:
            raise ValueError("BeamSearchDecoder: call decode first")
        return layers.beam_search_decode(self._ids, self._scores, self._beam, self._end)


__all__ = ["InitState", "StateCell", "TrainingDecoder", "BeamSearchDecoder"]
