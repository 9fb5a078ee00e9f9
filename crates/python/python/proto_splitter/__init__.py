"""Protobuf messages over 2 GiB: split into one seekable, checksummed file, read, and merged.

Functions take a path, bytes, an object with ``read`` and ``seek``, a URL that fsspec knows, or a
message of protobuf for Python. Sizes are in bytes, or texts such as ``"512MiB"``. Long work runs
without the interpreter's lock, reports to ``progress(done, total)``, and ends soon after Ctrl-C
with nothing left behind.
"""

from __future__ import annotations

from . import constants, util
from ._core import Buffer, __version__
from ._errors import (
    ChecksumError,
    Error,
    FormatError,
    LimitError,
    PathError,
    SchemaError,
    UncuttableError,
    VersionError,
)
from ._functions import (
    Chunk,
    Merged,
    Written,
    merge,
    merge_into,
    merge_to_bytes,
    read,
    split,
)
from ._handle import File, TensorInfo, Tensors, open
from ._messages import schema_of
from ._models import convert, externalize, internalize
from ._reports import SizeTree, diff, fingerprint, info, tree, verify
from ._size_splitters import LargeMessageSplitter, RepeatedMessageSplitter, SplitBasedOnSize
from ._splitters import ComposableSplitter, GraphDefSplitter, SavedModelSplitter, Splitter

__all__ = [
    "Buffer",
    "ChecksumError",
    "Chunk",
    "ComposableSplitter",
    "Error",
    "File",
    "FormatError",
    "GraphDefSplitter",
    "LargeMessageSplitter",
    "LimitError",
    "Merged",
    "PathError",
    "RepeatedMessageSplitter",
    "SavedModelSplitter",
    "SchemaError",
    "SizeTree",
    "SplitBasedOnSize",
    "Splitter",
    "TensorInfo",
    "Tensors",
    "UncuttableError",
    "VersionError",
    "Written",
    "__version__",
    "constants",
    "convert",
    "diff",
    "externalize",
    "fingerprint",
    "info",
    "internalize",
    "merge",
    "merge_into",
    "merge_to_bytes",
    "open",
    "read",
    "schema_of",
    "split",
    "tree",
    "util",
    "verify",
]
