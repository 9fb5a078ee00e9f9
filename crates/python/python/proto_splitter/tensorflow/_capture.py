"""Replacements for TensorFlow functions: large constants are captured while functions are traced.

The replacements also keep the captured constants out of the saved graph.
"""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

#: Number of bytes to compare or hash at once: 4 MiB.
_STEP = 4 << 20

#: Integer vectors smaller than this, in bytes, aren't captured, since they may be shapes: 64 KiB.
_LARGEST_SHAPE = 64 << 10

#: Alignment, in bytes, without which TensorFlow copies the memory of a tensor.
_ALIGNMENT = 64


@dataclass(frozen=True)
class Settings:
    """The settings of the replacements for TensorFlow functions."""

    #: Minimum size of a constant to capture, in bytes.
    min_size: int
    #: True if large constants are captured while functions are traced.
    capture: bool
    #: The form of saved models: ``assets``, ``variables`` or ``cpb``; see `enable`.
    format: str
    #: A function that is called with the bytes done and the total while a model is written.
    progress: Callable[[int, int], object] | None = None


@dataclass
class Saving:
    """The state of a save in progress."""

    settings: Settings
    #: Tensors with the values that constants of the exported graph lack, by node name.
    values: dict[str, Any] = field(default_factory=dict)
    #: True if the save includes variables, so captured constants are saved as variables.
    has_variables: bool = False
    #: Total size of the captured constants that are saved as variables, in bytes.
    variables_size: int = 0


#: The settings of this thread, if they differ from the settings of the process, as during `save`.
_local: ContextVar[Settings | None] = ContextVar("proto_splitter_settings", default=None)
_saving: ContextVar[Saving | None] = ContextVar("proto_splitter_saving", default=None)
_everywhere: list[Settings] = []
#: The reason why functions being traced in this thread don't capture constants. ``None`` if they
#: do; empty if the reason needn't be reported.
_left: ContextVar[str | None] = ContextVar("proto_splitter_left", default=None)


def settings() -> Settings | None:
    """Returns the settings of this thread or the process; ``None`` if not enabled."""
    return _local.get() or (_everywhere[-1] if _everywhere else None)


def set_everywhere(value: Settings | None) -> None:
    """Sets the settings of the process; ``None`` to restore TensorFlow's behavior."""
    _everywhere[:] = [] if value is None else [value]


@contextmanager
def locally(value: Settings) -> Iterator[None]:
    """Sets the settings of this thread during a ``with`` statement."""
    token = _local.set(value)
    try:
        yield
    finally:
        _local.reset(token)


@contextmanager
def saving(value: Saving) -> Iterator[None]:
    """Sets the save in progress in this thread during a ``with`` statement."""
    token = _saving.set(value)
    try:
        yield
    finally:
        _saving.reset(token)


def current_save() -> Saving | None:
    """Returns the save that is in progress in this thread, or ``None``."""
    return _saving.get()


def _is_numeric(dtype: Any) -> bool:
    """Returns true if a NumPy type is numeric, with the same bytes per element as in TensorFlow."""
    # Types of ml_dtypes, such as bfloat16, are of kind V. TensorFlow stores types of 4 and 2 bits
    # differently.
    small = dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")
    return dtype.kind in "fiubc" or (dtype.kind == "V" and not dtype.hasobject and not small)


def bytes_of(array: Any) -> memoryview:
    """Returns the bytes of an array, without a copy if it is contiguous."""
    import numpy as np

    flat = np.ascontiguousarray(array).reshape(-1)
    return memoryview(flat.view(np.uint8)).cast("B")  # type: ignore[arg-type]


def _is_same(first: Any, second: Any) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    one, two = bytes_of(first), bytes_of(second)
    steps = range(0, len(one), _STEP)
    return all(one[at : at + _STEP] == two[at : at + _STEP] for at in steps)


def _tensor_of(array: Any) -> Any:
    """Returns a tensor with a copy of an array."""
    import numpy as np
    import tensorflow as tf

    # Some types of ml_dtypes are also of kind f, but DLPack doesn't support them.
    is_known = array.dtype.kind in "fiu" and array.dtype.isbuiltin == 1
    if not is_known or not array.dtype.isnative:
        return tf.constant(array)
    # `tf.constant` would copy twice. TensorFlow uses this aligned copy without another copy.
    room = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    np.copyto(copy, array)
    return tf.experimental.dlpack.from_dlpack(copy.__dlpack__())


