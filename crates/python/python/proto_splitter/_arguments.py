"""Checks of common arguments, which report invalid arguments before any work is done."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any


def thread_count(value: Any) -> int | None:
    """Returns a valid number of threads; ``None`` means one per core.

    Raises:
        ValueError: If the value isn't a number, or is less than 1.

    >>> thread_count(4), thread_count(None)
    (4, None)
    """
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool) or not 1 <= number <= sys.maxsize:
        raise ValueError(f"threads: expected a number of at least 1, found {value!r}")
    return number


def progress_of(value: Any) -> Callable[[int, int], object] | None:
    """Returns the function to call with the progress; ``None`` if progress isn't reported.

    Raises:
        ValueError: If the value can't be called.
    """
    if value is not None and not callable(value):
        raise ValueError(f"progress: expected a function, found {value!r}")
    return value  # type: ignore[no-any-return]
