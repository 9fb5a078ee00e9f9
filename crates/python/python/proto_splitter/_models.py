"""Models: from one form to another, and to what unmodified TensorFlow loads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ._files import named, shown, written_to
from ._functions import Progress
from ._reports import run
from ._sizes import size

if TYPE_CHECKING:
    from ._files import Source, Target
    from .reports import ExternalizeReport, InternalizeReport


def _written(
    verb: str,
    *arguments: str,
    source: Source,
    to: Target,
    force: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    options = [*arguments, "--force"] if force else list(arguments)
    with named(source) as name, written_to(to, force=force) as path:
        last = ["--", name, path] if verb == "convert" else ["--output", path, "--", name]
        _, output = run(verb, "--json", *options, *last, outputs=(path,), progress=progress)
    report: dict[str, Any] = json.loads(output)
    report = shown(shown(report, name, source), path, to)
    return report


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
    """Makes a SavedModel of any size into one that unmodified TensorFlow loads and runs.

    Large constants move out of the graph into a checkpoint under ``assets/``, which the model
    reads itself when it is loaded. It computes the same, bit by bit.

    Args:
        folder: The folder of a SavedModel, as ``.pb`` of any size or ``.cpb``, or its URL.
        output: The folder to be written, which appears complete or not at all; or a URL.
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
    arguments += [] if threads is None else ["--threads", str(threads)]
    report: Any = _written(
        "externalize", *arguments, source=folder, to=output, force=force, progress=progress
    )
    return report  # type: ignore[no-any-return]


def internalize(
    folder: Source, output: Target, *, force: bool = False, progress: Progress | None = None
) -> InternalizeReport:
    """Writes the original of a SavedModel that was externalized.

    Raises:
        OSError: If there is no such folder.
        Error: If it isn't an externalized model, or was changed since.
    """
    report: Any = _written(
        "internalize", source=folder, to=output, force=force, progress=progress
    )
    return report  # type: ignore[no-any-return]


def convert(
    source: Source,
    output: Target,
    *,
    to: str = "auto",
    settings: dict[str, str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes a model in another form of its format.

    Args:
        source: A file or folder of any format: a SavedModel, an ONNX model, a Paddle model; its
            URL, or an object with ``read`` and ``seek``, which is known by its ``name``.
        output: The file or folder to be written; a URL, or an object with ``write`` for one file.
            What has no path is written once the whole is there.
        to: The form, such as ``cpb``, ``pb``, ``external``; ``auto`` for the usual one.
        settings: What only some formats know, such as ``{"alignment": "4096"}``.
        force: Replaces what is in the way.
        progress: Called with bytes done and bytes in all.

    Raises:
        OSError: If the source isn't there.
        ValueError: If it is more than one file, for an object with ``write``.
        Error: If it is damaged, or can't be written in this form.
    """
    arguments = ["--to", to]
    for name, value in (settings or {}).items():
        arguments += ["--set", f"{name}={value}"]
    return _written("convert", *arguments, source=source, to=output, force=force, progress=progress)
