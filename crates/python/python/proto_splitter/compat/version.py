"""A replacement for ``tensorflow.tools.proto_splitter.version``."""

from __future__ import annotations

__all__ = ["get_bad_versions", "get_current_join_version"]


def get_current_join_version() -> int:
    """Returns the highest ``join_version`` of files that TensorFlow can read."""
    return 0


def get_bad_versions() -> list[int]:
    """Returns the join versions of defective readers, which must reject files: an empty list."""
    return []
