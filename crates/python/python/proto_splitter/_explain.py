"""The largest parts of a message, and the distance of its size from protobuf's limit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core, _messages
from ._files import named
from ._functions import Progress

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ._files import Source

#: Maximum size of a message that protobuf serializes or parses, in bytes.
_LIMIT = 2**31 - 1
#: Maximum number of parts in an explanation.
_NAMED = 3
#: Number of elements of a repeated field to examine, the largest first.
_TOP = 10
#: Divisor of a repeated field's size: elements are listed individually if the largest one has at
#: least an eighth of the field's size.
_TELLING_SHARE = 8
#: Number of elements of a repeated field above which their fields aren't summed and listed.
_MOST_ELEMENTS = 1 << 20
#: Maximum length of a shown name, in characters.
_LONGEST_NAME = 60
#: Size of a fixed-width number, in bytes, by protobuf's number for the type.
_WIDTHS: dict[int, int] = {1: 8, 2: 4, 6: 8, 7: 4, 8: 1, 15: 4, 16: 8}


def _shown(size: int) -> str:
    """Formats a size in the largest suitable unit, as the command does."""
    if size < 1024:
        return f"{size} B"
    power, scale = 1, 1024
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while True:
        tenths = (size * 10 + scale // 2) // scale
        if tenths < 10_240 or power + 1 == len(units):
            return f"{tenths // 10}.{tenths % 10} {units[power]}"
        power, scale = power + 1, scale * 1024


@dataclass(frozen=True)
class LargePart:
    """A large part of a message: a value, or all values of a field."""

    #: Path of a value, or of all values of a field, with a ``[*]`` for each repeated field.
    path: str
    #: Size including tags and lengths, in bytes.
    size: int
    #: The name of a list's element: its field ``name``, or the string itself; ``None`` if none.
    name: str | None = None

    def __str__(self) -> str:
        text = f"{self.path} {_shown(self.size)}"
        if not self.name:
            return text
        name = self.name
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}..."
        return f"{text} ({json.dumps(name, ensure_ascii=False)[1:-1]})"


@dataclass(frozen=True, repr=False)
class Explanation:
    """The size of a message and its largest parts; prints as one line."""

    #: Size of the message, in bytes.
    size: int
    #: The up to three largest parts of the message, in descending order of size.
    largest: tuple[LargePart, ...]

    def __str__(self) -> str:
        parts = ", ".join(map(str, self.largest))
        return f"{_shown(self.size)}{f'; the largest: {parts}' if parts else ''}"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Limits:
    """The distance of a message's size from protobuf's limit of 2 GiB; prints as one line."""

    #: Size of the message, in bytes.
    size: int
    #: The up to three largest parts of the message, in descending order of size.
    largest: tuple[LargePart, ...]
    #: Maximum size of a message that protobuf serializes or parses, in bytes.
    limit: int = _LIMIT

    @property
    def left(self) -> int:
        """The number of bytes below the limit; negative if the message exceeds the limit."""
        return self.limit - self.size

    @property
    def fits(self) -> bool:
        """True if protobuf can serialize and parse the message in one piece."""
        return self.left >= 0

    def __str__(self) -> str:
        size, left = _shown(self.size), self.left
        where = f"{_shown(left)} below" if left >= 0 else f"{-left} bytes over"
        parts = ", ".join(map(str, self.largest))
        return f"{size}, {where} the limit of 2 GiB{f'; the largest: {parts}' if parts else ''}"

    __repr__ = __str__


def explain(
    source: Source | Message, *, message: str | None = None, progress: Progress | None = None
) -> Explanation:
    """Returns the three largest parts of a message, by path and size.

    Errors about messages that are too large name the same parts. A message in memory is measured
    without being serialized, so protobuf's limit doesn't apply. From a file, only the parts that
    are necessary to determine sizes are read.

    Args:
        source: A message of any size from any protobuf library; or a file, as for :func:`tree`.
        message: The type of the message in a file, if the file doesn't name it.
        progress: Called with the bytes done and the total while a file is read.

    Raises:
        OSError: If the file doesn't exist.
        Error: If the file is damaged.
    """
    live = _live(source)
    if live is not None:
        fields = _fields_of("", live)
        size = sum(part.size for part in fields) + _unknown_size(live)
        return Explanation(size, tuple(_largest(fields)))
    if not isinstance(source, (str, bytes)) and hasattr(source, "SerializeToString"):
        # The messages of such a library have no descriptors, so fields are identified by number.
        source = source.SerializeToString()
    # The limits of this tree, ten elements of each field and 1% of the total size, never exclude
    # one of the three largest parts.
    with named(source) as name:
        report = _core.Tree(name, message, None, _TOP, None, progress).report()
    parts = report.get("largest", [])
    largest = (LargePart(part["path"], part["size"], part.get("name")) for part in parts)
    return Explanation(report["tree"]["size"], tuple(largest))


def limits(
    source: Source | Message, *, message: str | None = None, progress: Progress | None = None
) -> Limits:
    """Returns how far the size of a message is from 2 GiB, protobuf's limit.

    Args:
        source: A message of any size from any protobuf library; or a file, as for :func:`tree`.
        message: The type of the message in a file, if the file doesn't name it.
        progress: Called with the bytes done and the total while a file is read.

    Raises:
        OSError: If the file doesn't exist.
        Error: If the file is damaged.
    """
    explained = explain(source, message=message, progress=progress)
    return Limits(explained.size, explained.largest)


def _live(source: Any) -> Any:
    """Returns the protobuf message that this object is or wraps, or ``None``."""
    if _messages.is_message(source):
        return source
    wrapped = getattr(source, "_pb", None)  # proto-plus
    return wrapped if _messages.is_message(wrapped) else None


@dataclass
class _Part:
    """A candidate for a large part. ``inside`` returns smaller parts that replace it, if any."""

    path: str
    size: int
    inside: Callable[[], list[_Part]]
    name: str | None = None


def _nothing() -> list[_Part]:
    return []


def _largest(fields: list[_Part]) -> list[LargePart]:
    """Returns the largest parts of a message with these fields, by the rules of ``protosplit``."""
    open_parts, found = list(fields), list[LargePart]()
    while open_parts and len(found) < _NAMED:
        open_parts.sort(key=lambda part: (-part.size, part.path))
        part = open_parts.pop(0)
        inside = part.inside()
        if inside:
            open_parts += inside
        else:
            found.append(LargePart(part.path, part.size, part.name))
    return found


#: A path without ``[*]``, and the value at this path; (key, value) for a map entry.
_Value = tuple[str, Any]


def _join(path: str, field: Any, index: str = "") -> str:
    step = f"({field.full_name})" if field.is_extension else field.name
    return f"{path}{'.' if path else ''}{step}{index}"


def _fields_of(path: str, message: Any) -> list[_Part]:
    """Returns the fields of one message as parts."""
    fields = message.ListFields()
    return [_part(path, field, [(path, message, value)], True) for field, value in fields]


def _part(above: str, field: Any, holders: list[tuple[str, Any, Any]], single: bool) -> _Part:
    """Returns all values of a field as one part. ``holders`` are the messages with the field."""
    repeated = _messages._is_repeated(field)
    path = _join(above, field, "[*]" if repeated else "")
    elements = _is_text(field) or field.message_type is not None
    if not elements:
        size = sum(_scalar_size(field, holder, value) for _, holder, value in holders)
        return _Part(path, size, _nothing)
    members = [member for holder in holders for member in _members(field, *holder)]
    sizes = [_member_size(field, value) for _, value in members]
    total = sum(sizes)

    def inside() -> list[_Part]:
        if repeated and len(members) == 1:
            at, value = members[0]
            content = _content(field, value)
            parts = _fields_of(at, content) if content is not None else []
            return parts or [_member(field, members[0], sizes[0], within=False)]
        if repeated and max(sizes) * _TELLING_SHARE >= total:
            order = sorted(range(len(members)), key=lambda at: -sizes[at])[:_TOP]
            return [_member(field, members[at], sizes[at]) for at in order]
        contents = [(at, _content(field, value)) for at, value in members]
        if contents[0][1] is None or len(contents) > _MOST_ELEMENTS:
            return []
        if single and not repeated:
            return _fields_of(path, contents[0][1])
        parts = _fields_of_all(path, contents)
        return parts if any(part.size * 2 >= total for part in parts) else []

    return _Part(path, total, inside)


def _fields_of_all(path: str, messages: list[_Value]) -> list[_Part]:
    """Returns the fields of many messages as parts, one part for each field of all messages."""
    fields: dict[int, tuple[Any, list[tuple[str, Any, Any]]]] = {}
    for at, message in messages:
        for field, value in message.ListFields():
            fields.setdefault(field.number, (field, []))[1].append((at, message, value))
    return [_part(path, field, holders, False) for field, holders in fields.values()]


def _members(field: Any, path: str, holder: Any, value: Any) -> Iterator[_Value]:
    """Yields the elements of a field in one message. Map entries are yielded as (key, value)."""
    if not _messages._is_repeated(field):
        yield _join(path, field), value
    elif _messages._is_map(field):
        for key in value:
            text = json.dumps(key, ensure_ascii=False)
            yield _join(path, field, f"[{text}]"), (key, value[key])
    else:
        for index, element in enumerate(value):
            yield _join(path, field, f"[{index}]"), element


def _member(field: Any, member: _Value, size: int, within: bool = True) -> _Part:
    """Returns an element as a part that is divided into the elements inside it, not its fields."""
    path, value = member
    content = _content(field, value)

    def inside() -> list[_Part]:
        parts = list(_outermost(path, content)) if content is not None else []
        return parts if sum(part.size for part in parts) * 2 >= size else []

    return _Part(path, size, inside if within else _nothing, _name(field, value))


def _outermost(path: str, message: Any) -> Iterator[_Part]:
    """Yields the largest elements of a message, without the elements inside other elements."""
    for field, value in _fields_with_elements(message):
        if field.message_type is None and not _is_text(field):
            continue
        if _messages._is_repeated(field):
            members = list(_members(field, path, message, value))
            parts = [_member(field, one, _member_size(field, one[1])) for one in members]
            yield from sorted(parts, key=lambda part: -part.size)[:_TOP]
        elif field.message_type is not None:
            yield from _outermost(_join(path, field), value)


def _fields_with_elements(message: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the fields that may contain elements.

    Other fields aren't accessed, since they may be large and an access would copy them.
    """
    if message.DESCRIPTOR.is_extendable:
        yield from message.ListFields()
        return
    for field in message.DESCRIPTOR.fields:
        if _messages._is_repeated(field):
            value = getattr(message, field.name)
            if len(value):
                yield field, value
        elif field.message_type is not None and message.HasField(field.name):
            yield field, getattr(message, field.name)


