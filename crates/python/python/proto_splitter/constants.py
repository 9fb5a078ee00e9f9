"""The maximum chunk size. The names are those of TensorFlow's splitter."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["debug_set_max_size", "max_size"]

#: Default maximum chunk size, in bytes: 1 GiB.
_DEFAULT = 1 << 30
_max_size: ContextVar[int] = ContextVar("proto_splitter_max_size", default=_DEFAULT)


def max_size() -> int:
    """Returns this thread's maximum chunk size, in bytes. Default: 1 GiB."""
    return _max_size.get()


def debug_set_max_size(value: int) -> None:
    """Sets this thread's maximum chunk size, in bytes, which :func:`max_size` returns.

    Raises:
        ValueError: If the value isn't positive.
    """
    if value <= 0:
        raise ValueError(f"expected a positive size, found {value}")
    _max_size.set(value)
