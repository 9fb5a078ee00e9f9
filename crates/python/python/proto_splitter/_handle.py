"""An input that is open: values, fields and tensors of a message of any size."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from . import _core, _messages
from ._errors import PathError
from ._functions import _input

if TYPE_CHECKING:
    import numpy as np
    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)


class TensorInfo(NamedTuple):
    """What a tensor's header says."""

    #: Its name in its format.
    name: str
    #: What its elements are, as NumPy or ``ml_dtypes`` call it.
    dtype: str
    #: Its sizes, the slowest dimension first.
    shape: tuple[int, ...]
    #: Bytes of its elements as they are stored.
    nbytes: int


class File:
    """An open input: a ``.cpb``, a ``.pb``, a folder, or a file of any known format.

    Nothing is read but what is asked for, and the chunks that are read are checked. Use it in a
    ``with`` statement, or call :meth:`close`. Threads can share one.
    """

    def __init__(self, native: _core.Handle, name: str) -> None:
        self._native = native
        self._name = name
        self._tensors: Tensors | None = None

    def __enter__(self) -> File:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<proto_splitter.File {self._name}>"

    def close(self) -> None:
        """Closes the file. Later calls raise ``ValueError``."""
        self._tensors = None
        self._native.close()

    @property
    def format(self) -> str | None:
        """The format, such as ``saved-model``; ``None`` for a message that no format knows."""
        return self._native.format

    @property
    def message_type(self) -> str | None:
        """The full name of the message's type; ``None`` if it isn't known."""
        return self._native.message_type

    def get(self, path: str) -> Any:
        """The value at a field path, such as ``meta_graphs[0].graph_def.node[3].name``.

        Returns:
            ``str``, ``bytes``, ``int``, ``float`` or ``bool``; for a message a buffer with its
            serialized bytes.

        Raises:
            PathError: If the path leads nowhere.
            ChecksumError: If a chunk on the way is damaged.
        """
        return self._native.get(path)

    def get_into(self, path: str, buffer: Any) -> int:
        """Copies the bytes at a path into a writable buffer, and returns how many there are.

        Raises:
            PathError: If the path leads nowhere.
            OSError: If the buffer is too short.
        """
        return self._native.get_into(path, buffer)

    def size(self, path: str = "") -> int | None:
        """Bytes of the value at a path; ``None`` if there is none."""
        return self._native.size(path)

    def fields(self, path: str = "") -> list[tuple[str, int]]:
        """The fields of the message at a path, in their order: path and bytes of each."""
        return self._native.fields(path)

    def message(self, path: str, message_class: type[M]) -> M:
        """The message at a path, as a message of protobuf for Python; it may have any size.

        Raises:
            PathError: If the path leads nowhere.
            google.protobuf.message.DecodeError: If it isn't a message of this class.
        """
        value = self._native.get(path)
        if not isinstance(value, _core.Buffer):
            raise PathError(f"{path}: a {type(value).__name__}, not a message")
        message = message_class()
        _messages.parse_into(message, memoryview(value))
        return message

    @property
    def tensors(self) -> Tensors:
        """The tensors by name: a mapping that reads a tensor when it is looked up.

        They are listed once. Bytes and file-like objects are a message, whose type :func:`open`
        must know; formats that aren't messages are opened by their paths.

        Raises:
            SchemaError: If no type is known for the message.
        """
        if self._tensors is None:
            self._tensors = Tensors(self._native)
        return self._tensors


