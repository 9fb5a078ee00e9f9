"""Tests for output to objects with `write` and to URLs, and for sources without a path."""

from __future__ import annotations

import errno
import gc
import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import proto_splitter as ps
import pytest
from conftest import Tree
from google.protobuf import struct_pb2
from proto_splitter import _core, _functions, _messages
from test_faults import large, model
from test_readme import field, graph

fsspec = pytest.importorskip("fsspec")
GRAPH_DEF = "tensorflow.GraphDef"


@pytest.fixture
def memory() -> Any:
    """Returns an empty file system in memory."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    return files


class Slow(io.RawIOBase):
    """A target that accepts a few bytes at a time, as a socket may."""

    def __init__(self, most: int = 300 << 10) -> None:
        self.data, self.most = bytearray(), most

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        taken = bytes(data[: self.most])
        self.data += taken
        return len(taken)


class Silent:
    """A target that accepts everything, and returns nothing."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        assert type(data) is bytes and len(data) <= 1 << 20
        self.data += data


class Failing(Silent):
    """A target that fails after it has received some bytes."""

    writes = 0

    def write(self, data: bytes) -> None:
        self.writes += 1
        if len(self.data) + len(data) > 3 << 20:
            raise ConnectionResetError(errno.ECONNRESET, "midway")
        super().write(data)


class Wrong(Silent):
    def write(self, data: bytes) -> int:  # type: ignore[override]
        return len(data) + 1


def in_chunks(message: Any, folder: Path) -> Path:
    done = ps.split(message, folder / "message", max_chunk_size="1MiB", compression="none")
    assert done.is_split
    return Path(done.path)


def test_a_merge_goes_to_whatever_has_write(tmp_path: Path) -> None:
    message = large(8)
    data = message.SerializeToString(deterministic=True)
    ps.split(data, tmp_path / "plain", *_messages.schema_of(Tree), max_chunk_size="1MiB")
    expected = bytes(ps.merge_to_bytes(tmp_path / "plain", **known()))
    assert expected == data
    sources: list[Any] = [tmp_path / "plain", (tmp_path / "plain.cpb").read_bytes()]
    sources.append((tmp_path / "plain.cpb").open("rb"))
    for source in sources:
        slow, silent, plain = Slow(), Silent(), io.BytesIO()
        with gzip.open(tmp_path / "zipped", "wb") as zipped:
            for target in (slow, silent, plain, zipped):
                told: list[tuple[int, int]] = []
                progress: Callable[[int, int], object] = lambda *now: told.append(now)
                merged = ps.merge(source, target, progress=progress, **known())
                assert merged.size == len(data) and merged.is_split and merged.byte_exact
                assert told[-1] == (len(data), len(data))
        assert slow.data == silent.data == plain.getvalue() == data
        assert gzip.decompress((tmp_path / "zipped").read_bytes()) == data


def known() -> dict[str, Any]:
    name, schema = _messages.schema_of(Tree)
    return {"message": name, "schema": schema}


def test_a_split_to_what_has_write_is_the_file(tmp_path: Path) -> None:
    message = large(4)
    path = in_chunks(message, tmp_path)
    silent = Silent()
    done = ps.split(message, silent, max_chunk_size="1MiB", compression="none")
    assert silent.data == path.read_bytes()
    assert (done.path, done.files, done.output_size) == ("Silent", (), len(silent.data))
    assert done.is_split and len(done.chunks) > 3
    small = io.BytesIO()
    whole = ps.split(Tree(name="small"), small)
    assert not whole.is_split and Tree.FromString(small.getvalue()) == Tree(name="small")


WRITES: list[tuple[type[BaseException], Callable[[], Any]]] = [
    (ConnectionResetError, Failing),
    (ValueError, Wrong),
    (TypeError, io.StringIO),
]


@pytest.mark.parametrize(("raised", "target"), WRITES)
def test_an_object_that_fails_midway_raises_its_own_error(
    raised: type[BaseException], target: Callable[[], Any], tmp_path: Path
) -> None:
    message = large(8)
    path = in_chunks(message, tmp_path)
    with pytest.raises(raised):
        ps.split(message, target(), max_chunk_size="1MiB", compression="none")
    failing = target()
    with pytest.raises(raised):
        ps.merge(path, failing, **known())
    if isinstance(failing, Failing):
        # A failed target isn't called again.
        assert failing.writes <= 4
    (tmp_path / "model.onnx").write_bytes(model(os.urandom(4 << 20)))
    with pytest.raises(raised):
        ps.convert(tmp_path / "model.onnx", target(), to="cpb", force=True)
    assert {one.name for one in tmp_path.iterdir()} == {"message.cpb", "model.onnx"}


