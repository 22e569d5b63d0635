"""``trireme serve`` takes raw rows: texts as BYTES of the protocol, over HTTP and gRPC, and rows of JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
from trireme.serving import Predictor

from serve_support import Served, save_dense, until

pytest.importorskip("tornado")

KEYS, WIDE = 1 << 40, 40_000
ROWS: list[dict[str, Any]] = [{"user": "u7", "tags": ["a", "ä"], "wide": None}, {"user": 7, "tags": [], "wide": [1.0] * WIDE},
                              {"user": None, "tags": ["", "b"], "wide": None}]
TAGS, OFFSETS = ["a", "ä", "", "b"], [0, 2, 2, 4]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose answer shows the ids that it was fed."""
    folder = tmp_path_factory.mktemp("rows") / "model"
    layers = fluid.layers
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        user, tags = layers.data("user", [1], dtype="int64"), layers.data("tags", [1], dtype="int64", lod_level=1)
        wide = layers.data("wide", [WIDE])
        last = layers.reshape(layers.sequence_pool(layers.cast(tags, "float64"), "sum"), [-1, 1])
        targets = [layers.scale(user, 1), layers.scale(last, 1.0), layers.reduce_sum(wide, dim=1, keep_dim=True)]
        slots = [fluid.Slot(user, hash=KEYS), fluid.Slot(tags, hash=1000), fluid.Slot(wide, missing=0.5)]
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        fluid.io.save_inference_model(str(folder), ["user", "tags", "wide"], targets, exe, slots=slots)
    return folder


@pytest.fixture(scope="module")
def want(model: Path) -> list[list[Any]]:
    with Predictor(model) as predictor:
        return [result.reshape(-1).tolist() for result in predictor.run_rows(ROWS)]


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with Served(model, "--grpc-port", 0, "--memory-mib", 200, "--request-mib", 4) as served:
        yield served


def data_of(answer: Any) -> list[list[Any]]:
    return [output["data"] for output in answer["outputs"]]


def rows(served: Served, body: Any) -> tuple[int, Any]:
    code, _, data = served.ask("POST", "/v2/models/model/rows", body)
    return code, json.loads(data)


