"""Checks models with tensors in safetensors files against onnx-safetensors, onnx-ir and safetensors.

We must read files written by `embed` of onnx-safetensors, and its `extract` must read ours. Shards
and their index must equal those of onnx-ir. Ends with one line, `N passed, 0 failed`.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx_ir
import onnx_safetensors
import safetensors
from onnx import TensorProto, external_data_helper, helper, numpy_helper

passed = failed = 0


def check(what, is_right, why=""):
    global passed, failed
    passed, failed = passed + bool(is_right), failed + (not is_right)
    if not is_right:
        print(f"FAILED {what}: {why}", file=sys.stderr)


def attempt(what, do):
    """Returns the result of `do`. An exception counts as a failed check."""
    try:
        result = do()
    except Exception as error:
        check(what, False, f"{type(error).__name__}: {str(error)[:300]}")
        return None
    check(what, True)
    return result


def every_type():
    """Returns a model with an initializer of each type that onnx-safetensors knows, one in a subgraph, and a constant."""
    kinds = [kind for kind in TensorProto.DataType.values() if kind not in (0, 8, 15)]
    known = onnx_safetensors._safetensors_io._IR_DTYPE_TO_SAFETENSORS_DTYPE
    tensors = []
    for kind in kinds:
        if onnx_ir.DataType(kind) not in known:
            continue
        bits = onnx_ir.DataType(kind).bitwidth
        size = -(-5 * 3 * bits // 8)
        raw = np.random.default_rng(kind).integers(0, 2, size).astype(np.uint8)
        tensors.append(TensorProto(name=TensorProto.DataType.Name(kind), data_type=kind, dims=[5, 3], raw_data=raw.tobytes()))
    tensors.append(TensorProto(name="scalar", data_type=1, raw_data=np.float32(2).tobytes()))
    tensors.append(helper.make_tensor("typed", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]))
    tensors.append(helper.make_tensor("texts", TensorProto.STRING, [2], [b"a", b"b"]))
    inner = helper.make_graph(
        [helper.make_node("Identity", ["i"], ["o"])], "inner", [], [helper.make_tensor_value_info("o", 1, [4])],
        initializer=[numpy_helper.from_array(np.arange(4, dtype=np.float32), "i")])
    nodes = [helper.make_node("If", ["on"], ["y"], then_branch=inner, else_branch=helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones(4, np.float32), "v"))], "other", [],
        [helper.make_tensor_value_info("c", 1, [4])]))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("on", 9, [])],
                              [helper.make_tensor_value_info("y", 1, [4])], initializer=tensors)
    return helper.make_model(graph, ir_version=13, opset_imports=[helper.make_opsetid("", 24)], producer_name="\u00e9 \"quoted\"")


def large():
    tensors = [numpy_helper.from_array(np.random.default_rng(at).random((300, 100), np.float32), f"w{at}") for at in range(7)]
    graph = helper.make_graph([], "g", [], [], initializer=tensors)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def values(model):
    """Returns the name, type, shape and bytes of all tensors of a message."""
    return [(one.name, one.data_type, tuple(one.dims), numpy_helper.to_array(one).tobytes())
            for one in external_data_helper._get_all_tensors(model)]


def header(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))


def forms(name, model, folder, convert):
    original = folder / "m.onnx"
    original.write_bytes(model.SerializeToString())
    expected = values(onnx.load(original))
    ours = attempt(f"{name}: embedded", lambda: convert(original, folder / "ours.safetensors", "onnx-safetensors"))
    if ours:
        def extracted():
            onnx_safetensors.extract_safetensors_model(ours, folder / "extracted.onnx")
            return values(onnx.load(folder / "extracted.onnx"))

        check(f"{name}: its extract reads ours", sorted(attempt(f"{name}: extracted", extracted) or []) == sorted(expected))
        with safetensors.safe_open(ours, "np") as file:
            check(f"{name}: safetensors lists it", len(file.keys()) > 0)
        text = header(ours)["__metadata__"]["onnx"]
        check(f"{name}: no data of initializers is in the header", "raw_data" not in json.loads(text)["graph"]["initializer"][0], text[:200])
        back = attempt(f"{name}: extracted by us", lambda: convert(ours, folder / "back.onnx", "onnx"))
        if back:
            check(f"{name}: the same as the original", values(onnx.load(back)) == expected)
    theirs = folder / "theirs.safetensors"
    # onnx-safetensors can't write strings, which our files have in the header, and it writes a type that safetensors 0.8 doesn't support.
    unknown = (TensorProto.STRING, TensorProto.FLOAT8E8M0)
    for tensor in [tensor for tensor in model.graph.initializer if tensor.data_type in unknown]:
        model.graph.initializer.remove(tensor)
    original.write_bytes(model.SerializeToString())
    expected = values(onnx.load(original))
    ours = convert(original, folder / "ours-again.safetensors", "onnx-safetensors")
    if attempt(f"{name}: embed", lambda: onnx_safetensors.save_safetensors_model(onnx_ir.load(original), theirs) or theirs):
        check(f"{name}: the same tensors as theirs", {key: (value["dtype"], value["shape"]) for key, value in header(ours).items() if key != "__metadata__"}
              == {key: (value["dtype"], value["shape"]) for key, value in header(theirs).items() if key != "__metadata__"})
        back = attempt(f"{name}: we read theirs", lambda: convert(theirs, folder / "of-theirs.onnx", "onnx"))
        if back:
            check(f"{name}: theirs is the original", values(onnx.load(back)) == expected)


def shards(folder, convert):
    model = large()
    original = folder / "l.onnx"
    original.write_bytes(model.SerializeToString())
    names = [[], []]
    for at, (which, save) in enumerate((
        ("ours", lambda path: convert(original, path, "safetensors", "--set", "shards=300000")),
        ("theirs", lambda path: onnx_ir.save_safetensors(onnx_ir.load(original), path, max_shard_size_bytes=300_000)),
    )):
        there = folder / which
        there.mkdir()
        path = there / "s.onnx"
        attempt(f"shards: {which}", lambda: save(path) or path)
        names[at] = sorted(one.name for one in there.iterdir())
        check(f"shards: onnx reads {which}", values(onnx.load(path)) == values(model))
        index = json.loads((there / "s.safetensors.index.json").read_text())
        names[at].append(index["weight_map"])
        names[at].append(index["metadata"])
        for tensor, file in index["weight_map"].items():
            with safetensors.safe_open(there / file, "np") as opened:
                check(f"shards: {tensor} of {which}", opened.get_tensor(tensor).shape == (300, 100))
        back = attempt(f"shards: we read {which}", lambda: convert(path, folder / f"{which}.onnx", "onnx"))
        check(f"shards: {which} is the original", back and values(onnx.load(back)) == values(model))
    check("shards: the same files and index", names[0] == names[1], names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    arguments = parser.parse_args()

    def convert(source, target, form, *more):
        done = subprocess.run([arguments.protosplit, "convert", str(source), "-o", str(target), "--to", form, *more], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return target

    with tempfile.TemporaryDirectory() as folder:
        for make in (every_type, large):
            at = pathlib.Path(folder, make.__name__)
            at.mkdir()
            forms(make.__name__, make(), at, convert)
        shards(pathlib.Path(folder), convert)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
