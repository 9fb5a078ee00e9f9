"""Runs each verb of the command on blobs in Azurite, and compares the results with those for files."""

import argparse
import base64
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

MIB = 1 << 20
# Azurite's well-known account.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def message(size):
    """Returns a serialized tensorflow.GraphDef with incompressible constants of 2 MiB each."""
    nodes = []
    for at in range(max(2, size // (2 * MIB))):
        tensor = varint(1 << 3) + varint(1) + field(4, os.urandom(2 * MIB))
        entry = field(1, b"value") + field(2, field(8, tensor))
        nodes.append(field(1, field(1, b"node%d" % at) + field(2, b"Const") + field(5, entry)))
    return b"".join(nodes)


def make_container(endpoint, name):
    """Creates a container, with a request that is signed with the account's key."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06"
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    # The text to sign: the verb, eleven absent standard headers, our own headers, and the resource.
    text = "PUT" + "\n" * 12 + f"{headers}\n{resource}"
    signed = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(f"{endpoint}/{ACCOUNT}/{name}?restype=container", method="PUT")
    request.add_header("x-ms-date", date)
    request.add_header("x-ms-version", "2021-08-06")
    request.add_header("Authorization", f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201, answer.status


class Checks:
    def __init__(self, protosplit, endpoint):
        self.protosplit = protosplit
        self.env = {
            **os.environ,
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": endpoint,
        }
        self.passed = self.failed = 0

    def run(self, *args, status=0):
        ran = subprocess.run([self.protosplit, *map(str, args)], env=self.env, capture_output=True)
        if ran.returncode != status:
            raise AssertionError(f"{args}: status {ran.returncode}: {ran.stderr.decode()}")
        return ran.stdout if status == 0 else ran.stderr

    def check(self, name, holds, detail=""):
        self.passed += bool(holds)
        self.failed += not holds
        if not holds:
            print(f"FAILED {name} {detail}")


def verbs(checks, folder, size):
    model = folder / "graph.pb"
    model.write_bytes(message(size))
    typed = ["--message", "tensorflow.GraphDef", "--max-chunk-size", "4MiB"]
    url = "az://models/some/graph"
    checks.run("split", model, "-o", url, *typed)
    checks.run("split", model, "-o", folder / "graph", *typed)
    here, there = folder / "graph.cpb", url + ".cpb"
    error = checks.run("split", model, "-o", url, *typed, status=2)
    checks.check("nothing is overwritten", b"is there already" in error, error)
    for verb in ("ls", "tree", "verify", "tensors"):
        got, want = [json.loads(checks.run(verb, file, "--json")) for file in (there, here)]
        for report in (got, want):
            report.pop("file", None)
        if verb == "ls":
            # Blobs are listed without the stored form of chunks, which would take a request per chunk.
            for chunk in want["chunks"]:
                chunk.update(stored_size=None, compression=None, ratio=None)
        checks.check(f"{verb} is the same", got == want)
    path = 'node[1].attr["value"].tensor.tensor_content'
    got, want = [checks.run("get", file, path, "--format", "binary") for file in (there, here)]
    checks.check("a value is the same", got == want and len(want) == 2 * MIB)
    checks.run("merge", there, "-o", folder / "back.pb")
    checks.check("a merge gives the same bytes", (folder / "back.pb").read_bytes() == model.read_bytes())
    checks.run("merge", there, "-o", "az://models/some/back.pb")
    checks.run("verify", there, "--against", "az://models/some/back.pb")
    error = checks.run("ls", "az://models/nothing", status=2)
    checks.check("the error names a missing blob", b"az://models/nothing: no such object" in error, error)


def in_parts(checks, folder):
    url = "az://models/some"

    def shared(verb, *args):
        plan = f"{url}/{verb}.plan"
        parts = json.loads(checks.run(verb, *args, "--plan-only", plan, "--parts", "3", "--json"))["parts"]
        for part in [*reversed(range(parts)), 0]:
            checks.run(verb, "--plan", plan, "--part", part)
        report = json.loads(checks.run(verb, "--plan", plan, "--commit", "--json"))
        checks.run(verb, "--plan", plan, "--commit")
        checks.check(f"a {verb} in parts is byte-exact", report["byte_exact"], report)

    typed = ["--message", "tensorflow.GraphDef", "--max-chunk-size", "4MiB", "--profile", "extended"]
    shared("split", f"{url}/back.pb", "-o", f"{url}/parts", *typed)
    shared("verify", f"{url}/parts.cpb")
    shared("merge", f"{url}/parts.cpb", "-o", f"{url}/parts.pb")
    checks.run("merge", f"{url}/parts.cpb", "-o", folder / "parts.pb")
    same = (folder / "parts.pb").read_bytes() == (folder / "graph.pb").read_bytes()
    checks.check("a merge in parts restores the message", same)
    checks.run("verify", f"{url}/parts.cpb", "--against", f"{url}/parts.pb")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    parser.add_argument("--azurite", required=True)
    parser.add_argument("--size", type=int, default=40, help="MiB of the message")
    args = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        command = [args.azurite, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
        command += ["--location", str(folder / "azurite"), "--disableTelemetry", "--skipApiVersionCheck"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.1)
            make_container(endpoint, "models")
            checks = Checks(args.protosplit, endpoint)
            verbs(checks, folder, args.size * MIB)
            in_parts(checks, folder)
        finally:
            server.terminate()
            server.wait()
    print(f"{checks.passed} passed, {checks.failed} failed")
    raise SystemExit(checks.failed > 0)


main()
