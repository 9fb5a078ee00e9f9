"""Saves with `experimental_image_format`, a progress bar and Ctrl-C, and reads models in text format, with `proto_splitter.tensorflow`.

Ends with one line, `N passed, 0 failed`.
"""

import ast
import glob
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../externalize")]

# Must come first, since it checks which modules the package imports.
from shim import CONSTANTS, Checks, Dense, same  # noqa: E402

import tensorflow as tf  # noqa: E402
import google.protobuf  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402
from tensorflow.python.framework import meta_graph, ops, tensor_util  # noqa: E402
from tensorflow.python.saved_model import save_options  # noqa: E402

import loaders  # noqa: E402
import models  # noqa: E402
import proto_splitter as ps  # noqa: E402
import proto_splitter.tensorflow as pst  # noqa: E402
from proto_splitter import constants  # noqa: E402

v1 = tf.compat.v1


def image_options():
    return tf.saved_model.SaveOptions(experimental_image_format=True)


def check_image_format(checks, work):
    x = tf.ones([2, 256])
    with checks.check("after disable(), experimental_image_format raises TensorFlow's own error again"):
        with pst.enabled():
            image_options()
        try:
            image_options()
        except ValueError as error:
            assert "disabled in OSS" in str(error)
        else:
            raise AssertionError("the shim is still enabled")
    for captured in (True, False):
        path = os.path.join(work, f"image{captured}")
        with checks.check(f"a large model becomes a .cpb, {'with captured constants' if captured else 'with those in the graph'}"):
            model = Dense(64)
            with pst.enabled(min_size="1KiB", capture=captured):
                expected = model.call(x)["y0"].numpy()
                constants.debug_set_max_size(20_000)
                tf.saved_model.save(model, path, model.call, image_options())
                constants.debug_set_max_size(1 << 30)
            assert sorted(os.listdir(path)) == ["assets", "fingerprint.pb", "saved_model.cpb", "variables"], os.listdir(path)
            assert len(ps.info(path)["chunks"]) > 1 and ps.verify(path)["ok"]
            # TensorFlow computed the fingerprint from the chunks.
            assert ps.fingerprint(path)["agrees"]
            with pst.enabled():
                assert (tf.saved_model.load(path).call(x)["y0"].numpy() == expected).all()
        with checks.check("externalize makes it run elsewhere"):
            ps.externalize(path, path + ".runs", min_size="1KiB")
            assert (tf.saved_model.load(path + ".runs").call(x)["y0"].numpy() == expected).all()
    with checks.check("a small model becomes a .pb, written as TensorFlow writes it"):
        small = os.path.join(work, "small")
        module = tf.Module()
        module.f = tf.function(lambda x: x + 1, input_signature=[tf.TensorSpec([2])])
        with pst.enabled():
            tf.saved_model.save(module, small, options=image_options())
        with open(os.path.join(small, "saved_model.pb"), "rb") as file:
            data = file.read()
        assert data == saved_model_pb2.SavedModel.FromString(data).SerializeToString(deterministic=True)
        assert not os.path.exists(os.path.join(small, "saved_model.cpb"))
    with checks.check("a builder of TensorFlow 1 writes a .cpb"):
        path = os.path.join(work, "builder")
        with v1.Graph().as_default(), v1.Session() as session, pst.enabled(min_size="1KiB"):
            x = v1.placeholder(tf.float32, [None, 64], name="x")
            y = tf.matmul(x, tf.constant(models.numbers(3, 64, 64)), name="y")
            builder = v1.saved_model.Builder(path)
            signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
            constants.debug_set_max_size(5000)
            builder.save(experimental_image_format=True, experimental_image_writer_options="transpose,zstd:3")
            constants.debug_set_max_size(1 << 30)
        assert os.path.exists(os.path.join(path, "saved_model.cpb"))
        with pst.enabled():
            results = loaders.run_v1(path, ["serve"])
        ps.externalize(path, path + ".runs", min_size="1KiB")
        same(results, loaders.run_v1(path + ".runs", ["serve"]))


