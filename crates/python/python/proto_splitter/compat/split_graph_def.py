"""A replacement for ``tensorflow.tools.proto_splitter.split_graph_def``: splitters by node size."""

from __future__ import annotations

from typing import Any

from .. import _messages, constants, util
from .._size_splitters import LargeMessageSplitter, RepeatedMessageSplitter, SplitBasedOnSize
from .._splitters import ComposableSplitter

__all__ = [
    "ConstantNodeDefSplitter",
    "FunctionDefSplitter",
    "GraphDefSplitter",
    "LargeMessageSplitter",
    "RepeatedMessageSplitter",
    "SplitBasedOnSize",
    "chunk_constant_value",
]

#: The fields that remain in a ``TensorProto`` when its value becomes a chunk.
_HEADER = ("dtype", "tensor_shape", "version_number")
_DT_STRING = 7


def _is_over(size: int) -> bool:
    return size > constants.max_size()


class GraphDefSplitter(ComposableSplitter):
    """A splitter for a GraphDef. Splits its list of nodes and its library, the larger one first.

    In both, large constants, nodes and functions become chunks first, and then parts of the lists.
    If the graph is small enough after the first of the two was split, the other isn't split.
    """

    def build_chunks(self) -> None:
        """Adds the chunks.

        Raises:
            TypeError: If the message isn't a GraphDef.
            ValueError: If a node that isn't a constant is too large.
        """
        graph = self._proto
        if graph.DESCRIPTOR.full_name != "tensorflow.GraphDef":
            raise TypeError(f"Can only split GraphDef type protos. Got {type(graph)}")
        size = _messages.size_of(graph)
        if size < constants.max_size():
            return
        of_nodes = RepeatedMessageSplitter(
            graph,
            "node",
            [ConstantNodeDefSplitter, LargeMessageSplitter],
            parent_splitter=self,
            fields_in_parent=[],
        )
        of_functions = RepeatedMessageSplitter(
            graph.library,
            "function",
            [FunctionDefSplitter],
            parent_splitter=self,
            fields_in_parent=["library"],
        )
        library = _messages.size_of(graph.library)
        in_turn = [of_nodes, of_functions]
        if library > size - library:
            in_turn.reverse()
        for splitter in in_turn:
            size -= splitter.build_chunks()
            if not _is_over(size):
                break
        if _is_over(_messages.size_of(graph)):
            # Index 1 is right after the remaining message, so that the library's chunk precedes the
            # chunks that are merged into the library.
            self.add_chunk(graph.library, ["library"], 1)
            graph.ClearField("library")


def chunk_constant_value(node: Any, size: int) -> bytes:
    """Removes the value of a constant, and returns it as the bytes of ``tensor_content``.

    Raises:
        ValueError: If the node isn't a constant.
    """
    if node.op != "Const":
        sizes = ", ".join(
            f"{name}: {util.format_bytes(attr.ByteSize())}" for name, attr in node.attr.items()
        )
        raise ValueError(
            f"Unable to split GraphDef because at least one of the nodes individually exceeds the "
            f"max size of {util.format_bytes(constants.max_size())}. Currently only Const nodes "
            f"can be further split. Node info: size: {util.format_bytes(size)}, name: {node.name}, "
            f"op: {node.op}, attr (and sizes): {sizes}"
        )
    tensor = node.attr["value"].tensor
    value: bytes = tensor.tensor_content or _content(tensor)
    header = type(tensor)()
    for name in _HEADER:
        kept = getattr(tensor, name)
        if _messages.is_message(kept):
            getattr(header, name).CopyFrom(kept)
        else:
            setattr(header, name, kept)
    tensor.CopyFrom(header)
    return value


def _content(tensor: Any) -> bytes:
    """Returns the elements of a tensor that has no ``tensor_content``, encoded as that field."""
    from tensorflow.python.framework import tensor_util

    array = tensor_util.MakeNdarray(tensor)
    if tensor.dtype != _DT_STRING:
        return bytes(array.tobytes())
    elements = [bytes(element) for element in array.reshape(-1)]
    lengths = b"".join(_messages._varint(len(element)) for element in elements)
    return lengths + b"".join(elements)


class ConstantNodeDefSplitter(SplitBasedOnSize):
    """A splitter that turns the value of a constant over the maximum size into a chunk."""

    def build_chunks(self) -> int:
        """Adds the chunk, if any, and returns the number of bytes removed from the node."""
        if not _is_over(self.proto_size):
            return 0
        value = chunk_constant_value(self._proto, self.proto_size)
        self.add_chunk(value, ["attr", "value", "tensor", "tensor_content"])
        return len(value)


class FunctionDefSplitter(SplitBasedOnSize):
    """A splitter that turns a large function into a chunk, or its nodes into several chunks."""

    def build_chunks(self) -> int:
        """Adds the chunks, and returns the number of bytes removed from the function."""
        function = self._proto
        if not _is_over(self.proto_size):
            whole = LargeMessageSplitter(
                function, self.proto_size, parent_splitter=self, fields_in_parent=[]
            )
            return whole.build_chunks()
        of_nodes = RepeatedMessageSplitter(
            function,
            "node_def",
            [ConstantNodeDefSplitter, LargeMessageSplitter],
            parent_splitter=self,
            fields_in_parent=[],
        )
        return of_nodes.build_chunks()
