"""The protocol over gRPC, on the event loop of the server.

gRPC reads a message whole before anybody sees it. So a message may have the memory of all requests divided by the calls at a time. A
connection ends after some minutes, and its client makes another: one that holds a call without a message is left then.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from ..native.errors import FileError
from ..native.optional import load
from .budget import RequestError
from .grpc_messages import CALLS, SERVICE, classes
from .messages import Request, Tensor, Wanted, feed_of, outputs_of, packed, refuse, tensors_of
from .model import Model
from .service import Service

_AGE = 10                              # times --timeout: how old a connection becomes
_CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 413: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
_WHOLE = {"BOOL": ("bool_contents", "bool"), "INT32": ("int_contents", "int32"), "INT64": ("int64_contents", "int64"),
          "UINT32": ("uint_contents", "uint32"), "UINT64": ("uint64_contents", "uint64"), "FP32": ("fp32_contents", "float32"),
          "FP64": ("fp64_contents", "float64")}       # of a datatype the field with its values, in their own type
_WIDER = {"INT8": "int_contents", "INT16": "int_contents", "UINT8": "uint_contents", "UINT16": "uint_contents"}


async def listen(service: Service, host: str, port: int) -> tuple[Any, int]:
    """Begin to listen; return the server and its port, which may have been 0 for any."""
    grpc, aio = load("grpc", "trireme serve --grpc-port"), load("grpc.aio", "trireme serve --grpc-port")
    limits, messages, calls = service.limits, classes(), Calls(service, grpc)
    patience, most = int(1000 * limits.patience), most_bytes(service)
    server = aio.server(maximum_concurrent_rpcs=limits.connections, options=[
        ("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0),
        ("grpc.max_allowed_incoming_connections", limits.connections), ("grpc.max_concurrent_streams", limits.connections),
        ("grpc.max_connection_age_ms", _AGE * patience), ("grpc.max_connection_age_grace_ms", patience),
        ("grpc.max_connection_idle_ms", 3 * patience), ("grpc.keepalive_time_ms", patience), ("grpc.keepalive_timeout_ms", patience)])
    handlers = {name: grpc.unary_unary_rpc_method_handler(calls.of(name), messages[f"{name}Request"].FromString,
                                                          messages[f"{name}Response"].SerializeToString) for name in CALLS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    try:
        found = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError as error:
        raise FileError(f"trireme serve: cannot listen on {host}, port {port}: {error}") from None
    await server.start()
    return server, int(found)


def most_bytes(service: Service) -> int:
    """Return how long a message may be."""
    limits = service.limits
    return min(limits.request_bytes, limits.memory_bytes // limits.connections)


class Calls:
    """What the calls of the protocol do."""

    def __init__(self, service: Service, grpc: Any) -> None:
        self._service, self._grpc, self._messages = service, grpc, classes()

    def of(self, name: str) -> Callable[[Any, Any], Awaitable[Any]]:
        """Return the handler of a call."""
        answer = {"ServerLive": self._live, "ServerReady": self._ready, "ModelReady": self._model_ready, "ServerMetadata": self._server,
                  "ModelMetadata": self._model, "ModelInfer": self._infer}[name]

        async def handle(request: Any, context: Any) -> Any:
            service, begin, code = self._service, time.monotonic(), "OK"
            service.busy += 1
            try:
                return self._messages[f"{name}Response"](**await answer(request))
            except RequestError as error:
                code = _CODES.get(error.code, "INTERNAL")
                await context.abort(self._grpc.StatusCode[code], str(error)[:1000])
            finally:
                service.busy -= 1
                if name == "ModelInfer":
                    service.numbers.answered("grpc", code, time.monotonic() - begin)

        return handle

    async def _live(self, request: Any) -> dict[str, Any]:
        return {"live": True}

    async def _ready(self, request: Any) -> dict[str, Any]:
        return {"ready": self._service.is_ready}

    async def _model_ready(self, request: Any) -> dict[str, Any]:
        self._service.model_of(request.name, request.version)
        return {"ready": self._service.is_ready}

    async def _server(self, request: Any) -> dict[str, Any]:
        return {**self._service.about_server(), "extensions": []}

    async def _model(self, request: Any) -> dict[str, Any]:
        return self._service.about_model(self._service.model_of(request.name, request.version))

    async def _infer(self, message: Any) -> dict[str, Any]:
        service = self._service
        model = service.model_of(message.model_name, message.model_version)
        reservation = service.budget.reservation()
        size = message.ByteSize()
        reservation.grow(size, 0)
        try:
            request = await service.apart(size, request_of, message, model)
            values, version = await service.infer(request)
            tensors = tensors_of(values, model, [name for name, _ in request.outputs])
            return {"model_name": service.name, "model_version": str(version), "id": message.id,
                    "outputs": [{"name": spec.name, "datatype": spec.datatype, "shape": array.shape} for spec, array in tensors],
                    "raw_output_contents": [np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes() for _, array in tensors]}
        finally:
            reservation.release()


def request_of(message: Any, model: Model) -> Request:
    """Return what a message asks for."""
    raw, inputs = message.raw_input_contents, message.inputs
    most = sum(1 + feed.lod_level for feed in model.feeds)
    if len(inputs) > most:
        refuse(f"the request has {len(inputs)} inputs, the model {most}")
    if len(raw) not in (0, len(inputs)):
        refuse(f"the request has {len(inputs)} inputs and {len(raw)} raw_input_contents: of each one, or none")
    tensors = [_tensor(one, raw[i] if raw else None) for i, one in enumerate(inputs)]
    names = [one.name for one in message.outputs] if message.outputs else None
    return Request(feed_of(tensors, model), outputs_of(Wanted(names), model), message.id)


def _tensor(one: Any, raw: bytes | None) -> Tensor:
    """Return an input; ``raw`` are its bytes where it has no contents."""
    given, shape = [field.name for field, _ in one.contents.ListFields()], list(one.shape)
    if raw is not None:
        if given:
            refuse(f"input {one.name[:60]!r} has {given[0]}, and raw_input_contents, too")
        return Tensor(one.name, one.datatype, shape, raw)
    if one.datatype == "BYTES" and given in ([], ["bytes_contents"]):
        return Tensor(one.name, one.datatype, shape, packed(one.contents.bytes_contents))
    field, dtype = _WHOLE.get(one.datatype, (_WIDER.get(one.datatype), None))
    if field is None:
        refuse(f"input {one.name[:60]!r}: send {one.datatype[:20]!r} as raw_input_contents")
    if given not in ([], [field]):
        refuse(f"input {one.name[:60]!r} is of the datatype {one.datatype}, whose values are {field}, got {given[0]}")
    values = getattr(one.contents, field)
    return Tensor(one.name, one.datatype, shape, list(values) if dtype is None else np.array(values, dtype).tobytes())
