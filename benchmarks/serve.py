"""Requests to `trireme serve`: how many a second, and how long they take, beside ONNX Runtime behind the same server.

    python benchmarks/serve.py [--rounds 5] [--seconds 2]

Both sides serve one dense model (784 -> 512 -> 512 -> 10) on one thread, with binary tensors, and their answers are compared first. Each
side is a process; clients are threads of this one, with a connection each. The sides take turns. A line has medians over the rounds, the
least CPU time of the server for a request, and the ratio of requests a second to ONNX Runtime's with its least and most. Without ONNX
Runtime its side is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import machine

FEATURES = 784
CASES = ((1, 1, ()), (1, 8, ()), (1, 8, ("--batch-size", "32")), (32, 1, ()), (32, 8, ()))        # rows, clients, options of the server


def save_models(folder: Path) -> bool:
    """Write the model for both sides; return whether ONNX could be written."""
    import trireme as fluid

    x = fluid.layers.data("x", [FEATURES])
    hidden = fluid.layers.fc(fluid.layers.fc(x, 512, act="relu"), 512, act="relu")
    y = fluid.layers.fc(hidden, 10, act="softmax")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(folder / "model"), ["x"], [y], exe)
    try:
        import onnxruntime  # noqa: F401

        fluid.formats.export_onnx(folder / "model.onnx", ["x"], [y], exe)
    except ImportError:                                # also MissingLibraryError
        return False
    return True


class OnnxModel:
    """A model of ONNX Runtime as `trireme serve` takes one."""

    version = step = 0

    def __init__(self, path: str) -> None:
        import onnxruntime

        from trireme.model_server.model import Spec, Value

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session, self._value = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]), Value
        float32 = np.dtype("float32")
        self.feeds = [Spec("x", "FP32", float32, (-1, FEATURES))]
        self.fetches = [Spec(self._session.get_outputs()[0].name, "FP32", float32, (-1, 10))]

    def run(self, feed: dict[str, Any]) -> tuple[list[Any], int]:
        return [self._value(array) for array in self._session.run(None, feed)], 0


def serve_onnx(path: str, batch_size: int) -> int:
    from trireme.model_server.server import Options, command
    from trireme.model_server.service import Limits

    return command(Options(path, port=0, name="model", limits=Limits(batch_size=batch_size)), lambda _: OnnxModel(path))


@contextmanager
def server(words: list[str]) -> Iterator[tuple[int, int]]:
    """Run a server on the first CPU; give its port and the number of its process."""
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True, env={**os.environ, "TRIREME_NUM_THREADS": "1"})
    os.sched_setaffinity(process.pid, machine.cpus(1))
    try:
        said = ""
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", said)):
            line = process.stderr.readline()
            if not line:
                raise SystemExit(f"a server did not start: {said}")
            said += line
        yield int(found[1]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def request_of(rows: int) -> bytes:
    x = np.random.RandomState(0).rand(rows, FEATURES).astype("float32").tobytes()
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, FEATURES], "parameters": {"binary_data_size": len(x)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    lines = f"POST /v2/models/model/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: {len(head)}\r\n"
    return f"{lines}Content-Length: {len(head) + len(x)}\r\n\r\n".encode() + head + x


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """Return the answer's binary data."""
        self._socket.sendall(request)
        got = b""
        while (end := got.find(b"\r\n\r\n")) < 0:
            got += self._socket.recv(1 << 16)
        head = got[:end].decode()
        assert head.startswith("HTTP/1.1 200 "), got
        size = int(re.search(r"Content-Length: (\d+)", head)[1])
        while len(got) < end + 4 + size:
            got += self._socket.recv(1 << 16)
        return got[end + 4 + int(re.search(r"Inference-Header-Content-Length: (\d+)", head)[1]):]


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Round:
    """What came of one turn of a side."""

    took: list[float]                  # seconds of each request
    rate: float                        # requests a second
    cpu: float                         # seconds of the server for each request


def measure(place: tuple[int, int], rows: int, clients: int, seconds: float) -> Round:
    """Let clients ask for so many seconds."""
    port, process = place
    request, took, before = request_of(rows), [], cpu_seconds(process)
    end = time.perf_counter() + seconds

    def ask(client: Client) -> None:
        begun = time.perf_counter()
        while begun < end:
            client.ask(request)
            now = time.perf_counter()
            took.append(now - begun)
            begun = now

    threads = [threading.Thread(target=ask, args=[Client(port)]) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Round(took, len(took) / seconds, (cpu_seconds(process) - before) / len(took))


def compare(places: dict[str, tuple[int, int]]) -> None:
    answers = [np.frombuffer(Client(port).ask(request_of(32)), "float32") for port, _ in places.values()]
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], rtol=1e-4, atol=1e-6)


def row(folder: Path, sides: list[str], case: tuple[int, int, tuple[str, ...]], options: argparse.Namespace) -> None:
    """Measure one case and print its lines."""
    rows, clients, words = case
    batch = words[1] if words else "1"
    lines = {"trireme": ["-m", "trireme", "serve", str(folder / "model"), "--port", "0", "--threads", "1", *words],
             "onnxruntime": [__file__, "--onnx", str(folder / "model.onnx"), "--onnx-batch", batch]}
    with ExitStack() as stack:
        places = {side: stack.enter_context(server(lines[side])) for side in sides}
        compare(places)
        for place in places.values():
            measure(place, rows, clients, options.seconds / 4)
        found: dict[str, list[Round]] = {side: [] for side in sides}
        for _ in range(options.rounds):
            for side, place in places.items():
                found[side].append(measure(place, rows, clients, options.seconds))
    print(f"{rows} rows, {clients} clients{f', batches of {batch} rows' if words else ''}")
    for side, rounds in found.items():
        others = found["onnxruntime"] if side == "trireme" and len(found) == 2 else None
        print(line_of(side, rounds, others), flush=True)


def line_of(side: str, rounds: list[Round], others: list[Round] | None) -> str:
    """Return a side's medians, and its ratio to the other side's where there is one."""
    text = f"    {side:12s} {statistics.median(one.rate for one in rounds):7.0f} /s"
    for percent in (50, 99):
        text += f"   p{percent} {1e3 * statistics.median(float(np.percentile(one.took, percent)) for one in rounds):7.2f} ms"
    text += f"   CPU {1e3 * min(one.cpu for one in rounds):6.3f} ms"
    if others:
        ratios = [one.rate / other.rate for one, other in zip(rounds, others)]
        text += f"   {statistics.median(ratios):.2f} x ({min(ratios):.2f}..{max(ratios):.2f})"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--onnx", help=argparse.SUPPRESS)
    parser.add_argument("--onnx-batch", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.onnx:
        sys.exit(serve_onnx(options.onnx, options.onnx_batch))
    with tempfile.TemporaryDirectory() as name:
        has_onnx = save_models(Path(name))
        if not has_onnx:
            print("ONNX Runtime was left out: pip install '.[onnx]'")
        about = machine.describe()
        print(f"{about['cpu']}, {about['cpus']} CPUs, load {about['load']}; each server on one", flush=True)
        for case in CASES:
            row(Path(name), ["trireme", "onnxruntime"] if has_onnx else ["trireme"], case, options)


if __name__ == "__main__":
    main()
