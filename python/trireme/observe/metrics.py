"""``trireme metrics DIR``: a job's numbers for Prometheus, over HTTP.

Nobody serves them unless this command is run, and it listens on this host alone unless it is told an address.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ..errors import FileError, NotFoundError
from ..optional import load
from .view import view_of

PORT, ADDRESS = 9464, "127.0.0.1"


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
            "wait": gauge("trireme_wait_ratio", "Share of the time in which a trainer waits for servers, a server for gradients", labels=labels),
            "memory": gauge("trireme_resident_memory_bytes", "Resident memory of ranks of this host", labels=labels),
            "sent": counter("trireme_sent_bytes", "Bytes sent", labels=labels),
            "received": counter("trireme_received_bytes", "Bytes received", labels=labels),
            "skipped": counter("trireme_skipped_steps", "Steps left out since gradients were not finite", labels=labels),
            "loss": gauge("trireme_loss", "The newest loss that the script has fetched", labels=labels),
            "age": gauge("trireme_last_line_seconds", "Seconds since the rank's last line", labels=labels)}
        for rank in view.ranks:
            whose = [rank.role, str(rank.index), rank.host]
            numbers = {"steps": rank.step, "rate": rank.rate, "wait": rank.wait, "memory": rank.memory, "sent": rank.sent, "received": rank.received,
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
        server, thread = client.start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise FileError(f"trireme metrics: cannot listen on {address}, port {port}: {error.strerror or error}") from None
    return server, thread, server.server_port


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


__all__ = ["ADDRESS", "PORT", "Collector", "command", "serve"]
