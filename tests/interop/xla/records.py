"""A reader of Riegeli files that shares no code with record-file. Reads simple chunks, and ignores their hashes."""

import struct
from collections.abc import Iterator

import cramjam

BLOCK = 1 << 16


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


class Chunks:
    def __init__(self, file: bytes) -> None:
        self.file, self.at = file, 0

    def take(self, count: int) -> bytes:
        """Returns the next bytes, without the headers at the start of every block."""
        taken = bytearray()
        while len(taken) < count:
            if self.at % BLOCK == 0:
                self.at += 24
            step = min(count - len(taken), BLOCK - self.at % BLOCK)
            part = self.file[self.at : self.at + step]
            assert len(part) == step, "the file is cut"
            taken += part
            self.at += step
        return bytes(taken)

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        while self.at < len(self.file):
            begin = self.at
            _, size, _, kind, _ = struct.unpack("<5Q", self.take(40))
            data = self.take(size)
            # Each record occupies at least one position.
            self.at = max(self.at, begin + (kind >> 8))
            if 0 < self.at % BLOCK < 24:
                self.at += 24 - self.at % BLOCK
            yield kind & 255, kind >> 8, data


def unpacked(codec: int, data: bytes) -> bytes:
    if codec == 0:
        return data
    size, at = varint(data, 0)
    module = {ord("s"): cramjam.snappy.decompress_raw, ord("z"): cramjam.zstd.decompress, ord("b"): cramjam.brotli.decompress}[codec]
    data = bytes(module(data[at:])) if size else b""
    assert len(data) == size
    return data


def records(file: bytes) -> list[bytes]:
    found = []
    for kind, count, data in Chunks(file):
        if kind != ord("r"):
            continue
        size, at = varint(data, 1)
        sizes, values = unpacked(data[0], data[at : at + size]), unpacked(data[0], data[at + size :])
        place = start = 0
        for _ in range(count):
            size, place = varint(sizes, place)
            found.append(values[start : start + size])
            start += size
    return found
