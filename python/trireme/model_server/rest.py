"""The protocol over HTTP.

A handler is one request. It reserves memory by the headers, before the body is read. A client has a limited time to send the request, and
to read the answer. Where a request is refused before its end, the answer is written at once, and the rest is read and dropped for a
moment: a connection that is closed while data arrive would take the answer with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import weakref
from typing import Any

from tornado import web
from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_sockets

from ..native.errors import FileError
from .budget import RequestError
from .messages import Request, answer, parse, parse_rows
from .model import Model
from .service import Service, bytes_of_row

_LINGER = 1.0                          # seconds
_MOST_HEADER = 16 << 10                # bytes
_MOST_ERROR = 1000                     # characters of a text
_JSON = "application/json"


class Server(HTTPServer):
    """Connections, of which those beyond the limit are told so; beyond twice the limit they are closed."""

    most_connections = 256

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.beyond: weakref.WeakSet[IOStream] = weakref.WeakSet()

    @property
    def connections(self) -> int:
        return len(self._connections)

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        if self.connections >= 2 * self.most_connections:
            stream.close()
            return
        if self.connections >= self.most_connections:
            self.beyond.add(stream)
        super().handle_stream(stream, address)


def listen(service: Service, host: str, port: int) -> tuple[Server, int]:
    """Begin to listen; return the server and its port, which may have been 0 for any."""
    for name in ("tornado.access", "tornado.general"):                 # what clients do wrong is no news
        logging.getLogger(name).propagate = False
        logging.getLogger(name).addHandler(logging.NullHandler())
    limits = service.limits
    try:
        sockets = bind_sockets(port, host)
    except OSError as error:
        raise FileError(f"trireme serve: cannot listen on {host}, port {port}: {error.strerror or error}") from None
    application = _application(service)
    server = Server(application, max_header_size=_MOST_HEADER, max_body_size=1 << 62,          # handlers have their own bound
                    body_timeout=limits.patience + 5 * _LINGER, idle_connection_timeout=3 * limits.patience)
    server.most_connections = limits.connections
    application.settings["http"] = server
    server.add_sockets(sockets)
    service.numbers.watch("trireme_serve_connections", "Open connections of HTTP", lambda: server.connections)
    return server, int(sockets[0].getsockname()[1])


def _application(service: Service) -> web.Application:
    model = r"/v2/models/([^/]+)(?:/versions/([^/]+))?"
    what = {"service": service}
    return web.Application([(r"/v2/health/(live|ready)", _Health, what), (r"/v2/?", _AboutServer, what), (model, _AboutModel, what),
                            (f"{model}/ready", _ModelReady, what), (f"{model}/infer", _Infer, what), (f"{model}/rows", _Rows, what),
                            (r"/metrics", _Metrics, what)],
                           default_handler_class=_Unknown, default_handler_args=what)


@web.stream_request_body
class _Handler(web.RequestHandler):
    """One request. Subclasses have ``answer``."""

    most_body = 0                                      # bytes; 0: no body is expected

    def initialize(self, service: Service) -> None:
        self.service = service
        self._body, self._json_size, self._is_open, self._is_refused = bytearray(), -1, False, False
        self._is_sending = False
        self._reservation = service.budget.reservation()
        self._timer: asyncio.TimerHandle | None = None

    def set_default_headers(self) -> None:
        self.set_header("Server", "trireme")
        self.set_header("Content-Type", _JSON)

    def compute_etag(self) -> None:
        """Answers are not kept."""

    # -- the request arrives

    def prepare(self) -> None:
        self.service.busy += 1
        self._is_open = True
        self._after(self.service.limits.patience, lambda: self.refuse(408, "the request did not arrive in time (--timeout)"))
        try:
            self._look_at_headers()
        except RequestError as error:
            self.refuse(error.code, str(error))

    def _look_at_headers(self) -> None:
        http = self.settings["http"]
        if self._stream() in http.beyond:
            raise RequestError(503, f"this server has {http.most_connections} connections already (--connections): try again later")
        headers = self.request.headers
        size = _size(headers.get("Content-Length"), "Content-Length")
        if "Content-Encoding" in headers:
            raise RequestError(415, "this server reads no compressed requests: leave out Content-Encoding")
        if size is not None and not self.most_body and size:
            raise RequestError(400, "no body is expected here")
        self._json_size = _size(headers.get("Inference-Header-Content-Length"), "Inference-Header-Content-Length") or -1
        if size is not None:
            if self._json_size > size:
                raise RequestError(400, f"Inference-Header-Content-Length is {self._json_size}, the request has {size} bytes")
            self._reserve(size)

    def _stream(self) -> IOStream:
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection)
        return connection.stream

    def _reserve(self, size: int) -> None:
        self._reservation.grow(size, size if self._json_size < 0 else min(self._json_size, size))

    def data_received(self, chunk: bytes) -> None:
        if self._is_refused:
            return
        try:
            if not self.most_body:
                raise RequestError(400, "no body is expected here")
            self._reserve(len(self._body) + len(chunk))
            self._body += chunk
        except RequestError as error:
            self.refuse(error.code, str(error))

    def refuse(self, code: int, text: str) -> None:
        """Answer a request that is not complete."""
        if self._is_refused or self._is_sending:
            return
        self._is_refused = True
        self._reservation.release()
        self._body = bytearray()
        data = _error(text)
        self.set_status(code)
        self.set_header("Connection", "close")
        self.set_header("Content-Length", len(data))
        self.counted(code)
        self.write(data)
        flushed = self.flush()
        asyncio.ensure_future(flushed).add_done_callback(lambda done: done.exception())    # the client may have gone
        self._after(_LINGER, lambda: asyncio.ensure_future(self._send(None)))

    # -- and is answered

    async def get(self, *parts: str) -> None:
        await self._answer(parts)

    async def _answer(self, parts: tuple[str, ...]) -> None:
        if self._is_refused:
            await self._send(None)
            return
        self._stop_timer()
        begin = time.monotonic()
        try:
            data = await self.answer(*parts)
        except RequestError as error:
            self.set_status(error.code)
            self.set_header("Content-Type", _JSON)
            data = _error(str(error))
        self.counted(self.get_status(), time.monotonic() - begin)
        self._body = bytearray()
        await self._send(data)

    async def answer(self, *parts: str) -> bytes:
        raise web.HTTPError(405)

    def counted(self, code: int, seconds: float | None = None) -> None:
        """Count the request: those to infer alone are counted."""

    async def _send(self, data: bytes | None) -> None:
        """Write the answer, or what is left of it. A client that does not read it is left."""
        if self._is_sending:
            return
        self._is_sending = True
        if self.service.is_draining and data is not None:
            self.set_header("Connection", "close")
        try:
            written = self.finish(data)
            if not written.done():
                await asyncio.wait_for(written, self.service.limits.patience)
            written.result()
        except (TimeoutError, StreamClosedError):
            self._stream().close()
        finally:
            self._end()

    def write_error(self, status_code: int, **about: Any) -> None:
        """Tornado's own errors: a wrong method, and mistakes of this server."""
        text = {405: f"{self.request.method} is not possible here"}.get(status_code, self._reason)
        self.set_header("Connection", "close")
        self.finish(_error(text))

    def _after(self, seconds: float, function: Any) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, function)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def on_finish(self) -> None:
        if not self._is_sending:                       # an error of tornado's
            self._end()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._timer is not None:                    # else the answer is being made, and ends the request
            self._end()

    def _end(self) -> None:
        self._stop_timer()
        self._reservation.release()
        if self._is_open:
            self._is_open = False
            self.service.busy -= 1


