"""Tests for reading tensors by name from every format."""

from __future__ import annotations

import gc
import io
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import proto_splitter as ps
import pytest
from proto_splitter._handle import Tensors
from test_readme import graph

Array = np.ndarray[Any, Any]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def packed(values: Array, bits: int) -> bytes:
    """Packs elements of less than a byte, the first in the lowest bits."""
    whole = sum((int(value) & ((1 << bits) - 1)) << at * bits for at, value in enumerate(values))
    return whole.to_bytes(math.ceil(len(values) * bits / 8), "little")


#: Values of each type, with the type's number and the values' bytes in an ONNX model.
VALUES: dict[str, tuple[Array, int, bytes]] = {}


def _value(name: str, number: int, values: Array, raw: bytes | None = None) -> None:
    VALUES[name] = (values, number, values.tobytes() if raw is None else raw)


_value("float32", 1, np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
_value("bfloat16", 16, np.array([1, -2, 0.5], ml_dtypes.bfloat16))
_value("scalar", 11, np.array(0.25))
_value("empty", 7, np.empty((0, 3), np.int64))
_value("bool", 9, np.array([True, False]))
_few = np.array([-8, 7, -1, 0, 3])
_value("int4", 22, _few.astype(ml_dtypes.int4), packed(_few, 4))
_value("uint2", 25, (_few & 3).astype(ml_dtypes.uint2), packed(_few, 2))
_codes = np.array([0, 1, 33, 63, 31, 8, 62], np.uint8)
_value("float6", 27, _codes.view(ml_dtypes.float6_e2m3fn), packed(_codes, 6))
_value("float4", 23, (_codes & 15).view(ml_dtypes.float4_e2m1fn), packed(_codes, 4))


def model() -> bytes:
    """Returns an onnx.ModelProto with a tensor of each type."""
    graph = b""
    for name, (values, number, raw) in VALUES.items():
        sizes = b"".join(field(1, size) for size in values.shape)
        graph += field(5, sizes + field(2, number) + field(8, name.encode()) + field(9, raw))
    return field(1, 8) + field(7, graph)


@pytest.fixture
def tensors(tmp_path: Path) -> Iterator[Tensors]:
    path = tmp_path / "model.onnx"
    path.write_bytes(model())
    with ps.open(path) as file:
        yield file.tensors


@pytest.mark.parametrize("name", VALUES)
def test_a_tensor_is_read_into_an_array_as_into_a_new_one(tensors: Tensors, name: str) -> None:
    values = VALUES[name][0]
    out = np.ones_like(values)
    assert tensors.read(name, out) is out
    for read in (out, tensors[name]):
        assert (read.dtype, read.shape) == (values.dtype, values.shape)
        assert read.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("name", "out", "expected"),
    [
        ("float32", np.empty((2, 3), np.int32), r"of float32 of the shape \(2, 3\)"),
        ("float32", np.empty((3, 2), np.float32), r"float32 of the shape \(2, 3\), found"),
        ("float32", np.empty(6, np.float32), r"found float32 of the shape \(6,\)"),
        ("float32", np.empty((2, 3), ">f4"), "found >f4"),
        ("float32", np.empty((3, 2), np.float32).T, "C-contiguous"),
        ("float32", np.broadcast_to(np.float32(0), (2, 3)), "C-contiguous"),
        ("float32", np.frombuffer(bytes(24), np.float32).reshape(2, 3), "writable"),
        ("bfloat16", np.empty(3, np.float16), "bfloat16 of the shape"),
        ("int4", np.empty(5, np.int8), "int4 of the shape"),
        ("int4", np.empty(6, ml_dtypes.int4), r"\(5,\)"),
        ("empty", np.empty((3, 0), np.int64), r"\(0, 3\)"),
    ],
)
def test_an_array_of_another_type_or_shape_is_refused(
    tensors: Tensors, name: str, out: Array, expected: str
) -> None:
    before = out.tobytes()
    with pytest.raises(ValueError, match=f"^{name}: expected an array.*{expected}"):
        tensors.read(name, out)
    assert out.tobytes() == before


