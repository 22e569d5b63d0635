"""A job's numbers for Prometheus, over HTTP: ``trireme metrics DIR`` reads them from logs, ``trireme launch --metrics-port`` has them from
the ranks.

Nobody serves them unless one of both is asked for, and it listens on this host alone unless it is told an address.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ..launch.live import JobNow, Live, RankNow
from ..native.errors import FileError, NotFoundError
from ..native.json_text import print_json
from ..native.optional import load
from .view import Rank, View, view_of

PORT, ADDRESS = 9464, "127.0.0.1"
PATIENCE = 10.0                        # seconds
MOST_CONNECTIONS = 32


Job = View | JobNow                    # read from logs, or known to the launcher


def numbers_of_rank(rank: Rank | RankNow) -> dict[str, float | None]:
    """Return a rank's numbers by the names of their metrics."""
    has_ended = isinstance(rank, Rank) and rank.has_ended
    return {"steps_total": rank.step, "steps_per_second": rank.rate, "wait_ratio": rank.wait, "resident_memory_bytes": rank.memory,
            "sent_bytes_total": rank.sent, "received_bytes_total": rank.received,
            "skipped_steps_total": rank.skipped if rank.role == "trainer" else None, "loss": rank.loss,
            "last_line_seconds": None if has_ended else rank.age, "quiet_seconds": rank.quiet}


ABOUT_RANK = {                         # a line for each rank: numbers_of_rank
    "trireme_steps_total": "Steps of a trainer, updates of a server",
    "trireme_steps_per_second": "Steps of a trainer, updates of a server, in a second",
    "trireme_wait_ratio": "Share of the time in which a trainer waits for servers, a server for gradients",
    "trireme_resident_memory_bytes": "Resident memory",
    "trireme_sent_bytes_total": "Bytes sent",
    "trireme_received_bytes_total": "Bytes received",
    "trireme_skipped_steps_total": "Steps left out since gradients were not finite",
    "trireme_loss": "The newest loss that the script has fetched",
    "trireme_last_line_seconds": "Seconds since the rank's last sign of life",
    "trireme_quiet_seconds": "Seconds since a trainer's last step",
}
ABOUT = {
    **ABOUT_RANK,
    "trireme_restarts_total": "Starts of the job after the first",
    "trireme_deaths_total": "Ranks whose death the others survived",
    "trireme_ranks": "Living ranks",
    "trireme_wanted_ranks": "Ranks that the job was started with",
    "trireme_job_start_time_seconds": "When the job was launched, since 1970",
    "trireme_job_info": "The job's script",
}


class Collector:
    """Reads the job at each scrape. ``read`` returns None where it has not begun."""

    def __init__(self, read: Callable[[], Job | None], who: str) -> None:
        self._read, self._core = read, load("prometheus_client.core", who)

    def _family(self, name: str, labels: Sequence[str] = ()) -> Any:
        kind = self._core.CounterMetricFamily if name.endswith("_total") else self._core.GaugeMetricFamily
        return kind(name, ABOUT[name], labels=labels)

    def collect(self) -> Iterator[Any]:
        job = self._read()
        if job is None:
            return
        shown = [(rank, numbers_of_rank(rank)) for rank in job.ranks]
        for name in ABOUT_RANK:
            family = self._family(name, ["role", "index", "host"])
            for rank, numbers in shown:
                if (value := numbers[name.removeprefix("trireme_")]) is not None:
                    family.add_metric([rank.role, str(rank.index), rank.host], value)
            yield family
        yield self._one("trireme_restarts_total", job.restarts)
        if isinstance(job, JobNow):
            yield from self._of_launcher(job)

    def _of_launcher(self, job: JobNow) -> Iterator[Any]:
        for name, counts in (("trireme_deaths_total", job.deaths), ("trireme_ranks", job.living), ("trireme_wanted_ranks", job.wanted)):
            family = self._family(name, ["role"])
            for role, count in counts.items():
                family.add_metric([role], count)
            yield family
        yield self._one("trireme_job_start_time_seconds", job.began)
        yield self._one("trireme_job_info", 1, {"script": job.script})

    def _one(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> Any:
        family = self._family(name, list(labels or ()))
        family.add_metric(list((labels or {}).values()), value)
        return family


def serve(read: Callable[[], Job | None], port: int, address: str, who: str) -> tuple[Any, threading.Thread, int]:
    """Begin to serve; return the server, its thread and the port, which may have been 0 for any."""
    client = load("prometheus_client", who)
    registry = client.CollectorRegistry()
    registry.register(Collector(read, who))
    try:
        server = make_server(address, port, client.make_wsgi_app(registry), _family(address, port), _Handler)
    except OSError as error:
        raise FileError(f"{who}: cannot listen on {address}, port {port}: {error.strerror or error}") from None
    thread = threading.Thread(target=server.serve_forever, name="trireme-metrics", daemon=True)
    thread.start()
    return server, thread, server.server_port


@contextlib.contextmanager
def serving(live: Live, port: int, address: str) -> Iterator[str]:
    """Serve a job's numbers while the context lasts. It gives a text that says where."""
    server, thread, found = serve(lambda: live.now, port, address, "trireme launch --metrics-port")
    try:
        yield f"http://{_host(address)}:{found}/metrics has the job's numbers"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def of_logs(folder: str) -> View | None:
    """Return what the logs in a folder tell; None: there are none so far."""
    with contextlib.suppress(NotFoundError):
        return view_of(folder)
    return None


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


def _host(address: str) -> str:
    """Return an address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def as_json(job: Job | None) -> dict[str, Any]:
    """Return a job's numbers as ``--json`` prints them: docs/json.md."""
    ranks = [{"role": rank.role, "index": rank.index, "host": rank.host, **numbers_of_rank(rank)} for rank in (job.ranks if job else ())]
    return {"schema": 1, "ranks": ranks, "restarts_total": job.restarts if job else 0}


def command(folder: str, port: int, address: str, is_json: bool = False) -> int:
    """Serve until Ctrl-C, or print the numbers of this moment. NotFoundError: there is no such folder."""
    if not os.path.isdir(folder):
        raise NotFoundError(f"trireme metrics: there is no folder {folder!r}; `trireme launch --log DIR` makes it")
    if is_json:
        print_json(as_json(of_logs(folder)))
        return 0
    server, thread, found = serve(lambda: of_logs(folder), port, address, "trireme metrics")
    print(f"trireme metrics: http://{_host(address)}:{found}/metrics has the numbers of the job in {folder}", file=sys.stderr, flush=True)
    try:
        thread.join()
    finally:
        server.shutdown()
    return 0
