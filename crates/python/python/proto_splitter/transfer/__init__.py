"""The package of ``transfer_pb2``, under the name that generated code imports."""
