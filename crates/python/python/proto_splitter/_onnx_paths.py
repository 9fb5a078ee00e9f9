"""ONNX models of any size as files that ONNX tools accept, and calls of such tools."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from typing import TYPE_CHECKING, Any

from . import _files, _handle, _messages, _models

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

    from ._files import Source, Target

#: Maximum size of a message that every protobuf library can parse, in bytes: 2^31 - 1.
_MOST = (1 << 31) - 1
#: Number of bytes to copy at once: 16 MiB.
_STEP = 16 << 20
#: Linux's ``FICLONE`` request, which makes a file share the data of another file.
_FICLONE = 0x40049409
#: The name of the input model's file in a temporary folder.
_NAME = "model.onnx"
#: The name of the file to which a tool writes its model.
_WRITTEN = "written.onnx"


class _Place:
    """A placeholder among a tool's arguments, which :func:`run` replaces."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"proto_splitter.onnx.{self._name}"


#: A placeholder among the arguments of :func:`run`, for the path of the model.
INPUT = _Place("INPUT")
#: A placeholder among the arguments of :func:`run`, for the path of the model that the tool writes.
OUTPUT = _Place("OUTPUT")
#: A placeholder among the arguments of :func:`run`, for the model as a ``ModelProto`` whose large
#: tensors have no data, and refer to files instead.
SKELETON = _Place("SKELETON")


@contextmanager
def as_path(
    model: Source | ModelProto,
    *,
    to: str = "auto",
    folder: str | os.PathLike[str] | None = None,
    hard_links: bool = False,
) -> Iterator[str]:
    """Returns a context manager for the path of an ``.onnx`` that tools accept.

    The model may have any size and form::

        with pso.as_path("model.cpb") as path:
            onnx.checker.check_model(path)

    If tools already accept the model's file, its own path is returned, without a copy. In that
    case, don't write to it. Any other model is written to a temporary folder: as one file if it is
    within protobuf's limit of 2 GiB, otherwise as a pair, which is an ``.onnx`` with files of
    external data. The folder is removed at the end of the ``with`` statement, even after an
    exception.

    A pair whose files are symbolic links, or have several hard links, is copied, since ``onnx``
    rejects such files. On Btrfs, XFS and ZFS, the copy can share its data with the original.

    Args:
        model: A ``ModelProto`` of any size; the path of a ``.cpb``, of an ``.onnx`` of any size or
            of the ``.onnx`` of a pair; bytes, an object with ``read`` and ``seek``, or a URL.
        to: A form of ``protosplit convert``: ``auto`` for one file if protobuf's limit allows it,
            otherwise a pair; ``external`` for a pair in any case.
        folder: Folder in which the temporary folder is created; by default, the system's folder for
            temporary files. If it is on the model's file system, a copy can share the model's data.
        hard_links: Makes hard links instead of copies. onnxruntime reads linked files, but ``onnx``
            1.21 and later reject them. A tool that modifies a linked file changes the model.

    Raises:
        OSError: If the file doesn't exist, or the folder's disk is full.
        Error: If the model is damaged, or can't be written in this form.
    """
    with ExitStack() as files:
        place = files.enter_context(_temporary(folder))
        path = os.path.join(place, _NAME)
        if _messages.is_message(model):
            from . import onnx

            onnx.save(model, path, to=to)
            yield path
            return
        name = files.enter_context(_files.named(model))
        data = _files_of(name)
        if data is None or not _fits(name, data, to):
            _models.convert(name, path, to=to)
        elif all(map(_is_plain, (name, *data))):
            path = os.path.abspath(name)
        else:
            around = os.path.dirname(os.path.abspath(name))
            for one in (name, *data):
                relative = os.path.relpath(os.path.abspath(one), around)
                target = path if one == name else os.path.join(place, relative)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _take_over(os.path.realpath(one), target, hard_links=hard_links)
        yield path


