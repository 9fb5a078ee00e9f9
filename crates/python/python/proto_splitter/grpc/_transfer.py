"""Transfers and gRPC statuses, for both APIs of grpcio: ``grpc`` and ``grpc.aio``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from .. import _core, _messages
from .._files import native
from .._handle import File
from ..transfer import transfer_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)

#: A function that is called with the bytes done and the total. An exception from it stops the
#: transfer.
Progress = Callable[[int, int], object]

#: Default maximum time between two frames, in seconds.
IDLE_TIMEOUT = 60.0

#: Options for a server or channel that receives, which limit grpcio to reading 2 MiB ahead. By
#: default, grpcio reads further ahead if the connection seems fast: over 100 MiB if the receiver is
#: slow.
READ_AHEAD: tuple[tuple[str, int], ...] = (
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 2 << 20),
)

#: Maximum pause between two attempts, in seconds.
LONGEST_PAUSE = 5.0

_DETAILS = "grpc-status-details-bin"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Outgoing:
    """The frames of one message to send, each created on request."""

    def __init__(self, sender: _core.Sender, progress: Progress | None) -> None:
        self._sender = sender
        self._progress = progress
        #: The exception that reading the source raised, which the failed call doesn't report.
        self.error: BaseException | None = None

    def next(self) -> Any:
        """Returns the next frame, or ``None`` after the last."""
        try:
            data = self._sender.next()
            if data is None:
                return None
            frame = transfer_pb2.Frame.FromString(data)
            if self._progress is not None:
                self._progress(*self._sender.progress())
            return frame
        except BaseException as error:
            self.error = error
            raise


def sender_of(
    source: Any,
    message: str | None,
    schema: bytes | None,
    *,
    max_chunk_size: int | None = None,
    max_frame_size: int | None = None,
    compression_level: int | None = None,
    session: bytes = b"",
) -> Callable[[Any], _core.Sender]:
    """Returns a function that creates a sender for what a receiver with a ``ResumeToken`` lacks.

    A message is serialized only once, for all senders.
    """
    if _messages.is_message(source):
        message, schema = _messages.schema_of(source)
        given: Any = _messages.source_of(source)
    elif isinstance(source, File):
        given, message = source._native, source.message_type
    else:
        given = native(source)
        if message is None:
            raise ValueError("message: the full name of the message's type is needed")
    name = message

    def make(token: Any) -> _core.Sender:
        arguments = {
            "max_chunk_size": max_chunk_size,
            "max_frame_size": max_frame_size,
            "compression_level": compression_level,
            "session": session,
            "token": b"" if token is None else token.SerializeToString(),
        }
        return _core.Sender(given, name, schema, arguments)

    return make


class Retry:
    """A counter of failed attempts, which determines the pause before the next attempt."""

    def __init__(self, attempts: int, pause: float) -> None:
        self._attempts, self._pause = attempts, pause
        self._left, self._next = attempts, pause
        self._chunks = 0

    def pause(self) -> float | None:
        """Returns the pause before the next attempt, in seconds; ``None`` if no attempt is left."""
        self._left -= 1
        if self._left <= 0:
            return None
        pause, self._next = self._next, min(2 * self._next, LONGEST_PAUSE)
        return pause

    def arrived(self, chunks: int) -> None:
        """Records the number of chunks that the receiver has. An increase resets the counter."""
        if chunks > self._chunks:
            self._chunks = chunks
            self._left, self._next = self._attempts, self._pause


def is_broken(error: Any) -> bool:
    """Returns true if a call failed because its connection broke, so it can be resumed."""
    code, details = error.code(), error.details() or ""
    if code == grpc.StatusCode.INTERNAL:
        # If a stream ends before its status has arrived, a write in grpc.aio fails with INTERNAL,
        # whatever the reason. If the peer has answered, the next attempt gets the answer.
        return "RST_STREAM" in details or details == "Internal error from Core"
    return code == grpc.StatusCode.UNAVAILABLE or "RST_STREAM" in details


class Pending:
    """The received part of an interrupted transfer, in a temporary file.

    ``receive(frames, Type, pending=pending)`` continues the transfer if the sender created the
    frames with :attr:`token`; otherwise, the transfer starts again.

    Args:
        message_type: The full name of the only accepted message type; by default, all are accepted.
        max_message_size: Maximum size of the message, in bytes; 64 GiB unless given.
        max_chunks: Maximum number of chunks.
        folder: The folder for the temporary file; by default, the system's.
    """

    def __init__(
        self,
        *,
        message_type: str | None = None,
        max_message_size: int | None = None,
        max_chunks: int | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self._native = _core.TransferReceiver(
            {
                "message_type": message_type,
                "max_message_size": max_message_size,
                "max_chunks": max_chunks,
                "folder": folder,
            }
        )
        self._lock = threading.Lock()
        self._turn = 0
        #: The time at which the last frame arrived; before the first frame, the transfer's start.
        self.touched = time.monotonic()

    @property
    def token(self) -> Any:
        """The ``ResumeToken`` from which a sender can resume the transfer."""
        return transfer_pb2.ResumeToken.FromString(self._native.token())

    @property
    def chunks(self) -> tuple[int, int]:
        """The number of chunks that have arrived completely, and the total number of chunks."""
        return self._native.chunks()

    def begin(self) -> int:
        """Begins a transfer and returns its number. Ends an earlier one that is still running."""
        with self._lock:
            self._native.break_off()
            self._turn += 1
            self.touched = time.monotonic()
            return self._turn

    def push(self, turn: int, frame: Any, progress: Progress | None) -> None:
        data = frame.SerializeToString()
        with self._lock:
            self._check(turn)
            self.touched = time.monotonic()
            self._native.push(data)
            now = self._native.progress()
        if progress is not None:
            progress(*now)

    def end(self, turn: int) -> None:
        with self._lock:
            self._check(turn)
            self._native.end()

    def break_off(self, turn: int) -> None:
        with self._lock:
            if turn == self._turn:
                self._native.break_off()

    def _check(self, turn: int) -> None:
        if turn != self._turn:
            raise late("another transfer of the same session has begun", grpc.StatusCode.ABORTED)

    def message(self, message_class: type[M]) -> M:
        message = message_class()
        name, schema = _messages.schema_of(message)
        arguments = {"message": name, "schema": schema, "force": False, "threads": None}
        merged = self._native.merged(arguments)
        _messages.parse_into(message, _messages.Window.of(merged, None))
        return message

    def file(self, target: str | os.PathLike[str], force: bool, message_type: str | None) -> int:
        return self._native.write_file(os.fspath(target), force, message_type)

    def open(self, message: str | None, schema: bytes | None) -> File:
        return File(self._native.handle(message, schema), "a transfer")

    def arriving(self, message: str | None, schema: bytes | None) -> File | None:
        """Returns the message as an open file; ``None`` if its trailer hasn't arrived yet."""
        handle = self._native.arriving(message, schema)
        return None if handle is None else File(handle, "a transfer")


