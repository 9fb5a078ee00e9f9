"""Checks in TensorFlow 2.21 that models saved with `proto_splitter.tensorflow` run in TensorFlow without it.

Ends with one line, `N passed, 0 failed`. `--memory N` sets the size of the large models' constants in MiB (0 skips these models),
and `--only WORD` selects checks.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
# Without this setting, the order of sums, and therefore their last bit, differs between runs.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../externalize"))

import numpy as np  # noqa: E402

import proto_splitter as ps  # noqa: E402
import proto_splitter.tensorflow as pst  # noqa: E402

assert "tensorflow" not in sys.modules, "importing the module imports TensorFlow"

import tensorflow as tf  # noqa: E402

import loaders  # noqa: E402
import models  # noqa: E402
from tensorflow.python.framework import ops  # noqa: E402
from tensorflow.python.saved_model import builder_impl, save as save_module  # noqa: E402

v1 = tf.compat.v1
CONSTANTS = "assets/proto_splitter_constants.data-00000-of-00001"


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


def same(expected, actual):
    assert expected.keys() == actual.keys(), (sorted(expected), sorted(actual))
    for name in expected:
        assert expected[name] == actual[name], f"{name} differs"


def script(*arguments):
    """Runs this script in a separate process. Returns its last line of output, which is JSON."""
    ran = subprocess.run([sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stdout[-500:] + ran.stderr[-2500:])
    return json.loads(ran.stdout.splitlines()[-1])


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


class Dense(tf.Module):
    """A model whose weights are constants, of `parts` times `rows` * 256 elements."""

    def __init__(self, rows, parts=1):
        super().__init__()
        # Random numbers would take too long, since the weights may be gigabytes.
        self.weights = [(np.arange(rows * 256, dtype=np.float32) % 8191 * (part + 1)).reshape(256, rows) for part in range(parts)]

    @tf.function(input_signature=[tf.TensorSpec([None, 256], tf.float32, name="x")])
    def call(self, x):
        # The weights aren't transposed, since TensorFlow would copy them.
        return {f"y{part}": tf.matmul(x, weight)[0, :64] for part, weight in enumerate(self.weights)}


# The following functions run in separate processes.


def bytes_of_small(folder, way):
    """Saves a model without large constants, in one of three ways."""
    if way != "stock":
        pst.enable()
    if way == "disabled":
        pst.disable()
    model = Dense(16)
    model.variable = tf.Variable(np.ones(4, np.float32))
    tf.saved_model.save(model, folder, signatures=model.call)
    return {}


def save_large(folder, mib, parts):
    """Traces, runs and saves this many MiB of constants with the shim, and measures it."""
    tf.constant(1.0) + 1
    before = peak()
    rows = int(mib) * 1024 // int(parts)
    pst.enable()
    model = Dense(rows, int(parts))
    size = sum(weight.nbytes for weight in model.weights)
    ran = {key: loaders.bits(value.numpy())[2].hex() for key, value in model.call(tf.ones([1, 256])).items()}
    tf.saved_model.save(model, folder, signatures=model.call)
    return {"size": size, "peak": peak() - before, "ran": ran}


def load_large(folder):
    """Loads a model with TensorFlow alone, and runs it."""
    tf.constant(1.0) + 1
    before = peak()
    model = tf.saved_model.load(folder)
    results = model.signatures["serving_default"](x=tf.ones([1, 256]))
    ran = {key: loaders.bits(value.numpy())[2].hex() for key, value in results.items()}
    return {"peak": peak() - before, "ran": ran, "enabled": any(seam.on for seam in pst.status())}


def automatic():
    """Checks the module that enables the shim once TensorFlow is imported."""
    ran = subprocess.run([sys.executable, "-c", """
