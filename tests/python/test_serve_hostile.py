"""What clients do wrong gets an HTTP error with a text, takes bounded memory, and no other client's place."""

from __future__ import annotations

import json
import random
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serve_support import Served, answer_of, exchange, save_model, tensor, until

pytest.importorskip("tornado")

CONNECTIONS = 8
X, WORDS, OFFSETS = np.ones((2, 4)), np.array([[1], [2], [3]]), np.array([0, 1, 3])


def request(**changes: Any) -> dict[str, Any]:
    """Return a good request, with some of its inputs changed."""
    inputs = {"x": tensor("x", "FP32", X), "words": tensor("words", "INT64", WORDS), "offsets": tensor("words.offsets", "INT64", OFFSETS)}
    for name, change in changes.items():
        inputs[name] = {**inputs[name], **change}
    return {"inputs": list(inputs.values())}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    model = save_model(tmp_path_factory.mktemp("hostile") / "model")
    with Served(model, "--request-mib", 1, "--memory-mib", 32, "--connections", CONNECTIONS) as served:
        yield served


@pytest.fixture(autouse=True)
def serves_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test the server answers as before, and holds nothing."""
    served = request.getfixturevalue("served") if "served" in request.fixturenames else None
    yield
    if served is not None:
        assert served.infer("model", good())[0] == 200
        until(lambda: served.number("trireme_serve_requests_in_flight") == 1)
        until(lambda: served.number("trireme_serve_connections") <= 2)
        assert served.number("trireme_serve_request_memory_bytes") == 0 and served.process.poll() is None
        assert "Traceback" not in served.text()


def good() -> dict[str, Any]:
    return request()


def memory(served: Served) -> int:
    """The most bytes that the process has had."""
    text = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) * 1024


WRONG = {
    "no JSON": (b"{", "is no JSON: Expecting"), "nothing": (b"", "is no JSON: Expecting"),
    "a list": (b"[]", "is no JSON object: a list of 0"),
    "null": (b"null", "is no JSON object: null"), "not UTF-8": (b'{"id": "\xff"}', "is no JSON: invalid start byte at byte 8"),
    "deep nesting": (b"[" * 500_000, "is nested too deeply"),
    "deep objects": (b'{"a":' * 100_000, "is nested too deeply"),
    "deep data": (request(x={"data": json.loads("[" * 500 + "]" * 500)}), "the lists of 'data' do not have the shape"),
    "NaN": (b'{"inputs": [NaN]}', "NaN is no number; send such values as binary data"),
    "infinity": (b'{"inputs": [-Infinity]}', "-Infinity is no number"),
    "many digits": (b'{"inputs": [' + b"9" * 5000 + b"]}", "is no JSON: Exceeds the limit"),
    "a name twice": (b'{"inputs": [], "inputs": []}', "has the name 'inputs' twice"),
    "no inputs": ({}, "'inputs' is a list of objects, got null"),
    "inputs that are none": ({"inputs": 5}, "'inputs' is a list of objects, got 5"),
    "an input that is none": ({"inputs": [5]}, "'inputs' is a list of objects"),
    "an empty input": ({"inputs": [{}]}, "an input has a text 'name', a text 'datatype' and a list 'shape'"),
    "a missing input": ({"inputs": good()["inputs"][1:]}, "input 'x' is missing; the model has x, words, words.offsets"),
    "an unknown input": (request(x={"name": "y"}), "'y' is no input of the model, which has x, words, words.offsets"),
    "a name without end": (request(x={"name": "y" * 100_000}), "is no input of the model"),
    "an input twice": ({"inputs": good()["inputs"] * 2}, "input 'x' is there twice"),
    "another type": (request(x={"datatype": "FP64"}), "input 'x' is of the datatype 'FP64', the model wants FP32"),
    "no type": (request(x={"datatype": 7}), "a text 'datatype'"),
    "a negative shape": (request(x={"shape": [-2, -4]}), "its shape is a list of at most 8 sizes from 0 on, got [-2, -4]"),
    "a huge shape": (request(x={"shape": [1 << 62, 4]}), "its shape is a list of at most 8 sizes from 0 on"),
    "a larger shape": (request(x={"shape": [1 << 39, 4]}), "is larger than what this server takes"),
    "a shape beyond all": (request(x={"shape": [10**100, 4]}), "its shape is a list of at most 8 sizes from 0 on"),
    "a shape of truths": (request(x={"shape": [True, 4]}), "its shape is a list of at most 8 sizes"),
    "many dimensions": (request(x={"shape": [1] * 100_000}), "its shape is a list of at most 8 sizes"),
    "nothing of a huge size": (request(words={"shape": [0, 1 << 38], "data": []}),
                               "input 'words' has the shape [0, 274877906944], the model wants"),
    "another shape": (request(x={"shape": [4, 2]}), "input 'x' has the shape [4, 2], the model wants [?, 4]"),
    "too few values": (request(x={"data": [1.0] * 7}), "input 'x' has 7 values, the shape [2, 4] takes 8"),
    "no data": ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4]}]}, "input 'x' has neither 'data' nor the parameter"),
    "data that are no list": (request(x={"data": 5}), "input 'x': 'data' is a list, got 5"),
    "ragged lists": (request(x={"data": [[1, 2, 3, 4], [1, 2, 3]]}), "the lists of 'data' do not have the shape [2, 4]"),
    "lists among numbers": (request(x={"data": [[1, 2, 3, 4], 5]}), "the lists of 'data' do not have the shape [2, 4]"),
    "texts": (request(x={"data": ["a"] * 8}), "input 'x' is of the datatype FP32, got 'a'"),
    "objects": (request(x={"data": [{}] * 8}), "input 'x' is of the datatype FP32, got an object of 0"),
    "truths": (request(x={"data": [True] * 8}), "input 'x' is of the datatype FP32, got True"),
    "nulls": (request(x={"data": [None] * 8}), "input 'x' is of the datatype FP32, got null"),
    "a number beyond the type": (request(x={"data": [1e300] * 8}), "a number is too large for FP32"),
    "an integer beyond all floats": (request(x={"data": [10**1000] * 8}), "a number is too large for FP32"),
    "a fraction of a word": (request(words={"data": [1, 2, 2.5]}), "input 'words' is of the datatype INT64, got 2.5"),
    "a word beyond the type": (request(words={"data": [1, 2, 1 << 63]}), "which does not hold 9223372036854775808"),
    "a word that the table does not have": (request(words={"data": [1, 2, 5000]}), "5000"),
    "offsets that fall": (request(offsets={"data": [0, 4, 3]}), "input 'words.offsets': offsets begin with 0, do not fall, and end with 3"),
    "offsets from 1 on": (request(offsets={"data": [1, 1, 3]}), "offsets begin with 0"),
    "offsets beyond the words": (request(offsets={"data": [0, 1, 1 << 60]}), "and end with 3"),
    "no offsets": (request(offsets={"data": [], "shape": [0]}), "offsets begin with 0"),
    "sequences and rows of another number": (request(offsets={"data": [0, 1, 2, 3], "shape": [4]}), ""),
    "no parameters": ({**good(), "parameters": []}, "'parameters' is an object, got a list of 0"),
    "no flag": ({**good(), "parameters": {"binary_data_output": 1}}, "the parameter 'binary_data_output' is true or false, got 1"),
    "an id that is none": ({**good(), "id": 5}, "'id' is a text, got 5"),
    "an unknown output": ({**good(), "outputs": [{"name": "guess"}]}, "'guess' is no output of the model, which has"),
    "outputs that are none": ({**good(), "outputs": "all"}, "'outputs' is a list of objects, got 'all'"),
    "an output without a name": ({**good(), "outputs": [{}]}, "an output has a text 'name'"),
    "shared memory": (request(x={"parameters": {"shared_memory_region": "a"}}), "this server has no shared memory"),
    "binary data that are not there": (request(x={"parameters": {"binary_data_size": 32}}),
                                        "binary_data_size is 32, and 0 bytes of binary data"),
    "less than no binary data": (request(x={"parameters": {"binary_data_size": -1}}), "its binary_data_size is -1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_explained(name: str, served: Served) -> None:
    body, text = WRONG[name]
    code, answer = served.infer("model", body)
    assert code == 400 and list(answer) == ["error"] and text in answer["error"] and len(answer["error"]) <= 1000, (code, answer)


def test_binary_data_are_what_the_shape_says(served: Served) -> None:
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "parameters": {"binary_data_size": 32}}]}).encode()

    def ask(data: bytes, size: object = len(head)) -> str:
        code, answer = served.infer("model", head + data, Inference_Header_Content_Length=str(size))
        assert code == 400
        return answer["error"]

    assert "input 'words' is missing" in ask(bytes(32))
    assert "the inputs take 32 bytes of binary data, 33 came" in ask(bytes(33))
    assert "its binary_data_size is 32, and 31 bytes of binary data are left" in ask(bytes(31))
    assert "Inference-Header-Content-Length is 100000, the request has" in ask(bytes(32), 100_000)
    for size in (-1, "many", "1e3", 10**30):
        assert "Inference-Header-Content-Length is a whole number from 0 on" in ask(bytes(32), size)
    assert "is no JSON" in ask(bytes(32), len(head) - 1)
    head = head.replace(b"[2, 4]", b"[3, 4]")
    assert "input 'x' has 32 bytes, the shape [3, 4] of FP32 takes 48" in ask(bytes(32))


def start_of(path: str = "/v2/models/model/infer", method: str = "POST", **headers: object) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: a", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("data, code, text", [
    (start_of(Content_Length=1 << 40), 413, "the request has 1099511627776 bytes or more; 1048576 are possible (--request-mib)"),
    (start_of(Content_Length=1 << 20), 413, "send the tensors as binary data"),
    (start_of(Content_Length=-1), 400, "Content-Length is a whole number from 0 on, got '-1'"),
    (start_of(Content_Length="many"), 400, "Content-Length is a whole number from 0 on, got 'many'"),
    (start_of(Content_Length=10**20), 400, "Content-Length is a whole number from 0 on"),
    (start_of(Content_Length=5, Content_Encoding="gzip"), 415, "leave out Content-Encoding"),
    (start_of("/v2/models/other/infer", Content_Length=0), 404, "there is no model 'other' here; this server has 'model'"),
    (start_of("/v3"), 404, "there is nothing at '/v3'"), (start_of("/v2/models/model/infer", "GET"), 405, "GET is not possible here"),
    (start_of("/v2", "DELETE"), 405, "DELETE is not possible here"),
    (start_of("/v2", "POST", Content_Length=0), 405, "POST is not possible"),
    (start_of("/v2", "GET", Content_Length=5), 400, "no body is expected here"),
    (start_of("/v2", "GET", Transfer_Encoding="chunked") + b"5\r\nabcde\r\n", 400, "no body is expected here"),
    (start_of(Transfer_Encoding="chunked") + (b"10000\r\n" + bytes(1 << 16) + b"\r\n") * 40, 413, "send the tensors as binary data"),
], ids=range(14))
def test_what_is_no_request_gets_an_error_before_its_body(data: bytes, code: int, text: str, served: Served) -> None:
    with served.connect() as connection:
        found, body = exchange(connection, data)
        assert found == code and text in json.loads(body)["error"]


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET\r\n\r\n", b"GET /v2 HTTP/9\r\n\r\n",
                                  bytes(100_000),
                                  b"POST / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000, start_of(Transfer_Encoding="chunked") + b"xyz\r\n"])
def test_what_is_no_http_ends_its_connection(data: bytes, served: Served) -> None:
    with served.connect() as connection:
        try:
            connection.sendall(data)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except ConnectionError:
            answer = b""
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


def test_half_a_request_leaves_nothing(served: Served) -> None:
    for data in (b"POST /v2", start_of(Content_Length=1000), start_of(Content_Length=1000) + b"{", start_of(Transfer_Encoding="chunked")):
        with served.connect() as connection:
            connection.sendall(data)
    with served.connect() as connection:               # the client goes while its answer is made
        body = json.dumps(good()).encode()
        connection.sendall(start_of(Content_Length=len(body)) + body)


def hold_all(served: Served) -> list[socket.socket]:
    """Hold all connections that the server allows; none, if it has not seen the ends of those before."""
    held = [served.connect() for _ in range(CONNECTIONS)]
    if all(exchange(connection, start_of("/v2/health/live", "GET"))[0] == 200 for connection in held):
        return held
    for connection in held:
        connection.close()
    return []


def test_too_many_connections_are_told_so(served: Served) -> None:
    held = until(lambda: hold_all(served))
    try:
        with served.connect() as connection:
            code, body = exchange(connection, start_of("/v2", "GET"))
            assert code == 503 and "has 8 connections already (--connections)" in json.loads(body)["error"]
        held += [served.connect() for _ in range(CONNECTIONS)]
        with served.connect() as connection:
            try:
                assert connection.recv(1) == b""
            except ConnectionError:
                pass
    finally:
        for connection in held:
            connection.close()
    until(lambda: answers(served))


def answers(served: Served) -> bool:
    """Whether the server has seen that the other connections are closed."""
    try:
        return served.get("/v2/health/live")[0] == 200
    except ConnectionError:
        return False


def test_requests_share_one_bound_on_memory(served: Served) -> None:
    held = [served.connect() for _ in range(4)]
    try:
        for connection in held[:3]:                    # 10 of 32 MiB each
            connection.sendall(start_of(Content_Length=200_000))
        until(lambda: served.number("trireme_serve_request_memory_bytes") > 28e6)
        code, body = exchange(held[3], start_of(Content_Length=200_000))
        assert code == 503 and "try again later" in json.loads(body)["error"]
    finally:
        for connection in held:
            connection.close()


def test_large_requests_take_bounded_memory(served: Served) -> None:
    before = memory(served)
    lists = b'{"inputs":[' + b"[]," * 200_000 + b"0]}"
    for body in (lists,
                 b'{"inputs":' + b'{"a":1},' * 80_000, b'{"inputs":["' + b"\\u0041" * 100_000 + b'"]}', b"[" * 600_000, bytes(1 << 20)):
        for _ in range(5):
            assert served.infer("model", body)[0] in (400, 413)
    assert memory(served) - before < 64 << 20


def test_changed_requests_never_end_the_server(served: Served) -> None:
    source, body = random.Random(1), json.dumps(good()).encode()
    parts = [b"-", b"1e999", b"[", b"]", b"{}", b"null", b'"', b"9" * 30, b"\x00", b"true", b"0.5", b",", b"\xf0\x9f\x98\x80"]
    for _ in range(300):
        changed = bytearray(body)
        for _ in range(source.randint(1, 4)):
            at = source.randrange(len(changed))
            changed[at:at + source.randint(0, 3)] = source.choice(parts)
        code, answer = served.infer("model", bytes(changed))
        assert code == 200 and "outputs" in answer or code == 400 and list(answer) == ["error"], (code, answer, changed)


def test_slow_clients_are_left(tmp_path: Path) -> None:
    """A body that does not come, a head that does not come, answers that nobody reads."""
    model = save_model(tmp_path / "model")
    with Served(model, "--timeout", 0.5) as served, served.connect() as body, served.connect() as head, served.connect() as deaf:
        body.sendall(start_of(Content_Length=1000) + b"{")
        head.sendall(b"POST /v2")
        code, answer = answer_of(body)
        assert code == 408 and "did not arrive in time" in json.loads(answer)["error"]
        assert body.recv(1) == b"" and head.recv(1) == b""
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        asked = start_of("/metrics", "GET")
        ended = []

        def is_left() -> bool:
            try:
                deaf.send(asked * 100)
            except BlockingIOError:
                pass
            except ConnectionError:
                ended.append(True)
            return bool(ended)

        until(is_left)
        until(lambda: served.number("trireme_serve_connections") == 1)
