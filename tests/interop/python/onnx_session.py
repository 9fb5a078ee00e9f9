"""Checks with onnx 1.23 and onnxruntime 1.31 that `proto_splitter.onnx` runs models of every form without unpacking them.

Ends with one line, `N passed, 0 failed`. `--memory N` sets the size of the large model's weights, in MB.
"""

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import onnx_paths
import proto_splitter as ps
import proto_splitter.onnx as pso


class Checks:
    def __init__(self):
        self.passed, self.failed = 0, 0

    @contextlib.contextmanager
    def check(self, what):
        try:
            yield
            self.passed += 1
        except Exception:  # noqa: BLE001
            self.failed += 1
            print(f"FAILED {what}\n{traceback.format_exc()[-3000:]}", flush=True)


def make(rows=64):
    """Returns a model with small and large initializers of several types, in raw and typed fields."""
    random = np.random.RandomState(1)
    arrays = {
        "w": random.standard_normal((64, rows)).astype(np.float32),
        "half": random.standard_normal((rows, 64)).astype(np.float16),
        "shape": np.array([-1, 8, 8], np.int64),
        "bias": random.standard_normal(64).astype(np.float32),
    }
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    typed = random.standard_normal(64 * 64).astype(np.float32)
    initializers.append(helper.make_tensor("typed", TensorProto.FLOAT, [64, 64], typed.tolist()))
    bf16 = numpy_helper.from_array(random.standard_normal((64, 64)).astype(onnx.helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)), "bf16")
    initializers.append(bf16)
    inner = helper.make_tensor("inner", TensorProto.FLOAT, [64, 64], random.standard_normal(4096).astype(np.float32).tobytes(), raw=True)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Cast", ["half"], ["whole"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["a", "whole"], ["b"]),
        helper.make_node("Add", ["b", "bias"], ["c"]),
        helper.make_node("MatMul", ["c", "typed"], ["d"]),
        helper.make_node("Cast", ["bf16"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["d", "cast"], ["e"]),
        helper.make_node("Constant", [], ["k"], value=inner),
        helper.make_node("MatMul", ["e", "k"], ["f"]),
        helper.make_node("Reshape", ["f", "shape"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model.metadata_props.add(key="k", value="v")
    return model


def check_forms(checks, work):
    model = make()
    plain = os.path.join(work, "plain.onnx")
    onnx.save(model, plain)
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)
    (expected,) = onnxruntime.InferenceSession(plain, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    paths = {"one file": plain}
    with checks.check("save writes every form"):
        for name, file, to in (("chunks", "chunked.cpb", "auto"), ("a pair", "pair.onnx", "external"), ("one file of ours", "ours.onnx", "auto")):
            paths[name] = os.path.join(work, file)
            pso.save(model, paths[name], to=to)
        written = ps.split(model, os.path.join(work, "cut"), max_chunk_size="4KiB", profile="extended")
        assert len(written.chunks) > 3
        paths["many chunks"] = written.path
        assert not [name for name in os.listdir(work) if name.startswith(".")]
        with contextlib.suppress(FileExistsError):
            pso.save(model, plain)
            raise AssertionError("an existing file was replaced")
        with contextlib.suppress(ValueError):
            pso.save(model, os.path.join(work, "formed.cpb"), to="external")
            raise AssertionError("the form of a .cpb was ignored")
    before = {name: os.stat(os.path.join(work, name)).st_mtime_ns for name in os.listdir(work)}
    for name, path in paths.items():
        with checks.check(f"{name}: session"):
            (found,) = pso.session(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
            assert found.tobytes() == expected.tobytes()
        with checks.check(f"{name}: load"):
            loaded = pso.load(path)
            assert {one.name: numpy_helper.to_array(one).tobytes() for one in loaded.graph.initializer} == \
                {one.name: numpy_helper.to_array(one).tobytes() for one in model.graph.initializer}
    with checks.check("a session writes no file"):
        assert before == {name: os.stat(os.path.join(work, name)).st_mtime_ns for name in os.listdir(work)}
    with checks.check("bytes and objects like files"):
        for name in ("one file", "chunks", "many chunks"):
            with open(paths[name], "rb") as file:
                for source in (file, io.BytesIO(file.read())):
                    (found,) = pso.session(source, providers=["CPUExecutionProvider"]).run(None, {"x": x})
                    assert found.tobytes() == expected.tobytes()
                assert pso.load(source) == pso.load(paths[name])
        target = io.BytesIO()
        pso.save(model, target)
        assert onnx.ModelProto.FromString(target.getvalue()) == pso.load(plain)
    with checks.check("an open file, which stays open"):
        for name in ("one file", "chunks", "a pair"):
            with ps.open(paths[name]) as opened:
                for prepack in (None, True, False):
                    (found,) = pso.session(opened, prepack=prepack).run(None, {"x": x})
                    assert np.allclose(found, expected, rtol=1e-4, atol=1e-2)
                assert opened.get("graph.name") == "graph"
    with checks.check("errors name the file"):
        damaged, newer = os.path.join(work, "damaged.onnx"), os.path.join(work, "newer.onnx")
        with open(plain, "rb") as file:
            whole = file.read()
        with open(damaged, "wb") as file:
            # The file begins with zeros, which aren't a message, since no field has the number 0.
            file.write(bytes(10) + whole)
        # Appends field 99, a number, which is in no schema.
        with open(newer, "wb") as file:
            file.write(whole + b"\x98\x06\x01")
        for do, text in ((pso.load, "damaged.onnx: "), (pso.session, "damaged.onnx: ")):
            try:
                do(damaged)
                raise AssertionError("it was read")
            except Exception as error:
                assert text in str(error), error
        try:
            pso.session(newer)
            raise AssertionError("it was read")
        except ps.SchemaError as error:
            assert "no such field" in str(error), error
    with checks.check("convert"):
        pso.convert(paths["chunks"], os.path.join(work, "again.onnx"), to="external")
        (found,) = onnxruntime.InferenceSession(os.path.join(work, "again.onnx")).run(None, {"x": x})
        assert found.tobytes() == expected.tobytes()
    with checks.check("files that don't exist"):
        with contextlib.suppress(FileNotFoundError):
            pso.session(os.path.join(work, "missing.onnx"))
            raise AssertionError("it was")


def check_values(checks, work):
    """Checks an initializer of four bits and one in another file, both used in place and copied by onnxruntime."""
    packed = np.arange(4096, dtype=np.uint8)
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["packed", "scale"], ["a"]),
            helper.make_node("Reshape", ["a", "shape"], ["b"]),
            helper.make_node("MatMul", ["x", "b"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 128])],
        [
            helper.make_tensor("packed", TensorProto.INT4, [128, 64], packed.tobytes(), raw=True),
            numpy_helper.from_array(np.float32(0.5), "scale"),
            numpy_helper.from_array(np.array([64, 128], np.int64), "shape"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    whole = model.SerializeToString()
    pair = os.path.join(work, "outside.onnx")
    onnx.save(model, pair, save_as_external_data=True, size_threshold=0, location="outside.bin")
    feed = {"x": np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)}
    (expected,) = onnxruntime.InferenceSession(whole).run(None, feed)
    borrows = pso._BORROWS
    for name, first in (("where they are", borrows), ("copied, as onnxruntime before 1.31 does", (1 << 20,))):
        with checks.check(f"four bits, and a shape in another file: {name}"):
            pso._BORROWS = first
            (found,) = pso.session(pair).run(None, feed)
            assert found.tobytes() == expected.tobytes()
    pso._BORROWS = borrows
    with checks.check("sessions of several models share their options"):
        options = onnxruntime.SessionOptions()
        plain = os.path.join(work, "plain.onnx")
        sessions = [pso.session(path, options) for path in (pair, plain, pair)]
        (of_plain,) = onnxruntime.InferenceSession(plain).run(None, feed)
        for session, right in zip(sessions, (expected, of_plain, expected)):
            (found,) = session.run(None, feed)
            assert found.tobytes() == right.tobytes()


def check_docs(checks, work):
    with checks.check("docs/python.md"):
        folder = os.path.join(work, "docs")
        os.mkdir(folder)
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/python.md")
        with open(page) as file:
            (block,) = re.findall(r"```python onnx\n(.*?)```", file.read(), re.DOTALL)
        onnx.save(make(), os.path.join(folder, "model.onnx"))
        before = os.getcwd()
        os.chdir(folder)
        try:
            exec(block, {"__name__": "page"})
        finally:
            os.chdir(before)


def memory(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(key))


def peak():
    return memory("VmHWM")


def write_large(path, megabytes, operator):
    """Writes a model with `megabytes` of weights in eight initializers, for Gather or for MatMul."""
    rows = int(megabytes) * 1_000_000 // 8 // 4 // 64
    arrays = [(np.arange(rows * 64, dtype=np.float32) % 8191).reshape(rows, 64) + at for at in range(8)]
    if operator == "Gather":
        nodes = [helper.make_node("Gather", [f"w{at}", "x"], [f"y{at}"]) for at in range(8)]
        given = helper.make_tensor_value_info("x", TensorProto.INT64, [None])
    else:
        nodes = [helper.make_node("MatMul", ["x", f"w{at}"], [f"y{at}"]) for at in range(8)]
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, rows])
    outputs = [helper.make_tensor_value_info(f"y{at}", TensorProto.FLOAT, None) for at in range(8)]
    model = helper.make_model(helper.make_graph(nodes, "graph", [given], outputs),
                              opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    for at, array in enumerate(arrays):
        model.graph.initializer.add(name=f"w{at}", dims=array.shape, data_type=TensorProto.FLOAT, raw_data=array.tobytes())
    written = ps.split(model, path, profile="extended", compression="none", always_chunked=True)
    return {"path": written.path, "size": sum(array.nbytes for array in arrays), "rows": rows}


def run_large(path, rows, packs):
    options = onnxruntime.SessionOptions()
    if packs != "by default":
        options.add_session_config_entry("session.disable_prepacking", str(int(packs != "packs")))
    before = peak()
    session = pso.session(path, options, providers=["CPUExecutionProvider"])
    expected = np.arange(64, dtype=np.float32)
    if session.get_inputs()[0].type == "tensor(int64)":
        results = session.run(None, {"x": np.array([0, 5], np.int64)})
    else:
        # Selects one row of each initializer, like `Gather`.
        x = np.zeros((1, int(rows)), np.float32)
        x[0, 0] = 1
        results = session.run(None, {"x": x})
    assert all((found[0] == expected + at).all() for at, found in enumerate(results))
    return {"peak": peak() - before}


def run_shared(path, count):
    """Runs several sessions of one loaded model. Returns the memory that all but the first take."""
    model = pso.LoadedModel(path)
    given = np.array([0, 5], np.int64)

    options = onnxruntime.SessionOptions()

    def session():
        made = model.session(options, providers=["CPUExecutionProvider"])
        return made, made.run(None, {"x": given})

    sessions = [session()]
    before = memory("VmRSS")
    sessions += [session() for _ in range(int(count) - 1)]
    for _, results in sessions:
        assert all((found == expected).all() for found, expected in zip(results, sessions[0][1]))
    assert model.nbytes >= sum(found.nbytes for found in sessions[0][1])
    del model
    assert all((found == expected).all() for found, expected in zip(sessions[-1][0].run(None, {"x": given}), sessions[0][1]))
    return {"more": memory("VmRSS") - before}


def script(*arguments):
    ran = subprocess.run([sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stdout[-500:] + ran.stderr[-2500:])
    return json.loads(ran.stdout.splitlines()[-1])


def check_memory(checks, work, megabytes):
    # For MatMul, onnxruntime also keeps a packed copy of the weights, unless packing is disabled, which is the
    # default for large models.
    by_default = 1.2 if megabytes * 1_000_000 >= pso._PACKED_BELOW else 2.2
    for operator, packs, most in (
        ("Gather", "by default", 1.2), ("MatMul", "packs nothing", 1.2), ("MatMul", "packs", 2.2), ("MatMul", "by default", by_default),
    ):
        with checks.check(f"{megabytes} MB in chunks, for {operator}, {packs}"):
            path = os.path.join(work, f"large-{operator}-{packs.replace(' ', '-')}")
            made = script("write_large", path, megabytes, operator)
            ran = script("run_large", made["path"], made["rows"], packs)
            os.unlink(made["path"])
            figure = ran["peak"] / made["size"]
            print(f"{made['size'] / 1e6:.0f} MB of weights in a .cpb, {operator}, {packs}: loaded and run at {figure:.2f}x", flush=True)
            assert figure <= most, figure


def check_sharing(checks, work, megabytes):
    with checks.check(f"four sessions share {megabytes} MB of weights"):
        made = script("write_large", os.path.join(work, "shared"), megabytes, "Gather")
        ran = script("run_shared", made["path"], 4)
        os.unlink(made["path"])
        figure = ran["more"] / made["size"]
        print(f"{made['size'] / 1e6:.0f} MB of weights in a .cpb: three sessions more took {figure:.2f}x", flush=True)
        assert figure <= 0.2, figure


def main():
    if len(sys.argv) > 1 and sys.argv[1] in ("write_large", "run_large", "run_shared"):
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=int, default=400)
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="onnx-session-") as work:
        check_forms(checks, work)
        check_values(checks, work)
        onnx_paths.check_paths(checks, work, make())
        check_docs(checks, work)
        check_memory(checks, work, args.memory)
        check_sharing(checks, work, args.memory)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(bool(checks.failed))


if __name__ == "__main__":
    main()
