"""A replacement for ``tensorflow.tools.proto_splitter.python.test_util``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["make_graph_def_with_constant_nodes"]


def make_graph_def_with_constant_nodes(
    node_sizes: Sequence[int], dtype: Any = None, **function_node_sizes: Sequence[int]
) -> Any:
    """Returns a GraphDef with constants of about the given sizes, for tests.

    Args:
        node_sizes: The sizes of the constants in the main graph, in bytes.
        dtype: The element type of the constants; ``tf.float32`` by default.
        function_node_sizes: The sizes of the constants in each function, by the function's name.

    Raises:
        ValueError: If a size is too small for a constant node.
    """
    import numpy as np
    import tensorflow as tf

    dtype = tf.as_dtype(dtype or tf.float32)
    graph = tf.compat.v1.GraphDef()
    made = 0

    def add(nodes: Any, sizes: Sequence[int]) -> None:
        nonlocal made
        for size in sizes:
            node = nodes.add(name=f"Const_{made}", op="Const")
            made += 1
            one = tf.make_tensor_proto(np.ones([]), dtype=dtype)
            node.attr["value"].tensor.CopyFrom(one)
            left = size - node.ByteSize()
            if left < 0:
                raise ValueError(f"Unable to create node of size {size} bytes.")
            elements = np.random.random_sample([-(-left // dtype.size)])
            tensor = tf.make_tensor_proto(elements, dtype=dtype)
            node.attr["value"].tensor.CopyFrom(tensor)

    add(graph.node, node_sizes)
    for name, sizes in function_node_sizes.items():
        function = graph.library.function.add()
        function.signature.name = name
        add(function.node_def, sizes)
    return graph
