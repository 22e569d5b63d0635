"""The server's numbers for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from ..native.optional import load
from .model import Model

_SECONDS = (.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Numbers:
    """Counts requests and runs; ``text`` is what Prometheus reads."""

    def __init__(self) -> None:
        client = load("prometheus_client", "trireme serve")
        self._registry = client.CollectorRegistry()
        self._encoder_of = load("prometheus_client.exposition", "trireme serve").choose_encoder
        self._requests = client.Counter("trireme_serve_requests", "Requests to infer that were answered", ["protocol", "code"],
                                        registry=self._registry)
        self._seconds = client.Histogram("trireme_serve_request_seconds", "From the request's last byte to its answer", ["protocol"],
                                         buckets=_SECONDS, registry=self._registry)
        self._runs = client.Counter("trireme_serve_runs", "Runs of the model", registry=self._registry)
        self._rows = client.Histogram("trireme_serve_batch_rows", "Rows of runs of several requests", buckets=_ROWS,
                                      registry=self._registry)
        self._gauge = client.Gauge

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Show a number that is asked for at each scrape."""
        self._gauge(name, about, registry=self._registry).set_function(value)

    def watch_model(self, model: Model) -> None:
        self.watch("trireme_serve_model_version", "The number of the export that is served; 0: a saved model", lambda: model.version)
        self.watch("trireme_serve_model_step", "The training's step at that export", lambda: model.step)

    def answered(self, protocol: str, code: object, seconds: float | None = None) -> None:
        self._requests.labels(protocol, str(code)).inc()
        if seconds is not None:
            self._seconds.labels(protocol).observe(seconds)

    def ran(self, runs: int, rows: int = 0) -> None:
        self._runs.inc(runs)
        if rows:
            self._rows.observe(rows)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all numbers in the form that a scraper accepts, and the name of that form."""
        encode, kind = self._encoder_of(accept)
        return encode(self._registry), kind
