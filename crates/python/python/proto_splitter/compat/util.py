"""A replacement for ``tensorflow.tools.proto_splitter.util``."""

from ..util import FieldTypes, format_bytes, get_field, get_field_tag, is_repeated

__all__ = ["FieldTypes", "format_bytes", "get_field", "get_field_tag", "is_repeated"]