import sys
import proto_splitter.tensorflow.auto
assert "tensorflow" not in sys.modules
import tensorflow
import proto_splitter.tensorflow as pst
assert all(seam.on for seam in pst.status()), pst.status()
pst.disable()
assert not any(seam.on for seam in pst.status())
"""], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]


def check_small(checks, work):
    with checks.check("below the minimum size the bytes are TensorFlow's"):
        for way in ("stock", "enabled", "disabled"):
            script("bytes_of_small", os.path.join(work, way), way)
        for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
            read = [ps_bytes(os.path.join(work, way, name)) for way in ("stock", "enabled", "disabled")]
            assert read[0] == read[1] == read[2], name
        assert not os.listdir(os.path.join(work, "enabled", "assets"))
    with checks.check("importing auto enables the shim once TensorFlow is imported"):
        automatic()


def ps_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def check_seams(checks):
    def state():
        return [ops._create_graph_constant, save_module.save_and_return_nodes, builder_impl._SavedModelBuilder.__dict__["save"],
                hasattr(save_module, "proto_splitter"), hasattr(builder_impl, "proto_splitter")]

    before = state()
    with checks.check("all seams are known, on and off again"):
        assert all(seam.on and seam.refused is None for seam in pst.enable()), pst.status()
        pst.enable(min_size=7)
        pst.disable()
        pst.disable()
        assert state() == before
        assert not any(seam.on for seam in pst.status())
    with checks.check("enabled() ends, also after an exception"):
        with contextlib.suppress(KeyError), pst.enabled():
            assert all(seam.on for seam in pst.status())
            raise KeyError
        assert state() == before
    with checks.check("a function that is unknown is refused by its name"):
        theirs = save_module.save_and_return_nodes
        try:
            save_module.save_and_return_nodes = lambda *arguments: theirs(*arguments)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                refused = [seam for seam in pst.enable() if not seam.on]
            assert [seam.name.rpartition(".")[2] for seam in refused] == ["save_and_return_nodes"], refused
            assert any("save.save_and_return_nodes" in str(one.message) for one in told), [str(one.message) for one in told]
            pst.disable()
        finally:
            save_module.save_and_return_nodes = theirs
        assert state() == before
    with checks.check("a function that other code has replaced in the meantime is left alone"):
        pst.enable()
        ours = ops._create_graph_constant
        theirs = lambda *arguments: ours(*arguments)  # noqa: E731
        ops._create_graph_constant = theirs
        pst.disable()
        assert ops._create_graph_constant is theirs
        with tf.Graph().as_default():
            assert tf.constant(np.zeros(4)).op.type == "Const"
        ops._create_graph_constant = before[0]


def run_everywhere(checks, name, expected, folder):
    """Checks that a folder gives the same results in all loaders of unmodified TensorFlow."""
    assert not any(seam.on for seam in pst.status())
    for loader, run in (("tf.saved_model.load", lambda: loaders.run_v2(loaders.load_v2(folder))),
                        ("a signature alone", lambda: loaders.run_alone(folder)),
                        ("a TF1 session", lambda: loaders.run_v1(folder, ["serve"])),
                        ("the C API", lambda: loaders.run_c(folder, ["serve"])["results"])):
        with checks.check(f"{name} in {loader}"):
            if loader in expected:
                same(expected[loader], run())


def results_of(folder, v2=True):
    results = {"a TF1 session": loaders.run_v1(folder, ["serve"]), "the C API": loaders.run_c(folder, ["serve"])["results"]}
    if v2:
        results["tf.saved_model.load"] = loaders.run_v2(loaders.load_v2(folder))
        results["a signature alone"] = loaders.run_alone(folder)
    return results


def check_models(checks, work):
    makers = {"everything": models.everything, "keras": models.keras, "tf1": lambda path: models.tf1(path, True, True)}
    for name, make in makers.items():
        stock, ours, chunked = (os.path.join(work, name + end) for end in ("", ".ours", ".cpb"))
        make(stock)
        expected = results_of(stock)
        with checks.check(f"{name}: saved with the shim"):
            pst.enable(min_size="1KiB")
            make(ours)
            pst.disable()
            assert os.path.getsize(os.path.join(ours, CONSTANTS)) > 1000
            assert not [left for left in os.listdir(ours) if left.startswith(".")], os.listdir(ours)
        run_everywhere(checks, name, expected, ours)
        with checks.check(f"{name}: in chunks, and loaded by us"):
            with pst.enabled(min_size="1KiB", format="cpb"):
                make(chunked)
            # Uses `ps.split` with a small maximum, since `pst.save` keeps models below the maximum chunk size in one piece.
            whole = os.path.join(chunked, "saved_model.pb")
            ps.split(whole, os.path.join(chunked, "saved_model"), max_chunk_size="8KiB")
            os.remove(whole)
            same(expected["tf.saved_model.load"], loaders.run_v2(pst.load(chunked)))
            for signature in expected["a signature alone"]:
                if "error" not in expected["a signature alone"][signature]:
                    function = pst.load(chunked).signatures[signature]
                    same(expected["a signature alone"][signature], loaders.run_signature(function))
            with pst.enabled(min_size="1KiB"):
                same(expected["a TF1 session"], loaders.run_v1(chunked, ["serve"]))
        with checks.check(f"{name}: TensorFlow alone refuses the chunks"):
            with contextlib.suppress(OSError):
                tf.saved_model.load(chunked)
                raise AssertionError("it didn't")
        if name == "everything":
            check_tools(checks, work, stock, ours)
        for path in (stock, ours, chunked):
            shutil.rmtree(path, ignore_errors=True)


def check_tools(checks, work, stock, ours):
    with checks.check("saved_model_cli run"):
        tool = os.path.join(os.path.dirname(sys.executable), "saved_model_cli")
        given = os.path.join(work, "x.npy")
        np.save(given, np.ones([2, 128], np.float32))
        results = []
        for folder in (stock, ours):
            to = tempfile.mkdtemp(dir=work)
            subprocess.run([tool, "run", "--dir", folder, "--tag_set", "serve", "--signature_def", "nested",
                            "--inputs", f"x={given}", "--outdir", to], check=True, capture_output=True)
            results.append(np.load(to + "/y.npy").tobytes())
        assert results[0] == results[1]
    with checks.check("tf.keras.layers.TFSMLayer"):
        results = []
        for folder in (stock, ours):
            layer = tf.keras.layers.TFSMLayer(folder, call_endpoint="nested")
            results.append(layer(np.ones([2, 128], np.float32))["y"].numpy().tobytes())
        assert results[0] == results[1]


def check_saving(checks, work):
    model, path = Dense(64), os.path.join(work, "saving")
    x = tf.ones([1, 256])
    with checks.check("a function that was traced before is saved, with a warning"):
        expected = model.call(x)["y0"].numpy().tobytes()
        # Unlike a function with a separate signature, this function isn't traced again while it is saved.
        traced = tf.function(lambda x: model.call.python_function(x)).get_concrete_function(tf.TensorSpec([None, 256], name="x"))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            pst.save(tf.Module(), path, signatures=traced, min_size="1KiB")
        assert any("traced before enable()" in str(one.message) for one in told), [str(one.message) for one in told]
        # The loaded object must be kept, since its variables are freed together with it.
        loaded = tf.saved_model.load(path)
        assert loaded.signatures["serving_default"](x=x)["y0"].numpy().tobytes() == expected
        assert os.path.exists(os.path.join(path, CONSTANTS))
    with checks.check("a model is saved over another"):
        again = Dense(64)
        again.weights = [weight + 1 for weight in again.weights]
        with pst.enabled(min_size="1KiB"):
            expected = again.call(x)["y0"].numpy().tobytes()
            tf.saved_model.save(again, path, signatures=again.call)
        assert tf.saved_model.load(path).call(x)["y0"].numpy().tobytes() == expected
    with checks.check("an array that is modified between traces is another constant"):
        weight = np.ones([64, 64], np.float32)
        with pst.enabled(min_size="1KiB"):
            first = tf.function(lambda: tf.constant(weight)).get_concrete_function()
            same_one = tf.function(lambda: tf.constant(weight)).get_concrete_function()
            weight[0, 0] = 7
            second = tf.function(lambda: tf.constant(weight)).get_concrete_function()
        assert first.captured_inputs[0] is same_one.captured_inputs[0]
        assert first()[0, 0] == 1 and second()[0, 0] == 7
    with checks.check("zeros keep their signs"):
        signed = np.zeros(1024, np.float32)
        signed[::2] = -0.0
        module = tf.Module()
        with pst.enabled(min_size="1KiB"):
            module.call = tf.function(lambda: tf.constant(signed), input_signature=[])
            tf.saved_model.save(module, os.path.join(work, "signed"))
        loaded = tf.saved_model.load(os.path.join(work, "signed"))
        assert loaded.call().numpy().tobytes() == signed.tobytes()
    with checks.check("constants that graphs convert are converted"):
        with pst.enabled(min_size=16):
            to_int = tf.function(lambda: tf.constant(np.full(64, 2.9), tf.int32))
            shaped = tf.function(lambda: tf.constant(np.zeros(64, np.float32), shape=[8, 8]))
            zeros = tf.function(lambda: tf.zeros([512]) + tf.constant(np.zeros(512, np.float32)))
            assert to_int().numpy().tolist() == [2] * 64
            assert shaped().shape == [8, 8]
            assert zeros().numpy().sum() == 0
    with checks.check("export_meta_graph and frozen graphs are TensorFlow's own"):
        fresh = Dense(64)
        with pst.enabled(min_size="1KiB"):
            save_module.export_meta_graph(fresh, os.path.join(work, "meta.pb"), signatures=fresh.call)
        meta = tf.compat.v1.MetaGraphDef.FromString(ps_bytes(os.path.join(work, "meta.pb")))
        assert max(node.ByteSize() for node in meta.graph_def.node) > 64 << 10


def check_import(checks, work):
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [2, 64], name="x")
        y = tf.add(x @ tf.constant(models.numbers(1, 64, 64), name="w"), tf.constant(models.numbers(2, 64)), name="y")
    definition = graph.as_graph_def()
    path = os.path.join(work, "graph.pb")
    with open(path, "wb") as file:
        file.write(definition.SerializeToString())
    x = np.ones([2, 64], np.float32)
    with checks.check("import_graph_def takes files of both forms"):
        with v1.Session(graph=graph) as session:
            expected = session.run(y, {"x:0": x})
        written = ps.split(path, os.path.join(work, "graph"), "tensorflow.GraphDef", max_chunk_size="4KiB")
        for source in (path, written.path):
            imported = v1.wrap_function(lambda source=source: pst.import_graph_def(source, name="", min_size="1KiB"), [])
            pruned = imported.prune(imported.graph.get_tensor_by_name("x:0"), imported.graph.get_tensor_by_name("y:0"))
            assert pruned(tf.constant(x)).numpy().tobytes() == expected.tobytes()
            assert all(node.ByteSize() < 4096 for node in imported.graph.as_graph_def().node)
    with checks.check("import_graph_def's error names the contexts where it works"):
        with contextlib.suppress(ValueError), tf.Graph().as_default():
            pst.import_graph_def(path)
            raise AssertionError("it didn't")


def loops():
    """Yields TensorFlow 1 graphs with constants inside and outside of loop frames."""
    a, b = models.numbers(3, 16, 16), models.numbers(4, 16, 16)

    def times(constant):
        return lambda i, x: (i + 1, tf.tanh(x @ (tf.constant(b) if constant is None else constant)))

    def loop(body, x, below=lambda i, x: i < 3):
        return v1.while_loop(below, body, [0, x])[1]

    yield "a constant in a loop", lambda x: loop(times(None), x)
    yield "a constant from outside", lambda x: loop(times(tf.constant(a)), x)
    yield "one in the condition", lambda x: loop(times(tf.constant(a)), x, lambda i, x: tf.reduce_sum(tf.constant(b)) * 0 + tf.cast(i, tf.float32) < 2)
    yield "a loop in a loop", lambda x: loop(lambda i, x: (i + 1, loop(times(None), x) + tf.constant(a)[:4]), x)
    yield "a branch in a loop", lambda x: loop(lambda i, x: (i + 1, v1.cond(i > 1, lambda: x @ tf.constant(a), lambda: x @ tf.constant(b))), x)
    yield "a loop in a branch", lambda x: v1.cond(tf.reduce_sum(x) > 1e6, lambda: x @ tf.constant(a), lambda: loop(times(None), x))
    yield "rows that are mapped", lambda x: tf.map_fn(lambda row: tf.linalg.matvec(tf.constant(a), row), x)
    yield "a gradient", lambda x: tf.gradients(loop(times(None), x), x)[0]


def check_loops(checks, work):
    path, given = os.path.join(work, "loops.pb"), models.numbers(5, 4, 16)
    v1.disable_control_flow_v2()
    try:
        for name, build in loops():
            with checks.check(f"import_graph_def takes loops of TensorFlow 1: {name}"):
                graph = tf.Graph()
                with graph.as_default():
                    y = tf.identity(build(v1.placeholder(tf.float32, [4, 16], name="x")), name="y")
                definition = graph.as_graph_def()
                assert any(node.op in ("Enter", "Merge") for node in definition.node)
                with open(path, "wb") as file:
                    file.write(definition.SerializeToString())
                with v1.Session(graph=graph) as session:
                    expected = session.run(y, {"x:0": given})
                imported = v1.wrap_function(lambda: pst.import_graph_def(path, name="", min_size=256), [])
                assert all(node.ByteSize() < 1024 for node in imported.graph.as_graph_def().node)
                pruned = imported.prune(imported.graph.get_tensor_by_name("x:0"), imported.graph.get_tensor_by_name("y:0"))
                assert pruned(tf.constant(given)).numpy().tobytes() == expected.tobytes()
    finally:
        v1.enable_control_flow_v2()


def check_docs(checks, work):
    with checks.check("docs/python.md"):
        folder = os.path.join(work, "docs")
        os.mkdir(folder)
        with open(os.path.join(HERE, "../../../docs/python.md")) as page:
            blocks = re.findall(r"```python tensorflow\n(.*?)```", page.read(), re.DOTALL)
        assert len(blocks) == 4
        graph = tf.Graph()
        with graph.as_default():
            tf.constant(models.numbers(1, 1024, 512), name="w")
        with open(os.path.join(folder, "graph.pb"), "wb") as file:
            file.write(graph.as_graph_def().SerializeToString())
        before = os.getcwd()
        os.chdir(folder)
        try:
            names = {"__name__": "page"}
            for block in blocks:
                exec(block, names)
        finally:
            os.chdir(before)
            pst.disable()
        assert len(names["report"]["moved"]) >= 1
        assert os.path.exists(os.path.join(folder, "model", CONSTANTS))


def check_memory(checks, work, mib, parts):
    path = os.path.join(work, f"large{parts}")
    with checks.check(f"{mib} MiB of constants in {parts}"):
        saved = script("save_large", path, mib, parts)
        loaded = script("load_large", path)
        assert not loaded["enabled"]
        assert saved["ran"] == loaded["ran"]
        c = loaders.run_c(path, ["serve"])
        figures = [saved["peak"], loaded["peak"], c["run"]]
        figures = [figure / saved["size"] for figure in figures]
        print(f"{saved['size'] >> 20} MiB of constants in {parts}: traced and saved {figures[0]:.2f}x, "
              f"stock load and run {figures[1]:.2f}x, C++ {figures[2]:.2f}x", flush=True)
        assert c["results"]["serving_default"].keys() == saved["ran"].keys()
        assert figures[0] <= 2.5 and figures[1] <= 1.3 and figures[2] <= 1.3, figures
    shutil.rmtree(path, ignore_errors=True)


def main():
    if len(sys.argv) > 1 and sys.argv[1] in ("bytes_of_small", "save_large", "load_large"):
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=int, default=400)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="shim-") as work:
        for name, run in (("seams", lambda: check_seams(checks)), ("small", lambda: check_small(checks, work)),
                          ("saving", lambda: check_saving(checks, work)), ("import", lambda: check_import(checks, work)), ("loops", lambda: check_loops(checks, work)),
                          ("models", lambda: check_models(checks, work)), ("docs", lambda: check_docs(checks, work)),
                          ("memory", lambda: [check_memory(checks, work, args.memory, parts) for parts in (1, 2)])):
            if args.only in name and (args.memory or name != "memory"):
                run()
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(bool(checks.failed))


if __name__ == "__main__":
    main()