class _Unknown(_Handler):
    def _look_at_headers(self) -> None:
        raise RequestError(404, f"there is nothing at {self.request.path[:100]!r}")


class _Health(_Handler):
    async def answer(self, what: str) -> bytes:                    # type: ignore[override]
        good = what == "live" or self.service.is_ready
        self.set_status(200 if good else 503)
        return _json({what: good})


class _AboutServer(_Handler):
    async def answer(self) -> bytes:                               # type: ignore[override]
        return _json(self.service.about_server())


class _AboutModel(_Handler):
    async def answer(self, name: str, version: str | None = None) -> bytes:                     # type: ignore[override]
        return _json(self.service.about_model(self.service.model_of(name, version)))


class _ModelReady(_Handler):
    async def answer(self, name: str, version: str | None = None) -> bytes:                     # type: ignore[override]
        self.service.model_of(name, version)
        self.set_status(200 if self.service.is_ready else 503)
        return _json({"name": name, "ready": self.service.is_ready})


class _Metrics(_Handler):
    async def answer(self) -> bytes:                               # type: ignore[override]
        data, kind = self.service.numbers.text(self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", kind)
        return data


class _Infer(_Handler):
    most_body = 1

    async def get(self, *parts: str) -> None:
        raise web.HTTPError(405)

    async def post(self, *parts: str) -> None:
        await self._answer(parts)

    async def answer(self, name: str, version: str | None = None) -> bytes:                     # type: ignore[override]
        service, json_size = self.service, self._json_size
        model = service.model_of(name, version)
        if json_size < 0:
            json_size = len(self._body)
        elif json_size > len(self._body):
            raise RequestError(400, f"Inference-Header-Content-Length is {json_size}, the request has {len(self._body)} bytes")
        return await self._run(model, await service.apart(json_size, parse, self._body, json_size, model))

    async def _run(self, model: Model, request: Request) -> bytes:
        """Run the model; return the body of the answer."""
        service = self.service
        values, used = await service.infer(request)
        size = sum(value.array.nbytes for value in values)
        data, json_part = await service.apart(size, answer, request, values, used, model, service.name)
        if json_part is not None:
            self.set_header("Content-Type", "application/octet-stream")
            self.set_header("Inference-Header-Content-Length", json_part)
        return data

    def counted(self, code: int, seconds: float | None = None) -> None:
        self.service.numbers.answered("http", code, seconds)


class _Rows(_Infer):
    """Rows of raw values, which are an extension of the protocol."""

    async def get(self, *parts: str) -> None:
        await self._answer(parts)

    async def answer(self, name: str, version: str | None = None) -> bytes:                     # type: ignore[override]
        service, size = self.service, len(self._body)
        model = service.model_of(name, version)
        if self.request.method == "GET":
            return _json(service.about_rows(model))
        rows, outputs, request_id = await service.apart(size, parse_rows, self._body, model)
        self._reservation.add(len(rows) * bytes_of_row(model))
        feed = await service.feed_of_rows(model, rows, size)
        del rows
        return await self._run(model, Request(feed, outputs, request_id))

    def counted(self, code: int, seconds: float | None = None) -> None:
        if self.request.method != "GET":
            super().counted(code, seconds)


def _size(text: str | None, what: str) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise RequestError(400, f"{what} is a whole number from 0 on, got {text[:40]!r}")
    return int(text)


def _error(text: str) -> bytes:
    return _json({"error": text[:_MOST_ERROR]})


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
