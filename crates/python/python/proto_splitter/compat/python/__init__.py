"""Replaces ``tensorflow.tools.proto_splitter.python``."""
