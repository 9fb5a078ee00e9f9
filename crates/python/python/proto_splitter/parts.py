"""Splitting, merging and verifying in parts, on hosts that see the same files.

URLs name objects in a store, if the command was built with support for stores.

A plan is made once, each part can run on any host and any number of times, and once all parts have
run, a commit puts the result in place::

    plan = plan_split("model.pb", "small/model", "my.Model", schema, plan="small/plan", parts=100)
    run_part(plan, 17)    # on any host
    commit(plan)

:mod:`proto_splitter.ray` does that with Ray.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ._files import is_url
from ._reports import run
from ._sizes import size

Path = str | os.PathLike[str]

__all__ = ["Plan", "commit", "plan_merge", "plan_split", "plan_verify", "run_part"]


@dataclass(frozen=True)
class Plan:
    """Divided work, in a file that all hosts read. It can be pickled."""

    #: The file of the plan.
    path: str
    #: ``split``, ``merge`` or ``verify``.
    verb: str
    #: Number of parts, which are counted from 0 to ``parts - 1``.
    parts: int
    #: The file that a commit writes; ``None`` for a verification.
    output: str | None


@contextmanager
def _type(message: str | None, schema: bytes | None) -> Iterator[list[str]]:
    """Yields the arguments for a message's type."""
    arguments = [] if message is None else ["--message", message]
    if schema is None:
        yield arguments
        return
    with tempfile.NamedTemporaryFile(suffix=".binpb") as file:
        file.write(schema)
        file.flush()
        yield [*arguments, "--descriptor-set", file.name]


def _check_there(source: Path) -> None:
    """Raises the system's error if there is no such file. The command checks URLs."""
    if not is_url(source):
        os.stat(source)


def _plan(verb: str, plan: Path, parts: int | None, *arguments: str) -> Plan:
    count = [] if parts is None else ["--parts", str(parts)]
    told = ["--json", "--plan-only", os.fspath(plan), *count]
    _, output = run(verb, *told, *arguments)
    report = json.loads(output)
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
    force: bool = False,
) -> Plan:
    """Plans to split a file into ``PREFIX.cpb`` and a file for each part beside it.

    Args:
        source: A file with a serialized message.
        prefix: The path of the result, without ``.cpb``.
        message: The full name of the message's type; ``saved_model.pb`` needs none.
        schema: A serialized ``FileDescriptorSet`` with the type, unless it is built in.
        plan: The file that the plan is written to.
        parts: Largest number of parts; 16 by default.
        max_chunk_size: Largest chunk, in bytes.
        value_chunk_size: Smallest value that becomes a separate chunk, in bytes.
        max_file_size: Largest file, in bytes; the number of parts follows from it.
        compression: ``auto``, ``none``, ``zstd``, ``zstd:LEVEL``, ``brotli`` or ``snappy``.
        embed_schema: Stores the schema in the file.
        force: Overwrites existing output.

    Raises:
        Error: If the source isn't a message of this type, or can't be cut.
        ValueError: If the output exists, or the arguments are wrong.
    """
    arguments = ["--profile", "extended", "--compression", compression]
    arguments += ["--max-chunk-size", str(size(max_chunk_size))]
    arguments += ["--value-chunk-size", str(size(value_chunk_size))]
    if max_file_size is not None:
        arguments += ["--max-file-size", str(size(max_file_size))]
    arguments += ["--embed-schema"] if embed_schema else []
    arguments += ["--force"] if force else []
    _check_there(source)
    with _type(message, schema) as types:
        paths = ["--output", os.fspath(prefix), "--", os.fspath(source)]
        return _plan("split", plan, parts, *arguments, *types, *paths)


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
    """Plans to merge a chunked file to the file ``target``.

    Args:
        source: The ``.cpb`` file.
        target: The file to write. Parts write to a hidden file of the same size beside it.
        plan: The file that the plan is written to.
        parts: Largest number of parts; 16 by default.
        message: The message's type, which some files of TensorFlow's own splitters need.
        schema: A serialized ``FileDescriptorSet`` with that type, unless it is built in.
        force: Overwrites existing output.

    Raises:
        Error: If the file is damaged.
        ValueError: If the output exists, or the arguments are wrong.
    """
    arguments = ["--force"] if force else []
    _check_there(source)
    with _type(message, schema) as types:
        paths = ["--output", os.fspath(target), "--", os.fspath(source)]
        return _plan("merge", plan, parts, *arguments, *types, *paths)


def plan_verify(
    path: Path,
    *,
    plan: Path,
    parts: int | None = None,
    message: str | None = None,
    schema: bytes | None = None,
) -> Plan:
    """Plans to verify a chunked file; the arguments are those of :func:`plan_merge`.

    Raises:
        Error: If the file is damaged so that it can't be opened.
    """
    _check_there(path)
    with _type(message, schema) as types:
        return _plan("verify", plan, parts, *types, "--", os.fspath(path))


def run_part(
    plan: Plan, part: int, *, report: Path | None = None, threads: int | None = None
) -> str:
    """Executes a part of a plan and returns the path of its report.

    It can be run any number of times, on any host, also simultaneously or after the commit.

    Args:
        plan: The plan, whose file this host sees.
        part: The number of the part, from 0.
        report: Where to write the report; beside the plan by default.
        threads: Number of threads; one per core by default.

    Raises:
        Error: If the input is damaged.
        ValueError: If it isn't what was planned, or can't be read or written.
    """
    arguments = [] if report is None else ["--report", os.fspath(report)]
    arguments += [] if threads is None else ["--threads", str(threads)]
    told = ["--json", "--plan", plan.path, "--part", str(part)]
    _, output = run(plan.verb, *told, *arguments)
    return str(json.loads(output)["report"])


def commit(
    plan: Plan, reports: Iterable[Path] | None = None, *, reread: bool = True
) -> dict[str, Any]:
    """Puts the result of a plan in place, and returns the report of ``--commit --json``.

    A repeated commit succeeds again. For a verification, ``problems`` lists all errors.

    Args:
        plan: The plan.
        reports: The report of every part; by default those beside the plan.
        reread: Reads the written parts of a split or merge once, and compares them with their
            checksums. Otherwise damage done since then isn't noticed; in a merged message, it never
            is.

    Raises:
        ValueError: If a report is missing or of another plan, or the output exists.
        Error: If the file of a part is damaged.
    """
    given = [] if reports is None else [os.fspath(report) for report in reports]
    codes = (0, 1) if plan.verb == "verify" else (0,)
    told = ["--json", "--plan", plan.path, "--commit", *given]
    if not reread:
        told.append("--no-reread")
    _, output = run(plan.verb, *told, codes=codes)
    report: dict[str, Any] = json.loads(output)
    return report
