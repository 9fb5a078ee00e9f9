"""Saves and loads with the installed versions of TensorFlow, protobuf and Keras, with `proto_splitter.tensorflow`.

Ends with a row of the versions for the table of docs/python.md, and one line, `N passed, 0 failed`.
"""

import os
import platform
import sys
import tempfile
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../externalize"))

# Must come first, since it checks which modules the package imports.
from shim import CONSTANTS, Checks, Dense  # noqa: E402

import google.protobuf  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.framework import graph_pb2  # noqa: E402

import proto_splitter as ps  # noqa: E402
import proto_splitter.tensorflow as pst  # noqa: E402
from proto_splitter.compat import constants, split_graph_def  # noqa: E402
from proto_splitter.compat.python import test_util  # noqa: E402


def check_saving(checks, work):
    x = tf.ones([2, 256])
    with checks.check("every function of TensorFlow is known"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pst.enabled():
                assert all(seam.on for seam in pst.status()), pst.status()
        assert not any(seam.on for seam in pst.status())
    for format in ("assets", "variables", "cpb"):
        with checks.check(f"a model is saved as {format}"):
            path, model = os.path.join(work, format), Dense(64)
            with pst.enabled(min_size="1KiB", format=format):
                expected = model.call(x)["y0"].numpy()
                tf.saved_model.save(model, path, model.call)
            if format == "assets":
                assert os.path.exists(os.path.join(path, CONSTANTS))
                assert (tf.saved_model.load(path).call(x)["y0"].numpy() == expected).all()
            elif format == "variables":
                loaded = tf.saved_model.load(path)
                tf.saved_model.save(loaded, path + ".again", loaded.signatures)
                assert os.path.getsize(os.path.join(path + ".again", "saved_model.pb")) < 4 * 64 * 256
                loaded = tf.saved_model.load(path + ".again")
                assert (loaded.call(x)["y0"].numpy() == expected).all()
            else:
                assert (pst.load(path).call(x)["y0"].numpy() == expected).all()
    with checks.check("Keras exports"):
        path, weights = os.path.join(work, "keras"), np.arange(64 * 64, dtype=np.float32).reshape(64, 64)

        class Constant(keras.layers.Layer):
            def call(self, x):
                return tf.matmul(x, tf.constant(weights))

        model = keras.Sequential([keras.Input([64]), Constant()])
        expected = model(tf.ones([2, 64])).numpy()
        with pst.enabled(min_size="1KiB"):
            model.export(path)
        assert os.path.exists(os.path.join(path, CONSTANTS))
        assert (tf.saved_model.load(path).serve(tf.ones([2, 64])).numpy() == expected).all()


def check_messages(checks, work):
    graph = test_util.make_graph_def_with_constant_nodes([95] * 15)
    # Appends a field that isn't in the type.
    whole = graph_pb2.GraphDef.FromString(graph.SerializeToString() + bytes.fromhex("fa3f0161"))
    with checks.check("messages are split and read"):
        written = ps.split(whole, os.path.join(work, "graph"), max_chunk_size=500)
        assert len(written.chunks) > 1
        assert ps.read(written.path, graph_pb2.GraphDef).SerializeToString(deterministic=True) \
            == whole.SerializeToString(deterministic=True)
    with checks.check("splitters by TensorFlow's names split them"):
        constants.debug_set_max_size(500)
        path = split_graph_def.GraphDefSplitter(graph_pb2.GraphDef.FromString(graph.SerializeToString())).write(os.path.join(work, "compat"))
        constants.debug_set_max_size(1 << 30)
        assert ps.read(path, graph_pb2.GraphDef) == graph


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="versions-") as work:
        check_saving(checks, work)
        check_messages(checks, work)
    versions = (platform.python_version(), tf.__version__, google.protobuf.__version__, keras.__version__)
    print(f"| {' | '.join(versions)} |")
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(bool(checks.failed))


if __name__ == "__main__":
    main()