class BigEndian:
    """A native handle of a big-endian file."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self.raw = values.byteswap().tobytes()

    def tensors(self) -> list[dict[str, Any]]:
        values = self.values
        row = {"name": "t", "dtype": values.dtype.name, "shape": list(values.shape)}
        return [row | {"bytes": values.nbytes, "packed": False, "little_endian": False}]

    def tensor_into(self, name: str, buffer: Any, progress: object) -> None:
        memoryview(buffer)[:] = self.raw

    def fill_tensors(self, names: list[str], buffers: list[Any], progress: object) -> None:
        for name, buffer in zip(names, buffers):
            self.tensor_into(name, buffer, progress)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int64, ml_dtypes.bfloat16])
def test_bytes_of_the_other_order_are_swapped(dtype: Any) -> None:
    values = np.array([1, 2, 3], dtype)
    native: Any = BigEndian(values)
    out = np.zeros(3, dtype)
    for read in (Tensors(native)["t"], Tensors(native).read("t", out), out):
        assert read.dtype == values.dtype
        assert np.array_equal(read, values)


def sources(file: Path) -> Iterator[tuple[str, Any]]:
    """Yields a file in every form that can be opened."""
    data = file.read_bytes()
    yield "path", file
    yield "bytes", data
    yield "bytearray", bytearray(data)
    yield "BytesIO", io.BytesIO(data)
    yield "URL", f"file://{file}"


def contents(tensors: Tensors) -> dict[str, tuple[np.dtype[Any], tuple[int, ...], bytes]]:
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in tensors.items()}


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("onnx.ModelProto", model()),
        ("tensorflow.GraphDef", graph(np.arange(400, dtype=np.float32).reshape(4, 100))),
    ],
)
def test_the_same_tensors_come_from_every_kind_of_input(
    tmp_path: Path, message: str, data: bytes, compression: str
) -> None:
    plain = tmp_path / "model.pb"
    plain.write_bytes(data)
    done = ps.split(plain, tmp_path / "split", message, max_chunk_size=100, compression=compression)
    assert done.is_split
    with ps.open(plain, message) as file:
        expected = contents(file.tensors)
        assert expected
        known = file.format
    for form in (plain, Path(done.path)):
        for name, source in sources(form):
            with ps.open(source, message if form == plain else None) as file:
                assert contents(file.tensors) == expected, (form, name)
                loaded = file.tensors.load()
                assert {key: array.tobytes() for key, array in loaded.items()} == {
                    key: values for key, (_, _, values) in expected.items()
                }, (form, name)
                assert (file.format, file.message_type) == (known, message), (form, name)


def test_tensors_of_a_message_of_no_known_type_are_not_passed_over(tmp_path: Path) -> None:
    # Without an extension, the content would identify the file as a model.
    plain = tmp_path / "message.dat"
    plain.write_bytes(model())
    for name, source in sources(plain):
        with ps.open(source) as file, pytest.raises(ps.SchemaError, match="give it as message"):
            print(name, file.tensors)


def test_a_damaged_chunk_gives_no_tensor(tmp_path: Path) -> None:
    weights = np.arange(10_000, dtype=np.float32).reshape(100, 100)
    done = ps.split(graph(weights), tmp_path / "graph", "tensorflow.GraphDef", max_chunk_size=5000)
    data = bytearray(Path(done.path).read_bytes())
    data[len(data) // 2] ^= 1
    Path(done.path).write_bytes(data)
    for _, source in sources(Path(done.path)):
        with ps.open(source) as file, pytest.raises(ps.ChecksumError):
            print(file.tensors["weights"])


class Counted(io.BytesIO):
    """A file that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def test_tensors_are_listed_once() -> None:
    many = b"".join(
        field(5, field(1, 1 << 21) + field(2, 2) + field(8, b"t%d" % at) + field(9, bytes(1 << 21)))
        for at in range(20)
    )
    source = Counted(field(7, many))
    with ps.open(source, "onnx.ModelProto") as file:
        assert len(file.tensors) == 20
        listing = source.reads
        for _ in range(5):
            assert file.tensors["t0"].nbytes == 1 << 21
        assert listing >= 20
        # Each call takes a few reads of the first tensor, and no reads of the others.
        assert source.reads - listing < 20
        assert file.tensors is file.tensors
    with pytest.raises(ValueError, match="closed"):
        len(file.tensors)


def at_offset(weights: Array, offset: int) -> bytes:
    """Creates a GraphDef whose weights begin at a multiple of eight, plus this many bytes."""
    plain = graph(weights)
    start = plain.index(weights.tobytes())
    # Begins with a field that no reader knows.
    return field(99, bytes((offset - start - 3) % 8)) + plain