def _content(field: Any, value: Any) -> Any:
    """Returns the message in a member: the element, or the value of a map entry; else ``None``."""
    if _messages._is_map(field):
        kind = field.message_type.fields_by_number[2]
        return value[1] if kind.message_type is not None else None
    return value if field.message_type is not None else None


def _name(field: Any, value: Any) -> str | None:
    """Returns an element's name: its field ``name``, or the element itself if it is a string."""
    if _messages._is_map(field) or not _messages._is_repeated(field):
        return None
    if isinstance(value, str):
        return value
    if field.message_type is None:
        return None
    named = field.message_type.fields_by_name.get("name")
    is_text = named is not None and named.type == named.TYPE_STRING
    if not is_text or _messages._is_repeated(named):
        return None
    return str(value.name) or None


def _is_text(field: Any) -> bool:
    return field.type in (field.TYPE_BYTES, field.TYPE_STRING)


def _delimited(number: int, length: int) -> int:
    """Returns the size of a field whose value has this length, including tag and length prefix."""
    return len(_messages._tag(number, 2)) + len(_messages._varint(length)) + length


def _value_size(field: Any, value: Any) -> int:
    """Returns the size of a message, string or bytes value, including tag and length."""
    if field.message_type is None:
        length = len(value) if isinstance(value, bytes) else len(value.encode())
        return _delimited(field.number, length)
    if field.type == field.TYPE_GROUP:
        return 2 * len(_messages._tag(field.number, 3)) + _size(value)
    return _delimited(field.number, _size(value))