def test_damage_is_found_when_a_merge_goes_to_what_has_write(tmp_path: Path) -> None:
    path = in_chunks(large(4), tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with pytest.raises(ps.ChecksumError):
        ps.merge(bytes(data), io.BytesIO(), **known())
    with pytest.raises(ps.FormatError):
        ps.merge(b"\x0a\x00", io.BytesIO())
    with pytest.raises(TypeError):
        _core.merge_to(bytes(data), 5, _functions._merge_arguments(None, None, 1), None)


def test_a_callback_stops_what_is_written_to_an_object(tmp_path: Path) -> None:
    path = in_chunks(large(40), tmp_path)

    class Paused(Silent):
        def write(self, data: bytes) -> None:
            super().write(data)
            import time

            time.sleep(0.02)

    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    target = Paused()
    with pytest.raises(RuntimeError, match="enough"):
        ps.merge(path, target, progress=stop, **known())
    assert len(target.data) < path.stat().st_size


def test_urls_are_read_and_written(memory: Any, tmp_path: Path) -> None:
    message = large(4)
    path = in_chunks(message, tmp_path)
    split = ps.split(message, "memory://folder/model", max_chunk_size="1MiB", compression="none")
    assert split.path == "memory://folder/model.cpb"
    assert memory.cat("/folder/model.cpb") == path.read_bytes()
    with pytest.raises(FileExistsError) as raised:
        ps.split(message, "memory://folder/model", max_chunk_size="1MiB")
    assert (raised.value.errno, raised.value.filename) == (errno.EEXIST, split.path)
    ps.split(message, "memory://folder/model", max_chunk_size="1MiB", force=True)

    merged = ps.merge("memory://folder/model.cpb", "memory://folder/merged.pb", **known())
    assert merged.input == "memory://folder/model.cpb"
    assert memory.cat("/folder/merged.pb") == bytes(ps.merge_to_bytes(path, **known()))
    with pytest.raises(FileExistsError):
        ps.merge("memory://folder/model", "memory://folder/merged.pb", **known())
    ps.merge("memory://folder/model", tmp_path / "merged.pb", **known())
    assert (tmp_path / "merged.pb").read_bytes() == memory.cat("/folder/merged.pb")
    with pytest.raises(FileNotFoundError) as missing:
        ps.merge("memory://folder/none", tmp_path / "none.pb")
    assert missing.value.filename == "memory://folder/none"

    with pytest.raises(ZeroDivisionError):
        ps.split(message, "memory://other/model", progress=lambda done, total: 1 // 0)
    assert sorted(memory.find("/")) == ["/folder/merged.pb", "/folder/model.cpb"]


def forms(path: Path, memory: Any) -> list[Any]:
    """Returns a file as every kind of source that has no path."""
    memory.pipe(f"/{path.name}", path.read_bytes())
    return [path.read_bytes(), path.open("rb"), f"memory://{path.name}"]


def test_every_verb_takes_what_has_no_path(memory: Any, tmp_path: Path) -> None:
    message = struct_pb2.Struct()
    for at in range(20):
        message[f"key {at}"] = "v" * 10_000
    options: dict[str, Any] = {"profile": "extended", "embed_schema": True}
    done = ps.split(message, tmp_path / "struct", max_chunk_size="50KiB", **options)
    path, plain = Path(done.path), tmp_path / "struct.pb"
    ps.merge(path, plain)
    for against in forms(plain, memory):
        assert ps.verify(path, against=against)["ok"]
    shown = str(ps.tree(path)).splitlines()
    for source in forms(path, memory):
        assert ps.info(source)["chunks"] == ps.info(path)["chunks"]
        assert ps.verify(source)["ok"]
        assert ps.diff(path, source)["equal"]
        sizes = ps.tree(source)
        gc.collect()
        # Compares the lines after the file's name.
        assert str(sizes).splitlines()[1:] == shown[1:]
        assert "<html" in sizes.to_html()
        with ps.open(source) as file:
            assert file.size() == done.source_size


def test_a_model_is_converted_from_and_to_what_has_no_path(memory: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    weights = np.arange(5000, dtype=np.uint8).tobytes()
    path.write_bytes(model(weights))
    ps.convert(path, tmp_path / "expected.cpb", to="cpb")
    expected = (tmp_path / "expected.cpb").read_bytes()
    for source in forms(path, memory)[1:]:
        target = io.BytesIO()
        ps.convert(source, target, to="cpb")
        assert target.getvalue() == expected
        target.close()
        slow = Slow(99)
        ps.convert(source, slow, to="cpb")
        assert slow.data == expected
        report = ps.convert(source, "memory://to/model.cpb", to="cpb", force=True)
        assert "/tmp" not in str(report).replace(str(tmp_path), "")
        assert memory.cat("/to/model.cpb") == expected
    # A pair has two files.
    with pytest.raises(ValueError, match="more than one file"):
        ps.convert(path, io.BytesIO(), to="external", settings={"min-size": "64"})
    ps.convert(path, "memory://pair/model.onnx", to="external", settings={"min-size": "64"})
    assert len(memory.find("/pair")) == 2


def test_no_file_of_an_output_is_replaced_unless_that_is_forced(
    memory: Any, tmp_path: Path
) -> None:
    path, to = tmp_path / "model.onnx", "memory://pair/model.onnx"
    path.write_bytes(model(bytes(range(250)) * 20))
    external: dict[str, Any] = {"to": "external", "settings": {"min-size": "64"}}
    ps.convert(path, to, **external)
    (data,) = set(memory.find("/pair")) - {"/pair/model.onnx"}
    memory.rm("/pair/model.onnx")
    memory.pipe(data, b"another")
    with pytest.raises(FileExistsError) as raised:
        ps.convert(path, to, **external)
    assert (raised.value.errno, raised.value.filename) == (errno.EEXIST, f"memory:/{data}")
    assert memory.find("/pair") == [data] and memory.cat(data) == b"another"
    ps.convert(path, to, force=True, **external)
    assert len(memory.find("/pair")) == 2 and memory.cat(data) != b"another"


def test_a_conversion_takes_the_options_of_its_form(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model(bytes(range(250)) * 20))
    small: dict[str, Any] = {"max_chunk_size": 2000, "compression": "none", "threads": 1}
    ps.convert(path, tmp_path / "small.cpb", to="cpb", **small)
    chunks = ps.info(tmp_path / "small.cpb")["chunks"]
    assert [chunk["path"] for chunk in chunks] == ["", "graph.initializer[0].raw_data"]
    ps.convert(path, tmp_path / "one.cpb", to="cpb")
    assert len(ps.info(tmp_path / "one.cpb")["chunks"]) == 1
    external: dict[str, Any] = {"to": "external", "settings": {"min-size": "64"}}
    ps.convert(path, tmp_path / "pair.onnx", max_file_size="1MiB", **external)
    with pytest.raises(ValueError, match="max-file-size"):
        ps.convert(path, tmp_path / "no.cpb", to="cpb", max_file_size="1MiB")
    with pytest.raises(ValueError, match="threads: expected a number of at least 1"):
        ps.convert(path, tmp_path / "no.cpb", to="cpb", threads=0)
    assert not (tmp_path / "no.cpb").exists()


def test_a_fingerprint_is_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"\x08\x01")
    (folder / "fingerprint.pb").write_bytes(b"\x08\x07")
    kept = ps.convert(folder, tmp_path / "kept", to="cpb", keep_fingerprint=True)
    assert kept["fingerprint"] == "kept"
    assert (tmp_path / "kept/fingerprint.pb").read_bytes() == b"\x08\x07"
    assert ps.convert(folder, tmp_path / "other", to="cpb")["fingerprint"] != "kept"


def test_a_folder_goes_from_and_to_urls(memory: Any, tmp_path: Path) -> None:
    constant = graph(np.arange(5000, dtype=np.float32).reshape(50, 100))
    memory.pipe("/saved/saved_model.pb", field(2, field(2, constant)))
    report = ps.externalize("memory://saved", "memory://deep/lean", min_size="1KiB")
    assert len(report["moved"]) == 1 and "/tmp" not in str(report)
    found = set(memory.find("/deep/lean"))
    assert found > {"/deep/lean/saved_model.pb"}
    with pytest.raises(FileExistsError):
        ps.externalize("memory://saved", "memory://deep/lean", min_size="1KiB")
    ps.internalize("memory://deep/lean", tmp_path / "again")
    again = (tmp_path / "again/saved_model.pb").read_bytes()
    assert again == memory.cat("/saved/saved_model.pb")
    assert ps.fingerprint("memory://saved")
