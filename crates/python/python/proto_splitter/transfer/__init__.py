"""The messages of ``proto_splitter/transfer/transfer.proto``, where generated code imports them."""
