"""The values that protobuf itself reads from messages, in the shapes of a table."""

from google.protobuf.descriptor import FieldDescriptor as FD

WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


def is_map(field):
    return field.type == FD.TYPE_MESSAGE and field.message_type.GetOptions().map_entry


def is_repeated(field):
    return field.is_repeated


def enum_name(field, number):
    value = field.enum_type.values_by_number.get(number)
    return value.name if value else str(number)


def single(field, value):
    """Converts a single value of a field, or an element of a repeated field."""
    if field.type == FD.TYPE_ENUM:
        return enum_name(field, value)
    if field.type not in (FD.TYPE_MESSAGE, FD.TYPE_GROUP):
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return value.seconds * 10**9 + value.nanos
    if name == "google.protobuf.Duration":
        return value.seconds * 10**9 + value.nanos
    if name in WRAPPERS:
        return value.value
    if not field.message_type.fields:
        return True
    return message(value)


def read(holder, field):
    """Returns the value of a field as in a table; None if the field is absent."""
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        entries = getattr(holder, field.name).items()
        return {one: single(value, other) for one, other in entries} if key else None
    if is_repeated(field):
        return [single(field, value) for value in getattr(holder, field.name)]
    if field.has_presence and not holder.HasField(field.name):
        return None
    return single(field, getattr(holder, field.name))


def message(value):
    return {field.name: read(value, field) for field in value.DESCRIPTOR.fields}


def at(holder, path):
    """Returns the value at a path of names. A repeated field on the path gives a list."""
    name, _, rest = path.partition(".")
    field = holder.DESCRIPTOR.fields_by_name[name]
    if not rest:
        return read(holder, field)
    if is_repeated(field):
        return [at(value, rest) for value in getattr(holder, name)]
    return at(getattr(holder, name), rest) if holder.HasField(name) else None


def single_names(descriptor):
    """Returns the names of the fields that are columns by default."""
    known = WRAPPERS | {"google.protobuf.Timestamp", "google.protobuf.Duration"}
    return [
        field.name
        for field in descriptor.fields
        if not is_repeated(field)
        and (field.type not in (FD.TYPE_MESSAGE, FD.TYPE_GROUP) or field.message_type.full_name in known)
    ]
