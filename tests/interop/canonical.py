"""Messages of types unlike TensorFlow's, to compare canonical forms: of proto2 with closed enums and groups, and of editions.

The messages are random, but depend only on the seed. Their numbers include some that no enum declares, and some beyond 32 bits.
"""

import random

from google.protobuf import descriptor_pb2, text_format

# Several forms of a closed enum and of groups: singular, repeated, packed, in a oneof, in a map, and in one another.
SCHEMA = """
file {
  name: "canonical.proto" package: "canonical"
  enum_type { name: "E" value { name: "A" number: 0 } value { name: "B" number: 1 } value { name: "C" number: 7 } value { name: "D" number: -3 } }
  message_type {
    name: "M"
    field { name: "one" number: 1 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".canonical.E" }
    field { name: "many" number: 2 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".canonical.E" }
    field { name: "packed" number: 3 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".canonical.E" options { packed: true } }
    field { name: "chosen" number: 4 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".canonical.E" oneof_index: 0 }
    field { name: "number" number: 5 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 }
    field { name: "choice" number: 8 label: LABEL_OPTIONAL type: TYPE_GROUP type_name: ".canonical.M.Choice" oneof_index: 0 }
    field { name: "group" number: 6 label: LABEL_OPTIONAL type: TYPE_GROUP type_name: ".canonical.M.Group" }
    field { name: "groups" number: 7 label: LABEL_REPEATED type: TYPE_GROUP type_name: ".canonical.M.Groups" }
    field { name: "map" number: 9 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".canonical.M.MapEntry" }
    field { name: "below" number: 10 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".canonical.M" }
    field { name: "text" number: 11 label: LABEL_OPTIONAL type: TYPE_STRING }
    nested_type {
      name: "MapEntry" options { map_entry: true }
      field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
      field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".canonical.E" }
    }
    GROUPS
    oneof_decl { name: "o" }
  }
}
"""
GROUP = """
    nested_type {
      name: "NAME"
      field { name: "text" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
      field { name: "number" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
      field { name: "mood" number: 3 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".canonical.E" }
    }
"""
# The same forms in an edition, in which features say what proto2's syntax says, and that some fields have no presence.
EDITION = """
file {
  name: "canonical.proto" package: "canonical" syntax: "editions" edition: EDITION FEATURES
  enum_type { name: "E" value { name: "A" number: 0 } value { name: "B" number: 1 } value { name: "C" number: 7 } value { name: "D" number: -3 } }
  enum_type {
    name: "F" options { features { enum_type: CLOSED } }
    value { name: "G" number: 0 } value { name: "H" number: 1 } value { name: "I" number: 7 } value { name: "J" number: -3 }
  }
  message_type {
    name: "M"
    field { name: "one" number: 1 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".canonical.E" }
    field { name: "many" number: 2 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".canonical.F" options { features { repeated_field_encoding: EXPANDED } } }
    field { name: "packed" number: 3 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".canonical.F" }
    field { name: "chosen" number: 4 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".canonical.F" oneof_index: 0 }
    field { name: "number" number: 5 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 }
    field { name: "choice" number: 8 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".canonical.Group" oneof_index: 0 DELIMITED }
    field { name: "group" number: 6 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".canonical.Group" DELIMITED }
    field { name: "groups" number: 7 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".canonical.Group" DELIMITED }
    field { name: "map" number: 9 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".canonical.M.MapEntry" }
    field { name: "below" number: 10 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".canonical.M" }
    field { name: "text" number: 11 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "size" number: 12 label: LABEL_OPTIONAL type: TYPE_INT64 options { features { field_presence: OWN } } }
    field { name: "required" number: 13 label: LABEL_OPTIONAL type: TYPE_BYTES options { features { field_presence: LEGACY_REQUIRED } } }
    nested_type {
      name: "MapEntry" options { map_entry: true }
      field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
      field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".canonical.VALUE" }
    }
    oneof_decl { name: "o" }
  }
  message_type {
    name: "Group"
    field { name: "text" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "number" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
    field { name: "mood" number: 3 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".canonical.E" }
  }
}
"""
DELIMITED = "options { features { message_encoding: DELIMITED } }"
TYPE = "canonical.M"
NUMBERS = [0, 1, 7, -3, 2, 99, -5, 1 << 31, (1 << 32) + 1, (1 << 32) + 99]


def parsed(text):
    return text_format.Parse(text, descriptor_pb2.FileDescriptorSet())


def schemas():
    """Returns descriptor sets with the type of the messages, by name."""
    groups = "".join(GROUP.replace("NAME", name) for name in ("Choice", "Group", "Groups"))
    found = {"proto2": parsed(SCHEMA.replace("GROUPS", groups))}
    for edition in ("EDITION_2023", "EDITION_2024"):
        # A closed enum must have presence, also in the entries of a map.
        for presence, own, value in (("EXPLICIT", "IMPLICIT", "F"), ("IMPLICIT", "EXPLICIT", "E")):
            text = EDITION.replace("edition: EDITION", f"edition: {edition}").replace("OWN", own).replace("VALUE", value)
            text = text.replace("DELIMITED }", f"{DELIMITED} }}")
            features = f"options {{ features {{ field_presence: {presence} }} }}"
            found[f"{edition}, {presence}"] = parsed(text.replace("FEATURES", features))
    return found


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


class Messages:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.keys = 0

    def field(self, number, wire, content=b""):
        return varint(number << 3 | wire) + content

    def number(self, number):
        return self.field(number, 0, varint(self.random.choice(NUMBERS)))

    def bytes(self, number, content):
        return self.field(number, 2, varint(len(content)) + content)

    def text(self, number):
        return self.bytes(number, bytes(self.random.choice(b"abc") for _ in range(self.random.randrange(4))))

    def packed(self, number):
        return self.bytes(number, b"".join(varint(self.random.choice(NUMBERS)) for _ in range(self.random.randrange(4))))

    def some(self, makers, most):
        return b"".join(self.random.choice(makers)() for _ in range(self.random.randrange(most)))

    def group(self, number):
        unknown = 20
        makers = [lambda: self.number(1), lambda: self.text(2), lambda: self.number(3), lambda: self.number(unknown)]
        return self.field(number, 3) + self.some(makers, 5) + self.field(number, 4)

    def entry(self):
        # C++'s DynamicMessage, unlike generated code, may keep several entries with one key, so each key is used once. Parsers
        # differ for entries with several values, so there is at most one.
        self.keys += 1
        key = self.field(1, 0, varint(self.random.choice([self.keys, -self.keys])))
        value = self.number(2) if self.random.random() < 0.9 else b""
        return self.bytes(9, value + key if self.random.random() < 0.2 else key + value)

    def message(self, depth=0):
        makers = [lambda n=n: self.number(n) for n in (1, 2, 3, 4, 5, 12, 30)] + [lambda n=n: self.packed(n) for n in (2, 3)]
        makers += [lambda n=n: self.group(n) for n in (6, 7, 8)] + [self.entry] + [lambda n=n: self.text(n) for n in (11, 13)]
        if depth < 2:
            makers.append(lambda: self.bytes(10, self.message(depth + 1)))
        return self.some(makers, 8)
