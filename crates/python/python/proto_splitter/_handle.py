"""An input that is open: values, fields and tensors of a message of any size."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from . import _core, _messages
from ._errors import PathError
from ._files import is_url, name_of, native
from ._functions import Progress

if TYPE_CHECKING:
    import numpy as np
    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)


#: How many tensors a notebook shows.
_MOST_ROWS = 100


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

    def __init__(
        self,
        native: _core.Handle,
        name: str,
        stamp: _Stamp | None = None,
        opened: tuple[Any, ...] = (),
    ) -> None:
        self._native = native
        self._name = name
        self._stamp = stamp
        self._tensors: Tensors | None = None
        #: What `open` was called with.
        self._opened = opened

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles it by its path or URL: it is opened again, where that leads to then."""
        source = self._opened[0] if self._opened else None
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"{self._name}: only what was opened by a path or URL is pickled")
        if not is_url(source):
            source = os.path.abspath(source)
        return _open_again, (source, *self._opened[1:])

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
    def files(self) -> list[str]:
        """The paths of the files that it is read from: its own first, then those that it names."""
        return [os.fspath(file) for file in self._native.files]

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

    def table(
        self,
        query: str,
        columns: Iterable[str] | None = None,
        *,
        with_parent: bool = False,
        time_unit: str = "ns",
        threads: int | None = None,
    ) -> Table:
        """The elements that a query finds, as rows of a table, for pandas, Polars, DuckDB and pyarrow.

        Nothing is read before the table is used, and no more is in memory than what that keeps::

            events = trace.table("planes[*].lines[*].events[*]", columns=["name", "args.key"])
            pyarrow.table(events)
            polars.DataFrame(events)
            duckdb.sql("select name, count(*) from events group by all")

        Args:
            query: A field path with ``[*]`` where all elements are meant.
            columns: Fields of an element, or fields in those. By default all fields that hold one
                value.
            with_parent: Adds columns for what each row is in: its index in every list on the way, and
                the fields of the messages around it.
            time_unit: What times and durations are counted in: ``ns``, ``us``, ``ms`` or ``s``. Only
                nanoseconds are exact, and they reach from 1677 to 2262.
            threads: How many threads read; by default as many as there are cores.

        Raises:
            PathError: If the query or a column leads nowhere, or to what no column holds.
            SchemaError: If no type is known for the message.
        """
        names = None if columns is None else list(columns)
        return Table(self._native.table(query, names, with_parent, time_unit, threads), query)

    @property
    def tensors(self) -> Tensors:
        """The tensors by name: a mapping that reads a tensor when it is looked up.

        They are listed once. Bytes and file-like objects are a message, whose type :func:`open`
        must know; formats that aren't messages are opened by their paths.

        Raises:
            SchemaError: If no type is known for the message.
        """
        if self._tensors is None:
            self._tensors = Tensors(self._native, self._stamp)
        return self._tensors


class Table:
    """Elements of a message as rows, from :meth:`File.table`.

    It has Arrow's C stream, which pyarrow, Polars, DuckDB, pandas and others read without a copy. Each
    of them reads the elements anew.
    """

    def __init__(self, native: _core.Table, query: str) -> None:
        self._native = native
        self._query = query

    def __repr__(self) -> str:
        return f"<proto_splitter.Table {self._query}: {', '.join(self.column_names)}>"

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._native.column_names

    def __arrow_c_schema__(self) -> object:
        """The columns, as a capsule of Arrow's."""
        return self._native.schema()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, as a capsule of Arrow's. The columns are as they are, whatever is requested."""
        return self._native.stream()


