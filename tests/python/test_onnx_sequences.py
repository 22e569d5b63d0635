"""Programs over sequences give in onnxruntime, which is told the offsets, what they give here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
from trireme.native import errors
from trireme import formats

from onnx_support import assert_same_of_sequences, made, output_of, parameter

layers = fluid.layers


def sequences(*shape: int, name: str = "x", levels: int = 1) -> Any:
    return layers.data(name, list(shape), lod_level=levels)


def words(name: str = "x", count: int = 5) -> Any:
    """Whole numbers from 0 to count - 1."""
    return layers.cast(layers.scale(layers.sigmoid(sequences(1, name=name)), float(count)), "int64")


def whole(values: list[Any], type: str = "int64") -> Any:
    return layers.cast(layers.assign(np.array(values, "int32")), type)


def summed(how: str = "plain") -> Any:
    """A recurrent net over sequences; with an input that stays the same, and with memories that begin elsewhere."""
    x = sequences(3)
    start = layers.sequence_pool(x, "first")
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        total = rnn.memory(init=start, need_reorder=True) if how == "begun" else rnn.memory(shape=[3], value=0.5)
        parts = [word, total]
        if how == "with a row":
            parts.append(rnn.static_input(start))
        if how == "with sequences":
            parts.append(layers.sequence_pool(rnn.static_input(x), "max"))
        new = layers.fc(parts, 3, act="tanh", bias_attr=False)
        rnn.update_memory(total, new)
        rnn.output(new, word + total)
    first, second = rnn()
    return first, layers.sequence_pool(second, "last")


def gates(op: str, **attrs: Any) -> Any:
    return layers.dynamic_lstm(layers.fc(sequences(3), 16), 16,
                               **attrs) if op == "lstm" else layers.dynamic_gru(layers.fc(sequences(3), 12), 4, **attrs)


def begun(kind: str) -> Any:
    x = sequences(3)
    h, c = layers.fc(layers.sequence_pool(x, "last"), 4, act="tanh"), layers.fc(layers.sequence_pool(x, "first"), 4)
    if kind == "gru":
        return layers.dynamic_gru(layers.fc(x, 12), 4, h_0=h)
    return layers.dynamic_lstm(layers.fc(x, 16), 16, h_0=h, c_0=c, use_peepholes=True)


def attended(scales: bool) -> Any:
    x = sequences(3)
    inputs = {"X": x, "C0": layers.fc(layers.sequence_pool(x, "sum"), 4), "AttentionWeight": parameter(7, 1),
              "LSTMWeight": parameter(7, 16), "LSTMBias": parameter(1, 16)}
    if scales:
        inputs |= {"H0": layers.fc(layers.sequence_pool(x, "max"), 4), "AttentionBias": parameter(1, 1), "AttentionScalar": parameter(1, 1),
                   "AttentionScalarBias": parameter(1, 1)}
    outputs = dict.fromkeys(("Hidden", "Cell", "AttentionedX", "AttentionFCOut", "LSTMX", "LSTMOUT"), "float32")
    return output_of("attention_lstm", "Hidden", outputs, inputs)


def fused(type: str, width: int, gates: int, **more: Any) -> Any:
    outputs = {"fusion_gru": ("ReorderedH0", "XX", "BatchedInput", "BatchedOut", "Hidden"),
               "fusion_lstm": ("Hidden", "Cell", "XX", "BatchedInput", "BatchedHidden", "BatchedCell", "ReorderedH0", "ReorderedC0",
                               "CheckedCell"),
               "fused_embedding_fc_lstm": ("Hidden", "Cell", "XX", "BatchedInput", "BatchedHidden", "BatchedCell", "ReorderedH0",
                                           "ReorderedC0")}[type]
    if type == "fused_embedding_fc_lstm":
        inputs = {"Ids": words(), "Embeddings": parameter(5, 4 * width)}
    else:
        inputs = {"X": sequences(3), "WeightX": parameter(3, gates * width)}
    inputs |= {"WeightH": parameter(width, gates * width), "Bias": parameter(1, gates * width)}
    return output_of(type, "Hidden", dict.fromkeys(outputs, "float32"), inputs, **more)


def field(type: str, compares: bool = True) -> Any:
    inputs = {"Emission": sequences(3), "Transition": parameter(5, 3)} | ({"Label": words("z", 3)} if compares else {})
    outputs = {"crf_decoding": {"ViterbiPath": "int64"},
               "linear_chain_crf": dict.fromkeys(("Alpha", "EmissionExps", "TransitionExps", "LogLikelihood"), "float32")}[type]
    return output_of(type, "ViterbiPath" if type == "crf_decoding" else "LogLikelihood", outputs, inputs)


def costs(blank: int) -> Any:
    """Of labels that are classes other than blank."""
    label = layers.cast(words("y", 2), "int32")
    label = layers.elementwise_add(label, layers.fill_constant([1], "int32", 1)) if blank == 0 else label
    return output_of("warpctc", "Loss", {"Loss": "float32", "WarpCTCGrad": "float32"}, {"Logits": sequences(3), "Label": label},
                     blank=blank)


def branched() -> Any:
    """Sequences by the sum of their first numbers."""
    x = sequences(3)
    total = layers.sequence_pool(layers.slice(x, axes=[1], starts=[0], ends=[1]), "sum")
    choose = layers.IfElse(layers.less_than(total, layers.fill_constant([1], "float32", 0.0)))
    with choose.true_block():
        choose.output(layers.sequence_softmax(layers.fc(choose.input(x), 1)))
    with choose.false_block():
        choose.output(layers.fc(choose.input(x), 1))
    [merged] = choose()
    return merged


CASES: list[tuple[str, Callable[[], Any]]] = [
    *[(f"pool_{how}", lambda how=how: layers.sequence_pool(sequences(3, 2), how, pad_value=0.5))
      for how in ("sum", "average", "sqrt", "max", "first", "last")],
    ("pool_of_words", lambda: layers.sequence_pool(layers.embedding(words(), [5, 4]), "sum")),
    ("softmax", lambda: layers.sequence_softmax(sequences(1))),
    ("pad", lambda: layers.sequence_pad(sequences(3), layers.fill_constant([1], "float32", 2.0))),
    ("pad_to_a_length", lambda: layers.sequence_pad(sequences(2, 3), layers.assign(np.arange(6, dtype="float32").reshape(2, 3)), maxlen=7)),
    ("unpad", lambda: layers.sequence_unpad(*layers.sequence_pad(layers.scale(sequences(3), 2.0),
                                                                 layers.fill_constant([1], "float32", 2.0)))),
    ("unpad_numbers", lambda: layers.sequence_unpad(layers.data("x", [5]),
                                                    layers.cast(layers.scale(layers.sigmoid(layers.data("n", [1])), 5.0), "int64"))),
    ("reverse", lambda: layers.sequence_reverse(sequences(3))),
    ("expand_rows", lambda: layers.sequence_expand(layers.data("y", [3]), sequences(2))),
    ("expand_sequences", lambda: layers.sequence_expand(sequences(3, name="y"), sequences(2))),
    ("expand_as", lambda: layers.sequence_expand_as(layers.data("y", [3]), sequences(2))),
    ("slice", lambda: layers.sequence_slice(sequences(3), layers.fill_constant_batch_size_like(layers.data("y", [1]), [-1, 1], "int64", 0),
                                            layers.cast(layers.sequence_pool(layers.scale(sequences(1, name="z"), 0.0, 0.5), "sum"),
                                                        "int64"))),
    ("concat", lambda: layers.sequence_concat([sequences(3), sequences(3, name="y"), sequences(3, name="z")])),
    ("reshape", lambda: layers.sequence_reshape(sequences(6), 2)),
    ("reset_by_offsets", lambda: layers.sequence_pool(layers.lod_reset(sequences(2), target_lod=[0, 1, 8]), "last")),
    ("reset_like", lambda: layers.lod_reset(sequences(2), y=sequences(1, name="y"))),
    ("reset_to", lambda: layers.lod_reset(sequences(2), y=whole([0, 3, 3, 8], "int32"))),
    ("scatter", lambda: layers.sequence_scatter(layers.data("y", [6]), words(count=6), sequences(1, name="z"))),
    ("erase", lambda: layers.sequence_erase(words(), [1, 3])),
    ("align", lambda: layers.ctc_greedy_decoder(layers.softmax(sequences(3)), 1)),
    *[(f"align_{merges}", lambda merges=merges: output_of("ctc_align", "Output", {"Output": "int64"}, {"Input": words(count=3)}, blank=2,
                                                          merge_repeated=merges)) for merges in (True, False)],
    ("conv", lambda: layers.sequence_conv(sequences(3), 4, 3)),
    *[(f"conv_{start}", lambda start=start: made("sequence_conv", sequences(3), parameter(9, 4), slots=("X", "Filter"), contextStart=start,
                                                 contextLength=3)) for start in (-4, 0, 1)],
    *[(f"conv_padded_{start}", lambda start=start: made("sequence_conv", sequences(3), parameter(9, 4),
                                                        parameter(max(-start, 0) + max(start + 2, 0), 3),
                                                        slots=("X", "Filter", "PaddingData"), contextStart=start, contextLength=3,
                                                        paddingTrainable=True)) for start in (-2, -1, 1)],
    ("enumerate", lambda: layers.sequence_enumerate(words(), 3, pad_value=9)),
    ("add_position_encoding", lambda: made("add_position_encoding", sequences(6), alpha=0.5, beta=2.0)),
    ("row_conv", lambda: layers.row_conv(sequences(3), 2)),
    ("im2sequence", lambda: layers.im2sequence(layers.data("x", [2, 5, 6]), filter_size=[2, 3], stride=[1, 2], padding=[1, 0, 0, 1])),
    ("im2sequence_beyond_the_edge", lambda: layers.im2sequence(layers.data("x", [2, 5, 6]), filter_size=[2, 3], stride=2, padding=1)),
    ("im2sequence_window_larger_than_the_image", lambda: layers.im2sequence(layers.data("x", [2, 5, 4]), filter_size=[7, 5], stride=2)),
    *[(f"gru_{origin}", lambda origin=origin: gates("gru", origin_mode=origin)) for origin in (False, True)],
    ("gru_backward", lambda: gates("gru", is_reverse=True, candidate_activation="relu")),
    *[(f"begun_{kind}", lambda kind=kind: begun(kind)) for kind in ("gru", "lstm")],
    *[(f"lstm_{peeps}_{reverse}", lambda peeps=peeps, reverse=reverse: gates("lstm", use_peepholes=peeps, is_reverse=reverse))
      for peeps in (False, True) for reverse in (False, True)],
    *[(f"lstmp_{peeps}", lambda peeps=peeps: layers.dynamic_lstmp(layers.fc(sequences(3), 16), 16, 3, use_peepholes=peeps, cell_clip=0.2,
                                                                  proj_clip=0.1)) for peeps in (False, True)],
    *[(f"attention_lstm_{scales}", lambda scales=scales: attended(scales)) for scales in (False, True)],
    ("fusion_gru", lambda: fused("fusion_gru", 4, 3)),
    ("fusion_lstm", lambda: fused("fusion_lstm", 4, 4, use_peepholes=False)),
    ("fused_embedding_fc_lstm", lambda: fused("fused_embedding_fc_lstm", 4, 4, use_peepholes=False)),
    ("fused_embedding_seq_pool", lambda: made("fused_embedding_seq_pool", parameter(5, 3), words(), slots=("W", "Ids"))),
    ("fusion_seqconv_eltadd_relu", lambda: output_of("fusion_seqconv_eltadd_relu", "Out", {"Out": "float32", "ColMat": "float32"},
                                                     {"X": sequences(3), "Filter": parameter(9, 4), "Bias": parameter(4)}, contextLength=3,
                                                     contextStart=-1)),
    ("fusion_seqexpand_concat_fc", lambda: made("fusion_seqexpand_concat_fc", [sequences(3), layers.data("y", [2])], parameter(5, 4),
                                                slots=("X", "FCWeight"), fc_activation="relu")),
    ("fusion_seqpool_concat", lambda: made("fusion_seqpool_concat", [sequences(3), sequences(2, name="y")], pooltype="AVERAGE")),
    ("linear_chain_crf", lambda: field("linear_chain_crf")),
    *[(f"crf_decoding_{compares}", lambda compares=compares: field("crf_decoding", compares)) for compares in (False, True)],
    *[(f"warpctc_{blank}", lambda blank=blank: costs(blank)) for blank in (0, 2)],
    *[(f"edit_distance_{normalized}", lambda normalized=normalized: layers.edit_distance(words(count=3), words("y", 3), normalized))
      for normalized in (False, True)],
    *[(f"chunk_eval_{scheme}", lambda scheme=scheme, count=count: layers.chunk_eval(words(count=count), words("z", count), scheme, 2,
                                                                                    [1] if scheme == "IOE" else None))
      for scheme, count in (("IOB", 5), ("IOE", 5), ("IOBES", 9), ("plain", 3))],
    ("if_else", branched),
    *[(f"dynamic_rnn {how}", lambda how=how: summed(how)) for how in ("plain", "begun", "with a row", "with sequences")],
]

LENGTHS: list[dict[str, list[list[int]]]] = [{"x": [[3, 1, 4]], "y": [[2, 2, 2]], "z": [[4, 1, 2]]},
                                             {"x": [[2, 5, 1]], "y": [[1, 0, 3]], "z": [[1, 4, 0]]}]
WITH_EMPTY = {"x": [[0, 3, 0, 5, 0]], "y": [[2, 1, 0, 3, 1]], "z": [[3, 0, 1, 2, 1]]}
ALL_EMPTY = {name: [[0, 0]] for name in "xyz"}
# what is empty is an error there, or does not fit
NEVER_EMPTY = {"reset_by_offsets", "reset_like", "reset_to", "dynamic_rnn begun", "scatter", "slice"}


def lengths_for(name: str) -> list[dict[str, list[list[int]]]]:
    if name == "reset_like":
        return [each | {"y": [each["x"][0][::-1]]} for each in LENGTHS]
    if name.startswith(("linear", "crf", "chunk")):
        return [each | {"z": each["x"]} for each in (*LENGTHS, WITH_EMPTY, ALL_EMPTY)]
    if name in ("scatter", "slice"):
        return [each | {"z": each["x"]} for each in LENGTHS]
    if name == "edit_distance_True":
        return [each | {"y": [[3, 1, 4]]} for each in LENGTHS]
    return LENGTHS if name in NEVER_EMPTY else [*LENGTHS, WITH_EMPTY, ALL_EMPTY]


@pytest.mark.parametrize(("name", "make"), [pytest.param(name, make, id=name) for name, make in CASES])
def test_onnxruntime_gives_the_same(name: str, make: Callable[[], Any], tmp_path: Path) -> None:
    assert_same_of_sequences(make, tmp_path, lengths_for(name))


def test_sequences_of_sequences_are_told_level_by_level(tmp_path: Path) -> None:
    def make() -> Any:
        x = sequences(3, levels=2)
        inner = layers.sequence_pool(x, "max")
        return inner, layers.sequence_pool(inner, "sum"), layers.sequence_expand(layers.data("y", [2]), x,
                                                                                 ref_level=0), layers.sequence_reverse(x)
    assert_same_of_sequences(make, tmp_path, [{"x": [[2, 1], [3, 1, 2]]}, {"x": [[1, 3, 0], [2, 0, 1, 4]]}])


def test_steps_may_be_sequences(tmp_path: Path) -> None:
    """A net over the sentences of texts: each step has the words of one sentence of each text."""
    def make() -> Any:
        x = sequences(3, levels=2)
        rnn = layers.DynamicRNN()
        with rnn.block():
            words = rnn.step_input(x)
            before = rnn.memory(shape=[3], value=0.5)
            after = layers.fc([layers.sequence_pool(words, "max"), before], 3, act="tanh")
            rnn.update_memory(before, after)
            rnn.output(after, words + layers.sequence_expand_as(before, words))
        return rnn()
    assert_same_of_sequences(make, tmp_path, [{"x": [[2, 1], [3, 1, 2]]}, {"x": [[1, 3, 0], [2, 0, 1, 4]]}])


def test_one_sequence_is_a_pair_of_offsets(tmp_path: Path) -> None:
    assert_same_of_sequences(lambda: gates("lstm"), tmp_path, [{"x": [[1]]}, {"x": [[7]]}])


@pytest.mark.parametrize(("make", "why"), [
    (lambda: layers.sequence_pool(layers.data("x", [3]), "sum"), "sequence_pool: 'x' has no sequences here"),
], ids=["no_sequences"])
def test_an_operator_that_is_not_exported_is_named(make: Callable[[], Any], why: str, tmp_path: Path) -> None:
    target = make()
    with pytest.raises(errors.UnsupportedError, match=why):
        formats.export_onnx(tmp_path / "m.onnx", ["x"], [target], fluid.Executor())
