"""The types of the reports that functions return and ``protosplit --json`` prints.

These types are for type checkers: at run time, a report is a ``dict``. The keys of a type with
``total=False`` are optional.
"""

from __future__ import annotations

from typing import TypedDict, Union

__all__ = [
    "AppendReport",
    "ChunkReport",
    "DiffReport",
    "ExternalizeReport",
    "FingerprintReport",
    "InfoReport",
    "InternalizeReport",
    "LargeTensor",
    "VerifyReport",
]


class _Chunk(TypedDict):
    index: int
    kind: str
    path: Union[str, None]
    size: int
    stored_size: Union[int, None]
    compression: Union[str, None]
    position: int
    crc32c: Union[str, None]


class ChunkReport(_Chunk, total=False):
    """A chunk of a chunked file."""

    other_paths: list[str]
    shared_with: list[int]
    shared_with_more: int
    file: int


class OtherFile(TypedDict):
    """A file with chunks, in addition to the main file."""

    file: str
    bytes: int


class LargeTensor(TypedDict):
    """One of the largest tensors of a file."""

    name: str
    what: Union[str, None]
    bytes: int


class _Info(TypedDict):
    file: str
    message: Union[str, None]


class InfoReport(_Info, total=False):
    """The report of :func:`proto_splitter.info`.

    A file of a format with named tensors, such as an ``.onnx``, has the keys from ``format`` to
    ``largest``, and ``files`` are its paths. Any other file has the keys from ``split`` to
    ``chunks``.
    """

    split: bool
    file_bytes: int
    source_bytes: Union[int, None]
    source_crc32c: Union[str, None]
    merged_bytes: int
    byte_exact: Union[bool, None]
    placeholders: bool
    splitter_version: Union[int, None]
    join_version: Union[int, None]
    bad_consumers: list[int]
    merkle_root: str
    chunks: list[ChunkReport]
    format: str
    message_bytes: Union[int, None]
    tensors: int
    tensor_bytes: int
    largest: list[LargeTensor]
    files: Union[list[OtherFile], list[str]]
    properties: list[tuple[str, str]]


class Parsed(TypedDict):
    """Statistics of a parsed message."""

    messages: int
    fields: int
    unknown_fields: int


class Against(TypedDict):
    """The comparison of a merged message with the original."""

    original: str
    result: str
    byte: Union[int, None]
    path: Union[str, None]
    how: Union[str, None]


class CheckedVariables(TypedDict):
    """The number and size of a model's variables that were compared with their checksums."""

    tensors: int
    bytes: int


class _Verify(TypedDict):
    ok: bool
    problems: list[str]


class VerifyReport(_Verify, total=False):
    """The report of :func:`proto_splitter.verify`.

    If the file can't be opened, the report may have only the keys ``ok`` and ``problems``.
    """

    file: str
    split: bool
    checksums: Union[bool, None]
    message: Union[str, None]
    records: Union[int, None]
    chunk_count: int
    chunk_bytes: int
    merged_bytes: Union[int, None]
    merged_crc32c: Union[str, None]
    byte_exact: Union[bool, None]
    deep: Union[Parsed, None]
    against: Union[Against, None]
    format: str
    tensors: Union[int, None]
    bytes: Union[int, None]
    warnings: list[str]
    root: str
    variables: CheckedVariables


class _Difference(TypedDict):
    path: str
    how: str


class Difference(_Difference, total=False):
    """A difference between two messages, by field path."""

    name: str


class DiffReport(TypedDict):
    """The report of :func:`proto_splitter.diff` for two messages."""

    equal: bool
    first: str
    second: str
    message: Union[str, None]
    result: str
    differences: list[Difference]
    limited: bool


class Fingerprint(TypedDict):
    """The fingerprint of a SavedModel. Hashes are strings of decimal digits."""

    saved_model_checksum: str
    graph_def_program_hash: str
    signature_def_hash: str
    saved_object_graph_hash: str
    checkpoint_hash: str
    uuid: str
    producer: int


class FingerprintReport(TypedDict):
    """The report of :func:`proto_splitter.fingerprint`."""

    file: str
    computed: Union[Fingerprint, None]
    stored: Union[Fingerprint, None]
    agrees: Union[bool, None]
    differs_in: list[str]
    refused: Union[str, None]
    singleprint: Union[str, None]


class Constant(TypedDict):
    """A constant of a graph."""

    meta_graph: int
    function: Union[str, None]
    node: str
    dtype: str
    shape: list[int]
    bytes: int


class LeftIn(Constant):
    """A constant that remains in the graph, with the reason."""

    why: str


class ExternalizeReport(TypedDict):
    """The report of :func:`proto_splitter.externalize`."""

    output: Union[str, None]
    message_bytes: int
    model_bytes: Union[int, None]
    stored_bytes: int
    moved: list[Constant]
    left_in: list[LeftIn]
    stale: list[str]
    mapped: bool
    already: bool


class AppendReport(TypedDict):
    """The report of :func:`proto_splitter.append`."""

    file: str
    counter: int
    name: Union[str, None]
    dtype: str
    shape: list[int]
    bytes: int


class InternalizeReport(TypedDict):
    """The report of :func:`proto_splitter.internalize`."""

    output: str
    split: bool
    message_bytes: int
