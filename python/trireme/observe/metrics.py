"""``trireme metrics DIR``: a job's numbers for Prometheus, over HTTP.

Nobody serves them unless this command is run, and it listens on this host alone unless it is told an address.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ..native.errors import FileError, NotFoundError
from ..native.optional import load
from .view import view_of

PORT, ADDRESS = 9464, "127.0.0.1"
PATIENCE = 10.0                        # seconds
MOST_CONNECTIONS = 32


class Collector:
    """Reads the logs at each scrape."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._core = load("prometheus_client.core", "trireme metrics")

    def collect(self) -> Iterator[Any]:
        counter, gauge = self._core.CounterMetricFamily, self._core.GaugeMetricFamily
        try:
            view = view_of(self.folder)
        except NotFoundError:                          # the job has not begun
            return
        labels = ["role", "index", "host"]
        families = {
            "steps": counter("trireme_steps", "Steps of a trainer, updates of a server", labels=labels),
            "rate": gauge("trireme_steps_per_second", "Steps of a trainer, updates of a server, in a second", labels=labels),
            "wait": gauge("trireme_wait_ratio", "Share of the time in which a trainer waits for servers, a server for gradients",
                          labels=labels),
            "memory": gauge("trireme_resident_memory_bytes", "Resident memory of ranks of this host", labels=labels),
            "sent": counter("trireme_sent_bytes", "Bytes sent", labels=labels),
            "received": counter("trireme_received_bytes", "Bytes received", labels=labels),
            "skipped": counter("trireme_skipped_steps", "Steps left out since gradients were not finite", labels=labels),
            "loss": gauge("trireme_loss", "The newest loss that the script has fetched", labels=labels),
            "age": gauge("trireme_last_line_seconds", "Seconds since the rank's last line", labels=labels)}
        for rank in view.ranks:
            whose = [rank.role, str(rank.index), rank.host]
            numbers = {"steps": rank.step, "rate": rank.rate, "wait": rank.wait, "memory": rank.memory, "sent": rank.sent,
                       "received": rank.received,
                       "skipped": rank.skipped if rank.role == "trainer" else None, "loss": rank.loss, "age": rank.age}
            for name, value in numbers.items():
                if value is not None:
                    families[name].add_metric(whose, value)
        yield from families.values()
        yield counter("trireme_restarts", "Starts of the job after the first", value=view.logs.restarts)


def serve(folder: str, port: int, address: str) -> tuple[Any, threading.Thread, int]:
    """Begin to serve; return the server, its thread and the port, which may have been 0 for any."""
    client = load("prometheus_client", "trireme metrics")
    registry = client.CollectorRegistry()
    registry.register(Collector(folder))
    try:
        server = make_server(address, port, client.make_wsgi_app(registry), _family(address, port), _Handler)
    except OSError as error:
        raise FileError(f"trireme metrics: cannot listen on {address}, port {port}: {error.strerror or error}") from None
    thread = threading.Thread(target=server.serve_forever, name="trireme-metrics", daemon=True)
    thread.start()
    return server, thread, server.server_port


class _Handler(WSGIRequestHandler):
    """One connection. It ends when the other side is silent for ``timeout`` seconds."""

    timeout = PATIENCE

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection, a limited number of them, each for a limited time."""

    daemon_threads = True
    _places = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(3 * PATIENCE, _cut, [request])               # also of one that sends a byte now and then
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The other side has gone, or was silent: no news either."""
        error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handle_error(request, client_address)


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


def _family(address: str, port: int) -> type[_Server]:
    """Return the server for this kind of address: IPv4 or IPv6."""
    family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
    return type("_FamilyServer", (_Server,), {"address_family": family})


def command(folder: str, port: int, address: str) -> int:
    """Serve until Ctrl-C. NotFoundError: there is no such folder."""
    if not os.path.isdir(folder):
        raise NotFoundError(f"trireme metrics: there is no folder {folder!r}; `trireme launch --log DIR` makes it")
    server, thread, found = serve(folder, port, address)
    print(f"trireme metrics: http://{address}:{found}/metrics has the numbers of the job in {folder}", file=sys.stderr, flush=True)
    try:
        thread.join()
    finally:
        server.shutdown()
    return 0
