"""Runs twelve tools with a model over protobuf's limit: each alone, and with one line of code for `proto_splitter.onnx`.

    tools.py --megabytes 40              as in continuous integration: every tool must work with the line
    tools.py --megabytes 3221 --alone    measures the figures of docs/onnx.md, with the error of each tool alone

Each tool runs in a separate process. With the line, it gets a `.cpb` that is converted to a pair. Alone, it gets a message in memory or one
file, as usual; since that works for 40 MB, `--alone` is for large models. The model that a tool writes must compute the same
results in onnxruntime as the original. Ends with one line, `N passed, 0 failed`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import proto_splitter.onnx as pso
from proto_splitter import _onnx_paths

WIDTH = 1024
LAYERS = 8


def make(megabytes):
    """Returns a model that multiplies by a chain of matrices, of `megabytes` in total."""
    rows = megabytes * 1_000_000 // LAYERS // 4 // WIDTH
    nodes, initializers, before = [], [], "x"
    for at in range(LAYERS):
        shape = (WIDTH, rows) if at % 2 == 0 else (rows, WIDTH)
        values = np.random.default_rng(at).random(shape, np.float32) * np.float32(2 / shape[0])
        initializers.append(numpy_helper.from_array(values, f"w{at}"))
        after = "y" if at == LAYERS - 1 else f"h{at}"
        nodes.append(helper.make_node("MatMul", [before, f"w{at}"], [after], name=f"layer{at}"))
        before = after
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, WIDTH])], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def x():
    return np.linspace(0, 1, WIDTH, dtype=np.float32).reshape(1, WIDTH)


def relu():
    graph = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["z"])], "after",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, WIDTH])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, WIDTH])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def calibration():
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [{"x": x()}]

        def get_next(self):
            return self.left.pop() if self.left else None

    return Reader()


class Tool:
    """A tool. `alone` calls it with a message and the path of one file, `line` calls it with `run`."""

    def __init__(self, name, alone, line, exact=True):
        self.name, self.alone, self.line, self.exact = name, alone, line, exact


def checker():
    from onnx.checker import check_model

    return Tool("onnx.checker", lambda model, path: check_model(model),
                lambda model, output: pso.run(check_model, model, full_check=True))


def shapes():
    from onnx.shape_inference import infer_shapes, infer_shapes_path

    return Tool("onnx.shape_inference", lambda model, path: infer_shapes(model),
                lambda model, output: pso.run(infer_shapes_path, model, pso.OUTPUT, output=output))


def converter():
    from onnx.version_converter import convert_version

    return Tool("onnx.version_converter", lambda model, path: convert_version(model, 21),
                lambda model, output: pso.run(convert_version, model, pso.SKELETON, 21, output=output))


def compose():
    from onnx.compose import merge_models

    def line(model, output):
        return pso.run(merge_models, model, pso.SKELETON, relu(), io_map=[("y", "a")], output=output)

    return Tool("onnx.compose", lambda model, path: merge_models(model, relu(), io_map=[("y", "a")]), line)


def sim():
    import onnxsim

    return Tool("onnxsim", lambda model, path: onnxsim.simplify(model),
                lambda model, output: pso.run(lambda path: onnxsim.simplify(path)[0], model, output=output))


def slim():
    import onnxslim

    return Tool("onnxslim", lambda model, path: onnxslim.slim(model),
                lambda model, output: pso.run(onnxslim.slim, model, pso.INPUT, pso.OUTPUT,
                                              save_as_external_data=True, output=output))


# A CPU without VNNI saturates sums of 8-bit products, for which onnxruntime recommends 7-bit weights (`reduce_range`).
def dynamic():
    from onnxruntime.quantization import quantize_dynamic

    return Tool("onnxruntime.quantization, dynamic", lambda model, path: quantize_dynamic(model, path + ".q"),
                lambda model, output: pso.run(quantize_dynamic, model, pso.INPUT, pso.OUTPUT, reduce_range=True,
                                              use_external_data_format=True, output=output), exact=False)


def static():
    from onnxruntime.quantization import quantize_static

    return Tool("onnxruntime.quantization, static", lambda model, path: quantize_static(model, path + ".q", calibration()),
                lambda model, output: pso.run(quantize_static, model, pso.INPUT, pso.OUTPUT, calibration(), reduce_range=True,
                                              use_external_data_format=True, output=output), exact=False)


def transformers():
    from onnxruntime.transformers.optimizer import optimize_model

    return Tool("onnxruntime.transformers.optimizer", lambda model, path: optimize_model(path, opt_level=0),
                lambda model, output: pso.run(lambda path: optimize_model(path, opt_level=0).model, model, output=output))


def float16():
    from onnxconverter_common.float16 import convert_float_to_float16

    # The tool uses onnx's shape inference, which needs a message in memory.
    return Tool("onnxconverter_common.float16", lambda model, path: convert_float_to_float16(model),
                lambda model, output: pso.run(
                    lambda path: convert_float_to_float16(onnx.load(path), keep_io_types=True, disable_shape_infer=True),
                    model, output=output), exact=False)


def surgeon():
    import onnx_graphsurgeon as gs

    def renamed(model):
        graph = gs.import_onnx(model)
        graph.outputs[0].name = "z"
        return gs.export_onnx(graph.cleanup().toposort())

    return Tool("onnx_graphsurgeon", lambda model, path: onnx.checker.check_model(renamed(model)),
                lambda model, output: pso.run(lambda path: renamed(onnx.load(path)), model, output=output))


def session():
    import onnxruntime

    def optimized(path, to):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = to
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "written.data")
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    return Tool("onnxruntime, optimized_model_filepath", lambda model, path: optimized(path, path + ".q"),
                lambda model, output: pso.run(optimized, model, pso.INPUT, pso.OUTPUT, output=output))


TOOLS = [checker, shapes, converter, compose, sim, slim, dynamic, static, transformers, float16, surgeon, session]


def computed(path):
    ran = pso.session(path, providers=["CPUExecutionProvider"])
    return ran.run(None, {ran.get_inputs()[0].name: x()})[0]


def one(name, how, folder):
    """Runs one tool, and prints the outcome as JSON."""
    tool = dict((make.__name__, make) for make in TOOLS)[name]()
    result = {"name": tool.name}
    chunked = os.path.join(folder, "model.cpb")
    output = os.path.join(folder, f"{name}.cpb")
    begun = time.monotonic()
    try:
        if how == "alone":
            plain = os.path.join(folder, "model.onnx")
            tool.alone(pso.load(chunked), plain)
        else:
            # Writes a model of any size as a pair, as for a model over protobuf's limit.
            as_path = _onnx_paths.as_path
            _onnx_paths.as_path = lambda model, **options: as_path(model, **{**options, "to": "external"})
            tool.line(chunked, output)
            if os.path.exists(output):
                expected = np.load(os.path.join(folder, "expected.npy"))
                found = computed(output)
                near = 1e-4 if tool.exact else 5e-2
                assert found.shape == expected.shape
                assert np.allclose(found, expected, rtol=near, atol=near * float(expected.max())), "the results differ"
        result["ok"] = True
    except BaseException as error:  # noqa: BLE001
        result["error"] = f"{type(error).__name__}: {str(error).strip()}"[:600]
        result["trace"] = traceback.format_exc()[-2000:]
    result["seconds"] = round(time.monotonic() - begun, 1)
    result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if os.path.exists(output):
        os.unlink(output)
    print(json.dumps(result), flush=True)


def write(folder, megabytes, is_whole):
    """Writes the model in chunks and, with `is_whole`, in one file, and the results it computes."""
    model = make(megabytes)
    chunked = os.path.join(folder, "model.cpb")
    pso.save(model, chunked)
    if is_whole:
        pso.save(model, os.path.join(folder, "model.onnx"), to="onnx")
    del model
    np.save(os.path.join(folder, "expected.npy"), computed(chunked))


def script(*arguments):
    ran = subprocess.run([sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode or not lines:
        return {"error": f"it ended with status {ran.returncode}", "trace": ran.stderr[-2000:]}
    return json.loads(lines[-1])


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "one":
        return one(*sys.argv[2:])
    if len(sys.argv) > 1 and sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "True")
        print("{}")
        return None
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=40)
    parser.add_argument("--alone", action="store_true", help="also run each tool without the line")
    parser.add_argument("--only", action="append", help="the name of a function above")
    arguments = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="onnx-tools-") as folder:
        script("write", folder, arguments.megabytes, arguments.alone)
        for tool in TOOLS:
            if arguments.only and tool.__name__ not in arguments.only:
                continue
            if arguments.alone:
                alone = script("one", tool.__name__, "alone", folder)
                print(json.dumps({"alone": alone}), flush=True)
            found = script("one", tool.__name__, "line", folder)
            is_right = found.get("ok", False)
            passed, failed = passed + is_right, failed + (not is_right)
            trace = found.pop("trace", None)
            print(json.dumps({"with the line": found}), flush=True)
            if not is_right:
                print(f"FAILED {tool.__name__}: {trace}", file=sys.stderr, flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
