"""The contents of ``tensorflow.tools.proto_splitter``, under the same names.

TensorFlow's wheel doesn't have that package. Code that was written for it runs with this one instead::

    from proto_splitter.compat import chunk_pb2, constants, split, split_graph_def, util, version
    from proto_splitter.compat.python import saved_model

The splitters decide as TensorFlow's do, message by message, and change the message that they are given.
:class:`proto_splitter.GraphDefSplitter` and :func:`proto_splitter.split` need less memory, cut what these
can't, and give back every byte.
"""
