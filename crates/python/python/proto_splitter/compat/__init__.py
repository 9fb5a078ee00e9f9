"""A replacement for the package ``tensorflow.tools.proto_splitter``, with the same names.

TensorFlow's wheel lacks that package. Code that was written for it runs with this one::

    from proto_splitter.compat import chunk_pb2, constants, split, split_graph_def, util, version
    from proto_splitter.compat.python import saved_model

The splitters in this package split messages in the same way as TensorFlow's, and like these, they
modify the given message. In contrast, :class:`proto_splitter.GraphDefSplitter` and
:func:`proto_splitter.split` use less memory, can split more messages, and write files from which a
merge restores every byte.
"""
