"""Tests that each failure raises a specific exception, and that nothing crashes."""

from __future__ import annotations

import errno
import gc
import html
import io
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import proto_splitter as ps
import pytest
from conftest import Tree
from proto_splitter import _files, _messages
from test_tensors import field


def large(parts: int = 40) -> Any:
    big = Tree(data=os.urandom(1 << 20))
    for _ in range(parts):
        big.children.add(data=os.urandom(1 << 20))
    return big


def model(weights: bytes) -> bytes:
    """Returns an onnx.ModelProto with one tensor."""
    tensor = field(1, len(weights)) + field(2, 2) + field(8, b"w") + field(9, weights)
    return field(1, 8) + field(7, field(5, tensor))


def deep(tmp_path: Path) -> None:
    class Deep(ps.ComposableSplitter):
        def build_chunks(self) -> None:
            self.add_chunk(b"", [*["child"] * 150, "data"])

    Deep(Tree()).write(tmp_path / "deep")


def of_later_version(tmp_path: Path) -> None:
    # Writes Paddle parameters, which begin with a version, levels, and the version of a tensor.
    parameters = tmp_path / "model.pdiparams"
    parameters.write_bytes(struct.pack("<IQI", 0, 0, 7) + bytes(60))
    len(ps.open(parameters).tensors)


