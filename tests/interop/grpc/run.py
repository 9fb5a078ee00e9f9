"""Sends messages between Rust, Python and a peer that shares no code with them, over 127.0.0.1 with gRPC's default limits. Also
cuts connections, and measures the memory of both sides.

run.py --rust PROGRAM --work DIR [--whole]: sends small messages; with --whole, a GraphDef of 3 GiB and a message of 5 GiB.
"""

from __future__ import annotations

import argparse
import filecmp
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from other import peak_of

HERE = Path(__file__).parent
TOP = HERE.parents[2]
GRAPH = (str(TOP / "crates/graph-def/src/proto/descriptors.binpb"), "tensorflow.GraphDef")
TRACE = (str(TOP / "crates/tonic/examples/shelf/shelf.binpb"), "shelf.Trace")
SAMPLE = 16 << 20
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
    """Writes a graph with constants of 5 MiB each and small nodes between them."""
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
    """Writes samples of 16 MiB, equal to those of the typed senders."""
    sample = field(2, bytes([7]) * SAMPLE)
    with open(path, "wb") as file:
        file.write(field(1, b"typed"))
        for _ in range(-(-size // SAMPLE)):
            file.write(sample)


class Cutter:
    """A proxy that forwards connections, and cuts each of the first ones after a number of bytes."""

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

    def peak(self) -> int:
        """Returns the peak memory of the process, in MiB."""
        return peak_of(f"/proc/{self._process.pid}/status")


def run(program: list[str], *arguments: str) -> tuple[str, int]:
    """Runs a program. Returns its output, and its peak memory in MiB, which it prints last."""
    done = subprocess.run([*program, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"FAILED: {arguments[0]}: exit code {done.returncode}")
    *said, peak = done.stdout.split()
    return " ".join(said), int(peak)


class Memory:
    """A check that both sides take at most this many MiB beyond the message and an idle program."""

    def __init__(self, idle: dict[str, int], most: dict[str, int]) -> None:
        self._idle, self._most = idle, most

    def check(self, what: str, program: list[str], peak: int, message: int) -> None:
        name = program[-1]
        idle, most = self._idle[name], self._most[name]
        beside = peak - idle - (message >> 20)
        check(f"{what}: {peak} MiB, {max(beside, 0)} more than the message and {idle} MiB of the program", beside <= most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rust", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    rust, python = [given.rust], [sys.executable, str(HERE / "peer.py")]
    other = [sys.executable, str(HERE / "other.py")]
    sizes = (3 << 30, 5 << 30) if given.whole else (60 << 20, 160 << 20)
    # The default chunk size for large messages, and a smaller one that cuts a small message into as many chunks.
    chunk = str(32 << 20 if given.whole else 1 << 20)
    numbers = random.Random(36)
    graph, trace = given.work / "graph.pb", given.work / "trace.pb"
    idle = {program[-1]: run(program, "idle")[1] for program in (rust, python)}
    memory = Memory(idle, {rust[-1]: 64, python[-1]: 64})
    pairs = [("Rust to Rust", rust, rust), ("Rust to Python", rust, python), ("Python to Rust", python, rust)]
    if not given.whole:
        # The peer `other` isn't used for large messages, since it holds the whole message in memory and is slow.
        pairs += [("Rust to another", rust, other), ("another to Rust", other, rust), ("another to Python", other, python)]
    for source, schema, size, write in (
        (graph, GRAPH, sizes[0], write_graph),
        (trace, TRACE, sizes[1], write_trace),
    ):
        write(source, size)
        bytes_ = source.stat().st_size
        for name, sender, receiver in pairs:
            what = f"{name}: {schema[1]} of {bytes_} bytes"
            folder = given.work / "server"
            typed = source is trace and sender is not other
            with Server(receiver, folder, schema) as server:
                put = folder / "put.pb"
                begun = time.monotonic()
                if typed:
                    said, peak = run(sender, "typed", server.address, str(size >> 20))
                else:
                    said, peak = run(sender, "send", server.address, str(source), *schema, chunk)
                took = time.monotonic() - begun
                check(f"{what} arrives ({took:.1f} s)", said == str(bytes_) and filecmp.cmp(source, put, False))
                put.unlink()
                if sender is not other:
                    # The typed sender in Rust repeats one sample, whose memory is shared by all repetitions.
                    held = (SAMPLE if sender is rust else bytes_) if typed else 0
                    memory.check("the sender", sender, peak, held)
                if source is graph:
                    # Cuts the connection ten times, each time after more chunks than are in transit at once.
                    step = bytes_ // 15
                    after = [numbers.randrange(step, step * 3 // 2) for _ in range(10)]
                    cutter = Cutter(server.address, after)
                    said, _ = run(sender, "send", cutter.address, str(source), *schema, chunk)
                    check(f"{what} arrives", said == str(bytes_) and filecmp.cmp(source, put, False))
                    check(f"it was cut {cutter.cuts} times", cutter.cuts == 10)
                    put.unlink()
                if receiver is not other:
                    memory.check("the receiver", receiver, server.peak(), 0)
                left = [path.name for path in folder.iterdir()]
                check("no temporary files are left", left == [])
        target = given.work / "got.pb"
        gets = [(python, rust), (rust, python)]
        for giver, taker in gets if given.whole else [*gets, (rust, other), (other, rust)]:
            with Server(giver, given.work, schema) as server:
                _, peak = run(taker, "get", server.address, source.name, str(target))
                names = " from ".join(Path(program[-1]).name for program in (taker, giver))
                check(f"{names}: the requested message arrives", filecmp.cmp(source, target, False))
                for side, program, most in (("the giver", giver, server.peak()), ("the taker", taker, peak)):
                    if program is not other:
                        memory.check(side, program, most, 0)
                target.unlink()
        source.unlink()
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
