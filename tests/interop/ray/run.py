"""Splits, verifies and merges files on a local Ray cluster while one of its three nodes is killed, and objects on moto's S3 server, which
runs in this process on the loopback address.

run.py --work DIR [--size 64MiB] [--table]: --table also prints the time that 1, 2 and 4 parts at once take.
"""

from __future__ import annotations

import argparse
import fcntl
import filecmp
import logging
import os
import random
import shutil
import socket
import struct
import time
from pathlib import Path

import boto3
import proto_splitter.ray
import ray
from moto.server import ThreadedMotoServer
from ray.cluster_utils import Cluster

#: Size of a value, a `string_val` of a TensorProto, in bytes.
VALUE = 2 << 20
TYPE = "tensorflow.TensorProto"
PARTS = 12
passed = 0


def check(what: str, holds: bool) -> None:
    global passed
    if not holds:
        raise SystemExit(f"FAILED: {what}")
    passed += 1
    print(f"ok: {what}", flush=True)


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def write_source(path: Path, size: int) -> None:
    """Writes a TensorProto of about this size. Half of its values are compressible."""
    numbers = random.Random(5)
    with open(path, "wb") as file:
        for at in range(max(PARTS, size // VALUE)):
            value = numbers.randbytes(VALUE) if at % 2 else numbers.randbytes(VALUE // 16) * 16
            file.write(b"\x42" + varint(len(value)) + value)


def use_loopback() -> None:
    """Enables the loopback interface in the network namespace of this process."""
    up, loopback, running = 0x1, 0x8, 0x40
    with socket.socket() as any_socket:
        request = struct.pack("16sH14x", b"lo", up | loopback | running)
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


class Killer:
    """A progress callback that removes a node of the cluster once the first part is done."""

    def __init__(self, cluster: Cluster, node: object) -> None:
        self.cluster, self.node = cluster, node

    def __call__(self, done: int, parts: int) -> None:
        if self.node is not None:
            node, self.node = self.node, None
            self.cluster.remove_node(node, allow_graceful=False)
            print(f"killed a node after {done} of {parts} parts", flush=True)


def on_three_nodes(work: Path, source: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    spread = {"scheduling_strategy": "SPREAD"}
    try:
        check("three nodes", sum(node["Alive"] for node in ray.nodes()) == 3)
        killer = Killer(cluster, nodes[0])
        split = proto_splitter.ray.split(
            source,
            work / "small",
            TYPE,
            parts=PARTS,
            max_chunk_size="16MiB",
            options=spread,
            progress=killer,
        )
        check("a node was killed midway", killer.node is None)
        check("the split is byte-exact", split["byte_exact"] is True)
        files = list(work.glob("small.*.cpb"))
        check("every part has a file", len(files) == split["parts"] > 2)
        chunked = work / "small.cpb"
        verified = proto_splitter.ray.verify(chunked, parts=PARTS, options=spread)
        check("no problems are found", verified["problems"] == [] and verified["byte_exact"] is True)
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        merged = work / "merged.pb"
        killer = Killer(cluster, nodes[1])
        proto_splitter.ray.merge(chunked, merged, parts=PARTS, options=spread, progress=killer)
        check("a node was killed midway", killer.node is None)
        check("the merge equals the original", filecmp.cmp(source, merged, shallow=False))
        damaged = files[len(files) // 2]
        with open(damaged, "r+b") as file:
            file.seek(os.path.getsize(damaged) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        verified = proto_splitter.ray.verify(chunked, parts=PARTS, options=spread)
        check("damage is found", len(verified["problems"]) == 1)
        left = [path.name for path in work.iterdir() if ".tmp" in path.name]
        hidden = [name for name in left if (work / name).is_dir() or name.endswith(".report")]
        check("no plan is left", not hidden)
    finally:
        ray.shutdown()
        cluster.shutdown()


def on_a_store(source: Path) -> None:
    """Splits, verifies and merges objects. The workers inherit the environment."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}",
        AWS_ACCESS_KEY_ID="key",
        AWS_SECRET_ACCESS_KEY="secret",
        AWS_DEFAULT_REGION="us-east-1",
    )
    store = boto3.client("s3")
    store.create_bucket(Bucket="bucket")
    store.upload_file(str(source), "bucket", "source.pb")
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    try:
        split = proto_splitter.ray.split(
            "s3://bucket/source.pb", "s3://bucket/small", TYPE, parts=4, max_chunk_size="16MiB"
        )
        check("the split of an object is byte-exact", split["byte_exact"] is True)
        verified = proto_splitter.ray.verify("s3://bucket/small.cpb", parts=4)
        check("no problems are found in the objects", verified["problems"] == [])
        proto_splitter.ray.merge("s3://bucket/small.cpb", "s3://bucket/merged.pb", parts=4)
        merged = store.get_object(Bucket="bucket", Key="merged.pb")["Body"].read()
        check("the merged object equals the original", merged == source.read_bytes())
        check("no URL became a local path", not list(Path.cwd().glob("s3:*")))
    finally:
        ray.shutdown()
        server.stop()


def table(work: Path, source: Path) -> None:
    """Prints the times of a split, a verification and a merge with 1, 2 and 4 parts at once."""
    size = source.stat().st_size
    print(f"{size} bytes\n\n| at once | split, s | verify, s | merge, s |\n| --- | --- | --- | --- |")
    for at_once in (1, 2, 4):
        folder = work / f"at-once-{at_once}"
        folder.mkdir()
        ray.init(num_cpus=at_once, log_to_driver=False, include_dashboard=False)
        try:
            # The workers start with the first tasks.
            ray.get([ray.remote(lambda: None).remote() for _ in range(at_once)])
            chunked, merged = folder / "small.cpb", folder / "merged.pb"
            times = []
            for run in (
                lambda: proto_splitter.ray.split(source, folder / "small", TYPE, parts=PARTS),
                lambda: proto_splitter.ray.verify(chunked, parts=PARTS),
                lambda: proto_splitter.ray.merge(chunked, merged, parts=PARTS),
            ):
                begun = time.monotonic()
                run()
                times.append(time.monotonic() - begun)
            check(f"{at_once} at once", filecmp.cmp(source, merged, shallow=False))
            print(f"| {at_once} | " + " | ".join(f"{one:.1f}" for one in times) + " |", flush=True)
        finally:
            ray.shutdown()
            shutil.rmtree(folder)


def size_of(text: str) -> int:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * scale
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--size", type=size_of, default=64 << 20)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    use_loopback()
    source = given.work / "source.pb"
    write_source(source, given.size)
    folder = given.work / "cluster"
    folder.mkdir()
    on_three_nodes(folder, source)
    shutil.rmtree(folder)
    small = given.work / "small.pb"
    write_source(small, 64 << 20)
    on_a_store(small)
    if given.table:
        table(given.work, source)
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
