"""The exceptions of this package.

Errors from the operating system are raised as usual in Python: ``FileNotFoundError``,
``FileExistsError``, ``PermissionError`` and the other subclasses of ``OSError``, with ``errno`` and
``filename``. Errors in data, a path or a schema are subclasses of :class:`Error`.
"""

from __future__ import annotations

__all__ = [
    "ChecksumError",
    "Error",
    "FormatError",
    "LimitError",
    "PathError",
    "SchemaError",
    "UncuttableError",
    "VersionError",
]


class Error(ValueError):
    """The base class of errors in data, a path or a schema, with a one-line message.

    Attributes:
        path: The field path of the problem, such as ``meta_graphs[0].graph_def``, or ``None``.
        chunk: The index of the chunk with the problem, or ``None``.
        offset: The offset of the problem, in bytes, or ``None``.
        kind: The kind of error in the Rust library, such as ``InvalidTrailer``.
    """

    path: str | None = None
    chunk: int | None = None
    offset: int | None = None
    kind: str | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, self.__dict__


class FormatError(Error):
    """An error for bytes that aren't a message of the expected type, or aren't a chunked file."""


class ChecksumError(Error):
    """An error for a checksum or size that doesn't match, which means that the file is damaged."""


class PathError(Error, KeyError):
    """An error for a field path that can't be parsed or that has no value."""

    def __str__(self) -> str:
        # The str() of a KeyError would be the repr of its key.
        return Exception.__str__(self)


class UncuttableError(Error):
    """An error for a value over the maximum chunk size, if the file's profile can't divide it."""


class SchemaError(Error):
    """An error for a required message type that is unknown, or for an invalid schema."""


class LimitError(Error):
    """An error for data that exceeds a limit of the reader or writer."""


class VersionError(Error):
    """An error for a file that requires a newer reader."""