def _member_size(field: Any, value: Any) -> int:
    """Returns the size of an element or map entry, including tag and length."""
    if not _messages._is_map(field):
        return _value_size(field, value)
    kinds = field.message_type.fields_by_number
    entry = sum(
        _value_size(kind, one)
        if kind.message_type is not None or _is_text(kind)
        else len(_messages._tag(kind.number, 0)) + _number_size(kind, one)
        for kind, one in zip((kinds[1], kinds[2]), value)
    )
    return _delimited(field.number, entry)


def _number_size(field: Any, number: Any) -> int:
    width = _WIDTHS.get(field.type)
    if width is not None:
        return width
    encoded: int = int(number)
    if field.type in (field.TYPE_SINT32, field.TYPE_SINT64):
        encoded = encoded << 1 if encoded >= 0 else (-encoded << 1) - 1
    # A negative number is encoded in 64 bits.
    return max(((encoded & (2**64 - 1)).bit_length() + 6) // 7, 1)


def _scalar_size(field: Any, holder: Any, value: Any) -> int:
    """Returns the size of a number or a list of numbers, including tags."""
    tag = len(_messages._tag(field.number, 0))
    if not _messages._is_repeated(field):
        return tag + _number_size(field, value)
    width = _WIDTHS.get(field.type)
    numbers = (
        width * len(value)
        if width is not None
        else sum(_number_size(field, number) for number in value)
    )
    return _delimited(field.number, numbers) if _is_packed(field) else tag * len(value) + numbers


def _is_packed(field: Any) -> bool:
    if hasattr(field, "is_packed"):
        return bool(field.is_packed)
    options = field.GetOptions()
    if options.HasField("packed"):
        return bool(options.packed)
    return getattr(field.file, "syntax", "proto3") == "proto3"


def _size(message: Any) -> int:
    """Returns the size of a message, which may exceed protobuf's limit."""
    try:
        return int(message.ByteSize())
    except Exception:  # EncodeError, ValueError or MemoryError, depending on the version.
        fields = message.ListFields()
        known = sum(_field_size(message, field, value) for field, value in fields)
        return known + _unknown_size(message)


def _unknown_size(message: Any) -> int:
    return sum(len(data) for data in _messages._encoded(_messages._unknown_fields(message)))


def _field_size(message: Any, field: Any, value: Any) -> int:
    if field.message_type is None and not _is_text(field):
        return _scalar_size(field, message, value)
    members = _members(field, "", message, value)
    return sum(_member_size(field, one) for _, one in members)
