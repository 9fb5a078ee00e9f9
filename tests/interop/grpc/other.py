"""A peer that shares no code with this project, but implements docs/transfer.md and docs/cpb-format.md as an implementation in another
language would.

other.py serve FOLDER SCHEMA TYPE | send ADDRESS FILE SCHEMA TYPE CHUNK | get ADDRESS NAME TARGET
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import google_crc32c
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TOP = Path(__file__).parents[3]
POOL = descriptor_pool.DescriptorPool()
for schema in ("core/src/proto/descriptors", "tonic/examples/shelf/shelf"):
    files = descriptor_pb2.FileDescriptorSet.FromString((TOP / "crates" / f"{schema}.binpb").read_bytes())
    for file in files.file:
        POOL.Add(file)


def class_of(name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


Frame, Token = (class_of(f"proto_splitter.transfer.{name}") for name in ("Frame", "ResumeToken"))
Stored, Wanted = (class_of(f"shelf.{name}") for name in ("Stored", "Wanted"))
ChunkMetadata = class_of("tensorflow.proto_splitter.ChunkMetadata")
MESSAGE = 1

crc32c = google_crc32c.value


# A minimal sender. It cuts the serialized message at any offsets, and each chunk continues the previous chunk.


def trailer_of(name: str, sizes: list[int]) -> Any:
    trailer = ChunkMetadata(message_type=name, source_size=sum(sizes), splice_marker=True, byte_exact=True)
    trailer.version.join_version = 1
    root = trailer.extended_message
    root.chunk_index = 0
    for index, size in enumerate(sizes):
        trailer.chunks.add(type=MESSAGE, size=size)
        if index > 0:
            tail = root.chunked_fields.add(tail=True, within=True)
            tail.message.chunk_index = index
    return trailer


def frames_of(path: Path, name: str, chunk: int, token: Any, session: bytes) -> Iterator[Any]:
    size = path.stat().st_size
    sizes = [min(chunk, size - at) for at in range(0, size, chunk)] or [0]
    trailer = trailer_of(name, sizes).SerializeToString()
    identity = google_crc32c.value(trailer).to_bytes(16, "big")
    frame = Frame()
    begin = frame.begin
    begin.version, begin.message_type, begin.message_size = 1, name, size
    begin.chunk_count, begin.chunk_bytes, begin.identity, begin.session = len(sizes), size, identity, session
    begin.first_chunk = token.chunks if token.identity == identity else 0
    begin.trailer_size, begin.trailer_crc32c = len(trailer), crc32c(trailer)
    for at in range(0, len(trailer), 512 << 10):
        frame.trailer = trailer[at : at + (512 << 10)]
        yield frame
        frame = Frame()
    whole = sums = 0
    with open(path, "rb") as source:
        for index, size in enumerate(sizes):
            of_chunk = offset = 0
            while offset < size or size == 0:
                content = source.read(min(1000 << 10, size - offset))
                of_chunk, whole = google_crc32c.extend(of_chunk, content), google_crc32c.extend(whole, content)
                data = frame.data.add(chunk=index, offset=offset, content=content)
                offset += len(content)
                if offset == size:
                    data.crc32c = of_chunk
                if index >= begin.first_chunk:
                    yield frame
                frame = Frame()
                if size == 0:
                    break
            sums = google_crc32c.extend(sums, of_chunk.to_bytes(4, "little"))
    frame.end.chunks_crc32c, frame.end.source_crc32c = sums, whole
    yield frame


# The receiver. It keeps the chunks for a sender that resumes, and merges them.


class Refused(Exception):
    def __init__(self, code: grpc.StatusCode, line: str) -> None:
        super().__init__(line)
        self.code = code


def expect(holds: bool, line: str, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT) -> None:
    if not holds:
        raise Refused(code, line)


class Transfer:
    def __init__(self) -> None:
        self.begin: Any = None
        self.chunks: list[bytes] = []

    def token(self) -> Any:
        identity = b"" if self.begin is None else self.begin.identity
        return Token(identity=identity, chunks=len(self.chunks))

    def take(self, first: Any, frames: Iterator[Any]) -> bytes:
        begin = first.begin
        expect(begin.version == 1, f"version {begin.version}", grpc.StatusCode.UNIMPLEMENTED)
        if begin.first_chunk == 0:
            self.chunks = []
        else:
            same = self.begin is not None and self.begin.identity == begin.identity
            expect(same and begin.first_chunk == len(self.chunks), "it resumes another transfer")
        self.begin = begin
        packed, partial, end = bytearray(), bytearray(), None
        trailer: Any = None
        for frame in (one for more in ([first], frames) for one in more):
            expect(end is None, "a frame came after the last")
            packed += frame.trailer
            if trailer is None and len(packed) == begin.trailer_size:
                expect(crc32c(bytes(packed)) == begin.trailer_crc32c, "trailer", grpc.StatusCode.DATA_LOSS)
                trailer = ChunkMetadata.FromString(bytes(packed))
            for data in frame.data:
                expect((data.chunk, data.offset) == (len(self.chunks), len(partial)), "other bytes")
                expect(not data.HasField("zstd_size"), "zstd", grpc.StatusCode.UNIMPLEMENTED)
                partial += data.content
                if data.HasField("crc32c"):
                    expect(len(partial) == trailer.chunks[data.chunk].size, "size")
                    expect(crc32c(bytes(partial)) == data.crc32c, "crc32c", grpc.StatusCode.DATA_LOSS)
                    self.chunks.append(bytes(partial))
                    partial.clear()
            if frame.HasField("end"):
                end = frame.end
        expect(end is not None, "the transfer broke off", grpc.StatusCode.UNAVAILABLE)
        sums = b"".join(crc32c(chunk).to_bytes(4, "little") for chunk in self.chunks)
        expect(crc32c(sums) == end.chunks_crc32c, "chunks", grpc.StatusCode.DATA_LOSS)
        merged = merge(trailer, self.chunks)
        expect(len(merged) == begin.message_size, "the size of the message")
        if trailer.byte_exact or trailer.source_layout:
            expect(crc32c(merged) == end.source_crc32c, "message", grpc.StatusCode.DATA_LOSS)
        return merged


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def to_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


class Field:
    """One occurrence of a field: its encoded tag, and its content, which becomes a `Message` when a path first enters it."""

    def __init__(self, tag: bytes, content: Any) -> None:
        number, _ = varint(tag, 0)
        self.tag, self.number, self.wire, self.content = tag, number >> 3, number & 7, content
        self.filled = False

    def message(self) -> Message:
        if not isinstance(self.content, Message):
            self.content = Message(self.content)
        return self.content

    def write(self, out: list[bytes]) -> int:
        if self.wire != 2:
            out += (self.tag, self.content)
            return len(self.tag) + len(self.content)
        inner: list[bytes] = []
        size = self.content.write(inner) if isinstance(self.content, Message) else len(self.content)
        head = self.tag + to_varint(size)
        out.append(head)
        out += inner or [bytes(self.content)]
        return len(head) + size


def parsed(data: bytes) -> Iterator[Field]:
    at = 0
    while at < len(data):
        begun = at
        number, at = varint(data, at)
        tag = data[begun:at]
        wire = number & 7
        if wire == 0:
            _, end = varint(data, at)
        elif wire == 2:
            size, at = varint(data, at)
            end = at + size
        else:
            end = at + {1: 8, 5: 4}[wire]
        yield Field(tag, data[at:end])
        at = end


class Message:
    """A message that is parsed when a path first enters it. Until then, later parts of its bytes are appended without parsing."""

    def __init__(self, data: bytes) -> None:
        self.pieces = [data]
        self.fields: list[Field] | None = None

    def parse(self) -> list[Field]:
        if self.fields is None:
            self.fields = list(parsed(b"".join(self.pieces)))
        return self.fields

    def of(self, number: int) -> list[Field]:
        return [field for field in self.parse() if field.number == number and field.wire == 2]

    def go_on(self, chunk: bytes) -> None:
        if self.fields is not None:
            out: list[bytes] = []
            self.write(out)
            self.pieces, self.fields = out, None
        self.pieces.append(chunk)

    def insert(self, chunk: bytes, packed: bool) -> None:
        slice_ = list(parsed(chunk))
        fields = self.parse()
        last = max(at for at, field in enumerate(fields) if field.number == slice_[0].number)
        if packed:
            fields[last].content += slice_[0].content
        else:
            fields[last + 1 : last + 1] = slice_

    def write(self, out: list[bytes]) -> int:
        if self.fields is None:
            out += self.pieces
            return sum(map(len, self.pieces))
        return sum(field.write(out) for field in self.fields)


def key_of(entry: Message) -> Any:
    keys = [field for field in entry.parse() if field.number == 1]
    if not keys:
        return 0
    wire, content = keys[-1].wire, keys[-1].content
    return content if wire == 2 else varint(content, 0)[0] if wire == 0 else int.from_bytes(content, "little")


def same_key(entry: Message, key: Any) -> bool:
    found, kind = key_of(entry), key.WhichOneof("type")
    wanted = getattr(key, kind)
    if kind == "s":
        return (found or b"") == wanted.encode()
    return found % 2**64 == int(wanted) % 2**64


def led_to(message: Message, tags: Any) -> Field:
    """Returns the occurrence of a field that a path names: the last one, or the one with the path's index or key."""
    field: Any = None
    for at, tag in enumerate(tags):
        if tag.WhichOneof("kind") != "field":
            continue
        if field is not None:
            message = field.message()
        there = message.of(tag.field)
        select = tags[at + 1].WhichOneof("kind") if at + 1 < len(tags) else None
        if select == "index":
            field = there[tags[at + 1].index]
        elif select == "map_key":
            entry = [one for one in there if same_key(one.message(), tags[at + 1].map_key)][-1]
            field = entry.message().of(2)[-1]
        else:
            field = there[-1]
    return field


