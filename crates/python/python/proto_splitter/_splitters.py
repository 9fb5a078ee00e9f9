"""Splitters to subclass in Python, by the names that TensorFlow's splitter has."""

from __future__ import annotations

import abc
import io
import os
from collections.abc import Sequence
from typing import Any

from . import _chunk_message, _core, _functions, _messages, constants, util
from ._errors import SchemaError

Message = Any


class Splitter(abc.ABC):
    """What splits a message: to chunks in memory, or to a file."""

    @property
    def version_def(self) -> Any:
        """The ``VersionDef`` of the files that this splitter writes.

        Its ``splitter_version`` is the splitter's own number, which a subclass may change; readers
        don't decide by it. The rest is what the format says.
        """
        return _chunk_message.message_class("VersionDef")(splitter_version=1, join_version=0)

    @abc.abstractmethod
    def split(self) -> tuple[Sequence[Any], Any]:
        """The chunks, and the ``ChunkedMessage`` that says where each belongs."""

    @abc.abstractmethod
    def write(self, file_prefix: str | os.PathLike[str]) -> str:
        """Writes the chunks to a file and returns its path."""


class ComposableSplitter(Splitter):
    """A splitter whose ``build_chunks`` adds the chunks, by itself or by other splitters.

    A chunk is merged into what its field tag leads to. So what is added has to leave the message
    itself, or be left out with ``proto_as_initial_chunk=False``::

        class LayerSplitter(ps.ComposableSplitter):
            def build_chunks(self):
                self.add_chunk(self._proto.weights, ["weights"])
                self._proto.ClearField("weights")

    Args:
        proto: The message of protobuf for Python; ``build_chunks`` may change it.
        proto_as_initial_chunk: Whether what is left of the message is the first chunk.
        parent_splitter: The splitter that this one adds its chunks to.
        fields_in_parent: The field tag of this message in the parent's message.
    """

    def __init__(
        self,
        proto: Message,
        *,
        proto_as_initial_chunk: bool = True,
        parent_splitter: ComposableSplitter | None = None,
        fields_in_parent: util.FieldTypes | None = None,
    ) -> None:
        if (parent_splitter is None) != (fields_in_parent is None):
            raise ValueError("expected both parent_splitter and fields_in_parent, or neither")
        self._proto = proto
        self._proto_as_initial_chunk = proto_as_initial_chunk
        self._parent_splitter = parent_splitter
        self._fields_in_parent = fields_in_parent
        self._added: list[tuple[bytes, str, bool, int | None]] | None = None

    @abc.abstractmethod
    def build_chunks(self) -> Any:
        """Adds the chunks, with :meth:`add_chunk` or by splitters that have this one as parent."""

    def add_chunk(
        self, chunk: Message | bytes, field_tags: util.FieldTypes, index: int | None = None
    ) -> None:
        """Adds a chunk: a message, or the value of a field of bytes or text.

        Args:
            chunk: A message of protobuf, or bytes.
            field_tags: Where it belongs in this message; see :mod:`proto_splitter.util`.
            index: Its place among the chunks; the end unless given.

        What a file can't hold is found when it is split or written: a number as a chunk, an element
        of a repeated field of bytes or text in TensorFlow's profile, an index that leaves a gap.

        Raises:
            PathError: If the field tag leads nowhere.
        """
        tags = [field_tags] if isinstance(field_tags, (str, int)) else list(field_tags)
        path = util.field_path(self._proto.DESCRIPTOR, tags)
        if self._parent_splitter is not None and self._fields_in_parent is not None:
            outer = self._fields_in_parent
            outer = [outer] if isinstance(outer, (str, int)) else list(outer)
            self._parent_splitter.add_chunk(chunk, [*outer, *tags], index)
            return
        if self._added is None:
            self._added = []
        is_message = _messages.is_message(chunk)
        data = _serialized(chunk) if is_message else bytes(chunk)
        self._added.append((data, path, is_message, index))

    def _build(self) -> tuple[Any, str, bytes, list[tuple[bytes, str, bool, int | None]]]:
        """What the native half takes. The chunks are built once."""
        if self._parent_splitter is not None:
            raise ValueError("a splitter with a parent is written by that")
        if self._added is None:
            self._added = []
            self.build_chunks()
        name, schema = _messages.schema_of(self._proto)
        left = self._proto if self._proto_as_initial_chunk else type(self._proto)()
        return _messages.source_of(left), name, schema, self._added

    def split(self) -> tuple[Sequence[_core.Buffer], Any]:
        """The chunks, as buffers, and the ``ChunkedMessage`` that says where each belongs.

        Raises:
            ValueError: If this splitter has a parent.
            UncuttableError: If a chunk is over :func:`proto_splitter.constants.max_size`.
        """
        source, name, schema, added = self._build()
        arguments = _functions.split_arguments(
            max_chunk_size=constants.max_size(),
            added=added,
            version=self.version_def.splitter_version,
        )
        chunks, message = _core.split_in_memory(source, name, schema, arguments)
        return chunks, _chunk_message.message_class("ChunkedMessage").FromString(message)

    def write(
        self, file_prefix: str | os.PathLike[str], writer_options: str | None = None
    ) -> str:
        """Writes ``PREFIX.cpb``, or ``PREFIX.pb`` without chunks, and returns its path.

        Args:
            file_prefix: The path without its extension. A file that is there is replaced.
            writer_options: The compression, as :func:`proto_splitter.split` has it.

        Raises:
            OSError: If the file can't be written.
            ValueError: If this splitter has a parent.
            UncuttableError: If a chunk is over :func:`proto_splitter.constants.max_size`.
        """
        source, name, schema, added = self._build()
        arguments = _functions.split_arguments(
            max_chunk_size=constants.max_size(),
            compression=writer_options or "auto",
            force=True,
            added=added,
            version=self.version_def.splitter_version,
        )
        written = _core.split(source, os.fspath(file_prefix), name, schema, arguments, None)
        return _functions.written_of(written).path


