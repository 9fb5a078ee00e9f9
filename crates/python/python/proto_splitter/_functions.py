"""The main functions, which accept paths, bytes, file-like objects or messages."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from . import _core, _messages
from ._arguments import progress_of, thread_count
from ._core import Buffer
from ._files import is_path, is_writer, name_of, named, native, shown, written_to
from ._sizes import size

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ._files import Source, Target

    M = TypeVar("M", bound=Message)

#: A function that is called with the bytes done and the total. An exception from it stops the work.
Progress = Callable[[int, int], object]

_SAVED_MODEL = "tensorflow.SavedModel"


@dataclass(frozen=True)
class Chunk:
    """A chunk of a split message."""

    #: Index of the chunk. Chunk 0 is the message without the parts that are in other chunks.
    index: int
    #: ``MESSAGE`` for a message or a part of one, or ``BYTES`` for the value of one field.
    kind: str
    #: Field path of the chunk's contents in the message; empty for the message itself.
    path: str
    #: Uncompressed size, in bytes.
    size: int
    #: Size in the file, in bytes.
    stored_size: int
    #: Index of an earlier chunk with the same bytes, which are stored only once; ``None`` if none.
    same_as: int | None


@dataclass(frozen=True)
class Written:
    """The result of writing a split message."""

    #: Path of the written file: ``PREFIX.cpb``, or ``PREFIX.pb`` for a message that wasn't cut.
    path: str
    #: True if the written file is a chunked file.
    is_split: bool
    #: True if a merge reproduces the exact bytes of the source, and not just an equal message.
    byte_exact: bool
    #: Size of the message, in bytes.
    source_size: int
    #: Total size of the written files, in bytes.
    output_size: int
    #: Paths of other files with chunks, if ``max_file_size`` requires them.
    files: tuple[str, ...]
    #: The chunks, ordered by index; empty for a ``.pb``.
    chunks: tuple[Chunk, ...]
    #: The Merkle root in hexadecimal digits; ``None`` if it wasn't requested, or for a ``.pb``.
    merkle_root: str | None = None


@dataclass(frozen=True)
class Merged:
    """The result of a merge."""

    #: Path or name of the source.
    input: str
    #: True if the source is a chunked file.
    is_split: bool
    #: Size of the message, in bytes.
    size: int
    #: The CRC-32C checksum of the merged message.
    crc32c: int
    #: True if the file's checksum shows that the merged bytes are those of the original message;
    #: ``None`` if unknown.
    byte_exact: bool | None
    #: The full name of the message's type; ``None`` if the file doesn't name it.
    message_type: str | None


def split(
    source: Source | Message,
    prefix: Target,
    message: str | None = None,
    schema: bytes | None = None,
    *,
    max_chunk_size: int | str = "1GiB",
    value_chunk_size: int | str | None = None,
    max_file_size: int | str | None = None,
    compression: str = "auto",
    records: str | None = None,
    profile: str = "tensorflow",
    embed_schema: bool = False,
    merkle_root: bool = False,
    always_chunked: bool = False,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Written:
    """Splits a message into ``PREFIX.cpb``, or writes a small message to ``PREFIX.pb``.

    Args:
        source: A file with a serialized message, its bytes, an object with ``read`` and ``seek``,
            or a protobuf message of any size.
        prefix: The path or URL of the result, without ``.cpb``; or an object with ``write``, which
            receives the chunked file, or the message itself if it is small enough.
        message: The full name of the message's type, such as ``tensorflow.GraphDef``. Not needed
            for a protobuf message, or a ``saved_model.pb``, which is a ``tensorflow.SavedModel``.
        schema: A serialized ``FileDescriptorSet`` with the type, unless the type is built in.
        max_chunk_size: Maximum size of a chunk that is a message, in bytes. In TensorFlow's profile, a
            bytes or string value is one chunk of any size.
        value_chunk_size: Minimum size, in bytes, at which a bytes or string value becomes a
            separate chunk when a message must be split; 1 MiB by default.
        max_file_size: Maximum size of a file, in bytes. A larger result is written as several
            files. Requires the extended profile. Unlimited by default.
        compression: ``auto``, ``none``, ``zstd``, ``brotli`` or ``snappy``. All but ``none`` and
            ``snappy`` may have a level, as in ``zstd:9``.
        records: Riegeli options, such as ``transpose,brotli:5``, instead of ``compression``.
        profile: ``tensorflow`` for files that TensorFlow's ``Merger`` reads too, or ``extended``.
        embed_schema: Stores the schema in the file, so that programs without it can read fields by
            name.
        merkle_root: Stores the hashes for a Merkle root, and returns the root in the result.
            ``protosplit get --root`` checks a part of the file against the root, and :func:`verify`
            checks the whole file.
        always_chunked: Writes ``PREFIX.cpb`` for a message of any size.
        force: Overwrites an existing file.
        threads: Number of threads; one per core by default.
        progress: Called with the bytes done and the total, at most twenty times a second.

    Raises:
        OSError: If a file can't be read or written; ``FileExistsError`` without ``force``.
        UncuttableError: If a value is over the maximum chunk size, and the profile can't divide it.
        FormatError: If the source isn't a message of this type.

    After an exception, a ``prefix`` with ``write`` may have received incomplete output.
    """
    if _messages.is_message(source):
        message, schema = _messages.schema_of(source)
        given: Any = _messages.source_of(source)
    else:
        given = native(source)
        if message is None and isinstance(given, str):
            if os.path.basename(given) == "saved_model.pb":
                message = _SAVED_MODEL
        if message is None:
            raise ValueError("message: the full name of the message's type is needed")
    arguments = split_arguments(
        max_chunk_size=size(max_chunk_size),
        value_chunk_size=None if value_chunk_size is None else size(value_chunk_size),
        max_file_size=None if max_file_size is None else size(max_file_size),
        compression=compression,
        records=records,
        profile=profile,
        force=force,
        embed_schema=embed_schema,
        merkle_root=merkle_root,
        always_chunked=always_chunked,
        threads=thread_count(threads),
    )
    progress = progress_of(progress)
    if is_writer(prefix):
        written = _core.split_to(given, prefix, message, schema, arguments, progress)
        return written_of(written | {"path": name_of(prefix), "files": ()})
    with written_to(prefix, force=force, extensions=(".cpb", ".pb")) as path:
        written = _core.split(given, path, message, schema, arguments, progress)
    written["path"] = shown(str(written["path"]), path, prefix)
    written["files"] = shown([str(file) for file in written["files"]], path, prefix)
    return written_of(written)


def split_arguments(**given: Any) -> dict[str, Any]:
    """Returns the arguments for the native module, with the defaults of :func:`split`."""
    defaults: dict[str, Any] = {
        "max_chunk_size": 1 << 30,
        "value_chunk_size": None,
        "max_file_size": None,
        "compression": "auto",
        "profile": "tensorflow",
        "force": False,
        "embed_schema": False,
        "merkle_root": False,
        "always_chunked": False,
        "threads": None,
        "added": None,
        "has_base": True,
        "version": None,
        "records": None,
    }
    return defaults | given


def written_of(written: dict[str, Any]) -> Written:
    """Converts the native module's report on a split to the result of :func:`split`."""
    chunks = tuple(Chunk(**chunk) for chunk in written.pop("chunks"))
    files = tuple(str(file) for file in written.pop("files"))
    path = str(written.pop("path"))
    return Written(path=path, chunks=chunks, files=files, **written)


