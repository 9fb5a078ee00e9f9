"""How long TensorFlow and Python's protobuf take for the files that the engine's benchmark leaves.

    cargo bench --bench engine -- --keep FOLDER
    tests/interop/setup.sh
    .interop/venv/bin/python benches/peers.py FOLDER [--driver .interop/tf_read]

For each FOLDER/NAME.cpb: the best of five of TensorFlow's own Merger::Read, warm, in seconds, and of parsing and
serializing the same message with Python's protobuf, which refuses what is over 2 GiB.
"""

import argparse
import subprocess
import time
from pathlib import Path

ROUNDS = 5
KINDS = {"w1": "savedmodel", "w2": "graphdef", "w3": "graphdef"}


def merger_read(driver, prefix, kind):
    jobs = "".join(f"{prefix}\t{kind}\t-\n" for _ in range(ROUNDS + 1))
    ran = subprocess.run([driver], input=jobs, capture_output=True, text=True, check=True)
    seconds = []
    for line in ran.stdout.splitlines():
        answer, taken, *rest = line.split("\t")
        if answer != "ok":
            raise SystemExit(f"{prefix}: {rest[0]}")
        seconds.append(float(taken))
    return min(seconds[1:])


def parse_and_serialize(driver, prefix, kind, scratch):
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    subprocess.run([driver], input=f"{prefix}\t{kind}\t{scratch}\n", capture_output=True, text=True, check=True)
    data = scratch.read_bytes()
    best = None
    for _ in range(ROUNDS):
        start = time.monotonic()
        message = (SavedModel if kind == "savedmodel" else GraphDef).FromString(data)
        parsed = time.monotonic()
        message.SerializeToString()
        taken = (parsed - start, time.monotonic() - parsed)
        best = min(best or taken, taken, key=sum)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--driver", default=".interop/tf_read")
    arguments = parser.parse_args()
    print("| file | Merger::Read s | Python parse s | Python serialize s |\n| --- | --- | --- | --- |")
    for file in sorted(arguments.folder.glob("*.cpb")):
        kind = KINDS[file.name.split(".")[0]]
        prefix = file.with_suffix("")
        read = merger_read(arguments.driver, prefix, kind)
        scratch = arguments.folder / "message.pb"
        try:
            parse, serialize = parse_and_serialize(arguments.driver, prefix, kind, scratch)
        finally:
            scratch.unlink(missing_ok=True)
        print(f"| {prefix.name} | {read:.3f} | {parse:.3f} | {serialize:.3f} |", flush=True)


if __name__ == "__main__":
    main()
