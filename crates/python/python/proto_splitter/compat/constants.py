"""A replacement for ``tensorflow.tools.proto_splitter.constants``, with a size per thread."""

from ..constants import debug_set_max_size, max_size

__all__ = ["debug_set_max_size", "max_size"]
