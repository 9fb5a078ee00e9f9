"""The writer of SavedModels that TensorFlow calls, and replacements for functions that save."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import _functions, _messages, _models, constants
from .._functions import Progress
from . import _places, _variables
from ._capture import (
    Saving,
    Settings,
    bytes_of,
    current_save,
    saving,
    settings,
    was_traced_here,
)

#: Size, in bytes, of a mark, which stands for a constant's value in a message until the message is
#: written.
_MARK_SIZE = 32

#: Constants smaller than this, in bytes, stay in the graph, since their replacement would hardly be
#: smaller.
_LEAST_SIZE = 256


class _WithValues(_messages.Writer):
    """A serializer of messages that replaces marks with the large values they represent."""

    def __init__(self, values: Mapping[bytes, memoryview]) -> None:
        super().__init__()
        self._values = values

    def whole(self, message: Any) -> bytes | None:
        data = super().whole(message)
        if data is None or any(mark in data for mark in self._values):
            return None
        return data

    def value(self, data: bytes) -> bytes | memoryview:
        return self._values.get(data, data)


def _constants(saved_model: Any) -> Iterator[tuple[str | None, Any]]:
    """Yields the constant nodes, each with its function's name; ``None`` for the main graph."""
    for meta_graph in saved_model.meta_graphs:
        for node in meta_graph.graph_def.node:
            if node.op == "Const":
                yield None, node
        for function in meta_graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "Const":
                    yield function.signature.name, node


def _is_large(node: Any, min_size: int) -> bool:
    from tensorflow.python.framework import dtypes

    tensor = node.attr["value"].tensor
    elements = 1
    for dim in tensor.tensor_shape.dim:
        elements *= dim.size
    size: int = elements * (dtypes.as_dtype(tensor.dtype).size or 0)
    # If all elements are equal, the message contains only one.
    return size >= min_size and len(tensor.tensor_content) >= min_size


def _is_small_float(node: Any) -> bool:
    from tensorflow.python.framework import dtypes

    return str(dtypes.as_dtype(node.attr["dtype"].type).name).startswith("float8")


def _put_marks(saved_model: Any, save: Saving) -> dict[bytes, memoryview]:
    """Puts a mark into each constant whose value isn't in the message. Returns values by mark."""
    values: dict[bytes, memoryview] = {}
    marked = set()
    for function, node in _constants(saved_model):
        if function is not None or node.name not in save.values:
            continue
        mark = os.urandom(_MARK_SIZE)
        values[mark] = bytes_of(save.values[node.name]._numpy())
        marked.add(node.name)
        tensor = node.attr["value"].tensor
        bare = type(tensor)(dtype=tensor.dtype, tensor_content=mark)
        bare.tensor_shape.CopyFrom(tensor.tensor_shape)
        tensor.CopyFrom(bare)
    missing = sorted(save.values.keys() - marked)
    if missing:
        raise ValueError(f"{missing[0]}: a constant is missing from the exported graph")
    return values


def _write_in_full(saved_model: Any, values: Mapping[bytes, memoryview], path: str) -> None:
    writer = _WithValues(values)
    try:
        with writer.spool.file as spool, open(path, "xb") as file:
            pieces = writer.message(saved_model)
            spool.flush()
            _messages.write_pieces(pieces, spool, file)
    except OSError as error:
        # The exception of a failed write doesn't contain the file's name.
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), path) from None
        raise


def _is_within_limit(message: Any) -> bool:
    """Returns true if a message is smaller than the maximum chunk size."""
    try:
        return bool(message.ByteSize() < constants.max_size())
    except Exception:  # noqa: BLE001: EncodeError, ValueError or MemoryError, by its version.
        return False