class Tensors(Mapping[str, "np.ndarray[Any, Any]"]):
    """Tensors by name, each read when it is looked up, as a NumPy array.

    Of a message in one piece, as a ``.pb``, a tensor whose elements stand in the file as they are
    in memory, at an address that suits their type, isn't copied: the array is read-only and looks
    into the mapped file, which stays mapped as long as the array is there, whether or not the
    :class:`File` is closed. Every other tensor is a new array.

    A mapped file must not be changed in place or cut short while arrays look into it: they would
    change, and looking at what was cut off ends the process (``SIGBUS``), as with ``numpy.memmap``.
    Replacing the file by another of its name is safe, and what everything in this package does.
    ``read(name, copy=True)`` gives an array of its own.

    A tensor that has a checksum, as those of a TensorFlow checkpoint have, is compared with it when
    it is read (:class:`ChecksumError`).

    Types that NumPy lacks, as ``bfloat16``, need the package ``ml_dtypes``.
    """

    def __init__(self, native: _core.Handle, stamp: _Stamp | None = None) -> None:
        self._native = native
        self._rows: dict[str, dict[str, Any]] = {row["name"]: row for row in native.tensors()}
        self._mapped = None if stamp is None else _Mapped(stamp)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __repr__(self) -> str:
        return f"<{len(self)} tensors>"

    def _repr_html_(self) -> str:
        """A table for notebooks, of the first tensors."""
        import html

        from .util import format_bytes

        rows = []
        for name in list(self)[:_MOST_ROWS]:
            info = self.info(name)
            shape = " × ".join(map(str, info.shape)) or "scalar"
            cells = (name, info.dtype, shape, format_bytes(info.nbytes))
            rows.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
        head = "".join(f"<th>{title}</th>" for title in ("name", "type", "shape", "size"))
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        left = len(self) - len(rows)
        more = f"<caption>and {left} more</caption>" if left else ""
        return f"<table>{more}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

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
        self,
        name: str,
        out: np.ndarray[Any, Any] | None = None,
        *,
        copy: bool | None = None,
        progress: Progress | None = None,
    ) -> np.ndarray[Any, Any]:
        """Reads a tensor: into ``out``, as a view of the mapped file, or into a new array.

        Args:
            name: Its name. Strings are ``bytes`` in an array of objects.
            out: A C-contiguous, writable array of the tensor's type and shape, which is returned.
                What is in it isn't to be used if reading fails.
            copy: ``None`` copies where it must be, ``True`` always, ``False`` never.
            progress: Called with bytes done and bytes in all.

        Raises:
            KeyError: If there is no such tensor.
            TypeError: If NumPy has no type for its elements, and ``ml_dtypes`` isn't installed.
            ValueError: If ``out`` has another type or shape, or can't be written in one piece; if
                ``copy`` is ``False`` and it has to be copied.
            ChecksumError: If it is damaged.
        """
        row = self._rows[name]
        kind, shape = _dtype(row["dtype"]), tuple(row["shape"])
        if out is not None:
            _check(name, out, kind, shape)
        elif not copy and (view := self._view(row, kind)) is not None:
            return view
        if copy is False:
            raise ValueError(f"{name}: the tensor can't be had without a copy")
        if kind.hasobject:
            return self._strings(row, out)
        if out is None:
            return self.load([name], copy=True, progress=progress)[name]
        array, target = _target(row, kind, out)
        if target is not None:
            self._native.tensor_into(name, target, progress)
        return _finished(row, kind, array, target, out)

    def load(
        self,
        names: Iterable[str] | None = None,
        *,
        copy: bool | None = None,
        progress: Progress | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Reads many tensors at once, which takes less time than one after the other.

        Several threads read, and each chunk is read once however many tensors it has.

        Args:
            names: Their names; all unless given.
            copy: As :meth:`read` has it.
            progress: Called with bytes done and bytes in all.

        Raises:
            KeyError: If there is no such tensor.
            TypeError: If NumPy has no type for its elements, and ``ml_dtypes`` isn't installed.
            ValueError: If ``copy`` is ``False`` and one has to be copied.
            ChecksumError: If one is damaged.
        """
        found: dict[str, Any] = {}
        wanted: list[tuple[str, np.dtype[Any], Any, Any]] = []
        for name in list(self) if names is None else list(names):
            row = self._rows[name]
            kind = _dtype(row["dtype"])
            view = None if copy else self._view(row, kind)
            if view is None and copy is False:
                raise ValueError(f"{name}: the tensor can't be had without a copy")
            found[name] = view
            if kind.hasobject:
                found[name] = self._strings(row, None)
            elif view is None:
                wanted.append((name, kind, *_target(row, kind, None)))
        filled = [(name, target) for name, _, _, target in wanted if target is not None]
        if filled:
            names, targets = zip(*filled)
            self._native.fill_tensors(names, targets, progress)
        for name, kind, array, target in wanted:
            found[name] = _finished(self._rows[name], kind, array, target, None)
        return found

    def _strings(
        self, row: dict[str, Any], out: np.ndarray[Any, Any] | None
    ) -> np.ndarray[Any, Any]:
        """A tensor of strings, as an array of ``bytes``."""
        import numpy as np

        elements = self._native.strings(row["name"])
        array = np.empty(tuple(row["shape"]), object) if out is None else out
        # One may stand for all.
        array.fill(elements[-1] if elements else b"")
        array.reshape(-1)[: len(elements)] = elements
        return array

    def _view(
        self, row: dict[str, Any], kind: np.dtype[Any]
    ) -> np.ndarray[Any, Any] | None:
        """The tensor in the mapped file, unless it has to be copied."""
        if self._mapped is None or row["packed"] or not row["bytes"] or kind.hasobject:
            return None
        if row["little_endian"] != (sys.byteorder == "little"):
            return None
        place = self._native.tensor_in_file(row["name"])
        if place is None or place[1] % kind.alignment:
            return None
        return self._mapped.array(os.fspath(place[0]), place[1], row, kind)


def _target(
    row: dict[str, Any], kind: np.dtype[Any], out: np.ndarray[Any, Any] | None
) -> tuple[Any, Any]:
    """The array that a tensor becomes, and the bytes to be filled for it; no bytes if it is empty."""
    import numpy as np

    if row["packed"]:
        return out, np.empty(row["bytes"], np.uint8)
    array = np.empty(tuple(row["shape"]), kind) if out is None else out
    if array.nbytes != row["bytes"]:
        raise ValueError(f"{row['name']}: {row['bytes']} bytes, for an array of {array.nbytes}")
    return array, np.asarray(array).reshape(-1).view(np.uint8) if array.nbytes else None


def _finished(
    row: dict[str, Any], kind: np.dtype[Any], array: Any, target: Any, out: Any
) -> np.ndarray[Any, Any]:
    """The array, once its bytes are there."""
    if row["packed"]:
        unpacked = _unpacked(target, kind, row)
        if out is None:
            return unpacked
        out[...] = unpacked
        return out  # type: ignore[no-any-return]
    if row["little_endian"] != (sys.byteorder == "little"):
        array.byteswap(inplace=True)
    return array  # type: ignore[no-any-return]


class _Stamp(NamedTuple):
    """Which file a path led to, and what tells that it was changed since."""

    device: int
    inode: int
    size: int
    changed: int

    @staticmethod
    def of(found: os.stat_result) -> _Stamp:
        return _Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class _Mapped:
    """A file in memory, mapped when it is first looked into."""

    def __init__(self, stamp: _Stamp) -> None:
        self._stamp = stamp
        self._path: str | None = None
        self._map: Any = None

    def _of(self, path: str) -> Any:
        import mmap

        if self._path == path:
            return self._map
        found = None
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            try:
                # Another file than was opened would have other bytes at the place.
                if _Stamp.of(os.fstat(file)) == self._stamp:
                    found = mmap.mmap(file, self._stamp.size, access=mmap.ACCESS_READ)
            finally:
                os.close(file)
        except (OSError, ValueError):
            pass  # It can't be mapped, and is read.
        self._path, self._map = path, found
        return found

    def array(
        self, path: str, offset: int, row: dict[str, Any], kind: np.dtype[Any]
    ) -> np.ndarray[Any, Any] | None:
        import numpy as np

        found = self._of(path)
        count = row["bytes"] // kind.itemsize
        shape = tuple(row["shape"])
        if found is None or offset + row["bytes"] > len(found):
            return None
        if count * kind.itemsize != row["bytes"] or count != math.prod(shape):
            return None
        array: np.ndarray[Any, Any] = np.frombuffer(found, kind, count, offset)
        return array.reshape(shape)


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

    if name == "string":
        return np.dtype(object)
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
    given = native(source)
    name = name_of(given)
    stamp = _stamp(given)
    opened = (source, message, schema, threads)
    return File(_core.Handle(given, message, schema, threads), name, stamp, opened)


def _open_again(source: Any, message: Any, schema: Any, threads: Any) -> File:
    return open(source, message, schema, threads=threads)


def _stamp(given: Any) -> _Stamp | None:
    """Which file a path leads to, before it is opened."""
    import stat

    if not isinstance(given, str):
        return None
    try:
        found = os.stat(given)
    except (OSError, ValueError):
        return None
    return _Stamp.of(found) if stat.S_ISREG(found.st_mode) else None