#: The attribute that marks a tensor as made from a captured constant.
_MARK = "_proto_splitter_constant"


class _Made:
    """The tensors made from captured arrays, which are reused when a function is traced again."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}

    def tensor(self, array: Any) -> Any:
        array_of, tensor_of = self._made.get(id(array), (lambda: None, lambda: None))
        tensor = tensor_of()
        # An array that was modified in the meantime needs another tensor.
        if array_of() is array and tensor is not None and _is_same(array, tensor._numpy()):
            return tensor
        tensor = _tensor_of(array)
        setattr(tensor, _MARK, True)
        self._forget()
        self._made[id(array)] = (weakref.ref(array), weakref.ref(tensor))
        return tensor

    def _forget(self) -> None:
        gone = [key for key, refs in self._made.items() if any(ref() is None for ref in refs)]
        for key in gone:
            del self._made[key]


_made = _Made()


def _large_array(value: Any, dtype: Any, shape: Any, min_size: int) -> Any | None:
    """Returns a constant's value as an array; ``None`` if the constant shouldn't be captured."""
    import numpy as np

    if shape is not None or not isinstance(value, np.ndarray) or not _is_numeric(value.dtype):
        return None
    if dtype is not None:
        from tensorflow.python.framework import dtypes

        wanted = dtypes.as_dtype(dtype)
        if wanted.is_quantized or not _is_numeric(np.dtype(wanted.as_numpy_dtype)):
            return None
        value = value.astype(wanted.as_numpy_dtype, copy=False)
    # TensorFlow misreads numbers whose byte order isn't native.
    if value.nbytes < min_size or _may_be_shape(value) or not value.dtype.isnative:
        return None
    return value


def _may_be_shape(array: Any) -> bool:
    """Returns true if a value may be a shape, which TensorFlow may need while it traces."""
    return array.dtype.kind in "iu" and array.ndim < 2 and array.nbytes < _LARGEST_SHAPE


def graph_constant(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``ops._create_graph_constant`` that captures large constants."""

    def _create_graph_constant(
        value: Any, dtype: Any, shape: Any, name: Any, verify_shape: Any, allow_broadcast: Any
    ) -> Any:
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        now = settings()
        graph = ops.get_default_graph()

        def stock() -> Any:
            return original(value, dtype, shape, name, verify_shape, allow_broadcast)

        if now is None or not now.capture or not getattr(graph, "building_function", False):
            return stock()
        array = _large_array(value, dtype, shape, now.min_size)
        if array is None:
            made = stock()
            if _is_large(made, now.min_size):
                _traced.add((graph.name, made.op.name))
            return made
        tensor, why = None, _left.get()
        if why is None and array.dtype.itemsize == 1 and array.dtype.isbuiltin != 1:
            why = "its tools don't take arguments of this type"
        if why is None:
            with ops.init_scope():
                if context.executing_eagerly():
                    tensor, why = _try(_made.tensor, array)
        if tensor is not None:
            return graph.capture(tensor)
        made = stock()
        if why:
            _warn_left(array, why)
        _traced.add((graph.name, made.op.name))
        return made

    return _create_graph_constant


def _try(make: Callable[[Any], Any], array: Any) -> tuple[Any, str | None]:
    """Returns the result of ``make`` for an array, or the reason why it failed."""
    try:
        return make(array), None
    except Exception as error:  # noqa: BLE001: TensorFlow may still accept the array.
        return None, f"{type(error).__name__}: {error}".partition("\n")[0]


#: Large constants that stayed in their graphs although captures were enabled, by graph and node.
_traced: set[tuple[str, str]] = set()


def was_traced_here(function: str | None, node: str) -> bool:
    """Returns true if a large constant stayed in its graph although captures were enabled."""
    if not function:
        return False
    # A function is named like its graph, with a prefix and a number, unless it is a branch.
    match = re.fullmatch(r"__(?:inference|forward|backward)_(.*)_\d+", function)
    return (match[1] if match else function, node) in _traced


def _is_large(tensor: Any, min_size: int) -> bool:
    if tensor.op.type != "Const" or not tensor.dtype.size:
        return False
    size: int = (tensor.shape.num_elements() or 0) * tensor.dtype.size
    return size >= min_size


#: Source lines for which a warning was issued, so that each line is reported only once.
_told: set[tuple[str, int]] = set()


