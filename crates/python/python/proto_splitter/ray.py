"""Splitting, merging and verifying on a Ray cluster.

The work is divided into parts, as in :mod:`proto_splitter.parts`. Each part is a task, which Ray
runs again if the task's worker dies. A task receives only the path of the plan and the number of
the part. Therefore, all nodes must access the same files by the same paths, or objects by the same
URLs. URLs require a package that was built with support for object stores::

    import ray
    import proto_splitter.ray

    ray.init()
    proto_splitter.ray.split("model.pb", "small/model", "my.Model", schema, parts=100)

``ray`` and this package must be installed on every node.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import ray

from . import parts as _parts
from ._files import is_url

Path = str | os.PathLike[str]

__all__ = ["DEFAULT_RETRIES", "merge", "run", "split", "verify"]

#: Default maximum number of times to run a part again after it fails or its worker dies.
DEFAULT_RETRIES = 3


@contextmanager
def _beside(path: Path, scratch: Path | None) -> Iterator[str]:
    """Yields a path for a plan, in a new temporary folder that is removed at the end.

    The folder is created in ``scratch``; by default, next to ``path``. All nodes must access it.
    """
    around = _above(path) if scratch is None else scratch
    if is_url(around):
        # In an object store, a folder needn't be created.
        folder = f"{around.rstrip('/')}/.protosplit-{uuid.uuid4().hex}.tmp"
        try:
            yield f"{folder}/plan"
        finally:
            _remove_objects(folder)
        return
    # The working directory of a task may differ, so the path must be absolute.
    around = os.path.abspath(around)
    folder = tempfile.mkdtemp(prefix=".protosplit-", suffix=".tmp", dir=around)
    try:
        yield os.path.join(folder, "plan")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _above(path: Path) -> str:
    """Returns the folder of a path or URL."""
    if is_url(path):
        return path.rstrip("/").rpartition("/")[0]
    return os.path.dirname(os.path.abspath(path))


def _remove_objects(folder: str) -> None:
    """Removes the objects below a URL, ignoring errors."""
    # An error is ignored, since only the plan and its small reports would remain.
    with suppress(Exception):
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]

        files, there = url_to_fs(folder)
        files.rm(there, recursive=True)


def _run_part(plan: _parts.Plan, part: int, threads: int | None) -> str:
    return _parts.run_part(plan, part, threads=threads)


def run(
    plan: _parts.Plan,
    *,
    retries: int = DEFAULT_RETRIES,
    threads: int = 1,
    options: dict[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Runs all parts of a plan as tasks, commits it, and returns the commit's report.

    Args:
        plan: The plan, whose file all nodes must access.
        retries: Maximum number of times to run a part again after it fails or its worker dies.
        threads: Number of threads for each part, and number of CPUs that Ray reserves for a part.
        options: Other options of the tasks, which are passed to ``ray.remote``.
        progress: Called with the number of parts done and the total number of parts.

    Raises:
        ray.exceptions.RayError: If a part fails more often than ``retries`` allows.
        ValueError: If a part's report is missing.
        FileExistsError: If the result exists, and the plan was created without ``force``.
    """
    given = {"num_cpus": threads, "max_retries": retries, "retry_exceptions": True}
    task = ray.remote(**{**given, **(options or {})})(_run_part)
    waiting = [task.remote(plan, part, threads) for part in range(plan.parts)]
    reports: list[str] = []
    while waiting:
        done, waiting = ray.wait(waiting)
        reports += ray.get(done)
        if progress is not None:
            progress(len(reports), plan.parts)
    return _parts.commit(plan, reports)


def split(
    source: Path,
    prefix: Path,
    message: str | None = None,
    schema: bytes | None = None,
    *,
    parts: int | None = None,
    scratch: Path | None = None,
    retries: int = DEFAULT_RETRIES,
    threads: int = 1,
    options: dict[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
    **splitting: Any,
) -> dict[str, Any]:
    """Splits a file into ``PREFIX.cpb`` and, next to it, a file for each part.

    Args:
        source: A file with a serialized message.
        prefix: The path of the result, without ``.cpb``.
        message: The full name of the message's type.
        schema: A serialized ``FileDescriptorSet`` with the type, unless the type is built in.
        parts: Maximum number of parts; 16 by default.
        scratch: The folder for the plan, or the folder's URL, which all nodes must access; by
            default, the folder of the result.
        retries: As for :func:`run`.
        threads: As for :func:`run`.
        options: As for :func:`run`.
        progress: As for :func:`run`.
        splitting: Other arguments of :func:`proto_splitter.parts.plan_split`.
    """
    with _beside(prefix, scratch) as plan:
        planned = _parts.plan_split(
            source, prefix, message, schema, plan=plan, parts=parts, **splitting
        )
        return run(planned, retries=retries, threads=threads, options=options, progress=progress)


def merge(
    source: Path,
    target: Path,
    *,
    parts: int | None = None,
    scratch: Path | None = None,
    retries: int = DEFAULT_RETRIES,
    threads: int = 1,
    options: dict[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
    **merging: Any,
) -> dict[str, Any]:
    """Merges a chunked file into the file ``target``.

    Args:
        source: The path of the ``.cpb`` file.
        target: The path of the file to write.
        parts: Maximum number of parts; 16 by default.
        scratch: The folder for the plan, or the folder's URL, which all nodes must access; by
            default, the folder of the result.
        retries: As for :func:`run`.
        threads: As for :func:`run`.
        options: As for :func:`run`.
        progress: As for :func:`run`.
        merging: Other arguments of :func:`proto_splitter.parts.plan_merge`.
    """
    with _beside(target, scratch) as plan:
        planned = _parts.plan_merge(source, target, plan=plan, parts=parts, **merging)
        return run(planned, retries=retries, threads=threads, options=options, progress=progress)


def verify(
    path: Path,
    *,
    parts: int | None = None,
    scratch: Path | None = None,
    retries: int = DEFAULT_RETRIES,
    threads: int = 1,
    options: dict[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
    **verifying: Any,
) -> dict[str, Any]:
    """Verifies a chunked file. In the returned report, ``problems`` lists all errors.

    Args:
        path: The path of the ``.cpb`` file.
        parts: Maximum number of parts; 16 by default.
        scratch: The folder for the plan, or the folder's URL, which all nodes must access; by
            default, the folder of the file.
        retries: As for :func:`run`.
        threads: As for :func:`run`.
        options: As for :func:`run`.
        progress: As for :func:`run`.
        verifying: Other arguments of :func:`proto_splitter.parts.plan_verify`.
    """
    with _beside(path, scratch) as plan:
        planned = _parts.plan_verify(path, plan=plan, parts=parts, **verifying)
        return run(planned, retries=retries, threads=threads, options=options, progress=progress)
