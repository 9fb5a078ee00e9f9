"""Tests for messages over gRPC, with both kinds of servers and clients, and with lying peers."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import proto_splitter as ps
import pytest
from conftest import Tree
from google.protobuf.descriptor_pb2 import FileDescriptorProto

grpc = pytest.importorskip("grpc")

import proto_splitter.grpc as psg  # noqa: E402
from proto_splitter.grpc import aio  # noqa: E402
from proto_splitter.transfer import transfer_pb2  # noqa: E402

FRAME, TOKEN = transfer_pb2.Frame, transfer_pb2.ResumeToken


def large(size: int = 12_000_000) -> Any:
    """Returns a message over gRPC's own limit, which is sent in several chunks."""
    tree = Tree(name="large")
    for number in range(12):
        tree.children.add(name=str(number), data=bytes([number]) * (size // 12))
    return tree


class Service:
    """A service that returns its input, and records it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inbox = psg.Inbox()
        self.seen: list[Any] = []
        self.metadata: dict[str, Any] = {}
        #: Timeout for a peer that stalls, in seconds.
        self.idle = 60.0

    def put(self, frames: Any, context: Any) -> Any:
        self.metadata = dict(context.invocation_metadata())
        message = psg.receive(frames, Tree, context=context, inbox=self.inbox, idle_timeout=self.idle)
        self.seen.append(message)
        return TOKEN(chunks=len(self.seen))

    def file(self, frames: Any, context: Any) -> Any:
        path = self.folder / "message.pb"
        psg.receive_file(frames, path, context=context, folder=self.folder, idle_timeout=self.idle)
        return TOKEN()

    def resume(self, asked: Any, context: Any) -> Any:
        return self.inbox.token(asked)

    def get(self, asked: Any, context: Any) -> Any:
        return psg.frames(self.seen[-1], token=asked, max_chunk_size=1 << 20)

    def echo(self, frames: Any, context: Any) -> Any:
        yield from frames

    def part(self, frames: Any, context: Any) -> Any:
        """Reads one value while the message arrives, and then the whole message."""
        name, schema = ps.schema_of(Tree)
        with psg.receive_arriving(
            frames, name, schema, context=context, idle_timeout=self.idle
        ) as arriving:
            first = arriving.file.get("children[0].name")
            with arriving.complete() as whole:
                self.seen.append((first, whole.get("children[11].name")))
        return TOKEN()

    def handler(self) -> Any:
        frame, token = FRAME.FromString, TOKEN.SerializeToString
        methods = {
            "Put": grpc.stream_unary_rpc_method_handler(self.put, frame, token),
            "File": grpc.stream_unary_rpc_method_handler(self.file, frame, token),
            "Part": grpc.stream_unary_rpc_method_handler(self.part, frame, token),
            "Echo": grpc.stream_stream_rpc_method_handler(
                self.echo, frame, FRAME.SerializeToString
            ),
            "Resume": grpc.unary_unary_rpc_method_handler(self.resume, TOKEN.FromString, token),
            "Get": grpc.unary_stream_rpc_method_handler(
                self.get, TOKEN.FromString, FRAME.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler("test.Trees", methods)


class Stub:
    def __init__(self, channel: Any) -> None:
        frame, token = FRAME.SerializeToString, TOKEN.FromString
        self.Put = channel.stream_unary("/test.Trees/Put", frame, token)
        self.File = channel.stream_unary("/test.Trees/File", frame, token)
        self.Part = channel.stream_unary("/test.Trees/Part", frame, token)
        self.Echo = channel.stream_stream("/test.Trees/Echo", frame, FRAME.FromString)
        self.Resume = channel.unary_unary("/test.Trees/Resume", TOKEN.SerializeToString, token)
        self.Get = channel.unary_stream(
            "/test.Trees/Get", TOKEN.SerializeToString, FRAME.FromString
        )


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[Service, str]]:
    service = Service(tmp_path)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([service.handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield service, f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def stub(service: tuple[Service, str]) -> Iterator[Stub]:
    with grpc.insecure_channel(service[1]) as channel:
        yield Stub(channel)


def test_messages_of_all_sizes_go_both_ways(
    service: tuple[Service, str], stub: Stub, tree: Any
) -> None:
    for message in (Tree(), tree, large()):
        told: list[tuple[int, int]] = []
        psg.send(stub.Put, message, timeout=60, progress=lambda *now: told.append(now))
        assert service[0].seen[-1] == message
        assert told[-1][0] == told[-1][1]
        assert psg.receive(stub.Get(TOKEN()), Tree) == message


def test_a_file_is_sent_and_received_as_a_file(
    service: tuple[Service, str], stub: Stub, tmp_path: Path
) -> None:
    data = large().SerializeToString()
    source = tmp_path / "source"
    source.write_bytes(data)
    name, schema = ps.schema_of(Tree)
    psg.send(stub.File, source, name, schema, compression_level=1)
    assert (tmp_path / "message.pb").read_bytes() == data
    with pytest.raises(grpc.RpcError) as raised:
        psg.send(stub.File, source, name, schema)
    assert raised.value.code() == grpc.StatusCode.ALREADY_EXISTS


def test_an_open_file_reads_parts(service: tuple[Service, str], stub: Stub) -> None:
    service[0].seen.append(large())
    with psg.receive_open(stub.Get(TOKEN()), *ps.schema_of(Tree)) as file:
        assert file.get("children[7].name") == "7"


def test_what_came_of_a_response_is_not_sent_again(
    service: tuple[Service, str], stub: Stub
) -> None:
    service[0].seen.append(large())
    pending = psg.Pending()
    frames = list(stub.Get(TOKEN()))
    with pytest.raises(OSError, match="broke off in chunk"):
        psg.receive(frames[:6], Tree, pending=pending)
    there = pending.chunks[0]
    assert there > 1
    rest = list(stub.Get(pending.token))
    assert len(rest) < len(frames)
    assert psg.receive(rest, Tree, pending=pending) == large()


def test_the_progress_of_a_receiver_counts_all_bytes() -> None:
    told: list[tuple[int, int]] = []
    sent = frames()
    total = sent[0].begin.chunk_bytes

    def tell(done: int, whole: int) -> None:
        told.append((done, whole))

    assert psg.receive(sent, Tree, progress=tell) == large()
    assert {whole for _, whole in told} == {total}
    assert told[0][0] < told[1][0] < total and told[-1][0] == total

    # A resumed transfer continues with the bytes that were kept.
    pending = psg.Pending()
    with pytest.raises(OSError, match="broke off in chunk"):
        psg.receive(sent[:6], Tree, pending=pending)
    assert pending.chunks[0] > 1
    rest = psg.frames(large(), token=pending.token, max_chunk_size=1 << 20)
    told.clear()
    assert psg.receive(rest, Tree, pending=pending, progress=tell) == large()
    assert told[0][0] > 1 << 20 and told[-1] == (total, total)


def test_the_progress_of_a_resumed_transfer_ends_at_its_total() -> None:
    # All chunks are in one frame, in which the last one is damaged.
    whole, most = large(120_000), 20_000
    (frame,) = psg.frames(whole, max_chunk_size=most)
    total = frame.begin.chunk_bytes
    frame.data[-1].offset += 1
    pending = psg.Pending()
    with pytest.raises(ps.FormatError):
        psg.receive([frame], Tree, pending=pending)
    assert pending.chunks[0] > 1

    sent: list[tuple[int, int]] = []
    received: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        received.append((done, total))

    rest = psg.frames(
        whole,
        token=pending.token,
        max_chunk_size=most,
        progress=lambda *now: sent.append(now),
    )
    assert psg.receive(rest, Tree, pending=pending, progress=tell) == whole
    assert sent == received
    assert sent[-1] == (total, total)


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_received(
    tmp_path: Path,
) -> None:
    there, missing = tmp_path / "there.pb", tmp_path / "missing" / "message.pb"
    there.write_bytes(b"kept")
    whole, taken = Tree(name="x"), []

    def sent() -> Iterator[Any]:
        for frame in psg.frames(whole):
            taken.append(frame)
            yield frame

    async def arriving() -> Any:
        for frame in sent():
            yield frame

    pending = psg.Pending()
    for target, kind in [(there, FileExistsError), (missing, FileNotFoundError)]:
        with pytest.raises(kind):
            psg.receive_file(sent(), target, pending=pending)
        with pytest.raises(kind):
            asyncio.run(aio.receive_file(arriving(), target, pending=pending))
    assert not taken and there.read_bytes() == b"kept"
    assert [path.name for path in tmp_path.iterdir()] == ["there.pb"]
    size = whole.ByteSize()
    assert psg.receive_file(sent(), there, force=True, pending=pending) == size
    assert asyncio.run(aio.receive_file(arriving(), there, force=True)) == size


def test_a_message_of_another_type_is_refused_even_if_its_transfer_was_kept(
    tmp_path: Path,
) -> None:
    # These bytes are a message of both types.
    sent, name = list(psg.frames(Tree(name="x"))), "google.protobuf.FileDescriptorProto"
    refused = pytest.raises(ps.FormatError, match=f'has type "test.Tree", but {name} is expected')
    with refused:
        psg.receive(sent, FileDescriptorProto, pending=psg.Pending())
    with refused:
        psg.receive_open(sent, name, pending=psg.Pending())
    with refused:
        psg.receive_arriving(sent, name, pending=psg.Pending())
    path = tmp_path / "message.pb"
    with refused:
        psg.receive_file(sent, path, message_type=name, pending=psg.Pending())
    assert not path.exists()

    async def again() -> Any:
        for frame in sent:
            yield frame

    with refused:
        asyncio.run(aio.receive(again(), FileDescriptorProto, pending=psg.Pending()))
    with refused:
        asyncio.run(aio.receive_file(again(), path, message_type=name, pending=psg.Pending()))
    assert not path.exists()

    # A session that a method for one type has begun is continued at a method for another type.
    inbox, most = psg.Inbox(), 1 << 20
    whole = Tree(name="x")
    whole.by_key["x"].data = bytes(3 * most)
    kept = list(psg.frames(whole, session=b"one", max_chunk_size=most))
    with pytest.raises(OSError, match="broke off in chunk"):
        psg.receive(kept[:2], Tree, inbox=inbox)
    rest = psg.frames(
        whole, token=inbox.token(TOKEN(session=b"one")), session=b"one", max_chunk_size=most
    )
    with refused:
        psg.receive(rest, FileDescriptorProto, inbox=inbox)


class Cutter:
    """A proxy that forwards connections, and cuts the first ones after a number of bytes."""

    def __init__(self, to: str, after: list[float]) -> None:
        self._to, self._after = to.split(":"), after
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Cutter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            host, port = self._to
            far = socket.create_connection((host, int(port)))
            budget = self._after.pop(0) if self._after else float("inf")
            for ends in ((near, far, budget), (far, near, float("inf"))):
                threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, near: socket.socket, far: socket.socket, budget: float) -> None:
        try:
            while data := near.recv(1 << 16):
                budget -= len(data)
                if budget < 0:
                    self.cuts += 1
                    break
                far.sendall(data)
        except OSError:
            pass
        for one in (near, far):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_a_connection_that_is_cut_resumes(service: tuple[Service, str]) -> None:
    with Cutter(service[1], [3_000_000, 2_500_000, 2_700_000]) as cutter:
        with grpc.insecure_channel(cutter.address) as channel:
            stub = Stub(channel)
            psg.send(stub.Put, large(), resume=stub.Resume, max_chunk_size=1 << 20, attempts=20)
    assert cutter.cuts == 3
    assert service[0].seen == [large()]


def test_a_connection_of_aio_that_is_cut_resumes(service: tuple[Service, str]) -> None:
    async def run(address: str) -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = Stub(channel)
            await aio.send(
                stub.Put, large(), resume=stub.Resume, max_chunk_size=1 << 20, attempts=20
            )

    with Cutter(service[1], [3_000_000, 2_500_000]) as cutter:
        asyncio.run(run(cutter.address))
    assert cutter.cuts == 2
    assert service[0].seen == [large()]


def test_a_message_comes_back_while_it_is_sent(stub: Stub) -> None:
    assert psg.receive(stub.Echo(psg.frames(large())), Tree) == large()


def test_what_is_in_chunks_is_sent_as_the_message_that_it_merges_to(
    service: tuple[Service, str], stub: Stub, tmp_path: Path
) -> None:
    path = ps.split(large(), tmp_path / "tree", max_chunk_size=1 << 20).path
    name, schema = ps.schema_of(Tree)
    psg.send(stub.Put, path, name, schema)
    with ps.open(path, name, schema) as file:
        psg.send(stub.Put, file)
    plain = tmp_path / "tree.pb"
    plain.write_bytes(large().SerializeToString())
    with ps.open(plain, name, schema) as file:
        psg.send(stub.Put, file)
    assert service[0].seen == [large()] * 3


def test_metadata_interceptors_deadlines_and_progress_are_grpcs_own(
    service: tuple[Service, str], tree: Any
) -> None:
    interceptor: Any = grpc.StreamUnaryClientInterceptor

    class Adding(interceptor):  # type: ignore[misc]
        def intercept_stream_unary(self, go_on: Any, details: Any, frames: Any) -> Any:
            metadata = [*(details.metadata or ()), ("who", "me")]
            return go_on(details._replace(metadata=metadata), frames)

    with grpc.insecure_channel(service[1]) as channel:
        stub = Stub(grpc.intercept_channel(channel, Adding()))
        psg.send(stub.Put, tree, metadata=(("why", "a test"),))
        assert service[0].metadata["who"] == "me"
        assert service[0].metadata["why"] == "a test"

        with pytest.raises(grpc.RpcError) as raised:
            psg.send(stub.Put, large(), timeout=0.2, progress=lambda *_: time.sleep(0.1))
        assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED

        def enough(done: int, total: int) -> None:
            if done > 5_000_000:
                raise InterruptedError("enough")

        with pytest.raises(InterruptedError, match="enough"):
            psg.send(stub.Put, large(), progress=enough)
    assert service[0].seen == [tree]


def frames() -> list[Any]:
    return list(psg.frames(large(), max_chunk_size=1 << 20))


def _other_type(sent: list[Any]) -> None:
    sent[0].begin.message_type = "test.Other"


def _too_large(sent: list[Any]) -> None:
    sent[0].begin.message_size = 1 << 50


def _twice(sent: list[Any]) -> None:
    sent.insert(3, sent[3])


def _other_bytes(sent: list[Any]) -> None:
    piece = sent[2].data[0]
    piece.content = bytes(len(piece.content))


def _other_message(sent: list[Any]) -> None:
    sent[-1].end.source_crc32c ^= 1


def _cut_off(sent: list[Any]) -> None:
    del sent[5:]


@pytest.mark.parametrize(
    ("lie", "code", "line"),
    [
        (_other_type, "INVALID_ARGUMENT", "but test.Tree is expected"),
        (_too_large, "RESOURCE_EXHAUSTED", "bytes, but at most"),
        (_twice, "INVALID_ARGUMENT", "was expected"),
        (_other_bytes, "DATA_LOSS", "crc32c"),
        (_other_message, "DATA_LOSS", "crc32c"),
        (_cut_off, "UNAVAILABLE", "broke off in chunk"),
    ],
)
def test_each_lie_ends_in_a_status_with_a_clear_line(
    service: tuple[Service, str],
    stub: Stub,
    lie: Callable[[list[Any]], None],
    code: str,
    line: str,
) -> None:
    sent = frames()
    lie(sent)
    with pytest.raises(grpc.RpcError) as raised:
        stub.Put(iter(sent))
    assert raised.value.code() == grpc.StatusCode[code]
    assert line in raised.value.details()
    detail = psg.detail(raised.value)
    assert detail.kind
    if lie is _other_bytes:
        assert detail.HasField("chunk") and detail.HasField("offset")
    assert service[0].seen == []


def gated(gate: threading.Event, sent: list[Any]) -> Iterator[Any]:
    """Yields half of the frames, and the other half once the gate is open."""
    yield from sent[: len(sent) // 2]
    assert gate.wait(30)
    yield from sent[len(sent) // 2 :]


def test_a_message_is_read_while_the_rest_comes() -> None:
    gate, schema = threading.Event(), ps.schema_of(Tree)
    with psg.receive_arriving(gated(gate, frames()), *schema) as arriving:
        assert arriving.file.get("children[0].name") == "0"
        came, all_ = arriving.chunks
        assert 0 < came < all_
        with futures.ThreadPoolExecutor() as pool:
            last = pool.submit(arriving.file.get, "children[11].data")
            with pytest.raises(futures.TimeoutError):
                last.result(timeout=0.2)
            gate.set()
            assert bytes(last.result()) == large().children[11].data
        with arriving.complete() as whole:
            assert whole.get("children[11].name") == "11"


def test_a_message_that_is_read_meanwhile_ends_with_what_is_wrong(
    service: tuple[Service, str], stub: Stub
) -> None:
    stub.Part(iter(frames()))
    assert service[0].seen == [("0", "11")]
    sent = frames()
    _other_bytes(sent[len(sent) - 4 :])
    with pytest.raises(grpc.RpcError) as raised:
        stub.Part(iter(sent))
    assert raised.value.code() == grpc.StatusCode.DATA_LOSS

    # A waiting reader is told that no more frames arrive.
    gate, schema = threading.Event(), ps.schema_of(Tree)
    with psg.receive_arriving(gated(gate, frames()), *schema) as arriving:
        file = arriving.file
        with futures.ThreadPoolExecutor() as pool:
            last = pool.submit(file.get, "children[11].data")
            arriving._pending.begin()
            with pytest.raises(OSError, match="broke off"):
                last.result()
    gate.set()


def test_a_peer_that_stalls_is_waited_for_no_longer_than_allowed(
    service: tuple[Service, str], stub: Stub
) -> None:
    ended = threading.Event()
    service[0].idle = 0.5

    def stalling() -> Iterator[Any]:
        yield from frames()[:4]
        ended.wait(30)

    try:
        with pytest.raises(grpc.RpcError) as raised:
            stub.Put(stalling())
    finally:
        ended.set()
    assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert raised.value.details() == "no frame came for 0.5 s"


@pytest.mark.parametrize("idle", [None, 60.0])
def test_a_transfer_that_stalls_ends_when_its_whole_time_is_over(idle: float | None) -> None:
    ended = threading.Event()

    def stalling() -> Iterator[Any]:
        yield from frames()[:4]
        ended.wait(30)

    try:
        with pytest.raises(TimeoutError, match="the transfer took longer than 0.2 s"):
            psg.receive(stalling(), Tree, idle_timeout=idle, timeout=0.2)
    finally:
        ended.set()


@pytest.mark.parametrize("idle", [None, 60.0])
def test_a_transfer_of_aio_that_stalls_ends_when_its_whole_time_is_over(
    idle: float | None,
) -> None:
    async def stalling() -> Any:
        for frame in frames()[:4]:
            yield frame
        await asyncio.sleep(30)

    with pytest.raises(TimeoutError, match="the transfer took longer than 0.2 s"):
        asyncio.run(aio.receive(stalling(), Tree, idle_timeout=idle, timeout=0.2))


def test_a_transfer_of_aio_ends_if_its_message_is_no_longer_waited_for() -> None:
    async def run() -> None:
        ended = asyncio.Event()

        async def stalling() -> Any:
            try:
                await asyncio.sleep(30)
                yield FRAME()
            finally:
                ended.set()

        opening = aio.receive_arriving(stalling(), *ps.schema_of(Tree), idle_timeout=None)
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await asyncio.wait_for(opening, 0.1)
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(run())


def test_a_timeout_of_asyncio_has_a_status_if_it_is_not_the_built_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OtherError(Exception):
        pass

    async def wait_for(frame: Any, timeout: float | None) -> Any:
        await frame
        raise OtherError

    async def none() -> Any:
        for frame in frames()[:0]:
            yield frame

    monkeypatch.setattr(asyncio, "TimeoutError", OtherError)
    monkeypatch.setattr(asyncio, "wait_for", wait_for)
    with pytest.raises(TimeoutError, match="no frame came for 60.0 s") as raised:
        asyncio.run(aio.receive(none(), Tree))
    code = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    assert getattr(raised.value, "grpc_code") == code


def test_an_error_of_the_source_is_raised_by_send(stub: Stub, tmp_path: Path) -> None:
    name, schema = ps.schema_of(Tree)
    with pytest.raises(FileNotFoundError):
        psg.send(stub.Put, tmp_path / "missing", name, schema)

    class Failing:
        def seek(self, *to: int) -> int:
            return 10_000_000

        def read(self, size: int) -> bytes:
            raise PermissionError("no")

    with pytest.raises(PermissionError):
        psg.send(stub.Put, Failing(), name, schema)


def test_aio_sends_and_receives(tmp_path: Path, tree: Any) -> None:
    idle = 60.0

    async def put(frames: Any, context: Any) -> Any:
        message = await aio.receive(frames, Tree, context=context, idle_timeout=idle)
        return TOKEN(chunks=len(message.children))

    async def get(asked: Any, context: Any) -> Any:
        async for frame in aio.frames(large()):
            yield frame

    async def run() -> None:
        nonlocal idle
        server = grpc.aio.server()
        methods = {
            "Put": grpc.stream_unary_rpc_method_handler(
                put, FRAME.FromString, TOKEN.SerializeToString
            ),
            "Get": grpc.unary_stream_rpc_method_handler(
                get, TOKEN.FromString, FRAME.SerializeToString
            ),
        }
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("test.Trees", methods)]
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = Stub(channel)
            assert (await aio.send(stub.Put, large())).chunks == 12
            assert (await aio.send(stub.Put, tree)).chunks == len(tree.children)
            assert await aio.receive(stub.Get(TOKEN()), Tree) == large()
            arriving = await aio.receive_arriving(stub.Get(TOKEN()), *ps.schema_of(Tree))
            async with arriving:
                first = await asyncio.to_thread(arriving.file.get, "children[0].name")
                with await arriving.complete() as whole:
                    assert (first, whole.get("children[11].name")) == ("0", "11")
            path = tmp_path / "message.pb"
            assert await aio.receive_file(stub.Get(TOKEN()), path) == large().ByteSize()

            idle = 0.5

            async def stalling() -> Any:
                for frame in frames()[:4]:
                    yield frame
                await asyncio.sleep(30)

            with pytest.raises(grpc.RpcError) as raised:
                await stub.Put(stalling())
            assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await server.stop(None)

    asyncio.run(run())
