"""Runs the commands of docs/recipes.md on generated files, and compares their output with the page."""

import os
import pathlib
import re
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
    """Encodes a field with a number, a string or bytes."""
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
    event = lambda time, name: field(2, field(1, time) + field(2, 7) + field(4, field(5, name) + field(6, 8)))
    bundle = lambda *events: field(1, field(1, field(1, 0) + b"".join(events)))
    packets = bundle(event(10, "render"), event(20, "idle")) + field(1, field(8, 25))
    packets += bundle(event(30, "render"), event(40, "idle"), event(50, "render"))
    (folder / "trace.perfetto-trace").write_bytes(packets)


SCIP = """syntax = "proto3"; package scip;
message Index { Metadata metadata = 1; repeated Document documents = 2; }
message Metadata { string project_root = 3; }
message Document { string relative_path = 1; repeated Occurrence occurrences = 2; string language = 4; }
message Occurrence { repeated int32 range = 1; string symbol = 2; }
"""


def scip(folder):
    (folder / "scip.proto").write_text(SCIP)
    document = lambda path, language: field(2, field(1, path) + field(2, field(2, "local 1")) + field(4, language))
    index = field(1, field(3, "file:///src")) + document("a.go", "go") + document("b.py", "python") + document("c.go", "go")
    (folder / "index.scip").write_bytes(index)


CP_SAT = """syntax = "proto3"; package operations_research.sat;
message CpModelProto { string name = 1; repeated IntegerVariableProto variables = 2; repeated ConstraintProto constraints = 3; }
message IntegerVariableProto { string name = 1; repeated int64 domain = 2; }
message ConstraintProto { string name = 1; oneof constraint { LinearConstraintProto linear = 12; TableConstraintProto table = 16; } }
message LinearConstraintProto { repeated int32 vars = 1; repeated int64 coeffs = 2; repeated int64 domain = 3; }
message TableConstraintProto { repeated int32 vars = 1; repeated int64 values = 2; bool negated = 3; }
"""


def cp_sat(folder):
    (folder / "cp_model.proto").write_text(CP_SAT)
    variable = field(2, field(1, "x") + field(2, bytes([0, 9])))
    linear = field(3, field(12, field(1, bytes([0])) + field(2, bytes([1])) + field(3, bytes([0, 5]))))
    table = field(3, field(16, field(1, bytes([0])) + field(2, b"".join(number(i % 300) for i in range(1000)))))
    (folder / "model.pb").write_bytes(field(1, "m") + variable + linear + table)


BAZEL = """syntax = "proto3"; package build_event_stream;
message BuildEvent { oneof payload { Progress progress = 3; TestResult test_result = 10; } bool last_message = 20; }
message Progress { string stdout = 1; string stderr = 2; }
message TestResult { int64 test_attempt_duration_millis = 3; TestStatus status = 5; }
enum TestStatus { NO_STATUS = 0; PASSED = 1; FLAKY = 2; TIMEOUT = 3; FAILED = 4; }
"""


def bazel(folder):
    (folder / "build_event_stream.proto").write_text(BAZEL)
    result = lambda status, millis: field(10, field(3, millis) + field(5, status))
    events = [field(3, field(2, "Loading:")), result(1, 100), result(4, 30), result(1, 50), field(20, 1)]
    (folder / "events.bin").write_bytes(b"".join(number(len(event)) + event for event in events))


def repository(folder):
    tensor = lambda name, size: field(5, field(1, size // 4) + field(2, 1) + field(8, name) + field(9, bytes(size)))
    for model, tensors in {"ranker": {"embedding": 4096, "bias": 64}, "scorer": {"weight": 16}}.items():
        path = folder / "repository" / model / "1"
        path.mkdir(parents=True)
        graph = field(2, "g") + b"".join(tensor(name, size) for name, size in tensors.items())
        (path / "model.onnx").write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))


INPUTS = {
    "A profile's events in DuckDB": profile,
    "A Perfetto trace in DuckDB": trace,
    "A SCIP index in pieces": scip,
    "The parts of a CP-SAT model by size": cp_sat,
    "A Bazel log in DuckDB": bazel,
    "The largest tensors of a model repository": repository,
}


def run(protosplit, work, check):
    """Runs all recipes for which this module generates files."""
    page = (ROOT / "docs/recipes.md").read_text()
    sections = re.split(r"^## ", page, flags=re.M)[1:]
    titles = [section.partition("\n")[0] for section in sections]
    check("each recipe has its files", sorted(titles) == sorted(INPUTS), titles)
    path = os.pathsep.join([str(pathlib.Path(protosplit).resolve().parent), os.environ["PATH"]])
    for title, section in zip(titles, sections):
        folder = work / re.sub(r"\W+", "-", title)
        folder.mkdir()
        INPUTS[title](folder)
        printed = None
        for language, text in re.findall(r"^```(\w+)\n(.*?)^```", section, flags=re.M | re.S):
            if language == "text":
                check(f"{title}: the output", printed == text, f"{printed!r}, not {text!r}")
                continue
            command = ["bash", "-euc", text] if language == "sh" else [sys.executable, "-c", text]
            done = subprocess.run(command, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True)
            check(f"{title}: {language}", done.returncode == 0, done.stderr)
            printed = done.stdout
