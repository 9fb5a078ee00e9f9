"""Goes through all steps of daily work with a model whose constants TensorFlow can't save.

The model is saved, loaded, saved again, wrapped, overwritten, saved in chunks and to a store, and saved with variables, so that TensorFlow
alone can save it again. Each step is a process, whose peak memory is printed next to the size of the constants; "stock" steps don't import
the package. Ends with one line, `N passed, 0 failed`. `--memory MIB` sets the size of the constants. The default, 2300, takes 12 GB of disk
and of memory. Not in CI.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../externalize")]

if not "".join(sys.argv[1:2]).startswith("stock"):
    # Must come first, since it checks which modules the package imports.
    from shim import Checks, Dense  # noqa: E402

CONSTANTS = "assets/proto_splitter_constants.data-00000-of-00001"
MORE = 300 << 20


def result_of(model):
    """Returns the outputs of a model for an input of ones, as hexadecimal digits."""
    import tensorflow as tf
    return {name: value.numpy().tobytes().hex() for name, value in sorted(model.call(tf.ones([1, 256])).items())}


def dense(mib):
    return Dense(int(mib) << 10)


def stock_message(mib):
    """Returns the error that TensorFlow alone raises for this model."""
    import numpy as np
    import tensorflow as tf
    weight = np.ones([256, int(mib) << 10], np.float32)
    try:
        tf.function(lambda: tf.constant(weight)).get_concrete_function()
    except ValueError as error:
        # Only the last line is the error: TensorFlow's message begins with lines of the program.
        return {"message": str(error).strip().splitlines()[-1].strip().removeprefix("ValueError: ")}
    return {"message": None}


def save(path, mib):
    import proto_splitter.tensorflow as pst
    pst.enable(progress=True)
    import tensorflow as tf
    model = dense(mib)
    result = result_of(model)
    tf.saved_model.save(model, path, model.call)
    return {"result": result}


def save_variables(path, mib):
    import proto_splitter.tensorflow as pst
    pst.enable(format="variables")
    import tensorflow as tf
    model = dense(mib)
    result = result_of(model)
    tf.saved_model.save(model, path, model.call)
    return {"result": result}


def stock_save_again(path, out):
    import tensorflow as tf
    assert not any(name.startswith("proto_splitter") for name in sys.modules)
    model = tf.saved_model.load(path)
    tf.saved_model.save(model, out, model.signatures)
    return {}


def stock_load(path):
    import tensorflow as tf
    assert not any(name.startswith("proto_splitter") for name in sys.modules)
    return {"result": result_of(tf.saved_model.load(path))}


def save_again(path, out):
    import proto_splitter.tensorflow as pst
    pst.enable()
    import tensorflow as tf
    model = tf.saved_model.load(path)
    tf.saved_model.save(model, out, model.signatures)
    return {}


def wrap(path, out):
    """Saves a module around the loaded model, with another large constant."""
    import numpy as np
    import proto_splitter.tensorflow as pst
    pst.enable()
    import tensorflow as tf
    more = np.arange(MORE // 4, dtype=np.float32).reshape(64, -1) % 127

    class Around(tf.Module):
        def __init__(self):
            super().__init__()
            self.inner = tf.saved_model.load(path)

        @tf.function(input_signature=[tf.TensorSpec([None, 256], name="x")])
        def call(self, x):
            return {"y": tf.reshape(self.inner.call(x)["y0"], [1, 64]) @ tf.constant(more)}

    model = Around()
    result = result_of(model)
    tf.saved_model.save(model, out, model.call)
    return {"result": result}


def small_over(path, way):
    """Saves a small model over the large one, with TensorFlow alone or with the package."""
    import tensorflow as tf
    model = Dense(64)
    if way == "ours":
        import proto_splitter.tensorflow as pst
        pst.save(model, path, model.call)
    else:
        tf.saved_model.save(model, path, model.call)
    return {"result": result_of(model)}


def image(path, mib):
    """Saves with `experimental_image_format`, and loads the result while the package is enabled."""
    import proto_splitter.tensorflow as pst
    pst.enable()
    import tensorflow as tf
    model = dense(mib)
    result = result_of(model)
    tf.saved_model.save(model, path, model.call, tf.saved_model.SaveOptions(experimental_image_format=True))
    del model
    return {"result": result, "loaded": result_of(tf.saved_model.load(path))}


def to_store(mib):
    """Saves to one of TensorFlow's file systems, and checks the progress."""
    import proto_splitter.tensorflow as pst
    told = []
    pst.enable(progress=lambda done, total: told.append((done, total)))
    import tensorflow as tf
    model = dense(mib)
    result = result_of(model)
    tf.saved_model.save(model, "ram://models/large", model.call)
    pst.disable()
    assert told[-1][0] == told[-1][1] >= int(mib) << 20 and told == sorted(told), told[-3:]
    del model
    return {"result": result, "loaded": result_of(tf.saved_model.load("ram://models/large"))}


