"""Tests of ``proto_splitter.tensorflow`` that don't need TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from proto_splitter.tensorflow import _capture


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
