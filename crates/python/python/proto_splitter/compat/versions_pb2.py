"""A replacement for ``tensorflow.tools.proto_splitter.versions_pb2``."""

from .._chunk_message import message_class

__all__ = ["VersionDef"]

VersionDef = message_class("VersionDef")
