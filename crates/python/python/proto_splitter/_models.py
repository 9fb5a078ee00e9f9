"""Models: from one form to another, and to what unmodified TensorFlow loads."""

from __future__ import annotations

import json
import os
from typing import Any

from ._functions import Progress
from ._reports import existing, run
from ._sizes import size

Path = str | os.PathLike[str]


def _written(
    verb: str, *arguments: str, to: Path, progress: Progress | None
) -> dict[str, Any]:
    _, output = run(verb, "--json", *arguments, outputs=(os.fspath(to),), progress=progress)
    report: dict[str, Any] = json.loads(output)
    return report


def externalize(
    folder: Path,
    output: Path,
    *,
    min_size: int | str = "1MiB",
    mmap: bool = False,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Makes a SavedModel of any size into one that unmodified TensorFlow loads and runs.

    Large constants move out of the graph into a checkpoint under ``assets/``, which the model
    reads itself when it is loaded. It computes the same, bit by bit.

    Args:
        folder: The folder of a SavedModel, as ``.pb`` of any size or ``.cpb``.
        output: The folder to be written; it appears complete or not at all.
        min_size: Constants of at least so many bytes move.
        mmap: Maps constants from files at absolute paths, so that the folder can't be moved.
        force: Replaces a SavedModel that is in the way.
        threads: How many threads work; as many as there are cores unless given.
        progress: Called with bytes done and bytes in all.

    Returns:
        What ``protosplit externalize --json`` reports: what moved, and what was left in and why.

    Raises:
        OSError: If there is no such folder.
        Error: If the model is damaged, or what can't move is still over 2 GiB.
    """
    arguments = ["--min-size", str(size(min_size))]
    arguments += ["--mmap"] if mmap else []
    arguments += ["--force"] if force else []
    arguments += [] if threads is None else ["--threads", str(threads)]
    arguments += ["--output", os.fspath(output), "--", existing(folder)]
    return _written("externalize", *arguments, to=output, progress=progress)


def internalize(
    folder: Path, output: Path, *, force: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """Writes the original of a SavedModel that was externalized.

    Raises:
        OSError: If there is no such folder.
        Error: If it isn't an externalized model, or was changed since.
    """
    arguments = ["--force"] if force else []
    arguments += ["--output", os.fspath(output), "--", existing(folder)]
    return _written("internalize", *arguments, to=output, progress=progress)


def convert(
    source: Path,
    output: Path,
    *,
    to: str = "auto",
    settings: dict[str, str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes a model in another form of its format.

    Args:
        source: A file or folder of any format: a SavedModel, an ONNX model, a Paddle model.
        output: The file or folder to be written.
        to: The form, such as ``cpb``, ``pb``, ``external``; ``auto`` for the usual one.
        settings: What only some formats know, such as ``{"alignment": "4096"}``.
        force: Replaces what is in the way.
        progress: Called with bytes done and bytes in all.

    Raises:
        OSError: If the source isn't there.
        Error: If it is damaged, or can't be written in this form.
    """
    arguments = ["--to", to]
    for name, value in (settings or {}).items():
        arguments += ["--set", f"{name}={value}"]
    arguments += ["--force"] if force else []
    arguments += ["--", existing(source), os.fspath(output)]
    return _written("convert", *arguments, to=output, progress=progress)
