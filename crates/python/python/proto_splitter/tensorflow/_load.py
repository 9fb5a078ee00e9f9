"""Replacements for TensorFlow functions, which also load SavedModels stored as a ``.cpb``."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _functions, _models
from . import _places
from ._capture import settings


def is_chunked(folder: Any) -> bool:
    """Returns true if a folder's SavedModel exists only as a ``.cpb``: no ``.pb`` or ``.pbtxt``."""
    try:
        name = os.fsdecode(folder)
    except TypeError:
        return False
    # The order in which TensorFlow's own loaders look for files.
    forms = (form for form in ("pb", "pbtxt", "cpb") if _has(name, form))
    return next(forms, None) == "cpb"


def _has(folder: str, form: str) -> bool:
    path = _places.join(folder, f"saved_model.{form}")
    try:
        return _places.exists(path)
    except Exception:  # noqa: BLE001: TensorFlow's own loader raises the same exception.
        return False


class LoadableCopy:
    """A temporary copy of a chunked model's folder, externalized so that TensorFlow can load it."""

    def __init__(self, folder: Any, min_size: int) -> None:
        self._made = tempfile.mkdtemp(prefix="proto_splitter-")
        path = os.fsdecode(folder)
        is_remote = _places.is_remote(path)
        name = path.rstrip("/") if is_remote else os.path.abspath(path)
        name = os.path.basename(name) or "model"
        self.path = os.path.join(self._made, name)
        try:
            if is_remote:
                local = os.path.join(self._made, ".remote", name)
                _places.copy_folder(path, local)
                _models.externalize(local, self.path, min_size=min_size)
                shutil.rmtree(os.path.dirname(local))
            else:
                _models.externalize(folder, self.path, min_size=min_size)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Removes the copy."""
        shutil.rmtree(self._made, ignore_errors=True)

    def keep_for(self, owner: Any) -> None:
        """Makes Python remove the copy when ``owner`` is garbage-collected or the process ends."""
        weakref.finalize(owner, shutil.rmtree, self._made, ignore_errors=True)


def load_partial(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``load.load_partial`` that also loads chunked models.

    Large constants of a chunked model are loaded without being part of the graph's message.
    """

    def load_partial(export_dir: Any, filters: Any, tags: Any = None, options: Any = None) -> Any:
        now = settings()
        if now is None or not is_chunked(export_dir):
            return original(export_dir, filters, tags, options)
        copy = LoadableCopy(export_dir, now.min_size)
        try:
            loaded = original(copy.path, filters, tags, options)
        except BaseException:
            copy.remove()
            raise
        copy.keep_for(loaded["root"])
        return loaded

    return load_partial


def loader_init(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for TensorFlow 1's ``SavedModelLoader.__init__``.

    The replacement also loads chunked models, like that of :func:`load_partial`.
    """

    def __init__(self: Any, export_dir: Any) -> None:
        from tensorflow.python.framework import ops

        now = settings()
        if now is None or not is_chunked(export_dir):
            original(self, export_dir)
            return
        copy = LoadableCopy(export_dir, now.min_size)
        try:
            original(self, copy.path)
        except BaseException:
            copy.remove()
            raise
        # The graph into which the model is loaded may read the copy's assets when it runs.
        copy.keep_for(ops.get_default_graph())

    return __init__


@contextmanager
def _local(path: str) -> Iterator[str]:
    """Yields the path of a file; for a remote file, that of a temporary copy on local disk."""
    if not _places.is_remote(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="proto_splitter-") as folder:
        local = os.path.join(folder, os.path.basename(path))
        _places.copy(path, local)
        yield local


def read_model(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for a function that reads ``saved_model.pb``.

    The replacement also reads a ``.cpb``.
    """

    def read(folder: Any) -> Any:
        if settings() is None or not is_chunked(folder):
            return original(folder)
        from tensorflow.core.protobuf import saved_model_pb2

        path = _places.join(os.fsdecode(folder), "saved_model.cpb")
        with _local(path) as file:
            return _functions.read(file, saved_model_pb2.SavedModel)

    return read
