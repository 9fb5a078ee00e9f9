"""Checks modules and profiles over 2 GiB; see large.sh."""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

PIECE = bytes(range(1, 251)) * 4000


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class Part:
    """A message that is written without being in memory. Consists of bytes, nested parts, and numbers of bytes taken from PIECE."""

    def __init__(self, *parts: "bytes | int | Part") -> None:
        self.parts = parts
        self.size = sum(part if isinstance(part, int) else len(part) if isinstance(part, bytes) else part.size for part in parts)

    def write(self, file) -> None:
        for part in self.parts:
            if isinstance(part, bytes):
                file.write(part)
            elif isinstance(part, Part):
                part.write(file)
            else:
                for at in range(0, part, len(PIECE)):
                    file.write(PIECE[: min(len(PIECE), part - at)])


def field(number: int, *parts: "bytes | int | Part") -> Part:
    value = Part(*parts)
    return Part(varint(number << 3 | 2), varint(value.size), value)


def number(field_number: int, value: int) -> bytes:
    return varint(field_number << 3) + varint(value)


def constant(name: str, kind: int, data: int, size: int, width: int) -> Part:
    """Returns an instruction with a literal of this many bytes."""
    shape = (number(2, kind), field(3, varint(size // width)), field(5, field(1, b"\0")))
    literal = field(8, field(1, *shape), field(data, size))
    return field(2, field(1, name.encode()), field(2, b"constant"), field(3, *shape), literal)


def module(*computations: Part) -> Part:
    return Part(field(1, field(1, b"large"), *computations, number(5, 7)), field(3, field(1, number(1, 3))))


def digest(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def written(path: pathlib.Path, part: Part) -> pathlib.Path:
    with path.open("wb") as file:
        part.write(file)
    return path


def xla(split: pathlib.Path, expected: str) -> None:
    reader = os.environ.get("READ_SPLIT_HLO")
    if reader is None:
        print("skipped: XLA's own reader, which READ_SPLIT_HLO would name", flush=True)
        return
    done = subprocess.run([reader, split], capture_output=True, text=True)
    assert expected in done.stdout, done.stdout + done.stderr
    print(f"XLA's reader: {done.stdout.strip().replace(chr(10), '; ')}", flush=True)


def modules(run, folder: pathlib.Path) -> None:
    whole, split, back = folder / "module.hlo.pb", folder / "module.riegeli", folder / "back.pb"
    # A literal of a type that an override can replace, and two of types that it can't.
    kinds = [("u8", 6, 3, 1), ("f32", 11, 8, 4), ("s8", 2, 15, 1)]
    computations = [field(3, field(1, f"c{name}".encode()), constant(name, kind, data, 740_000_000, width)) for name, kind, data, width in kinds]
    written(whole, module(*computations))
    run("convert", whole, "-o", split, "--to", "split-proto")
    print(f"a module of {whole.stat().st_size} bytes in three computations: a split proto of {split.stat().st_size}", flush=True)
    xla(split, "OK")
    run("merge", split, "-o", back, "--canonical")
    assert digest(back) == digest(whole)
    back.unlink()

    constants = [constant(name, kind, data, 1_160_000_000, width) for name, kind, data, width in kinds[:2]]
    written(whole, module(field(3, field(1, b"small")), field(3, field(1, b"big"), *constants)))
    done = subprocess.run([run.command, "convert", whole, "-o", split, "--to", "split-proto", "--force"], capture_output=True, text=True)
    assert done.returncode != 0 and 'computations[1] ("big")' in done.stderr, done.stderr
    print(f"refused: {done.stderr.strip()}", flush=True)
    run("convert", whole, "-o", split, "--to", "split-proto", "--set", "oversized=extend", "--force")
    xla(split, "UNIMPLEMENTED")
    run("merge", split, "-o", back, "--canonical")
    assert digest(back) == digest(whole)
    print("a computation of 2.3 GB: written as an extension, and read back", flush=True)
    for path in (whole, split, back):
        path.unlink()


def profile(run, folder: pathlib.Path) -> None:
    """Checks a profile with lines of events, each with a stat of a megabyte."""
    names = field(4, number(1, 1), field(2, number(1, 1), field(2, b"step")))
    stats = field(5, number(1, 1), field(2, number(1, 1), field(2, b"note")))

    def event(at: int) -> Part:
        return field(4, number(1, 1), number(2, at * 2_000_000), number(3, 1_000_000), field(4, number(1, 1), field(6, len(PIECE))))

    lines = [field(3, number(1, line), field(2, f"thread {line}".encode()), *map(event, range(575))) for line in range(1, 5)]
    space = Part(field(1, number(1, 1), field(2, b"/host:CPU"), *lines, names, stats), field(4, b"vm"))
    plain, split = folder / "pb" / "vm.xplane.pb", folder / "riegeli" / "vm.xplane.riegeli"
    for path in (plain, split):
        path.parent.mkdir()
    written(plain, space)
    print(f"a profile of {plain.stat().st_size} bytes", flush=True)
    run("convert", plain, "-o", split, "--to", "xplane-riegeli")

    ask = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "overview_page", {"use_saved_result": False})
print(len(data or b""))
"""
    refused = subprocess.run([sys.executable, "-c", ask, plain], capture_output=True, text=True)
    # Depending on the tool, XProf fails, or logs the reason and returns nothing.
    assert refused.returncode != 0 or refused.stdout.strip() == "0", refused.stdout
    print("XProf refuses it as .pb", flush=True)
    served = subprocess.run([sys.executable, "-c", ask, split], capture_output=True, text=True)
    assert served.returncode == 0 and int(served.stdout) > 1000, served.stderr
    print(f"XProf serves it as .riegeli: an overview of {served.stdout.strip()} bytes", flush=True)
    back = folder / "back.xplane.pb"
    run("convert", split, "-o", back, "--to", "pb")
    assert digest(back) == digest(plain)


class Run:
    def __init__(self, command: str) -> None:
        self.command = command

    def __call__(self, *arguments) -> str:
        begin = time.monotonic()
        done = subprocess.run([self.command, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        print(f"  protosplit {arguments[0]}: {time.monotonic() - begin:.1f} s", flush=True)
        return done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    run = Run(parser.parse_args().protosplit)
    with tempfile.TemporaryDirectory() as name:
        modules(run, pathlib.Path(name))
        profile(run, pathlib.Path(name))


main()
