"""Random message types, and random messages of these types."""

import random
import struct

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import FieldDescriptor as FD

SCALARS = [
    FD.TYPE_DOUBLE, FD.TYPE_FLOAT, FD.TYPE_INT64, FD.TYPE_UINT64, FD.TYPE_INT32, FD.TYPE_FIXED64, FD.TYPE_FIXED32,
    FD.TYPE_BOOL, FD.TYPE_STRING, FD.TYPE_BYTES, FD.TYPE_UINT32, FD.TYPE_SFIXED32, FD.TYPE_SFIXED64, FD.TYPE_SINT32,
    FD.TYPE_SINT64,
]
KEYS = [kind for kind in SCALARS if kind not in (FD.TYPE_DOUBLE, FD.TYPE_FLOAT, FD.TYPE_BYTES)]
KNOWN = ["Timestamp", "Duration", "Int64Value", "StringValue", "BoolValue", "DoubleValue", "UInt32Value", "BytesValue"]
RANGES = {
    FD.TYPE_INT64: (-(2**63), 2**63 - 1), FD.TYPE_SINT64: (-(2**63), 2**63 - 1), FD.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    FD.TYPE_UINT64: (0, 2**64 - 1), FD.TYPE_FIXED64: (0, 2**64 - 1),
    FD.TYPE_INT32: (-(2**31), 2**31 - 1), FD.TYPE_SINT32: (-(2**31), 2**31 - 1), FD.TYPE_SFIXED32: (-(2**31), 2**31 - 1),
    FD.TYPE_UINT32: (0, 2**32 - 1), FD.TYPE_FIXED32: (0, 2**32 - 1),
}


def types(seed):
    """Returns a pool with a type `Root { repeated Element elements }`, and its serialized descriptor set."""
    rng = random.Random(seed)
    file = descriptor_pb2.FileDescriptorProto(name=f"random{seed}.proto", package="random")
    file.syntax = rng.choice(["proto2", "proto3"])
    known = ["duration", "timestamp", "wrappers"]
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in known)
    shade = file.enum_type.add(name="Shade")
    for name, number in [("NONE", 0), ("LIGHT", 1), ("DARK", 300), ("BELOW", -7)]:
        shade.value.add(name=name, number=number)
    # A type may only contain earlier types, so no type contains itself.
    count = rng.randint(1, 4)
    for at in range(count):
        body(file, file.message_type.add(name=f"M{at}"), at, rng)
    root = file.message_type.add(name="Root")
    root.field.add(name="elements", number=rng.choice([1, 3, 17, 5000]), label=FD.LABEL_REPEATED, type=FD.TYPE_MESSAGE,
                   type_name=f".random.M{count - 1}")
    pool = descriptor_pool.DescriptorPool()
    files = [descriptor_pb2.FileDescriptorProto() for _ in known]
    for module, known_file in zip((duration_pb2, timestamp_pb2, wrappers_pb2), files):
        module.DESCRIPTOR.CopyToProto(known_file)
        pool.Add(known_file)
    pool.Add(file)
    described = descriptor_pb2.FileDescriptorSet(file=[*files, file])
    return pool, described.SerializeToString(), rng


def body(file, message, at, rng):
    used = set()
    oneof = False
    for index in range(rng.randint(1, 9)):
        number = rng.choice([rng.randint(1, 15), rng.randint(16, 2000), rng.randint(20000, 536870911)])
        if number in used:
            continue
        used.add(number)
        name = f"f{index}"
        roll = rng.random()
        if roll < 0.15:
            a_map(message, name, number, at, rng)
            continue
        repeated = roll < 0.35
        label = FD.LABEL_REPEATED if repeated else FD.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, label=label)
        kind(field, at, rng)
        numeric = field.type not in (FD.TYPE_MESSAGE, FD.TYPE_GROUP, FD.TYPE_STRING, FD.TYPE_BYTES)
        if repeated:
            if numeric and rng.random() < 0.5:
                field.options.packed = rng.random() < 0.5
        elif rng.random() < 0.3:
            if not oneof:
                message.oneof_decl.add(name="choice")
                oneof = True
            field.oneof_index = 0
    if file.syntax == "proto3":
        for field in message.field:
            free = field.label == FD.LABEL_OPTIONAL and not field.HasField("oneof_index") and field.type != FD.TYPE_MESSAGE
            if free and rng.random() < 0.3:
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")


