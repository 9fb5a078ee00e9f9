"""Splitters to subclass that go by the sizes of messages, by the names that TensorFlow has."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

from . import _messages, constants, util
from ._errors import PathError
from ._splitters import ComposableSplitter, Message

#: The most bytes that a tag and a length take before an element.
_PREFIX = 16


def _is_over(size: int) -> bool:
    return size > constants.max_size()


class SplitBasedOnSize(ComposableSplitter):
    """A splitter that knows how large its message is.

    Args:
        proto: The message.
        proto_size: Bytes of it, serialized; protobuf needs long to find that out.
        options: Those of :class:`ComposableSplitter`.
    """

    def __init__(self, proto: Message, proto_size: int, **options: Any) -> None:
        super().__init__(proto, **options)
        self.proto_size = proto_size

    @abc.abstractmethod
    def build_chunks(self) -> int:
        """Adds the chunks, and returns how many bytes that has taken out of the message."""


class LargeMessageSplitter(SplitBasedOnSize):
    """Makes a chunk of a whole message that is large, and leaves an empty one.

    Args:
        proto: The message.
        proto_size: Bytes of it, serialized.
        size_check: Whether a message of so many bytes is large: over
            :func:`proto_splitter.constants.max_size` unless given.
        options: Those of :class:`ComposableSplitter`.
    """

    def __init__(
        self,
        proto: Message,
        proto_size: int,
        size_check: Callable[[int], bool] = _is_over,
        **options: Any,
    ) -> None:
        super().__init__(proto, proto_size, **options)
        self._size_check = size_check

    def build_chunks(self) -> int:
        """Adds a chunk if the message is large, and returns how many bytes that has taken out."""
        if not self._size_check(self.proto_size):
            return 0
        self.add_chunk(self._proto, [])
        self._proto.Clear()
        return self.proto_size


class RepeatedMessageSplitter(ComposableSplitter):
    """Splits a message for a list of messages in it: each of these, and then the list.

    Each element is given to the splitters, in their order. If the message is still over
    :func:`proto_splitter.constants.max_size`, runs of elements become chunks::

        RepeatedMessageSplitter(tree, "children", [LargeLeafSplitter]).write("tree")

    Args:
        proto: The message.
        repeated_field: The field tag of the list; see :mod:`proto_splitter.util`.
        message_splitters: Subclasses of :class:`SplitBasedOnSize`, for the elements.
        options: Those of :class:`ComposableSplitter`.

    Raises:
        PathError: If the field tag doesn't lead to a list of messages.
    """

    def __init__(
        self,
        proto: Message,
        repeated_field: util.FieldTypes,
        message_splitters: Sequence[type[SplitBasedOnSize]],
        **options: Any,
    ) -> None:
        super().__init__(proto, **options)
        one = isinstance(repeated_field, (str, int))
        self._tags: list[Any] = [repeated_field] if one else list(repeated_field)  # type: ignore[arg-type]
        self._message_splitters = message_splitters
        self._elements, field = util.get_field(proto, self._tags)
        is_list = util.is_repeated(field) and not _messages._is_map(field)
        if not is_list or field.message_type is None or not hasattr(self._elements, "add"):
            raise PathError(f"{repeated_field!r}: expected a list of messages")
        self._field = field

    def build_chunks(self) -> int:
        """Adds the chunks, and returns how many bytes that has taken out of the message."""
        held = _Held(self._proto)
        sizes: list[int] = []
        taken = 0
        for number, element in enumerate(self._elements):
            size = element.ByteSize()
            for splitter in self._message_splitters:
                place = [*self._tags, number]
                cut = splitter(element, size, parent_splitter=held, fields_in_parent=place)
                removed = cut.build_chunks()
                size, taken = size - removed, taken + removed
            sizes.append(size)
        if self._is_over(sizes):
            taken += sum(sizes)
            self._add_runs(sizes)
        # A chunk in an element is merged after the element.
        for chunk, tags, index in held.chunks:
            self.add_chunk(chunk, tags, index)
        return taken

    def _is_over(self, sizes: list[int]) -> bool:
        if _is_over(sum(sizes)):
            return True
        try:
            return _is_over(self._proto.ByteSize())
        except Exception:  # protobuf can't tell, for it is over 2 GiB.
            return True

    def _add_runs(self, sizes: list[int]) -> None:
        """Makes chunks of all elements, each with as many as it can hold."""
        outer = self._tags[:-1]
        holder = util.get_field(self._proto, outer)[0] if outer else self._proto
        start, length = 0, 0
        for end, size in enumerate([*sizes, None]):
            if size is not None:
                length += size + _PREFIX
                if end == start or not _is_over(length):
                    continue
                length = size + _PREFIX
            run = type(holder)()
            getattr(run, self._field.name).extend(self._elements[start:end])
            self.add_chunk(run, outer)
            start = end
        del self._elements[:]


class _Held(ComposableSplitter):
    """Keeps the chunks of elements until the elements have been added."""

    def __init__(self, proto: Message) -> None:
        super().__init__(proto)
        self.chunks: list[tuple[Any, list[Any], int | None]] = []

    def build_chunks(self) -> None:
        """Nothing is built here: others add."""

    def add_chunk(
        self, chunk: Message | bytes, field_tags: util.FieldTypes, index: int | None = None
    ) -> None:
        kept: Any = chunk
        if _messages.is_message(chunk):
            # Whoever added it may change it afterwards.
            kept = type(chunk)()
            kept.CopyFrom(chunk)
        tags = [field_tags] if isinstance(field_tags, (str, int)) else list(field_tags)
        self.chunks.append((kept, tags, index))
