"""Open files, from which values, fields and tensors of a message of any size are read."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from . import _core, _messages
from ._arguments import thread_count
from ._errors import PathError
from ._files import is_url, name_of, native
from ._functions import Progress

if TYPE_CHECKING:
    import numpy as np
    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)


#: Maximum number of tensors in the table that a notebook shows.
_MOST_ROWS = 100


class TensorInfo(NamedTuple):
    """The metadata of a tensor."""

    #: Name of the tensor, as the file's format defines it.
    name: str
    #: Type of the elements, named as in NumPy or ``ml_dtypes``.
    dtype: str
    #: Sizes of the dimensions, the outermost first.
    shape: tuple[int, ...]
    #: Stored size of the elements, in bytes.
    nbytes: int


class File:
    """An open file: a ``.cpb``, a ``.pb``, a model's folder, or a file of any supported format.

    Only the requested parts are read. The checksums of the chunks that are read are verified. Use
    the object in a ``with`` statement, or call :meth:`close`. Several threads can use it at once.
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
        #: The arguments of `open`, for pickling; empty if the file wasn't opened by `open`.
        self._opened = opened

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the file as its path or URL, which is opened again on unpickling."""
        source = self._opened[0] if self._opened else None
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"{self._name}: only files opened by a path or URL can be pickled")
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
        """The name of the file's format, such as ``savedmodel``; ``None`` if unknown."""
        return self._native.format

    @property
    def files(self) -> list[str]:
        """The paths of the main file and of the files to which it refers, in this order."""
        return [os.fspath(file) for file in self._native.files]

    @property
    def message_type(self) -> str | None:
        """The full name of the message's type; ``None`` if unknown."""
        return self._native.message_type

    def get(self, path: str) -> Any:
        """Returns the value at a field path, such as ``meta_graphs[0].graph_def.node[3].name``.

        Returns:
            ``str``, ``bytes``, ``int``, ``float`` or ``bool``. For a message, a buffer with its
            serialized bytes.

        Raises:
            PathError: If there is no value at the path.
            ChecksumError: If a chunk on the path is damaged.
        """
        return self._native.get(path)

    def get_into(self, path: str, buffer: Any) -> int:
        """Copies the bytes of the value at a path into a writable buffer, and returns their number.

        Raises:
            PathError: If there is no value at the path.
            OSError: If the buffer is too short.
        """
        return self._native.get_into(path, buffer)

    def size(self, path: str = "") -> int | None:
        """Returns the size of the value at a path, in bytes; ``None`` if there is no value."""
        return self._native.size(path)

    def fields(self, path: str = "") -> list[tuple[str, int]]:
        """Returns the path and size of each field of the message at a path, in order."""
        return self._native.fields(path)

    def message(self, path: str, message_class: type[M]) -> M:
        """Returns the message at a path as a protobuf message of any size.

        Raises:
            PathError: If there is no value at the path.
            google.protobuf.message.DecodeError: If the value isn't a message of this class.
        """
        value = self._native.get(path)
        if not isinstance(value, _core.Buffer):
            raise PathError(f"{path}: expected a message, found a {type(value).__name__}")
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
        """Returns the elements selected by a query, as a table for pandas, DuckDB, pyarrow etc.

        The elements are read, a batch at a time, when the table is used::

            events = trace.table("planes[*].lines[*].events[*]", columns=["name", "args.key"])
            pyarrow.table(events)
            polars.DataFrame(events)
            duckdb.sql("select name, count(*) from events group by all")

        Args:
            query: A field path, with ``[*]`` for all elements of a repeated field.
            columns: Names of an element's fields, or paths of nested fields; all single-valued
                fields by default.
            with_parent: Adds columns for the parents of each row: the index in each list on the
                path, and the fields of the enclosing messages.
            time_unit: Unit for times and durations: ``ns``, ``us``, ``ms`` or ``s``. Only
                nanoseconds are exact; their range is from 1677 to 2262.
            threads: Number of reading threads; one per core by default.

        Raises:
            PathError: If the query or a column doesn't exist, or has an unsupported type.
            SchemaError: If the message's type is unknown.
        """
        names = None if columns is None else list(columns)
        count = thread_count(threads)
        return Table(self._native.table(query, names, with_parent, time_unit, count), query)

    @property
    def tensors(self) -> Tensors:
        """The tensors by name, as a mapping that reads each tensor when it is accessed.

        The names are listed on first use. If the file was opened from bytes or a file-like object,
        :func:`open` must have been given the message's type. A file whose format isn't a protobuf
        message must have been opened by its path.

        Raises:
            SchemaError: If the message's type is unknown.
        """
        if self._tensors is None:
            self._tensors = Tensors(self._native, self._stamp)
        return self._tensors