@contextmanager
def scratch(folder: str | None) -> Iterator[str]:
    """Yields a temporary folder in ``folder``; if ``None``, in the system's temporary folder."""
    made = tempfile.mkdtemp(prefix=".proto_splitter-", dir=folder)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _named(folder: str, target: str) -> Iterator[None]:
    """Replaces the temporary folder with the requested folder in the paths of exceptions."""
    full = os.path.join(folder, "full")

    def shown(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        for inner in (full, os.path.join(folder, "made"), folder):
            text = text.replace(inner, target)
        return text

    try:
        yield
    except (OSError, ValueError) as error:
        error.args = tuple(map(shown, error.args))
        for name in ("filename", "filename2", "path"):
            value = getattr(error, name, None)
            if isinstance(value, str):
                setattr(error, name, shown(value))
        raise


#: Files and a folder that only externalized models have.
_BUNDLE = tuple(
    os.path.join("assets", "proto_splitter_constants" + end)
    for end in (".index", ".data-00000-of-00001")
)
_RECORD = os.path.join("assets.extra", "proto_splitter_original.pb")
_MAPPED = os.path.join("assets.extra", "proto_splitter_mapped")

#: Names of files with mapped constants, and of temporary files for them.
_CONTENT = re.compile(r"[0-9A-Fa-f]+|\.protosplit-.*\.tmp")


def _remove_stale(folder: str, saved_model: Any) -> None:
    """Removes files of an earlier externalized model, if the new model doesn't use them.

    Leaves other files, and files in folders to which links lead, since they aren't the model's own.
    """
    named = {
        os.path.join("assets", asset.filename)
        for meta_graph in saved_model.meta_graphs
        for asset in meta_graph.asset_file_def
    }
    for name in (*_BUNDLE, _RECORD):
        if name not in named and not _places.is_linked(folder, name):
            _places.remove(_places.join(folder, name))
    nodes = (
        node
        for meta_graph in saved_model.meta_graphs
        for graph in (meta_graph.graph_def,)
        for body in (graph.node, *(one.node_def for one in graph.library.function))
        for node in body
    )
    if not any(node.op == "ImmutableConst" for node in nodes):
        mapped = _places.join(folder, _MAPPED)
        for name in _places.files_in(mapped) if _places.exists(mapped) else ():
            is_linked = _places.is_linked(folder, os.path.join(_MAPPED, name))
            if _CONTENT.fullmatch(name) and not is_linked:
                _places.remove(_places.join(mapped, name))
        _places.remove_empty_folder(mapped)
    _places.remove_empty_folder(_places.join(folder, os.path.dirname(_RECORD)))


def _link_bundle(source: str, target: str) -> None:
    """Links or copies the files with an externalized model's constants to another local folder."""
    for name in _BUNDLE:
        old, new = _places.join(source, name), os.path.join(target, name)
        if not _places.exists(old):
            continue
        if _places.is_remote(source):
            _places.copy(old, new)
            continue
        os.makedirs(os.path.dirname(new), exist_ok=True)
        try:
            os.link(old, new)
        except OSError:
            shutil.copyfile(old, new)


def _after(size: int, progress: Progress | None) -> Progress | None:
    """Returns a progress callback for work that follows ``size`` bytes of other work."""
    if progress is None or not size:
        return progress
    return lambda done, total: progress(size + done, size + total)


class SavedModelSplitter:
    """The class to which TensorFlow passes a SavedModel to write. TensorFlow expects this name."""

    def __init__(self, proto: Any) -> None:
        self._proto = proto

    def write(self, file_prefix: str | bytes, writer_options: str | None = None) -> str:
        """Writes the model and returns the path of its file.

        If the model has no large constants, the file has the same bytes as if TensorFlow wrote it.
        """
        prefix = os.fsdecode(file_prefix)
        now = settings()
        save = current_save() or Saving(now or Settings(1 << 20, False, "assets"))
        min_size = save.settings.min_size
        if save.variables_size:
            _variables.read_in_functions(self._proto)
        traced, are_small_floats = [], True
        for function, node in _constants(self._proto):
            if node.name not in save.values or function is not None:
                if _is_large(node, min_size):
                    traced.append((function, node.name))
                    are_small_floats = are_small_floats and _is_small_float(node)
        # Even if all constants are small, a model may exceed protobuf's limit.
        in_chunks = save.settings.format == "cpb" and not _is_within_limit(self._proto)
        # TensorFlow Lite supports some 8-bit floating-point types only for constants in the graph.
        stay = not traced or (are_small_floats and _is_within_limit(self._proto))
        if not save.values and stay and not in_chunks:
            path = self._write_as_it_is(prefix)
            if save.variables_size and save.settings.progress:
                save.settings.progress(save.variables_size, save.variables_size)
            return path
        early = [name for name, node in traced if name and not was_traced_here(name, node)]
        if early and save.settings.capture and current_save():
            warnings.warn(
                f"{early[0]} has large constants in its graph, since it was traced before enable() "
                "or loaded: saving it takes more memory than necessary",
                RuntimeWarning,
                stacklevel=2,
            )
        return self._write_large(prefix, save, writer_options)

    def _write_as_it_is(self, prefix: str) -> str:
        from tensorflow.python.lib.io import file_io

        path = prefix + ".pb"
        data = self._proto.SerializeToString(deterministic=True)
        file_io.atomic_write_string_to_file(path, data)
        _places.remove(prefix + ".cpb")
        _remove_stale(os.path.dirname(prefix), self._proto)
        return path

    def _write_large(self, prefix: str, save: Saving, writer_options: str | None) -> str:
        is_remote = _places.is_remote(prefix)
        target = os.path.dirname(prefix if is_remote else os.path.abspath(prefix))
        progress = _after(save.variables_size, save.settings.progress)
        halves = _places.Halves(progress) if is_remote and progress else None
        values = _put_marks(self._proto, save)
        with scratch(None if is_remote else target) as folder, _named(folder, target):
            full = os.path.join(folder, "full")
            os.mkdir(full)
            _write_in_full(self._proto, values, os.path.join(full, "saved_model.pb"))
            made = os.path.join(folder, "made")
            if save.settings.format == "cpb":
                os.mkdir(made)
                source = os.path.join(full, "saved_model.pb")
                path = _functions.split(
                    source,
                    os.path.join(made, "saved_model"),
                    max_chunk_size=constants.max_size(),
                    records=writer_options,
                    progress=halves.make if halves else progress,
                ).path
            else:
                # Functions of a model that was loaded from this folder may still read the constants
                # of its earlier version.
                _link_bundle(target, full)
                _models.externalize(
                    full,
                    made,
                    min_size=max(save.settings.min_size, _LEAST_SIZE),
                    progress=halves.make if halves else progress,
                )
                path = os.path.join(made, "saved_model.pb")
            if is_remote:
                told = halves.copy if halves else lambda done, total: None
                written = _places.copy_model(made, target, told)
            else:
                written = _places.move_model(made, target)
            _places.remove(prefix + (".pb" if path.endswith(".cpb") else ".cpb"))
            if _RECORD not in written:
                _remove_stale(target, self._proto)
            return prefix + os.path.splitext(path)[1]


class Slot:
    """A replacement for the module ``proto_splitter``, which TensorFlow's wheel lacks."""

    SavedModelSplitter = SavedModelSplitter


@contextmanager
def _nothing_half_made(folder: Any) -> Iterator[None]:
    """Removes a folder if saving to it fails, unless the folder existed before."""
    path = os.fsdecode(folder)
    is_new = _places.is_new(path)
    try:
        yield
    except BaseException:
        if is_new:
            _places.remove_folder(path)
        raise


def save_and_return_nodes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``save.save_and_return_nodes`` that writes with this package."""

    def save_and_return_nodes(
        obj: Any,
        export_dir: Any,
        signatures: Any = None,
        options: Any = None,
        experimental_skip_checkpoint: bool = False,
    ) -> Any:
        import copy
        from dataclasses import replace

        from tensorflow.python.saved_model import save_options

        now = settings()
        if now is not None:
            if getattr(options, "experimental_image_format", False):
                now = replace(now, format="cpb")
            options = copy.copy(options) if options else save_options.SaveOptions()
            options.experimental_image_format = True
            save = Saving(now)
            save.has_variables = now.format == "variables" and not experimental_skip_checkpoint
            with saving(save), _nothing_half_made(export_dir):
                return original(
                    obj, export_dir, signatures, options, experimental_skip_checkpoint
                )
        return original(obj, export_dir, signatures, options, experimental_skip_checkpoint)

    return save_and_return_nodes


def write_fingerprint(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``fingerprinting_utils.write_fingerprint``.

    Unlike the original, it also supports a chunked model in a remote folder.
    """

    def write_fingerprint(export_dir: Any) -> Any:
        path = os.fsdecode(export_dir)
        model = _places.join(path, "saved_model.cpb")
        if settings() is None or not _places.is_remote(path) or not _places.exists(model):
            return original(export_dir)
        with scratch(None) as folder:
            # The fingerprint depends on these two files.
            for name in ("saved_model.cpb", "variables/variables.index"):
                if _places.exists(_places.join(path, name)):
                    _places.copy(_places.join(path, name), os.path.join(folder, name))
            original(folder)
            made = os.path.join(folder, "fingerprint.pb")
            if os.path.exists(made):
                _places.copy(made, _places.join(path, "fingerprint.pb"))
        return None

    return write_fingerprint


def builder_save(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for TensorFlow 1's ``_SavedModelBuilder.save``.

    The replacement writes the model with this package.
    """

    def save(
        self: Any,
        as_text: bool = False,
        experimental_image_format: bool = False,
        *more: Any,
        **named: Any,
    ) -> Any:
        from dataclasses import replace

        now = settings()
        if now is None or as_text:
            return original(self, as_text, experimental_image_format, *more, **named)
        if experimental_image_format:
            # Constants of a TensorFlow 1 graph are never captured.
            with saving(Saving(replace(now, format="cpb", capture=False))):
                return original(self, as_text, True, *more, **named)
        return original(self, as_text, True, *more, **named)

    return save
