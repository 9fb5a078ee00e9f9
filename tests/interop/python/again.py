"""Saves loaded models again in TensorFlow, and over existing models, with and without `proto_splitter.tensorflow`.

Ends with one line, `N passed, 0 failed`.
"""

import os
import shutil
import sys
import tempfile
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../externalize")]

# Must come first, since it checks which modules the package imports.
from shim import CONSTANTS, Checks, Dense, results_of, run_everywhere, same  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import gcs_server  # noqa: E402
import loaders  # noqa: E402
import models  # noqa: E402
import proto_splitter as ps  # noqa: E402
import proto_splitter.tensorflow as pst  # noqa: E402
from proto_splitter import constants  # noqa: E402

SPEC = [tf.TensorSpec([None, 256], tf.float32, name="x")]


def files(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def size(folder):
    return os.path.getsize(os.path.join(folder, "saved_model.pb"))


class Wrapper(tf.Module):
    """A model that wraps a loaded one, with its own large constant."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.more = inner, models.numbers(50, 64, 64)

    @tf.function(input_signature=SPEC)
    def call(self, x):
        return {"y": tf.tanh(tf.reshape(self.inner.call(x)["y0"], [1, 64]) @ tf.constant(self.more))}


def check_again(checks, work):
    stock, first = os.path.join(work, "stock"), os.path.join(work, "first")
    models.everything(stock)
    expected = results_of(stock)
    pst.externalize(stock, first, min_size="1KiB")
    with_shim, without, rescued, third = (os.path.join(work, name) for name in ("with", "without", "rescued", "third"))
    with checks.check("a model that was loaded is saved with the shim"):
        loaded = tf.saved_model.load(first)
        pst.save(loaded, with_shim, signatures=loaded.signatures, min_size="1KiB")
        assert size(with_shim) < size(stock) / 2, (size(with_shim), size(stock))
    run_everywhere(checks, "saved again with the shim", expected, with_shim)
    with checks.check("a model that is saved a third time doesn't grow"):
        loaded = tf.saved_model.load(with_shim)
        pst.save(loaded, third, signatures=loaded.signatures, min_size="1KiB")
        assert os.path.getsize(os.path.join(third, CONSTANTS)) == os.path.getsize(os.path.join(with_shim, CONSTANTS))
    run_everywhere(checks, "saved a third time", expected, third)
    with checks.check("a model that TensorFlow alone saved is externalized"):
        loaded = tf.saved_model.load(first)
        tf.saved_model.save(loaded, without, signatures=loaded.signatures)
        # TensorFlow turns captured tensors into Const nodes, as docs/python.md says.
        assert size(without) > 2 * size(first), (size(without), size(first))
        report = ps.externalize(without, rescued, min_size="1KiB")
        assert len(report["stale"]) == 2 and size(rescued) < size(stock) / 2, report
    run_everywhere(checks, "saved by TensorFlow and externalized", expected, rescued)
    with checks.check("and internalized"):
        ps.internalize(without, os.path.join(work, "internal"))
        ps.internalize(rescued, os.path.join(work, "back"))
        for name in ("internal", "back"):
            with open(os.path.join(work, name, "saved_model.pb"), "rb") as one, open(os.path.join(without, "saved_model.pb"), "rb") as two:
                assert one.read() == two.read(), name
            same(expected["tf.saved_model.load"], loaders.run_v2(loaders.load_v2(os.path.join(work, name))))


def check_variables(checks, work):
    x = tf.ones([2, 256])
    stock, assets, first, second = (os.path.join(work, name) for name in ("plain", "assets", "first.variables", "second.variables"))
    models.everything(stock)
    expected = results_of(stock)

    def none_twice(folder):
        assert not [name for name in files(folder) if "proto_splitter" in name], files(folder)
        data = (os.path.getsize(os.path.join(of, "variables/variables.data-00000-of-00001")) for of in (folder, first))
        assert abs(next(data) - next(data)) < 10_000, folder

    with checks.check("captured constants are saved as variables"):
        with pst.enabled(min_size="1KiB", format="variables"):
            models.everything(first)
        assert size(first) < size(stock) / 4, (size(first), size(stock))
        none_twice(first)
        # Two of the model's constants are equal.
        shapes = [shape for name, shape in tf.train.list_variables(os.path.join(first, "variables/variables")) if "constant_" in name]
        assert len(shapes) > 15 and 4 * sum(map(np.prod, shapes)) < 1.1 * size(stock), shapes
    run_everywhere(checks, "saved as variables", expected, first)
    with checks.check("TensorFlow alone saves the variables again as variables"):
        loaded = tf.saved_model.load(first)
        tf.saved_model.save(loaded, second, signatures=loaded.signatures)
        assert size(second) < 1.5 * size(first), (size(second), size(first))
        none_twice(second)
    run_everywhere(checks, "saved as variables and by TensorFlow", expected, second)
    with checks.check("TensorFlow alone saves a module around the model"):
        inner, outer = os.path.join(work, "inner.variables"), os.path.join(work, "outer.variables")
        model = Dense(64)
        pst.save(model, inner, model.call, min_size="1KiB", format="variables")
        wrapper = Wrapper(tf.saved_model.load(inner))
        tf.saved_model.save(wrapper, outer, wrapper.call)
        # The module's own constant is in the graph, but the constant of the loaded model isn't.
        assert 4 * 64 * 64 < size(outer) < 4 * 256 * 64, size(outer)
        # The loaded object must be kept, since functions hold only weak references to its variables.
        loaded = tf.saved_model.load(outer)
        assert (loaded.call(x)["y"].numpy() == wrapper.call(x)["y"].numpy()).all()
    with checks.check("a function of a model saved with variables holds the variables"):
        assert (tf.saved_model.load(inner).call(x)["y0"].numpy() == model.call(x)["y0"].numpy()).all()
    with checks.check("variables of a loaded model stay variables with the shim"):
        for format in ("assets", "variables"):
            path = os.path.join(work, f"third.{format}")
            loaded = tf.saved_model.load(second)
            pst.save(loaded, path, loaded.signatures, min_size="1KiB", format=format)
            none_twice(path)
            same(expected["tf.saved_model.load"], loaders.run_v2(loaders.load_v2(path)))
    with checks.check("a loaded model whose constants were assets is saved with variables"):
        path = os.path.join(work, "from.assets")
        with pst.enabled(min_size="1KiB"):
            models.everything(assets)
        loaded = tf.saved_model.load(assets)
        pst.save(loaded, path, loaded.signatures, min_size="1KiB", format="variables")
        none_twice(path)
    run_everywhere(checks, "assets saved as variables", expected, path)
    with checks.check("constants that no function captures are still assets"):
        path = os.path.join(work, "traced")
        model = Dense(64)
        traced = tf.function(lambda x: model.call.python_function(x)).get_concrete_function(tf.TensorSpec([None, 256], name="x"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pst.save(tf.Module(), path, traced, min_size="1KiB", format="variables")
        assert os.path.exists(os.path.join(path, CONSTANTS))
    with checks.check("the program's own functions still capture tensors"):
        model = Dense(64)
        with pst.enabled(min_size="1KiB", format="variables"):
            model.call(tf.ones([1, 256]))
            tf.saved_model.save(model, os.path.join(work, "captures"), model.call)
        captured = model.call.get_concrete_function().captured_inputs
        assert [tensor.dtype for tensor in captured] == [tf.float32], captured


def check_around(checks, work):
    inner = os.path.join(work, "inner")
    model = Dense(64)
    pst.save(model, inner, signatures=model.call, min_size="1KiB")
    # The model must be kept, since its functions hold only weak references to it.
    outer = Wrapper(model)
    expected = outer.call(tf.ones([2, 256]))["y"].numpy()
    with checks.check("a module around a loaded model is saved with its own large constant"):
        path = os.path.join(work, "around")
        with pst.enabled(min_size="1KiB"):
            wrapper = Wrapper(tf.saved_model.load(inner))
            tf.saved_model.save(wrapper, path, signatures=wrapper.call)
        assert (tf.saved_model.load(path).call(tf.ones([2, 256]))["y"].numpy() == expected).all()
        assert os.path.getsize(os.path.join(path, CONSTANTS)) == 4 * (256 * 64 + 64 * 64)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            same(loaders.run_v1(path, ["serve"]), loaders.run_v2(tf.saved_model.load(path)))
    with checks.check("a Keras model around a loaded one is exported"):
        path = os.path.join(work, "keras")

        class Layer(tf.keras.layers.Layer):
            def __init__(self):
                super().__init__()
                self.inner = tf.saved_model.load(inner)

            def call(self, x):
                return tf.reshape(self.inner.call(x)["y0"], [1, 64]) @ tf.constant(models.numbers(50, 64, 64))

        keras = tf.keras.Sequential([tf.keras.Input([256]), Layer()])
        wanted = keras(tf.ones([2, 256])).numpy()
        with pst.enabled(min_size="1KiB"):
            keras.export(path, verbose=False)
        got = tf.saved_model.load(path).serve(tf.ones([2, 256])).numpy()
        assert (got == wanted).all()
        assert os.path.getsize(os.path.join(path, CONSTANTS)) >= 4 * (256 * 64 + 64 * 64)


def check_over(checks, work):
    path, x = os.path.join(work, "over"), tf.ones([2, 256])
    for how in ("with the shim", "by TensorFlow", "in chunks"):
        with checks.check(f"a small model saved over a large one {how} leaves nothing of the large one"):
            shutil.rmtree(path, ignore_errors=True)
            model, small = Dense(64), Dense(64)
            pst.save(model, path, signatures=model.call, min_size="1KiB")
            assert os.path.exists(os.path.join(path, CONSTANTS))
            if how == "by TensorFlow":
                tf.saved_model.save(small, path, signatures=small.call)
                report = ps.externalize(path, path + ".made", min_size="1KiB")
                assert len(report["stale"]) == 3, report["stale"]
                ps.externalize(path, path + ".made", min_size="1KiB", force=True)
                assert sum("proto_splitter" in name for name in files(path + ".made")) == 3, files(path + ".made")
                ps.externalize(path, path + ".made", min_size="1MiB", force=True)
                path = path + ".made"
            elif how == "in chunks":
                pst.save(small, path, signatures=small.call, min_size="1KiB", format="cpb")
            else:
                pst.save(small, path, signatures=small.call, min_size="1MiB")
            assert not [name for name in files(path) if "proto_splitter" in name], files(path)
            assert (pst.load(path).call(x)["y0"].numpy() == small.call(x)["y0"].numpy()).all()


    with checks.check("a model saved over a large one removes no files of others"):
        path, shared = os.path.join(work, "linked"), os.path.join(work, "shared")
        model, small = Dense(64), Dense(64)
        pst.save(model, path, signatures=model.call, min_size="1KiB")
        os.rename(os.path.join(path, "assets"), shared)
        os.symlink(shared, os.path.join(path, "assets"))
        thesis = os.path.join(path, "assets.extra", "proto_splitter_mapped", "thesis.tex")
        os.makedirs(os.path.dirname(thesis))
        with open(thesis, "w") as file:
            file.write("mine")
        before = files(shared)
        pst.save(small, path, signatures=small.call, min_size="1MiB")
        assert before and files(shared) == before, files(shared)
        assert os.path.exists(thesis)


class Unsavable(tf.Module):
    def __init__(self):
        super().__init__()
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0)
        self.f = tf.function(lambda x: table.lookup(x), input_signature=[tf.TensorSpec([1], tf.int32)])


def check_failing(checks, work):
    path = os.path.join(work, "failing")
    with checks.check("a failed save leaves no partial files"):
        try:
            pst.save(Unsavable(), path)
            raise RuntimeError("it didn't fail")
        except AssertionError:
            pass
        assert not os.path.exists(path)
    with checks.check("no message names a temporary folder"):
        model = Dense(64)
        before = pst._writer._models.externalize

        def full(folder, made, **options):
            raise OSError(28, "No space left on device", os.path.join(made, "assets/x"))

        pst._writer._models.externalize = full
        try:
            pst.save(model, path, signatures=model.call, min_size="1KiB")
            raise RuntimeError("it didn't fail")
        except OSError as error:
            assert error.filename == os.path.join(path, "assets/x"), error
            assert error.errno == 28
        finally:
            pst._writer._models.externalize = before
        assert not os.path.exists(path)


def remote_files(folder):
    walked = tf.io.gfile.walk(folder) if tf.io.gfile.exists(folder) else ()
    # The names of folders in `gs://` end with a slash.
    return sorted(f"{at.rstrip('/')}/{name}"[len(folder):].lstrip("/") for at, _, names in walked for name in names)


def check_remote(checks, place):
    model, small, x = Dense(64), Dense(64), tf.ones([2, 256])
    expected = model.call(x)["y0"].numpy()
    path, again, chunked = (f"{place}/{name}" for name in ("model", "again", "chunked"))
    with checks.check(f"{place}: a model is saved to where tf.io.gfile writes"):
        pst.save(model, path, signatures=model.call, min_size="1KiB")
        assert CONSTANTS in remote_files(path)
        # TensorFlow joins the paths of remote assets like those of local files.
        assert (tf.saved_model.load(path).call(x)["y0"].numpy() == expected).all()
    with checks.check(f"{place}: a model loaded from there is saved there"):
        with pst.enabled(min_size="1KiB"):
            wrapper = Wrapper(tf.saved_model.load(path))
            tf.saved_model.save(wrapper, again, signatures=wrapper.call)
        assert (tf.saved_model.load(again).call(x)["y"].numpy() == wrapper.call(x)["y"].numpy()).all()
        assert len([name for name in remote_files(again) if "proto_splitter" in name]) == 3, remote_files(again)
    with checks.check(f"{place}: a small model saved over a large one there leaves nothing of the large one"):
        pst.save(small, path, signatures=small.call)
        assert remote_files(path) == ["fingerprint.pb", "saved_model.pb", "variables/variables.data-00000-of-00001", "variables/variables.index"], \
            remote_files(path)
    with checks.check(f"{place}: a model in chunks is read from there"):
        with pst.enabled(min_size="1KiB", format="cpb"):
            constants.debug_set_max_size(20_000)
            tf.saved_model.save(model, chunked, signatures=model.call)
            constants.debug_set_max_size(1 << 30)
            assert "saved_model.cpb" in remote_files(chunked) and "saved_model.pb" not in remote_files(chunked)
            assert tf.saved_model.experimental.read_fingerprint(chunked).graph_def_program_hash
            assert (tf.saved_model.load(chunked).call(x)["y0"].numpy() == expected).all()
            same(loaders.run_v1(chunked, ["serve"]), loaders.run_v1(path, ["serve"]))
        assert (pst.load(chunked).call(x)["y0"].numpy() == expected).all()
    with checks.check(f"{place}: progress is reported from start to end, and an exception in the callback ends the save without leaving files"):
        told, large = [], Dense(2048)
        pst.save(large, f"{place}/told", large.call, progress=lambda done, total: told.append((done, total)))
        assert told == sorted(told) and told[-1][0] == told[-1][1] > 1 << 20, told
        for stop_at in (0, told[-1][1] * 3 // 4):

            def stop(done, total):
                if done >= stop_at:
                    raise InterruptedError("enough")

            try:
                pst.save(large, f"{place}/stopped", large.call, progress=stop)
                raise RuntimeError("the save wasn't stopped")
            except InterruptedError:
                # Lists the files, since `gs://` reports a removed folder as existing for some seconds.
                assert not remote_files(f"{place}/stopped"), remote_files(f"{place}/stopped")
                assert not [name for name in tf.io.gfile.listdir(place) if "stopped" in name]

def check_refusing_store(checks, store):
    model, path = Dense(64), "gs://bucket/refused"
    with checks.check("gs://: a store that refuses the constants ends the save with its own error, and no files are left"):
        store.fail("POST /upload.*proto_splitter_constants", 403)
        try:
            pst.save(model, path, signatures=model.call, min_size="1KiB")
            raise RuntimeError("the model was saved")
        except tf.errors.PermissionDeniedError as error:
            assert tempfile.gettempdir() not in str(error), error
        finally:
            store.fail("", 0)
        assert not [name for name in store.names("bucket") if name.startswith("refused")], store.names("bucket")


def check_missing_scheme(checks):
    model = Dense(64)
    with checks.check("a scheme without a file system in TensorFlow's wheel raises TensorFlow's own error"):
        errors = []
        for save in (tf.saved_model.save, pst.save):
            try:
                save(model, "s3://bucket/model", signatures=model.call)
            except Exception as error:  # noqa: BLE001
                errors.append((type(error), str(error)))
        assert len(errors) == 2 and errors[0] == errors[1] and "\n" not in errors[0][1], errors
        assert "scheme 's3' not implemented" in errors[0][1], errors
        for load in (tf.saved_model.load, pst.load):
            try:
                load("s3://bucket/model")
                raise RuntimeError("the model was loaded")
            except Exception as error:  # noqa: BLE001
                errors.append((type(error), str(error)))
        assert errors[2] == errors[3], errors


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="again-") as work:
        check_again(checks, work)
        check_variables(checks, work)
        check_around(checks, work)
        check_over(checks, work)
        check_failing(checks, work)
        check_remote(checks, "ram://remote")
        with gcs_server.running(tempfile.mkdtemp(dir=work), "bucket") as store:
            check_remote(checks, "gs://bucket/models")
            check_refusing_store(checks, store)
        check_missing_scheme(checks)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(bool(checks.failed))


if __name__ == "__main__":
    main()
