"""Converts models of 2.4 GB in one file, which onnx, the checker and onnxruntime refuse, to pairs.

Each pair is made from the file and from its chunks, and onnxruntime must run it. The bytes of a
model are in initializers, in constants, in constants of a subgraph, or in typed fields. The files
are sparse, with one number in each tensor, so they take no space and are written quickly. The pairs
take 2.4 GB of disk, one at a time. Peak anonymous memory must stay under 64 MiB.
"""

import argparse
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

TENSORS = 8
BYTES = 300_000_000
MOST_MEMORY = 64 << 20


class Hole(int):
    """A length of zero bytes with a nonzero number in the middle."""


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def size(pieces):
    return sum(piece if isinstance(piece, Hole) else len(piece) for piece in pieces)


def field(number, *pieces):
    return [varint(number << 3 | 2) + varint(size(pieces)), *pieces]


def number(field_number, value):
    return varint(field_number << 3) + varint(value)


def tensor(name, is_typed):
    front = TensorProto(dims=[BYTES // 4], data_type=TensorProto.FLOAT).SerializeToString()
    if is_typed:
        return [front, *field(4, Hole(BYTES)), *field(8, name.encode())]
    return [front, *field(8, name.encode()), *field(9, Hole(BYTES))]


def node(*arguments, **attributes):
    return helper.make_node(*arguments, **attributes).SerializeToString()


def attribute(name, where, value, kind):
    return field(5, *field(1, name.encode()), *field(where, *value), number(20, kind))


def largest_of_each(result, in_constants, is_typed=False):
    """Returns the fields of a graph: the tensors, and nodes that add up the largest element of each."""
    nodes, initializers = [], []
    total = "x"
    for at in range(TENSORS):
        name = f"t{at}"
        if in_constants:
            value = attribute("value", 5, tensor("v", is_typed), 4)
            nodes += field(1, node("Constant", [], [name]), *value)
        else:
            initializers += field(5, *tensor(name, is_typed))
        after = result if at == TENSORS - 1 else f"s{at}"
        nodes += field(1, node("ReduceMax", [name], [f"m{at}"], keepdims=0))
        nodes += field(1, node("Add", [total, f"m{at}"], [after]))
        total = after
    return [*nodes, *field(2, b"g"), *initializers]


def value_info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape).SerializeToString()


def model(where):
    x, y, on = value_info("x", 1, [1]), value_info("y", 1, [1]), value_info("on", 9, [])
    if where == "subgraphs":
        inner = [*largest_of_each("inner", True), *field(12, value_info("inner", 1, [1]))]
        same = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["same"])], "same", [], [helper.make_tensor_value_info("same", 1, [1])])
        graph = [
            *field(1, node("If", ["on"], ["y"]), *attribute("then_branch", 6, inner, 5),
                   *attribute("else_branch", 6, [same.SerializeToString()], 5)),
            *field(2, b"g"), *field(11, x), *field(11, on), *field(12, y)]
    else:
        body = largest_of_each("y", where == "constants", where == "typed fields")
        graph = [*body, *field(11, x), *field(12, y)]
    opset = helper.make_opsetid("", 13).SerializeToString()
    return [number(1, 9), *field(7, *graph), *field(8, opset)]


def write(pieces, path):
    holes = 0
    with open(path, "wb") as file:
        for piece in pieces:
            if isinstance(piece, Hole):
                holes += 1
                end = file.tell() + piece
                file.seek(end - piece + piece // 8 * 4)
                file.write(struct.pack("<f", holes))
                file.seek(end - 4)
                file.write(bytes(4))
            else:
                file.write(piece)


def run(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {"x": np.array([0.5], np.float32), "on": np.array(True)}
    return session.run(None, {entry.name: feeds[entry.name] for entry in session.get_inputs()})[0]


def refuses(do):
    try:
        do()
        return False
    except Exception:
        return True


def watched(command):
    """Runs a command, and returns the largest anonymous memory observed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            most = max(most, int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) << 10)
        except (OSError, AttributeError):
            pass
        time.sleep(0.01)
    if process.returncode:
        raise RuntimeError(f"{command} failed")
    return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    expected = 0.5 + sum(range(1, TENSORS + 1))
    passed = failed = 0
    for where in ("initializers", "constants", "subgraphs", "typed fields"):
        with tempfile.TemporaryDirectory() as folder:
            lost, pair = pathlib.Path(folder, "lost.onnx"), pathlib.Path(folder, "pair.onnx")
            write(model(where), lost)
            try:
                run(lost)
                is_refused = False
            except Exception:
                is_refused = True
            convert = [arguments.protosplit, "convert"]
            memory = watched([*convert, str(lost), "-o", str(pair), "--to", "external"])
            checks = [
                ("onnxruntime refuses the one file", is_refused),
                ("onnxruntime runs the pair", run(pair) == [expected]),
                (f"at most 64 MiB of memory, not {memory >> 20}", memory <= MOST_MEMORY),
            ]
            if where == "initializers":
                checks.append(("onnx refuses the one file", refuses(lambda: onnx.load(lost))))
                checks.append(("the checker refuses the one file", refuses(
                    lambda: onnx.checker.check_model(str(lost)))))
            pair.unlink()
            pair.with_name("pair.onnx.data").unlink()
            chunks = pathlib.Path(folder, "chunks.cpb")
            split = watched([*convert, str(lost), "-o", str(chunks)])
            lost.unlink()
            memory = watched([*convert, str(chunks), "-o", str(pair), "--to", "external"])
            checks += [
                ("onnxruntime runs the pair of chunks", run(pair) == [expected]),
                (f"at most 64 MiB of memory from chunks, not {memory >> 20}", memory <= MOST_MEMORY),
            ]
            print(f"{where}: chunks were written with {split >> 20} MiB of memory", file=sys.stderr)
            for what, is_right in checks:
                passed, failed = passed + bool(is_right), failed + (not is_right)
                if not is_right:
                    print(f"FAILED {where}: {what}", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
