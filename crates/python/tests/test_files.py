"""Tests for splitting, merging and reading files, for reports, and for errors."""

from __future__ import annotations

import errno
import io
import mmap
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proto_splitter as ps
import pytest
from conftest import F, Tree
from google.protobuf import descriptor_pb2


@pytest.fixture
def schema(tree: Any) -> bytes:
    from proto_splitter._messages import schema_of

    return schema_of(tree)[1]


@pytest.fixture
def split(tree: Any, schema: bytes, tmp_path: Path) -> Iterator[Path]:
    done = ps.split(
        tree.SerializeToString(),
        tmp_path / "tree",
        "test.Tree",
        schema,
        max_chunk_size=6000,
        value_chunk_size=2000,
        embed_schema=True,
    )
    yield Path(done.path)


def inputs(data: bytes, folder: Path) -> Iterator[tuple[str, Any]]:
    file = folder / "input.pb"
    file.write_bytes(data)
    yield "str", str(file)
    yield "Path", file
    yield "bytes", data
    yield "bytearray", bytearray(data)
    yield "memoryview", memoryview(data)[:]
    yield "BytesIO", io.BytesIO(data)
    yield "file", file.open("rb")
    with file.open("rb") as opened:
        yield "mmap", mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    yield "URL", f"file://{file}"


def test_every_kind_of_input_gives_the_same_file(tree: Any, schema: bytes, tmp_path: Path) -> None:
    data = tree.SerializeToString()
    contents = set()
    for number, (name, given) in enumerate(inputs(data, tmp_path)):
        done = ps.split(
            given, tmp_path / f"out{number}", "test.Tree", schema, max_chunk_size=6000
        )
        assert done.source_size == len(data), name
        contents.add(Path(done.path).read_bytes())
        assert bytes(ps.merge_to_bytes(done.path)) == data, name
    assert len(contents) == 1


def test_a_merge_writes_the_bytes_that_were_split(tree: Any, split: Path, tmp_path: Path) -> None:
    merged = ps.merge(split, tmp_path / "merged.pb")
    assert merged.byte_exact and merged.is_split
    assert (tmp_path / "merged.pb").read_bytes() == tree.SerializeToString()


def test_a_schema_may_use_editions() -> None:
    data = Path(__file__).parents[3] / "tests/data/schemas"
    schema = (data / "edition_2023.binpb").read_bytes()
    with ps.open(data / "edition_2023.pb", "edition.Root", schema) as file:
        assert file.get("loose[7]") == 7
        assert file.get('by_name["x"].kids[1].name') == file.get('by_name["y"].kids[1].name')