def binary(texts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def inputs(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs of ROWS, some of them changed."""
    wide = np.full((3, WIDE), 0.5, "float32")
    wide[1] = 1
    found = {"user": {"datatype": "BYTES", "shape": [3, 1], "data": ["u7", "7", ""]},
             "tags": {"datatype": "BYTES", "shape": [4, 1], "data": TAGS},
             "tags.offsets": {"datatype": "INT64", "shape": [4], "data": OFFSETS},
             "wide": {"datatype": "FP32", "shape": [3, WIDE], "parameters": {"binary_data_size": wide.nbytes}}}
    return [{"name": name, **one, **changes.get(name, {})} for name, one in found.items()], wide.tobytes()    # type: ignore[return-value]


def infer(served: Served, more: bytes = b"", **changes: dict[str, Any]) -> tuple[int, Any]:
    found, wide = inputs(**changes)
    head = json.dumps({"inputs": found}).encode()
    return served.infer("model", head + more + wide, Inference_Header_Content_Length=str(len(head)))


def test_rows_of_json_and_texts_as_bytes_give_what_the_predictor_gives(served: Served, want: list[list[Any]]) -> None:
    assert rows(served, {"rows": ROWS, "id": "one"})[1]["id"] == "one"
    assert data_of(rows(served, {"rows": ROWS})[1]) == want
    name = rows(served, {"rows": ROWS})[1]["outputs"][1]["name"]
    assert data_of(rows(served, {"rows": ROWS, "outputs": [{"name": name}]})[1]) == want[1:2]
    assert data_of(infer(served)[1]) == want
    texts = {"user": binary([b"u7", b"7", b""]), "tags": binary([tag.encode() for tag in TAGS])}
    changes = {name: {"parameters": {"binary_data_size": len(data)}} for name, data in texts.items()}
    found, wide = inputs(**changes)
    for one in found:
        if one["name"] in texts:
            del one["data"]
    head = json.dumps({"inputs": found}).encode()
    code, answer = served.infer("model", head + texts["user"] + texts["tags"] + wide, Inference_Header_Content_Length=str(len(head)))
    assert code == 200 and data_of(answer) == want


def test_the_server_says_what_a_row_has(served: Served) -> None:
    code, about = served.get("/v2/models/model/rows")
    assert code == 200 and about["slots"] == [
        {"name": "user", "datatype": "BYTES", "shape": [1], "is_sequence": False, "missing": None},
        {"name": "tags", "datatype": "BYTES", "shape": [1], "is_sequence": True, "missing": None},
        {"name": "wide", "datatype": "FP32", "shape": [WIDE], "is_sequence": False, "missing": 0.5}]
    assert "raw_rows" in served.get("/v2")[1]["extensions"]
    assert [one["datatype"] for one in served.get("/v2/models/model")[1]["inputs"]] == ["INT64", "INT64", "INT64", "FP32"]


ROW = json.dumps({"user": "u", "tags": [], "wide": None})
WRONG: dict[str, tuple[bytes, int, str]] = {
    "no rows": (b"{}", 400, "'rows' is a list of objects, each with a value for each slot; got null"),
    "rows that are none": (b'{"rows": {}}', 400, "'rows' is a list"), "another key": (b'{"rows": [], "inputs": []}', 400, "got 'inputs'"),
    "a row that is none": (b'{"rows": [5]}', 400, "expected a dict, such as"),
    "an empty row": (f'{{"rows": [{ROW}, {{}}]}}'.encode(), 400, "row 1 (from 0), slot 'user': expected a value, got none"),
    "a name without end": (f'{{"rows": [{{"{"u" * 100_000}": 1}}]}}'.encode(), 400, "the model has no such slot; it has user, tags, wide"),
    "a name twice": (b'{"rows": [{"user": 1, "user": 2}]}', 400, "has the name 'user' twice"),
    "a wrong value": (f'{{"rows": [{ROW}]}}'.replace('"u"', "1.5").encode(), 400, "slot 'user': expected a text or an integer, got 1.5"),
    "half a character": (f'{{"rows": [{ROW}]}}'.replace('"u"', '"\\ud800"').encode(), 400, "a text or an integer in UTF-8"),
    "many digits": (f'{{"rows": [{ROW}]}}'.replace('"u"', "9" * 4000).encode(), 400, "got an integer of 13288 bits"),
    "deep lists": (f'{{"rows": [{ROW}]}}'.replace("[]", "[" * 900 + "]" * 900).encode(), 400, "slot 'tags': expected a list of values"),
    "nulls that stand for much": (f'{{"rows": [{", ".join([ROW] * 1000)}]}}'.encode(), 413, "the rows take 2560064000 bytes, more than"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_rows_are_explained_and_cost_nothing(what: str, served: Served) -> None:
    body, code, text = WRONG[what]
    got, answer = rows(served, body)
    assert got == code and text in answer["error"] and "your line" not in answer["error"]
    assert rows(served, {"rows": ROWS})[0] == 200
    until(lambda: served.number("trireme_serve_request_memory_bytes") == 0)
    assert "Traceback" not in served.text()


@pytest.mark.parametrize(("data", "text"), [
    (binary([b"u7", b"7"]), "takes 12 at least"), (binary([b"u7", b"7", b"1"])[:-1], "text 2 of 3 (from 0) says that it has 1"),
    (binary([b"u7", b"7", b"", b""]), "3 texts take 15 bytes, 19 came"), (b"\xff" * 40, "text 0 of 3 (from 0) says that it has 4294967295"),
    (binary([b"long" * 9]), "text 1 of 3 (from 0) has no size"), (binary([b"u7", b"a\xff", b""]), "expected UTF-8, and byte 1 is none")])
def test_damaged_texts_are_refused(data: bytes, text: str, served: Served) -> None:
    found, wide = inputs(user={"parameters": {"binary_data_size": len(data)}})
    del found[0]["data"]
    head = json.dumps({"inputs": found}).encode()
    code, answer = served.infer("model", head + data + wide, Inference_Header_Content_Length=str(len(head)))
    assert code == 400 and text in answer["error"]


def test_texts_are_for_slots_that_hash(served: Served) -> None:
    for change, text in (({"user": {"data": ["u7", 7, ""]}}, "whose values are texts, got 7"),
                         ({"user": {"data": ["u7"]}}, "has 1 values, the shape [3, 1] takes 3"),
                         ({"user": {"data": ["u7", "\ud800", ""]}}, "expected texts in UTF-8"),
                         ({"tags.offsets": {"datatype": "BYTES"}}, "is of the datatype 'BYTES', the model wants INT64")):
        code, answer = infer(served, **change)
        assert code == 400 and text in answer["error"]


def test_grpc_takes_texts(served: Served, want: list[list[Any]]) -> None:
    triton = pytest.importorskip("tritonclient.grpc")
    port = served.line("gRPC listens on port ([0-9]+)")[1]
    wide = np.full((3, WIDE), 0.5, "float32")
    wide[1] = 1
    arrays = {"user": (np.array([["u7"], ["7"], [""]], object), "BYTES"), "tags": (np.array(TAGS, object).reshape(4, 1), "BYTES"),
              "tags.offsets": (np.array(OFFSETS), "INT64"), "wide": (wide, "FP32")}
    asked = []
    for name, (array, datatype) in arrays.items():
        asked.append(triton.InferInput(name, list(array.shape), datatype))
        asked[-1].set_data_from_numpy(array)
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        got = client.infer("model", asked)
        assert [got.as_numpy(output.name).reshape(-1).tolist() for output in got.get_response().outputs] == want


def test_a_model_without_slots_takes_no_rows(tmp_path: Path) -> None:
    with Served(save_dense(tmp_path / "model")) as served:
        code, answer = rows(served, {"rows": [{"x": [1, 2, 3, 4]}]})
        assert code == 400 and "was saved without slots" in answer["error"] and "slots=" in answer["error"]
        assert served.get("/v2/models/model/rows") == (200, {"slots": []})
        assert served.ask("PUT", "/v2/models/model/rows")[0] == 405
