"""SavedModels that no serializer writes, but every parser reads.

They have fields out of order and in pieces, duplicate map entries, overlong lengths and numbers, packed and unpacked runs, oneofs
with several members, unknown fields, and known fields with another wire type. They are random, but depend only on the seed.
"""

import random

from google.protobuf.descriptor import FieldDescriptor as F

WIRE = {
    F.TYPE_DOUBLE: 1, F.TYPE_FIXED64: 1, F.TYPE_SFIXED64: 1,
    F.TYPE_FLOAT: 5, F.TYPE_FIXED32: 5, F.TYPE_SFIXED32: 5,
    F.TYPE_STRING: 2, F.TYPE_BYTES: 2, F.TYPE_MESSAGE: 2,
}  # fmt: skip
LENGTH_DELIMITED = (F.TYPE_MESSAGE, F.TYPE_STRING, F.TYPE_BYTES)

# Fields that nearly every model has.
LIKELY = {
    "meta_graphs", "graph_def", "node", "signature_def", "object_graph_def", "concrete_functions", "library", "function",
    "node_def", "attr", "op", "tensor",
}  # fmt: skip
# Strings with a meaning for the fingerprint code, and strings that reveal the order of keys.
ORDINARY = [
    "", "a", "aa", "ab", "b", "B", "z", "_", "f", "dtype", "value", "config_proto", "T", "Tin", "x_1", "x_12",
    "__inference_99", "PartitionedCall", "Const", "é",
]  # fmt: skip
# Names of functions that end with different numbers. Functions with other names aren't hashed.
NUMBERED = ["x_1", "x_12", "aa_0", "z_-3", "b_ 7", "__inference_99", "f_0013"]


class Scrambled:
    def __init__(self, seed, share):
        """Creates a generator. `share`, from 0 to 1, is the fraction of places that are made unusual."""
        self.random = random.Random(seed)
        self.share = share
        self.strings = NUMBERED if seed % 2 else ORDINARY

    def sometimes(self, share=1.0):
        return self.random.random() < self.share * share

    def varint(self, value, longest=9):
        value &= 2**64 - 1
        out = bytearray()
        while value >= 128:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
        if self.sometimes(0.3) and len(out) < longest:
            more = self.random.randint(1, longest - len(out))
            out[-1] |= 128
            out += b"\x80" * (more - 1) + b"\0"
        return bytes(out)

    def tag(self, number, wire):
        value, out = number << 3 | wire, bytearray()
        while value >= 128:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    def delimited(self, number, content):
        # Parsers reject lengths of more than five bytes.
        return self.tag(number, 2) + self.varint(len(content), longest=5) + content

    def number(self, kind):
        if WIRE.get(kind):
            size = 8 if WIRE[kind] == 1 else 4
            return self.random.choice([bytes(size), self.random.randbytes(size), bytes(size - 1) + b"\x80"])
        bits = self.random.getrandbits
        few = self.random.randrange
        return self.varint(self.random.choice([0, 1, few(200), -1, -few(1000), bits(64), bits(31), bits(33)]))

    def value(self, field, depth):
        if field.type == F.TYPE_MESSAGE:
            return self.message(field.message_type, depth - 1)
        if field.type == F.TYPE_BYTES:
            return self.random.randbytes(self.random.choice([0, 1, 5, 40]))
        if field.type == F.TYPE_STRING:
            return self.random.choice(self.strings).encode()
        return self.number(field.type)

    def field(self, field, depth):
        wire, value = WIRE.get(field.type, 0), self.value(field, depth)
        return self.delimited(field.number, value) if wire == 2 else self.tag(field.number, wire) + value

    def stranger(self, descriptor):
        """Returns a field whose number or wire type the message's type doesn't have."""
        number, wire = self.random.choice([900, 1, 2, 5000, 77]), self.random.choice([0, 1, 2, 3, 5])
        known = descriptor.fields_by_number.get(number)
        if known and wire in (2, WIRE.get(known.type, 0)):
            return b""
        bits = self.random.getrandbits
        content = {
            0: lambda: self.tag(number, 0) + self.varint(bits(40)),
            1: lambda: self.tag(number, 1) + self.random.randbytes(8),
            2: lambda: self.delimited(number, self.random.randbytes(3)),
            3: lambda: self.tag(number, 3) + self.tag(7, 0) + self.varint(bits(20)) + self.tag(number, 4),
            5: lambda: self.tag(number, 5) + self.random.randbytes(4),
        }
        return content[wire]()

    def entry(self, descriptor, depth):
        key, value = descriptor.fields_by_number[1], descriptor.fields_by_number[2]
        parts = [self.field(field, depth) for field in (key, value) if not self.sometimes(0.2)]
        if self.sometimes():
            parts.append(self.field(value, depth))
        if self.sometimes():
            self.random.shuffle(parts)
        return b"".join(parts)

    def message(self, descriptor, depth):
        if descriptor.GetOptions().map_entry:
            return self.entry(descriptor, depth)
        if depth <= 0:
            return b""
        parts = []
        for field in descriptor.fields:
            likely = 0.95 if field.name in LIKELY else min(0.5, 4 / len(descriptor.fields))
            if self.random.random() > likely:
                continue
            times = self.random.randint(1, 4) if field.is_repeated else 2 if self.sometimes() else 1
            for _ in range(times):
                if field.is_repeated and field.type not in LENGTH_DELIMITED and self.random.random() < 0.7:
                    run = b"".join(self.number(field.type) for _ in range(self.random.randint(0, 5)))
                    parts.append(self.delimited(field.number, run))
                else:
                    parts.append(self.field(field, depth))
        if self.sometimes():
            parts.append(self.stranger(descriptor))
        if self.sometimes(2):
            self.random.shuffle(parts)
        return b"".join(parts)


def scrambled(descriptor, seed):
    """Returns a random message of this type."""
    maker = Scrambled(seed, [0.0, 0.1, 0.3, 0.6][seed // 2 % 4])
    return maker.message(descriptor, maker.random.randint(2, 9))