class Table:
    """The elements that a query selects, as rows of a table; returned by :meth:`File.table`.

    A table implements Arrow's C stream, which pyarrow, Polars, DuckDB, pandas and other libraries
    read without a copy. Each use reads the elements again.
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
        """Returns the names and types of the columns as an Arrow capsule."""
        return self._native.schema()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Returns the rows as an Arrow capsule. The requested schema is ignored."""
        return self._native.stream()


class Tensors(Mapping[str, "np.ndarray[Any, Any]"]):
    """Tensors by name, each read as a NumPy array when it is accessed.

    A tensor of an unsplit message, such as a ``.pb``, isn't copied if the file stores its elements
    in the form that they have in memory, and suitably aligned. Its array is read-only and maps the
    file, which stays mapped as long as the array exists, even if the :class:`File` is closed. Every
    other tensor is copied to a new array.

    Don't modify or truncate a mapped file in place while such arrays exist: their contents would
    change, and accessing a truncated part kills the process (``SIGBUS``), as with ``numpy.memmap``.
    Renaming another file to the same path is safe; all functions of this package replace files by
    renaming. ``read(name, copy=True)`` returns an independent array.

    A tensor with a checksum, as in a TensorFlow checkpoint, is verified when it is read. If it is
    damaged, :class:`ChecksumError` is raised.

    Element types that NumPy lacks, such as ``bfloat16``, require the package ``ml_dtypes``.
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

    def __eq__(self, other: object) -> bool:
        """Returns true if another mapping has the same names and equal arrays of the same types."""
        if not isinstance(other, Mapping):
            return NotImplemented
        if self is other:
            return True
        if self.keys() != other.keys():
            return False
        import numpy as np

        def is_same(name: str) -> bool:
            own, others = self[name], np.asarray(other[name])
            return own.dtype == others.dtype and np.array_equal(own, others)

        return all(is_same(name) for name in self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} tensors>"

    def _repr_html_(self) -> str:
        """Returns an HTML table of the first tensors, which notebooks show."""
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
        """Returns the type, shape and size of a tensor without reading its data.

        Raises:
            KeyError: If there is no tensor with this name.
        """
        row = self._rows[name]
        return TensorInfo(name, row["dtype"], tuple(row["shape"]), row["bytes"])

    def lod(self, name: str) -> list[list[int]]:
        """Returns the levels of detail of a Paddle parameter, each a list of sequence offsets.

        Returns an empty list for a tensor without levels, such as one of another format.

        Raises:
            KeyError: If there is no tensor with this name.
        """
        if name not in self._rows:
            raise KeyError(name)
        return self._native.lod(name)

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self.read(name)

    def get_into(self, name: str, buffer: Any) -> int:
        """Copies a tensor's bytes into a writable buffer, unchanged.

        Elements smaller than a byte stay packed.

        Returns:
            The number of copied bytes.

        Raises:
            KeyError: If there is no tensor with this name.
            OSError: If the buffer is too short.
            ChecksumError: If the tensor is damaged.
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
        """Returns a tensor as an array: ``out``, a view of the mapped file, or a new array.

        Args:
            name: The tensor's name. A string tensor is returned as an array of ``bytes`` objects.
            out: A C-contiguous, writable array of the tensor's type and shape, which is returned.
                The array's contents are undefined if reading fails.
            copy: ``None`` copies if necessary, ``True`` always, ``False`` never.
            progress: Called with the bytes done and the total.

        Raises:
            KeyError: If there is no tensor with this name.
            TypeError: If NumPy has no type for the elements, and ``ml_dtypes`` isn't installed.
            ValueError: If ``out`` has a different type or shape, isn't C-contiguous or isn't
                writable; or if ``copy`` is ``False`` and a copy is necessary.
            ChecksumError: If the tensor is damaged.
        """
        row = self._rows[name]
        kind, shape = _dtype(row["dtype"]), tuple(row["shape"])
        if out is not None:
            _check(name, out, kind, shape)
        elif not copy and (view := self._view(row, kind)) is not None:
            return view
        if copy is False:
            raise ValueError(f"{name}: the tensor can't be read without a copy")
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
        """Returns many tensors by name, faster than by reading one after another.

        Several threads read, and each chunk is read only once, even if it contains many tensors.

        Args:
            names: The names of the tensors; all tensors by default.
            copy: As in :meth:`read`.
            progress: Called with the bytes done and the total.

        Raises:
            KeyError: If there is no tensor with one of these names.
            TypeError: If NumPy has no type for a tensor's elements, and ``ml_dtypes`` isn't
                installed.
            ValueError: If ``copy`` is ``False`` and a copy is necessary.
            ChecksumError: If a tensor is damaged.
        """
        found: dict[str, Any] = {}
        wanted: list[tuple[str, np.dtype[Any], Any, Any]] = []
        for name in list(self) if names is None else list(names):
            row = self._rows[name]
            kind = _dtype(row["dtype"])
            view = None if copy else self._view(row, kind)
            if view is None and copy is False:
                raise ValueError(f"{name}: the tensor can't be read without a copy")
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
        """Returns a string tensor as an array of ``bytes``."""
        import numpy as np

        elements = self._native.strings(row["name"])
        array = np.empty(tuple(row["shape"]), object) if out is None else out
        # If the file has fewer strings than elements, the last string is repeated.
        array.fill(elements[-1] if elements else b"")
        array.reshape(-1)[: len(elements)] = elements
        return array

    def _view(
        self, row: dict[str, Any], kind: np.dtype[Any]
    ) -> np.ndarray[Any, Any] | None:
        """Returns a tensor as a view of the mapped file; ``None`` if the tensor must be copied."""
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
    """Returns an array for a tensor, and an array of bytes into which the tensor can be read.

    The first is ``out``; by default, it is a new array, or ``None`` for packed elements. The second
    is ``None`` if the first is empty.
    """
    import numpy as np

    if row["packed"]:
        return out, np.empty(row["bytes"], np.uint8)
    array = np.empty(tuple(row["shape"]), kind) if out is None else out
    if array.nbytes != row["bytes"]:
        raise ValueError(
            f"{row['name']}: the tensor has {row['bytes']} bytes, the array {array.nbytes}"
        )
    return array, np.asarray(array).reshape(-1).view(np.uint8) if array.nbytes else None