class Tensors(Mapping[str, "np.ndarray[Any, Any]"]):
    """Tensors by name, each read when it is looked up, as a new NumPy array.

    Types that NumPy lacks, as ``bfloat16``, need the package ``ml_dtypes``.
    """

    def __init__(self, native: _core.Handle) -> None:
        self._native = native
        self._rows: dict[str, dict[str, Any]] = {row["name"]: row for row in native.tensors()}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __repr__(self) -> str:
        return f"<{len(self)} tensors>"

    def info(self, name: str) -> TensorInfo:
        """The type, shape and size of a tensor, of which no data is read.

        Raises:
            KeyError: If there is no such tensor.
        """
        row = self._rows[name]
        return TensorInfo(name, row["dtype"], tuple(row["shape"]), row["bytes"])

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self.read(name)

    def get_into(self, name: str, buffer: Any) -> int:
        """Copies a tensor's bytes, as they are stored, into a writable buffer.

        Elements of less than a byte stay packed.

        Returns:
            How many bytes there are.

        Raises:
            KeyError: If there is no such tensor.
            OSError: If the buffer is too short.
            ChecksumError: If it is damaged.
        """
        size: int = self._rows[name]["bytes"]
        self._native.tensor_into(name, buffer, None)
        return size

    def read(
        self, name: str, out: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Reads a tensor into a new array, or into ``out``.

        Args:
            name: Its name.
            out: A C-contiguous, writable array of the tensor's type and shape, which is returned.
                What is in it isn't to be used if reading fails.

        Raises:
            KeyError: If there is no such tensor.
            TypeError: If NumPy has no type for its elements, and ``ml_dtypes`` isn't installed.
            ValueError: If ``out`` has another type or shape, or can't be written in one piece.
            ChecksumError: If it is damaged.
        """
        import numpy as np

        row = self._rows[name]
        kind, shape = _dtype(row["dtype"]), tuple(row["shape"])
        if out is not None:
            _check(name, out, kind, shape)
        if row["packed"]:
            raw = np.empty(row["bytes"], np.uint8)
            self._native.tensor_into(name, raw, None)
            unpacked = _unpacked(raw, kind, row)
            if out is None:
                return unpacked
            out[...] = unpacked
            return out
        array = np.empty(shape, kind) if out is None else out
        if array.nbytes != row["bytes"]:
            raise ValueError(f"{name}: {row['bytes']} bytes, for an array of {array.nbytes}")
        if array.nbytes:
            self._native.tensor_into(name, np.asarray(array).reshape(-1).view(np.uint8), None)
        if row["little_endian"] != (sys.byteorder == "little"):
            array.byteswap(inplace=True)
        return array


def _check(
    name: str, out: np.ndarray[Any, Any], kind: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    """Refuses an array that a tensor of this type and shape can't be read into."""
    if out.dtype != kind or out.shape != shape:
        given = f"{out.dtype} of the shape {out.shape}"
        raise ValueError(f"{name}: expected an array of {kind} of the shape {shape}, found {given}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError(f"{name}: expected an array that is C-contiguous and writable")


def _dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    except ImportError:
        message = f"NumPy has no type for {name}: install ml_dtypes"
    except (AttributeError, TypeError):
        message = f"NumPy has no type for {name}"
    raise TypeError(message)


def _unpacked(
    raw: np.ndarray[Any, Any], kind: np.dtype[Any], row: dict[str, Any]
) -> np.ndarray[Any, Any]:
    """Elements of 6, 4 or 2 bits, of which the first of a byte is in its low bits."""
    import numpy as np

    count = 1
    for length in row["shape"]:
        count *= length
    bits = 6 if "float6" in row["dtype"] else 2 if row["dtype"].endswith("2") else 4
    codes: np.ndarray[Any, Any]
    if bits == 6:
        # Four of them are in three bytes.
        threes = np.zeros((-(-raw.size // 3), 4), np.uint8)
        threes[:, :3] = np.pad(raw, (0, -raw.size % 3)).reshape(-1, 3)
        words, shifts = threes.view("<u4"), np.arange(0, 24, 6, dtype=np.uint32)
        codes = ((words >> shifts) & 63).astype(np.uint8).reshape(-1)[:count]
    else:
        places = np.arange(0, 8, bits, dtype=np.uint8)
        codes = ((raw[:, None] >> places) & ((1 << bits) - 1)).reshape(-1)[:count]
    if row["dtype"].startswith("int"):
        sign = 1 << (bits - 1)
        signed = (codes.astype(np.int8) ^ sign) - sign
        return signed.astype(kind).reshape(row["shape"])
    if row["dtype"].startswith("uint"):
        return codes.astype(kind).reshape(row["shape"])
    return codes.view(kind).reshape(row["shape"])


def open(
    source: Any,
    message: str | None = None,
    schema: bytes | None = None,
    *,
    threads: int | None = None,
) -> File:
    """Opens a message or a file of tensors, of any size and form, to read parts of it.

    Args:
        source: A path, a prefix or a folder; bytes; an object with ``read`` and ``seek``; a URL
            that fsspec knows.
        message: The full name of the message's type, where the file doesn't tell it.
        schema: A serialized ``FileDescriptorSet`` with that type, unless it is built in.
        threads: How many threads read; as many as there are cores unless given.

    Raises:
        OSError: If nothing is there or it can't be read.
        FormatError: If it isn't what its name says.
    """
    given = _input(source)
    name = given if isinstance(given, str) else type(given).__name__
    return File(_core.Handle(given, message, schema, threads), name)