def test_records_of_another_format_are_merged_as_they_are_opened(tmp_path: Path) -> None:
    """Checks XLA's split protos, which are Riegeli files without our chunks."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    module = Path(__file__).parents[3] / "tests/data/xla/jax01201_cond_before.riegeli"
    with ps.open(module) as file:
        name, size = file.get("hlo_module.name"), len(file.get("hlo_module"))
    merged = ps.merge(module, tmp_path / "merged.pb")
    data = (tmp_path / "merged.pb").read_bytes()
    assert (merged.size, merged.is_split) == (len(data), False) and len(data) > size
    written = io.BytesIO()
    assert ps.merge(module, written).crc32c == merged.crc32c
    assert written.getvalue() == data
    for given in [module, str(module), module.read_bytes(), io.BytesIO(module.read_bytes())]:
        assert bytes(ps.merge_to_bytes(given)) == data
        with ps.open(given) as file:
            assert file.get("hlo_module.name") == name

    field = descriptor_pb2.FieldDescriptorProto
    one = field.LABEL_OPTIONAL
    schema = descriptor_pb2.FileDescriptorProto(name="hlo.proto", package="xla", syntax="proto3")
    whole = schema.message_type.add(name="HloProto")
    whole.field.add(
        name="hlo_module", number=1, label=one, type=field.TYPE_MESSAGE, type_name=".xla.Module"
    )
    inner = schema.message_type.add(name="Module")
    inner.field.add(name="name", number=1, label=one, type=field.TYPE_STRING)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("xla.HloProto"))
    for given in [module, module.read_bytes()]:
        assert ps.read(given, kind).hlo_module.name == name
    with pytest.raises(ps.FormatError, match="record 0"):
        other = descriptor_pb2.FileDescriptorProto
        ps.read(module, other)


def test_merging_takes_bytes_and_file_likes(tree: Any, split: Path) -> None:
    data = split.read_bytes()
    for given in [data, bytearray(data), io.BytesIO(data)]:
        assert bytes(ps.merge_to_bytes(given)) == tree.SerializeToString()


def test_a_buffer_is_viewed_without_a_copy_and_outlives_its_maker(split: Path) -> None:
    buffer = ps.merge_to_bytes(split)
    view = memoryview(buffer)
    size = len(buffer)
    assert view.readonly and view.nbytes == size
    del buffer
    assert len(bytes(view)) == size
    with pytest.raises(TypeError):
        view[0] = 1


def test_values_are_read_as_python_has_them(split: Path) -> None:
    with ps.open(split) as file:
        assert file.message_type == "test.Tree"
        assert file.get("name") == "root"
        assert file.get("signed") == -7
        assert file.get("flag") is True
        assert file.get("ratio") == 0.5
        assert file.get("children[2].data") == b"\x02" * 3000
        assert file.get('by_key["a"].data') == b"a" * 4000
        assert file.get("texts[1]") == "é" * 100
        assert file.message("children[3]", Tree).name == "element 3"
        assert file.size("child.data") == 5000
        assert ("name", 4) in file.fields()
        target = bytearray(5000)
        assert file.get_into("child.data", target) == 5000
        assert target == b"c" * 5000


def test_the_same_values_come_from_bytes_of_both_forms(
    tree: Any, schema: bytes, split: Path
) -> None:
    for data in [split.read_bytes(), tree.SerializeToString()]:
        with ps.open(data, "test.Tree", schema) as file:
            assert file.get("children[4].name") == "element 4"
            assert file.get("ratio") == 0.5


def test_messages_after_their_lengths_are_opened_as_one_message(tmp_path: Path) -> None:
    log = b"\x05\x0a\x03one\x05\x0a\x03two"
    for source in (log, io.BytesIO(log), tmp_path / "files.log"):
        if isinstance(source, Path):
            source.write_bytes(log)
        with ps.open(source, delimited="google.protobuf.FileDescriptorProto") as file:
            assert file.message_type == "proto_splitter.Sequence"
            assert file.get("message[1].name") == "two"
    with ps.open(log, delimited="google.protobuf.FileDescriptorSet.file") as file:
        assert file.get("file[0].name") == "one"
    path = tmp_path / "files.log"
    with ps.open(path, delimited="google.protobuf.FileDescriptorProto") as file:
        with pickle.loads(pickle.dumps(file)) as again:
            assert again.get("message[0].name") == "one"
    with pytest.raises(ps.SchemaError, match="no type 'absent.Type'|no type \"absent.Type\""):
        ps.open(log, delimited="absent.Type")
    with pytest.raises(ps.FormatError, match="message 1: it should have 5 bytes"):
        ps.open(log[:-1], delimited="google.protobuf.FileDescriptorProto")
    with pytest.raises(ValueError, match="only one of them"):
        ps.open(log, "a.Type", delimited="a.Type")


def test_a_closed_file_says_so(split: Path) -> None:
    file = ps.open(split)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.get("name")


def test_paths_that_lead_nowhere_are_lookup_errors(split: Path) -> None:
    with ps.open(split) as file:
        for path in ["nme", "children[99]", "name.x", "children["]:
            with pytest.raises(LookupError) as raised:
                file.get(path)
            assert isinstance(raised.value, ps.PathError), path


def test_a_short_buffer_is_refused(split: Path) -> None:
    with ps.open(split) as file:
        with pytest.raises(OSError, match="too short"):
            file.get_into("child.data", bytearray(10))
        with pytest.raises(TypeError, match="writable"):
            file.get_into("child.data", bytes(5000))


def test_damage_is_a_checksum_error_that_pickles(split: Path) -> None:
    data = bytearray(split.read_bytes())
    data[len(data) // 2] ^= 1
    split.write_bytes(data)
    with pytest.raises(ps.ChecksumError) as raised:
        ps.merge_to_bytes(split)
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is ps.ChecksumError
    assert (str(again), again.kind, again.offset) == (
        str(raised.value),
        raised.value.kind,
        raised.value.offset,
    )
    assert ps.verify(split)["ok"] is False


def test_other_errors_have_their_classes(tmp_path: Path) -> None:
    bad = b"\xff" * 100
    with pytest.raises(ps.FormatError):
        ps.split(bad, tmp_path / "out", "tensorflow.GraphDef", max_chunk_size=50)
    with pytest.raises(ValueError, match="no message type"):
        ps.split(b"", tmp_path / "out", "no.Type")
    with pytest.raises(ValueError, match="threads"):
        ps.split(b"", tmp_path / "out", "tensorflow.GraphDef", threads=0)
    with pytest.raises(ValueError, match="a size such as"):
        ps.split(b"", tmp_path / "out", "tensorflow.GraphDef", max_chunk_size="much")
    with pytest.raises(TypeError, match="expected a path"):
        ps.split(7, tmp_path / "out", "tensorflow.GraphDef")
    assert list(tmp_path.iterdir()) == []


class Failing(io.BytesIO):
    """A file that fails midway."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 2 << 20:
            raise ConnectionResetError(errno.ECONNRESET, "midway")
        return super().read(size)