def kind(field, at, rng):
    roll = rng.random()
    if roll < 0.25 and at > 0:
        field.type, field.type_name = FD.TYPE_MESSAGE, f".random.M{rng.randrange(at)}"
    elif roll < 0.4:
        field.type, field.type_name = FD.TYPE_MESSAGE, f".google.protobuf.{rng.choice(KNOWN)}"
    elif roll < 0.5:
        field.type, field.type_name = FD.TYPE_ENUM, ".random.Shade"
    else:
        field.type = rng.choice(SCALARS)


def a_map(message, name, number, at, rng):
    entry = message.nested_type.add(name=name.capitalize() + "Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=FD.LABEL_OPTIONAL, type=rng.choice(KEYS))
    kind(entry.field.add(name="value", number=2, label=FD.LABEL_OPTIONAL), at, rng)
    message.field.add(name=name, number=number, label=FD.LABEL_REPEATED, type=FD.TYPE_MESSAGE, type_name=entry.name)


def value(field, rng):
    """Returns a random value for a field that isn't a message."""
    if field.type in RANGES:
        low, high = RANGES[field.type]
        return rng.choice([0, 1, low, high, rng.randint(low, high), rng.randint(max(low, -300), 300)])
    if field.type == FD.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == FD.TYPE_DOUBLE:
        return rng.choice([0.0, -0.5, 1e300, rng.gauss(0, 1e6)])
    if field.type == FD.TYPE_FLOAT:
        return struct.unpack("<f", struct.pack("<f", rng.gauss(0, 1e6)))[0]
    if field.type == FD.TYPE_STRING:
        return "".join(rng.choice("ab\n,\"é漢🙂 ") for _ in range(rng.choice([0, 1, 5, 200])))
    if field.type == FD.TYPE_BYTES:
        return rng.randbytes(rng.choice([0, 1, 9, 300]))
    numbers = [known.number for known in field.enum_type.values]
    return rng.choice([*numbers, 77] if not field.enum_type.is_closed else numbers)


def fill(message, rng, deep=0):
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.35:
            continue
        here = getattr(message, field.name)
        if field.type == FD.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
            key, item = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(rng.randint(0, 4)):
                if item.type == FD.TYPE_MESSAGE:
                    fill(here[value(key, rng)], rng, deep + 1)
                else:
                    here[value(key, rng)] = value(item, rng)
        elif field.type == FD.TYPE_MESSAGE and field.is_repeated:
            for _ in range(rng.randint(0, 3 if deep < 3 else 1)):
                fill(here.add(), rng, deep + 1)
        elif field.type == FD.TYPE_MESSAGE:
            here.SetInParent()
            fill_known(here, rng) or fill(here, rng, deep + 1)
        elif field.is_repeated:
            here.extend(value(field, rng) for _ in range(rng.randint(0, 5)))
        else:
            setattr(message, field.name, value(field, rng))
    if message.DESCRIPTOR.file.name.startswith("google/protobuf/"):
        fill_known(message, rng)


def fill_known(message, rng):
    """Fills a timestamp or duration within the range of nanoseconds; returns true for these types."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        message.seconds, message.nanos = rng.randint(-(2**33), 2**33), rng.randint(0, 10**9 - 1)
        return True
    if message.DESCRIPTOR.full_name == "google.protobuf.Duration":
        sign = rng.choice([-1, 1])
        message.seconds, message.nanos = sign * rng.randint(0, 2**33), sign * rng.randint(0, 10**9 - 1)
        return True
    return False


def root_class(pool):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("random.Root"))
