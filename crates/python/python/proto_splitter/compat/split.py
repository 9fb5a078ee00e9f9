"""A replacement for ``tensorflow.tools.proto_splitter.split``."""

from .._splitters import ComposableSplitter, Splitter

__all__ = ["ComposableSplitter", "Splitter"]
