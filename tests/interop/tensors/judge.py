"""Reads tensors that `protosplit` exported, with NumPy and the safetensors package."""

import json
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
from safetensors import safe_open

protosplit, data, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
passed = failed = 0


def check(what, ok):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAILED: {what}")


def run(*arguments):
    done = subprocess.run([protosplit, *map(str, arguments)], capture_output=True, check=False)
    if done.returncode != 0:
        print(done.stderr.decode())
    return done


def typed(array, name):
    """Returns an array with the type of this name. NumPy files can't name some types."""
    return array.view(getattr(ml_dtypes, name)) if array.dtype.kind == "V" else array


for model, message in [
    ("graphdef_dtypes/graph.pb", ["--message", "tensorflow.GraphDef"]),
    ("functions_consts/saved_model.pb", []),
    ("keras_mlp/saved_model.pb", []),
]:
    source = data / model
    name = model.split("/")[0]
    listed = json.loads(run("tensors", source, "--json", *message).stdout)["tensors"]
    check(f"{name}: tensors are listed", listed)
    npz, safe = work / f"{name}.npz", work / f"{name}.safetensors"
    report = json.loads(run("export", source, "-o", npz, "--json", *message).stdout)
    run("export", source, "-o", safe, *message)
    left_out = set(report.get("left_out", []))
    with np.load(npz) as arrays, safe_open(safe, "np") as tensors:
        known = set(tensors.keys())
        for tensor in listed:
            what = f"{name}: {tensor['name']}"
            if tensor["name"] in left_out:
                continue
            array = typed(arrays[tensor["name"]], tensor["dtype"])
            check(f"{what}: type", str(array.dtype) == tensor["dtype"])
            check(f"{what}: shape", list(array.shape) == tensor["shape"])
            single = work / "one.npy"
            run("get", source, "--tensor", tensor["name"], "--format", "npy", "-o", single, "--force", *message)
            check(f"{what}: alone", np.load(single).tobytes() == array.tobytes())
            if tensor["name"] in known and array.dtype.kind in "biufc":
                other = tensors.get_tensor(tensor["name"])
                same = other.dtype == array.dtype and other.tobytes() == array.tobytes()
                check(f"{what}: both formats agree", same)

print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
