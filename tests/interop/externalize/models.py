"""SavedModels with constants in every place where TensorFlow allows them."""

import os

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def numbers(seed, *shape, dtype=np.float32):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


class Everything(tf.Module):
    """A module with constants that are captured, and in nested functions, loops, branches, datasets, gradients and compiled functions."""

    def __init__(self, folder, n=128):
        super().__init__()
        os.makedirs(folder, exist_ok=True)
        vocabulary = os.path.join(folder, "words.txt")
        with open(vocabulary, "w") as file:
            file.write("".join(f"word{i}\n" for i in range(500)))
        self.n = n
        self.variable = tf.Variable(numbers(1, n, n), name="variable")
        self.captured = tf.constant(numbers(2, n, n))
        self.same = tf.constant(numbers(2, n, n))
        keys = tf.constant(np.arange(n * n, dtype=np.int64))
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, tf.constant(numbers(3, n * n))), 0.0)
        self.words = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
                                          tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)

        @tf.function
        def inner(x):
            return x @ tf.constant(numbers(4, n, n))

        @tf.function
        def only_constants():
            return tf.constant(numbers(5, n, n)) + tf.constant(numbers(6, n, n))

        @tf.function(jit_compile=True)
        def compiled(x):
            return tf.tanh(x @ tf.constant(numbers(7, n, n))) + tf.constant(numbers(8, n))

        @tf.custom_gradient
        def with_gradient(x):
            y = x * tf.constant(numbers(9, n))
            return y, lambda up: up * tf.constant(numbers(10, n))

        self.inner, self.only_constants, self.compiled, self.with_gradient = inner, only_constants, compiled, with_gradient

    def signature(self, function):
        spec = tf.TensorSpec([None, self.n], tf.float32, name="x")
        return tf.function(function, input_signature=[spec])

    def build(self):
        n = self.n

        def nested(x):
            # If two constants were added, Grappler would fold the sum in the original, which would change the last bits.
            return {"y": tf.tanh(self.inner(x) + self.captured[0]) + self.same[1]}

        def constants(x):
            return {"y": x @ self.only_constants() @ self.variable}

        def loop(x):
            step = lambda i, x: (i + 1, tf.tanh(x @ tf.constant(numbers(11, n, n))))
            return {"y": tf.while_loop(lambda i, x: i < 3, step, [0, x])[1]}

        def branch(x):
            yes = lambda: x @ tf.constant(numbers(12, n, n))
            return {"y": tf.cond(tf.reduce_sum(x) > 0, yes, lambda: x * tf.constant(numbers(13, n)))}

        def mapped(x):
            return {"y": tf.map_fn(lambda row: row * tf.constant(numbers(14, n)), x)}

        def dataset(x):
            data = tf.data.Dataset.from_tensor_slices(x).map(lambda row: row + tf.constant(numbers(15, n)))
            return {"y": data.reduce(tf.zeros([n]), lambda all, row: all + row)}

        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = self.with_gradient(x) @ tf.constant(numbers(16, n, n))
            return {"y": y, "dy": tape.gradient(y, x)}

        def jitted(x):
            return {"y": self.compiled(x) + self.compiled(2 * x)}

        def tables(x):
            return {"y": self.table.lookup(tf.cast(tf.abs(x) * 100, tf.int64)),
                    "word": self.words.lookup(tf.constant(["word7", "none"]))}

        def types(x):
            values = [tf.constant(numbers(17, n, n).astype(t)) for t in (np.float64, np.float16, np.int32, np.int8, np.uint8)]
            values.append(tf.constant(numbers(18, n, n) > 0))
            values.append(tf.cast(tf.constant(numbers(19, n, n).astype(tf.bfloat16.as_numpy_dtype)), tf.float32))
            results = {f"y{i}": tf.tanh(x @ tf.cast(value, tf.float32)) for i, value in enumerate(values)}
            return {"z": tf.constant((numbers(20, n, n) + 1j).astype(np.complex64)), **results}

        functions = [nested, constants, loop, branch, mapped, dataset, gradient, jitted, tables, types]
        signatures = {function.__name__: self.signature(function) for function in functions}
        for name, function in signatures.items():
            setattr(self, "call_" + name, function)
        return signatures


def everything(path):
    model = Everything(path + ".files")
    tf.saved_model.save(model, path, signatures=model.build())


def keras(path):
    model = tf.keras.Sequential([tf.keras.Input([16]), tf.keras.layers.Dense(64, "relu"),
                                 tf.keras.layers.Lambda(lambda x: x @ tf.constant(numbers(30, 64, 128))),
                                 tf.keras.layers.Dense(4)])
    for weight in model.weights:
        weight.assign(numbers(31, *weight.shape))
    model.export(path, verbose=False)


def tf1(path, with_variables, control_flow_v2):
    (v1.enable_control_flow_v2 if control_flow_v2 else v1.disable_control_flow_v2)()
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 64], name="x")
        y = x @ tf.constant(numbers(40, 64, 64), name="constant")
        _, y = v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y @ tf.constant(numbers(41, 64, 64)))), [0, y])
        y = v1.cond(tf.reduce_sum(x) > 0, lambda: y + tf.constant(numbers(42, 64)), lambda: y @ tf.constant(numbers(43, 64, 64)))
        keys = tf.constant(np.arange(4096, dtype=np.int64))
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.constant(numbers(44, 4096))), 0.0)
        y = y + table.lookup(tf.cast(tf.abs(y) * 10, tf.int64))
        if with_variables:
            y = y @ v1.get_variable("w", initializer=numbers(45, 64, 64))
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.Builder(path)
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature},
                                             main_op=v1.tables_initializer())
        builder.save()
    v1.enable_control_flow_v2()


def random_model(path, seed):
    """Writes a model with random functions, calls and constants."""
    random = np.random.RandomState(seed)
    n = 16
    pool = [numbers(1000 + seed + i, n, n) for i in range(random.randint(1, 5))]
    captured = [tf.constant(value) for value in pool]
    functions = []

    def constant():
        at = random.randint(len(pool))
        return captured[at] if random.rand() < 0.4 else tf.constant(pool[at] * np.float32(random.choice([1, 1, 2])))

    def body(x, depth, callees):
        for _ in range(random.randint(1, 4)):
            kind = random.randint(7)
            if kind == 0 and callees:
                x = callees[random.randint(len(callees))](x)
            elif kind == 1 and depth:
                other = body(x, depth - 1, callees)
                x = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x * constant()), lambda: other)
            elif kind == 2 and depth:
                x = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, tf.tanh(x @ constant())), [0, x])[1]
            elif kind == 3:
                x = tf.tanh(x + constant())
            elif kind == 4:
                x = tf.tanh(tf.map_fn(lambda row: row * constant()[0], x))
            else:
                x = tf.tanh(x @ constant())
        return x

    for i in range(random.randint(1, 5)):
        callees = list(functions)
        jit = random.rand() < 0.2
        function = (lambda callees, jit: lambda x: tf.tanh(x @ constant()) if jit else body(x, 2, callees))(callees, jit)
        functions.append(tf.function(function, jit_compile=True, autograph=False) if jit else tf.function(function, autograph=False))
    module = tf.Module()
    spec = tf.TensorSpec([n, n], tf.float32, name="x")
    module.captured, module.functions = captured, functions
    module.call = tf.function(lambda x: {"y": body(x, 2, functions)}, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, path, signatures=module.call)