WEIGHTS = np.arange(400, dtype=np.float32).reshape(4, 100)
GRAPH_DEF = "tensorflow.GraphDef"


def test_a_tensor_that_stands_as_it_is_in_memory_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    for offset in range(8):
        path.unlink(missing_ok=True)
        path.write_bytes(at_offset(WEIGHTS, offset))
        with ps.open(path, GRAPH_DEF) as file:
            for array in (file.tensors["weights"], file.tensors.load()["weights"]):
                assert np.array_equal(array, WEIGHTS)
                # A tensor at a misaligned address is copied.
                assert array.flags.writeable == (offset % 4 != 0)
                assert array.flags.aligned
            own = file.tensors.read("weights", copy=True)
            assert own.flags.writeable and own.flags.owndata
            if offset % 4:
                with pytest.raises(ValueError, match="weights: .* without a copy"):
                    file.tensors.read("weights", copy=False)
                with pytest.raises(ValueError, match="weights: .* without a copy"):
                    file.tensors.load(copy=False)
            else:
                first = file.tensors.read("weights", copy=False)
                assert np.shares_memory(first, file.tensors["weights"])


def test_what_has_checksums_is_checked_and_so_copied(tmp_path: Path) -> None:
    done = ps.split(
        graph(WEIGHTS), tmp_path / "graph", GRAPH_DEF, max_chunk_size=100, compression="none"
    )
    with ps.open(done.path) as file:
        assert file.tensors["weights"].flags.writeable
        with pytest.raises(ValueError, match="without a copy"):
            file.tensors.read("weights", copy=False)


