"""Compares reading tensors to NumPy, and splitting a Python message, with other programs. Prints a
table for each.

    python3 tensors.py [--size MIB] [--runs N] [--site FOLDER]

Uses the environments in `.interop` that the scripts under tests/interop create, and the wheel that
is installed in FOLDER (`pip install --no-deps --target FOLDER WHEEL`), a release build. Each reader
runs N times in a separate process, and the fastest run counts. Files are in the page cache.
All readers must return the same values. The second figure includes reading every page of every
array, since a reader that maps a file defers this work.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
#: Number of tensors in the model.
COUNT = 16


def arrays(mib):
    import numpy as np

    length = int(mib) * (1 << 20) // COUNT // 4
    return {f"w{at}": np.arange(length, dtype=np.float32) * (at + 1) for at in range(COUNT)}


def make_graph(folder, mib):
    graph = graph_of(mib)
    import proto_splitter as ps

    with open(f"{folder}/graph.pb", "wb") as file:
        file.write(graph.SerializeToString())
    # Makes each tensor a chunk, so that the file has chunks for every size of the model.
    ps.split(graph, f"{folder}/chunks", compression="none", max_chunk_size=f"{int(mib) / 2}MiB")
    whole = {"always_chunked": True, "profile": "extended", "value_chunk_size": 2_000_000_000, "max_chunk_size": 2_000_000_000}
    ps.split(graph, f"{folder}/one", compression="none", **whole)


def graph_of(mib):
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef()
    for name, array in arrays(mib).items():
        node = graph.node.add(name=name, op="Const")
        node.attr["dtype"].type = 1
        tensor = node.attr["value"].tensor
        tensor.dtype = 1
        tensor.tensor_shape.dim.add().size = len(array)
        tensor.tensor_content = array.tobytes()
    return graph


def make_onnx(folder, mib):
    import onnx
    from onnx import helper, numpy_helper

    tensors = [numpy_helper.from_array(array, name) for name, array in arrays(mib).items()]
    onnx.save(helper.make_model(helper.make_graph([], "graph", [], [], tensors)), f"{folder}/model.onnx")


def make_safetensors(folder, mib):
    from safetensors.numpy import save_file

    save_file(arrays(mib), f"{folder}/model.safetensors")


def ours(path, message=None, copy=None):
    import proto_splitter as ps

    with ps.open(path, message) as file:
        return file.tensors.load(copy=copy)


def one_by_one(path, message=None):
    import proto_splitter as ps

    with ps.open(path, message) as file:
        return dict(file.tensors)


def by_onnx(path):
    import onnx
    from onnx import numpy_helper

    return {one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}


def by_safetensors(path):
    from safetensors.numpy import load_file

    return load_file(path)


def by_tensorflow(path):
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2

    with open(path, "rb") as file:
        graph = graph_pb2.GraphDef.FromString(file.read())
    return {node.name: tf.make_ndarray(node.attr["value"].tensor) for node in graph.node}


#: The readers, each with its environment and its file.
READERS = {
    "proto_splitter, .pb": ("venv", lambda folder: ours(f"{folder}/graph.pb", "tensorflow.GraphDef")),
    "proto_splitter, .pb, all copied": ("venv", lambda folder: ours(f"{folder}/graph.pb", "tensorflow.GraphDef", True)),
    "proto_splitter, .cpb": ("venv", lambda folder: ours(f"{folder}/chunks.cpb", "tensorflow.GraphDef")),
    "proto_splitter, .cpb, one by one": ("venv", lambda folder: one_by_one(f"{folder}/chunks.cpb", "tensorflow.GraphDef")),
    "proto_splitter, .cpb of one chunk": ("venv", lambda folder: ours(f"{folder}/one.cpb", "tensorflow.GraphDef")),
    "proto_splitter, .cpb of one chunk, one by one": ("venv", lambda folder: one_by_one(f"{folder}/one.cpb", "tensorflow.GraphDef")),
    "proto_splitter, .onnx": ("onnx-venv", lambda folder: ours(f"{folder}/model.onnx")),
    "proto_splitter, .safetensors": ("tensors-venv", lambda folder: ours(f"{folder}/model.safetensors")),
    "safetensors": ("tensors-venv", lambda folder: by_safetensors(f"{folder}/model.safetensors")),
    "onnx.load": ("onnx-venv", lambda folder: by_onnx(f"{folder}/model.onnx")),
    "TensorFlow": ("venv", lambda folder: by_tensorflow(f"{folder}/graph.pb")),
}


def read(folder, reader, runs):
    _, work = READERS[reader]
    seconds, looked = [], []
    # The first run imports packages.
    for _ in range(int(runs) + 1):
        start = time.perf_counter()
        found = work(folder)
        seconds.append(time.perf_counter() - start)
        for array in found.values():
            array.reshape(-1).view("u1")[::4096].max()
        looked.append(time.perf_counter() - start)
    crc = 0
    for name in sorted(found):
        crc = zlib.crc32(found[name].data, zlib.crc32(name.encode(), crc))
    return {"seconds": min(seconds[1:]), "looked": min(looked[1:]), "crc": crc, "bytes": sum(one.nbytes for one in found.values())}


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def memory(folder, mib, how):
    """Returns the peak memory of splitting or serializing a message, in multiples of its size."""
    import proto_splitter as ps

    # Memory in use before the work, such as for imports, isn't counted.
    ps.split(graph_of(1), f"{folder}/small", compression="none", max_chunk_size="0.5MiB", force=True)
    before = peak()
    graph = graph_of(mib)
    size = sum(len(node.attr["value"].tensor.tensor_content) for node in graph.node)
    made = peak() - before
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    if how == "split":
        ps.split(graph, f"{folder}/split", compression="none", max_chunk_size=f"{int(mib) / 2}MiB", force=True)
    else:
        graph.SerializeToString()
    return {"bytes": size, "made": made, "peak": peak() - before}


def write(folder, mib, runs):
    """Returns the seconds for splitting a message, and for serializing and writing it."""
    import proto_splitter as ps

    graph = graph_of(mib)
    taken = {"proto_splitter.split": [], "SerializeToString": [], "SerializeToString, written": []}
    for _ in range(int(runs)):
        start = time.perf_counter()
        ps.split(graph, f"{folder}/split", compression="none", max_chunk_size=f"{int(mib) / 2}MiB", force=True)
        taken["proto_splitter.split"].append(time.perf_counter() - start)
        start = time.perf_counter()
        data = graph.SerializeToString()
        taken["SerializeToString"].append(time.perf_counter() - start)
        with open(f"{folder}/plain.pb", "wb") as file:
            file.write(data)
            os.fsync(file.fileno())
        taken["SerializeToString, written"].append(time.perf_counter() - start)
    again = ps.merge_to_bytes(f"{folder}/split.cpb", message="tensorflow.GraphDef")
    assert type(graph).FromString(bytes(again)) == graph
    return {"bytes": len(data)} | {name: min(seconds) for name, seconds in taken.items()}


def script(environment, site, *arguments):
    python = os.path.join(TOP, ".interop", environment, "bin/python")
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"} | ({"PYTHONPATH": os.path.abspath(site)} if site else {})
    command = [python, os.path.abspath(__file__), *map(str, arguments)]
    ran = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}: exit {ran.returncode}")
    return json.loads(ran.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1024, help="MiB of tensors")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--site")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tensors-bench-") as folder:
        for name, environment in (("make_graph", "venv"), ("make_onnx", "onnx-venv"), ("make_safetensors", "tensors-venv")):
            script(environment, args.site, name, folder, args.size)
        print(f"\n| {args.size} MiB to NumPy | s | GB/s | looked at, s | GB/s |\n| --- | --- | --- | --- | --- |")
        found = set()
        for reader, (environment, _) in READERS.items():
            row = script(environment, args.site, "read", folder, reader, args.runs)
            found.add((row["crc"], row["bytes"]))
            rates = [f"{row[key]:.3f} | {row['bytes'] / row[key] / 1e9:.2f}" for key in ("seconds", "looked")]
            print(f"| {reader} | {' | '.join(rates)} |", flush=True)
        if len(found) != 1:
            sys.exit("the readers found different values")
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        row = script("venv", args.site, "write", folder, args.size, args.runs)
        size = row.pop("bytes")
        print(f"\n| a message of {args.size} MiB | s | GB/s |\n| --- | --- | --- |")
        for name, seconds in row.items():
            print(f"| {name} | {seconds:.3f} | {size / seconds / 1e9:.2f} |")
        print("\n| memory, the message included | its bytes |\n| --- | --- |")
        for how in ("split", "SerializeToString"):
            row = script("venv", args.site, "memory", folder, args.size, how)
            print(f"| {how} | {row['peak'] / row['bytes']:.2f}x |")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in ("make_graph", "make_onnx", "make_safetensors", "read", "write", "memory"):
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
    else:
        main()
