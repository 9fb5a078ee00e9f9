"""Field tags and sizes, by the names that TensorFlow's splitter has for them.

A field tag leads from a message to what is in it: names or numbers of fields, and after the name of
a repeated field or a map an index or a key, as ``["meta_graphs", 0, "graph_def"]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from . import _chunk_message, _messages
from ._errors import PathError

__all__ = ["FieldTypes", "field_path", "format_bytes", "get_field", "get_field_tag", "is_repeated"]

#: A field tag, or one step of it.
FieldTypes: TypeAlias = str | int | bool | Sequence[str | int | bool]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
#: Which member of a map key a key of each of protobuf's types is.
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
    """A number of bytes as people read it.

    >>> format_bytes(512), format_bytes(1536), format_bytes(1 << 30)
    ('512B', '1.5KiB', '1GiB')
    """
    value, unit = float(b), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{round(value, 2):g}{_UNITS[unit]}"


def is_repeated(field_desc: Any) -> bool:
    """Whether a field is repeated, as a list or as a map."""
    return _messages._is_repeated(field_desc)


class _Step:
    """A field, and the index or key that follows it in a tag."""

    def __init__(self, field: Any, key: str | int | bool | None) -> None:
        self.field = field
        self.key = key


def _steps(descriptor: Any, fields: FieldTypes) -> list[_Step]:
    if isinstance(fields, (str, int)):
        fields = [fields]
    steps: list[_Step] = []
    at, parts = descriptor, list(fields)
    while parts:
        part = parts.pop(0)
        if at is None:
            raise PathError(f"{part!r}: what is before it in the field tag isn't a message")
        found = at.fields_by_name if isinstance(part, str) else at.fields_by_number
        if part not in found:
            raise PathError(f"{part!r}: {at.full_name} has no such field")
        field = found[part]
        key = parts.pop(0) if is_repeated(field) and parts else None
        steps.append(_Step(field, key))
        at = field.message_type
        if at is not None and at.GetOptions().map_entry:
            at = at.fields_by_name["value"].message_type
    return steps


def get_field(proto: Any, fields: FieldTypes) -> tuple[Any, Any]:
    """The value that a field tag leads to, and the field's descriptor.

    Raises:
        PathError: If it leads nowhere.
    """
    value, field = proto, None
    for step in _steps(proto.DESCRIPTOR, fields):
        field = step.field
        value = getattr(value, field.name)
        if step.key is not None:
            if _messages._is_map(field) and step.key not in value:
                raise PathError(f"{step.key!r}: there is no such key in {field.name}")
            try:
                value = value[step.key]
            except IndexError:
                message = f"{step.key}: {field.name} has {len(value)} elements"
                raise PathError(message) from None
    return value, field


def get_field_tag(proto: Any, fields: FieldTypes) -> list[Any]:
    """A field tag as the ``FieldIndex`` messages that a chunked file has.

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


def field_path(descriptor: Any, fields: FieldTypes) -> str:
    """A field tag as the text that :func:`proto_splitter.open` takes.

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
