"""Parses and serializes messages with Python's protobuf; `cargo bench --bench peers` starts it.

Each line of standard input has PATH and KIND (savedmodel or graphdef), separated by a tab, and is answered at once by

    ok <TAB> seconds of parsing <TAB> seconds of serializing
"""

import sys
import time
from pathlib import Path

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

KINDS = {"savedmodel": SavedModel, "graphdef": GraphDef}


def parse_and_serialize(data, kind):
    start = time.monotonic()
    message = KINDS[kind].FromString(data)
    parsed = time.monotonic()
    message.SerializeToString()
    return parsed - start, time.monotonic() - parsed


def main():
    for line in sys.stdin:
        path, kind = line.rstrip("\n").split("\t")
        parse, serialize = parse_and_serialize(Path(path).read_bytes(), kind)
        print(f"ok\t{parse}\t{serialize}", flush=True)


if __name__ == "__main__":
    main()