def put(around: Message, place: Any, trailer: Any, chunks: list[bytes]) -> None:
    field = led_to(around, place.field_tag) if place.field_tag else None
    inner = place.message
    if inner.HasField("chunk_index"):
        chunk = chunks[inner.chunk_index]
        if trailer.chunks[inner.chunk_index].type != MESSAGE:
            assert field is not None and (field.filled or not field.content)
            field.content, field.filled = field.content + chunk, True
        elif field is not None and not field.filled and not field.content:
            field.content, field.filled = Message(chunk), True
        else:
            message = around if field is None else field.message()
            message.go_on(chunk) if place.tail else message.insert(chunk, place.packed)
    for below in inner.chunked_fields:
        put(around if field is None else field.message(), below, trailer, chunks)


def merge(trailer: Any, chunks: list[bytes]) -> bytes:
    if trailer.source_layout:
        return by_layout(trailer.source_layout, chunks)
    tree = trailer.extended_message if trailer.HasField("extended_message") else trailer.message
    message = Message(chunks[tree.chunk_index])
    for place in tree.chunked_fields:
        put(message, place, trailer, chunks)
    out: list[bytes] = []
    message.write(out)
    return b"".join(out)


def by_layout(layout: bytes, chunks: list[bytes]) -> bytes:
    out, at, taken = [], 0, [0] * len(chunks)
    while at < len(layout):
        chunk, at = varint(layout, at)
        if chunk == 0:
            size, at = varint(layout, at)
            out.append(layout[at : at + size])
            at += size
            continue
        passed, at = varint(layout, at)
        size, at = varint(layout, at)
        begin = taken[chunk - 1] + passed
        taken[chunk - 1] = begin + size
        out.append(chunks[chunk - 1][begin : begin + size])
    return b"".join(out)


