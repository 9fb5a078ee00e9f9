"""Replaces ``tensorflow.tools.proto_splitter.constants``. Each thread has its own maximum."""

from ..constants import debug_set_max_size, max_size

__all__ = ["debug_set_max_size", "max_size"]
