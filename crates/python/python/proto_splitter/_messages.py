"""Protobuf messages of any size, which are serialized in pieces and parsed in parts.

A submessage over 2 GiB can exist in memory, but protobuf for Python can't serialize it, or produces
bytes that protobuf can't parse. This module serializes a message of any size element by element,
and parses it by merging each part into the submessage to which the part belongs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, Union, cast

from . import _core
from ._errors import FormatError

# These types are ``Any``, since protobuf's types differ between its versions and backends.
Message: TypeAlias = Any
FieldDescriptor: TypeAlias = Any

#: The serialized bytes of a message, either in memory or read on access.
View: TypeAlias = Union[memoryview, "Window"]

#: A part of a serialized message: bytes, or a span (offset, length) of the temporary file.
Piece: TypeAlias = bytes | memoryview | tuple[int, int]

#: Maximum length of a list whose elements may be large. The elements of a longer list are assumed
#: to be small, so the first attempt is to serialize each of them as a whole.
_LONG_LIST = 4096
#: Messages smaller than this, in bytes, are parsed by protobuf in one piece: 1 GiB.
_WHOLE = 1 << 30
#: Fields smaller than this, in bytes, are parsed together with adjacent fields: 16 MiB.
_SMALL = 16 << 20
#: Approximate size of the pieces in which a message that isn't in memory is parsed: 64 MiB.
_RUN = 64 << 20
#: Number of bytes to copy at once: 16 MiB.
_STEP = 16 << 20

_VARINT, _I64, _LEN, _SGROUP, _EGROUP, _I32 = range(6)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _length(pieces: list[Piece]) -> int:
    return sum(piece[1] if isinstance(piece, tuple) else len(piece) for piece in pieces)


def is_message(value: object) -> bool:
    """Returns true if a value is a protobuf message."""
    return hasattr(value, "DESCRIPTOR") and hasattr(value, "SerializePartialToString")


def _is_repeated(field: FieldDescriptor) -> bool:
    # protobuf 6 added `is_repeated`, and protobuf 7 removed `label`.
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == field.LABEL_REPEATED)


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return bool(kind and kind.GetOptions().map_entry and _is_repeated(field))


def _holds_lists(message: Message) -> bool:
    """Returns true if the message's type has repeated message fields, so it may have many parts."""
    fields = message.DESCRIPTOR.fields
    return any(field.message_type is not None and _is_repeated(field) for field in fields)


class _Spool:
    """Serialized data in an unnamed temporary file."""

    def __init__(self) -> None:
        import tempfile

        self.file: Any = tempfile.TemporaryFile()
        self.end = 0

    def add(self, *parts: bytes) -> Piece:
        start = self.end
        for part in parts:
            self.file.write(part)
            self.end += len(part)
        return start, self.end - start


def _extend(pieces: list[Piece], more: list[Piece]) -> None:
    """Appends pieces to a list, and joins adjacent spans of the temporary file."""
    for piece in more:
        last = pieces[-1] if pieces else b""
        if isinstance(piece, tuple) and isinstance(last, tuple) and sum(last) == piece[0]:
            pieces[-1] = (last[0], last[1] + piece[1])
        else:
            pieces.append(piece)


