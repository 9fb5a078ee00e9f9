"""The classes of the messages in ``proto_splitter/transfer/transfer.proto``."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .. import _core


def _add() -> Any:
    files = descriptor_pb2.FileDescriptorSet.FromString(_core.transfer_descriptors())
    pool: Any = descriptor_pool.Default()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool.FindFileByName("proto_splitter/transfer/transfer.proto")


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name[name])


DESCRIPTOR = _add()
Frame = _message("Frame")
Begin = _message("Begin")
Data = _message("Data")
End = _message("End")
ResumeToken = _message("ResumeToken")
ErrorDetail = _message("ErrorDetail")
