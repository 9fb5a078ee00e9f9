"""Transfers of messages of any size over gRPC, with grpcio.

A message is sent as a stream of small messages, called frames, so gRPC's size limits and protobuf's
limit of 2 GiB don't apply. The service needs a method that accepts or returns such a stream, as in
``rpc Put(stream proto_splitter.transfer.Frame) returns (...)``.
The client sends with ``send(stub.Put, message)``, and the server receives with
``receive(request_iterator, Type, context=context)``. ``proto_splitter.grpc.aio`` has the same
functions for ``grpc.aio``.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from .._handle import File
from ._transfer import (
    IDLE_TIMEOUT,
    READ_AHEAD,
    Inbox,
    Limits,
    Outgoing,
    Pending,
    Progress,
    Retry,
    detail,
    is_broken,
    sender_of,
    status_of,
    target_check,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)

__all__ = [
    "READ_AHEAD",
    "Arriving",
    "Inbox",
    "Pending",
    "detail",
    "frames",
    "receive",
    "receive_arriving",
    "receive_file",
    "receive_open",
    "send",
]


def frames(
    source: Any,
    message: str | None = None,
    schema: bytes | None = None,
    *,
    token: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Iterator[Any]:
    """Returns the frames of a message of any size, for a server's response or a custom call.

    Args:
        source: A protobuf message, a :class:`proto_splitter.File`, a path, bytes, or an object with
            ``read`` and ``seek``. A chunked file is merged while it is sent.
        message: The full name of the message's type, unless the source is a message or a ``File``.
        schema: A serialized ``FileDescriptorSet`` with the type, unless the type is built in.
        token: The ``ResumeToken`` of a receiver that already has a part of the message. By default,
            all frames are returned.
        progress: Called with the bytes done and the total.
        options: ``max_chunk_size``, ``max_frame_size``, ``compression_level`` and ``session``, as
            for :func:`send`.
    """
    make = sender_of(source, message, schema, **options)
    return _iterate(Outgoing(make(token), progress))


def _iterate(outgoing: Outgoing) -> Iterator[Any]:
    while (frame := outgoing.next()) is not None:
        yield frame


def send(
    call: Callable[..., Any],
    source: Any,
    message: str | None = None,
    schema: bytes | None = None,
    *,
    resume: Callable[[Any], Any] | None = None,
    attempts: int = 5,
    pause: float = 0.1,
    progress: Progress | None = None,
    max_chunk_size: int | None = None,
    max_frame_size: int | None = None,
    compression_level: int | None = None,
    session: bytes = b"",
    **call_options: Any,
) -> Any:
    """Sends a message of any size by calling a stub's method, and returns the call's response.

    Args:
        call: A method of a stub that accepts a stream of frames, such as ``stub.Put``.
        source: The message. ``source``, ``message`` and ``schema`` are as for :func:`frames`.
        resume: A method of the stub that accepts a ``ResumeToken`` with a session, and returns the
            receiver's token. If given, a transfer whose connection breaks is resumed.
        attempts: Maximum number of consecutive attempts in which no new chunk arrives.
        pause: Pause before the second attempt, in seconds. Each further pause is twice as long.
        progress: Called with the bytes done and the total.
        max_chunk_size: Maximum size of each chunk, in bytes; 32 MiB unless given.
        max_frame_size: Maximum size of each frame, in bytes; 1 MiB unless given.
        compression_level: Level of zstd compression; by default, nothing is compressed. Pieces that
            hardly shrink are sent uncompressed.
        session: The name under which the receiver keeps the received chunks. With ``resume``, the
            default is a random name.
        call_options: Options of the call, such as grpcio's ``timeout`` and ``metadata``.

    Raises:
        grpc.RpcError: If the call fails.
        Error: If the source isn't a message of this type, or reading it fails.
    """
    if resume is not None and not session:
        session = os.urandom(16)
    make = sender_of(
        source,
        message,
        schema,
        max_chunk_size=max_chunk_size,
        max_frame_size=max_frame_size,
        compression_level=compression_level,
        session=session,
    )
    retry, token = Retry(attempts, pause), None
    while True:
        outgoing = Outgoing(make(token), progress)
        try:
            return call(_iterate(outgoing), **call_options)
        except grpc.RpcError as error:
            if outgoing.error is not None:
                raise outgoing.error from error
            if resume is None or not is_broken(error):
                raise
            token = _ask(resume, session, retry, error)


def _ask(resume: Callable[[Any], Any], session: bytes, retry: Retry, broken: Exception) -> Any:
    """Asks the receiver for its token until it answers. Raises ``broken`` if no attempt is left."""
    from ..transfer import transfer_pb2

    while True:
        pause = retry.pause()
        if pause is None:
            raise broken
        time.sleep(pause)
        try:
            token = resume(transfer_pb2.ResumeToken(session=session))
        except grpc.RpcError as error:
            if not is_broken(error):
                raise
            continue
        retry.arrived(token.chunks)
        return token


def receive(
    frames: Iterable[Any],
    message_class: type[M],
    *,
    context: Any = None,
    pending: Pending | None = None,
    inbox: Inbox | None = None,
    max_message_size: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    idle_timeout: float | None = IDLE_TIMEOUT,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> M:
    """Receives a protobuf message of any size.

    Args:
        frames: The frames: the ``request_iterator`` of a servicer's method, or the response of a
            call.
        message_class: The class of the message. Messages of other types are rejected.
        context: The servicer's context. If given, an error ends the call with a status that has the
            error's message and details; otherwise, the error is raised.
        pending: An interrupted transfer to continue.
        inbox: An inbox that keeps interrupted transfers, so that a sender can resume its session.
        max_message_size: Maximum size of the message, in bytes; 64 GiB unless given.
        folder: The folder for a temporary file with received chunks; by default, the system's
            folder for temporary files.
        idle_timeout: Maximum time between two frames, in seconds; ``None`` for no limit.
        timeout: Maximum time for the whole transfer, in seconds; ``None`` for no limit.
        progress: Called with the bytes received and the total.

    Raises:
        FormatError: If frames contradict each other, or the message isn't of this class.
        ChecksumError: If the data was changed during the transfer.
        LimitError: If the message is too large.
        TimeoutError: If frames don't arrive in time.
        OSError: If the frames end before the message is complete.
    """

    def make() -> Pending:
        name = message_class.DESCRIPTOR.full_name
        return Pending(message_type=name, max_message_size=max_message_size, folder=folder)

    def take(pending: Pending) -> M:
        return pending.message(message_class)

    return _received(frames, make, take, context, pending, inbox, idle_timeout, timeout, progress)


def receive_file(
    frames: Iterable[Any],
    target: str | os.PathLike[str],
    *,
    message_type: str | None = None,
    force: bool = False,
    context: Any = None,
    pending: Pending | None = None,
    inbox: Inbox | None = None,
    max_message_size: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    idle_timeout: float | None = IDLE_TIMEOUT,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> int:
    """Receives a message, writes it to a file, and returns its size in bytes.

    The file appears complete or not at all.

    Args:
        target: The path of the file.
        message_type: The full name of the only accepted message type; by default, all are accepted.
        force: Overwrites an existing file.

    The other arguments and the exceptions are the same as in :func:`receive`. An existing file or a
    missing folder is reported before anything is received.
    """

    def make() -> Pending:
        return Pending(message_type=message_type, max_message_size=max_message_size, folder=folder)

    def take(pending: Pending) -> int:
        return pending.file(target, force, message_type)

    check = target_check(target, force)
    return _received(
        frames, make, take, context, pending, inbox, idle_timeout, timeout, progress, check
    )


def receive_open(
    frames: Iterable[Any],
    message: str | None = None,
    schema: bytes | None = None,
    *,
    context: Any = None,
    pending: Pending | None = None,
    inbox: Inbox | None = None,
    max_message_size: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    idle_timeout: float | None = IDLE_TIMEOUT,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> File:
    """Receives a message, and returns it as an open file, whose parts are read on demand.

    Accepts the arguments of :func:`receive`, but the message's type is given by ``message`` and
    ``schema``, as for :func:`proto_splitter.open`.
    """

    def make() -> Pending:
        return Pending(message_type=message, max_message_size=max_message_size, folder=folder)

    def take(pending: Pending) -> File:
        return pending.open(message, schema)

    return _received(frames, make, take, context, pending, inbox, idle_timeout, timeout, progress)


class Arriving:
    """A message that can be read while it arrives; returned by :func:`receive_arriving`.

    Each chunk is compared with its checksum before it can be read. Use the object in a ``with``
    statement, or call :meth:`close`, which ends the transfer.
    """

    def __init__(
        self,
        frames: Iterable[Any],
        pending: Pending,
        opening: Callable[[], File | None],
        drive: Callable[[Callable[[], None]], Pending],
        whole: Callable[[Pending], File],
        context: Any,
    ) -> None:
        self._frames, self._pending, self._context = frames, pending, context
        self._whole = whole
        self._file: File | None = None
        self._error: BaseException | None = None
        self._opened, self._ended = threading.Event(), threading.Event()

        def look() -> None:
            if self._file is None:
                self._file = opening()
                if self._file is not None:
                    self._opened.set()

        def run() -> None:
            try:
                drive(look)
            except BaseException as error:
                self._error = error
            finally:
                self._ended.set()
                self._opened.set()

        threading.Thread(target=run, name="proto-splitter-arriving", daemon=True).start()
        self._opened.wait()
        if self._file is None:
            self._raise()

    def __enter__(self) -> Arriving:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def file(self) -> File:
        """The message, as an open file. Reading a part that hasn't arrived yet waits for it."""
        if self._file is None:
            raise ValueError("I/O operation on closed file")
        return self._file

    @property
    def chunks(self) -> tuple[int, int]:
        """The number of chunks that have arrived completely, and the total number of chunks."""
        return self._pending.chunks

    def complete(self) -> File:
        """Waits for the end of the transfer, and returns the whole message after verifying it.

        Raises the same exceptions as :func:`receive`.
        """
        self._ended.wait()
        self._raise()
        return _told(lambda: self._whole(self._pending), self._frames, self._context)

    def close(self) -> None:
        """Closes the file, and ends the transfer if it is still running."""
        if not self._ended.is_set():
            # Beginning another transfer makes the next push of a frame fail.
            self._pending.begin()
            if hasattr(self._frames, "cancel"):
                self._frames.cancel()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _raise(self) -> None:
        error = self._error
        if error is not None:

            def again() -> None:
                raise error

            _told(again, self._frames, self._context)


