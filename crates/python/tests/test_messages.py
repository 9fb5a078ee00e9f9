"""Tests for serializing protobuf messages in pieces, and parsing them in parts."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import proto_splitter as ps
import pytest
from conftest import Tree
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from proto_splitter import _messages


def written(message: Any) -> bytes:
    pieces, spool = _messages.pieces_of(message)
    out = io.BytesIO()
    for piece in pieces:
        if isinstance(piece, bytes):
            out.write(piece)
        else:
            spool.seek(piece[0])
            out.write(spool.read(piece[1]))
    return out.getvalue()


def test_pieces_are_what_protobuf_serializes(tree: Any) -> None:
    again = Tree.FromString(written(tree))
    assert again == tree


def test_unknown_fields_are_kept_in_pieces(tree: Any) -> None:
    unknown = bytes.fromhex("a80601 aa060568656c6c6f b5060000803f b1060000000000000000 ab060801ac06")
    tree.child.MergeFromString(unknown)
    again = Tree.FromString(written(tree))
    assert again.child.SerializeToString() == tree.child.SerializeToString()


def test_elements_that_protobuf_refuses_are_written_by_their_fields(
    tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_messages, "_whole", lambda message: None)
    assert Tree.FromString(written(tree)) == tree


def test_parts_that_are_large_are_merged_into_what_they_belong_to(
    tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = memoryview(tree.SerializeToString())
    for whole, small in [(1, 1), (500, 100), (4000, 1000), (1 << 30, 1 << 24)]:
        monkeypatch.setattr(_messages, "_WHOLE", whole)
        monkeypatch.setattr(_messages, "_SMALL", small)
        read = Tree()
        _messages.parse_into(read, data)
        assert read == tree


def test_a_cut_message_is_a_format_error_wherever_it_is_cut(
    tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_messages, "_WHOLE", 1)
    monkeypatch.setattr(_messages, "_SMALL", 1)
    data = tree.SerializeToString()
    for end in range(1, len(data), 97):
        try:
            _messages.parse_into(Tree(), memoryview(data[:end]))
        except (ps.FormatError, DecodeError):
            continue
        assert Tree.FromString(data[:end]).SerializeToString() == data[:end]


def trees(depth: int = 2) -> st.SearchStrategy[Any]:
    @st.composite
    def build(draw: st.DrawFn) -> Any:
        root = Tree()
        if draw(st.booleans()):
            root.name = draw(st.text(max_size=5))
        if draw(st.booleans()):
            root.data = draw(st.binary(max_size=300))
        root.numbers.extend(draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)))
        root.texts.extend(draw(st.lists(st.text(max_size=3), max_size=3)))
        for data in draw(st.lists(st.binary(max_size=200), max_size=2)):
            root.part.add().data = data
        if depth:
            for child in draw(st.lists(trees(depth - 1), max_size=2)):
                root.children.add().CopyFrom(child)
            for key, value in draw(
                st.dictionaries(st.text(max_size=3), trees(depth - 1), max_size=2)
            ).items():
                root.by_key[key].CopyFrom(value)
            if draw(st.booleans()):
                root.child.CopyFrom(draw(trees(depth - 1)))
        return root

    return build()


@settings(deadline=None, max_examples=60)
@given(trees())
def test_any_message_survives_pieces_and_parts(message: Any) -> None:
    data = written(message)
    assert Tree.FromString(data) == message
    read = Tree()
    _messages.parse_into(read, memoryview(data))
    assert read == message


def test_a_message_is_split_and_read_back(tree: Any, tmp_path: Path) -> None:
    done = ps.split(tree, tmp_path / "tree", max_chunk_size=6000, value_chunk_size=2000)
    assert done.is_split
    assert max(chunk.size for chunk in done.chunks) <= 6000
    assert ps.read(done.path, Tree) == tree
    assert ps.merge_into(tmp_path / "tree", Tree()) == tree


class Counted:
    """Bytes that are read by position. Counts the reads."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[int] = []

    def __len__(self) -> int:
        return len(self.data)

    def read(self, offset: int, size: int) -> bytes:
        self.reads.append(size)
        return self.data[offset : offset + size]


@pytest.mark.parametrize(("run", "small"), [(1, 1), (500, 100), (4000, 1000), (20_000, 20_000)])
def test_a_message_is_read_in_pieces_of_any_size(
    tree: Any, monkeypatch: pytest.MonkeyPatch, run: int, small: int
) -> None:
    monkeypatch.setattr(_messages, "_RUN", run)
    monkeypatch.setattr(_messages, "_SMALL", small)
    source: Any = Counted(tree.SerializeToString())
    told: list[tuple[int, int]] = []
    read = Tree()
    _messages.parse_into(read, _messages.Window.of(source, lambda *now: told.append(now)))
    assert read == tree
    assert told[-1] == (len(source), len(source))


def test_no_more_is_in_memory_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_messages, "_RUN", 200_000)
    monkeypatch.setattr(_messages, "_SMALL", 100_000)
    big = Tree(data=b"d" * 90_000)
    for at in range(40):
        big.child.children.add(data=bytes([at]) * (10_000 if at % 4 else 150_000))
    source: Any = Counted(big.SerializeToString())
    read = Tree()
    _messages.parse_into(read, _messages.Window.of(source, None))
    assert read == big
    assert max(source.reads) < 220_000 < len(source)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_file_is_merged_into_a_message_in_pieces(
    tree: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    monkeypatch.setattr(_messages, "_RUN", 3000)
    monkeypatch.setattr(_messages, "_SMALL", 1000)
    plain = tmp_path / "plain.pb"
    plain.write_bytes(tree.SerializeToString())
    done = ps.split(
        tree, tmp_path / "tree", max_chunk_size=2000, profile="extended", compression=compression
    )
    for source in (done.path, tmp_path / "tree", plain, tmp_path / "plain"):
        assert ps.read(source, Tree) == tree
    for path in (done.path, plain):
        data = Path(path).read_bytes()
        for given in (data, bytearray(data), io.BytesIO(data)):
            assert ps.read(given, Tree) == tree

    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ps.merge_into(plain, Tree(), progress=stop)
    damaged = bytearray(Path(done.path).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(ps.ChecksumError):
        ps.read(bytes(damaged), Tree)
