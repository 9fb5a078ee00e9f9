"""Operations on model folders, on local disk and on TensorFlow's file systems, such as ``gs://``.

Local files aren't accessed through TensorFlow, so that errors are the usual ``OSError``.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
from collections.abc import Callable
from typing import Any

from .._functions import Progress

#: Number of bytes to copy at once, without reacting to Ctrl-C: 16 MiB.
_STEP = 16 << 20


def is_remote(path: str) -> bool:
    """Returns true if a path is on a file system that is accessed through TensorFlow."""
    return "://" in path


def _gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def join(folder: str, name: str) -> str:
    """Returns the path of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else os.path.join(folder, name)


def exists(path: str) -> bool:
    """Returns true if a file or folder with this path exists."""
    return bool(_gfile().exists(path)) if is_remote(path) else os.path.exists(path)


def is_new(path: str) -> bool:
    """Returns true if no file or folder has this path, or it is an empty remote folder.

    Returns false if this can't be determined, since writing to the path will then report the error.
    """
    if not is_remote(path):
        return not os.path.lexists(path)
    try:
        # For some seconds after its files were removed, a folder on ``gs://`` seems to exist.
        if not exists(path):
            return True
        return bool(_gfile().isdir(path)) and not _gfile().listdir(path)
    except Exception:  # noqa: BLE001: TensorFlow raises many kinds, such as for an unknown scheme.
        return False


def remove(path: str) -> None:
    """Removes a file, if it exists."""
    if exists(path):
        (_gfile().remove if is_remote(path) else os.remove)(path)


def remove_folder(path: str) -> None:
    """Removes a folder with its contents, as far as possible."""
    if is_remote(path):
        # Most errors of remote file systems aren't OSErrors.
        with contextlib.suppress(Exception):
            if _gfile().isdir(path):
                _gfile().rmtree(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_empty_folder(path: str) -> None:
    """Removes a folder, if it exists and is empty."""
    if is_remote(path):
        if _gfile().isdir(path) and not _gfile().listdir(path):
            _gfile().rmtree(path)
    elif os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path):
        os.rmdir(path)


def is_linked(folder: str, name: str) -> bool:
    """Returns true if a link below a local folder leads to the folder of the file ``name``.

    Other models may use such a folder, too.
    """
    above = "" if is_remote(folder) else os.path.dirname(name)
    while above:
        if os.path.islink(os.path.join(folder, above)):
            return True
        above = os.path.dirname(above)
    return False


def files_in(folder: str) -> list[str]:
    """Returns the paths of all files in a folder and its subfolders, relative to the folder."""
    walk = _gfile().walk if is_remote(folder) else os.walk
    names = []
    for at, _, files in walk(folder):
        inner = at[len(folder) :].strip("/") if is_remote(folder) else os.path.relpath(at, folder)
        names += [os.path.normpath(os.path.join(inner, name)) for name in files]
    return names


def copy(source: str, target: str, told: Callable[[int], object] = lambda size: None) -> None:
    """Copies a file from or to a remote path, and creates the target's folder.

    If the target's file system has an atomic move, the target appears complete or not at all.

    Args:
        source: The path of the file.
        target: The path of the copy.
        told: Called with the size of each copied piece, in bytes.
    """
    from tensorflow.python.lib.io import file_io

    gfile = _gfile()
    gfile.makedirs(os.path.dirname(target))
    made = target
    if file_io.has_atomic_move(target):
        made = f"{target}.proto_splitter-{os.urandom(4).hex()}"
    try:
        with gfile.GFile(source, "rb") as file, gfile.GFile(made, "wb") as out:
            # Without this write, no file would be created for an empty source.
            out.write(b"")
            while piece := file.read(_STEP):
                out.write(piece)
                told(len(piece))
        if made != target:
            gfile.rename(made, target, overwrite=True)
    except BaseException:
        with contextlib.suppress(Exception):
            gfile.remove(made)
        raise


def copy_folder(source: str, target: str) -> None:
    """Copies all files of a folder from or to a remote path."""
    for name in files_in(source):
        copy(join(source, name), join(target, name))


def _files_of_model(source: str) -> list[str]:
    """Returns the relative paths of the files in a model's folder, ``saved_model.pb`` last."""
    # The fingerprint is omitted, since TensorFlow computes it again afterwards.
    names = [name for name in files_in(source) if name != "fingerprint.pb"]
    return sorted(names, key=lambda name: (name.startswith("saved_model."), name))


def move_model(source: str, target: str) -> list[str]:
    """Moves a model's files to a local folder, ``saved_model.pb`` last. Returns their names.

    Raises:
        FileExistsError: If a different file would be replaced in a folder to which a link leads.
            Nothing is moved then.
    """
    names = _files_of_model(source)
    for name in names:
        to = os.path.join(target, name)
        if is_linked(target, name) and os.path.exists(to):
            # Replacing a file with equal contents, as when a model is saved again, loses nothing.
            if not filecmp.cmp(os.path.join(source, name), to, shallow=False):
                why = "another model may use this file, since a link leads to its folder"
                raise FileExistsError(errno.EEXIST, why, to)
    for name in names:
        to = os.path.join(target, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        os.replace(os.path.join(source, name), to)
    return names


def copy_model(source: str, target: str, told: Callable[[int, int], object]) -> list[str]:
    """Copies a model's files to a remote folder, ``saved_model.pb`` last. Returns their names."""
    names = _files_of_model(source)
    total = sum(os.path.getsize(os.path.join(source, name)) for name in names)
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        told(done, total)

    for name in names:
        copy(os.path.join(source, name), join(target, name), add)
    return names


class Halves:
    """The progress of files that are written to local disk and then copied to a remote folder.

    Each step is half of the work.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._total = 0

    def make(self, done: int, total: int) -> None:
        """Reports the progress of writing to local disk."""
        self._total = total
        self._progress(done // 2, total)

    def copy(self, done: int, total: int) -> None:
        """Reports the progress of copying."""
        whole = self._total or total
        half = whole // 2
        copied = whole - half if done >= total else (whole - half) * done // total
        self._progress(half + copied, whole)
