"""Messages put together from parts of an open file, so that the large ones can be left out."""

from __future__ import annotations

from typing import Any

from ._handle import File
from ._messages import _is_repeated


def field_of(path: str) -> str:
    """The name of the field that a path of one step or more ends with.

    >>> field_of("graph.node[3]")
    'node'
    """
    return path.rpartition(".")[2].partition("[")[0]


def merge_part(message: Any, file: File, path: str) -> None:
    """Merges the value at a path into the field of ``message`` that the path ends with."""
    field = message.DESCRIPTOR.fields_by_name[field_of(path)]
    value = file.get(path)
    if field.message_type is not None:
        holder = getattr(message, field.name)
        part = holder.add() if _is_repeated(field) else holder
        part.MergeFromString(memoryview(value))
        if not _is_repeated(field):
            part.SetInParent()
    elif _is_repeated(field):
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)
