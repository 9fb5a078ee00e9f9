"""As ``tensorflow.tools.proto_splitter.version``."""

from __future__ import annotations

__all__ = ["get_bad_versions", "get_current_join_version"]


def get_current_join_version() -> int:
    """The join version of files that TensorFlow reads."""
    return 0


def get_bad_versions() -> list[int]:
    """The join versions of readers that are known to be wrong: none."""
    return []
