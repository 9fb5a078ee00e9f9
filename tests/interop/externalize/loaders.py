"""Runs all signatures of a SavedModel in each of TensorFlow's loaders."""

import ctypes as c
import gc
import json
import os
import subprocess
import sys

import numpy as np


def inputs(seed, shape, dtype):
    shape = [3 if dim is None or dim < 0 else dim for dim in shape]
    if np.dtype(dtype).kind == "O":
        return np.full(shape, b"word7", dtype=object)
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def bits(value):
    value = np.asarray(value)
    data = value.tolist() if value.dtype == object else value.tobytes()
    return value.shape, str(value.dtype), data


def load_v2(path):
    """Loads the folder with `tf.saved_model.load`."""
    import tensorflow as tf
    return tf.saved_model.load(path)


def run_signature(function):
    import tensorflow as tf
    arguments = function.structured_input_signature[1]
    values = {key: tf.constant(inputs(7, spec.shape.as_list(), spec.dtype.as_numpy_dtype))
              for key, spec in sorted(arguments.items())}
    return {key: bits(value.numpy()) for key, value in function(**values).items()}


def names_of(model):
    # The initializer of a model without an object graph was already run when it was loaded, with the paths of assets.
    return sorted(name for name in model.signatures if name != "__saved_model_init_op")


def run_v2(model):
    return {name: run_signature(model.signatures[name]) for name in names_of(model)}


def run_alone(path):
    """Runs each signature after everything else that was loaded with it has been freed."""
    import tensorflow as tf
    results = {}
    for name in names_of(load_v2(path)):
        function = load_v2(path).signatures[name]
        gc.collect()
        try:
            results[name] = run_signature(function)
        except tf.errors.OpError as error:
            # Expected, since a lookup table is freed together with the model, also in TensorFlow's own models.
            results[name] = {"error": type(error).__name__}
    return results


def signatures_of(path, tags):
    from tensorflow.python.saved_model import loader_impl
    for meta_graph in loader_impl.parse_saved_model(path).meta_graphs:
        if set(meta_graph.meta_info_def.tags) == set(tags):
            return {name: signature for name, signature in meta_graph.signature_def.items()
                    if not name.startswith("__saved_model")}
    raise ValueError(f"no meta graph {tags}")


def feeds(signature):
    import tensorflow as tf
    result = {}
    for _, info in sorted(signature.inputs.items()):
        dtype = tf.as_dtype(info.dtype).as_numpy_dtype
        result[info.name] = inputs(7, [dim.size for dim in info.tensor_shape.dim], dtype)
    return result


def run_v1(path, tags, scope=""):
    """Runs a model in a session of TensorFlow 1."""
    import tensorflow as tf
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, tags, path, import_scope=scope or None)
        return run_session(session, path, tags, scope)


def run_session(session, path, tags, scope=""):
    results = {}
    prefix = scope + "/" if scope else ""
    for name, signature in sorted(signatures_of(path, tags).items()):
        fed = {prefix + key: value for key, value in feeds(signature).items()}
        outputs = {key: prefix + info.name for key, info in signature.outputs.items()}
        results[name] = {key: bits(value) for key, value in session.run(outputs, fed).items()}
    return results


def c_spec(path, tags):
    """Returns the request for the process that `run_each_c` starts: for each signature, the tensors to feed and to fetch."""
    import tensorflow as tf
    spec = {}
    for name, signature in signatures_of(path, tags).items():
        fed = feeds(signature)
        if any(value.dtype == object for value in fed.values()):
            continue
        wanted = {key: info.name for key, info in signature.outputs.items() if info.dtype != tf.string.as_datatype_enum}
        spec[name] = {"inputs": [[key, int(tf.as_dtype(value.dtype).as_datatype_enum), list(value.shape), value.tobytes().hex()]
                                 for key, value in fed.items()], "outputs": wanted}
    return {"path": path, "tags": tags, "signatures": spec}


