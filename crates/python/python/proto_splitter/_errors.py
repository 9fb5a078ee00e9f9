"""The exceptions of this package.

Errors of the operating system are raised as they are in Python: ``FileNotFoundError``,
``FileExistsError``, ``PermissionError`` and the other subclasses of ``OSError``, with ``errno``
and ``filename``. What is wrong with data, a path or a schema is an :class:`Error`.
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
    """What is wrong, in one line; the attributes say where.

    Attributes:
        path: The field path, such as ``meta_graphs[0].graph_def``, or ``None``.
        chunk: The index of the chunk, or ``None``.
        offset: The offset in bytes, or ``None``.
        kind: The kind of error as the Rust library names it, such as ``InvalidTrailer``.
    """

    path: str | None = None
    chunk: int | None = None
    offset: int | None = None
    kind: str | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, self.__dict__


class FormatError(Error):
    """The bytes are not a message, a chunked file, or what they are said to be."""


class ChecksumError(Error):
    """A checksum or a size differs from what was written: the file is damaged."""


class PathError(Error, KeyError):
    """A field path can't be parsed, or leads nowhere."""

    def __str__(self) -> str:
        # A KeyError is shown as the representation of its key.
        return Exception.__str__(self)


class UncuttableError(Error):
    """A value is over the maximum chunk size, and the profile can't cut it."""


class SchemaError(Error):
    """The message's type is needed and unknown, or its schema is broken."""


class LimitError(Error):
    """The data asks for more than a limit of the reader or writer allows."""


class VersionError(Error):
    """The file needs a newer reader."""
