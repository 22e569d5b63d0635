"""A server of ``trireme serve`` for tests, and its client over plain sockets."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import trireme as fluid

PATIENCE = 120.0                       # seconds, for a machine that is busy


class Served:
    """A process that serves a model. ``words`` are options of the command line."""

    def __init__(self, model: str | os.PathLike[str], *words: object, is_ready: bool = True) -> None:
        environment = {**os.environ, "TRIREME_NUM_THREADS": "1"}
        self.process = subprocess.Popen([sys.executable, "-m", "trireme", "serve", str(model), "--port", "0", *map(str, words)],
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.port = int(self.line(r"http://[^/]*:(\d+)" if is_ready else r"listens on .*:(\d+)")[1])
        if is_ready:
            self.line("answers")

    def _read(self) -> None:
        self.lines.extend(self.process.stderr)

    def line(self, pattern: str) -> re.Match[str]:
        """Wait for a line on standard error."""
        return until(lambda: next((found for line in list(self.lines) if (found := re.search(pattern, line))), None), self.text)

    def text(self) -> str:
        return "".join(self.lines)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def ask(self, method: str, path: str, body: bytes | dict[str, Any] | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Return the code, the headers and the body of an answer; names of headers have ``_`` for ``-``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body,
                               {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, Any]:
        code, _, body = self.ask("GET", path)
        return code, json.loads(body)

    def infer(self, name: str, body: bytes | dict[str, Any], **headers: str) -> tuple[int, Any]:
        code, _, data = self.ask("POST", f"/v2/models/{name}/infer", body, **headers)
        return code, json.loads(data)

    def number(self, name: str) -> float:
        """Return one of the numbers for Prometheus."""
        _, _, body = self.ask("GET", "/metrics")
        return float(re.search(rf"^{re.escape(name)} (\S+)$", body.decode(), re.M)[1])


def until(found: Callable[[], Any], text: Callable[[], str] = str) -> Any:
    """Wait until there is something; return it."""
    end = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < end, text()
        time.sleep(0.02)
    return value


def exchange(connection: socket.socket, data: bytes) -> tuple[int, bytes]:
    """Send bytes; return the code and the body of the answer."""
    connection.sendall(data)
    return answer_of(connection)


def answer_of(connection: socket.socket) -> tuple[int, bytes]:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.read()


def save_model(folder: Path) -> Path:
    """Save a model of a dense feed and of sequences of words; it gives a row for each sequence, and each word's vector."""
    x, words = fluid.layers.data("x", [4]), fluid.layers.data("words", [1], dtype="int64", lod_level=1)
    vectors = fluid.layers.embedding(words, [100, 8])
    pooled = fluid.layers.sequence_pool(vectors, "sum")
    y = fluid.layers.fc(fluid.layers.concat([fluid.layers.fc(x, 8, act="relu"), pooled], axis=1), 3, act="softmax")
    smooth = fluid.layers.sequence_softmax(fluid.layers.fc(vectors, 1))
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(folder), ["x", "words"], [y, smooth], exe)
    return folder


def save_dense(folder: Path, features: int = 4) -> Path:
    """Save a model of one dense feed, ``x``."""
    x = fluid.layers.data("x", [features])
    y = fluid.layers.fc(fluid.layers.fc(x, 8, act="relu"), 3)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(folder), ["x"], [y], exe)
    return folder


def tensor(name: str, datatype: str, array: Any, **options: Any) -> dict[str, Any]:
    """Return an input as JSON."""
    array = np.asarray(array)
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": array.reshape(-1).tolist(), **options}
