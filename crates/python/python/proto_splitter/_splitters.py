"""Splitters to be subclassed in Python, and built-in splitters, with TensorFlow's names."""

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
    """A splitter that divides a message into chunks, in memory or in a file."""

    @property
    def version_def(self) -> Any:
        """The ``VersionDef`` of the files that this splitter writes. A subclass may change it.

        A reader has a version of its own. It rejects a file whose ``join_version`` is higher, or
        whose ``bad_consumers`` contain the reader's version. ``splitter_version`` is the version of
        the splitter.
        """
        return _chunk_message.message_class("VersionDef")(splitter_version=1, join_version=0)

    @abc.abstractmethod
    def split(self) -> tuple[Sequence[Message | bytes], Any]:
        """Returns the chunks, and a ``ChunkedMessage`` that describes the field of each chunk."""

    @abc.abstractmethod
    def write(self, file_prefix: str | os.PathLike[str]) -> str:
        """Writes the chunks to a file and returns its path."""


class _Added:
    """A chunk, and the field tag of its contents; ``None`` for the remaining message."""

    def __init__(self, chunk: Message | bytes, tags: list[Any] | None) -> None:
        self.chunk = chunk
        self.tags = tags


class ComposableSplitter(Splitter):
    """A splitter whose ``build_chunks`` adds chunks, either directly or with other splitters.

    Each chunk has a field tag, which selects the field into which the chunk is merged. After adding
    a chunk, remove its value from the message; or omit the remaining message from the chunks with
    ``proto_as_initial_chunk=False``::

        class LayerSplitter(ps.ComposableSplitter):
            def build_chunks(self):
                self.add_chunk(self._proto.weights, ["weights"])
                self._proto.ClearField("weights")

    Args:
        proto: The protobuf message to split, which ``build_chunks`` may change.
        proto_as_initial_chunk: Makes the remaining message the first chunk.
        parent_splitter: Another splitter, which receives the chunks of this one.
        fields_in_parent: The field tag of ``proto`` in the message of ``parent_splitter``.
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
        self._parent_splitter = parent_splitter
        self._fields_in_parent = fields_in_parent
        self._is_built = False
        #: The chunks in their final order; `_added` has them in the order in which they were added.
        self._order = [_Added(proto, None)] if proto_as_initial_chunk else []
        self._added: list[_Added] = []

    def build_chunks(self) -> Any:
        """Adds the chunks, with :meth:`add_chunk` or with splitters whose parent is this one."""

    def add_chunk(
        self, chunk: Message | bytes, field_tags: util.FieldTypes, index: int | None = None
    ) -> None:
        """Adds a chunk: a message, or the value of a bytes or string field.

        A message isn't copied, so the chunk includes changes that are made to the message before
        :meth:`split` or :meth:`write` is called.

        Args:
            chunk: A protobuf message, or bytes.
            field_tags: The field tag of the chunk in ``proto``; see :mod:`proto_splitter.util`.
            index: The index at which the chunk is inserted among the chunks; by default, the chunk
                is added at the end.

        :meth:`write` fails for chunks that a file can't contain: a number; an element of a repeated
        field of bytes or strings, in TensorFlow's profile; or a chunk whose index leaves a gap.

        Raises:
            PathError: If the message has no such field.
        """
        tags = util.as_list(field_tags)
        if self._parent_splitter is not None:
            outer = util.as_list(self._fields_in_parent)  # type: ignore[arg-type]
            self._parent_splitter.add_chunk(chunk, [*outer, *tags], index)
            return
        util.field_path(self._proto.DESCRIPTOR, tags)
        added = _Added(chunk, tags)
        first = sum(one.tags is None for one in self._order)
        at = len(self._order) if index is None else max(index, first)
        self._order.insert(at, added)
        self._added.append(added)

    def _build(self, method: str) -> None:
        """Calls ``build_chunks``, but only once. ``method`` is the caller, for an error message."""
        if self._parent_splitter is not None:
            raise ValueError(
                f"a child splitter's `{method}` method should not be called directly: its chunks "
                f"are its parent's"
            )
        if not self._is_built:
            self.build_chunks()
            self._is_built = True

    def split(self) -> tuple[Sequence[Message | bytes], Any]:
        """Returns the chunks, and a ``ChunkedMessage`` that describes the field of each chunk.

        Raises:
            ValueError: If this splitter has a parent.
        """
        self._build("split")
        place = {id(one): at for at, one in enumerate(self._order)}
        message = _chunk_message.message_class("ChunkedMessage")()
        if any(one.tags is None for one in self._order):
            message.chunk_index = 0
        for one in self._added:
            tags = util.get_field_tag(self._proto, one.tags or [])
            field = message.chunked_fields.add(field_tag=tags)
            field.message.chunk_index = place[id(one)]
        return [one.chunk for one in self._order], message

    def write(
        self, file_prefix: str | os.PathLike[str], writer_options: str | None = None
    ) -> str:
        """Writes ``PREFIX.cpb``, or ``PREFIX.pb`` if nothing was split, and returns its path.

        Args:
            file_prefix: The path without its extension. An existing file is replaced.
            writer_options: A compression that :func:`proto_splitter.split` accepts, or a Riegeli
                option string, such as ``transpose,brotli:5``.

        Raises:
            OSError: If the file can't be written.
            ValueError: If this splitter has a parent.
            UncuttableError: If a chunk is over :func:`proto_splitter.constants.max_size`.
        """
        self._build("write")
        descriptor = self._proto.DESCRIPTOR
        added = []
        for one in self._order:
            if one.tags is not None:
                is_message = _messages.is_message(one.chunk)
                data = _serialized(one.chunk) if is_message else bytes(one.chunk)
                added.append((data, util.field_path(descriptor, one.tags), is_message, None))
        has_base = len(added) < len(self._order) or not added
        left = self._proto if has_base else type(self._proto)()
        name, schema = _messages.schema_of(self._proto)
        version = self.version_def
        arguments = _functions.split_arguments(
            max_chunk_size=constants.max_size(),
            records=writer_options,
            force=True,
            added=added,
            has_base=has_base,
            version=(
                version.splitter_version,
                version.join_version,
                list(version.bad_consumers),
            ),
        )
        source = _messages.source_of(left)
        written = _core.split(source, os.fspath(file_prefix), name, schema, arguments, None)
        return _functions.written_of(written).path


def _serialized(message: Message) -> bytes:
    pieces, spool = _messages.pieces_of(message)
    out = io.BytesIO()
    with spool:
        _messages.write_pieces(pieces, spool, out)
    return out.getvalue()


def _parse_chunks(chunks: list[Any], message: Any, kind: type[Message]) -> None:
    """Parses the chunks that are messages, and puts the messages in their place in ``chunks``.

    Args:
        chunks: All chunks.
        message: The ``ChunkedMessage`` that describes the chunks.
        kind: The class of the message that the chunks are parts of.
    """
    if message.HasField("chunk_index"):
        chunks[message.chunk_index] = kind.FromString(chunks[message.chunk_index])
    for field in message.chunked_fields:
        descriptor = util.message_type_at(kind.DESCRIPTOR, field.field_tag)
        if descriptor is not None:
            _parse_chunks(chunks, field.message, _messages.class_of(descriptor))


class _BuiltIn(Splitter):
    """The base class of built-in splitters, each for messages of one type."""

    _TYPE: str

    def __init__(self, proto: Message) -> None:
        if proto.DESCRIPTOR.full_name != self._TYPE:
            raise SchemaError(f"expected a {self._TYPE}, found a {proto.DESCRIPTOR.full_name}")
        self._proto = proto

    def split(self) -> tuple[Sequence[Message | bytes], Any]:
        """Returns the chunks, and a ``ChunkedMessage`` that describes the field of each chunk."""
        name, schema = _messages.schema_of(self._proto)
        arguments = _functions.split_arguments(max_chunk_size=constants.max_size())
        source = _messages.source_of(self._proto)
        buffers, serialized = _core.split_in_memory(source, name, schema, arguments)
        message = _chunk_message.message_class("ChunkedMessage").FromString(serialized)
        chunks: list[Message | bytes] = [bytes(buffer) for buffer in buffers]
        _parse_chunks(chunks, message, type(self._proto))
        return chunks, message

    def write(
        self, file_prefix: str | os.PathLike[str], writer_options: str | None = None
    ) -> str:
        """Writes ``PREFIX.cpb``, or ``PREFIX.pb`` for a small message, and returns its path.

        Raises:
            OSError: If the file can't be written.
        """
        return _functions.split(
            self._proto,
            file_prefix,
            max_chunk_size=constants.max_size(),
            records=writer_options,
            force=True,
        ).path


class GraphDefSplitter(_BuiltIn):
    """A splitter for a ``tensorflow.GraphDef``, given as a protobuf message."""

    _TYPE = "tensorflow.GraphDef"


class SavedModelSplitter(_BuiltIn):
    """A splitter for a ``tensorflow.SavedModel``, given as a protobuf message."""

    _TYPE = "tensorflow.SavedModel"
