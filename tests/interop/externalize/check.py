"""Checks that an externalized model computes the same bits as the original, in every loader of unmodified TensorFlow.

Ends with one line, `N passed, 0 failed`. `--random N` sets the number of random models, and `--only WORD` selects checks.
`--example` is the path of the project's example program, which then writes a model of the size `--large MIB`.
"""

import argparse
import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
# Without this setting, the order of sums, and therefore their last bit, differs between runs.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import large  # noqa: E402
import loaders  # noqa: E402
import models  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "../../data/tensorflow")
NAME = "assets/proto_splitter_constants"


class Checks:
    def __init__(self, protosplit, work):
        self.protosplit, self.work, self.passed, self.failed = protosplit, work, 0, 0
        self.moved = 0

    @contextlib.contextmanager
    def check(self, what):
        try:
            yield
            self.passed += 1
        except Exception:  # noqa: BLE001
            self.failed += 1
            print(f"FAILED {what}\n{traceback.format_exc()[-3000:]}", flush=True)

    def run(self, *arguments):
        ran = subprocess.run([self.protosplit, *arguments], capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(f"{arguments}: {ran.returncode}: {ran.stderr}")
        return ran.stdout

    def externalize(self, model, to, min_size, *more):
        return json.loads(self.run("externalize", model, "-o", to, "--min-size", min_size, "--json", *more))


def same(expected, actual):
    assert expected.keys() == actual.keys(), (sorted(expected), sorted(actual))
    for name in expected:
        assert expected[name] == actual[name], f"{name} differs"


LOADERS = {
    "tf.saved_model.load": lambda path, tags: loaders.run_v2(loaders.load_v2(path)),
    "a signature alone": lambda path, tags: loaders.run_alone(path),
    "a TF1 session": loaders.run_v1,
    "the C API": lambda path, tags: loaders.run_c(path, tags)["results"],
}


def check_ops(path):
    """Checks that the model lists all ops that were added, as TensorFlow defines them."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.framework import op_def_registry
    from tensorflow.python.saved_model import loader_impl
    added = ["VarHandleOp", "ReadVariableOp", "Identity", "RestoreV2", "AssignVariableOp", "DestroyResourceOp", "NoOp",
             "Const", "StaticRegexReplace", "StatefulPartitionedCall", "If", "While", "Case", "ImmutableConst",
             "StopGradient"]
    for meta_graph in loader_impl.parse_saved_model(path).meta_graphs:
        if not meta_graph.meta_info_def.HasField("stripped_op_list"):
            continue
        listed = {op.name: op for op in meta_graph.meta_info_def.stripped_op_list.op}
        graph = meta_graph.graph_def
        used = {node.op for nodes in (graph.node, *(f.node_def for f in graph.library.function)) for node in nodes}
        for name in used.intersection(added):
            theirs = op_def_pb2.OpDef()
            theirs.CopyFrom(op_def_registry.get(name))
            assert listed[name] == theirs, f"{listed[name]}{theirs}"


def check_model(checks, path, sizes, which=tuple(LOADERS), tags=("serve",), quiet=False):
    """Compares a model with its externalized forms in these loaders, and internalizes them again."""
    name = os.path.basename(path)
    expected = {}
    for loader in which:
        with checks.check(f"{name}: the original in {loader}"):
            expected[loader] = LOADERS[loader](path, list(tags))
    for size in sizes:
        out = f"{path}.{size}"
        with checks.check(f"{name} at {size}: externalize"):
            moved = checks.externalize(path, out, size)
            checks.run("verify", out) if os.path.exists(out + "/saved_model.cpb") else None
            moved_all = len(moved["moved"])
            checks.moved += moved_all
            check_ops(out)
            if not quiet:
                print(f"{name} at {size}: {moved_all} moved, {len(moved['left_in'])} left in", flush=True)
        for loader in expected:
            with checks.check(f"{name} at {size} in {loader}"):
                same(expected[loader], LOADERS[loader](out, list(tags)))
        with checks.check(f"{name} at {size}: equal to the original, and back"):
            checks.run("diff", path, out)
            back = out + ".back"
            checks.run("internalize", out, "-o", back) if moved["moved"] else shutil.copytree(path, back)
            with open(path + "/saved_model.pb", "rb") as a, open(back + "/saved_model.pb", "rb") as b:
                assert a.read() == b.read()
    return expected


def check_lives(checks, path):
    """Checks models loaded twice with one copy dropped, moved, deleted after loading, saved again, loaded twice in a session, or mapped."""
    expected = loaders.run_v2(loaders.load_v2(path))
    out = path + ".lives"
    checks.externalize(path, out, "1KiB")
    with checks.check("loaded twice, one dropped"):
        first, second = loaders.load_v2(out), loaders.load_v2(out)
        same(expected, loaders.run_v2(first))
        del first
        gc.collect()
        same(expected, loaders.run_v2(second))
    with checks.check("functions of a freed model"):
        x = tf.constant(loaders.inputs(7, [3, 128], np.float32))
        for name in ("call_nested", "call_loop", "call_branch", "call_dataset", "call_jitted", "call_gradient"):
            results = []
            for folder in (path, out):
                function = getattr(loaders.load_v2(folder), name)
                gc.collect()
                inner = tf.function(lambda x: function(x))
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = function(x)["y"]
                # An output that comes from a dataset has no gradient.
                gradient = tape.gradient(y, x)
                results.append([loaders.bits(y), gradient is None or loaders.bits(gradient), loaders.bits(inner(x)["y"])])
            assert results[0] == results[1], name
    with checks.check("moved, and its files deleted after loading"):
        moved = shutil.move(out, path + ".moved")
        model = loaders.load_v2(moved)
        copy = shutil.copytree(moved, out)
        shutil.rmtree(moved)
        same(expected, loaders.run_v2(model))
        assert copy == out
    with checks.check("saved again by TensorFlow"):
        model = loaders.load_v2(out)
        again = path + ".again"
        tf.saved_model.save(model, again, signatures=model.signatures)
        same(expected, loaders.run_v2(loaders.load_v2(again)))
        sessions = loaders.run_v1(path, ["serve"])
        same(sessions, loaders.run_v1(again, ["serve"]))
        same(loaders.run_c(path, ["serve"])["results"], loaders.run_c(again, ["serve"])["results"])
    with checks.check("two in one session"):
        v1 = tf.compat.v1
        with tf.Graph().as_default(), v1.Session() as session:
            for scope in ("a", "b"):
                v1.saved_model.load(session, ["serve"], out, import_scope=scope)
            a, b = (loaders.run_session(session, out, ["serve"], scope) for scope in ("a", "b"))
            same(loaders.run_v1(path, ["serve"]), a)
            same(a, b)
    with checks.check("in place"):
        place = shutil.copytree(path, path + ".place")
        checks.run("externalize", place, "--in-place", "--min-size", "1KiB")
        same(expected, loaders.run_v2(loaders.load_v2(place)))
    with checks.check("mapped from files"):
        mapped = path + ".mapped"
        checks.externalize(path, mapped, "1KiB", "--mmap")
        same(expected, loaders.run_v2(loaders.load_v2(mapped)))
        same(loaders.run_v1(path, ["serve"]), loaders.run_v1(mapped, ["serve"]))
    with checks.check("saved_model_cli run"):
        tool = os.path.join(os.path.dirname(sys.executable), "saved_model_cli")
        results = []
        given = os.path.join(checks.work, "x.npy")
        np.save(given, np.ones([2, 128], np.float32))
        for folder in (path, out):
            to = tempfile.mkdtemp(dir=checks.work)
            subprocess.run([tool, "run", "--dir", folder, "--tag_set", "serve", "--signature_def", "nested",
                            "--inputs", f"x={given}", "--outdir", to], check=True, capture_output=True)
            results.append(np.load(to + "/y.npy").tobytes())
        assert results[0] == results[1]
    with checks.check("tf.keras.layers.TFSMLayer"):
        results = []
        for folder in (path, out):
            layer = tf.keras.layers.TFSMLayer(folder, call_endpoint="nested")
            results.append(layer(np.ones([2, 128], np.float32))["y"].numpy().tobytes())
        assert results[0] == results[1]


def check_bundles(checks, path):
    """Checks that TensorFlow reads all tensors of our bundles, and writes the same index for their keys."""
    out = path + ".bundle"
    checks.externalize(path, out, "1KiB")
    prefix = os.path.join(out, NAME)
    reader = tf.train.load_checkpoint(prefix)
    keys = sorted(reader.get_variable_to_shape_map())
    with checks.check("our index is TensorFlow's"):
        assert len(keys) > 10
        tensors = [tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[key], shape_and_slices=[""],
                                        dtypes=[reader.get_variable_to_dtype_map()[key]])[0] for key in keys]
        theirs = os.path.join(checks.work, "theirs")
        tf.raw_ops.SaveV2(prefix=theirs, tensor_names=keys, shape_and_slices=[""] * len(keys), tensors=tensors)
        for suffix in (".index", ".data-00000-of-00001"):
            with open(prefix + suffix, "rb") as a, open(theirs + suffix, "rb") as b:
                assert a.read() == b.read(), suffix


MEMORY = """
import gc, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf
def memory(what):
    return next(int(l.split()[1]) << 10 for l in open("/proc/self/status") if l.startswith(what))
tf.constant(1.0) + 1
before = memory("VmHWM")
model = tf.saved_model.load(sys.argv[1])
load = memory("VmHWM")
infer = model.signatures["serving_default"]
if sys.argv[2] == "alone":
    del model
    gc.collect()
infer(x=tf.ones([1, 256]))
run = memory("VmHWM")
model = infer = None
gc.collect()
print(load - before, run - before, memory("VmRSS") - before)
"""


def check_memory(checks, mib):
    """Measures how unmodified TensorFlow loads and runs a model with this many MiB of constants."""
    class Large(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 256], tf.float32, name="x")])
        def call(self, x):
            for part in range(2):
                x = x[:, :256] @ tf.constant(models.numbers(part, 256, mib * 512))
            return {"y": x}

    path = os.path.join(checks.work, "large")
    model = Large()
    tf.saved_model.save(model, path, signatures=model.call)
    checks.externalize(path, path + ".out", "1MiB")
    size = os.path.getsize(os.path.join(path + ".out", NAME + ".data-00000-of-00001"))
    figures = {}
    for name, folder, kept in (("original", path, "model"), ("externalized", path + ".out", "model"),
                               ("its signature alone", path + ".out", "alone")):
        ran = subprocess.run([sys.executable, "-c", MEMORY, folder, kept], stdout=subprocess.PIPE, text=True, check=True)
        load, run, left = (int(word) / size for word in ran.stdout.split())
        c = loaders.run_c(folder, ["serve"])
        figures[name] = [load, run, c["load"] / size, c["run"] / size]
        print(f"{name}: {size >> 20} MiB of constants: load {load:.2f}x, run {run:.2f}x, left {left:.2f}x; "
              f"C++ load {figures[name][2]:.2f}x, run {figures[name][3]:.2f}x", flush=True)
        with checks.check(f"{name}: memory that is left after everything was freed"):
            # Allows for a few MiB that TensorFlow itself has allocated.
            assert left <= 0.2 + (16 << 20) / size or name == "original", left
    with checks.check("memory of the externalized model"):
        smaller = figures["externalized"] + figures["its signature alone"]
        assert all(figure <= 1.2 for figure in smaller), figures
        assert figures["original"][0] > 3, figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    parser.add_argument("--random", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--memory", type=int, default=200)
    parser.add_argument("--example")
    parser.add_argument("--large", type=int, default=1024)
    parser.add_argument("--only", default="")
    parser.add_argument("--except", default="-", dest="unwanted")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="externalize-") as work:
        checks = Checks(args.protosplit, work)
        wanted = lambda name: args.only in name and args.unwanted not in name
        print(f"TensorFlow {tf.__version__}", flush=True)
        made = {
            "everything": models.everything,
            "keras": models.keras,
            "tf1": lambda path: models.tf1(path, False, False),
            "tf1_variables": lambda path: models.tf1(path, True, False),
            "tf1_control_flow_v2": lambda path: models.tf1(path, True, True),
        }
        for name, make in made.items():
            if wanted(name):
                path = os.path.join(work, name)
                make(path)
                check_model(checks, path, ["1KiB", "64KiB"])
        if wanted("fixtures"):
            for name, tags in (("functions_consts", ["serve"]), ("keras_mlp", ["serve"]), ("lookup_strings", ["serve"])):
                path = shutil.copytree(os.path.join(FIXTURES, name), os.path.join(work, name))
                check_model(checks, path, ["256B", "1KiB", "64KiB"], tags=tags)
            path = shutil.copytree(os.path.join(FIXTURES, "tf1_two_metagraphs"), os.path.join(work, "two"))
            for tags in (["serve"], ["train"]):
                check_model(checks, shutil.copytree(path, path + tags[0]), ["256B"], which=["a TF1 session", "the C API"], tags=tags)
        if wanted("lives") or wanted("bundles"):
            path = os.path.join(work, "living")
            models.everything(path)
            if wanted("lives"):
                check_lives(checks, path)
            if wanted("bundles"):
                check_bundles(checks, path)
        if wanted("random"):
            for seed in range(args.first, args.first + args.random):
                path = os.path.join(work, f"random{seed}")
                models.random_model(path, seed)
                # Adds at most one of these loaders, since running in a session takes as long as all other loaders together.
                more = [["a TF1 session"], ["a signature alone"], []][seed % 3]
                check_model(checks, path, ["512B"], which=["tf.saved_model.load", *more], quiet=True)
                tf.keras.backend.clear_session()
                for left in (path, path + ".512B", path + ".512B.back"):
                    shutil.rmtree(left, ignore_errors=True)
        if wanted("memory"):
            check_memory(checks, args.memory)
        if wanted("large") and args.example:
            large.check_large(checks, args.example, args.large, NAME)
    print(f"{checks.moved} constants moved in all")
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(bool(checks.failed))


if __name__ == "__main__":
    main()
