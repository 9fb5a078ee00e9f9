"""Sources and targets: paths, bytes, file-like objects, and URLs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, Union

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

    #: A source: a path, bytes of any kind, a URL, or an object with ``read`` and ``seek``.
    Source = Union[str, os.PathLike[str], BytesLike, Any]
    #: A target: a path, a URL, or an object with ``write``.
    Target = Union[str, os.PathLike[str], Any]

#: Number of bytes to copy at once: 16 MiB.
_STEP = 16 << 20
#: Extensions that are tried when a path may be a prefix.
_EXTENSIONS = ("", ".cpb", ".pb")
_EEXIST = 17


def is_url(given: object) -> TypeGuard[str]:
    """Returns true if an argument is a URL, which fsspec opens."""
    return isinstance(given, str) and "://" in given


def is_path(given: object) -> TypeGuard[str | os.PathLike[str]]:
    """Returns true if an argument is the path of a file or folder."""
    return isinstance(given, (str, os.PathLike)) and not is_url(given)


def is_writer(given: object) -> bool:
    """Returns true if an argument is a writable file-like object."""
    return hasattr(given, "write")


def name_of(given: Any) -> str:
    """Returns a name for a source or target: its path, its ``name``, or the name of its class."""
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given)
    name = getattr(given, "name", None)
    return name if isinstance(name, str) else type(given).__name__


def shown(value: Any, path: str, given: Any) -> Any:
    """Replaces a temporary folder in report paths with the given URL's folder, or removes it."""
    if is_path(given):
        return value
    if isinstance(value, dict):
        return {key: shown(one, path, given) for key, one in value.items()}
    if isinstance(value, list):
        return [shown(one, path, given) for one in value]
    before = os.path.join(os.path.dirname(path), "")
    if not (isinstance(value, str) and value.startswith(before)):
        return value
    after = given.rstrip("/")[: -len(os.path.basename(path))] if is_url(given) else ""
    return after + value[len(before) :]


def native(source: Any) -> Any:
    """Converts a source to an argument of the native module: a URL is opened."""
    if is_url(source):
        import fsspec  # type: ignore[import-untyped]

        return fsspec.open(source, "rb").open()
    if hasattr(source, "__fspath__"):
        return os.fspath(source)
    return source


@contextmanager
def named(source: Source) -> Iterator[str]:
    """Yields the path of a source, within a ``with`` statement.

    A source without a path is first copied to a temporary file or folder.

    Raises:
        OSError: If nothing exists at the path.
    """
    if is_path(source):
        yield existing(source)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="proto_splitter-") as folder:
        # Some formats are recognized by the file's name.
        path = os.path.join(folder, os.path.basename(name_of(source).rstrip("/")) or "source")
        if is_url(source):
            _fetch(source, path)
            yield path
            return
        given: Any = source
        with open(path, "xb") as file:
            if hasattr(given, "read") and hasattr(given, "seek"):
                _copy(given, file)
            else:
                file.write(given)
        yield path


def _copy(given: Any, file: Any) -> None:
    """Copies the contents of a file-like object to a file.

    Raises:
        TypeError: If ``read`` returns anything but bytes, including ``None``.
        ValueError: If ``seek(0)`` doesn't reach the start, or the object's contents don't end at
            the end that it reports.
    """
    try:
        end = given.seek(0, 2)
        # The `seek` of some objects returns nothing.
        if end is None:
            end = given.tell()
    except (AttributeError, OSError, ValueError):
        # Some objects, such as decompressing readers, don't know their end.
        end = None
    if at := given.seek(0):
        raise ValueError(f"seek(0) went to {at}")
    copied = 0
    while True:
        data = given.read(_STEP)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"read returned {type(data)}, not bytes")
        if not data:
            break
        if (size := memoryview(data).nbytes) > _STEP:
            raise ValueError(f"read({_STEP}) returned {size} bytes")
        copied += file.write(data)
        # Without this check, a faulty object could be read forever.
        if end is not None and copied > end:
            break
    if end is not None and copied != end:
        raise ValueError(f"the end is at {end}, but {copied} bytes were read")


