"""Imports GraphDefs of any size: their large constants never become part of a graph's message."""

from __future__ import annotations

from typing import Any

from .. import _handle

_TENSOR = 'attr["value"].tensor'
_LARGE_LISTS = "float_val"


def _small_node(graph: _handle.File, path: str, node: Any) -> None:
    """Reads a node without its value."""
    node.name = graph.get(f"{path}.name")
    node.op = "Const"
    node.attr["dtype"].type = graph.get(f"{path}.{_TENSOR}.dtype")


def import_graph_def(source: Any, name: str | None, min_size: int) -> None:
    """See :func:`proto_splitter.tensorflow.import_graph_def`."""
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.framework import dtypes, ops

    target = ops.get_default_graph()
    if not getattr(target, "building_function", False):
        raise ValueError(
            "large constants are captured by functions only: call import_graph_def within "
            "tf.compat.v1.wrap_function or a tf.function"
        )
    small = graph_pb2.GraphDef()
    values: dict[str, Any] = {}
    with _handle.open(source, "tensorflow.GraphDef") as graph:
        for path, size in graph.fields():
            field = path.partition("[")[0]
            if field == "node" and size >= min_size and graph.get(f"{path}.op") == "Const":
                content = graph.size(f"{path}.{_TENSOR}.tensor_content") or 0
                if content >= min_size:
                    node = small.node.add()
                    _small_node(graph, path, node)
                    dtype = dtypes.as_dtype(node.attr["dtype"].type)
                    node.op, node.attr["shape"].shape.unknown_rank = "Placeholder", True
                    values[node.name] = _tensor(graph, f"{path}.{_TENSOR}", dtype)
                    continue
            if field == "node":
                small.node.add().ParseFromString(memoryview(graph.get(path)))
            elif field == "library":
                part = graph.message(path, type(small.library))
                small.library.MergeFrom(part)
            elif field == "versions":
                small.versions.ParseFromString(memoryview(graph.get(path)))
    captured = {f"{node}:0": target.capture(value) for node, value in values.items()}
    tf.import_graph_def(small, input_map=captured, name=name)


def _tensor(graph: _handle.File, path: str, dtype: Any) -> Any:
    import numpy as np
    import tensorflow as tf
    from tensorflow.core.framework import tensor_shape_pb2
    from tensorflow.python.framework import ops

    shape = graph.message(f"{path}.tensor_shape", tensor_shape_pb2.TensorShapeProto)
    array = np.empty([dim.size for dim in shape.dim], dtype.as_numpy_dtype)
    graph.get_into(f"{path}.tensor_content", array.reshape(-1).view(np.uint8))
    with ops.init_scope():
        return tf.constant(array)
