"""The messages of ``proto_splitter/transfer/transfer.proto``, for imports by generated code."""