def _serialized(message: Message) -> bytes:
    pieces, spool = _messages.pieces_of(message)
    out = io.BytesIO()
    with spool:
        _messages.write_pieces(pieces, spool, out)
    return out.getvalue()


class _BuiltIn(Splitter):
    """A splitter of this package for one type."""

    _TYPE: str

    def __init__(self, proto: Message) -> None:
        if proto.DESCRIPTOR.full_name != self._TYPE:
            raise SchemaError(f"expected a {self._TYPE}, found a {proto.DESCRIPTOR.full_name}")
        self._proto = proto

    def split(self) -> tuple[Sequence[_core.Buffer], Any]:
        """The chunks, as buffers, and the ``ChunkedMessage`` that says where each belongs."""
        name, schema = _messages.schema_of(self._proto)
        arguments = _functions.split_arguments(max_chunk_size=constants.max_size())
        source = _messages.source_of(self._proto)
        chunks, message = _core.split_in_memory(source, name, schema, arguments)
        return chunks, _chunk_message.message_class("ChunkedMessage").FromString(message)

    def write(
        self, file_prefix: str | os.PathLike[str], writer_options: str | None = None
    ) -> str:
        """Writes ``PREFIX.cpb``, or ``PREFIX.pb`` if nothing is large, and returns its path.

        Raises:
            OSError: If the file can't be written.
        """
        return _functions.split(
            self._proto,
            file_prefix,
            max_chunk_size=constants.max_size(),
            compression=writer_options or "auto",
            force=True,
        ).path


class GraphDefSplitter(_BuiltIn):
    """Splits a ``tensorflow.GraphDef``, as a message of protobuf for Python."""

    _TYPE = "tensorflow.GraphDef"


class SavedModelSplitter(_BuiltIn):
    """Splits a ``tensorflow.SavedModel``, as a message of protobuf for Python."""

    _TYPE = "tensorflow.SavedModel"
