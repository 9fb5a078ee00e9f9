"""Splitting, merging and verifying in parts, on hosts that see the same files.

URLs name objects in a store, if this package was built with support for stores.

Create a plan once. Each part can run on any host, and any number of times. Once all parts have
run, a commit puts the result in place::

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
    """A plan for work in parts, stored in a file that all hosts read. Plans can be pickled."""

    #: The file of the plan.
    path: str
    #: ``split``, ``merge`` or ``verify``.
    verb: str
    #: Number of parts, which are counted from 0 to ``parts - 1``.
    parts: int
    #: The file that a commit writes; ``None`` for a verification.
    output: str | None


def _name(source: Path) -> str:
    """Returns the name of an input. Raises the system's error if the file doesn't exist."""
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
    """Plans to split a file into ``PREFIX.cpb`` and, next to it, a file for each part.

    Args:
        source: A file with a serialized message.
        prefix: The path of the result, without ``.cpb``.
        message: The full name of the message's type; optional for ``saved_model.pb``.
        schema: A serialized ``FileDescriptorSet`` with the type, unless it is built in.
        plan: The file that the plan is written to.
        parts: Maximum number of parts; 16 by default.
        max_chunk_size: Maximum size of each chunk, in bytes.
        value_chunk_size: Minimum size of values that become separate chunks, in bytes.
        max_file_size: Maximum size of each file, in bytes. Determines the number of parts.
        compression: ``auto``, ``none``, ``zstd``, ``zstd:LEVEL``, ``brotli`` or ``snappy``.
        embed_schema: Stores the schema in the file.
        merkle_root: Makes the parts hash their chunks for a Merkle root, which the report of the
            commit contains.
        force: Overwrites existing output.

    Raises:
        OSError: If something can't be read or written, or the output exists.
        Error: If the source isn't a message of this type, or can't be cut.
        ValueError: If the arguments are wrong.
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
    """Plans to merge a chunked file into the file ``target``.

    Args:
        source: The ``.cpb`` file.
        target: The file to write. Parts write to a hidden file of the same size next to the target.
        plan: The file that the plan is written to.
        parts: Maximum number of parts; 16 by default.
        message: The message's type, which some files from TensorFlow's own splitters need.
        schema: A serialized ``FileDescriptorSet`` with that type, unless it is built in.
        force: Overwrites existing output.

    Raises:
        OSError: If something can't be read or written, or the output exists.
        Error: If the file is damaged.
        ValueError: If the arguments are wrong, or the file isn't in chunks.
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
    """Plans to verify a chunked file. The arguments are the same as in :func:`plan_merge`.

    Raises:
        OSError: If something can't be read or written.
        Error: If the file is so damaged that it can't be opened.
        ValueError: If the arguments are wrong, or the file isn't in chunks.
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
    """Executes a part of a plan and returns the path of its report.

    A part can run any number of times, on any host, even simultaneously or after the commit.

    Args:
        plan: The plan. This host must see its file.
        part: The number of the part, from 0.
        report: The path for the report; by default, next to the plan.
        threads: Number of threads; one per core by default.
        progress: Called with the bytes done and the total.

    Raises:
        OSError: If something can't be read or written.
        Error: If the input is damaged, or has changed since it was planned.
        ValueError: If the plan has no such part, or its file now contains another plan.
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
    """Puts the result of a plan in place, and returns the report of ``--commit --json``.

    A repeated commit succeeds again. For a verification, ``problems`` lists all errors.

    Args:
        plan: The plan.
        reports: The report of every part; by default, the reports next to the plan.
        reread: Reads the written parts of a split or merge once, and compares them with their
            checksums. Otherwise, damage that occurred after they were written isn't noticed. Damage
            to a merged message isn't noticed later either.
        progress: Called with the bytes done and the total.

    Raises:
        OSError: If something can't be read or written, or the output exists.
        ValueError: If a report is missing, or belongs to another plan.
        Error: If a part's file is damaged.
    """
    given = [] if reports is None else [os.fspath(report) for report in reports]
    return _core.commit((plan.path, plan.verb), given, reread, progress)
