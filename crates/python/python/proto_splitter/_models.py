"""Converting models to other forms, including forms that unmodified TensorFlow loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import progress_of, thread_count
from ._files import named, shown, written_to
from ._functions import Progress, split_arguments
from ._sizes import size

if TYPE_CHECKING:
    from ._files import Source, Target
    from .reports import ExternalizeReport, InternalizeReport


def _written(
    source: Source,
    to: Target,
    force: bool,
    write: Callable[[str, str], dict[str, Any]],
) -> Any:
    """Calls ``write`` with the paths of a source and a target, and returns its report."""
    with named(source) as name, written_to(to, force=force) as path:
        report = write(name, path)
    return shown(shown(report, name, source), path, to)


def externalize(
    folder: Source,
    output: Target,
    *,
    min_size: int | str = "1MiB",
    mmap: bool = False,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ExternalizeReport:
    """Makes a SavedModel of any size loadable by unmodified TensorFlow.

    Moves large constants from the graph into a checkpoint under ``assets/``, which the model
    itself reads when it is loaded. The model computes the same results, bit for bit.

    Args:
        folder: The folder of a SavedModel, as ``.pb`` of any size or ``.cpb``, or its URL.
        output: The folder or URL to write, which appears complete or not at all.
        min_size: Minimum size of constants to move, in bytes.
        mmap: Maps constants from files at absolute paths, so that the folder must not be moved.
        force: Overwrites an existing SavedModel.
        threads: Number of threads; one per core by default.
        progress: Called with the bytes done and the total.

    Returns:
        The report of ``protosplit externalize --json``: the constants that were moved, and the
        constants that stay in the model, with the reasons.

    Raises:
        OSError: If the folder doesn't exist.
        Error: If the model is damaged, or the part that can't move is still over 2 GiB.
    """
    count = thread_count(threads)
    arguments = {"min_size": size(min_size), "mmap": mmap, "force": force, "threads": count}
    progress = progress_of(progress)

    def write(name: str, path: str) -> dict[str, Any]:
        return _core.externalize(name, path, arguments, progress)

    return _written(folder, output, force, write)  # type: ignore[no-any-return]


def internalize(
    folder: Source, output: Target, *, force: bool = False, progress: Progress | None = None
) -> InternalizeReport:
    """Restores the original of an externalized SavedModel, and writes it.

    Raises:
        OSError: If the folder doesn't exist.
        Error: If the model isn't externalized, or was changed afterwards.
    """

    def write(name: str, path: str) -> dict[str, Any]:
        return _core.internalize(name, path, force, progress_of(progress))

    return _written(folder, output, force, write)  # type: ignore[no-any-return]


def convert(
    source: Source,
    output: Target,
    *,
    to: str = "auto",
    settings: dict[str, str] | None = None,
    max_file_size: int | str | None = None,
    max_chunk_size: int | str = "1GiB",
    value_chunk_size: int | str | None = None,
    compression: str = "auto",
    keep_fingerprint: bool = False,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes a model in another form of its format.

    Args:
        source: A file or folder of any format, such as a SavedModel, an ONNX model or a Paddle
            model; its URL; or an object with ``read`` and ``seek``, whose format is recognized by
            its ``name``.
        output: The file, folder or URL to write, or an object with ``write`` for one file. A target
            without a path receives the contents once they are complete.
        to: The form, such as ``cpb``, ``pb``, ``external``; ``auto`` for the usual one.
        settings: Format-specific settings, such as ``{"alignment": "4096"}``.
        max_file_size: Maximum size of each external data file, in bytes, for formats that have such
            files; any size by default.
        max_chunk_size: For a ``.cpb``: maximum size of each chunk, in bytes.
        value_chunk_size: For a ``.cpb``: smallest value, in bytes, that becomes a separate chunk when
            a message must be split; 1 MiB by default.
        compression: For a ``.cpb``: ``auto``, ``none``, ``zstd``, ``zstd:LEVEL``, ``brotli`` or
            ``snappy``.
        keep_fingerprint: Leaves a SavedModel's ``fingerprint.pb`` unchanged.
        force: Overwrites existing output.
        threads: Number of threads; one per core by default.
        progress: Called with the bytes done and the total.

    Raises:
        OSError: If the source doesn't exist.
        ValueError: If several files are written to an object with ``write``, or the form doesn't
            support an option.
        Error: If the source is damaged, or can't be written in this form.
    """
    arguments = {
        "to": to,
        "settings": [(name, str(value)) for name, value in (settings or {}).items()],
        "max_file_size": None if max_file_size is None else size(max_file_size),
        "keep_fingerprint": keep_fingerprint,
    }
    splitting = split_arguments(
        max_chunk_size=size(max_chunk_size),
        value_chunk_size=None if value_chunk_size is None else size(value_chunk_size),
        compression=compression,
        force=force,
        threads=thread_count(threads),
    )
    progress = progress_of(progress)

    def write(name: str, path: str) -> dict[str, Any]:
        return _core.convert(name, path, arguments, splitting, progress)

    return _written(source, output, force, write)  # type: ignore[no-any-return]
