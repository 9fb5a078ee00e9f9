"""The contents of ``tensorflow.tools.proto_splitter``, under the same names.

TensorFlow's wheel lacks that package. Code written for it runs with this package::

    from proto_splitter.compat import chunk_pb2, constants, split, split_graph_def, util, version
    from proto_splitter.compat.python import saved_model

The splitters make the same decisions as TensorFlow's, message by message, and modify the given
message. :class:`proto_splitter.GraphDefSplitter` and :func:`proto_splitter.split` need less memory,
split messages that these splitters can't, and restore every byte.
"""
