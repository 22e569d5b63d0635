"""``trireme serve MODEL``: from the first connection to the last answer.

The server listens before the model is loaded, so that an orchestrator sees a process that lives and is not ready. SIGTERM and Ctrl-C end
it: it takes no more connections, answers the requests that are here, and ends with code 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..native.errors import InvalidArgumentError
from ..native.optional import load
from ..serving.predictor import Predictor
from . import grpc_service
from .model import Model, ServedPredictor
from .service import Limits, Service

_QUIET = 0.1                           # seconds without a request after which a server that ends closes its connections


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    folder: str
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None       # None: no gRPC
    name: str | None = None            # the folder's
    follow: float | None = None        # seconds between looks for a newer export
    wait: float = 0.0                  # seconds for a model to appear
    limits: Limits = field(default_factory=Limits)


def predictor_of(options: Options) -> Model:
    """Load the model, wait for it where that is asked for, and follow its folder."""
    predictor = Predictor(options.folder, wait=options.wait)
    if options.follow is not None:
        predictor.follow(options.follow)
    return ServedPredictor(predictor)


def command(options: Options, load_model: Callable[[Options], Model] = predictor_of) -> int:
    """Serve what ``load_model`` returns until SIGTERM or Ctrl-C; return the exit code."""
    load("tornado", "trireme serve")
    name = name_of(options.folder) if options.name is None else options.name
    if not re.fullmatch(r"[\w.-]{1,100}", name):
        raise InvalidArgumentError(f"trireme serve: {name!r} is no name of a model: give --name, of letters, digits, '_', '-' and '.'")
    return asyncio.run(_serve(options, load_model, Service(name, options.limits)))


def name_of(folder: str) -> str:
    """Return what a model is called by default: as its folder."""
    return os.path.basename(folder.rstrip("/") if "://" in folder else os.path.abspath(folder))


async def _serve(options: Options, load_model: Callable[[Options], Model], service: Service) -> int:
    from .rest import listen

    stop = _stop_signal()
    server, port = listen(service, options.host, options.port)
    grpc_server = None
    place = f"[{options.host}]:{port}" if ":" in options.host else f"{options.host}:{port}"
    try:
        if options.grpc_port is not None:
            grpc_server, grpc_port = await grpc_service.listen(service, options.host, options.grpc_port)
            tell(f"gRPC listens on port {grpc_port}")
        if options.wait:
            tell(f"listens on {place}, and waits for a model in {options.folder}")
        model = await _model(lambda: load_model(options), stop)
        if model is not None:
            service.open(model)
            tell(f"http://{place}/v2/models/{service.name} answers, version {model.version}, step {model.step}")
            await stop.wait()
        return await _drain(service, server, grpc_server)
    finally:
        if grpc_server is not None:
            await grpc_server.stop(None)
        service.close()
        server.stop()


def tell(text: str) -> None:
    with contextlib.suppress(OSError):                 # nobody reads standard error any more
        print(f"trireme serve: {text}", file=sys.stderr, flush=True)


def _stop_signal() -> asyncio.Event:
    """Return what the first SIGTERM or Ctrl-C sets; the second one ends the process at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def end(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    return stop


async def _model(load_model: Callable[[], Model], stop: asyncio.Event) -> Model | None:
    """Load the model in a thread, which may wait for it; None: the server is to end before."""
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[Model] = loop.create_future()

    def put(model: Any, error: Any) -> None:
        if not loaded.done():
            loaded.set_result(model) if error is None else loaded.set_exception(error)

    def read() -> None:
        model = error = None
        try:
            model = load_model()
        except Exception as caught:                    # the loop's thread raises it
            error = caught
        with contextlib.suppress(RuntimeError):        # the loop has ended
            loop.call_soon_threadsafe(put, model, error)

    threading.Thread(target=read, name="trireme-load", daemon=True).start()
    stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
    await asyncio.wait([loaded, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    return loaded.result() if loaded.done() else None


async def _drain(service: Service, server: Any, grpc_server: Any) -> int:
    """Answer the requests that are here; return the exit code."""
    loop = asyncio.get_running_loop()
    end = loop.time() + service.limits.drain
    service.drain()
    server.stop()
    if grpc_server is not None:                        # takes no more calls
        grpc_end = asyncio.ensure_future(grpc_server.stop(service.limits.drain))
    quiet_since = loop.time()
    while loop.time() - quiet_since < _QUIET:
        if service.busy:
            quiet_since = loop.time()
        if loop.time() > end:
            tell(f"{service.busy} requests were not answered in {service.limits.drain:g} s (--drain)")
            os._exit(1)                                # the model's run may never end
        await asyncio.sleep(0.01)
    await server.close_all_connections()
    if grpc_server is not None:
        await grpc_end
    return 0
