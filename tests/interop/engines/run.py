"""Runs the code of docs/many-machines.md for Dask and Spark on this machine: first as printed, which splits, then changed to merge.

run.py --work DIR
"""

from __future__ import annotations

import argparse
import filecmp
import fcntl
import os
import random
import re
import socket
import struct
import time
from pathlib import Path

import proto_splitter as ps

PAGE = Path(__file__).parents[3] / "docs/many-machines.md"
TYPE = "tensorflow.TensorProto"
MERGE = 'plan_merge("out/model.cpb", "whole.pb", plan="out/merging", parts=8)'
passed = 0


def check(what: str, holds: bool) -> None:
    global passed
    if not holds:
        raise SystemExit(f"FAILED: {what}")
    passed += 1
    print(f"ok: {what}", flush=True)


def write_source(path: Path) -> None:
    """Writes 64 values `string_val` of 1 MiB each."""
    numbers = random.Random(5)
    with open(path, "wb") as file:
        for _ in range(64):
            file.write(b"\x42\x80\x80\x40" + numbers.randbytes(1 << 20))


def use_loopback() -> None:
    """Enables the loopback interface in the network namespace of this process."""
    up, loopback, running = 0x1, 0x8, 0x40
    with socket.socket() as any_socket:
        request = struct.pack("16sH14x", b"lo", up | loopback | running)
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def lines_of(engine: str) -> str:
    """Returns the code below the engine's heading, changed to the type of this test and eight parts."""
    found = re.search(rf"\n## {engine}\n.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, engine
    lines = found[1].replace('"my.Model", schema', f'"{TYPE}", max_chunk_size="4MiB"')
    lines = lines.replace("parts=100", "parts=8")
    assert TYPE in lines and "parts=8" in lines
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    use_loopback()
    work = parser.parse_args().work
    for engine in ("Dask", "Spark"):
        begun = time.monotonic()
        folder = work / engine
        (folder / "out").mkdir(parents=True)
        os.chdir(folder)
        write_source(folder / "model.pb")
        lines = lines_of(engine)
        exec(compile(lines, f"{PAGE.name}: {engine}", "exec"), {})
        parts = list(folder.glob("out/model.*.cpb"))
        check(f"{engine}: every part has a file", len(parts) > 2)
        report = ps.verify("out/model.cpb", against="model.pb")
        check(f"{engine}: the split is byte-exact", report["ok"])
        merge, count = re.subn(r"plan_split\(.*\)\n", f"{MERGE}\n", lines)
        assert count == 1
        merge = merge.replace("import commit, plan_split", "import commit, plan_merge")
        exec(compile(merge, f"{PAGE.name}: {engine}", "exec"), {})
        same = filecmp.cmp("model.pb", "whole.pb", shallow=False)
        check(f"{engine}: the merge equals the original ({time.monotonic() - begun:.0f} s)", same)
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
