"""Protobuf messages over 2 GiB: split into one seekable, checksummed file, read, and merged.

Functions accept a path, bytes, an object with ``read`` and ``seek``, a URL supported by fsspec, or
a protobuf message. A size is a number of bytes, or a string such as ``"512MiB"``. Long operations
release the GIL, call ``progress(done, total)`` with numbers of bytes, and stop soon after Ctrl-C
without leaving partial files.
"""

from __future__ import annotations

# These imports are for type checkers. At run time, a module is imported when one of its names is
# first used, so that importing the package takes almost no time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import constants, reports, util
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
    from ._explain import Explanation, LargePart, Limits, explain, limits
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
    from ._handle import File, Table, TensorInfo, Tensors, open
    from ._messages import schema_of
    from ._models import append, convert, externalize, internalize
    from ._reports import SizeTree, diff, fingerprint, info, tree, verify
    from ._size_splitters import LargeMessageSplitter, RepeatedMessageSplitter, SplitBasedOnSize
    from ._splitters import ComposableSplitter, GraphDefSplitter, SavedModelSplitter, Splitter

__all__ = [
    "Buffer",
    "ChecksumError",
    "Chunk",
    "ComposableSplitter",
    "Error",
    "Explanation",
    "File",
    "FormatError",
    "GraphDefSplitter",
    "LargeMessageSplitter",
    "LargePart",
    "LimitError",
    "Limits",
    "Merged",
    "PathError",
    "RepeatedMessageSplitter",
    "SavedModelSplitter",
    "SchemaError",
    "SizeTree",
    "SplitBasedOnSize",
    "Splitter",
    "Table",
    "TensorInfo",
    "Tensors",
    "UncuttableError",
    "VersionError",
    "Written",
    "__version__",
    "append",
    "constants",
    "convert",
    "diff",
    "explain",
    "externalize",
    "fingerprint",
    "info",
    "internalize",
    "limits",
    "merge",
    "merge_into",
    "merge_to_bytes",
    "open",
    "read",
    "reports",
    "schema_of",
    "split",
    "tree",
    "util",
    "verify",
]

#: The public names that each module defines, by module.
_NAMES = {
    "constants": ("constants",),
    "reports": ("reports",),
    "util": ("util",),
    "_core": ("Buffer", "__version__"),
    "_errors": (
        "ChecksumError",
        "Error",
        "FormatError",
        "LimitError",
        "PathError",
        "SchemaError",
        "UncuttableError",
        "VersionError",
    ),
    "_explain": ("Explanation", "LargePart", "Limits", "explain", "limits"),
    "_functions": (
        "Chunk",
        "Merged",
        "Written",
        "merge",
        "merge_into",
        "merge_to_bytes",
        "read",
        "split",
    ),
    "_handle": ("File", "Table", "TensorInfo", "Tensors", "open"),
    "_messages": ("schema_of",),
    "_models": ("append", "convert", "externalize", "internalize"),
    "_reports": ("SizeTree", "diff", "fingerprint", "info", "tree", "verify"),
    "_size_splitters": ("LargeMessageSplitter", "RepeatedMessageSplitter", "SplitBasedOnSize"),
    "_splitters": ("ComposableSplitter", "GraphDefSplitter", "SavedModelSplitter", "Splitter"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name):
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = import_module(f".{module}", __name__)
        value = found if module == name else getattr(found, name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