def receive_arriving(
    frames: Iterable[Any],
    message: str | None = None,
    schema: bytes | None = None,
    *,
    context: Any = None,
    pending: Pending | None = None,
    max_message_size: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    idle_timeout: float | None = IDLE_TIMEOUT,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Arriving:
    """Begins to receive a message, and returns an object from which it can be read as it arrives.

    Returns as soon as the message's trailer, which describes its chunks, has arrived. Accepts the
    arguments of :func:`receive_open`, except ``inbox``.
    """
    kept = pending or Pending(
        message_type=message, max_message_size=max_message_size, folder=folder
    )

    def drive(look: Callable[[], None]) -> Pending:
        return _drive(frames, lambda: kept, kept, None, idle_timeout, timeout, progress, look)

    return Arriving(
        frames,
        kept,
        lambda: kept.arriving(message, schema),
        drive,
        lambda one: one.open(message, schema),
        context,
    )


T = TypeVar("T")


def _received(
    frames: Iterable[Any],
    make: Callable[[], Pending],
    take: Callable[[Pending], T],
    context: Any,
    pending: Pending | None,
    inbox: Inbox | None,
    idle_timeout: float | None,
    timeout: float | None,
    progress: Progress | None,
    check: Callable[[], None] | None = None,
) -> T:
    """Calls ``check``, receives a message, and calls ``take`` with the transfer."""

    def step() -> T:
        if check is not None:
            check()
        return take(_drive(frames, make, pending, inbox, idle_timeout, timeout, progress))

    return _told(step, frames, context)


def _told(step: Callable[[], T], frames: Any, context: Any) -> T:
    """Calls ``step``. If it fails, stops requesting frames, and ends the call with a status."""
    try:
        return step()
    except Exception as error:
        if hasattr(frames, "cancel"):
            frames.cancel()
        status = None if context is None else status_of(error)
        if status is None:
            raise
        code, line, metadata = status
        context.set_trailing_metadata(metadata)
        context.abort(code, line)
        raise


def _drive(
    frames: Iterable[Any],
    make: Callable[[], Pending],
    pending: Pending | None,
    inbox: Inbox | None,
    idle_timeout: float | None,
    timeout: float | None,
    progress: Progress | None,
    look: Callable[[], None] | None = None,
) -> Pending:
    """Pushes all frames to the pending transfer, and calls ``look`` after each frame."""
    session, turn = b"", 0
    try:
        for frame in _pulled(frames, idle_timeout, timeout):
            if turn == 0:
                if pending is None and inbox is not None:
                    session = frame.begin.session
                if pending is None:
                    pending = inbox.of(session, make) if inbox and session else make()
                turn = pending.begin()
            assert pending is not None
            pending.push(turn, frame, progress)
            if look is not None:
                look()
        if pending is None:
            pending = make()
        pending.end(turn or pending.begin())
    except BaseException:
        if pending is not None:
            pending.break_off(turn)
        raise
    if inbox is not None and session:
        inbox.remove(session)
    return pending


def _pulled(
    frames: Iterable[Any], idle_timeout: float | None, timeout: float | None
) -> Iterator[Any]:
    """Yields the frames. Another thread requests them, so that waiting for one can time out."""
    if idle_timeout is None and timeout is None:
        yield from frames
        return
    limits = Limits(idle_timeout, timeout)
    items: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=2)
    stopped = threading.Event()

    def put(item: tuple[Any, BaseException | None]) -> bool:
        while not stopped.is_set():
            try:
                items.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def pull() -> None:
        try:
            for frame in frames:
                if not put((frame, None)):
                    return
            put((None, None))
        except BaseException as error:
            put((None, error))

    threading.Thread(target=pull, name="proto-splitter-frames", daemon=True).start()
    try:
        while True:
            wait, late = limits.wait()
            try:
                frame, error = items.get(timeout=wait)
            except queue.Empty:
                raise late from None
            if error is not None:
                raise error
            limits.check()
            if frame is None:
                return
            yield frame
    finally:
        stopped.set()
