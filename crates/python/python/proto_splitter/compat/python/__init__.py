"""As ``tensorflow.tools.proto_splitter.python``."""
