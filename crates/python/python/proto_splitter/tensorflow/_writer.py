"""Writes the SavedModels that TensorFlow hands over, whose large constants may be elsewhere."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import _functions, _messages, _models
from ._capture import Saving, Settings, bytes_of, current_save, saving, settings

#: Bytes of the mark that stands for a value until it is written.
_MARK_SIZE = 32


class _WithValues(_messages.Writer):
    """Writes a message in which marks stand for large values."""

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
    """The nodes of constants, each with the name of its function."""
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
    # Zeros and the like are written as one element.
    return size >= min_size and len(tensor.tensor_content) >= min_size


def _put_marks(saved_model: Any, save: Saving) -> dict[bytes, memoryview]:
    """Puts a mark where a value belongs, and gives the values by their marks."""
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
    with writer.spool.file as spool, open(path, "xb") as file:
        pieces = writer.message(saved_model)
        spool.flush()
        _messages.write_pieces(pieces, spool, file)


@contextmanager
def scratch(folder: str) -> Iterator[str]:
    """A folder within a folder, for a while."""
    made = tempfile.mkdtemp(prefix=".proto_splitter-", dir=folder)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _move_model(source: str, target: str) -> None:
    """Moves all files of a model into a folder, ``saved_model.pb`` last."""
    names = []
    for folder, _, files in os.walk(source):
        inner = os.path.relpath(folder, source)
        names += [os.path.normpath(os.path.join(inner, name)) for name in files]
    # TensorFlow computes the fingerprint itself, next.
    names = [name for name in names if name != "fingerprint.pb"]
    for name in sorted(names, key=lambda name: name == "saved_model.pb"):
        to = os.path.join(target, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        os.replace(os.path.join(source, name), to)


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)


class SavedModelSplitter:
    """What TensorFlow calls to write a SavedModel, by the name that it has there."""

    def __init__(self, proto: Any) -> None:
        self._proto = proto

    def write(self, file_prefix: str | bytes, writer_options: str | None = None) -> str:
        """Writes the model and returns the path of its file.

        Without large constants that is what TensorFlow itself writes, byte for byte.
        """
        prefix = os.fsdecode(file_prefix)
        now = settings()
        save = current_save() or Saving(now or Settings(1 << 20, False, "assets"))
        min_size = save.settings.min_size
        traced = []
        for function, node in _constants(self._proto):
            if node.name not in save.values or function is not None:
                if _is_large(node, min_size):
                    traced.append(function or node.name)
        if not save.values and not traced:
            return self._write_as_it_is(prefix)
        if traced and save.settings.capture and current_save():
            warnings.warn(
                f"{traced[0]} has large constants in its graph, as it was traced before enable(): "
                "it is saved, but takes more memory than it needs",
                RuntimeWarning,
                stacklevel=2,
            )
        if "://" in prefix:
            raise ValueError(f"{prefix}: large constants are written to local folders only")
        return self._write_large(prefix, save)

    def _write_as_it_is(self, prefix: str) -> str:
        from tensorflow.python.lib.io import file_io

        path = prefix + ".pb"
        data = self._proto.SerializeToString(deterministic=True)
        file_io.atomic_write_string_to_file(path, data)
        if "://" not in prefix:
            _remove(prefix + ".cpb")
        return path

    def _write_large(self, prefix: str, save: Saving) -> str:
        target = os.path.dirname(os.path.abspath(prefix))
        values = _put_marks(self._proto, save)
        with scratch(target) as folder:
            full = os.path.join(folder, "full")
            os.mkdir(full)
            _write_in_full(self._proto, values, os.path.join(full, "saved_model.pb"))
            if save.settings.format == "cpb":
                source = os.path.join(full, "saved_model.pb")
                path = _functions.split(source, prefix, force=True).path
                other = prefix + (".pb" if path.endswith(".cpb") else ".cpb")
                _remove(other)
                return path
            made = os.path.join(folder, "made")
            _models.externalize(full, made, min_size=save.settings.min_size)
            _move_model(made, target)
            _remove(prefix + ".cpb")
        return prefix + ".pb"


class Slot:
    """Stands for the module of Google's own splitter, which TensorFlow's wheel doesn't have."""

    SavedModelSplitter = SavedModelSplitter


def save_and_return_nodes(original: Callable[..., Any]) -> Callable[..., Any]:
    """For ``save.save_and_return_nodes``: the model is written by us."""

    def save_and_return_nodes(
        obj: Any,
        export_dir: Any,
        signatures: Any = None,
        options: Any = None,
        experimental_skip_checkpoint: bool = False,
    ) -> Any:
        import copy

        from tensorflow.python.saved_model import save_options

        now = settings()
        if now is not None:
            options = copy.copy(options) if options else save_options.SaveOptions()
            options.experimental_image_format = True
            with saving(Saving(now)):
                return original(
                    obj, export_dir, signatures, options, experimental_skip_checkpoint
                )
        return original(obj, export_dir, signatures, options, experimental_skip_checkpoint)

    return save_and_return_nodes


def builder_save(original: Callable[..., Any]) -> Callable[..., Any]:
    """For ``_SavedModelBuilder.save`` of TensorFlow 1: the model is written by us."""

    def save(
        self: Any,
        as_text: bool = False,
        experimental_image_format: bool = False,
        experimental_image_writer_options: Any = None,
    ) -> Any:
        ours = settings() is not None and not as_text
        return original(
            self, as_text, ours or experimental_image_format, experimental_image_writer_options
        )

    return save
