"""Transfers of messages of any size over ``grpc.aio``, like :mod:`proto_splitter.grpc`.

The client sends with ``await send(stub.Put, message)``, and the server receives with
``await receive(frames, Type)``. Reading, merging and writing run on other threads, so they don't
block the event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from .._handle import File
from ..transfer import transfer_pb2
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

T = TypeVar("T")

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


async def frames(
    source: Any,
    message: str | None = None,
    schema: bytes | None = None,
    *,
    token: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> AsyncIterator[Any]:
    """Yields the frames of a message of any size, like :func:`proto_splitter.grpc.frames`."""
    make = sender_of(source, message, schema, **options)
    outgoing = Outgoing(await asyncio.to_thread(make, token), progress)
    async for frame in _iterate(outgoing):
        yield frame


async def _iterate(outgoing: Outgoing) -> AsyncIterator[Any]:
    while (frame := await asyncio.to_thread(outgoing.next)) is not None:
        yield frame


async def send(
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
    """Sends a message and returns the response, like :func:`proto_splitter.grpc.send`."""
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
        outgoing = Outgoing(await asyncio.to_thread(make, token), progress)
        try:
            return await call(_iterate(outgoing), **call_options)
        except (grpc.RpcError, asyncio.CancelledError) as error:
            # An exception from the source cancels the call.
            if outgoing.error is not None:
                raise outgoing.error from error
            if isinstance(error, asyncio.CancelledError) or resume is None:
                raise
            if not is_broken(error):
                raise
            token = await _ask(resume, session, retry, error)


async def _ask(
    resume: Callable[[Any], Any], session: bytes, retry: Retry, broken: BaseException
) -> Any:
    while True:
        pause = retry.pause()
        if pause is None:
            raise broken
        await asyncio.sleep(pause)
        try:
            token = await resume(transfer_pb2.ResumeToken(session=session))
        except grpc.RpcError as error:
            if not is_broken(error):
                raise
            continue
        retry.arrived(token.chunks)
        return token


async def receive(
    frames: AsyncIterable[Any],
    message_class: type[M],
    *,
    max_message_size: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> M:
    """Receives a message of any size, like :func:`proto_splitter.grpc.receive`."""

    def make() -> Pending:
        name = message_class.DESCRIPTOR.full_name
        return Pending(message_type=name, max_message_size=max_message_size, folder=folder)

    return await _received(frames, make, lambda one: one.message(message_class), **options)


async def receive_file(
    frames: AsyncIterable[Any],
    target: str | os.PathLike[str],
    *,
    message_type: str | None = None,
    force: bool = False,
    max_message_size: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> int:
    """Receives a message into a file, like :func:`proto_splitter.grpc.receive_file`."""

    def make() -> Pending:
        return Pending(message_type=message_type, max_message_size=max_message_size, folder=folder)

    def take(pending: Pending) -> int:
        return pending.file(target, force, message_type)

    return await _received(frames, make, take, check=target_check(target, force), **options)


async def receive_open(
    frames: AsyncIterable[Any],
    message: str | None = None,
    schema: bytes | None = None,
    *,
    max_message_size: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> File:
    """Receives a message as an open file, like :func:`proto_splitter.grpc.receive_open`."""

    def make() -> Pending:
        return Pending(message_type=message, max_message_size=max_message_size, folder=folder)

    return await _received(frames, make, lambda one: one.open(message, schema), **options)


class Arriving:
    """A message that can be read while it arrives, like :class:`proto_splitter.grpc.Arriving`.

    Reading a part that hasn't arrived yet blocks the thread, so read ``file`` with
    ``asyncio.to_thread``. Use the object in an ``async with`` statement, or call :meth:`close`.
    """

    def __init__(
        self,
        frames: Any,
        pending: Pending,
        file: File,
        ended: asyncio.Task[Pending],
        whole: Callable[[Pending], File],
        context: Any,
    ) -> None:
        self._frames, self._pending, self._context = frames, pending, context
        self._ended, self._whole = ended, whole
        #: The message, as an open file.
        self.file = file

    async def __aenter__(self) -> Arriving:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    @property
    def chunks(self) -> tuple[int, int]:
        """The number of chunks that have arrived completely, and the total number of chunks."""
        return self._pending.chunks

    async def complete(self) -> File:
        """Waits for the end of the transfer, and returns the whole message after verifying it."""

        async def step() -> File:
            return await asyncio.to_thread(self._whole, await self._ended)

        return await _told(step, self._frames, self._context)

    def close(self) -> None:
        """Closes the file, and ends the transfer if it is still running."""
        if not self._ended.cancel() and not self._ended.cancelled():
            # The transfer has ended. Retrieves its exception, so that asyncio doesn't report it.
            self._ended.exception()
        self.file.close()


async def receive_arriving(
    frames: AsyncIterable[Any],
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
    """Begins to receive a message, like :func:`proto_splitter.grpc.receive_arriving`."""
    kept = pending or Pending(
        message_type=message, max_message_size=max_message_size, folder=folder
    )
    opened: asyncio.Future[File] = asyncio.get_running_loop().create_future()

    def look() -> None:
        if not opened.done() and (file := kept.arriving(message, schema)) is not None:
            opened.set_result(file)

    driven = _drive(frames, lambda: kept, kept, None, idle_timeout, timeout, progress, look)
    ended = asyncio.ensure_future(driven)

    async def step() -> File:
        either: list[asyncio.Future[Any]] = [opened, ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            await ended
        return opened.result()

    try:
        file = await _told(step, frames, context)
    except BaseException:
        # The caller has stopped waiting for the message. If the transfer has already ended, its
        # exception is retrieved, so that asyncio doesn't report it.
        if not ended.cancel() and not ended.cancelled():
            ended.exception()
        raise
    return Arriving(frames, kept, file, ended, lambda one: one.open(message, schema), context)


async def _received(
    frames: AsyncIterable[Any],
    make: Callable[[], Pending],
    take: Callable[[Pending], T],
    *,
    context: Any = None,
    pending: Pending | None = None,
    inbox: Inbox | None = None,
    idle_timeout: float | None = IDLE_TIMEOUT,
    timeout: float | None = None,
    progress: Progress | None = None,
    check: Callable[[], None] | None = None,
) -> T:
    """Calls ``check``, receives a message, and calls ``take`` with the transfer."""

    async def step() -> T:
        if check is not None:
            await asyncio.to_thread(check)
        done = await _drive(frames, make, pending, inbox, idle_timeout, timeout, progress)
        return await asyncio.to_thread(take, done)

    return await _told(step, frames, context)


async def _told(step: Callable[[], Awaitable[T]], frames: Any, context: Any) -> T:
    """Calls ``step``. If it fails, stops requesting frames, and ends the call with a status."""
    try:
        return await step()
    except Exception as error:
        if hasattr(frames, "cancel"):
            frames.cancel()
        status = None if context is None else status_of(error)
        if status is None:
            raise
        code, line, metadata = status
        await context.abort(code, line, metadata)
        raise


async def _drive(
    frames: AsyncIterable[Any],
    make: Callable[[], Pending],
    pending: Pending | None,
    inbox: Inbox | None,
    idle_timeout: float | None,
    timeout: float | None,
    progress: Progress | None,
    look: Callable[[], None] | None = None,
) -> Pending:
    session, turn = b"", 0
    limits = Limits(idle_timeout, timeout)
    iterator = aiter(frames)
    try:
        while True:
            wait, late = limits.wait()
            try:
                frame = await asyncio.wait_for(anext(iterator, None), wait)
            # Before Python 3.11, asyncio's TimeoutError isn't the built-in one.
            except (TimeoutError, asyncio.TimeoutError):
                raise late from None
            limits.check()
            if frame is None:
                break
            if turn == 0:
                if pending is None and inbox is not None:
                    session = frame.begin.session
                if pending is None:
                    pending = inbox.of(session, make) if inbox and session else make()
                turn = await asyncio.to_thread(pending.begin)
            assert pending is not None
            await asyncio.to_thread(pending.push, turn, frame, progress)
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
