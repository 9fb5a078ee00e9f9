"""ONNX models as files that other tools accept, and what these tools make of them."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from typing import TYPE_CHECKING, Any

from . import _files, _handle, _messages, _models

if TYPE_CHECKING:
    from onnx import ModelProto

    from ._files import Source, Target

#: The most bytes of a file that every reader of protobuf takes: 2^31 - 1.
_MOST = (1 << 31) - 1
#: Bytes that are copied at once: 16 MiB.
_STEP = 16 << 20
#: Asks Linux for a file that shares the data of another one.
_FICLONE = 0x40049409
#: The file of a model in a folder of its own.
_NAME = "model.onnx"
#: The file that a tool writes.
_WRITTEN = "written.onnx"


class _Place:
    """A place among a tool's arguments."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"proto_splitter.onnx.{self._name}"


#: Among the arguments of :func:`run`: the path of the model.
INPUT = _Place("INPUT")
#: Among the arguments of :func:`run`: the path that the tool writes its model to.
OUTPUT = _Place("OUTPUT")
#: Among the arguments of :func:`run`: the model as a ``ModelProto`` without the data of its large
#: tensors, which refer to files instead.
SKELETON = _Place("SKELETON")


@contextmanager
def as_path(
    model: Source | ModelProto,
    *,
    to: str = "auto",
    folder: str | os.PathLike[str] | None = None,
    hard_links: bool = False,
) -> Iterator[str]:
    """The path of an ``.onnx`` that tools accept, for a model of any size and form.

    ::

        with pso.as_path("model.cpb") as path:
            onnx.checker.check_model(path)

    A model that tools accept already keeps its path, and nothing is copied: don't write to it. Of
    any other a temporary folder has the model, in one file if that is within protobuf's limit of
    2 GiB, else as a pair. The folder is removed at the end of the ``with`` statement, also after an
    exception.

    A pair that ``onnx`` refuses because its files are symbolic links, or have several hard links,
    is copied; file systems that can share the data of files (Btrfs, XFS, ZFS) do.

    Args:
        model: A message of any size; the path of a ``.cpb``, of an ``.onnx`` of any size or of the
            ``.onnx`` of a pair; bytes, an object with ``read`` and ``seek``, or a URL.
        to: A form of ``protosplit convert``: ``auto`` for one file if every reader takes it,
            ``external`` for a pair whatever the size.
        folder: Where the temporary folder is made: on the file system of the model, its data can
            be shared. The system's folder for temporary files unless given.
        hard_links: Makes hard links instead of copies, which onnxruntime reads, and ``onnx`` from
            1.21 on refuses. What a tool writes into such a file in place changes the model.

    Raises:
        OSError: If there is no such file, or the folder has no room.
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
    """Calls a tool with a model of any size and form, and takes what it makes into any form.

    The tool gets a path, as :func:`as_path` has it, as its first argument or wherever
    :data:`INPUT` is; :data:`OUTPUT` stands for the path of a model that it writes::

        pso.run(onnx.checker.check_model, "model.cpb", full_check=True)
        pso.run(quantize_dynamic, "model.cpb", pso.OUTPUT, output="small.cpb",
                use_external_data_format=True)
        pso.run(["onnxslim", pso.INPUT, pso.OUTPUT], "model.onnx", output="slim.onnx")

    A tool that takes and returns a message gets one whose large tensors refer to files, with
    :data:`SKELETON`; the working directory of the process is the folder of these files meanwhile.
    The data of tensors that it keeps is the model's::

        newer = pso.run(version_converter.convert_version, "model.cpb", pso.SKELETON, 21,
                        output="newer.cpb")

    Args:
        tool: A function, or a command as a list.
        model: As :func:`as_path` has it.
        arguments: Of the function: :data:`INPUT`, :data:`SKELETON` and :data:`OUTPUT` anywhere
            among them, also by name.
        output: Where what the tool makes is saved, as :func:`save` does; nothing unless given.
        to: The form of the output.
        force: Replaces an output that is in the way.
        folder: Where the temporary folder is made.
        options: Other arguments of the function, by name.

    Returns:
        With ``output`` what ``protosplit convert --json`` reports; otherwise the model that the
        tool wrote or returned, with all its data, or whatever else it returned.

    Raises:
        OSError: If there is no such file; ``FileExistsError`` for an output in the way.
        subprocess.CalledProcessError: If a command fails.
        ValueError: If there is to be an output, and the tool made no model.
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
            # Tools that check the message look for its files in the working directory.
            with chdir(os.path.dirname(path)):
                made = _call(tool, path, filled, arguments, options)
        else:
            made = _call(tool, path, filled, arguments, options)
        if os.path.exists(written):
            if output is None:
                return onnx.load(written)
            return onnx.convert(written, output, to=_form(output, to), force=force)
        if not _messages.is_message(made):
            if output is not None:
                raise ValueError(f"the tool wrote no model, and returned {type(made).__name__}")
            return made
        if wants_skeleton:
            # Its references lead to files beside the model.
            made = _with_data(made, os.path.dirname(path))
        if output is None:
            return made
        return onnx.save(made, output, to=to, force=force)


def _temporary(folder: str | os.PathLike[str] | None) -> tempfile.TemporaryDirectory[str]:
    """A folder that is removed with all that is in it."""
    # Its path is good for other working directories, too.
    parent = None if folder is None else os.path.abspath(folder)
    return tempfile.TemporaryDirectory(prefix="proto_splitter-", dir=parent)


def _call(
    tool: Callable[..., Any] | Sequence[Any],
    path: str,
    filled: Callable[[Any], Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Calls a function or runs a command, with paths in their places."""
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
    """The form of an output; one in chunks is known by its name."""
    return "auto" if _files.name_of(output).endswith(".cpb") else to


def _skeleton(path: str) -> ModelProto:
    """The message of a pair, without its data."""
    import onnx

    return onnx.load(path, load_external_data=False)


def _with_data(model: ModelProto, folder: str) -> ModelProto:
    """A message with the data that it refers to."""
    from onnx import external_data_helper

    external_data_helper.load_external_data_for_model(model, folder)
    return model


def _files_of(path: str) -> list[str] | None:
    """The files of data that an ``.onnx`` refers to; ``None`` if it is none."""
    if not path.endswith(".onnx") or not os.path.isfile(path):
        return None
    with _handle.open(path) as file:
        return file.files[1:]


def _fits(path: str, data: list[str], to: str) -> bool:
    """Whether a model has this form already."""
    if to == "external":
        return bool(data)
    return to == "auto" and os.path.getsize(path) <= _MOST


def _is_plain(path: str) -> bool:
    """Whether ``onnx`` opens a file: it is no link, and has no other name."""
    return os.lstat(path).st_nlink == 1 and not os.path.islink(path)


def _take_over(source: str, target: str, *, hard_links: bool) -> None:
    """Gives a file another name, or has a copy under it."""
    if hard_links:
        try:
            os.link(source, target)
            return
        except OSError:
            pass  # Another file system, or one without links.
    with open(source, "rb") as given, open(target, "xb") as copy:
        try:
            fcntl.ioctl(copy, _FICLONE, given.fileno())
            return
        except OSError:
            pass  # Most file systems have no shared data.
        shutil.copyfileobj(given, copy, _STEP)
