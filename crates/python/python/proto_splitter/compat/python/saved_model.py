"""A replacement for ``tensorflow.tools.proto_splitter.python.saved_model``."""

from __future__ import annotations

from ... import _messages, constants
from ..._splitters import ComposableSplitter
from ..split_graph_def import GraphDefSplitter

__all__ = ["SavedModelSplitter"]


class SavedModelSplitter(ComposableSplitter):
    """A splitter for a SavedModel, which splits the graph in the first MetaGraphDef."""

    def build_chunks(self) -> None:
        """Adds the chunks.

        Raises:
            TypeError: If the message isn't a SavedModel.
            ValueError: If a node that isn't a constant is too large.
        """
        model = self._proto
        if model.DESCRIPTOR.full_name != "tensorflow.SavedModel":
            raise TypeError(
                f"SavedModelSplitter can only split SavedModel protos. Got {type(model)}"
            )
        if _messages.size_of(model) < constants.max_size() or not model.meta_graphs:
            return
        graph = model.meta_graphs[0].graph_def
        place: list[str | int | bool] = ["meta_graphs", 0, "graph_def"]
        GraphDefSplitter(graph, parent_splitter=self, fields_in_parent=place).build_chunks()
        if _messages.size_of(model) >= constants.max_size():
            self.add_chunk(graph, place, 1)
            model.meta_graphs[0].ClearField("graph_def")
