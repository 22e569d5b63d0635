"""``trireme serve --grpc-port``: the same answers over gRPC."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
from trireme.model_server.grpc_messages import CALLS, MESSAGES, SERVICE, classes
from trireme.serving import Predictor

from serve_support import Served, save_model, until

grpc = pytest.importorskip("grpc")
tritonclient = pytest.importorskip("tritonclient.grpc")
service_pb2 = pytest.importorskip("tritonclient.grpc.service_pb2")

X, WORDS, OFFSETS = np.ones((2, 4), "float32"), np.array([[1], [2], [3]]), np.array([0, 1, 3])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("grpc") / "model")


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with Served(model, "--grpc-port", 0, "--memory-mib", 64, "--connections", 32) as served:
        yield served


def place(served: Served) -> str:
    return f"127.0.0.1:{served.line('gRPC listens on port ([0-9]+)')[1]}"


def call(served: Served, name: str, request: Any) -> Any:
    with grpc.insecure_channel(place(served), [("grpc.max_send_message_length", -1)]) as channel:
        ask = channel.unary_unary(f"/{SERVICE}/{name}", type(request).SerializeToString, classes()[f"{name}Response"].FromString)
        return ask(request, timeout=120)


def message(name: str, **fields: Any) -> Any:
    return classes()[name](**fields)


def request(x: dict[str, Any] | None = None, **others: Any) -> Any:
    """Return a good request with values in the message's fields, some of them changed."""
    inputs = [{"name": "x", "datatype": "FP32", "shape": X.shape, "contents": {"fp32_contents": X.reshape(-1)}, **(x or {})},
              {"name": "words", "datatype": "INT64", "shape": WORDS.shape, "contents": {"int64_contents": WORDS.reshape(-1)}},
              {"name": "words.offsets", "datatype": "INT64", "shape": OFFSETS.shape, "contents": {"int64_contents": OFFSETS}}]
    return message("ModelInferRequest", **{"model_name": "model", "inputs": inputs, **others})


def test_the_messages_are_the_protocols() -> None:
    theirs = {**service_pb2.DESCRIPTOR.message_types_by_name}
    for outer in ("ModelInferRequest", "ModelInferResponse", "ModelMetadataResponse"):
        theirs.update(service_pb2.DESCRIPTOR.message_types_by_name[outer].nested_types_by_name)
    theirs["InferTensor"] = theirs["InferInputTensor"]
    for name in MESSAGES:
        for ours in classes()[name].DESCRIPTOR.fields:
            other = theirs[name].fields_by_name[ours.name]
            assert (ours.number, ours.type, ours.is_repeated) == (other.number, other.type, other.is_repeated), (name, ours.name)
    methods = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    assert service_pb2.DESCRIPTOR.package == "inference" and set(CALLS) <= set(methods)


def test_answers_are_the_predictors_bit_for_bit(model: Path, served: Served) -> None:
    random, predictor = np.random.RandomState(0), Predictor(model)
    with tritonclient.InferenceServerClient(place(served)) as client:
        for lengths in ([1], [3, 0, 2], [5] * 20):
            offsets = np.cumsum([0, *lengths])
            x, words = random.randn(len(lengths), 4).astype("float32"), random.randint(0, 100, (offsets[-1], 1))
            want = predictor.run({"x": x, "words": fluid.create_lod_tensor(words, [lengths])}, return_numpy=False)
            inputs = []
            for name, kind, array in (("x", "FP32", x), ("words", "INT64", words), ("words.offsets", "INT64", offsets)):
                inputs.append(tritonclient.InferInput(name, list(array.shape), kind))
                inputs[-1].set_data_from_numpy(array)
            got = client.infer("model", inputs, request_id="one")
            assert got.get_response().id == "one" and got.get_response().model_version == "0"
            for name, tensor in zip(predictor.fetches, want):
                assert got.as_numpy(name).tobytes() == np.asarray(tensor).tobytes()
            assert got.as_numpy(f"{predictor.fetches[1]}.offsets").tolist() == offsets.tolist()


def test_values_may_stand_in_the_fields_of_a_message(model: Path, served: Served) -> None:
    got = call(served, "ModelInfer", request())
    want = Predictor(model).run({"x": X, "words": fluid.create_lod_tensor(WORDS, [[1, 2]])}, return_numpy=False)
    names = Predictor(model).fetches
    assert [one.name for one in got.outputs] == [*names, f"{names[1]}.offsets"]
    assert list(got.raw_output_contents) == [*(np.asarray(one).tobytes() for one in want), OFFSETS.tobytes()]
    got = call(served, "ModelInfer", request(outputs=[{"name": names[1]}]))
    assert [one.name for one in got.outputs] == [names[1]]


