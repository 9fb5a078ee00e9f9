"""Runs the README's code unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PACKAGE = Path(__file__).parent.parent / "README.md"
PROJECT = PACKAGE.parents[2] / "README.md"


def field(number: int, content: bytes) -> bytes:
    length, out = len(content), bytearray([number << 3 | 2])
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes(out) + bytes([length]) + content


def graph(weights: np.ndarray[Any, Any]) -> bytes:
    """Returns a tensorflow.GraphDef with one constant."""
    shape = b"".join(field(2, bytes([8, size])) for size in weights.shape)
    tensor = b"\x08\x01" + field(2, shape) + field(4, weights.tobytes())
    value = field(1, b"value") + field(2, field(8, tensor))
    dtype = field(1, b"dtype") + field(2, b"\x30\x01")
    return field(1, field(1, b"weights") + field(2, b"Const") + field(5, dtype) + field(5, value))


@pytest.mark.parametrize(("readme", "count"), [(PACKAGE, 4), (PROJECT, 1)])
def test_the_readme_runs_as_it_stands(
    readme: Path,
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    (tmp_path / "graph.pb").write_bytes(graph(weights))
    (tmp_path / "chunked").mkdir()
    text = readme.read_text().replace('"64MiB"', "100")
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == count
    for block in blocks:
        exec(block, names)
    assert isinstance(names["weights"], np.ndarray)
    assert np.array_equal(names["weights"], weights)
    printed = capsys.readouterr().out
    assert "(3, 4) float32" in printed or all(
        what in printed for what in ("graph.cpb", "weights", "48 bytes")
    )
