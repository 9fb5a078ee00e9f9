"""The exceptions of this package.

Errors of the operating system are raised as usual in Python: ``FileNotFoundError``,
``FileExistsError``, ``PermissionError`` and the other subclasses of ``OSError``, with ``errno``
and ``filename``. Errors in data, a path or a schema are subclasses of :class:`Error`.
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
    """An error with a message of one line. The attributes have the location of the problem.

    Attributes:
        path: The field path, such as ``meta_graphs[0].graph_def``, or ``None``.
        chunk: The index of the chunk, or ``None``.
        offset: The offset in bytes, or ``None``.
        kind: The kind of error in the Rust library, such as ``InvalidTrailer``.
    """

    path: str | None = None
    chunk: int | None = None
    offset: int | None = None
    kind: str | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, self.__dict__


class FormatError(Error):
    """The bytes are not a message or a chunked file, or not of the named type."""


class ChecksumError(Error):
    """A checksum or size doesn't match: the file is damaged."""


class PathError(Error, KeyError):
    """A field path can't be parsed, or there is no value at the path."""

    def __str__(self) -> str:
        # The str() of a KeyError would be the repr of its key.
        return Exception.__str__(self)


class UncuttableError(Error):
    """A value exceeds the maximum chunk size, and the profile can't divide it."""


class SchemaError(Error):
    """The message's type is required but unknown, or its schema is invalid."""


class LimitError(Error):
    """The data exceeds a limit of the reader or writer."""


class VersionError(Error):
    """The file requires a newer reader."""