def check_text(checks, work):
    with checks.check("saved_model.pbtxt is read where TensorFlow reads it"):
        path, lean = os.path.join(work, "text"), os.path.join(work, "text.lean")
        model = Dense(64)
        x = tf.ones([2, 256])
        expected = model.call(x)["y0"].numpy()
        tf.saved_model.save(model, path, model.call)
        with open(os.path.join(path, "saved_model.pb"), "rb") as file:
            message = saved_model_pb2.SavedModel.FromString(file.read())
        os.remove(os.path.join(path, "saved_model.pb"))
        with open(os.path.join(path, "saved_model.pbtxt"), "w") as file:
            file.write(text_format.MessageToString(message))
        with pst.enabled():
            assert (tf.saved_model.load(path).call(x)["y0"].numpy() == expected).all()
        assert (pst.load(path).call(x)["y0"].numpy() == expected).all()
        pst.externalize(path, lean, min_size="1KiB")
        assert os.path.exists(os.path.join(lean, CONSTANTS))
        assert (tf.saved_model.load(lean).call(x)["y0"].numpy() == expected).all()


def check_progress(checks, work):
    with checks.check("a callback gets the progress of a save, and ends the save by an exception"):
        told = []
        model = Dense(2048)
        pst.save(model, os.path.join(work, "told"), model.call, progress=lambda done, total: told.append((done, total)))
        assert told and told[-1][0] == told[-1][1] > 1 << 20, told[-3:]

        class Enough(Exception):
            pass

        def stop(done, total):
            raise Enough

        path = os.path.join(work, "stopped")
        try:
            pst.save(model, path, model.call, progress=stop)
        except Enough:
            assert not os.path.exists(path)
        else:
            raise AssertionError("the save wasn't stopped")
    with checks.check("a progress that can't be called raises ValueError before anything is saved"):
        for wrong in (3, "bar"):
            try:
                pst.save(Dense(64), os.path.join(work, "wrong"), progress=wrong)
            except ValueError as error:
                assert repr(wrong) in str(error), error
            else:
                raise AssertionError("it was accepted")
        assert not os.path.exists(os.path.join(work, "wrong"))
    with checks.check("a bar ends with a line"):
        ran = subprocess.run([sys.executable, __file__, "bar", os.path.join(work, "bar")], capture_output=True, text=True)
        assert ran.returncode == 0 and "saving 2MiB of 2MiB\n" in ran.stderr, ran.stderr[-2000:]
    with checks.check("Ctrl-C ends a save, and no files are left"):
        path = os.path.join(work, "interrupted")
        child = subprocess.Popen([sys.executable, __file__, "interrupted", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdout.readline()
        # Waits until constants are being written.
        while child.poll() is None and not glob.glob(os.path.join(path, ".proto_splitter-*")):
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=120)
        assert out == "interrupted\n", (out, err[-2000:])
        assert not os.path.exists(path)


def check_pages(checks):
    """Checks that both pages have TensorFlow's and protobuf's messages about 2 GB."""
    pages = {}
    for name in ("python.md", "my-model-is-too-big.md"):
        with open(os.path.join(HERE, "../../../docs", name)) as file:
            # The messages of the page: the first cell of each row in its table.
            pages[name] = [row.split("|")[1] for row in file if row.startswith("| ") and "`" in row]
    modules = (tensor_util, ops, meta_graph, save_options)
    words = ("larger than 2GB.", "disabled in OSS.")
    said = set()
    for module in modules:
        with open(module.__file__) as file:
            strings = [node.value for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        # Considers only the first line of a string, so that docstrings are skipped.
        said.update(text[:text.index(word) + len(word)] for text in strings for word in words if word in text.split("\n")[0])
    binaries = glob.glob(os.path.join(os.path.dirname(google.protobuf.__file__), "../_upb/*.so")) \
        + [os.path.join(os.path.dirname(tf.__file__), "libtensorflow_framework.so.2")]
    for path in binaries:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            said.update(found.decode() for found in re.findall(rb"[\w ]*(?:exceed\w* maximum protobuf size of 2GB|must be smaller than 2GiB): ", data))
    with checks.check("both pages have every message about 2 GB"):
        assert len(said) >= 5, said
        for message in said:
            for name, rows in pages.items():
                assert any(message.strip()[-40:].lower() in row.lower() for row in rows), (message, name)


def bar(path):
    model = Dense(2048)
    pst.save(model, path, model.call, progress=True)


def interrupted(path):
    # Restores the handling of Ctrl-C, which is ignored in processes that a shell starts in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = Dense(400 * 1024)
    pst.enable()
    model.call(tf.ones([1, 256]))
    print("begins", flush=True)
    try:
        tf.saved_model.save(model, path, model.call)
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def main():
    if len(sys.argv) > 1:
        return globals()[sys.argv[1]](*sys.argv[2:])
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="saving-") as work:
        check_image_format(checks, work)
        check_text(checks, work)
        check_progress(checks, work)
        check_pages(checks)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(bool(checks.failed))


if __name__ == "__main__":
    main()
