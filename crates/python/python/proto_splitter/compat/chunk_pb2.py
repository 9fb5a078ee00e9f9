"""A replacement for ``tensorflow.tools.proto_splitter.chunk_pb2``."""

from .._chunk_message import message_class

__all__ = ["ChunkInfo", "ChunkMetadata", "ChunkedField", "ChunkedMessage", "FieldIndex"]

ChunkInfo = message_class("ChunkInfo")
ChunkMetadata = message_class("ChunkMetadata")
ChunkedField = message_class("ChunkedField")
ChunkedMessage = message_class("ChunkedMessage")
FieldIndex = message_class("FieldIndex")
