"""Messages assembled from selected parts of an open file, so that large parts can be omitted."""

from __future__ import annotations

from typing import Any

from ._errors import SchemaError
from ._handle import File
from ._messages import _is_repeated


def field_of(path: str) -> str:
    """Returns the name of the last field on a path.

    >>> field_of("graph.node[3]")
    'node'
    """
    return path.rpartition(".")[2].partition("[")[0]


def merge_part(message: Any, file: File, path: str) -> None:
    """Merges the value at a path of a file into the field of ``message`` that is last on the path.

    Raises:
        SchemaError: If the message's type lacks this field, as it may in an older version of the
            package that defines the type.
    """
    field = message.DESCRIPTOR.fields_by_name.get(field_of(path))
    if field is None:
        name = message.DESCRIPTOR.full_name
        raise SchemaError(f"{path}: the installed {name} has no such field")
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


def merge_parts(message: Any, file: File, *, below: str) -> None:
    """Merges a file into ``message``, field by field.

    The submessage in the field ``below`` is also merged field by field.

    >>> import io, proto_splitter
    >>> from google.protobuf.descriptor_pb2 import FileDescriptorProto
    >>> whole = FileDescriptorProto(name="n", options={"java_package": "j"})
    >>> source, copy = io.BytesIO(whole.SerializeToString()), FileDescriptorProto()
    >>> with proto_splitter.open(source, *proto_splitter.schema_of(whole)) as file:
    ...     merge_parts(copy, file, below="options")
    >>> copy == whole
    True
    """
    for path, _ in file.fields():
        if field_of(path) != below:
            merge_part(message, file, path)
            continue
        getattr(message, below).SetInParent()
        for inner, _ in file.fields(path):
            merge_part(getattr(message, below), file, inner)
