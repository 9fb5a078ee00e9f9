"""Checks the ways to look at a model of 2.4 GB in one file, which Netron can't open.

These are `protosplit info`, and the skeleton written by `protosplit strip`, opened with Netron's own modules (netron.mjs) and
with onnx.checker. Ends with one line, `N passed, 0 failed`. The model is a sparse file, which takes no space.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx

import large


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    parser.add_argument("--netron", required=True, help="the package's folder, or a copy of its modules")
    arguments = parser.parse_args()

    def protosplit(*args):
        return subprocess.run([arguments.protosplit, *map(str, args)], check=True, capture_output=True, text=True).stdout

    with tempfile.TemporaryDirectory() as folder:
        lost, skeleton = pathlib.Path(folder, "lost.onnx"), pathlib.Path(folder, "skeleton.onnx")
        large.write(large.model("initializers"), lost)
        said = json.loads(protosplit("info", lost, "--json"))
        protosplit("strip", lost, "--tensors", "-o", skeleton)
        script = pathlib.Path(__file__).with_name("netron.mjs")
        drawn = subprocess.run(["node", script, arguments.netron, skeleton], check=True, capture_output=True, text=True).stdout
        graph = onnx.load(skeleton).graph
        drawn = json.loads(drawn)
        checks = [
            ("it is over 2 GiB", lost.stat().st_size > 1 << 31),
            ("the skeleton is small", skeleton.stat().st_size < 100_000),
            ("info shows the inputs", ["input", "x float[1]"] in said["properties"]),
            ("info shows the outputs", ["output", "y float[1]"] in said["properties"]),
            ("info shows the opset", ["opset", "ai.onnx 13"] in said["properties"]),
            ("info shows the largest tensors", [one["bytes"] for one in said["largest"]] == [large.BYTES] * 5),
            ("Netron draws all nodes", drawn["nodes"] == [node.op_type for node in graph.node]),
            ("Netron draws the inputs and outputs", (drawn["inputs"], drawn["outputs"]) == (["x"], ["y"])),
            ("the skeleton has all nodes", len(graph.node) == 2 * large.TENSORS),
        ]
    for what, is_right in checks:
        if not is_right:
            print(f"FAILED {what}: {said['properties']} {drawn}", file=sys.stderr)
    failed = sum(not is_right for _, is_right in checks)
    print(f"{len(checks) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
