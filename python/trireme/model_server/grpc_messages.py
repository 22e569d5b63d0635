"""The messages of the protocol over gRPC, as Python classes.

The table below is the protocol's definition (package ``inference``). The classes are made of it when they are first used: no compiler of
messages is needed, and no file is generated. They lie in a pool of their own, so that a client's classes of the same names can be loaded
beside them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..native.optional import load

_NAMED = ("name: string", "version: string")
_PARAMETERS = "parameters: map InferParameter"
_CONTENTS = "contents: InferTensorContents"
# Of each message its fields, numbered from 1 on.
MESSAGES: dict[str, tuple[str, ...]] = {
    "ServerLiveRequest": (), "ServerLiveResponse": ("live: bool",),
    "ServerReadyRequest": (), "ServerReadyResponse": ("ready: bool",),
    "ModelReadyRequest": _NAMED, "ModelReadyResponse": ("ready: bool",),
    "ServerMetadataRequest": (), "ServerMetadataResponse": (*_NAMED, "extensions: repeated string"),
    "ModelMetadataRequest": _NAMED,
    "TensorMetadata": ("name: string", "datatype: string", "shape: repeated int64"),
    "ModelMetadataResponse": ("name: string", "versions: repeated string", "platform: string", "inputs: repeated TensorMetadata",
                              "outputs: repeated TensorMetadata"),
    "InferParameter": ("bool_param: bool", "int64_param: int64", "string_param: string", "double_param: double", "uint64_param: uint64"),
    "InferTensorContents": ("bool_contents: repeated bool", "int_contents: repeated int32", "int64_contents: repeated int64",
                            "uint_contents: repeated uint32", "uint64_contents: repeated uint64", "fp32_contents: repeated float",
                            "fp64_contents: repeated double", "bytes_contents: repeated bytes"),
    "InferTensor": ("name: string", "datatype: string", "shape: repeated int64", _PARAMETERS, _CONTENTS),
    "InferRequestedOutputTensor": ("name: string", _PARAMETERS),
    "ModelInferRequest": ("model_name: string", "model_version: string", "id: string", _PARAMETERS, "inputs: repeated InferTensor",
                          "outputs: repeated InferRequestedOutputTensor", "raw_input_contents: repeated bytes"),
    "ModelInferResponse": ("model_name: string", "model_version: string", "id: string", _PARAMETERS, "outputs: repeated InferTensor",
                           "raw_output_contents: repeated bytes"),
}
CALLS = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")
SERVICE = "inference.GRPCInferenceService"


@cache
def classes() -> dict[str, Any]:
    """Return the class of each message."""
    pb2 = load("google.protobuf.descriptor_pb2", "trireme serve --grpc-port")
    pools = load("google.protobuf.descriptor_pool", "trireme serve --grpc-port")
    factory = load("google.protobuf.message_factory", "trireme serve --grpc-port")
    file = pb2.FileDescriptorProto(name="trireme/open_inference.proto", package="inference", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, text in enumerate(fields, 1):
            _add_field(pb2.FieldDescriptorProto, message, text, number)
    for message in file.message_type:
        if message.name == "InferParameter":           # one of them is set
            message.oneof_decl.add(name="parameter_choice")
            for field in message.field:
                field.oneof_index = 0
    pool = pools.DescriptorPool()
    pool.Add(file)
    return {name: factory.GetMessageClass(pool.FindMessageTypeByName(f"inference.{name}")) for name in MESSAGES}


def _add_field(kinds: Any, message: Any, text: str, number: int) -> None:
    """Add a field such as ``shape: repeated int64`` to a message."""
    name, _, what = text.partition(": ")
    *how, kind = what.split()
    field = message.field.add(name=name, number=number, label=kinds.LABEL_REPEATED if how else kinds.LABEL_OPTIONAL)
    if how == ["map"]:
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        _add_field(kinds, entry, "key: string", 1)
        _add_field(kinds, entry, f"value: {kind}", 2)
        kind = f"{message.name}.{entry.name}"
    if kind in ("bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "bytes"):
        field.type = getattr(kinds, f"TYPE_{kind.upper()}")
    else:
        field.type, field.type_name = kinds.TYPE_MESSAGE, f".inference.{kind}"
