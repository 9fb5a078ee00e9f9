"""Conversions and checks of sizes in arguments."""

from __future__ import annotations

import re

_UNITS = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def size(value: int | str) -> int:
    """Converts a number or a string, such as ``"512MiB"`` or ``"1.5 GiB"``, to a number of bytes.

    ``K``, ``M``, ``G``, ``T`` and ``KiB``, ``MiB``, ``GiB``, ``TiB`` are powers of 1024; ``KB``,
    ``MB``, ``GB``, ``TB`` are powers of 1000.

    Raises:
        ValueError: If the string isn't a size, or the number is negative.

    >>> size("1.5 KiB"), size("1GB"), size(7)
    (1536, 1000000000, 7)
    """
    if not isinstance(value, (int, str)) or isinstance(value, bool):
        raise ValueError(f"expected a size in bytes or a string such as 512MiB, found {value!r}")
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"expected a size in bytes, found {value}")
        return value
    found = _SIZE.fullmatch(value.strip().lower())
    unit = _UNITS.get(found[2]) if found else None
    if found is None or unit is None:
        raise ValueError(f"expected a size such as 512MiB, found {value!r}")
    whole, _, fraction = found[1].partition(".")
    scaled = int(whole) * unit
    if fraction:
        scaled += int(fraction) * unit // 10 ** len(fraction)
    return scaled


def check(name: str, value: int | None, least: int) -> None:
    """Raises ``ValueError`` if an argument is smaller than ``least``; ``None`` is always valid."""
    if value is not None and value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}")