def test_the_server_says_what_it_is(served: Served) -> None:
    with tritonclient.InferenceServerClient(place(served)) as client:
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("model")
        assert client.get_server_metadata().name == "trireme"
        about = client.get_model_metadata("model")
        assert [(one.name, one.datatype, list(one.shape)) for one in about.inputs] == [
            ("x", "FP32", [-1, 4]), ("words", "INT64", [-1, 1]), ("words.offsets", "INT64", [-1])]
    assert call(served, "ServerReady", message("ServerReadyRequest")).ready


BAD = grpc.StatusCode.INVALID_ARGUMENT
WRONG = {
    "another model": (lambda: request(model_name="other"), grpc.StatusCode.NOT_FOUND, "there is no model 'other' here"),
    "another version": (lambda: request(model_version="7"), grpc.StatusCode.NOT_FOUND, "served in the version 0, not '7'"),
    "nothing": (lambda: request(inputs=[]), BAD, "input 'x' is missing"),
    "many inputs": (lambda: request(inputs=[{}] * 100_000), BAD, "the request has 100000 inputs, the model 3"),
    "an empty input": (lambda: request(inputs=[{}]), BAD, "send '' as raw_input_contents"),
    "an unknown input": (lambda: request({"name": "y"}), BAD, "'y' is no input of the model"),
    "a negative shape": (lambda: request({"shape": [-2, -4]}), BAD, "sizes from 0 on, got [-2, -4]"),
    "a huge shape": (lambda: request({"shape": [1 << 62, 4]}), BAD, "sizes from 0 on"),
    "another shape": (lambda: request({"shape": [4, 2]}), BAD, "the model wants [?, 4]"),
    "too few values": (lambda: request({"contents": {"fp32_contents": [1.0]}}), BAD,
                       "input 'x' has 4 bytes, the shape [2, 4] of FP32 takes 32"),
    "values of another type": (lambda: request({"contents": {"int64_contents": [1]}}), BAD,
                               "whose values are fp32_contents, got int64_contents"),
    "another type": (lambda: request({"datatype": "INT8", "contents": {"int_contents": [1] * 8}}), BAD, "'INT8', the model wants FP32"),
    "a type without a field": (lambda: request({"datatype": "FP16"}), BAD, "send 'FP16' as raw_input_contents"),
    "raw data for one of three": (lambda: request(raw_input_contents=[b""]), BAD,
                                  "3 inputs and 1 raw_input_contents: of each one, or none"),
    "both": (lambda: request(raw_input_contents=[b""] * 3), BAD, "has fp32_contents, and raw_input_contents, too"),
    "an unknown output": (lambda: request(outputs=[{"name": "y"}]), BAD, "'y' is no output of the model"),
    "a long message": (lambda: request(raw_input_contents=[bytes(3 << 20)]), grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_explained(name: str, served: Served) -> None:
    make, code, text = WRONG[name]
    with pytest.raises(grpc.RpcError) as caught:
        call(served, "ModelInfer", make())
    assert caught.value.code() == code and text in caught.value.details(), caught.value
    assert call(served, "ModelInfer", request()).model_name == "model"
    until(lambda: served.number("trireme_serve_requests_in_flight") == 1)
    assert served.number("trireme_serve_request_memory_bytes") == 0 and "Traceback" not in served.text()


def test_bytes_that_are_no_message_end_nothing(served: Served) -> None:
    with grpc.insecure_channel(place(served)) as channel:
        for data in (b"\xff" * 100, b"\x2a\xff\xff\xff\xff\x0f", bytes(1000)):
            with pytest.raises(grpc.RpcError):
                channel.unary_unary(f"/{SERVICE}/ModelInfer")(data, timeout=120)
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{SERVICE}/ModelStreamInfer")(b"", timeout=120)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert call(served, "ServerLive", message("ServerLiveRequest")).live and "Traceback" not in served.text(), served.text()


def test_connections_are_limited_and_end(model: Path) -> None:
    """Those beyond the limit are closed at once, and those without a call after some time."""
    with Served(model, "--grpc-port", 0, "--connections", 4, "--timeout", 0.5) as served:
        host, port = place(served).split(":")
        held = [socket.create_connection((host, int(port)), 120) for _ in range(12)]
        for connection in held:
            connection.settimeout(120)
            try:
                while connection.recv(1 << 16):        # the server's settings, and that it leaves
                    pass
            except ConnectionError:
                pass
            connection.close()
        until(lambda: is_live(served))


def is_live(served: Served) -> bool:
    try:
        return bool(call(served, "ServerLive", message("ServerLiveRequest")).live)
    except grpc.RpcError:
        return False


def test_it_ends_with_code_0_while_clients_are_connected(model: Path) -> None:
    with Served(model, "--grpc-port", 0) as served, tritonclient.InferenceServerClient(place(served)) as client:
        assert client.is_server_live()
        assert served.end() == 0 and "Traceback" not in served.text()
