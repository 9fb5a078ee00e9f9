"""Tests for the largest parts of messages in memory and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import proto_splitter as ps
import pytest
from conftest import Tree
from hypothesis import given, settings
from hypothesis import strategies as st
from proto_splitter import _explain


def in_file(message: Any, folder: Path) -> str:
    """Returns the path of a file that has the message and its type."""
    written = ps.split(message, folder / "tree", always_chunked=True, embed_schema=True, force=True)
    return written.path


def test_the_largest_parts_are_named_by_path_and_size(tree: Any) -> None:
    explained = ps.explain(tree)
    assert explained.size == tree.ByteSize()
    assert [(part.path, part.size) for part in explained.largest] == [
        ("child.data", 5003),
        ('by_key["a"]', 4012),
        ('by_key["b"].children[0]', 4006),
    ]
    line = "the largest: child.data 4.9 KiB, by_key"
    assert line in str(explained) and repr(explained) == str(explained)
    assert ps.explain(Tree()).largest == ()


def test_elements_have_their_names_and_many_small_ones_are_one_part() -> None:
    few = Tree()
    for number in range(3):
        few.children.add(name=f"element\n{number}", data=b"x" * 1000 * (number + 1))
    first, *_ = ps.explain(few).largest
    assert (first.path, first.name) == ("children[2]", "element\n2")
    assert str(first).endswith(r"(element\n2)")
    many = Tree()
    for _ in range(1000):
        many.children.add(name="a", data=b"x" * 50)
    assert [part.path for part in ps.explain(many).largest][0] == "children[*].data"


def test_a_file_is_explained_like_the_message_in_memory(tree: Any, tmp_path: Path) -> None:
    assert ps.explain(in_file(tree, tmp_path)) == ps.explain(tree)
    untyped = ps.explain(tree.SerializeToString())
    assert untyped.largest[0].path == "3.2"
    assert untyped.size == tree.ByteSize()


names = st.text(max_size=5)
small = st.builds(Tree, name=names, data=st.binary(max_size=300))
trees = st.recursive(
    small,
    lambda inner: st.builds(
        Tree,
        name=names,
        child=inner,
        children=st.lists(inner, max_size=5),
        by_key=st.dictionaries(names, inner, max_size=3),
        texts=st.lists(st.text(max_size=200), max_size=4),
        values=st.lists(st.floats(), max_size=20),
        numbers=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
        signed=st.integers(-(2**63), 2**63 - 1),
        counts=st.dictionaries(st.integers(-9, 9), st.integers(0, 2**32 - 1), max_size=3),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=50)
@given(trees)
def test_sizes_are_those_of_protobuf(message: Any) -> None:
    fields = sum(
        _explain._field_size(message, field, value) for field, value in message.ListFields()
    )
    assert fields == message.ByteSize()
    parts = ps.explain(message).largest
    assert [part.size for part in parts] == sorted((part.size for part in parts), reverse=True)


def test_a_message_over_what_protobuf_serializes_is_explained(
    tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ps.explain(tree)
    monkeypatch.setattr(_explain, "_unknown_size", lambda message: 0)

    class Refusing:
        """A message whose size protobuf fails to compute, like that of a message over 2 GiB."""

        DESCRIPTOR = tree.DESCRIPTOR

        def __getattr__(self, name: str) -> Any:
            return getattr(tree, name)

        def ByteSize(self) -> int:
            raise ValueError("too large")

        def SerializePartialToString(self) -> bytes:
            raise ValueError("too large")

    assert ps.explain(Refusing()) == before


def test_the_distance_to_the_limit_is_told(tree: Any) -> None:
    limits = ps.limits(tree)
    assert limits.fits and limits.left == 2**31 - 1 - tree.ByteSize()
    assert str(limits).startswith("30.8 KiB, 2.0 GiB below the limit of 2 GiB; the largest: child")
    over = ps.Limits(2**31 + 7, ())
    assert not over.fits and over.left == -8
    assert str(over) == "2.0 GiB, 8 bytes over the limit of 2 GiB"


def test_messages_of_other_frameworks_are_explained(tree: Any) -> None:
    class Wrapper:
        """A wrapper around a message, as in proto-plus."""

        _pb = tree

    class Plain:
        """A message as in frameworks without descriptors."""

        def SerializeToString(self) -> bytes:
            return bytes(tree.SerializeToString())

    assert ps.explain(Wrapper()) == ps.explain(tree)
    assert ps.explain(Plain()).largest[0].path == "3.2"


def test_a_refused_size_ends_with_the_largest_parts(tmp_path: Path) -> None:
    message = Tree(texts=["c" * 12], counts={1: 1}, flag=True, signed=5, ratio=1.0)
    with pytest.raises(ps.UncuttableError) as caught:
        ps.split(message, tmp_path / "never", max_chunk_size=18)
    line = str(caught.value)
    assert line.endswith("; the largest: texts[0] 14 B, counts 6 B, ratio 5 B"), line
    assert "\n" not in line
