"""Functions on field tags and sizes. The names are those of TensorFlow's splitter.

A field tag selects a value in a message, as in ``["meta_graphs", 0, "graph_def"]``. It is a list of
fields, by name or number. A repeated field may be followed by an index, and a map by a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from . import _chunk_message, _messages
from ._errors import PathError

__all__ = ["FieldTypes", "field_path", "format_bytes", "get_field", "get_field_tag", "is_repeated"]

#: A field tag; or a single field, as the tag's only step.
FieldTypes: TypeAlias = str | int | bool | Sequence[str | int | bool]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
#: The field of ``MapKey`` for each type of map key, by protobuf's name for the type.
_MAP_KEYS = {
    "TYPE_STRING": "s",
    "TYPE_BOOL": "boolean",
    "TYPE_UINT32": "ui32",
    "TYPE_FIXED32": "ui32",
    "TYPE_UINT64": "ui64",
    "TYPE_FIXED64": "ui64",
    "TYPE_INT32": "i32",
    "TYPE_SINT32": "i32",
    "TYPE_SFIXED32": "i32",
    "TYPE_INT64": "i64",
    "TYPE_SINT64": "i64",
    "TYPE_SFIXED64": "i64",
}


def format_bytes(b: int) -> str:
    """Formats a number of bytes in the largest suitable unit.

    >>> format_bytes(512), format_bytes(1536), format_bytes(1 << 30)
    ('512B', '1.5KiB', '1GiB')
    """
    value, unit = float(b), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{round(value, 2):g}{_UNITS[unit]}"


def is_repeated(field_desc: Any) -> bool:
    """Returns true if a field is a list or a map, given its descriptor."""
    return _messages._is_repeated(field_desc)


def as_list(fields: FieldTypes) -> list[Any]:
    """Converts a field tag to a list of steps."""
    return [fields] if isinstance(fields, (str, int)) else list(fields)


class _Step:
    """A field in a tag, with the index or key that follows the field; ``None`` if there is none."""

    def __init__(self, field: Any, key: str | int | bool | None) -> None:
        self.field = field
        self.key = key


def _steps(descriptor: Any, fields: FieldTypes) -> list[_Step]:
    steps: list[_Step] = []
    at, parts = descriptor, as_list(fields)
    while parts:
        part = parts.pop(0)
        if at is None:
            name = descriptor.full_name
            raise PathError(f"Unable to find fields: {as_list(fields)} in proto of type {name}")
        found = at.fields_by_name if isinstance(part, str) else at.fields_by_number
        if part not in found or isinstance(part, bool):
            what = f"'{part}'" if isinstance(part, str) else f"number {part}"
            raise PathError(f"Unable to find field {what} in {at.full_name}")
        field = found[part]
        key = parts.pop(0) if is_repeated(field) and parts else None
        steps.append(_Step(field, key))
        at = field.message_type
        if at is not None and at.GetOptions().map_entry:
            at = at.fields_by_name["value"].message_type
    return steps


def get_field(proto: Any, fields: FieldTypes) -> tuple[Any, Any]:
    """Returns the value that a field tag selects in a message, and the descriptor of its field.

    The value is ``None`` if a list has no element with the index in the tag, or a map has no entry
    with the key. The descriptor is ``None`` for an empty tag.

    Raises:
        PathError: If a message type has no such field.
    """
    value, field = proto, None
    for step in _steps(proto.DESCRIPTOR, fields):
        field = step.field
        value = None if value is None else getattr(value, field.name)
        if step.key is None or value is None:
            continue
        # Looking up a missing key in a map of messages would add an entry.
        if _messages._is_map(field) and step.key not in value:
            value = None
            continue
        try:
            value = value[step.key]
        except IndexError:
            value = None
    return value, field


def get_field_tag(proto: Any, fields: FieldTypes) -> list[Any]:
    """Converts a field tag to ``FieldIndex`` messages, as in the metadata of a chunked file.

    Raises:
        PathError: If there is no such field.
    """
    index = _chunk_message.message_class("FieldIndex")
    tags = []
    for step in _steps(proto.DESCRIPTOR, fields):
        tags.append(index(field=step.field.number))
        if step.key is None:
            continue
        tag = index()
        if _messages._is_map(step.field):
            kind = step.field.message_type.fields_by_name["key"]
            names = {getattr(kind, name): member for name, member in _MAP_KEYS.items()}
            setattr(tag.map_key, names[kind.type], step.key)
        else:
            tag.index = step.key
        tags.append(tag)
    return tags


def message_type_at(descriptor: Any, tags: Sequence[Any]) -> Any:
    """Returns the descriptor of the message that ``FieldIndex`` messages select.

    Returns ``None`` if they select a value that isn't a message.
    """
    at = descriptor
    for tag in tags:
        if tag.WhichOneof("kind") == "field":
            at = at.fields_by_number[tag.field].message_type
        if at is not None and tag.WhichOneof("kind") == "map_key":
            at = at.fields_by_name["value"].message_type
    return at


def field_path(descriptor: Any, fields: FieldTypes) -> str:
    """Converts a field tag to a field path, which :meth:`proto_splitter.File.get` accepts.

    Raises:
        PathError: If there is no such field.
    """
    text = []
    for step in _steps(descriptor, fields):
        text.append(f".{step.field.name}")
        if isinstance(step.key, bool):
            text.append(f"[{str(step.key).lower()}]")
        elif isinstance(step.key, str):
            escaped = step.key.replace("\\", "\\\\").replace('"', '\\"')
            text.append(f'["{escaped}"]')
        elif step.key is not None:
            text.append(f"[{step.key}]")
    return "".join(text).removeprefix(".")
