"""Runs what docs/recipes.md says, on files made for it, and compares what is printed with what the page shows."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[3]


def number(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(at, value):
    """A field on the wire: a number, or text or bytes."""
    if isinstance(value, int):
        return number(at << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(value)) + value


def profile(folder):
    event = lambda metadata, offset, duration: field(4, field(1, metadata) + field(2, offset) + field(3, duration))
    line = field(2, "stream 1") + event(1, 0, 10_000_000) + event(2, 10_000_000, 4_000_000) + event(1, 20_000_000, 20_000_000)
    named = lambda at, name: field(4, field(1, at) + field(2, field(1, at) + field(2, name)))
    plane = field(2, "/device:GPU:0") + field(3, line) + named(1, "matmul") + named(2, "copy")
    (folder / "host.xplane.pb").write_bytes(field(1, field(2, "/host:CPU")) + field(1, plane))


def trace(folder):
    shutil.copy(ROOT / "tests/data/schemas/perfetto_like.proto", folder / "perfetto_trace.proto")
    event = lambda time, name: field(2, field(1, time) + field(2, 7) + field(4, field(5, name) + field(6, 8)))
    bundle = lambda *events: field(1, field(1, field(1, 0) + b"".join(events)))
    packets = bundle(event(10, "render"), event(20, "idle")) + field(1, field(8, 25))
    packets += bundle(event(30, "render"), event(40, "idle"), event(50, "render"))
    (folder / "trace.perfetto-trace").write_bytes(packets)


INPUTS = {"A profile's events in DuckDB": profile, "A Perfetto trace in DuckDB": trace}


def run(protosplit, work, check):
    """Runs all recipes that have a file made here."""
    page = (ROOT / "docs/recipes.md").read_text()
    sections = re.split(r"^## ", page, flags=re.M)[1:]
    titles = [section.partition("\n")[0] for section in sections]
    check("recipes have their files", all(title in titles for title in INPUTS), titles)
    path = os.pathsep.join([str(pathlib.Path(protosplit).resolve().parent), os.environ["PATH"]])
    for title, section in zip(titles, sections):
        if title not in INPUTS:
            continue
        folder = work / re.sub(r"\W+", "-", title)
        folder.mkdir()
        INPUTS[title](folder)
        printed = None
        for language, text in re.findall(r"^```(\w+)\n(.*?)^```", section, flags=re.M | re.S):
            if language == "text":
                check(f"{title}: what is printed", printed == text, f"{printed!r}, not {text!r}")
                continue
            command = ["bash", "-euc", text] if language == "sh" else [sys.executable, "-c", text]
            done = subprocess.run(command, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True)
            check(f"{title}: {language}", done.returncode == 0, done.stderr)
            printed = done.stdout