def test_a_file_like_that_fails_midway_raises_its_own_error(tmp_path: Path) -> None:
    node = b"\x0a\x84\x80\x40\x0a\x80\x80\x40" + b"n" * (1 << 20)
    with pytest.raises(ConnectionResetError):
        ps.split(Failing(node * 6), tmp_path / "out", "tensorflow.GraphDef", max_chunk_size=1 << 20)
    assert list(tmp_path.iterdir()) == []


def test_a_callback_is_told_and_may_stop_the_work(tree: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    big = Tree(data=os.urandom(1 << 20))
    for _ in range(40):
        big.children.add(data=big.data)
    done = ps.split(big, tmp_path / "told", progress=lambda *now: told.append(now))
    assert told and told[-1][0] == told[-1][1] >= done.source_size

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        ps.split(big, tmp_path / "stopped", max_chunk_size="1MiB", progress=stop)


def test_threads_share_a_file(split: Path) -> None:
    found: list[object] = []
    with ps.open(split) as file:

        def look() -> None:
            found.extend(file.get(f"children[{number}].name") for number in range(5))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(map(str, found)) == sorted(f"element {n}" for n in range(5) for _ in range(4))


def test_numbers_of_32_bits_lose_the_bits_that_protobuf_drops() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="numbers.proto", package="test", syntax="proto3")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NONE", number=0)
    message = file.message_type.add(name="Numbers")
    kinds = [F.TYPE_INT32, F.TYPE_UINT32, F.TYPE_SINT32, F.TYPE_ENUM, F.TYPE_INT64, F.TYPE_SINT64]
    for number, one in enumerate(kinds, 1):
        field = message.field.add(name=f"n{number}", number=number, type=one)
        field.label = F.LABEL_OPTIONAL
        if one == F.TYPE_ENUM:
            field.type_name = ".test.Kind"
    schema = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    low, high = (1 << 32) - 1, 1 << 32
    expected = {
        # The bytes are those of the number 4294967295 and of the number 4294967301.
        b"\xff\xff\xff\xff\x0f": [-1, low, -(1 << 31), -1, low, -(1 << 31)],
        b"\x85\x80\x80\x80\x10": [5, 5, -3, 5, high + 5, -(high // 2) - 3],
    }
    for value, numbers in expected.items():
        data = b"".join(bytes([number << 3]) + value for number in range(1, len(kinds) + 1))
        with ps.open(data, "test.Numbers", schema) as opened:
            found = [opened.get(f"n{number}") for number in range(1, len(kinds) + 1)]
        assert found == numbers


def test_reports_are_those_of_the_command(split: Path, tree: Any, tmp_path: Path) -> None:
    assert ps.info(split)["chunks"]
    assert ps.verify(split)["ok"]
    original = tmp_path / "original.pb"
    original.write_bytes(tree.SerializeToString())
    assert ps.verify(split, against=original)["ok"]
    assert ps.diff(split, original)["equal"]
    tree.name = "other"
    original.write_bytes(tree.SerializeToString())
    assert not ps.diff(split, original)["equal"]
    sizes = ps.tree(split)
    assert "children" in str(sizes)
    assert "<html" in sizes.to_html() and "srcdoc" in sizes._repr_html_()
    with pytest.raises(FileNotFoundError):
        ps.info(tmp_path / "missing")


def test_a_file_is_checked_against_the_root_that_it_was_split_with(
    tree: Any, tmp_path: Path
) -> None:
    written = ps.split(tree, tmp_path / "tree", max_chunk_size=1000, merkle_root=True)
    root = written.merkle_root
    assert root is not None and root == ps.info(written.path)["merkle_root"]
    report = ps.verify(written.path, root=root)
    assert report["ok"] and report["root"] == root
    other = ps.verify(written.path, root="0" * 64)
    assert not other["ok"] and "its Merkle root is" in other["problems"][0]
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        ps.verify(written.path, root="0011")
    assert ps.split(tree, tmp_path / "without", max_chunk_size=1000).merkle_root is None


def test_the_command_is_in_the_wheel(split: Path) -> None:
    run = [sys.executable, "-m", "proto_splitter"]
    shown = subprocess.run([*run, "info", split], capture_output=True, text=True, check=True)
    assert "children" in shown.stdout
    wrong = subprocess.run([*run, "info", "missing"], capture_output=True, text=True)
    assert wrong.returncode == 2 and wrong.stderr.startswith("protosplit: ")


def test_sizes_are_read_as_people_write_them() -> None:
    from proto_splitter._sizes import size

    cases = {"7": 7, "1KiB": 1024, "1.5 MiB": 1572864, "1GB": 10**9, "2g": 2 << 30, "0.5k": 512}
    for text, expected in cases.items():
        assert size(text) == expected
    for wrong in ["", "x", "-1", "1QiB", "1..5k"]:
        with pytest.raises(ValueError):
            size(wrong)
