"""Tests of ``proto_splitter.tensorflow`` that don't need TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from proto_splitter.tensorflow import _capture, _places


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0] * 6, True),
        ([-0.0] * 6, True),
        ([0.0, -0.0] * 3, False),
        ([-0.0] * 5 + [0.0], False),
        ([1.5] * 5 + [2.5], False),
        ([float("nan")] * 6, False),
        ([complex(1, 0.0), complex(1, -0.0)], False),
    ],
)
def test_a_constant_is_saved_as_one_element_if_all_elements_have_the_same_bytes(
    values: list[Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.array(values)
    assert _capture.is_uniform(array) is expected
    # The array is compared in several steps.
    monkeypatch.setattr(_capture, "_STEP", 2 * array.itemsize)
    assert _capture.is_uniform(array) is expected


@pytest.mark.parametrize("link", ["assets", "assets.extra"])
def test_a_model_is_not_saved_over_the_files_of_another_model_behind_a_link(
    tmp_path: Path, link: str
) -> None:
    def made(content: str) -> str:
        folder = tmp_path / content
        (folder / link).mkdir(parents=True)
        (folder / link / "constants").write_text(content)
        (folder / "saved_model.pb").write_text(content)
        return str(folder)

    shared, place = tmp_path / "shared", tmp_path / "place"
    shared.mkdir()
    place.mkdir()
    (place / link).symlink_to(shared)
    (shared / "constants").write_text("first")
    with pytest.raises(FileExistsError, match="another model may use this file"):
        _places.move_model(made("second"), str(place))
    assert (shared / "constants").read_text() == "first"
    assert not (place / "saved_model.pb").exists()
    # The same file may be written again.
    _places.move_model(made("first"), str(place))
    assert (shared / "constants").read_text() == "first"
    assert (place / "saved_model.pb").read_text() == "first"


AUTO = """
import importlib.util
import proto_splitter.tensorflow as pst
calls = []
pst.enable = lambda: calls.append("enable")
import proto_splitter.tensorflow.auto
assert importlib.util.find_spec("tensorflow").name == "tensorflow"
assert importlib.util.find_spec("tensorflow").name == "tensorflow"
assert calls == []
import tensorflow
assert calls == ["enable"]
assert type(tensorflow.__spec__.loader).__module__ != "proto_splitter.tensorflow.auto"
"""


def test_auto_enables_the_package_even_if_tensorflow_was_looked_up_before(
    tmp_path: Path,
) -> None:
    (tmp_path / "tensorflow.py").touch()
    ran = subprocess.run(
        [sys.executable, "-c", AUTO], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
