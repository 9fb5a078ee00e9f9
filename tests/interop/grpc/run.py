"""Sends messages between Rust and Python over 127.0.0.1 with gRPC's default limits, also over connections that are cut.

run.py --rust PROGRAM --work DIR [--whole]: small messages, or with --whole a GraphDef of 3 GiB and a message of 5 GiB.
"""

from __future__ import annotations

import argparse
import filecmp
import random
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
TOP = HERE.parents[2]
GRAPH = (str(TOP / "crates/graph-def/src/proto/descriptors.binpb"), "tensorflow.GraphDef")
TRACE = (str(TOP / "crates/tonic/examples/shelf/shelf.binpb"), "shelf.Trace")
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


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def write_graph(path: Path, size: int) -> None:
    """Constants of 5 MiB, and small nodes between them."""
    numbers = random.Random(7)
    block = numbers.randbytes(1 << 20)
    with open(path, "wb") as file:
        for at in range(max(2, size // (5 << 20))):
            shift = at * 4099 % len(block)
            content = (block[shift:] + block[:shift]) * 5
            tensor = b"\x08\x01" + field(4, content)
            entry = field(1, b"value") + field(2, field(8, tensor))
            file.write(field(1, field(1, b"c%d" % at) + field(2, b"Const") + field(5, entry)))
            for near in range(20):
                file.write(field(1, field(1, b"n%d_%d" % (at, near)) + field(2, b"NoOp")))


def write_trace(path: Path, size: int) -> None:
    """Samples of 16 MiB, as the typed senders have them."""
    sample = field(2, bytes([7]) * (16 << 20))
    with open(path, "wb") as file:
        file.write(field(1, b"typed"))
        for _ in range(-(-size // (16 << 20))):
            file.write(sample)


class Cutter:
    """Forwards connections, and cuts each of the first ones after a random number of bytes."""

    def __init__(self, to: str, after: list[int]) -> None:
        host, port = to.split(":")
        self._to, self._after = (host, int(port)), list(after)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._to)
            budget = self._after.pop(0) if self._after else None
            threading.Thread(target=self._forward, args=(near, far, budget), daemon=True).start()
            threading.Thread(target=self._forward, args=(far, near, None), daemon=True).start()

    def _forward(self, from_: socket.socket, to: socket.socket, budget: int | None) -> None:
        try:
            while data := from_.recv(64 << 10):
                if budget is not None:
                    budget -= len(data)
                    if budget < 0:
                        self.cuts += 1
                        break
                to.sendall(data)
        except OSError:
            pass
        for one in (from_, to):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Server:
    def __init__(self, program: list[str], folder: Path, schema: tuple[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        command = [*program, "serve", str(folder), *schema]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.wait()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10


def run(program: list[str], *arguments: str) -> str:
    done = subprocess.run([*program, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"FAILED: {arguments[0]}: {done.stderr}")
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rust", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    rust, python = [given.rust], [sys.executable, str(HERE / "peer.py")]
    sizes = (3 << 30, 5 << 30) if given.whole else (60 << 20, 160 << 20)
    # The default for the large one, and what makes a small message as many.
    chunk = str(32 << 20 if given.whole else 1 << 20)
    numbers = random.Random(36)
    graph, trace = given.work / "graph.pb", given.work / "trace.pb"
    pairs = [("Rust to Rust", rust, rust), ("Rust to Python", rust, python), ("Python to Rust", python, rust)]
    for source, schema, size, write in (
        (graph, GRAPH, sizes[0], write_graph),
        (trace, TRACE, sizes[1], write_trace),
    ):
        write(source, size)
        bytes_ = source.stat().st_size
        for name, sender, receiver in pairs:
            what = f"{name}: {schema[1]} of {bytes_} bytes"
            folder = given.work / "server"
            with Server(receiver, folder, schema) as server:
                put = folder / "put.pb"
                begun = time.monotonic()
                if source is trace:
                    said = run(sender, "typed", server.address, str(size >> 20))
                else:
                    said = run(sender, "send", server.address, str(source), *schema, chunk)
                took = time.monotonic() - begun
                check(f"{what} arrives ({took:.1f} s)", said == str(bytes_) and filecmp.cmp(source, put, False))
                put.unlink()
                if source is graph:
                    # Ten times, each after some chunks more than are under way at once.
                    step = bytes_ // 15
                    after = [numbers.randrange(step, step * 3 // 2) for _ in range(10)]
                    cutter = Cutter(server.address, after)
                    said = run(sender, "send", cutter.address, str(source), *schema, chunk)
                    check(f"{what} arrives", said == str(bytes_) and filecmp.cmp(source, put, False))
                    check(f"it was cut {cutter.cuts} times", cutter.cuts == 10)
                    put.unlink()
                left = [path.name for path in folder.iterdir()]
                check("nothing is left", left == [])
        with Server(python, given.work, schema) as server:
            target = given.work / "got.pb"
            run(rust, "get", server.address, source.name, str(target))
            check("Rust gets it from Python", filecmp.cmp(source, target, False))
            target.unlink()
        with Server(rust, given.work, schema) as server:
            run(python, "get", server.address, source.name, str(target))
            check("Python gets it from Rust", filecmp.cmp(source, target, False))
            target.unlink()
        source.unlink()
    print(f"largest process: {peak()} MiB")
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