def step(name, *arguments):
    """Runs a function in a separate process, and prints its time and memory."""
    start = time.monotonic()
    ran = subprocess.run([sys.executable, __file__, name, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        raise RuntimeError(f"{name}: {ran.returncode}: {ran.stdout[-500:]}")
    given = json.loads(ran.stdout.splitlines()[-1])
    print(f"{name} {' '.join(map(str, arguments[-1:]))}: {time.monotonic() - start:.0f} s, a peak of {given['peak'] >> 20} MiB", flush=True)
    return given


def folder_size(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def check_all(checks, work, mib):
    import proto_splitter as ps
    path, again, around, chunked = (os.path.join(work, name) for name in ("model", "again", "around", "chunked"))
    with checks.check("TensorFlow alone refuses the model, with a message that both pages have"):
        message = step("stock_message", mib)["message"]
        print(f"TensorFlow alone: {message}")
        for page in ("python.md", "my-model-is-too-big.md"):
            with open(os.path.join(HERE, "../../../docs", page)) as file:
                assert mib <= 2048 or message in file.read(), page
    with checks.check("the package saves the model, and TensorFlow alone loads it"):
        result = step("save", path, mib)["result"]
        print(f"saved_model.pb has {os.path.getsize(os.path.join(path, 'saved_model.pb'))} bytes, "
              f"its constants {os.path.getsize(os.path.join(path, CONSTANTS))}")
        assert step("stock_load", path)["result"] == result
    with checks.check("the loaded model is saved again, with its constants stored once"):
        step("save_again", path, again)
        assert os.path.getsize(os.path.join(again, CONSTANTS)) == os.path.getsize(os.path.join(path, CONSTANTS))
        assert step("stock_load", again)["result"] == result
        shutil.rmtree(again)
    with checks.check("a module around the model is saved, with its own constant"):
        expected = step("wrap", path, around)["result"]
        assert os.path.getsize(os.path.join(around, CONSTANTS)) == (mib << 20) + MORE
        assert step("stock_load", around)["result"] == expected
        shutil.rmtree(around)
    with checks.check("TensorFlow saves a small model over the large one, and externalize leaves out the large constants"):
        expected = step("small_over", path, "stock")["result"]
        report = ps.externalize(path, again, min_size="1KiB")
        assert len(report["stale"]) == 3 and folder_size(again) < 1 << 20 < mib << 20 <= folder_size(path), report
        ps.externalize(path, again, min_size="1KiB", force=True)
        assert step("stock_load", again)["result"] == expected
    with checks.check("after the package saves a small model over the large one, nothing large is left"):
        step("small_over", path, "ours")
        assert folder_size(path) < 1 << 20
    shutil.rmtree(path)
    with checks.check("experimental_image_format writes chunks, which externalize converts for other programs"):
        given = step("image", chunked, mib)
        assert given["loaded"] == given["result"] == result
        # TensorFlow splits models of 1 GiB or more.
        form = "cpb" if mib >= 1024 else "pb"
        assert [name for name in os.listdir(chunked) if name.startswith("saved_model")] == [f"saved_model.{form}"]
        ps.externalize(chunked, path)
        assert step("stock_load", path)["result"] == result
        shutil.rmtree(chunked)
    with checks.check("the model is saved to a file system of TensorFlow, and loaded from there"):
        given = step("to_store", mib)
        assert given["loaded"] == given["result"] == result
    with checks.check("TensorFlow alone loads and saves a model with constants saved as variables"):
        assert step("save_variables", path + ".v", mib)["result"] == result
        assert not os.path.exists(os.path.join(path + ".v", CONSTANTS))
        step("stock_save_again", path + ".v", again + ".v")
        shutil.rmtree(path + ".v")
        assert os.path.getsize(os.path.join(again + ".v", "saved_model.pb")) < 1 << 16 < mib << 20 <= folder_size(again + ".v")
        assert step("stock_load", again + ".v")["result"] == result


def main():
    steps = (stock_message, save, stock_load, save_again, wrap, small_over, image, to_store, save_variables, stock_save_again)
    if sys.argv[1:] and sys.argv[1] in [one.__name__ for one in steps]:
        given = globals()[sys.argv[1]](*sys.argv[2:])
        with open("/proc/self/status") as status:
            given["peak"] = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
        print(json.dumps(given))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=int, default=2300)
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="whole-") as work:
        check_all(checks, work, args.memory)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(bool(checks.failed))


if __name__ == "__main__":
    main()