def damaged(tmp_path: Path) -> None:
    path = Path(ps.split(large(2), tmp_path / "damaged", max_chunk_size="1MiB").path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    ps.merge_to_bytes(path)


def with_damage(folder: Path) -> Path:
    """Writes a model in chunks, the second of which is damaged."""
    weights = os.urandom(100_000)
    done = ps.split(
        model(weights),
        folder / "damaged",
        "onnx.ModelProto",
        max_chunk_size=50_000,
        profile="extended",
        compression="none",
    )
    path = Path(done.path)
    stored = bytearray(path.read_bytes())
    stored[stored.index(weights[1000:1010])] ^= 1
    path.write_bytes(stored)
    return path


def undamaged(folder: Path) -> Path:
    path = folder / "other.onnx"
    path.write_bytes(model(bytes(100_000)))
    return path


def cut_short(folder: Path) -> Path:
    path = folder / "cut.onnx"
    path.write_bytes(model(bytes(10_000))[:-500])
    return path


def not_a_model(folder: Path) -> Path:
    (folder / "model").mkdir()
    (folder / "model" / "saved_model.pb").write_bytes(b"\xff\xff")
    return folder / "model"


def not_in_chunks(folder: Path) -> Path:
    (folder / "plain.cpb").write_bytes(Tree(name="plain").SerializeToString())
    return folder / "plain.cpb"


def without_chunks(tmp_path: Path) -> None:
    not_in_chunks(tmp_path)
    ps.merge(tmp_path / "plain.cpb", tmp_path / "merged.pb")


def open_of(tree: Any, path: str) -> None:
    with ps.open(tree.SerializeToString(), *_messages.schema_of(tree)) as file:
        file.get(path)


def cancelled(tmp_path: Path, raised: type[BaseException]) -> None:
    def stop(done: int, total: int) -> None:
        raise raised

    ps.split(large(), tmp_path / "cancelled", max_chunk_size="1MiB", progress=stop)


#: A failing call, the class of its exception, another class of it, and its attributes.
OURS: list[tuple[Callable[[Path], object], type[Exception], type[Exception], dict[str, object]]] = [
    (
        lambda folder: ps.split(b"\xff" * 100, folder / "out", "tensorflow.GraphDef"),
        ps.FormatError,
        ValueError,
        {"kind": "InvalidMessage", "offset": 0},
    ),
    (without_chunks, ps.FormatError, ValueError, {"kind": "NotChunked"}),
    (damaged, ps.ChecksumError, ValueError, {"kind": "Record"}),
    (
        lambda folder: open_of(Tree(), "children[0].name"),
        ps.PathError,
        LookupError,
        {"kind": "InvalidPath", "path": "children[0].name"},
    ),
    (
        lambda folder: ps.split(Tree(texts=["t" * 9000]), folder / "out", max_chunk_size=1000),
        ps.UncuttableError,
        ValueError,
        {"kind": "Uncuttable", "path": "texts[0]"},
    ),
    (
        lambda folder: ps.split(b"", folder / "out", "test.Tree", b"\xff\xff"),
        ps.SchemaError,
        ValueError,
        {"kind": "InvalidSchema"},
    ),
    (
        lambda folder: ps.split(b"", folder / "out", "no.Type"),
        ps.SchemaError,
        ValueError,
        {"kind": "InvalidSchema"},
    ),
    (
        lambda folder: ps.tree(cut_short(folder), message="onnx.ModelProto"),
        ps.FormatError,
        ValueError,
        {"kind": "InvalidMessage", "offset": 2},
    ),
    (
        lambda folder: ps.diff(with_damage(folder), undamaged(folder)),
        ps.ChecksumError,
        ValueError,
        {"kind": "Record", "chunk": 1},
    ),
    (
        lambda folder: ps.convert(with_damage(folder), folder / "out.onnx", to="external"),
        ps.ChecksumError,
        ValueError,
        {"kind": "Record", "chunk": 1},
    ),
    (
        lambda folder: ps.info(not_in_chunks(folder)),
        ps.FormatError,
        ValueError,
        {"kind": "NotChunked"},
    ),
    (
        lambda folder: ps.fingerprint(not_a_model(folder)),
        ps.FormatError,
        ValueError,
        {"kind": "InvalidMessage", "offset": 0},
    ),
    (
        lambda folder: ps.externalize(not_a_model(folder), folder / "out"),
        ps.FormatError,
        ValueError,
        {"kind": "InvalidMessage", "offset": 0},
    ),
    (deep, ps.LimitError, ValueError, {"kind": "LimitExceeded"}),
    (of_later_version, ps.VersionError, ValueError, {"kind": "UnsupportedVersion", "offset": 12}),
]


@pytest.mark.parametrize(("work", "ours", "base", "attributes"), OURS)
def test_what_is_wrong_with_data_has_a_class_of_ours_that_says_where(
    work: Callable[[Path], object],
    ours: type[Exception],
    base: type[Exception],
    attributes: dict[str, object],
    tmp_path: Path,
) -> None:
    with pytest.raises(base) as raised:
        work(tmp_path)
    assert type(raised.value) is ours and isinstance(raised.value, ps.Error)
    for name, value in attributes.items():
        assert getattr(raised.value, name) == value
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is ours and str(again) == str(raised.value)
    assert again.__dict__ == raised.value.__dict__


def settled(folder: Path) -> None:
    """Creates files and folders at the paths to which calls write."""
    (folder / "file").write_bytes(b"")
    (folder / "folder").mkdir()
    (folder / "there.pb").write_bytes(b"")
    (folder / "loop").symlink_to("loop")
    (folder / "model.onnx").write_bytes(model(bytes(5000)))


def split(source: str, prefix: str) -> object:
    return ps.split(source, prefix, "tensorflow.GraphDef")


#: A call in the folder of `settled`, and the class, number and file name of its exception.
OF_SYSTEM: list[tuple[Callable[[], object], type[OSError], int, str]] = [
    (lambda: split("missing.pb", "out"), FileNotFoundError, errno.ENOENT, "missing.pb"),
    (lambda: ps.open("missing"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: ps.merge("missing", "out.pb"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: ps.info("missing"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: split("loop", "out"), OSError, errno.ELOOP, "loop"),
    (lambda: split("x" * 300, "out"), OSError, errno.ENAMETOOLONG, "x" * 300),
    (lambda: split("folder", "out"), IsADirectoryError, errno.EISDIR, "folder"),
    (lambda: ps.merge_to_bytes("folder"), IsADirectoryError, errno.EISDIR, "folder"),
    (lambda: split("file", "x" * 300), OSError, errno.ENAMETOOLONG, "x" * 300 + ".pb"),
    (lambda: split("file", "loop/out"), OSError, errno.ELOOP, "loop/out.pb"),
    (lambda: ps.merge("there", "x" * 300), OSError, errno.ENAMETOOLONG, "x" * 300),
    (lambda: split("file", "none/out"), FileNotFoundError, errno.ENOENT, "none/out.cpb"),
    (lambda: split("file", "file/out"), NotADirectoryError, errno.ENOTDIR, "file/out.cpb"),
    (lambda: split("file", "file/in/out"), NotADirectoryError, errno.ENOTDIR, "file/in/out.cpb"),
    (lambda: split("file", "there"), FileExistsError, errno.EEXIST, "there.pb"),
    (lambda: ps.merge("there", "file"), FileExistsError, errno.EEXIST, "file"),
    (lambda: ps.merge("there", "none/out"), FileNotFoundError, errno.ENOENT, "none/out"),
    (lambda: ps.tree("missing"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: ps.verify("missing"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: ps.diff("file", "missing"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: ps.verify("file", against="missing"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: ps.fingerprint("missing"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: ps.externalize("missing", "out"), FileNotFoundError, errno.ENOENT, "missing"),
    (lambda: convert("model.onnx", "file"), FileExistsError, errno.EEXIST, "file"),
    (lambda: convert("model.onnx", "file/out"), NotADirectoryError, errno.ENOTDIR, "file/out"),
]


def convert(source: str, target: str) -> object:
    return ps.convert(source, target, to="external")


@pytest.mark.parametrize(("work", "kind", "number", "name"), OF_SYSTEM)
def test_errors_of_the_system_are_its_own_with_number_and_file(
    work: Callable[[], object],
    kind: type[OSError],
    number: int,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settled(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as raised:
        work()
    assert type(raised.value) is kind
    assert (raised.value.errno, raised.value.filename) == (number, name)
    assert raised.value.strerror == os.strerror(number)
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder in which nobody makes files")
@pytest.mark.parametrize("work", [split, ps.merge])
def test_an_output_that_may_not_be_written_is_named_with_the_number(
    work: Callable[[str, str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as expected:
        open("/sys/out.pb", "xb")
    # The input is named by its prefix, so there is no file with exactly its name.
    source, target = ("file", "/sys/out") if work is split else ("there", "/sys/out.pb")
    with pytest.raises(type(expected.value)) as raised:
        work(source, target)
    assert raised.value.errno == expected.value.errno
    assert raised.value.filename.startswith("/sys/out.")


@pytest.mark.parametrize("raised", [KeyboardInterrupt, RuntimeError])
def test_work_that_is_stopped_raises_what_stopped_it(
    raised: type[BaseException], tmp_path: Path
) -> None:
    with pytest.raises(raised):
        cancelled(tmp_path, raised)


def test_a_file_without_a_type_asks_for_one(tmp_path: Path, tree: Any) -> None:
    class Parts(ps.ComposableSplitter):
        def build_chunks(self) -> None:
            self.add_chunk(b"data", ["data"])

    path = Parts(tree).write(tmp_path / "parts")
    with pytest.raises(ps.SchemaError):
        ps.merge_to_bytes(path)
    name, schema = _messages.schema_of(Tree)
    assert Tree.FromString(bytes(ps.merge_to_bytes(path, message=name, schema=schema)))


#: Functions that read or write a whole file.
VERBS: list[Callable[[Path, Path, ps.File, Callable[[int, int], object]], object]] = [
    lambda source, out, file, told: ps.verify(source, progress=told),
    lambda source, out, file, told: ps.diff(source, source.with_suffix(".cpb"), progress=told),
    lambda source, out, file, told: ps.convert(source, out, to="external", progress=told),
    lambda source, out, file, told: file.tensors.read("w", copy=True, progress=told),
    lambda source, out, file, told: file.tensors.load(copy=True, progress=told),
]


@pytest.mark.parametrize("verb", VERBS)
def test_a_callback_is_told_how_far_a_verb_is_and_ends_it(
    verb: Callable[[Path, Path, ps.File, Callable[[int, int], object]], object], tmp_path: Path
) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(model(os.urandom(30 << 20)))
    ps.split(
        source, tmp_path / "model", "onnx.ModelProto", profile="extended", max_chunk_size="10MiB"
    )
    told: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with ps.open(source) as file:
        before = sorted(tmp_path.iterdir())
        with pytest.raises(RuntimeError, match="enough"):
            verb(source, tmp_path / "stopped.onnx", file, stop)
        # The callback may have been called only at the end, when everything was written.
        left = {path.name for path in set(tmp_path.iterdir()) - set(before)}
        assert all(name.startswith("stopped.onnx") for name in left)
        verb(source, tmp_path / "out.onnx", file, lambda *now: told.append(now))
    assert told[-1][0] == told[-1][1] > 0
    assert all(0 <= done <= total for done, total in told)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Makes Ctrl-C raise, even if a shell runs the tests in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_work_and_leaves_nothing(tmp_path: Path, ctrl_c: None) -> None:
    def interrupt(done: int, total: int) -> None:
        signal.raise_signal(signal.SIGINT)

    source = tmp_path / "big.pb"
    source.write_bytes(large().SerializeToString())
    name, schema = _messages.schema_of(Tree)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        ps.split(
            source, tmp_path / "out", name, schema, max_chunk_size="1MiB", progress=interrupt
        )
    left = sorted(tmp_path.iterdir())
    # The callback may have been called only at the end, when everything was written.
    assert left in (before, sorted([*before, tmp_path / "out.cpb"]))


def test_a_forked_process_reads_an_open_file(tmp_path: Path, tree: Any) -> None:
    name, schema = _messages.schema_of(Tree)
    path = ps.split(tree, tmp_path / "tree", max_chunk_size=2000, profile="extended").path
    with ps.open(path, name, schema) as file:
        assert file.get("children[0].name") == "element 0"
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if file.get("children[1].name") == "element 1" else 3)
            finally:
                os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert file.get("children[2].name") == "element 2"


def test_views_outlive_their_file_whoever_closes_it(tmp_path: Path, tree: Any) -> None:
    name, schema = _messages.schema_of(Tree)
    path = ps.split(tree, tmp_path / "tree", max_chunk_size=2000, profile="extended").path
    for _ in range(10):
        file = ps.open(path, name, schema)
        views: list[memoryview] = []
        stopped = threading.Event()

        def look(file: ps.File = file, views: list[memoryview] = views) -> None:
            try:
                while not stopped.is_set():
                    views.append(memoryview(file.get("children[3]")))
            except ValueError:
                pass  # The file is closed now.

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        file.get("child.name")
        file.close()
        stopped.set()
        del file
        gc.collect()
        for thread in threads:
            thread.join()
        expected = tree.children[3].SerializeToString()
        assert all(bytes(view) == expected for view in views)


def test_a_write_that_fails_midway_is_raised_and_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "big.pb"
    source.write_bytes(large(8).SerializeToString())
    name, schema = _messages.schema_of(Tree)
    script = """
import errno, resource, signal, sys
import proto_splitter as ps
source, out, name, schema = sys.argv[1:]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, resource.RLIM_INFINITY))
try:
    ps.split(source, out, name, bytes.fromhex(schema), max_chunk_size="1MiB", compression="none")
except OSError as error:
    sys.exit(0 if error.errno == errno.EFBIG else f"{error!r}")
sys.exit("the file was written")
"""
    arguments = [str(source), str(tmp_path / "out"), name, schema.hex()]
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script, *arguments],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["big.pb"]


HOLDING = """
import ctypes, sys
import proto_splitter as ps

# A function of this type keeps the interpreter's lock while it runs.
call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Stream(ctypes.Structure):
    _fields_ = [("get_schema", call), ("get_next", call)]


pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
source, name, schema = sys.argv[1:]
with ps.open(open(source, "rb"), name, bytes.fromhex(schema)) as file:
    capsule = file.table("children[*]", ["name"]).__arrow_c_stream__()
    stream = pointer(capsule, b"arrow_array_stream")
    array = (ctypes.c_int64 * 10)()
    assert Stream.from_address(stream).get_next(stream, ctypes.addressof(array)) == 0
    print(array[0])
"""


def test_a_table_of_a_file_object_is_read_by_a_library_that_holds_the_lock(
    tmp_path: Path,
) -> None:
    source = tmp_path / "big.pb"
    source.write_bytes(large(8).SerializeToString())
    name, schema = _messages.schema_of(Tree)
    ran = subprocess.run(
        [sys.executable, "-c", HOLDING, str(source), name, schema.hex()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "8\n"


def test_a_notebook_shows_a_tree_as_a_page(tmp_path: Path) -> None:
    graph = tmp_path / "graph.pb"
    graph.write_bytes(b"\x0a\x06\x0a\x04<&\">")
    shown = ps.tree(graph, message="tensorflow.GraphDef")
    page = shown._repr_html_()
    assert page.startswith("<iframe srcdoc=") and "&lt;html" in page.lower()
    assert "http://" not in page and "https://" not in page
    assert shown.to_html() in html.unescape(page)


class Lying:
    """A file-like object that returns given values, which may be wrong."""

    def __init__(self, end: object, piece: object) -> None:
        self.end, self.piece = end, piece

    def seek(self, offset: int, whence: int = 0) -> object:
        return self.end if whence == 2 else offset

    def read(self, size: int = -1) -> object:
        return self.piece


@pytest.mark.parametrize("end", [-5, 2**70, 2**63, 1.5, "9"])
def test_an_object_whose_size_is_none_is_refused_and_nothing_is_written(
    tmp_path: Path, end: object
) -> None:
    with pytest.raises(ValueError, match="not the size of a file"):
        ps.split(Lying(end, b""), tmp_path / "out", "tensorflow.GraphDef")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("piece", [None, "text", 7])
def test_an_object_that_reads_no_bytes_is_refused_and_nothing_is_written(
    tmp_path: Path, piece: object
) -> None:
    given = Lying(100, piece)
    with pytest.raises(TypeError, match="not bytes"):
        ps.merge(given, tmp_path / "out.pb")
    with pytest.raises(TypeError, match="not bytes"):
        ps.split(given, tmp_path / "out", "tensorflow.GraphDef")
    with pytest.raises(TypeError, match="not bytes"):
        ps.merge_to_bytes(given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [0, 2])
def test_an_object_that_never_ends_is_refused(tmp_path: Path, more: int) -> None:
    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            assert size is not None and size >= 0
            return b"\x0a" * (size + more)

    with pytest.raises(ValueError, match=r"bytes were read|returned \d+ bytes"):
        ps.merge(Endless(b"\x0a" * 9), tmp_path / "out.pb")
    assert not list(tmp_path.iterdir())


def test_an_object_whose_seek_gives_nothing_is_read_to_its_end_or_refused(tmp_path: Path) -> None:
    class Silent(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            super().seek(offset, whence)
            return None  # type: ignore[return-value]

    class Ended(Silent):
        def read(self, size: int | None = -1) -> bytes:
            return b""

    ps.merge(Silent(b"\x0a\x00"), tmp_path / "whole.pb")
    assert (tmp_path / "whole.pb").read_bytes() == b"\x0a\x00"
    with pytest.raises(ValueError, match="the end is at 2, but 0 bytes were read"):
        ps.merge(Ended(b"\x0a\x00"), tmp_path / "out.pb")
    assert not (tmp_path / "out.pb").exists()


class Elsewhere(io.BytesIO):
    """A file whose contents or positions differ from what it reports."""

    def __init__(self, content: bytes, how: str) -> None:
        super().__init__(content)
        self.how = how

    def seek(self, offset: int, whence: int = 0) -> int:
        at = super().seek(offset, whence)
        if whence == 2 and self.how == "ends sooner":
            return at // 2
        if whence == 0 and self.how == "goes elsewhere":
            return super().seek(1)
        return at

    def read(self, size: int | None = -1) -> bytes:
        if self.how == "gives more" and size is not None and size >= 0:
            size += 1
        return super().read(size)


@pytest.mark.parametrize("how", ["ends sooner", "goes elsewhere", "gives more"])
def test_an_object_that_is_longer_or_elsewhere_than_it_says_is_refused(
    tmp_path: Path, tree: Any, how: str
) -> None:
    name, schema = _messages.schema_of(tree)
    message = tree.SerializeToString()
    with pytest.raises(ValueError, match=r"more bytes follow|went to|returned \d+ bytes"):
        ps.split(Elsewhere(message, how), tmp_path / "out", name, schema)
    chunked = io.BytesIO()
    ps.split(message, chunked, name, schema, always_chunked=True)
    given = Elsewhere(chunked.getvalue(), how)
    with pytest.raises(ValueError, match=r"more bytes follow|went to|returned \d+ bytes"):
        ps.merge_to_bytes(given)
    if how != "gives more":
        with pytest.raises(ValueError, match=r"bytes were read|went to"):
            ps.merge(given, tmp_path / "out.pb")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("said", [True, False])
def test_an_object_that_counts_no_bytes_gets_none_twice(tree: Any, said: bool) -> None:
    class Writer(io.BytesIO):
        def write(self, data: Any) -> int:
            super().write(data)
            return said

    name, schema = _messages.schema_of(tree)
    with pytest.raises(TypeError, match=f"write returned {said}, not"):
        ps.split(tree.SerializeToString(), Writer(), name, schema)
    with pytest.raises(ValueError, match=f"write returned {said}, but"):
        with _files.written_to(Writer()) as path:
            Path(path).write_bytes(b"whole")


def test_a_file_that_is_no_message_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "zoo.py").write_text("import os\n\n\ndef walk(path):\n    return os.walk(path)\n")
    for target in (tmp_path / "out.pb", io.BytesIO()):
        with pytest.raises(ps.Error, match=r"zoo\.py: .*it is text"):
            ps.merge(tmp_path / "zoo.py", target)
    assert [path.name for path in tmp_path.iterdir()] == ["zoo.py"]