def target_check(target: str | os.PathLike[str], force: bool) -> Callable[[], None]:
    """Returns a function that raises the error of writing to ``target``, if that isn't possible.

    Call the function before a transfer, which would be in vain.
    """
    return lambda: _core.transfer_check_target(os.fspath(target), force)


class Inbox:
    """A store for interrupted transfers, by the name of the sender's session.

    Pass the inbox to ``receive``, and answer calls of a method ``Resume`` with :meth:`token`.

    Args:
        max_pending: Maximum number of transfers to keep. If there are more, the least recently used
            transfer is dropped.
        keep: Time to keep a transfer after its last frame, in seconds.
    """

    def __init__(self, *, max_pending: int = 16, keep: float = 600.0) -> None:
        self._max_pending, self._keep = max(max_pending, 1), keep
        self._lock = threading.Lock()
        self._pending: dict[bytes, Pending] = {}

    def token(self, question: Any) -> Any:
        """Returns the ``ResumeToken`` of the session that the sender's ``ResumeToken`` names.

        A sender that calls this has abandoned its previous attempt, so if frames of that attempt
        still arrive, they are rejected. The token is empty if the session is unknown.
        """
        with self._lock:
            found = self._pending.get(question.session)
        if found is None:
            return transfer_pb2.ResumeToken()
        found.begin()
        return found.token

    def of(self, session: bytes, make: Callable[[], Pending]) -> Pending:
        now = time.monotonic()
        with self._lock:
            kept = self._pending
            for name in [name for name, one in kept.items() if now - one.touched >= self._keep]:
                del kept[name]
            if session not in kept:
                while len(kept) >= self._max_pending:
                    del kept[min(kept, key=lambda name: kept[name].touched)]
                kept[session] = make()
            return kept[session]

    def remove(self, session: bytes) -> None:
        with self._lock:
            self._pending.pop(session, None)


class Limits:
    """The time limits of a transfer, in seconds, from when this is made; ``None`` for no limit."""

    def __init__(self, idle: float | None, whole: float | None) -> None:
        self._idle, self._whole = idle, whole
        self._begun = time.monotonic()

    def wait(self) -> tuple[float | None, TimeoutError]:
        """Returns the maximum time to wait for the next frame, and the error if none comes."""
        left = None
        if self._whole is not None:
            left = max(self._begun + self._whole - time.monotonic(), 0.0)
        if left is None or (self._idle is not None and self._idle < left):
            message = f"no frame came for {self._idle} s"
            return self._idle, late(message, grpc.StatusCode.DEADLINE_EXCEEDED)
        return left, self._too_long()

    def check(self) -> None:
        """Raises an error if the whole transfer has taken too long."""
        if self._whole is not None and time.monotonic() - self._begun > self._whole:
            raise self._too_long()

    def _too_long(self) -> TimeoutError:
        message = f"the transfer took longer than {self._whole} s"
        return late(message, grpc.StatusCode.DEADLINE_EXCEEDED)


def late(message: str, code: Any) -> TimeoutError:
    """Returns a ``TimeoutError`` with a gRPC status code."""
    error = TimeoutError(message)
    error.grpc_code = code.value[0]  # type: ignore[attr-defined]
    return error


def status_of(error: BaseException) -> tuple[Any, str, tuple[tuple[str, bytes], ...]] | None:
    """Converts an error to the code, message and metadata of a gRPC status.

    Returns ``None`` if the error isn't from this package.
    """
    code = getattr(error, "grpc_code", None)
    if code is None:
        return None
    details = getattr(error, "grpc_details", None)
    metadata = () if details is None else ((_DETAILS, details),)
    return _CODES[code], str(error)[:1024], metadata


def detail(error: Any) -> Any:
    """Returns the location of the problem that an ``RpcError`` reports, as an ``ErrorDetail``.

    Returns ``None`` if the error contains no location.
    """
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            data = _core.transfer_detail(value)
            return None if data is None else transfer_pb2.ErrorDetail.FromString(data)
    return None
