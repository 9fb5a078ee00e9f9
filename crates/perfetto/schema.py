"""Writes src/schema.binpb, which has the names, numbers and types of Perfetto's fields, from the PyPI package `perfetto`, without
comments, options and other names. With --check, compares the existing file instead. Needs the packages perfetto and protobuf."""

import argparse
import pathlib
import sys

from google.protobuf import descriptor_pb2
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

SCHEMA = pathlib.Path(__file__).parent / "src/schema.binpb"


def plain(message):
    """Removes everything except names and what affects the wire format."""
    for field in [*message.field, *message.extension]:
        packed = field.options.packed
        field.ClearField("options")
        field.ClearField("json_name")
        if packed:
            field.options.packed = True
    for nested in message.nested_type:
        map_entry = nested.options.map_entry
        nested.ClearField("options")
        if map_entry:
            nested.options.map_entry = True
        plain(nested)
    for enum in message.enum_type:
        plain_enum(enum)
    message.ClearField("reserved_range")
    message.ClearField("reserved_name")


def plain_enum(enum):
    aliases = enum.options.allow_alias
    enum.ClearField("options")
    if aliases:
        enum.options.allow_alias = True
    enum.ClearField("reserved_range")
    enum.ClearField("reserved_name")
    for value in enum.value:
        value.ClearField("options")


def schema():
    file = descriptor_pb2.FileDescriptorProto()
    perfetto_trace_pb2.DESCRIPTOR.CopyToProto(file)
    file.ClearField("options")
    file.ClearField("source_code_info")
    for message in file.message_type:
        message.ClearField("options")
        plain(message)
    for enum in file.enum_type:
        plain_enum(enum)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(deterministic=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--check", action="store_true")
made = schema()
if not parser.parse_args().check:
    SCHEMA.write_bytes(made)
elif made != SCHEMA.read_bytes():
    sys.exit("crates/perfetto/src/schema.binpb isn't what the package perfetto has")
