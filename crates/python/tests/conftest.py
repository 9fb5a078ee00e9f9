"""A message type that is created at run time, and messages of this type, for all tests."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

F = descriptor_pb2.FieldDescriptorProto


def _field(message: Any, name: str, number: int, kind: int, **more: Any) -> None:
    label = F.LABEL_REPEATED if more.pop("repeated", False) else F.LABEL_OPTIONAL
    message.field.add(name=name, number=number, type=kind, label=label, **more)


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="test/tree.proto", package="test", syntax="proto2"
    )
    tree = file.message_type.add(name="Tree")
    _field(tree, "name", 1, F.TYPE_STRING)
    _field(tree, "data", 2, F.TYPE_BYTES)
    _field(tree, "child", 3, F.TYPE_MESSAGE, type_name=".test.Tree")
    _field(tree, "children", 4, F.TYPE_MESSAGE, type_name=".test.Tree", repeated=True)
    entry = tree.nested_type.add(name="ByKeyEntry")
    entry.options.map_entry = True
    _field(entry, "key", 1, F.TYPE_STRING)
    _field(entry, "value", 2, F.TYPE_MESSAGE, type_name=".test.Tree")
    _field(tree, "by_key", 5, F.TYPE_MESSAGE, type_name=".test.Tree.ByKeyEntry", repeated=True)
    _field(tree, "numbers", 6, F.TYPE_INT64, repeated=True)
    _field(tree, "values", 7, F.TYPE_DOUBLE, repeated=True, options={"packed": True})
    tree.nested_type.add(name="Part")
    part = tree.nested_type[-1]
    _field(part, "data", 1, F.TYPE_BYTES)
    _field(tree, "part", 8, F.TYPE_GROUP, type_name=".test.Tree.Part", repeated=True)
    counts = tree.nested_type.add(name="CountsEntry")
    counts.options.map_entry = True
    _field(counts, "key", 1, F.TYPE_INT32)
    _field(counts, "value", 2, F.TYPE_UINT32)
    _field(tree, "counts", 9, F.TYPE_MESSAGE, type_name=".test.Tree.CountsEntry", repeated=True)
    _field(tree, "signed", 10, F.TYPE_SINT64)
    _field(tree, "flag", 11, F.TYPE_BOOL)
    _field(tree, "ratio", 12, F.TYPE_FLOAT)
    _field(tree, "texts", 13, F.TYPE_STRING, repeated=True)
    return file


POOL = descriptor_pool.DescriptorPool()
POOL.Add(_file())
Tree: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("test.Tree"))


@pytest.fixture
def tree() -> Any:
    """Returns a message of about 40 KB with every kind of field."""
    root = Tree(name="root", signed=-7, flag=True, ratio=0.5)
    root.child.name = "child"
    root.child.data = b"c" * 5000
    for number in range(5):
        child = root.children.add(name=f"element {number}", data=bytes([number]) * 3000)
        child.numbers.extend(range(-2, number))
    root.by_key["a"].data = b"a" * 4000
    root.by_key[""].name = "of the empty key"
    root.by_key["b"].children.add(data=b"b" * 4000)
    root.values.extend([0.0, -1.5, 1e300])
    root.part.add().data = b"p" * 3000
    root.counts[-1] = 1
    root.counts[0] = 0
    root.texts.extend(["", "é" * 100])
    return root