def test_arrays_of_a_mapped_file_outlive_it(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(at_offset(WEIGHTS, 0))
    arrays: list[Array] = []
    for _ in range(20):
        file = ps.open(path, GRAPH_DEF)
        arrays.append(file.tensors.read("weights", copy=False))
        file.close()
        del file
    gc.collect()
    path.unlink()
    assert all(np.array_equal(array, WEIGHTS) for array in arrays)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_is_another_by_now_is_not_mapped(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(at_offset(WEIGHTS, 0))
    with ps.open(path, GRAPH_DEF) as file:
        tensors = file.tensors
        if replaced:
            other = tmp_path / "other.pb"
            other.write_bytes(at_offset(WEIGHTS + 1, 0))
            other.rename(path)
            # The opened file still exists.
            assert np.array_equal(tensors["weights"], WEIGHTS)
        else:
            os.truncate(path, 100)
            with pytest.raises((OSError, ps.Error)):
                print(tensors["weights"])


def test_a_chunk_of_many_tensors_is_read_through_once(tmp_path: Path) -> None:
    graphs = [graph(WEIGHTS + at).replace(b"weights", b"weight%d" % at) for at in range(5)]
    done = ps.split(
        b"".join(graphs),
        tmp_path / "one",
        GRAPH_DEF,
        always_chunked=True,
        compression="none",
        profile="extended",
        value_chunk_size="1GiB",
    )
    assert len(done.chunks) == 1
    source = Counted(Path(done.path).read_bytes())
    with ps.open(source) as file:
        for at in range(5):
            assert np.array_equal(file.tensors[f"weight{at}"], WEIGHTS + at)
    # Every way to read the tensors detects damage.
    data = bytearray(Path(done.path).read_bytes())
    data[data.index((WEIGHTS + 4).tobytes()) + 5] ^= 1
    Path(done.path).write_bytes(data)
    asks: list[Callable[[Tensors], object]] = [
        lambda tensors: tensors["weight0"],
        lambda tensors: tensors.load(["weight0"]),
        lambda tensors: tensors.load(),
    ]
    for ask in asks:
        with ps.open(done.path) as file, pytest.raises(ps.ChecksumError):
            ask(file.tensors)


def wide_graph(weights: Array) -> bytes:
    """Returns a GraphDef with one constant of any size."""
    tensor = field(1, 1) + field(2, field(2, field(1, weights.size))) + field(4, weights.tobytes())
    node = field(1, b"weights") + field(5, field(1, b"value") + field(2, field(8, tensor)))
    return field(1, node)


def test_progress_of_reading_tensors_is_reported_and_may_stop_it(tmp_path: Path) -> None:
    big = np.zeros(8 << 20, np.float32)
    path = tmp_path / "graph.pb"
    path.write_bytes(wide_graph(big))
    told: list[tuple[int, int]] = []
    with ps.open(path, GRAPH_DEF) as file:
        file.tensors.load(copy=True, progress=lambda *now: told.append(now))
        assert told[-1] == (big.nbytes, big.nbytes)

        def stop(done: int, total: int) -> None:
            raise InterruptedError("enough")

        with pytest.raises(InterruptedError, match="enough"):
            file.tensors.read("weights", copy=True, progress=stop)
        assert np.array_equal(file.tensors["weights"], big)


def test_buffers_to_be_filled_are_apart_and_one_for_each_name(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(graph(WEIGHTS))
    memory = bytearray(3 * WEIGHTS.nbytes)
    view, size = memoryview(memory), WEIGHTS.nbytes
    with ps.open(path, GRAPH_DEF) as file:
        fill = file._native.fill_tensors
        for names, buffers in (
            (["weights"] * 2, [view[:size], view[size - 1 : 2 * size - 1]]),
            (["weights"] * 2, [view[1 : size + 1], view[:size]]),
            (["weights"] * 2, [view[:size], view[:size]]),
            (["weights"], [view[:size], view[size : 2 * size]]),
            (["weights", "weights"], [view[:size]]),
        ):
            with pytest.raises(ValueError):
                fill(names, buffers, None)
        assert bytes(memory) == bytes(len(memory))
        # The buffers may be adjacent, and in any order.
        fill(["weights"] * 2, [view[size : 2 * size], view[:size]], None)
        assert bytes(memory) == WEIGHTS.tobytes() * 2 + bytes(size)


def test_a_model_without_its_data_is_looked_at_and_its_tensors_name_what_is_missing(
    tmp_path: Path,
) -> None:
    entry = b"\x0a\x08location\x12\x06m.data"
    external = b"\x08\x04\x10\x02\x42\x01w\x6a" + bytes([len(entry)]) + entry + b"\x70\x01"
    graph = b"\x12\x01g\x2a" + bytes([len(external)]) + external
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x0a\x3a" + bytes([len(graph)]) + graph)
    with ps.open(path) as file:
        assert list(file.tensors) == ["w"]
        assert file.get("graph.name") == "g"
        with pytest.raises(OSError, match="m.data"):
            file.tensors["w"]


def string_constant(name: str, shape: tuple[int, ...], strings: list[bytes]) -> bytes:
    """Returns a GraphDef's node that is a constant of strings."""
    dims = b"".join(field(2, field(1, length)) for length in shape)
    elements = b"".join(field(8, string) for string in strings)
    tensor = field(1, 7) + field(2, dims) + elements
    attr = field(1, b"value") + field(2, field(8, tensor))
    return field(1, field(1, name.encode()) + field(2, b"Const") + field(5, attr))


def test_strings_are_bytes_in_an_array_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "strings.pb"
    nodes = [
        string_constant("words", (2, 2), [b"a\0", b"", b"\xff" * 100_000, b"b"]),
        string_constant("same", (3,), [b"once"]),
        string_constant("scalar", (), [b"one"]),
        string_constant("empty", (0, 2), []),
    ]
    path.write_bytes(b"".join(nodes))
    with ps.open(path, "tensorflow.GraphDef") as file:
        loaded = file.tensors.load()
        assert all(array.dtype == object for array in loaded.values())
        assert loaded["words"].tolist() == [[b"a\0", b""], [b"\xff" * 100_000, b"b"]]
        assert loaded["same"].tolist() == [b"once"] * 3
        assert loaded["scalar"].shape == () and loaded["scalar"].item() == b"one"
        assert loaded["empty"].shape == (0, 2)
        assert [array.shape for array in file.tensors.values()] == [(2, 2), (3,), (), (0, 2)]
        out = np.empty(3, object)
        assert file.tensors.read("same", out) is out and out[2] == b"once"
        with pytest.raises(ValueError, match="without a copy"):
            file.tensors.read("same", copy=False)


def test_tensors_are_equal_to_a_mapping_of_the_same_arrays(tmp_path: Path, tensors: Tensors) -> None:
    loaded = tensors.load()
    assert tensors == loaded and loaded == tensors
    name = next(name for name, array in loaded.items() if array.size)
    others = [
        {**loaded, name: loaded[name].astype(object)},
        {**loaded, "more": loaded[name]},
        {other: array for other, array in loaded.items() if other != name},
        {**loaded, name: loaded[name].ravel()[1:]},
    ]
    assert all(tensors != other for other in others)
    assert tensors != 1
    path = tmp_path / "strings.pb"
    for words in ([b"a", b"b"], [b"a", b"c"]):
        path.write_bytes(string_constant("words", (2,), words))
        read = ps.open(path, message="tensorflow.GraphDef").tensors
        assert (read == {"words": np.array([b"a", b"b"], object)}) == (words[1] == b"b")


def test_strings_that_do_not_fit_their_shape_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "strings.pb"
    for shape, strings in (((1,), [b"a", b"b"]), ((1 << 40,), [b"a"])):
        path.write_bytes(string_constant("words", shape, strings))
        with ps.open(path, "tensorflow.GraphDef") as file, pytest.raises(ps.Error):
            file.tensors.load()


def test_levels_of_detail_of_a_paddle_parameter_are_listed(tmp_path: Path) -> None:
    levels = [[0, 2, 3], [0, 2, 4, 9]]
    stored = b"".join(np.array([8 * len(level), *level], "<u8").tobytes() for level in levels)
    # Describes a tensor of the type uint8 with one dimension.
    described = field(1, 20) + field(2, 9)
    head = np.uint32(0).tobytes() + np.uint64(len(levels)).tobytes() + stored
    tensor = np.uint32(0).tobytes() + np.int32(len(described)).tobytes() + described + bytes(9)
    path = tmp_path / "model.pdiparams"
    path.write_bytes(head + tensor)
    with ps.open(path) as file:
        (name,) = file.tensors
        assert file.tensors.info(name).shape == (9,)
        assert file.tensors.lod(name) == levels
        with pytest.raises(KeyError):
            file.tensors.lod("absent")


def test_a_tensor_is_appended_to_paddle_parameters(tmp_path: Path) -> None:
    path, saved = tmp_path / "model.pdiparams", tmp_path / "next.npy"
    path.touch()
    values = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    half = np.array([1, -2, 0.5], ml_dtypes.bfloat16)
    arrays: list[Array] = [values, values.T, values.astype(">f4"), np.array(0.25), half]
    for at, array in enumerate(arrays):
        report = ps.append(path, array)
        assert (report["counter"], report["shape"]) == (at, list(array.shape))
    np.save(saved, values)
    told: list[tuple[int, int]] = []
    for source in (saved, saved.read_bytes(), io.BytesIO(saved.read_bytes())):
        ps.append(path, source, lod=[[0, 1, 2]], progress=lambda *now: told.append(now))
        arrays.append(values)
    assert told[-1] == (24, 24)
    ps.append(path, half.view(np.uint16), dtype="bfloat16")
    ps.append(path, half.tobytes(), dtype="bfloat16", shape=[3])
    arrays += [half, half]
    with ps.open(path) as file:
        names = list(file.tensors)
        assert len(names) == len(arrays)
        for name, array in zip(names, arrays):
            assert np.array_equal(file.tensors[name], array)
        assert file.tensors.lod(names[5]) == [[0, 1, 2]]

    before = path.read_bytes()
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (np.array(["text"]), {}, "there is no type"),
        (values.astype(ml_dtypes.int4), {}, "Paddle has no elements of the type int4"),
        (values, {"shape": [6]}, "an array has its own shape"),
        (values, {"dtype": "int32"}, "have the type float32, not int32"),
        (values.view(np.uint32), {"dtype": "float32"}, "have the type uint32, not float32"),
        (values.tobytes(), {"shape": [6]}, "needs an element type"),
        (values.tobytes(), {"dtype": "float32", "shape": [5]}, "more than the 20 bytes"),
        (saved, {"lod": [[0, 1]]}, "LoD"),
    ]
    for tensor, options, why in refused:
        with pytest.raises(ValueError, match=why):
            ps.append(path, tensor, **options)
    with pytest.raises(ValueError, match="an object can't be appended to"):
        ps.append("s3://bucket/model.pdiparams", values)
    assert path.read_bytes() == before
