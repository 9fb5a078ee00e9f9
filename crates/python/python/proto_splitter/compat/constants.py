"""Replaces ``tensorflow.tools.proto_splitter.constants``; the maximum is per thread."""

from ..constants import debug_set_max_size, max_size

__all__ = ["debug_set_max_size", "max_size"]
