"""Tests that importing the package is cheap, and defines all its names."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import proto_splitter as ps
import proto_splitter.tensorflow as pst
import pytest

#: Modules that are slow to import, the slowest first.
LARGE = (
    {"tensorflow", "onnxruntime", "onnx", "numpy", "google.protobuf", "fsspec", "ml_dtypes"},
    {"tempfile", "dataclasses", "json", "typing", "proto_splitter._core"},
)


@pytest.mark.parametrize(
    ("names", "unwanted"),
    [
        ("proto_splitter", LARGE[0] | LARGE[1]),
        ("proto_splitter, proto_splitter.tensorflow, proto_splitter.onnx", LARGE[0]),
    ],
)
def test_an_import_imports_nothing_large(names: str, unwanted: set[str]) -> None:
    script = f"import sys; before = set(sys.modules); import {names}; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert not unwanted & set(ran.stdout.split())


def test_every_name_is_found_when_it_is_looked_up() -> None:
    assert set(ps._MODULES) == set(ps.__all__) <= set(dir(ps))
    for name in ps.__all__:
        assert getattr(ps, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'spilt'"):
        getattr(ps, "spilt")


def test_a_protobuf_that_is_too_old_is_said_by_enable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("google.protobuf.__version__", "3.19.6")
    with pytest.raises(ImportError, match=r"needs protobuf 3\.20\.3 or later, found 3\.19\.6"):
        pst.enable()


def test_a_tensorflow_that_is_too_old_is_said_by_enable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(__version__="2.15.1"))
    with pytest.raises(ImportError, match=r"needs tensorflow 2\.16 or later, found 2\.15\.1"):
        pst.enable()
