"""The networks of the examples give in onnxruntime what they give here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid

from onnx_support import assert_close, exported
from test_onnx_beams import assert_same_lods, pair

layers = fluid.layers
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Any]]:
    """Loads a module of an example; it is forgotten afterwards, since others have modules of the same names."""
    before = set(sys.modules)

    def load(example: str, name: str) -> Any:
        monkeypatch.syspath_prepend(str(EXAMPLES / example))
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if str(EXAMPLES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def assert_same_network(make: Callable[[], Any], folder: Path, most: int, lengths: list[int], sizes: dict[str, int] | None = None) -> None:
    """Compare for numbers below ``most``, or below that of their variable, and for sequences of these lengths, or as many rows."""
    feeds, targets, session, run = exported(make, folder)
    random, ours, theirs = np.random.RandomState(5), {}, {}
    for var in feeds:
        rows = sum(lengths) if var.lod_level else len(lengths)
        shape = [rows if dim < 0 else dim for dim in var.desc.shape()]
        kind = np.dtype(var.dtype.dtype)
        value = random.randint(0, (sizes or {}).get(var.name, most), shape) if kind == np.int64 else random.randn(*shape).astype(kind)
        theirs[var.name] = value
        ours[var.name] = fluid.create_lod_tensor(value, [lengths]) if var.lod_level else value
        if var.lod_level:
            theirs[f"{var.name}.offsets"] = np.cumsum([0, *lengths])
    got = dict(zip([info.name for info in session.get_outputs()], session.run(None, theirs), strict=True))
    for target, want in zip(targets, run(ours), strict=True):
        assert_close(got[target.name], np.array(want))


@pytest.mark.parametrize("name", ["conv", "lstm", "words"])
def test_sentence_polarity(module: Any, name: str, tmp_path: Path) -> None:
    networks = module("sentence_polarity", "networks").NETWORKS
    assert_same_network(lambda: networks[name](layers.data("words", [1], dtype="int64", lod_level=1), 30), tmp_path, 30, [5, 9, 1])


@pytest.mark.parametrize("name", ["vgg", "resnet"])
def test_images(module: Any, name: str, tmp_path: Path) -> None:
    network = getattr(module("images", "networks"), name)
    assert_same_network(lambda: network(layers.data("image", [3, 32, 32]), 10, 8), tmp_path, 1, [1, 1])


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_recognize_digits(module: Any, name: str, tmp_path: Path) -> None:
    network = getattr(module("recognize_digits", "networks"), name)
    assert_same_network(lambda: network(layers.data("image", [1, 28, 28])), tmp_path, 1, [1, 1])


def test_recommender(module: Any, tmp_path: Path) -> None:
    make = module("recommender", "network").network
    assert_same_network(lambda: make(8, False, 0.1), tmp_path, 10, [3, 1, 2])


def test_transformer(module: Any, tmp_path: Path) -> None:
    module("attention", "tasks")
    network, sizes = module("transformer", "network"), (16, 4, 2)

    def make() -> Any:
        bias = layers.data("bias", [1, 1, 6])
        memory = network.encoder(layers.data("given", [6, 1], dtype="int64"), bias, 6, sizes)
        return network.decoder(layers.data("before", [5, 1], dtype="int64"), memory, bias, 5, sizes)
    assert_same_network(make, tmp_path, network.COUNT, [1, 1, 1])


def test_tagger(module: Any, tmp_path: Path) -> None:
    tagger = module("tagger", "train")

    def make() -> Any:
        scores = tagger.scores_of(layers.data("words", [1], dtype="int64", lod_level=1), 8)
        return tagger.crf(scores, layers.data("tags", [1], dtype="int64", lod_level=1))
    assert_same_network(make, tmp_path, len(tagger.WORDS), [4, 2, 7], {"tags": len(tagger.TAGS)})


def test_semantic_roles(module: Any, tmp_path: Path) -> None:
    roles = module("semantic_roles", "train")

    def make() -> Any:
        scores, named = roles.network(8, 3), fluid.ParamAttr(name="transitions")
        cost = layers.linear_chain_crf(scores, layers.data("tags", [1], dtype="int64", lod_level=1), param_attr=named)
        return cost, layers.crf_decoding(scores, param_attr=named)
    assert_same_network(make, tmp_path, len(roles.WORDS), [4, 2, 7], {"near": 2, "tags": len(roles.TAGS)})


def test_a_decoder_with_attention_finds_the_same_answers(module: Any, tmp_path: Path) -> None:
    attention = module("attention", "network")

    def make() -> Any:
        return attention.search(layers.data("given", [1], dtype="int64", lod_level=1), pair("begin", "int64"), pair("nothing", "float32"),
                                8, 3, 6)

    random, feeds = np.random.RandomState(5), []
    for lengths in ([3, 1, 4], [5]):
        count = len(lengths)
        both = [[1] * count, [1] * count]
        feeds.append({"given": (random.randint(2, attention.COUNT, [sum(lengths), 1]), [lengths]),
                      "begin": (np.full([count, 1], module("attention", "tasks").BEGIN), both),
                      "nothing": (np.zeros([count, 1], "float32"), both)})
    assert_same_lods(make, tmp_path, feeds)


def test_a_decoder_with_attention_costs_the_same(module: Any, tmp_path: Path) -> None:
    attention = module("attention", "network")

    def make() -> Any:
        given, before, answer = (layers.data(name, [1], dtype="int64", lod_level=1) for name in ("given", "before", "answer"))
        return attention.cost(given, before, answer, 8)

    random = np.random.RandomState(5)
    lengths = [2, 4, 1]
    assert_same_lods(make, tmp_path, [{name: (random.randint(2, attention.COUNT, [sum(counts), 1]), [counts])
                                       for name, counts in (("given", [3, 2, 2]), ("before", lengths), ("answer", lengths))}])
