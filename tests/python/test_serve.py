"""``trireme serve``: its answers are the predictor's, whatever comes and goes beside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import trireme as fluid
from trireme.serving import Exporter, Predictor

from serve_support import Served, answer_of, save_dense, save_model, tensor, until
from test_serving import Model

tritonclient = pytest.importorskip("tritonclient.http")


def triton_input(name, datatype, array, is_binary):
    one = tritonclient.InferInput(name, list(array.shape), datatype)
    one.set_data_from_numpy(array, binary_data=is_binary)
    return one


def test_answers_are_the_predictors_bit_for_bit(tmp_path: Path) -> None:
    model, random = save_model(tmp_path / "model"), np.random.RandomState(0)
    predictor = Predictor(model)
    names = [*predictor.fetches, f"{predictor.fetches[1]}.offsets"]
    with Served(model) as served, tritonclient.InferenceServerClient(f"127.0.0.1:{served.port}") as client:
        for lengths in ([1], [3, 0, 2], [0, 0], [5] * 20):
            offsets = np.cumsum([0, *lengths])
            x, words = random.randn(len(lengths), 4).astype("float32"), random.randint(0, 100, (offsets[-1], 1))
            feed = fluid.create_lod_tensor(words, [lengths])
            want = predictor.run({"x": x, "words": feed}, return_numpy=False)
            for is_binary in (True, False):
                inputs = [triton_input("x", "FP32", x, is_binary), triton_input("words", "INT64", words, is_binary),
                          triton_input("words.offsets", "INT64", offsets, is_binary)]
                outputs = [tritonclient.InferRequestedOutput(name, binary_data=is_binary) for name in names]
                got = client.infer("model", inputs, outputs=outputs, request_id="one")
                assert got.get_response()["id"] == "one" and got.get_response()["model_version"] == "0"
                for name, tensor_ in zip(predictor.fetches, want):
                    assert got.as_numpy(name).tobytes() == np.asarray(tensor_).tobytes()
                assert got.as_numpy(names[2]).tolist() == offsets.tolist()


def test_numbers_that_json_does_not_have_come_as_binary_data(tmp_path: Path) -> None:
    model = save_dense(tmp_path / "model")
    x = np.array([[np.nan, np.inf, -np.inf, 1e-45]], "float32")
    want, = Predictor(model).run({"x": x})
    with Served(model) as served, tritonclient.InferenceServerClient(f"127.0.0.1:{served.port}") as client:
        got = client.infer("model", [triton_input("x", "FP32", x, True)])
        name = got.get_response()["outputs"][0]["name"]
        assert got.as_numpy(name).tobytes() == want.tobytes() and np.isnan(want).all()
        got = client.infer("model", [triton_input("x", "FP32", x, True)],
                           outputs=[tritonclient.InferRequestedOutput(name, binary_data=False)])
        assert got.get_response()["outputs"][0]["data"] == [None] * 3


def test_the_server_says_what_it_is_and_what_its_model_takes(tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    with Served(model, "--name", "guess") as served, tritonclient.InferenceServerClient(f"127.0.0.1:{served.port}") as client:
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("guess")
        assert not client.is_model_ready("model")
        assert client.get_server_metadata() == {"name": "trireme", "version": fluid.__version__,
                                                "extensions": ["binary_tensor_data", "raw_rows"]}
        about = client.get_model_metadata("guess")
        assert about["versions"] == ["0"] and about["inputs"] == [
            {"name": "x", "datatype": "FP32", "shape": [-1, 4]}, {"name": "words", "datatype": "INT64", "shape": [-1, 1]},
            {"name": "words.offsets", "datatype": "INT64", "shape": [-1]}]
        assert [one["shape"] for one in about["outputs"]] == [[-1, 3], [-1, 1], [-1]]
        assert served.get("/v2/models/guess/versions/0")[0] == 200
        assert served.get("/v2/models/guess/versions/1") == (404, {"error": "the model 'guess' is served in the version 0, not '1'"})
        assert served.number("trireme_serve_model_version") == 0 and served.number("trireme_serve_requests_in_flight") == 1


def test_requests_are_put_together_and_answered_apart(tmp_path: Path) -> None:
    model = save_dense(tmp_path / "model")
    x = np.random.RandomState(0).randn(8, 4).astype("float32")
    predictor = Predictor(model)
    got = [None] * 8
    with Served(model, "--batch-size", 8, "--batch-wait", 60_000) as served:

        def ask(i: int) -> None:
            got[i] = served.infer("model", {"inputs": [tensor("x", "FP32", x[i:i + 1])]})

        threads = [threading.Thread(target=ask, args=[i]) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert served.number("trireme_serve_runs_total") == 1
        assert served.number('trireme_serve_requests_total{code="200",protocol="http"}') == 8
    want, = predictor.run({"x": x})
    for i, (code, answer) in enumerate(got):
        assert code == 200 and answer["outputs"][0]["shape"] == [1, 3]
        np.testing.assert_allclose(answer["outputs"][0]["data"], want[i], rtol=1e-6)


def test_a_model_of_sequences_is_not_batched(tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    done = subprocess.run([sys.executable, "-m", "trireme", "serve", str(model), "--port", "0", "--batch-size", "4"], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 2 and "trireme serve: 'words' has sequences, which are not put together" in done.stderr


def test_a_newer_export_comes_without_a_failed_request(tmp_path: Path) -> None:
    model = Model()
    exporter = Exporter(tmp_path / "exports", ["ids"], [model.click], model.exe, full_every=3)
    ids = np.arange(-30, 60).reshape(30, 3, 1)
    body = {"inputs": [tensor("ids", "INT64", ids)]}
    want: dict[str, list[float]] = {}

    def export() -> None:
        model.step()
        want[str(exporter.export().version)] = model.predict(ids).reshape(-1).tolist()

    export()
    seen: list[list[str]] = [[], [], []]
    errors: list[object] = []
    is_over = threading.Event()
    with Served(tmp_path / "exports", "--follow", 0.01, "--threads", 2) as served:

        def ask(versions: list[str]) -> None:
            while not is_over.is_set():
                code, answer = served.infer("exports", body)
                version = answer.get("model_version")
                until(lambda: version in want or code != 200)          # it may be served before this process knows its answers
                if code != 200 or answer["outputs"][0]["data"] != want[version]:
                    errors.append((code, answer))
                versions.append(version)

        threads = [threading.Thread(target=ask, args=[versions]) for versions in seen]
        for thread in threads:
            thread.start()
        for number in range(2, 9):
            export()
            until(lambda: all(versions[-1:] == [str(number)] for versions in seen) or errors)
        is_over.set()
        for thread in threads:
            thread.join()
        assert not errors and all([*map(int, versions)] == sorted(map(int, versions)) for versions in seen)
        assert served.number("trireme_serve_model_version") == 8


def test_a_damaged_export_leaves_the_served_one(tmp_path: Path) -> None:
    model = Model()
    exporter = Exporter(tmp_path / "exports", ["ids"], [model.click], model.exe)
    model.step()
    exporter.export()
    ids = np.arange(30).reshape(10, 3, 1)
    body = {"inputs": [tensor("ids", "INT64", ids)]}
    with Served(tmp_path / "exports", "--follow", 0.01) as served:
        want = served.infer("exports", body)
        current = (tmp_path / "exports" / "current").read_text()
        (tmp_path / "exports" / "current").write_text(current.replace("1", "2", 1))
        served.line("the newest export cannot be served")
        assert served.infer("exports", body) == want and served.get("/v2/health/ready")[0] == 200
        (tmp_path / "exports" / "current").write_text(current)
        model.step()
        exporter.export()
        until(lambda: served.number("trireme_serve_model_version") == 2)
        code, answer = served.infer("exports", body)
        assert code == 200 and answer["outputs"][0]["data"] == model.predict(ids).reshape(-1).tolist()


def test_a_server_waits_for_the_first_export(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    with Served(folder, "--wait", 600, is_ready=False) as served:
        assert served.get("/v2/health/live") == (200, {"live": True}) and served.get("/v2/health/ready") == (503, {"ready": False})
        assert served.get("/v2/models/later/ready") == (503, {"error": "the model 'later' is not loaded yet"})
        save_dense(tmp_path / "model")
        os.rename(tmp_path / "model", folder)
        served.line("answers")
        assert served.get("/v2/health/ready")[0] == 200
        assert served.infer("later", {"inputs": [tensor("x", "FP32", np.ones((1, 4)))]})[0] == 200
    with Served(tmp_path / "never", "--wait", 600, is_ready=False) as served:
        assert served.end() == 0


def test_without_a_model_it_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "trireme", "serve", str(tmp_path / "none"), "--port", "0"], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 2 and "there is no folder" in done.stderr and "wait for that" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = subprocess.run([sys.executable, "-m", "trireme", "serve", str(tmp_path), "--port", str(port)], capture_output=True,
                              text=True, timeout=120, check=False)
    assert done.returncode == 2 and f"cannot listen on 127.0.0.1, port {port}: " in done.stderr and "Traceback" not in done.stderr


def test_it_listens_on_this_host_alone_unless_it_is_told(tmp_path: Path) -> None:
    model = save_dense(tmp_path / "model")
    with Served(model) as served, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.port), 10)
    with Served(model, "--host", "0.0.0.0") as served:
        socket.create_connection(("127.0.0.2", served.port), 10).close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_ends_answers_the_requests_that_are_here(how: signal.Signals, tmp_path: Path) -> None:
    model = save_dense(tmp_path / "model")
    body = json.dumps({"inputs": [tensor("x", "FP32", np.ones((2, 4)))]}).encode()
    with Served(model) as served, served.connect() as connection, served.connect() as idle:
        connection.sendall(b"POST /v2/models/model/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:10])
        until(lambda: served.number("trireme_serve_request_memory_bytes") > 0)
        served.process.send_signal(how)

        def is_closed() -> bool:
            try:
                served.connect().close()
            except ConnectionRefusedError:
                return True
            return False

        until(is_closed)
        connection.sendall(body[10:])
        code, answer = answer_of(connection)
        assert code == 200 and json.loads(answer)["outputs"][0]["shape"] == [2, 3]
        assert served.process.wait(60) == 0, served.text()
        assert idle.recv(1) == b""
        assert "Traceback" not in served.text()


def test_a_server_that_ends_lets_no_request_wait_for_others(tmp_path: Path) -> None:
    model = save_dense(tmp_path / "model")
    body = json.dumps({"inputs": [tensor("x", "FP32", np.ones((2, 4)))]}).encode()
    with Served(model, "--batch-size", 8, "--batch-wait", 600_000, "--drain", 600) as served, served.connect() as connection:
        connection.sendall(b"POST /v2/models/model/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: served.number("trireme_serve_request_memory_bytes") > 0)
        served.process.send_signal(signal.SIGTERM)
        assert answer_of(connection)[0] == 200 and served.process.wait(60) == 0


def test_a_server_does_not_wait_for_ever_for_the_last_request(tmp_path: Path) -> None:
    model = save_dense(tmp_path / "model")
    with Served(model, "--drain", 0.2) as served, served.connect() as connection:
        connection.sendall(b"POST /v2/models/model/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        until(lambda: served.number("trireme_serve_request_memory_bytes") > 0)
        assert served.end() == 1 and "1 requests were not answered in 0.2 s" in served.text()
