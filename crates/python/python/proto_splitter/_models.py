"""Conversions of models to other forms, and appending to files of Paddle parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import progress_of, thread_count
from ._files import is_url, named, native, shown, written_to
from ._functions import Progress, split_arguments
from ._sizes import size

if TYPE_CHECKING:
    from ._files import Source, Target
    from .reports import AppendReport, ExternalizeReport, InternalizeReport


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
    """Converts a SavedModel of any size to one that unmodified TensorFlow can load.

    Moves large constants from the graph to a checkpoint under ``assets/``. When the new model is
    loaded, its graph reads this checkpoint. It computes the same results, except that the last bit
    can differ where TensorFlow combines constants that are added or multiplied one after the other.

    Args:
        folder: The folder of a SavedModel, or its URL. The model may be a ``.pb`` of any size or a
            ``.cpb``.
        output: The folder or URL to write. The folder appears complete or not at all.
        min_size: Minimum size of constants to move, in bytes; at least 256.
        mmap: Writes constants to files that the model maps into memory by their absolute paths.
            The folder can't be moved afterwards.
        force: Overwrites an existing SavedModel.
        threads: Number of threads; one per core by default.
        progress: Called with the bytes done and the total.

    Returns:
        The report of ``protosplit externalize --json``: the constants that were moved, and the
        constants that stay in the model, with the reasons.

    Raises:
        OSError: If the folder doesn't exist.
        Error: If the model is damaged, or is still over 2 GiB without the constants that can move.
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
    """Writes the original SavedModel from which an externalized one was made.

    Raises:
        OSError: If the folder doesn't exist.
        Error: If the model isn't externalized, or has been changed since.
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
    """Converts a model to another form of the same format, such as a ``.cpb``.

    Args:
        source: A file or folder of any format, such as a SavedModel, an ONNX model or a Paddle
            model; its URL; or an object with ``read`` and ``seek``, whose format is recognized by
            its ``name``.
        output: The file, folder or URL to write; or an object with ``write``, for a form that is
            one file. A URL or an object receives the contents once they are complete.
        to: The form to write, such as ``cpb``, ``pb`` or ``external``; ``auto`` for the usual form.
        settings: Format-specific settings, such as ``{"alignment": "4096"}``.
        max_file_size: Maximum size of each external data file, in bytes, for formats that have such
            files; unlimited by default.
        max_chunk_size: For a ``.cpb``: maximum size of each chunk, in bytes.
        value_chunk_size: For a ``.cpb``: minimum size, in bytes, of values that become separate
            chunks when a message must be split; 1 MiB by default.
        compression: For a ``.cpb``: ``auto``, ``none``, ``zstd``, ``brotli`` or ``snappy``. All but
            ``none`` and ``snappy`` may have a level, as in ``zstd:9``.
        keep_fingerprint: Leaves a SavedModel's ``fingerprint.pb`` unchanged.
        force: Overwrites existing output.
        threads: Number of threads; one per core by default.
        progress: Called with the bytes done and the total.

    Raises:
        OSError: If the source doesn't exist.
        ValueError: If the output is several files, but ``output`` is an object with ``write``; or
            if the form doesn't support an option.
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


def append(
    file: str | os.PathLike[str],
    tensor: Source,
    *,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    lod: Sequence[Sequence[int]] = (),
    program: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> AppendReport:
    """Appends a tensor to a file of Paddle parameters in the layout ``sized``, in place.

    The other tensors aren't read, and their bytes don't change. After an error, the file has its
    old size.

    Args:
        file: The path of the parameters, which may be an empty file; or the folder or program of a
            model. If there is a program, the tensor must be its next parameter, in the order of
            their names, and have the declared type and shape.
        tensor: An array, or an object with ``__array__``; or a NumPy file: its path, its bytes, its
            URL, or an object with ``read`` and ``seek``. With ``shape``, the elements alone,
            little-endian, instead of a NumPy file.
        dtype: The name of the elements' type, such as ``float32``. Needed with ``shape``, and for
            types that NumPy lacks, such as ``bfloat16`` in an array of ``uint16``.
        shape: The shape of a tensor that is given as its elements alone.
        lod: Levels of detail, the coarsest first: for each level, the start of every sequence, and
            the end of the last one.
        program: The path of the program, if it isn't beside the parameters.
        progress: Called with the bytes done and the total.

    Returns:
        The report of ``protosplit append --json``: the tensor's index in the file, its name in the
        program, its type and its size.

    Raises:
        OSError: If a file doesn't exist.
        ValueError: If ``file`` is a URL; if the type is unknown to Paddle; or if the tensor isn't
            the next parameter of the program.
        Error: If the parameters have another layout, or a file is damaged.
    """
    if is_url(file):
        raise ValueError(f"{file}: an object can't be appended to")
    if hasattr(tensor, "__array__"):
        if shape is not None:
            raise ValueError("shape: an array has its own shape")
        tensor, dtype, shape = _elements(tensor, dtype)
    arguments = {
        "dtype": dtype,
        "shape": None if shape is None else list(shape),
        "lod": [list(level) for level in lod],
        "program": None if program is None else os.fspath(program),
    }
    report: Any = _core.append(os.fspath(file), native(tensor), arguments, progress_of(progress))
    return report  # type: ignore[no-any-return]


def _elements(tensor: Any, dtype: str | None) -> tuple[Any, str, tuple[int, ...]]:
    """Returns the bytes of an array's elements, the name of their type, and the array's shape."""
    import numpy as np

    array: np.ndarray[Any, Any] = np.asarray(tensor)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    own = array.dtype.name
    # Elements of types that NumPy lacks may be in an array of whole numbers or of raw bytes.
    is_bits = array.dtype.kind in "iu" and not hasattr(np, dtype or own)
    if dtype not in (None, own) and not is_bits and not own.startswith("void"):
        raise ValueError(f"dtype: the array's elements have the type {own}, not {dtype}")
    elements = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return elements, dtype or own, array.shape