# The service and its client.


def peak_of(status: str) -> int:
    """Returns the peak memory of a process, in MiB."""
    line = next(line for line in Path(status).read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) >> 10


class Shelf:
    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = Path(folder), name
        self.transfers: dict[bytes, Transfer] = {}

    def put(self, frames: Any, context: Any) -> Any:
        try:
            first = next(frames)
            transfer = self.transfers.setdefault(first.begin.session, Transfer())
            merged = transfer.take(first, frames)
        except Refused as refused:
            context.abort(refused.code, str(refused))
        del self.transfers[first.begin.session]
        (self.folder / "put.pb").write_bytes(merged)
        return Stored(size=len(merged))

    def resume(self, asked: Any, context: Any) -> Any:
        found = self.transfers.get(asked.session)
        return Token() if found is None else found.token()

    def get(self, wanted: Any, context: Any) -> Iterator[Any]:
        return frames_of(self.folder / wanted.name, self.name, 1 << 20, Token(), b"")


def serve(folder: str, name: str) -> None:
    shelf = Shelf(folder, name)
    handlers = {
        "Put": grpc.stream_unary_rpc_method_handler(shelf.put, Frame.FromString, Stored.SerializeToString),
        "Resume": grpc.unary_unary_rpc_method_handler(shelf.resume, Token.FromString, Token.SerializeToString),
        "Get": grpc.unary_stream_rpc_method_handler(shelf.get, Wanted.FromString, Frame.SerializeToString),
    }
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("shelf.Shelf", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


def send(channel: grpc.Channel, path: Path, name: str, chunk: int) -> Any:
    put = channel.stream_unary("/shelf.Shelf/Put", Frame.SerializeToString, Stored.FromString)
    ask = channel.unary_unary("/shelf.Shelf/Resume", Token.SerializeToString, Token.FromString)
    session, token = os.urandom(16), Token()
    for _ in range(100):
        try:
            return put(frames_of(path, name, chunk, token, session))
        except grpc.RpcError as error:
            broken: Any = error
            if "UNAVAILABLE" not in str(broken.code()) and "RST_STREAM" not in (broken.details() or ""):
                raise
        time.sleep(0.1)
        token = ask(Token(session=session), wait_for_ready=True)
    raise SystemExit("given up")


def main() -> None:
    verb, *arguments = sys.argv[1:]
    if verb == "serve":
        serve(arguments[0], arguments[2])
        return
    with grpc.insecure_channel(arguments[0]) as channel:
        if verb == "send":
            print(send(channel, Path(arguments[1]), arguments[3], int(arguments[4])).size)
        else:
            get = channel.unary_stream("/shelf.Shelf/Get", Wanted.SerializeToString, Frame.FromString)
            frames = get(Wanted(name=arguments[1]))
            merged = Transfer().take(next(frames), frames)
            print(Path(arguments[2]).write_bytes(merged))
    print(peak_of("/proc/self/status"))


if __name__ == "__main__":
    main()
