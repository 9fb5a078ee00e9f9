"""A progress bar."""

from __future__ import annotations

import sys
import time

from .util import format_bytes

#: Width of the bar, in characters.
_WIDTH = 30
#: Minimum time between two updates, in seconds.
_PACE = 0.1


class Bar:
    """A progress bar on standard error, called with the bytes done and the total.

    If standard error isn't a terminal, the bar prints one line at the end.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = 0.0
        self._ended = -1

    def __call__(self, done: int, total: int) -> None:
        at_end = done >= total
        if at_end and self._ended == total:
            return
        self._ended = total if at_end else -1
        is_terminal = sys.stderr.isatty()
        now = time.monotonic()
        if not at_end and (not is_terminal or now < self._next):
            return
        self._next = now + _PACE
        full = _WIDTH if at_end else _WIDTH * done // total
        bar = f"[{'#' * full:<{_WIDTH}}] " if is_terminal else ""
        text = f"{self._what} {bar}{format_bytes(done)} of {format_bytes(total)}"
        start, end = ("\r", "\x1b[K") if is_terminal else ("", "")
        sys.stderr.write(start + text + end + ("\n" if at_end else ""))
        sys.stderr.flush()