def run(
    tool: Callable[..., Any] | Sequence[Any],
    model: Source | ModelProto,
    *arguments: Any,
    output: Target | None = None,
    to: str = "auto",
    force: bool = False,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Any:
    """Calls a tool with a model of any size and form, and saves the model that the tool produces.

    The tool receives the path from :func:`as_path` as its first argument, or in place of
    :data:`INPUT`. :data:`OUTPUT` is replaced by the path to which the tool should write its model::

        pso.run(onnx.checker.check_model, "model.cpb", full_check=True)
        pso.run(quantize_dynamic, "model.cpb", pso.OUTPUT, output="small.cpb",
                use_external_data_format=True)
        pso.run(["onnxslim", pso.INPUT, pso.OUTPUT], "model.onnx", output="slim.onnx")

    For a tool that accepts and returns a ``ModelProto``, :data:`SKELETON` is replaced by a message
    whose large tensors refer to files. During the call, the working directory is the folder of
    these files. Afterwards, the data is added to those tensors of the returned message that still
    refer to the files::

        newer = pso.run(version_converter.convert_version, "model.cpb", pso.SKELETON, 21,
                        output="newer.cpb")

    Args:
        tool: A function; or a command as a list, which may contain the placeholders.
        model: As in :func:`as_path`.
        arguments: Positional arguments for the tool, in which :data:`INPUT`, :data:`SKELETON` and
            :data:`OUTPUT` are replaced.
        output: The target for the result, as for :func:`save`; by default, the result isn't saved.
        to: The form of the output, as for :func:`save`.
        force: Overwrites an existing output.
        folder: Folder in which the temporary folder is created, as in :func:`as_path`.
        options: Keyword arguments for the function, with the same replacements.

    Returns:
        With ``output``, the report of ``protosplit convert --json``. Otherwise, the model that the
        tool wrote or returned, with all its data; if there is none, the value that the tool
        returned.

    Raises:
        OSError: If the model doesn't exist; ``FileExistsError`` for an existing output.
        subprocess.CalledProcessError: If a command fails.
        ValueError: If ``output`` is given, but the tool produced no model.
    """
    from . import onnx

    if output is not None and _files.is_path(output) and not force and os.path.exists(output):
        raise FileExistsError(17, os.strerror(17), os.fspath(output))
    given = (*arguments, *options.values(), *(() if callable(tool) else tool))
    wants_skeleton = any(one is SKELETON for one in given)
    with ExitStack() as files:
        form = "external" if wants_skeleton else "auto"
        path = files.enter_context(as_path(model, to=form, folder=folder))
        place = files.enter_context(_temporary(folder))
        written = os.path.join(place, _WRITTEN)
        skeleton = _skeleton(path) if wants_skeleton else None

        def filled(value: Any) -> Any:
            places = ((INPUT, path), (OUTPUT, written), (SKELETON, skeleton))
            return next((real for one, real in places if value is one), value)

        if wants_skeleton:
            # Tools that check the message look for its data files in the working directory.
            with chdir(os.path.dirname(path)):
                made = _call(tool, path, filled, arguments, options)
        else:
            made = _call(tool, path, filled, arguments, options)
        if os.path.exists(written):
            _add_data(written, os.path.dirname(path))
            if output is None:
                return onnx.load(written)
            return onnx.convert(written, output, to=_form(output, to), force=force)
        if not _messages.is_message(made):
            if output is not None:
                raise ValueError(f"the tool wrote no model, but returned {type(made).__name__}")
            return made
        if wants_skeleton:
            # Tensors of the message refer to data files in the model's folder.
            made = _with_data(made, os.path.dirname(path))
        if output is None:
            return made
        return onnx.save(made, output, to=to, force=force)


def _temporary(folder: str | os.PathLike[str] | None) -> tempfile.TemporaryDirectory[str]:
    """Creates a temporary folder, which is removed with its contents."""
    # An absolute path stays valid if the working directory changes.
    parent = None if folder is None else os.path.abspath(folder)
    return tempfile.TemporaryDirectory(prefix="proto_splitter-", dir=parent)


def _call(
    tool: Callable[..., Any] | Sequence[Any],
    path: str,
    filled: Callable[[Any], Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Calls a function or runs a command. ``filled`` returns the argument for a placeholder."""
    if not callable(tool):
        import subprocess

        command = [os.fspath(filled(part)) for part in (*tool, *arguments)]
        if options:
            raise TypeError(f"a command takes no arguments by name: {', '.join(options)}")
        if all(filled(part) is part for part in (*tool, *arguments)):
            command.append(path)
        return subprocess.run(command, check=True)
    named = {name: filled(value) for name, value in options.items()}
    everything = (*arguments, *options.values())
    has_model = any(one is INPUT or one is SKELETON for one in everything)
    first = () if has_model else (path,)
    return tool(*first, *map(filled, arguments), **named)


def _form(output: Target, to: str) -> str:
    """Returns the form to convert an output to: ``auto`` for a ``.cpb``, otherwise ``to``."""
    return "auto" if _files.name_of(output).endswith(".cpb") else to


def _skeleton(path: str) -> ModelProto:
    """Returns the message in an ``.onnx`` without loading external data."""
    import onnx

    return onnx.load(path, load_external_data=False)


def _tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    """Yields the tensors in the attributes of nodes, including tensors of nested graphs."""
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for graph in (attribute.g, *attribute.graphs):
                yield from graph.initializer
                yield from _tensors(graph.node)


def _locations(model: ModelProto) -> set[str]:
    """Returns the relative paths of the data files to which a model's tensors refer."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    nodes = itertools.chain(model.graph.node, *(function.node for function in model.functions))
    tensors = itertools.chain(model.graph.initializer, _tensors(nodes))
    return {ExternalDataInfo(one).location for one in tensors if uses_external_data(one)}


def _add_data(path: str, folder: str) -> None:
    """Links or copies the data files to which a model written by a tool still refers.

    A tool that doesn't change the tensors keeps the references to the data files of its input.

    Args:
        path: The model that the tool wrote. The data files are put next to it.
        folder: The folder of the tool's input.
    """
    from google.protobuf.message import DecodeError

    try:
        locations = _locations(_skeleton(path)) if os.path.getsize(path) <= _MOST else set()
    except DecodeError:
        return  # The conversion that follows reports the problem.
    for location in locations:
        source = os.path.join(folder, location)
        target = os.path.join(os.path.dirname(path), location)
        if os.path.isfile(source) and not os.path.exists(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _take_over(source, target, hard_links=True)


def _with_data(model: ModelProto, folder: str) -> ModelProto:
    """Loads the external data of a message into its tensors, and returns the message."""
    from onnx import external_data_helper

    external_data_helper.load_external_data_for_model(model, folder)
    return model


def _files_of(path: str) -> list[str] | None:
    """Returns the data files to which an ``.onnx`` refers; ``None`` for any other file."""
    if not path.endswith(".onnx") or not os.path.isfile(path):
        return None
    with _handle.open(path) as file:
        return file.files[1:]


def _fits(path: str, data: list[str], to: str) -> bool:
    """Returns true if an ``.onnx`` with these data files already has this form."""
    if to == "external":
        return bool(data)
    return to == "auto" and os.path.getsize(path) <= _MOST


def _is_plain(path: str) -> bool:
    """Returns true if a file is not a symbolic link and has one hard link, as ``onnx`` requires."""
    return os.lstat(path).st_nlink == 1 and not os.path.islink(path)


def _take_over(source: str, target: str, *, hard_links: bool) -> None:
    """Puts a file's contents at another path: as a hard link, by sharing data, or as a copy."""
    if hard_links:
        try:
            os.link(source, target)
            return
        except OSError:
            pass  # The target is on another file system, or its file system lacks hard links.
    with open(source, "rb") as given, open(target, "xb") as copy:
        try:
            fcntl.ioctl(copy, _FICLONE, given.fileno())
            return
        except OSError:
            pass  # Most file systems don't support sharing data.
        shutil.copyfileobj(given, copy, _STEP)
