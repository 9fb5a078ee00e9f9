"""Reports on files, as Python objects."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import Error
from ._files import name_of, named
from ._functions import Progress
from ._sizes import check, size

if TYPE_CHECKING:
    from ._files import Source
    from .reports import DiffReport, FingerprintReport, InfoReport, VerifyReport


def info(source: Source, *, message: str | None = None) -> InfoReport:
    """Returns a report on a file: its chunks with kind, path, size, stored size and compression.

    Reads headers only. The report has the keys of ``protosplit info --json``.

    Raises:
        OSError: If the file doesn't exist.
        Error: If the file is damaged.
    """
    with named(source) as name:
        report: Any = _core.info(name, message)
        return report  # type: ignore[no-any-return]


def verify(
    source: Source,
    *,
    against: Source | None = None,
    deep: bool = False,
    root: str | None = None,
    message: str | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Checks every hash, size and position in a file. Problems are returned, and not raised.

    Args:
        source: The path of a file, its prefix, or a SavedModel's folder. Bytes, an object with
            ``read`` and ``seek``, or a URL are first copied to a temporary file.
        against: A serialized message to compare with the merged message.
        deep: Also parses the whole message by its type.
        root: The expected Merkle root, in hexadecimal digits.
        message: The full name of the message's type, if the file doesn't name it.
        progress: Called with the bytes done and the total.

    Returns:
        A report with the keys of ``protosplit verify --json`` and the key ``ok``.

    Raises:
        OSError: If the file doesn't exist.
    """
    with ExitStack() as files:
        name = files.enter_context(named(source))
        original = None if against is None else files.enter_context(named(against))
        try:
            report: Any = _core.verify(name, message, original, {"deep": deep, "root": root}, progress)
        except Error as error:
            # A file that can't be opened is a problem, too.
            return {"ok": False, "problems": [str(error)]}
    return report  # type: ignore[no-any-return]


def diff(
    first: Source,
    second: Source,
    *,
    limit: int = 10,
    message: str | None = None,
    progress: Progress | None = None,
) -> DiffReport:
    """Compares two messages field by field, and returns the first ``limit`` differences.

    Returns:
        A report with the keys of ``protosplit diff --json`` and the key ``equal``.

    Raises:
        OSError: If a file doesn't exist.
        Error: If a file is damaged.
    """
    check("limit", limit, 1)
    with named(first) as a, named(second) as b:
        report: Any = _core.diff(a, b, message, limit, progress)
    return report  # type: ignore[no-any-return]


def fingerprint(folder: Source, *, progress: Progress | None = None) -> FingerprintReport:
    """Computes a SavedModel's fingerprint as TensorFlow does, and compares it with the stored one.

    The model may have any size, since it is read from its files and isn't loaded.

    Raises:
        OSError: If the folder doesn't exist.
        Error: If TensorFlow's own code can't compute the fingerprint.
    """
    with named(folder) as name:
        report: Any = _core.fingerprint(name, progress)
        return report  # type: ignore[no-any-return]


class SizeTree(Mapping[str, Any]):
    """The sizes of the parts of a message, by field path; returned by :func:`tree`.

    A mapping with the keys of ``protosplit tree --json``, which a notebook shows as a page.
    """

    def __init__(self, files: ExitStack, native: _core.Tree, shown: str) -> None:
        # Keeps the temporary copy of a source that isn't a path.
        self._files = files
        self._native = native
        self._shown = shown
        self._report = native.report()

    def __getitem__(self, key: str) -> Any:
        return self._report[key]

    def __iter__(self) -> Any:
        return iter(self._report)

    def __len__(self) -> int:
        return len(self._report)

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return f"SizeTree({self._shown!r})"

    def to_html(self) -> str:
        """Returns the sizes as a self-contained interactive HTML page."""
        return self._native.page()

    def _repr_html_(self) -> str:
        import html

        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:480px;border:0"></iframe>'


def tree(
    source: Source,
    *,
    depth: int | None = None,
    top: int | None = None,
    min_size: int | str | None = None,
    message: str | None = None,
    progress: Progress | None = None,
) -> SizeTree:
    """Measures the sizes of the parts of a message of any size, without loading the message.

    Args:
        source: The path of a file, its prefix, or a SavedModel's folder. Bytes, an object with
            ``read`` and ``seek``, or a URL are first copied to a temporary file.
        depth: Maximum number of levels of fields to list.
        top: Maximum number of elements to list for each repeated field.
        min_size: Minimum size of parts to list, in bytes.
        message: The full name of the message's type, if the file doesn't name it.
        progress: Called with the bytes done and the total.

    Raises:
        OSError: If the file doesn't exist.
        Error: If the file is damaged.
    """
    check("depth", depth, 0)
    check("top", top, 0)
    least = None if min_size is None else size(min_size)
    with ExitStack() as files:
        name = files.enter_context(named(source))
        native = _core.Tree(name, message, depth, top, least, progress)
        return SizeTree(files.pop_all(), native, name_of(source))
