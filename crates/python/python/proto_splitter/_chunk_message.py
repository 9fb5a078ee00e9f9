"""TensorFlow's ``ChunkMetadata`` and its nested messages, created on first use."""

from __future__ import annotations

from functools import cache
from typing import Any

from . import _messages

_PACKAGE = "tensorflow.proto_splitter"
#: Messages whose fields are all in one oneof: the name, number and type of each field.
_FIELD_INDEX = {
    "MapKey": [
        ("s", 1, "STRING"),
        ("boolean", 2, "BOOL"),
        ("ui32", 3, "UINT32"),
        ("ui64", 4, "UINT64"),
        ("i32", 5, "INT32"),
        ("i64", 6, "INT64"),
    ],
    "FieldIndex": [
        ("field", 1, "UINT32"),
        ("map_key", 2, ".FieldIndex.MapKey"),
        ("index", 3, "UINT64"),
    ],
}


def _add(message: Any, name: str, number: int, kind: str, **more: Any) -> None:
    field = message.field.add(name=name, number=number, **more)
    if kind.startswith("."):
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind}")


@cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    optional, repeated = 1, 3
    file = descriptor_pb2.FileDescriptorProto(
        name="proto_splitter/chunk.proto", package=_PACKAGE, syntax="proto2"
    )
    index = file.message_type.add(name="FieldIndex")
    for name, oneof, message in (
        ("MapKey", "type", index.nested_type.add(name="MapKey")),
        ("FieldIndex", "kind", index),
    ):
        message.oneof_decl.add(name=oneof)
        for field in _FIELD_INDEX[name]:
            _add(message, *field, label=optional, oneof_index=0)
    part = file.message_type.add(name="ChunkedField")
    _add(part, "field_tag", 1, ".FieldIndex", label=repeated)
    _add(part, "message", 3, ".ChunkedMessage", label=optional)
    whole = file.message_type.add(name="ChunkedMessage")
    _add(whole, "chunk_index", 1, "UINT64", label=optional)
    _add(whole, "chunked_fields", 2, ".ChunkedField", label=repeated)
    version = file.message_type.add(name="VersionDef")
    _add(version, "splitter_version", 1, "INT32", label=optional)
    _add(version, "join_version", 2, "INT32", label=optional)
    _add(version, "bad_consumers", 3, "INT32", label=repeated)
    info = file.message_type.add(name="ChunkInfo")
    kinds = info.enum_type.add(name="Type")
    for number, name in enumerate(("UNSET", "MESSAGE", "BYTES")):
        kinds.value.add(name=name, number=number)
    _add(info, "type", 1, ".ChunkInfo.Type", label=optional)
    info.field[-1].type = info.field[-1].TYPE_ENUM
    _add(info, "size", 2, "UINT64", label=optional)
    _add(info, "offset", 3, "UINT64", label=optional)
    metadata = file.message_type.add(name="ChunkMetadata")
    _add(metadata, "version", 1, ".VersionDef", label=optional)
    _add(metadata, "chunks", 2, ".ChunkInfo", label=repeated)
    _add(metadata, "message", 3, ".ChunkedMessage", label=optional)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


@cache
def message_class(name: str) -> Any:
    """Returns the class of a message by name: ``ChunkMetadata`` or one of its nested messages."""
    return _messages.class_of(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))