def existing(path: str | os.PathLike[str]) -> str:
    """Returns the path if a file with this path or prefix exists; otherwise raises ``OSError``."""
    name = os.fspath(path)
    if not any(os.path.exists(name + extension) for extension in _EXTENSIONS):
        os.stat(name)
    return name


def _fetch(url: str, path: str) -> None:
    """Copies the file or folder at a URL, or the chunked file with this prefix, to a path."""
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    files, there = url_to_fs(url)
    for extension in _EXTENSIONS:
        if files.exists(there + extension):
            files.get(there + extension, path, recursive=files.isdir(there))
            return
    raise FileNotFoundError(2, os.strerror(2), url)


@contextmanager
def written_to(
    target: Target, *, force: bool = False, extensions: tuple[str, ...] = ("",)
) -> Iterator[str]:
    """Yields the path to write to for a target, within a ``with`` statement.

    For a URL or an object with ``write``, this is a temporary path, and the target receives the
    contents at the end, once they are complete.

    Args:
        target: The destination.
        force: Overwrites existing objects at a URL.
        extensions: Extensions of the files to write; several if the path is a prefix.

    Raises:
        FileExistsError: If an object exists at a URL, without ``force``.
        ValueError: If the output is several files, but the target is an object with ``write``.
    """
    if not (is_url(target) or is_writer(target)):
        yield os.fspath(target)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="proto_splitter-") as folder:
        path = os.path.join(folder, os.path.basename(name_of(target).rstrip("/")) or "target")
        if is_writer(target):
            yield path
            _hand_over(folder, target)
            return
        from fsspec.core import url_to_fs

        files, there = url_to_fs(target)
        for extension in extensions:
            if not force and files.exists(there + extension):
                _in_the_way(f"{target}{extension}")
        yield path
        above = files._parent(there).rstrip("/")
        if not force:
            # Before the work, not all names of the files were known.
            for local, remote in _places(folder, above):
                if files.exists(remote):
                    _in_the_way(shown(local, path, target))
        _send(folder, os.path.basename(path), files, there)


def _places(folder: str, above: str) -> Iterator[tuple[str, str]]:
    """Yields the path of each file in a folder, and its path below ``above``."""
    for parent, _, names in os.walk(folder):
        for name in names:
            local = os.path.join(parent, name)
            yield local, f"{above}/{os.path.relpath(local, folder).replace(os.sep, '/')}"


def _in_the_way(name: str) -> NoReturn:
    raise FileExistsError(_EEXIST, os.strerror(_EEXIST), name)


def _hand_over(folder: str, target: Any) -> None:
    """Copies the only file in a folder to an object with ``write``."""
    entries = sorted(os.listdir(folder))
    if len(entries) != 1 or os.path.isdir(os.path.join(folder, entries[0])):
        raise ValueError(f"the output has more than one file: {', '.join(entries)}")
    with open(os.path.join(folder, entries[0]), "rb") as file:
        while data := file.read(_STEP):
            # Some objects write only a part of the data, and return its size. Others write all data
            # and return nothing.
            while data and (taken := target.write(data)) is not None:
                if isinstance(taken, bool) or not 0 < taken <= len(data):
                    raise ValueError(f"write returned {taken}, but was given {len(data)} bytes")
                data = data[taken:]


def _send(folder: str, first: str, files: Any, there: str) -> None:
    """Copies the files in a folder to a URL. The file named ``first`` is copied last."""
    above = files._parent(there)
    for name in sorted(os.listdir(folder), key=lambda name: (name == first, name)):
        local, remote = os.path.join(folder, name), f"{above.rstrip('/')}/{name}"
        if os.path.isdir(local):
            files.put(local + "/", remote + "/", recursive=True)
        else:
            files.makedirs(above, exist_ok=True)
            files.put_file(local, remote)
