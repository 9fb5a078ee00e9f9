"""The Python side: a server that stores messages in files, and a client that sends and fetches messages.

peer.py serve FOLDER SCHEMA TYPE | send ADDRESS FILE SCHEMA TYPE CHUNK | typed ADDRESS MEBIBYTES | get ADDRESS NAME TARGET | idle
"""

from __future__ import annotations

import sys
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import proto_splitter.grpc as psg
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from other import peak_of
from proto_splitter.transfer import transfer_pb2

SHELF = Path(__file__).parents[3] / "crates/tonic/examples/shelf/shelf.binpb"
for file in descriptor_pb2.FileDescriptorSet.FromString(SHELF.read_bytes()).file:
    if file.name == "shelf.proto":
        descriptor_pool.Default().AddSerializedFile(file.SerializeToString())


def class_of(name: str) -> Any:
    return message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(name))


Stored, Wanted, Trace = (class_of(f"shelf.{name}") for name in ("Stored", "Wanted", "Trace"))
FRAME, TOKEN = transfer_pb2.Frame, transfer_pb2.ResumeToken


class Stub:
    """A stub like the one that protoc's plugin generates for `shelf.proto`."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.Put = channel.stream_unary("/shelf.Shelf/Put", FRAME.SerializeToString, Stored.FromString)
        self.Resume = channel.unary_unary("/shelf.Shelf/Resume", TOKEN.SerializeToString, TOKEN.FromString)
        self.Get = channel.unary_stream("/shelf.Shelf/Get", Wanted.SerializeToString, FRAME.FromString)


class Shelf:
    def __init__(self, folder: str, schema: str, name: str) -> None:
        self.folder, self.name = Path(folder), name
        self.schema = Path(schema).read_bytes()
        self.inbox = psg.Inbox()

    def put(self, frames: Any, context: Any) -> Any:
        size = psg.receive_file(
            frames, self.folder / "put.pb", force=True, context=context, inbox=self.inbox, folder=self.folder
        )
        return Stored(size=size)

    def resume(self, asked: Any, context: Any) -> Any:
        return self.inbox.token(asked)

    def get(self, wanted: Any, context: Any) -> Any:
        return psg.frames(str(self.folder / wanted.name), self.name, self.schema)


def serve(folder: str, schema: str, name: str) -> None:
    shelf = Shelf(folder, schema, name)
    handlers = {
        "Put": grpc.stream_unary_rpc_method_handler(shelf.put, FRAME.FromString, Stored.SerializeToString),
        "Resume": grpc.unary_unary_rpc_method_handler(shelf.resume, TOKEN.FromString, TOKEN.SerializeToString),
        "Get": grpc.unary_stream_rpc_method_handler(shelf.get, Wanted.FromString, FRAME.SerializeToString),
    }
    server = grpc.server(futures.ThreadPoolExecutor(8), options=psg.READ_AHEAD)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("shelf.Shelf", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


def main() -> None:
    verb, *arguments = sys.argv[1:]
    if verb == "serve":
        serve(*arguments)
    elif verb != "idle":
        call(verb, arguments)
    print(peak_of("/proc/self/status"))


def call(verb: str, arguments: list[str]) -> None:
    with grpc.insecure_channel(arguments.pop(0), options=psg.READ_AHEAD) as channel:
        stub = Stub(channel)
        if verb == "send":
            path, schema, name, chunk = arguments
            stored = psg.send(
                stub.Put,
                path,
                name,
                Path(schema).read_bytes(),
                resume=stub.Resume,
                attempts=10,
                max_chunk_size=int(chunk),
            )
            print(stored.size)
        elif verb == "typed":
            sample = bytes([7]) * (16 << 20)
            count = -(-int(arguments[0]) // 16)
            trace = Trace(name="typed", samples=[sample] * count)
            print(psg.send(stub.Put, trace, resume=stub.Resume, attempts=10).size)
        else:
            name, target = arguments
            print(psg.receive_file(stub.Get(Wanted(name=name)), target))


if __name__ == "__main__":
    main()