def _warn_left(array: Any, why: str) -> None:
    file, line, name = _user_frame()
    if (file, line) in _told:
        return
    _told.add((file, line))
    warnings.warn_explicit(
        f"{name} ({file}:{line}): a constant of {array.nbytes} bytes and type {array.dtype} is left "
        f"to TensorFlow, as {why}",
        RuntimeWarning,
        file,
        line,
    )


def _user_frame() -> tuple[str, int, str]:
    """Returns the file, line and function of the user's code that is being traced."""
    import os

    import tensorflow as tf
    from tensorflow.python.util import tf_stack

    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = (os.path.dirname(os.path.abspath(tf.__file__)) + os.sep, ours + os.sep)
    # `tf_stack` maps lines that autograph has rewritten to lines of the user's code.
    for frame in reversed(list(tf_stack.extract_stack())):
        if not frame.filename.startswith(inside):
            return frame.filename, frame.lineno, frame.name
    return "<unknown>", 0, "<unknown>"


def create_concrete_function(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``tracing_compilation._create_concrete_function``.

    The replacement disables captures for functions that may not capture.
    """

    def _create_concrete_function(
        function_type: Any, type_context: Any, func_graph: Any, tracing_options: Any
    ) -> Any:
        from tensorflow.python.eager.polymorphic_function import attributes

        token = None
        if attributes.IMPLEMENTS in (tracing_options.attributes or {}):
            token = _left.set("a function with experimental_implements captures nothing")
        try:
            return original(function_type, type_context, func_graph, tracing_options)
        finally:
            if token is not None:
                _left.reset(token)

    return _create_concrete_function


def trace_gradients(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``save._trace_gradient_functions`` that captures no constants.

    The original accepts only captures that the model already has.
    """

    def _trace_gradient_functions(graph: Any, saveable_view: Any) -> Any:
        token = _left.set("")
        try:
            return original(graph, saveable_view)
        finally:
            _left.reset(token)

    return _trace_gradient_functions


def static_value(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``tensor_util._ConstantValue`` that knows captured constants."""

    def _ConstantValue(tensor: Any, partial: Any) -> Any:
        value = original(tensor, partial)
        if value is not None or tensor.op.type != "Placeholder":
            return value
        graph = tensor.graph
        for capture, inner in getattr(graph, "captures", ()):
            if inner is tensor:
                if getattr(capture, _MARK, False):
                    return capture.numpy()
                # A tensor of the enclosing graph may, in turn, be a captured constant there.
                return _ConstantValue(capture, partial) if hasattr(capture, "op") else None
        return None

    return _ConstantValue


def is_uniform(array: Any) -> bool:
    """Returns true if all elements are equal, so that TensorFlow saves only one of them.

    Zeros with different signs aren't equal.
    """
    import numpy as np

    flat = array.reshape(-1)
    step, first = _STEP // array.itemsize, flat[:1]
    parts = (flat[at : at + step] for at in range(0, flat.size, step))
    # Values are compared first, since NaNs are saved in full: TensorFlow might change their bits.
    return all(
        bool(np.all(part == first)) and part.tobytes() == first.tobytes() * part.size
        for part in parts
    )


def large_value(tensor: Any, min_size: int) -> Any | None:
    """Returns the value of a captured tensor; ``None`` if it isn't a large numeric constant."""
    from tensorflow.python.framework import ops

    if not isinstance(tensor, ops.EagerTensor) or not tensor.dtype.size:
        return None
    size = tensor.shape.num_elements() * tensor.dtype.size
    if size < min_size or tensor.dtype.is_quantized:
        return None
    array = tensor._numpy()
    return array if _is_numeric(array.dtype) else None


def export_constant(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``TrackableConstant._export_to_saved_model_graph``.

    The replacement exports a large constant without its value, which :class:`Saving` keeps.
    """

    def _export_to_saved_model_graph(self: Any, tensor_map: Any, **unused: Any) -> Any:
        from tensorflow.python.framework import constant_op

        save, captured = current_save(), self.capture
        array = None if save is None else large_value(captured, save.settings.min_size)
        if save is None or array is None:
            return original(self, tensor_map, **unused)
        uniform = is_uniform(array)
        first = array.reshape(-1)[0] if uniform else array.dtype.type(0)
        try:
            exported = constant_op.constant(first, dtype=captured.dtype, shape=captured.shape)
        except (TypeError, ValueError):
            # TensorFlow can't create a constant of this type from a single element.
            return original(self, tensor_map, **unused)
        if not uniform:
            save.values[exported.op.name] = captured
        tensor_map[captured] = exported
        self._exported_tensor = exported
        return [captured]

    return _export_to_saved_model_graph
