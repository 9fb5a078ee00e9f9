"""Splitters by size, to be subclassed. The names are those of TensorFlow's splitters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _messages, constants, util
from ._errors import PathError
from ._splitters import ComposableSplitter, Message

def _is_large(size: int) -> bool:
    return size > constants.max_size() // 3


class SplitBasedOnSize(ComposableSplitter):
    """A base class for splitters that decide by the size of the message what to split.

    Args:
        proto: The message to split.
        proto_size: The message's serialized size, in bytes. The caller passes it, so that protobuf
            needn't compute it again, which takes long for a large message.
        options: Keyword arguments of :class:`ComposableSplitter`.
    """

    def __init__(self, proto: Message, proto_size: int, **options: Any) -> None:
        super().__init__(proto, **options)
        self.proto_size = proto_size

    def build_chunks(self) -> int:
        """Adds the chunks, and returns the number of bytes removed from the message.

        This method adds nothing; subclasses override it.
        """
        return 0


class LargeMessageSplitter(SplitBasedOnSize):
    """A splitter that turns a large message into a chunk, and leaves an empty message in its place.

    Args:
        proto: The message to split.
        proto_size: The message's serialized size, in bytes.
        size_check: A function that returns true if a message of a given size is large. By default,
            a message over a third of :func:`proto_splitter.constants.max_size` is large.
        options: Keyword arguments of :class:`ComposableSplitter`.
    """

    def __init__(
        self,
        proto: Message,
        proto_size: int,
        size_check: Callable[[int], bool] = _is_large,
        **options: Any,
    ) -> None:
        super().__init__(proto, proto_size, **options)
        self._size_check = size_check

    def build_chunks(self) -> int:
        """Adds a chunk if the message is large, and returns the number of bytes removed."""
        if not self._size_check(self.proto_size):
            return 0
        chunk = type(self._proto)()
        chunk.CopyFrom(self._proto)
        self._proto.Clear()
        self.add_chunk(chunk, [])
        return self.proto_size


class RepeatedMessageSplitter(ComposableSplitter):
    """A splitter for a list of messages, which splits each element first, and then the list.

    Each element is passed to ``message_splitters`` in order. As soon as the elements of the list
    reach :func:`proto_splitter.constants.max_size` in total, the remaining elements are moved to
    chunks of at most this size::

        RepeatedMessageSplitter(tree, "children", [LargeLeafSplitter]).write("tree")

    Args:
        proto: The message that contains the list.
        repeated_field: The field tag of the list; see :mod:`proto_splitter.util`.
        message_splitters: Subclasses of :class:`SplitBasedOnSize`, which split an element.
        options: Keyword arguments of :class:`ComposableSplitter`.

    Raises:
        PathError: If the field tag doesn't select a list of messages.
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
        """Adds the chunks, and returns the number of bytes removed from the message."""
        outer = self._tags[:-1]
        holder = util.get_field(self._proto, outer)[0] if outer else self._proto
        #: The runs of elements that become chunks: the index of each run's first element, and the
        #: chunk, which is filled at the end. Elements before the first run stay in the message.
        runs: list[tuple[int, Any]] = []
        bare = length = taken = 0
        for number, element in enumerate(self._elements):
            size = _messages.size_of(element)
            for splitter in self._message_splitters:
                place = [*self._tags, number]
                cut = splitter(element, size, parent_splitter=self, fields_in_parent=place)
                removed = cut.build_chunks()
                if removed:
                    size, taken = _messages.size_of(element), taken + removed
            framed = size + _prefix_len(self._field.number, size)
            # Like TensorFlow's splitter, `bare` doesn't count the tag and length before an element.
            is_full = bare + size >= constants.max_size()
            if is_full or length + framed > constants.max_size():
                runs.append((number, type(holder)()))
                self.add_chunk(runs[-1][1], outer)
                bare = length = 0
            bare, length = bare + size, length + framed
            taken += framed if runs else 0
        ends = [*(start for start, _ in runs[1:]), len(self._elements)]
        for (start, run), end in zip(runs, ends):
            getattr(run, self._field.name).extend(self._elements[start:end])
        if runs:
            del self._elements[runs[0][0] :]
        return taken


def _prefix_len(number: int, size: int) -> int:
    """Returns the size of the tag and length before an element."""
    return len(_messages._tag(number, 2)) + len(_messages._varint(size))