def _finished(
    row: dict[str, Any], kind: np.dtype[Any], array: Any, target: Any, out: Any
) -> np.ndarray[Any, Any]:
    """Returns a tensor's array, whose bytes were read into ``target``.

    Unpacks elements that are smaller than a byte, and swaps the order of bytes, if necessary.
    """
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
    """The identity, size and modification time of a file, which show whether it has changed."""

    device: int
    inode: int
    size: int
    changed: int

    @staticmethod
    def of(found: os.stat_result) -> _Stamp:
        return _Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class _Mapped:
    """A file mapped into memory on first use."""

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
                # Another file at this path, or a modified one, may have different bytes.
                if _Stamp.of(os.fstat(file)) == self._stamp:
                    found = mmap.mmap(file, self._stamp.size, access=mmap.ACCESS_READ)
            finally:
                os.close(file)
        except (OSError, ValueError):
            pass  # If the file can't be mapped, its tensors are copied.
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
    """Raises ``ValueError`` if a tensor of this type and shape can't be read into ``out``."""
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
    """Unpacks elements of 6, 4 or 2 bits. The first element of a byte is in its low bits."""
    import numpy as np

    count = 1
    for length in row["shape"]:
        count *= length
    bits = 6 if "float6" in row["dtype"] else 2 if row["dtype"].endswith("2") else 4
    codes: np.ndarray[Any, Any]
    if bits == 6:
        # Four elements of six bits share three bytes.
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
    delimited: str | None = None,
) -> File:
    """Opens a message or a file of tensors, of any size and in any form, to read parts of it.

    Args:
        source: A path, prefix or folder; bytes; an object with ``read`` and ``seek``; a URL
            supported by fsspec.
        message: Full name of the message's type, if the file doesn't name it.
        schema: A serialized ``FileDescriptorSet`` with that type, unless the type is built in.
        threads: Number of reading threads; one per core by default.
        delimited: For a file of many messages of the same type, each preceded by its length or in
            its own record: the full name of the type. The messages have the paths ``message[0]``,
            ``message[1]`` and so on. With ``TYPE.FIELD``, the messages are opened as the elements
            of the field ``FIELD`` of one message of type ``TYPE``. Can't be combined with
            ``message``.

    Raises:
        OSError: If the source doesn't exist or can't be read.
        FormatError: If a file's contents don't match its name.
        ValueError: If both ``message`` and ``delimited`` are given.
    """
    if message is not None and delimited is not None:
        raise ValueError("message and delimited: only one of them can name the type")
    threads = thread_count(threads)
    given = native(source)
    name = name_of(given)
    stamp = _stamp(given)
    opened = (source, message, schema, threads, delimited)
    handle = _core.Handle(given, message, schema, threads, delimited)
    return File(handle, name, stamp, opened)


def _open_again(source: Any, message: Any, schema: Any, threads: Any, delimited: Any) -> File:
    return open(source, message, schema, threads=threads, delimited=delimited)


def _stamp(given: Any) -> _Stamp | None:
    """Returns the stamp of the file at a path; ``None`` for any other source.

    Must be called before the file is opened, so that a replacement in between is noticed.
    """
    import stat

    if not isinstance(given, str):
        return None
    try:
        found = os.stat(given)
    except (OSError, ValueError):
        return None
    return _Stamp.of(found) if stat.S_ISREG(found.st_mode) else None