class Writer:
    """A serializer that produces pieces. Fields are ordered by number, as in protobuf's output."""

    def __init__(self) -> None:
        self.spool = _Spool()

    def whole(self, message: Message) -> bytes | None:
        """Returns the serialized message, or ``None`` if it must be serialized field by field."""
        return _whole(message)

    def value(self, data: bytes) -> bytes | memoryview:
        """Returns the bytes to write for a bytes field's value. A ``memoryview`` isn't copied."""
        return data

    def message(self, message: Message) -> list[Piece]:
        pieces: list[Piece] = []
        for field, value in message.ListFields():
            if field.message_type is None:
                _extend(pieces, self.scalar(message, field, value))
            elif _is_map(field):
                for entry in self.entries(message, field, value):
                    _extend(pieces, entry)
            elif _is_repeated(field):
                many = len(value) > _LONG_LIST
                for element in value:
                    _extend(pieces, self.element(field, element, whole_first=many))
            else:
                _extend(pieces, self.element(field, value, whole_first=False))
        _extend(pieces, self.unknown(message))
        return pieces

    def element(self, field: FieldDescriptor, value: Message, whole_first: bool) -> list[Piece]:
        group = field.type == field.TYPE_GROUP
        if whole_first or not _holds_lists(value):
            data = self.whole(value)
            if data is not None and group:
                start, end = _tag(field.number, _SGROUP), _tag(field.number, _EGROUP)
                return [self.spool.add(start, data, end)]
            if data is not None:
                header = _tag(field.number, _LEN) + _varint(len(data))
                return [self.spool.add(header, data)]
        content = self.message(value)
        if group:
            return [_tag(field.number, _SGROUP), *content, _tag(field.number, _EGROUP)]
        return [_tag(field.number, _LEN) + _varint(_length(content)), *content]

    def scalar(self, message: Message, field: FieldDescriptor, value: Any) -> list[Piece]:
        """Encodes a field without messages: strings and bytes directly, numbers with protobuf."""
        pieces: list[Piece] = []
        if field.type in (field.TYPE_BYTES, field.TYPE_STRING):
            for one in value if _is_repeated(field) else [value]:
                data = self.value(one) if isinstance(one, bytes) else one.encode()
                header = _tag(field.number, _LEN) + _varint(len(data))
                if isinstance(data, memoryview):
                    _extend(pieces, [header, data])
                else:
                    _extend(pieces, [self.spool.add(header, data)])
            return pieces
        alone = type(message)()
        if _is_repeated(field):
            _list(alone, field).extend(value)
        else:
            _set(alone, field, value)
        return [self.spool.add(alone.SerializePartialToString())]

    def entries(
        self, message: Message, field: FieldDescriptor, values: Any
    ) -> Iterator[list[Piece]]:
        kind = field.message_type.fields_by_number[2]
        for key in values:
            alone = type(message)()
            entries = getattr(alone, field.name)
            if kind.message_type is None:
                entries[key] = values[key]
                yield [self.spool.add(alone.SerializePartialToString())]
                continue
            entries[key].SetInParent()
            written = memoryview(alone.SerializePartialToString())
            _, start = _read_varint(written, len(_tag(field.number, _LEN)))
            # The encoded entry ends with an empty value (12 00), which isn't part of the key.
            key_bytes = bytes(written[start:-2])
            body: list[Piece] = [key_bytes, *self.element(kind, values[key], whole_first=True)]
            yield [_tag(field.number, _LEN) + _varint(_length(body)), *body]

    def unknown(self, message: Message) -> list[Piece]:
        return [self.spool.add(data) for data in _encoded(_unknown_fields(message))]


def _unknown_fields(message: Message) -> Any:
    try:
        from google.protobuf import unknown_fields
    except ImportError:  # protobuf 3.20
        return message.UnknownFields()
    return unknown_fields.UnknownFieldSet(message)


def class_of(descriptor: Any) -> Any:
    """Returns the Python class for a message descriptor."""
    from google.protobuf import message_factory

    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    factory: Any = message_factory.MessageFactory()
    return factory.GetPrototype(descriptor)  # protobuf 3.20


def _whole(message: Message) -> bytes | None:
    """Returns the serialized message; ``None`` if protobuf or its readers would reject it."""
    try:
        data: bytes = message.SerializePartialToString()
    except Exception:  # EncodeError in protobuf 7, ValueError or MemoryError before.
        return None
    return data if len(data) < 2**31 else None


def size_of(message: Message) -> int:
    """Returns the serialized size of a message in bytes, which can exceed protobuf's limit."""
    try:
        return int(message.ByteSize())
    except Exception:  # EncodeError, ValueError or MemoryError, depending on the version.
        pieces, spool = pieces_of(message)
        spool.close()
        return _length(pieces)


def _encoded(fields: Any) -> Iterator[bytes]:
    for field in fields:
        number, wire_type, data = field.field_number, field.wire_type, field.data
        if wire_type == _VARINT:
            yield _tag(number, wire_type) + _varint(data)
        elif wire_type == _I64:
            yield _tag(number, wire_type) + data.to_bytes(8, "little")
        elif wire_type == _I32:
            yield _tag(number, wire_type) + data.to_bytes(4, "little")
        elif wire_type == _LEN:
            yield _tag(number, wire_type) + _varint(len(data)) + data
        elif wire_type == _SGROUP:
            yield _tag(number, _SGROUP) + b"".join(_encoded(data)) + _tag(number, _EGROUP)


def _list(message: Message, field: FieldDescriptor) -> Any:
    return message.Extensions[field] if field.is_extension else getattr(message, field.name)


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    if field.is_extension:
        message.Extensions[field] = value
    else:
        setattr(message, field.name, value)


