"""A replacement for ``tensorflow.tools.proto_splitter.python``."""
