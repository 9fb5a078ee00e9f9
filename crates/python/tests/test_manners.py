"""Tests for the usual behavior of Python objects: slices, pickles, tables, and clear errors."""

from __future__ import annotations

import errno
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import proto_splitter as ps
import pytest
from conftest import Tree
from proto_splitter import reports
from test_faults import model

MODEL = Path(__file__).parents[3] / "tests/data/tensorflow/functions_consts"


def buffer(data: bytes) -> ps.Buffer:
    return ps.merge_to_bytes(data)


@pytest.mark.parametrize(
    "at", [slice(None), slice(2, 5), slice(-3, None), slice(5, 2), slice(None, None, 3), slice(8, 0, -2)]
)
def test_a_buffer_is_sliced_as_bytes_are(at: slice) -> None:
    data = Tree(name="a name").SerializeToString()
    assert bytes(buffer(data)[at]) == data[at]


def test_a_buffer_has_bytes_by_index() -> None:
    data = Tree(name="a name").SerializeToString()
    found = buffer(data)
    assert [found[at] for at in (0, -1, 3)] == [data[0], data[-1], data[3]]
    assert bytes(found[at] for at in range(len(found))) == data
    for at in (len(data), -len(data) - 1):
        with pytest.raises(IndexError):
            found[at]
    with pytest.raises(TypeError):
        found["name"]  # type: ignore[call-overload]


def test_an_open_file_is_pickled_by_its_path(
    tree: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, schema = ps.schema_of(tree)
    (tmp_path / "tree.pb").write_bytes(tree.SerializeToString())
    monkeypatch.chdir(tmp_path)
    with ps.open("tree.pb", name, schema) as file:
        pickled = pickle.dumps(file)
    monkeypatch.chdir("/")
    with pickle.loads(pickled) as again:
        assert again.get("name") == "root"
    with ps.open(tree.SerializeToString(), name, schema) as file:
        with pytest.raises(TypeError, match="path"):
            pickle.dumps(file)


def test_a_notebook_shows_tensors_as_a_table() -> None:
    with ps.open(MODEL) as model:
        shown = model.tensors._repr_html_()
        assert shown.count("<tr>") == len(model.tensors) + 1
        assert "<th>shape</th>" in shown and "300" in shown
    assert "<iframe" in ps.tree(MODEL)._repr_html_()


@pytest.mark.parametrize("given", [1e9, None, b"1GiB", "many", -1, True])
def test_what_is_no_size_is_a_value_error(given: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        ps.split(Tree(), tmp_path / "tree", max_chunk_size=given)


@pytest.mark.parametrize("given", [0, -1, 1.5, "2", True, 1 << 70])
def test_what_is_no_number_of_threads_is_a_value_error(given: Any, tmp_path: Path) -> None:
    calls: list[Callable[[], object]] = [
        lambda: ps.split(Tree(), tmp_path / "tree", threads=given),
        lambda: ps.merge(b"", tmp_path / "tree", threads=given),
        lambda: ps.read(b"", Tree, threads=given),
        lambda: ps.open(MODEL, threads=given),
        lambda: ps.externalize(MODEL, tmp_path / "lean", threads=given),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="threads: expected a number of at least 1, found "):
            call()


def test_a_progress_that_cant_be_called_is_a_value_error(tmp_path: Path) -> None:
    not_one: Any = 3
    calls: list[Callable[[], object]] = [
        lambda: ps.split(Tree(), tmp_path / "tree", progress=not_one),
        lambda: ps.merge(b"", tmp_path / "tree", progress=not_one),
        lambda: ps.merge_to_bytes(b"", progress=not_one),
        lambda: ps.read(b"", Tree, progress=not_one),
        lambda: ps.externalize(MODEL, tmp_path / "lean", progress=not_one),
        lambda: ps.internalize(MODEL, tmp_path / "whole", progress=not_one),
        lambda: ps.convert(MODEL, tmp_path / "model", progress=not_one),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="progress: expected a function, found 3"):
            call()
    assert not list(tmp_path.iterdir())


def test_reports_have_the_keys_that_their_types_say(tree: Any, tmp_path: Path) -> None:
    written = ps.split(tree, tmp_path / "tree", max_chunk_size=9000)
    lean, again = tmp_path / "lean", tmp_path / "again"
    onnx = tmp_path / "model.onnx"
    onnx.write_bytes(model(bytes(5000)))
    found: list[tuple[Any, Any]] = [
        (reports.InfoReport, ps.info(written.path)),
        (reports.ChunkReport, ps.info(written.path)["chunks"][0]),
        (reports.InfoReport, ps.info(onnx)),
        (reports.LargeTensor, ps.info(onnx)["largest"][0]),
        (reports.VerifyReport, ps.verify(written.path)),
        (reports.VerifyReport, ps.verify(MODEL)),
        (reports.DiffReport, ps.diff(written.path, written.path)),
        (reports.FingerprintReport, ps.fingerprint(MODEL)),
        (reports.ExternalizeReport, ps.externalize(MODEL, lean, min_size="1KiB")),
        (reports.InternalizeReport, ps.internalize(lean, again)),
    ]
    for kind, report in found:
        known = set(get_type_hints(kind))
        assert set(report) <= known, (kind, set(report) - known)
        assert kind.__required_keys__ <= set(report), (kind, kind.__required_keys__ - set(report))


FULL = """
import resource, sys
import proto_splitter as ps
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    if sys.argv[1] == "split":
        ps.split(b"\\x12\\x80\\x80\\x80\\x02" + bytes(4 << 20), sys.argv[2], sys.argv[3],
                 bytes.fromhex(sys.argv[4]), compression="none", always_chunked=True)
    else:
        ps.merge(sys.argv[3], sys.argv[2])
except OSError as error:
    print(error.errno, error.filename)
"""


def test_a_disk_that_is_full_is_said_of_the_file_that_is_written(tmp_path: Path) -> None:
    name, schema = ps.schema_of(Tree)
    whole = tmp_path / "whole"
    ps.split(Tree(data=bytes(4 << 20)), whole, max_chunk_size=9000, compression="none")
    for arguments, wanted in (
        (["split", str(tmp_path / "out"), name, schema.hex()], tmp_path / "out.cpb"),
        (["merge", str(tmp_path / "out.pb"), str(whole) + ".cpb"], tmp_path / "out.pb"),
    ):
        ran = subprocess.run(
            [sys.executable, "-c", FULL, *arguments], capture_output=True, text=True, check=True
        )
        assert ran.stdout.split() == [str(errno.EFBIG), str(wanted)], ran
    assert sorted(file.name for file in tmp_path.iterdir()) == ["whole.cpb"]


