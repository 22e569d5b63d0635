"""The state of a server, which HTTP and gRPC share. It finds the model that a client names, and runs it for a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ..native.errors import (DTypeError, EnforceNotMet, InvalidArgumentError, NotFoundError, RangeError, ShapeError)
from ..native.threads import __version__
from .batching import Batcher
from .budget import Budget, RequestError
from .messages import Request
from .model import Model, ServedPredictor, Spec, Value
from .numbers import Numbers

_OF_CLIENT = (InvalidArgumentError, ShapeError, DTypeError, RangeError, NotFoundError)
_LARGE = 64 << 10                      # bytes: what is larger is read and written by a thread, and holds no other connection
_OF_VALUE = 64                         # bytes: of one value of a raw row, in Python and as a feed
_T = TypeVar("_T")


@dataclass(frozen=True)
class Limits:
    """How the server runs a model, and what clients may take."""

    threads: int = 1                   # runs at a time
    batch_size: int = 1                # rows of requests that run together
    batch_wait: float = 0.0            # seconds that a request waits for others
    connections: int = 256
    request_bytes: int = 64 << 20
    memory_bytes: int = 1 << 30        # of all requests
    patience: float = 30.0             # seconds in which a request has arrived, and in which its answer is read
    drain: float = 30.0                # seconds for requests that are here when the server is told to end


class Service:
    """A server's state. All of it belongs to the event loop's thread."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name, self.limits, self.numbers = name, limits, Numbers()
        self.budget = Budget(limits.memory_bytes, limits.request_bytes)
        self.busy = 0                                  # requests that have begun and are not answered
        self.is_draining = False
        self._model: Model | None = None
        self._batcher: Batcher | None = None
        self._pool = ThreadPoolExecutor(2, "trireme-messages")
        self.numbers.watch("trireme_serve_requests_in_flight", "Requests that have begun and are not answered", lambda: self.busy)
        self.numbers.watch("trireme_serve_request_memory_bytes", "Memory that these have reserved", lambda: self.budget.taken)

    def open(self, model: Model) -> None:
        """The model is loaded: answer requests. InvalidArgumentError: its requests cannot be put together."""
        limits = self.limits
        self._batcher = Batcher(model, limits.threads, limits.batch_size, limits.batch_wait, self.numbers)
        self._model = model
        self.numbers.watch_model(model)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._batcher is not None:
            self._batcher.close()

    def drain(self) -> None:
        """The server is about to end: it is not ready, and no request waits for others."""
        self.is_draining = True
        if self._batcher is not None:
            self._batcher.hurry()

    @property
    def is_ready(self) -> bool:
        return self._model is not None and not self.is_draining

    def model_of(self, name: str, version: str | None) -> Model:
        """Return the model of a name. RequestError: it has another one, or this is not its version, or it is not loaded yet."""
        if name != self.name:
            raise RequestError(404, f"there is no model {name[:60]!r} here; this server has {self.name!r}")
        if self._model is None:
            raise RequestError(503, f"the model {self.name!r} is not loaded yet")
        if version and version != str(self._model.version):
            raise RequestError(404, f"the model {self.name!r} is served in the version {self._model.version}, not {version[:20]!r}")
        return self._model

    async def apart(self, size: int, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call what takes time by the size of its message: in a thread if this is large."""
        if size <= _LARGE:
            return function(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def feed_of_rows(self, model: Model, rows: list[Any], size: int) -> dict[str, Any]:
        """Return the feed that raw rows make, which came in ``size`` bytes. RequestError says what is wrong with them."""
        if not isinstance(model, ServedPredictor):
            raise RequestError(400, "this model takes no raw rows")
        try:
            return await self.apart(size, model.feed_of, rows)
        except EnforceNotMet as error:
            raise RequestError(400, _without_place(str(error))) from None

    def about_rows(self, model: Model) -> dict[str, Any]:
        slots = model.slots.values() if isinstance(model, ServedPredictor) else ()
        return {"slots": [{"name": slot.name, "datatype": "BYTES" if slot.hash else _datatype(model, slot.name), "shape": slot.shape[1:],
                           "is_sequence": slot.lod_level > 0, "missing": slot.missing} for slot in slots]}

    async def infer(self, request: Request) -> tuple[list[Value], int]:
        """Run the model; return its results and the version of the parameters. RequestError says what went wrong."""
        assert self._batcher is not None
        try:
            return await self._batcher.run(request.feed)
        except EnforceNotMet as error:
            code = 400 if isinstance(error, _OF_CLIENT) else 500
            raise RequestError(code, _without_place(str(error))) from None

    def about_server(self) -> dict[str, Any]:
        return {"name": "trireme", "version": __version__, "extensions": ["binary_tensor_data", "raw_rows"]}

    def about_model(self, model: Model) -> dict[str, Any]:
        return {"name": self.name, "versions": [str(model.version)], "platform": "trireme",
                "inputs": [_about(spec) for feed in model.feeds for spec in (feed, *feed.offsets())],
                "outputs": [_about(spec) for fetch in model.fetches for spec in (fetch, *fetch.offsets())]}


def bytes_of_row(model: Model) -> int:
    """Return how much memory a raw row takes beside its JSON: one null may stand for many values."""
    return _OF_VALUE * model.values_of_row if isinstance(model, ServedPredictor) else 0


def _datatype(model: Model, feed: str) -> str:
    return next(spec.datatype for spec in model.feeds if spec.name == feed)


def _about(spec: Spec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


def _without_place(text: str) -> str:
    """Return an error's text without the lines of the script, which are this server's."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("your line:"))