def pieces_of(message: Message) -> tuple[list[Piece], Any]:
    """Returns a serialized message as pieces, and the temporary file to which the pieces refer.

    In addition to the message, memory holds at most one element that is serialized as a whole.
    Fields are in the order of their numbers, as in protobuf's output.
    """
    writer = Writer()
    pieces = writer.message(message)
    writer.spool.file.flush()
    return pieces, writer.spool.file


def write_pieces(pieces: list[Piece], spool: Any, file: Any) -> None:
    """Writes pieces to a file in order. ``spool`` is the temporary file to which they refer."""
    for piece in pieces:
        if not isinstance(piece, tuple):
            for at in range(0, len(piece), _STEP):
                file.write(piece[at : at + _STEP])
            continue
        at, left = piece
        while left:
            data = os.pread(spool.fileno(), min(left, _STEP), at)
            if not data:
                raise OSError(f"the serialized message ends {left} bytes early")
            file.write(data)
            at, left = at + len(data), left - len(data)


def schema_of(message: Message | type[Message]) -> tuple[str, bytes]:
    """Returns the full name of a message's type, and a serialized ``FileDescriptorSet`` with it."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    seen: set[str] = set()

    def add(file: Any) -> None:
        if file.name in seen:
            return
        seen.add(file.name)
        for dependency in file.dependencies:
            add(dependency)
        file.CopyToProto(files.file.add())

    add(message.DESCRIPTOR.file)
    return message.DESCRIPTOR.full_name, files.SerializeToString()


def _read_varint(view: View, at: int) -> tuple[int, int]:
    """Returns the varint at an offset, and the offset of its end."""
    number = shift = 0
    while True:
        if at >= len(view) or shift > 63:
            raise FormatError(f"unterminated number at offset {at}")
        byte = view[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7


def _skip_group(view: View, at: int, number: int, depth: int) -> int:
    if depth > 100:
        raise FormatError(f"groups nest deeper than 100 at offset {at}")
    while True:
        tag, at = _read_varint(view, at)
        if tag & 7 == _EGROUP:
            if tag >> 3 != number:
                raise FormatError(f"end tag of another group at offset {at}")
            return at
        at = _skip(view, at, tag, depth)


def _skip(view: View, at: int, tag: int, depth: int = 0) -> int:
    """Returns the offset at which a field ends, given its tag and the offset after the tag."""
    wire_type = tag & 7
    if wire_type == _VARINT:
        return _read_varint(view, at)[1]
    if wire_type == _LEN:
        length, at = _read_varint(view, at)
        end = at + length
    elif wire_type == _SGROUP:
        return _skip_group(view, at, tag >> 3, depth + 1)
    elif wire_type in (_I64, _I32):
        end = at + (8 if wire_type == _I64 else 4)
    else:
        raise FormatError(f"invalid wire type {wire_type} at offset {at}")
    if end > len(view):
        raise FormatError(f"a field exceeds the message by {end - len(view)} bytes at offset {at}")
    return end


class Window:
    """A sequence of bytes that is read when an index or a slice is accessed.

    A slice returns bytes; ``part`` returns a window on a part of the sequence, without reading.
    """

    #: Number of bytes to read when a single byte is accessed: 64 KiB.
    _AHEAD = 64 << 10

    def __init__(
        self, source: _core.MergedReader, start: int, end: int, told: Callable[[int], object]
    ) -> None:
        self._source = source
        self._start = start
        self._end = end
        self._told = told
        self._near = memoryview(b"")
        self._near_at = 0

    @staticmethod
    def of(source: _core.MergedReader, progress: Callable[[int, int], object] | None) -> Window:
        """Returns a window on a whole source, which reports the bytes read to ``progress``."""
        total, pace = len(source), _Pace(progress)
        return Window(source, 0, total, lambda done: pace.tell(done, total))

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            start, end, _ = at.indices(len(self))
            return self._read(start, max(end - start, 0))
        if not self._near_at <= at < self._near_at + len(self._near):
            self._near = self._read(at, self._AHEAD)
            self._near_at = at
        return self._near[at - self._near_at]

    def part(self, start: int, end: int) -> Window:
        return Window(self._source, self._start + start, self._start + end, self._told)

    def _read(self, at: int, size: int) -> memoryview:
        start = self._start + at
        read = memoryview(self._source.read(start, min(size, self._end - start)))
        self._told(start + len(read))
        return read


class _Pace:
    """A progress callback that is called at most twenty times a second, and at the end."""

    def __init__(self, callback: Callable[[int, int], object] | None) -> None:
        self._callback = callback
        self._next = 0.0

    def tell(self, done: int, total: int) -> None:
        if self._callback is None:
            return
        now = time.monotonic()
        if done == total or now >= self._next:
            self._next = now + 0.05
            self._callback(done, total)


def _part(view: View, start: int, end: int) -> View:
    return view.part(start, end) if isinstance(view, Window) else view[start:end]


def _merge_run(message: Message, view: View, start: int, end: int) -> None:
    """Merges a range of bytes, which contains whole fields, into a message in one piece."""
    if end > start:
        message.MergeFromString(view[start:end])


def parse_into(message: Message, view: View) -> None:
    """Merges a serialized message of any size into ``message``, even if it has parts over 2 GiB.

    Raises:
        FormatError: If the bytes aren't a message.
        google.protobuf.message.DecodeError: If the bytes aren't a message of this type.
    """
    # Data that is read on access is parsed in small pieces, so that only one piece is in memory
    # twice.
    most = min(_WHOLE, _RUN) if isinstance(view, Window) else _WHOLE
    if len(view) < most:
        _merge_run(message, view, 0, len(view))
        return
    fields = message.DESCRIPTOR.fields_by_number
    start = at = 0
    while at < len(view):
        tag, value = _read_varint(view, at)
        end = _skip(view, value, tag)
        field = fields.get(tag >> 3)
        if end - at >= _SMALL and tag & 7 == _LEN and field is not None:
            _merge_run(message, view, start, at)
            length, content = _read_varint(view, value)
            part = _part(view, content, content + length)
            _merge_value(message, field, part, _part(view, at, end))
            start = end
        elif end - start >= most:
            _merge_run(message, view, start, end)
            start = end
        at = end
    _merge_run(message, view, start, at)


def _merge_value(message: Message, field: FieldDescriptor, content: View, whole: View) -> None:
    if field.message_type is None:
        if field.type not in (field.TYPE_BYTES, field.TYPE_STRING):
            message.MergeFromString(whole[:])  # packed numbers
            return
        data = content[:]
        value = bytes(data) if field.type == field.TYPE_BYTES else str(data, "utf-8")
        if _is_repeated(field):
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    elif _is_map(field):
        _merge_entry(message, field, content, whole)
    elif _is_repeated(field):
        parse_into(getattr(message, field.name).add(), content)
    else:
        part = getattr(message, field.name)
        part.SetInParent()
        parse_into(part, content)


def _merge_entry(message: Message, field: FieldDescriptor, content: View, whole: View) -> None:
    value_kind = field.message_type.fields_by_number[2]
    is_text = value_kind.type in (value_kind.TYPE_BYTES, value_kind.TYPE_STRING)
    if len(whole) < _WHOLE or not (is_text or value_kind.message_type):
        message.MergeFromString(whole[:])
        return
    # Parses the entry without its value to get the key, and then merges the value by key.
    small = bytearray()
    values: list[View] = []
    at = 0
    while at < len(content):
        tag, start = _read_varint(content, at)
        end = _skip(content, start, tag)
        if tag >> 3 == 2 and tag & 7 == _LEN:
            length, start = _read_varint(content, start)
            values.append(_part(content, start, start + length))
        else:
            small += content[at:end]
        at = end
    header = _tag(field.number, _LEN) + _varint(len(small)) + bytes(small)
    alone = type(message)()
    alone.MergeFromString(header)
    (key,) = getattr(alone, field.name)
    entries = getattr(message, field.name)
    if is_text:
        last = values[-1][:] if values else memoryview(b"")
        is_bytes = value_kind.type == value_kind.TYPE_BYTES
        entries[key] = bytes(last) if is_bytes else str(last, "utf-8")
        return
    message.MergeFromString(header)  # The last entry with a key replaces earlier ones.
    for value in values:
        parse_into(entries[key], value)


def source_of(message: Message) -> _core.Pieces:
    """Returns the serialized message as a source for the native module."""
    pieces, spool = pieces_of(message)
    # Only a subclass of `Writer` would produce pieces that are views.
    plain = cast("list[bytes | tuple[int, int]]", pieces)
    return _core.Pieces(os.dup(spool.fileno()), plain)
