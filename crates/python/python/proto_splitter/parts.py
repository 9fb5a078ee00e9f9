"""Splitting, merging and verifying in parts, on several hosts that share a file system.

Instead of paths, arguments may be URLs of objects in an object store, if this package was built
with support for object stores.

A plan is created once, and divides the work into parts. Each part can run on any host, and any
number of times. Once all parts have run, a commit assembles the result::

    plan = plan_split("model.pb", "small/model", "my.Model", schema, plan="small/plan", parts=100)
    run_part(plan, 17)    # on any host
    commit(plan)

:mod:`proto_splitter.ray` runs all these steps with Ray.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _core
from ._files import is_url
from ._functions import Progress, split_arguments
from ._sizes import check, size

Path = str | os.PathLike[str]

__all__ = ["Plan", "commit", "plan_merge", "plan_split", "plan_verify", "run_part"]


@dataclass(frozen=True)
class Plan:
    """A plan that divides work into parts, stored in a file that all hosts read.

    This object refers to the file, and can be pickled.
    """

    #: The path of the plan's file.
    path: str
    #: The planned operation: ``split``, ``merge`` or ``verify``.
    verb: str
    #: Number of parts. They are numbered from 0 to ``parts - 1``.
    parts: int
    #: The path of the file that the commit writes; ``None`` for a verification.
    output: str | None


def _name(source: Path) -> str:
    """Returns the path or URL of an input. Raises ``OSError`` if a file doesn't exist."""
    if not is_url(source):
        os.stat(source)
    return os.fspath(source)


def _plan(plan: Path, report: dict[str, Any]) -> Plan:
    return Plan(os.fspath(plan), report["verb"], report["parts"], report["output"])


def plan_split(
    source: Path,
    prefix: Path,
    message: str | None = None,
    schema: bytes | None = None,
    *,
    plan: Path,
    parts: int | None = None,
    max_chunk_size: int | str = "1GiB",
    value_chunk_size: int | str = "1MiB",
    max_file_size: int | str | None = None,
    compression: str = "auto",
    embed_schema: bool = False,
    merkle_root: bool = False,
    force: bool = False,
) -> Plan:
    """Creates a plan to split a file into ``PREFIX.cpb`` and, next to it, a file for each part.

    Args:
        source: A file with a serialized message.
        prefix: The path of the result, without ``.cpb``.
        message: The full name of the message's type; optional for ``saved_model.pb``.
        schema: A serialized ``FileDescriptorSet`` with the type, unless the type is built in.
        plan: The path of the file to which the plan is written.
        parts: Maximum number of parts; 16 by default.
        max_chunk_size: Maximum size of each chunk, in bytes.
        value_chunk_size: Minimum size of values that become separate chunks, in bytes.
        max_file_size: Maximum size of each part's file, in bytes, which determines the number of
            parts.
        compression: ``auto``, ``none``, ``zstd``, ``brotli`` or ``snappy``. All but ``none`` and
            ``snappy`` may have a level, as in ``zstd:9``.
        embed_schema: Stores the schema in ``PREFIX.cpb``.
        merkle_root: Hashes the chunks for a Merkle root, which the report of the commit contains.
        force: Overwrites existing output.

    Raises:
        OSError: If a file can't be read or written, or the output exists and ``force`` isn't given.
        Error: If the source isn't a message of this type, or can't be split.
        ValueError: If an argument is invalid.
    """
    check("parts", parts, 1)
    arguments = split_arguments(
        max_chunk_size=size(max_chunk_size),
        value_chunk_size=size(value_chunk_size),
        max_file_size=None if max_file_size is None else size(max_file_size),
        compression=compression,
        profile="extended",
        embed_schema=embed_schema,
        merkle_root=merkle_root,
        force=force,
    )
    places = _name(source), os.fspath(prefix), os.fspath(plan)
    return _plan(plan, _core.plan_split(*places, (message, schema), arguments, parts))


def plan_merge(
    source: Path,
    target: Path,
    *,
    plan: Path,
    parts: int | None = None,
    message: str | None = None,
    schema: bytes | None = None,
    force: bool = False,
) -> Plan:
    """Creates a plan to merge a chunked file into the file ``target``.

    Args:
        source: The path of the ``.cpb`` file.
        target: The path of the file to write. Until the commit, the parts write to a hidden file of
            the same size next to it.
        plan: The path of the file to which the plan is written.
        parts: Maximum number of parts; 16 by default.
        message: The full name of the message's type. Only needed for some files from TensorFlow's
            own splitters.
        schema: A serialized ``FileDescriptorSet`` with that type, unless the type is built in.
        force: Overwrites existing output.

    Raises:
        OSError: If a file can't be read or written, or the output exists and ``force`` isn't given.
        Error: If the source is damaged.
        ValueError: If an argument is invalid, or the source isn't a chunked file.
    """
    check("parts", parts, 1)
    places = _name(source), os.fspath(target), os.fspath(plan)
    return _plan(plan, _core.plan_merge(*places, (message, schema), force, parts))


def plan_verify(
    path: Path,
    *,
    plan: Path,
    parts: int | None = None,
    message: str | None = None,
    schema: bytes | None = None,
) -> Plan:
    """Creates a plan to verify a chunked file. The arguments are as in :func:`plan_merge`.

    Raises:
        OSError: If a file can't be read or written.
        Error: If the chunked file is so damaged that it can't be opened.
        ValueError: If an argument is invalid, or the file isn't a chunked file.
    """
    check("parts", parts, 1)
    report = _core.plan_verify(_name(path), os.fspath(plan), (message, schema), parts)
    return _plan(plan, report)


def run_part(
    plan: Plan,
    part: int,
    *,
    report: Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> str:
    """Executes a part of a plan and returns the path of the part's report.

    A part can run any number of times, on any host, even simultaneously or after the commit.

    Args:
        plan: The plan, whose file must exist on this host.
        part: The number of the part, from 0.
        report: The path of the report to write; by default, a file next to the plan.
        threads: Number of threads; one per core by default.
        progress: Called with the bytes done and the total.

    Raises:
        OSError: If a file can't be read or written.
        Error: If the input is damaged, or has changed since the plan was created.
        ValueError: If the plan has no such part, or the plan's file now contains another plan.
    """
    check("part", part, 0)
    given = None if report is None else os.fspath(report)
    done = _core.run_part((plan.path, plan.verb), part, given, threads, progress)
    return str(done["report"])


def commit(
    plan: Plan,
    reports: Iterable[Path] | None = None,
    *,
    reread: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Assembles the result from all parts, and returns the report of ``--commit --json``.

    A repeated commit succeeds again. For a verification, ``problems`` in the report lists all
    errors.

    Args:
        plan: The plan.
        reports: The paths of the reports of all parts; by default, the reports next to the plan.
        reread: Reads the written parts of a split or merge once, and compares them with their
            checksums. Otherwise, damage that occurred after a part was written isn't noticed. In a
            merged message, which has no checksums, it isn't noticed later either.
        progress: Called with the bytes done and the total.

    Raises:
        OSError: If a file can't be read or written, or the output exists and the plan was created
            without ``force``.
        ValueError: If a report is missing, or belongs to another plan.
        Error: If a part's file is damaged.
    """
    given = [] if reports is None else [os.fspath(report) for report in reports]
    return _core.commit((plan.path, plan.verb), given, reread, progress)
