"""Saving and loading models of any size in TensorFlow.

Call ``enable()`` once, before functions are traced. Afterwards, ``tf.saved_model.save`` writes
models with constants of any size, which any unmodified TensorFlow can load::

    import proto_splitter.tensorflow as pst

    pst.enable()
    tf.saved_model.save(model, "model")

While a function is traced, its large constants are captured, instead of being part of its graph.
They are saved in a checkpoint under ``assets/``, which the saved model's graph reads when the model
is loaded. A model without large constants is saved unchanged: ``saved_model.pb`` has the same bytes
as without this package.

This package replaces some functions of TensorFlow, each only if its source is known. ``status()``
lists them.

Importing this module doesn't import TensorFlow. ``import proto_splitter.tensorflow.auto`` calls
``enable()`` as soon as TensorFlow is imported.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _bar, _models
from .._functions import Progress
from .._sizes import size as _size
from . import _capture, _load, _variables, _writer
from ._capture import Settings
from ._seams import Patches, Seam, SeamStatus

__all__ = [
    "DEFAULT_MIN_SIZE",
    "SeamStatus",
    "disable",
    "enable",
    "enabled",
    "externalize",
    "import_graph_def",
    "load",
    "save",
    "status",
]

#: Default minimum size of constants to capture: 1 MiB.
DEFAULT_MIN_SIZE = "1MiB"

_SEAMS: dict[Seam, Callable[[Any], Any]] = {
    Seam(
        "framework.ops",
        "_create_graph_constant",
        ("c4ff1dd63aa6",),
        "large constants are captured while a function is traced",
    ): _capture.graph_constant,
    Seam(
        "eager.polymorphic_function.tracing_compilation",
        "_create_concrete_function",
        ("6332b4fb6374",),
        "functions that may not capture have their constants in their graphs",
    ): _capture.create_concrete_function,
    Seam(
        "framework.tensor_util",
        "_ConstantValue",
        ("3350e44b7aab",),
        "tf.get_static_value knows captured constants",
    ): _capture.static_value,
    Seam(
        "eager.polymorphic_function.saved_model_utils",
        "TrackableConstant._export_to_saved_model_graph",
        ("f247c10104e2",),
        "captured constants stay out of the graph that is saved",
    ): _capture.export_constant,
    Seam(
        "saved_model.save",
        "_SaveableView.__init__",
        ("07afad982524", "baaadbbc2e93"),
        "captured constants are saved as variables, if that is requested",
    ): _variables.saveable_view,
    Seam(
        "saved_model.save",
        "save_and_return_nodes",
        ("623d407a1308",),
        "tf.saved_model.save and Keras' export write models of any size",
    ): _writer.save_and_return_nodes,
    Seam(
        "saved_model.save",
        "_trace_gradient_functions",
        ("ac37836388d7",),
        "custom gradients keep the constants that they make",
    ): _capture.trace_gradients,
    Seam(
        "saved_model.fingerprinting_utils",
        "write_fingerprint",
        ("94febcb4cfea",),
        "models in chunks also get fingerprints on file systems of TensorFlow",
    ): _writer.write_fingerprint,
    Seam(
        "saved_model.builder_impl",
        "_SavedModelBuilder.save",
        ("40c717c44614", "472048d61dac"),
        "builders of TensorFlow 1 move large constants out of the graph",
    ): _writer.builder_save,
    Seam(
        "saved_model.load",
        "load_partial",
        ("df550e7dbcd7",),
        "tf.saved_model.load reads models in chunks",
    ): _load.load_partial,
    Seam(
        "saved_model.loader_impl",
        "SavedModelLoader.__init__",
        ("f5dffcac99f7",),
        "sessions of TensorFlow 1 load models in chunks",
    ): _load.loader_init,
    Seam(
        "saved_model.loader_impl",
        "parse_saved_model",
        ("3cd5d0d09dba",),
        "the message of a model in chunks is read",
    ): _load.read_model,
    Seam(
        "tools.saved_model_utils",
        "read_saved_model",
        ("e8d546095b83",),
        "the functions behind saved_model_cli read models in chunks",
    ): _load.read_model,
}
#: A module, and its flag that disables ``SaveOptions(experimental_image_format=True)``.
_OPTIONS = ("tensorflow.python.saved_model.save_options", "is_oss")
#: Modules that use a module ``proto_splitter``, which TensorFlow from PyPI lacks.
_SLOTS = ("tensorflow.python.saved_model.save", "tensorflow.python.saved_model.builder_impl")
_SLOT = "proto_splitter"


class _Installed:
    """The installed replacements, which are reverted when their last user releases them.

    The users are :func:`enable` and each :func:`enabled` block.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.patches = Patches()
        self.holders = 0
        self.is_enabled = False
        self.is_oss: bool | None = None

    def hold(self) -> None:
        with self.lock:
            self.holders += 1
            if self.holders > 1:
                return
            found = [self.patches.apply(seam, make) for seam, make in _SEAMS.items()]
            for module in self._slots():
                if not hasattr(module, _SLOT):
                    setattr(module, _SLOT, _writer.Slot)
            options = importlib.import_module(_OPTIONS[0])
            self.is_oss = getattr(options, _OPTIONS[1], None)
            if self.is_oss:
                setattr(options, _OPTIONS[1], False)
            refused = [f"{seam.name}: {seam.refused}" for seam in found if seam.refused]
            if refused:
                warnings.warn("; ".join(refused), RuntimeWarning, stacklevel=4)

    def release(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders:
                return
            self.patches.revert()
            if self.is_oss:
                setattr(importlib.import_module(_OPTIONS[0]), _OPTIONS[1], True)
            for module in self._slots():
                if getattr(module, _SLOT, None) is _writer.Slot:
                    delattr(module, _SLOT)

    @staticmethod
    def _slots() -> list[Any]:
        return [importlib.import_module(name) for name in _SLOTS]


_installed = _Installed()


#: The earliest versions of packages with which saving a model works.
_EARLIEST = {"protobuf": (3, 20, 3), "tensorflow": (2, 16)}


def _check_packages() -> None:
    """Raises ``ImportError`` for packages that are too old, so that a save doesn't fail late."""
    import google.protobuf

    # TensorFlow isn't imported for this check, since that takes long.
    tensorflow = sys.modules.get("tensorflow")
    found = {
        "protobuf": google.protobuf.__version__,
        "tensorflow": getattr(tensorflow, "__version__", None),
    }
    for name, least in _EARLIEST.items():
        version = found[name]
        numbers = tuple(int(part) for part in re.findall(r"\d+", version or "")[:3])
        if version is not None and numbers < least:
            wanted = ".".join(map(str, least))
            raise ImportError(
                f"saving models needs {name} {wanted} or later, found {version}: "
                f"pip install '{name}>={wanted}'"
            )


def _settings(
    capture: bool, min_size: int | str, format: str, progress: Progress | bool | None
) -> Settings:
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        raise ImportError("saving models needs protobuf: pip install protobuf") from None
    _check_packages()
    if format not in ("assets", "variables", "cpb"):
        raise ValueError(f"expected the format assets, variables or cpb, found {format!r}")
    if progress and progress is not True and not callable(progress):
        raise ValueError(f"expected a function for progress, or true for a bar, found {progress!r}")
    told = _bar.Bar("saving") if progress is True else progress or None
    return Settings(_size(min_size), capture, format, told)


def enable(
    *,
    capture: bool = True,
    min_size: int | str = DEFAULT_MIN_SIZE,
    format: str = "assets",
    progress: Progress | bool | None = None,
) -> list[SeamStatus]:
    """Makes TensorFlow save and load models of any size, in the whole process.

    Call this function before functions are traced. Constants in functions that were traced earlier
    are also saved, but take as much memory as without this package, and can't exceed 2 GiB in
    total.

    Args:
        capture: Captures large constants while functions are traced.
        min_size: Minimum size of constants to capture, in bytes. Smaller constants stay in graphs.
        format: ``assets`` for a model that any TensorFlow can load; ``variables`` for a model that
            any TensorFlow can load and save again, since captured constants are saved as variables;
            ``cpb`` for a chunked file, which can only be loaded with this package.
            ``SaveOptions(experimental_image_format=True)`` also requests a chunked file.
        progress: Called with the bytes done and the total while large constants are written;
            ``True`` for a bar on standard error. An exception in this function ends the save, as
            Ctrl-C does, without leaving partial files.

    Returns:
        The result of :func:`status`.

    Raises:
        ImportError: If TensorFlow or protobuf is missing or too old.
        ValueError: If a size or the format is invalid.

    Warns:
        RuntimeWarning: If the source of a TensorFlow function to replace is unknown. The warning
            names the function, which isn't replaced. The other functions are replaced.
    """
    wanted = _settings(capture, min_size, format, progress)
    with _installed.lock:
        if not _installed.is_enabled:
            _installed.hold()
            _installed.is_enabled = True
        _capture.set_everywhere(wanted)
    return status()


def disable() -> None:
    """Restores TensorFlow's behavior. Does nothing if :func:`enable` wasn't called."""
    with _installed.lock:
        if _installed.is_enabled:
            _installed.is_enabled = False
            _capture.set_everywhere(None)
            _installed.release()


@contextmanager
def enabled(
    *,
    capture: bool = True,
    min_size: int | str = DEFAULT_MIN_SIZE,
    format: str = "assets",
    progress: Progress | bool | None = None,
) -> Iterator[None]:
    """Enables the behavior of :func:`enable`, but only for this thread in a ``with`` statement.

    Raises:
        ImportError: If TensorFlow or protobuf is missing or too old.
        ValueError: If a size or the format is invalid.
    """
    wanted = _settings(capture, min_size, format, progress)
    _installed.hold()
    try:
        with _capture.locally(wanted):
            yield
    finally:
        _installed.release()


def status() -> list[SeamStatus]:
    """Returns the status of each TensorFlow function to replace, and why, if it can't be replaced.

    Raises:
        ImportError: If TensorFlow isn't installed.
    """
    import tensorflow  # noqa: F401

    with _installed.lock:
        return [_installed.patches.check(seam) for seam in _SEAMS]


def save(
    obj: Any,
    export_dir: str | os.PathLike[str],
    signatures: Any = None,
    options: Any = None,
    *,
    min_size: int | str = DEFAULT_MIN_SIZE,
    format: str = "assets",
    progress: Progress | bool | None = None,
) -> None:
    """Saves a model of any size like ``tf.saved_model.save``, without :func:`enable`.

    Large constants are captured in functions that are traced while the model is saved. Functions
    that were traced earlier have their constants in their graphs, which takes more memory; see
    :func:`enable`, which also describes ``min_size``, ``format`` and ``progress``.

    Raises:
        OSError: If the folder can't be written.
        ValueError: If the model can't be saved.
    """
    import tensorflow as tf

    with enabled(min_size=min_size, format=format, progress=progress):
        tf.saved_model.save(obj, os.fspath(export_dir), signatures, options)


def load(export_dir: str | os.PathLike[str], tags: Any = None, options: Any = None) -> Any:
    """Loads a SavedModel in any form, like ``tf.saved_model.load``, without :func:`enable`.

    A chunked model is first converted to a temporary folder with :func:`externalize`. The folder
    exists as long as the returned object. The model's constants are in memory only once.

    Raises:
        OSError: If the folder contains no model.
        Error: If the model's file is damaged.
    """
    import tensorflow as tf

    with enabled():
        return tf.saved_model.load(os.fspath(export_dir), tags, options)


def import_graph_def(
    source: Any, name: str | None = None, *, min_size: int | str = DEFAULT_MIN_SIZE
) -> None:
    """Imports a GraphDef of any size into the current graph, like ``tf.import_graph_def``.

    The current graph must belong to a TensorFlow function that is being built, as in
    ``tf.compat.v1.wrap_function``. Large constants in the main graph of the GraphDef become
    captures of this TensorFlow function.

    Args:
        source: A ``.pb`` or ``.cpb``, or another source for :func:`proto_splitter.open`.
        name: The prefix of the imported nodes' names; ``import`` by default.
        min_size: Minimum size of constants to capture, in bytes. Smaller constants stay in the
            graph.

    Raises:
        ValueError: If no TensorFlow function is being built.
        OSError: If the file doesn't exist.
        Error: If the file is damaged.
    """
    from . import _graphs

    _graphs.import_graph_def(source, name, _size(min_size))


externalize = _models.externalize
