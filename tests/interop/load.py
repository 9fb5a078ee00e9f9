#!/usr/bin/env python3
"""Loads SavedModels with TensorFlow, and compares the results of a copy's signatures with the original's.

Standard input is a JSON list of [original, copy] folders. Each pair prints one line with a JSON object as soon as it is compared:
`problem`, which is null if there is none, and `runs`, the number of runs that were compared.
"""

import json
import os
import sys
import zlib
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

ROUNDS = 3
UNKNOWN_DIMENSION = 2


def words(folder):
    """Returns string inputs: lines of the assets, for successful lookups, and strings in no asset."""
    lines = [line for asset in sorted((folder / "assets").glob("*")) for line in asset.read_bytes().split(b"\n") if line]
    return lines + [b"", b"not in any asset", b"\x00\xff"]


def value(spec, rng, strings):
    """Returns a random tensor for an input of a signature."""
    dimensions = spec.shape.as_list() if spec.shape.rank is not None else [None]
    shape = [UNKNOWN_DIMENSION if d is None else d for d in dimensions]
    if spec.dtype == tf.string:
        chosen = [strings[i] for i in rng.integers(len(strings), size=int(np.prod(shape)))]
        return tf.reshape(tf.constant(chosen, tf.string), shape)
    if spec.dtype == tf.bool:
        return tf.constant(rng.integers(2, size=shape).astype(bool))
    if spec.dtype.is_integer:
        return tf.cast(tf.constant(rng.integers(1, 8, size=shape)), spec.dtype)
    return tf.cast(tf.constant(rng.standard_normal(shape)), spec.dtype)


def plain(tensor):
    """Returns the parts of a result that must agree: the type, the shape, and every bit, including NaNs."""
    array = tensor.numpy()
    content = np.asarray(array).tolist() if tensor.dtype == tf.string else np.asarray(array).tobytes()
    return tensor.dtype.name, tuple(tensor.shape), content


def behavior(folder, strings):
    """Returns the observable behavior of a SavedModel: for each set of tags and each signature, the inputs, and the outputs of each round."""
    model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    seen = {}
    for graph in model.meta_graphs:
        tags = tuple(sorted(graph.meta_info_def.tags))
        if tags in seen:
            raise ValueError(f"two meta graphs with the tags {tags}")
        tf.random.set_seed(1)
        loaded = tf.saved_model.load(str(folder), tags=list(tags))
        seen[tags] = {}
        for name, signature in sorted(loaded.signatures.items()):
            positional, inputs = signature.structured_input_signature
            if positional:
                raise ValueError(f"signature {name} has inputs without names")
            results = {"inputs": sorted((key, repr(spec)) for key, spec in inputs.items())}
            for turn in range(ROUNDS):
                rng = np.random.default_rng(zlib.crc32(f"{tags} {name} {turn}".encode()))
                given = {key: value(inputs[key], rng, strings) for key in sorted(inputs)}
                outputs = signature(**given)
                results[f"round {turn}"] = {key: plain(tensor) for key, tensor in sorted(outputs.items())}
            seen[tags][name] = results
    return seen


def differences(original, copy, where=""):
    """Yields the places where two behaviors differ."""
    if isinstance(original, dict) and isinstance(copy, dict):
        for key in list(original) + [key for key in copy if key not in original]:
            at = f"{where}, {key}" if where else f"tags {key}"
            if key not in copy or key not in original:
                yield f"{at}: {'missing' if key in original else 'not in the original'}"
            else:
                yield from differences(original[key], copy[key], at)
    elif original != copy:
        yield f"{where}: {str(copy)[:200]} for {str(original)[:200]}"


def main():
    # With several threads, the order of sums would differ between runs.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    originals = {}
    for original, copy in json.load(sys.stdin):
        runs = 0
        try:
            strings = words(Path(original))
            if original not in originals:
                originals[original] = behavior(Path(original), strings)
            wanted = originals[original]
            runs = ROUNDS * sum(len(signatures) for signatures in wanted.values())
            problem = "; ".join(differences(wanted, behavior(Path(copy), strings))) or None
            if not problem and not runs:
                problem = "the original has no signatures"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        print(json.dumps({"problem": problem, "runs": runs}), flush=True)


if __name__ == "__main__":
    main()
