"""The import of GraphDefs of any size, whose large constants become captures of a function."""

from __future__ import annotations

from typing import Any

from .. import _handle

_TENSOR = 'attr["value"].tensor'
_LARGE_LISTS = "float_val"


def _small_node(graph: _handle.File, path: str, node: Any) -> None:
    """Reads a constant node from a GraphDef into ``node``, without the constant's value."""
    node.name = graph.get(f"{path}.name")
    node.op = "Const"
    node.attr["dtype"].type = graph.get(f"{path}.{_TENSOR}.dtype")
    # The node's control inputs determine which loop frames it belongs to.
    node.input.extend(
        graph.get(inner) for inner, _ in graph.fields(path) if inner.startswith(f"{path}.input[")
    )


def import_graph_def(source: Any, name: str | None, min_size: int) -> None:
    """Implements :func:`proto_splitter.tensorflow.import_graph_def`."""
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.framework import dtypes, ops

    target = ops.get_default_graph()
    if not getattr(target, "building_function", False):
        raise ValueError(
            "only functions can capture large constants: call import_graph_def within "
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
    nodes = {node: _enter(small, node) for node in values}
    captured = {f"{nodes[node]}:0": target.capture(value) for node, value in values.items()}
    tf.import_graph_def(small, input_map=captured, name=name)


def _enter(graph: Any, name: str) -> str:
    """Adds ``Enter`` nodes, so that a captured value enters the loop frames of a constant.

    Args:
        graph: The GraphDef to change.
        name: The name of the placeholder that replaces the constant.

    Returns:
        The name of the placeholder outside of all frames, to which the value is fed.
    """
    frames = _frames(graph)
    inside = frames.get(name, ())
    if not inside:
        return name
    node = next(node for node in graph.node if node.name == name)
    outer = graph.node.add()
    outer.CopyFrom(node)
    outer.name = f"{name}/proto_splitter_value"
    del outer.input[:]
    before = outer.name
    for depth, frame in enumerate(inside):
        last = depth + 1 == len(inside)
        entered = node if last else graph.node.add()
        dtype = outer.attr["dtype"].type
        entered.Clear()
        entered.name = name if last else f"{name}/proto_splitter_enter_{depth}"
        entered.op = "Enter"
        entered.input.append(before)
        entered.attr["T"].type = dtype
        entered.attr["frame_name"].s = frame
        entered.attr["is_constant"].b = True
        entered.attr["parallel_iterations"].i = 10
        before = entered.name
    return str(outer.name)


def _frames(graph: Any) -> dict[str, tuple[bytes, ...]]:
    """Returns the loop frames of TensorFlow 1 that contain each node, the outermost first.

    Returns an empty ``dict`` if the graph has no loops.
    """
    if not any(node.op in ("Enter", "RefEnter") for node in graph.node):
        return {}
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for source in node.input:
            users.setdefault(source.lstrip("^").partition(":")[0], []).append(node)
    found: dict[str, tuple[bytes, ...]] = {}
    to_do = []
    for node in graph.node:
        if not node.input:
            found[node.name] = ()
            to_do.append(node)
    while to_do:
        node = to_do.pop()
        after = found[node.name]
        if node.op in ("Exit", "RefExit"):
            after = after[:-1]
        for user in users.get(node.name, ()):
            entered = (user.attr["frame_name"].s,) if user.op in ("Enter", "RefEnter") else ()
            if user.name not in found:
                found[user.name] = after + entered
                to_do.append(user)
    return found


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
