"""What goes wrong raises its own exception, and nothing crashes."""

from __future__ import annotations

import errno
import gc
import html
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proto_splitter as ps
import pytest
from conftest import Tree
from proto_splitter import _messages


def large(parts: int = 40) -> Any:
    big = Tree(data=os.urandom(1 << 20))
    for _ in range(parts):
        big.children.add(data=os.urandom(1 << 20))
    return big


@pytest.mark.parametrize("target", ["file/inside/out", "file/out"])
def test_a_file_that_is_used_as_a_folder_is_the_systems_error(
    tmp_path: Path, tree: Any, target: str
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError) as raised:
        ps.split(tree, tmp_path / target)
    assert raised.value.errno in (errno.ENOTDIR, errno.ENOENT, None)


def test_reading_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises((OSError, ps.Error)):
        ps.merge_to_bytes(tmp_path)


def test_a_broken_schema_is_a_schema_error(tmp_path: Path) -> None:
    with pytest.raises((ps.SchemaError, ValueError), match="(?i)schema|descriptor"):
        ps.split(b"", tmp_path / "out", "test.Tree", b"\xff\xff")
    assert not list(tmp_path.iterdir())


def test_a_file_without_a_type_asks_for_one(tmp_path: Path, tree: Any) -> None:
    class Parts(ps.ComposableSplitter):
        def build_chunks(self) -> None:
            self.add_chunk(b"data", ["data"])

    path = Parts(tree).write(tmp_path / "parts")
    with pytest.raises(ps.SchemaError):
        ps.merge_to_bytes(path)
    name, schema = _messages.schema_of(Tree)
    assert Tree.FromString(bytes(ps.merge_to_bytes(path, message=name, schema=schema)))


def test_a_value_that_cant_be_cut_is_an_error_with_its_path(tmp_path: Path) -> None:
    tree = Tree()
    tree.texts.append("t" * 10_000)
    with pytest.raises(ps.UncuttableError) as raised:
        ps.split(tree, tmp_path / "out", max_chunk_size=1000)
    assert raised.value.path is not None and raised.value.path.startswith("texts")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises, also where the tests run in the background of a shell, which ignores it."""
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
    # The callback may have been called at the end only, when all was written.
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
                pass  # It is closed now.

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
sys.exit("it was written")
"""
    arguments = [str(source), str(tmp_path / "out"), name, schema.hex()]
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script, *arguments],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["big.pb"]


def test_importing_the_package_imports_nothing_large() -> None:
    script = """
import sys
import proto_splitter, proto_splitter.tensorflow, proto_splitter.onnx
large = {"numpy", "google.protobuf", "tensorflow", "onnx", "onnxruntime", "fsspec", "ml_dtypes"}
sys.exit(str(large & sys.modules.keys()) if large & sys.modules.keys() else 0)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_notebook_shows_a_tree_as_a_page(tmp_path: Path) -> None:
    graph = tmp_path / "graph.pb"
    graph.write_bytes(b"\x0a\x06\x0a\x04<&\">")
    shown = ps.tree(graph, message="tensorflow.GraphDef")
    page = shown._repr_html_()
    assert page.startswith("<iframe srcdoc=") and "&lt;html" in page.lower()
    assert "http://" not in page and "https://" not in page
    assert shown.to_html() in html.unescape(page)