def _merge_arguments(
    message: str | None, schema: bytes | None, threads: int | None, force: bool = False
) -> dict[str, Any]:
    count = thread_count(threads)
    return {"message": message, "schema": schema, "force": force, "threads": count}


def merge(
    source: Source,
    target: Target,
    *,
    message: str | None = None,
    schema: bytes | None = None,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Merged:
    """Merges a chunked file, given by its prefix or ``.cpb`` path, into one file of any size.

    A target file appears complete or not at all. An object with ``write`` may have received
    incomplete output after an exception.

    Args:
        source: ``PREFIX`` or ``PREFIX.cpb``, a URL, bytes, or an object with ``read`` and ``seek``.
        target: The file to write, a URL, or an object with ``write``.
        message: The full name of the message's type. Only needed for some files from TensorFlow's
            own splitters.
        schema: A serialized ``FileDescriptorSet`` with that type, unless the type is built in.
        force: Overwrites an existing file.
        threads: Number of threads; one per core by default.
        progress: Called with the bytes done and the total.

    Raises:
        OSError: If a file can't be read or written; ``FileExistsError`` without ``force``.
        ChecksumError: If the file is damaged.
        FormatError: If the source isn't a chunked file.
    """
    arguments = _merge_arguments(message, schema, threads, force)
    progress = progress_of(progress)
    if is_writer(target):
        merged = _core.merge_to(native(source), target, arguments, progress)
    else:
        with ExitStack() as files:
            given = os.fspath(source) if is_path(source) else files.enter_context(named(source))
            path = files.enter_context(written_to(target, force=force))
            merged = _core.merge(given, path, arguments, progress)
    merged["input"] = str(merged["input"]) if is_path(source) else name_of(source)
    return Merged(**merged)


def merge_to_bytes(
    source: Source,
    *,
    message: str | None = None,
    schema: bytes | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Buffer:
    """Merges a file into memory, and returns a buffer that ``memoryview`` accesses without a copy.

    Raises:
        OSError: If the file can't be read.
        ChecksumError: If the file is damaged.
    """
    arguments = _merge_arguments(message, schema, threads)
    return _core.merge_to_bytes(native(source), arguments, progress_of(progress))


def merge_into(
    source: Source,
    message: M,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> M:
    """Merges a file of any size into a protobuf message, and returns the message.

    The file is read and merged part by part. In addition to the message, memory holds only one part
    at a time. Submessages over 2 GiB, which protobuf can't parse, are also merged part by part. The
    checksums of all chunks are verified, but not the checksum of the whole message, which only
    :func:`merge` and :func:`merge_to_bytes` verify.

    Raises:
        OSError: If the file can't be read.
        ChecksumError: If the file is damaged.
        google.protobuf.message.DecodeError: If the file isn't a message of this type.
    """
    name, schema = _messages.schema_of(message)
    merged = _core.MergedReader(native(source), _merge_arguments(name, schema, threads))
    _messages.parse_into(message, _messages.Window.of(merged, progress_of(progress)))
    return message


def read(source: Source, message_class: type[M], **options: Any) -> M:
    """Reads a file of any size into a new protobuf message, and returns the message.

    Accepts the options of :func:`merge_into`, and raises the same errors.
    """
    return merge_into(source, message_class(), **options)