def run_each_c(paths, tags):
    """Runs models through the C API, which has TensorFlow Serving's loader, in a process without Python's TensorFlow.

    The result of a model that fails is its `error`.
    """
    import tensorflow as tf
    folder = os.path.dirname(tf.__file__)
    ran = subprocess.run([sys.executable, __file__, folder], input=json.dumps([c_spec(path, tags) for path in paths]),
                         capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stdout[-500:] + ran.stderr[-1500:])
    return json.loads(ran.stdout.splitlines()[-1])


def run_c(path, tags):
    """Runs one model with `run_each_c`; raises its error, if any."""
    result, = run_each_c([path], tags)
    if "error" in result:
        raise RuntimeError(result["error"])
    return result


class Api:
    """The functions of TensorFlow's C API that are needed to run a SavedModel."""

    class Output(c.Structure):
        _fields_ = [("oper", c.c_void_p), ("index", c.c_int)]

    def __init__(self, folder):
        c.CDLL(os.path.join(folder, "libtensorflow_framework.so.2"), mode=c.RTLD_GLOBAL)
        self.library = c.CDLL(os.path.join(folder, "libtensorflow_cc.so.2"))
        self.status = self.call("TF_NewStatus")
        self.graph = self.call("TF_NewGraph")

    def call(self, name, *arguments, returns=c.c_void_p):
        function = getattr(self.library, name)
        function.restype = returns
        result = function(*arguments)
        if name in ("TF_LoadSessionFromSavedModel", "TF_SessionRun") and self.call("TF_GetCode", c.c_void_p(self.status), returns=c.c_int):
            raise RuntimeError(self.call("TF_Message", c.c_void_p(self.status), returns=c.c_char_p).decode())
        return result

    def load(self, path, tags):
        options, names = self.call("TF_NewSessionOptions"), (c.c_char_p * len(tags))(*[tag.encode() for tag in tags])
        self.session = self.call("TF_LoadSessionFromSavedModel", c.c_void_p(options), None, path.encode(), names, len(tags),
                                 c.c_void_p(self.graph), None, c.c_void_p(self.status))

    def output(self, name):
        name, _, index = name.partition(":")
        return self.Output(self.call("TF_GraphOperationByName", c.c_void_p(self.graph), name.encode()), int(index or 0))

    def tensor(self, dtype, shape, data):
        made = self.call("TF_AllocateTensor", dtype, (c.c_int64 * len(shape))(*shape), len(shape), c.c_size_t(len(data)))
        c.memmove(self.call("TF_TensorData", c.c_void_p(made)), data, len(data))
        return made

    def run(self, inputs, outputs):
        given = (self.Output * len(inputs))(*[self.output(name) for name, *_ in inputs])
        values = (c.c_void_p * len(inputs))(*[self.tensor(dtype, shape, bytes.fromhex(data)) for _, dtype, shape, data in inputs])
        wanted, results = (self.Output * len(outputs))(*map(self.output, outputs)), (c.c_void_p * len(outputs))()
        self.call("TF_SessionRun", c.c_void_p(self.session), None, given, values, len(inputs), wanted, results, len(outputs),
                  None, 0, None, c.c_void_p(self.status), returns=None)
        sizes = [self.call("TF_TensorByteSize", c.c_void_p(result), returns=c.c_size_t) for result in results]
        return [c.string_at(self.call("TF_TensorData", c.c_void_p(result)), size).hex() for result, size in zip(results, sizes)]


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def run_one_c(folder, model):
    api, results = Api(folder), {}
    before = peak()
    api.load(model["path"], model["tags"])
    loaded = peak()
    for name, signature in sorted(model["signatures"].items()):
        names = sorted(signature["outputs"])
        values = api.run(signature["inputs"], [signature["outputs"][name] for name in names])
        results[name] = dict(zip(names, values))
    return {"results": results, "load": loaded - before, "run": peak() - before}


def main():
    all_results = []
    for model in json.load(sys.stdin):
        try:
            all_results.append(run_one_c(sys.argv[1], model))
        except RuntimeError as error:
            all_results.append({"error": str(error)})
    print(file=sys.stdout)
    print(json.dumps(all_results))


if __name__ == "__main__":
    main()
