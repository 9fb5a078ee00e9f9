"""Large constants: captured while a function is traced, and kept out of the graph that is saved."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

#: Bytes that are compared or hashed at once: 4 MiB.
_STEP = 4 << 20

#: Bytes that TensorFlow aligns tensors to; what isn't, it copies.
_ALIGNMENT = 64


@dataclass(frozen=True)
class Settings:
    """How the replacements behave."""

    #: Constants of fewer bytes are left to TensorFlow.
    min_size: int
    #: Whether constants are captured while tracing.
    capture: bool
    #: ``assets`` for what any TensorFlow loads, or ``cpb``.
    format: str


@dataclass
class Saving:
    """A save that is under way."""

    settings: Settings
    #: The values of the constants that the exported graph has without them, by node name.
    values: dict[str, Any] = field(default_factory=dict)


#: The settings of this thread while they differ from those of the process, as in `save`.
_local: ContextVar[Settings | None] = ContextVar("proto_splitter_settings", default=None)
_saving: ContextVar[Saving | None] = ContextVar("proto_splitter_saving", default=None)
_everywhere: list[Settings] = []


def settings() -> Settings | None:
    """The settings that hold here; ``None`` where TensorFlow behaves as ever."""
    return _local.get() or (_everywhere[-1] if _everywhere else None)


def set_everywhere(value: Settings | None) -> None:
    """Sets what holds in the whole process."""
    _everywhere[:] = [] if value is None else [value]


@contextmanager
def locally(value: Settings) -> Iterator[None]:
    """Sets what holds in this thread, for a while."""
    token = _local.set(value)
    try:
        yield
    finally:
        _local.reset(token)


@contextmanager
def saving(value: Saving) -> Iterator[None]:
    """Says that this thread saves a model, for a while."""
    token = _saving.set(value)
    try:
        yield
    finally:
        _saving.reset(token)


def current_save() -> Saving | None:
    """The save that is under way in this thread."""
    return _saving.get()


def _is_numeric(dtype: Any) -> bool:
    """Whether these are numbers whose bytes are what TensorFlow stores."""
    # Types of ml_dtypes, as bfloat16, are of kind V; those of 4 and 2 bits are stored otherwise.
    small = dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")
    return dtype.kind in "fiubc" or (dtype.kind == "V" and not dtype.hasobject and not small)


def bytes_of(array: Any) -> memoryview:
    """The bytes of an array, without a copy if it is contiguous."""
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
    """A tensor with a copy of an array."""
    import numpy as np
    import tensorflow as tf

    if array.dtype.kind not in "fiu" or not array.dtype.isnative:
        return tf.constant(array)
    # By itself TensorFlow makes two copies, one after the other. It takes over one that is aligned.
    room = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    np.copyto(copy, array)
    return tf.experimental.dlpack.from_dlpack(copy.__dlpack__())


class _Made:
    """Tensors that were made of arrays, so that tracing again doesn't make them again."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}

    def tensor(self, array: Any) -> Any:
        array_of, tensor_of = self._made.get(id(array), (lambda: None, lambda: None))
        tensor = tensor_of()
        # An array may have been changed since; then it is another constant.
        if array_of() is array and tensor is not None and _is_same(array, tensor._numpy()):
            return tensor
        tensor = _tensor_of(array)
        self._forget()
        self._made[id(array)] = (weakref.ref(array), weakref.ref(tensor))
        return tensor

    def _forget(self) -> None:
        gone = [key for key, refs in self._made.items() if any(ref() is None for ref in refs)]
        for key in gone:
            del self._made[key]


_made = _Made()


def _large_array(value: Any, dtype: Any, shape: Any, min_size: int) -> Any | None:
    """The array that a constant would be made of, if it is to be captured."""
    import numpy as np

    if shape is not None or not isinstance(value, np.ndarray) or not _is_numeric(value.dtype):
        return None
    if dtype is not None:
        from tensorflow.python.framework import dtypes

        wanted = dtypes.as_dtype(dtype)
        if wanted.is_quantized or not _is_numeric(np.dtype(wanted.as_numpy_dtype)):
            return None
        if value.size * wanted.size < min_size:
            return None
        return value.astype(wanted.as_numpy_dtype, copy=False)
    return value if value.nbytes >= min_size else None


def graph_constant(original: Callable[..., Any]) -> Callable[..., Any]:
    """For ``ops._create_graph_constant``: a large constant of a function becomes a capture."""

    def _create_graph_constant(
        value: Any, dtype: Any, shape: Any, name: Any, verify_shape: Any, allow_broadcast: Any
    ) -> Any:
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        now = settings()
        graph = ops.get_default_graph()
        if now is not None and now.capture and getattr(graph, "building_function", False):
            array = _large_array(value, dtype, shape, now.min_size)
            if array is not None:
                with ops.init_scope():
                    tensor = _made.tensor(array) if context.executing_eagerly() else None
                if tensor is not None:
                    return graph.capture(tensor)
        return original(value, dtype, shape, name, verify_shape, allow_broadcast)

    return _create_graph_constant


def _uniform(array: Any) -> bool:
    """Whether all elements are equal, as in zeros, of which TensorFlow saves one."""
    import numpy as np

    flat = array.reshape(-1)
    step = _STEP // array.itemsize
    return all(bool(np.all(flat[at : at + step] == flat[0])) for at in range(0, flat.size, step))


def export_constant(original: Callable[..., Any]) -> Callable[..., Any]:
    """For ``TrackableConstant._export_to_saved_model_graph``: the value stays out of the graph."""

    def _export_to_saved_model_graph(self: Any, tensor_map: Any, **unused: Any) -> Any:
        from tensorflow.python.framework import constant_op, ops

        save, captured = current_save(), self.capture
        if save is None or not isinstance(captured, ops.EagerTensor) or not captured.dtype.size:
            return original(self, tensor_map, **unused)
        size = captured.shape.num_elements() * captured.dtype.size
        if size < save.settings.min_size or captured.dtype.is_quantized:
            return original(self, tensor_map, **unused)
        array = captured._numpy()
        if not _is_numeric(array.dtype):
            return original(self, tensor_map, **unused)
        uniform = _uniform(array)
        first = array.reshape(-1)[0] if uniform else array.dtype.type(0)
        exported = constant_op.constant(first, dtype=captured.dtype, shape=captured.shape)
        if not uniform:
            save.values[exported.op.name] = captured
        tensor_map[captured] = exported
        self._exported_tensor = exported
        return [captured]

    return _export_to_saved_model_graph
