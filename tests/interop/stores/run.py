"""Runs each verb of the command on objects on an S3 server, and compares the results with those for files.

The server is moto's, in this process and on the loopback address. It counts the requests of each verb and the bytes of the answers. Ends
with a table of both.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

MIB = 1 << 20


class Quiet(WSGIRequestHandler):
    """A request handler that logs no requests."""

    def log_request(self, code="-", size="-"):
        pass


class Counter:
    """A WSGI application that counts the requests and bytes that pass through it."""

    def __init__(self, app):
        self.app = app
        self.lock = threading.Lock()
        # `before` is called with the key of an upload before it is completed. `has` returns whether an object with a key exists.
        self.before = self.has = lambda key: None
        # Number of completed uploads whose response is replaced by an error of the server.
        self.lost = 0
        self.take()

    def take(self):
        with self.lock:
            counted = getattr(self, "counted", None)
            self.counted = {"requests": 0, "bytes": 0, "uploaded": 0, "methods": []}
            return counted

    def __call__(self, environ, start_response):
        completes = environ["REQUEST_METHOD"] == "POST" and "uploadId=" in environ.get("QUERY_STRING", "")
        if completes:
            key = environ["PATH_INFO"].split("/", 2)[2]
            self.before(key)
            # moto supports this condition only for simple uploads, but S3 also when an upload in parts is completed.
            if environ.get("HTTP_IF_NONE_MATCH") == "*" and self.has(key):
                start_response("412 Precondition Failed", [("Content-Type", "application/xml")])
                return [b"<Error><Code>PreconditionFailed</Code></Error>"]
        loses = completes and self.lost > 0
        body = self.app(environ, (lambda *_: None) if loses else start_response)
        pieces = list(body)
        if hasattr(body, "close"):
            body.close()
        with self.lock:
            self.counted["requests"] += 1
            self.counted["bytes"] += sum(map(len, pieces))
            self.counted["uploaded"] += int(environ.get("CONTENT_LENGTH") or 0)
            self.counted["methods"].append(environ["REQUEST_METHOD"])
        if loses:
            self.lost -= 1
            start_response("500 Internal Server Error", [("Content-Type", "application/xml")])
            return [b"<Error><Code>InternalError</Code></Error>"]
        return pieces


def message(size):
    """Returns a serialized tensorflow.GraphDef with incompressible constants of 2 MiB each."""

    def field(number, payload):
        return varint(number << 3 | 2) + varint(len(payload)) + payload

    def varint(value):
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
        return bytes(out)

    nodes = []
    for at in range(max(1, size // (2 * MIB))):
        shape = field(2, field(2, varint(1 << 3) + varint(MIB // 2)))
        tensor = varint(1 << 3) + varint(1) + shape + field(4, os.urandom(2 * MIB))
        entry = field(1, b"value") + field(2, field(8, tensor))
        nodes.append(field(1, field(1, b"node%d" % at) + field(2, b"Const") + field(5, entry)))
    return b"".join(nodes)


class Checks:
    def __init__(self, protosplit, endpoint, counter):
        self.protosplit = protosplit
        self.counter = counter
        self.env = {
            **os.environ,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self.rows = []
        self.failed = 0
        self.passed = 0

    def run(self, *args, status=0):
        ran = subprocess.run([self.protosplit, *map(str, args)], env=self.env, capture_output=True)
        if ran.returncode != status:
            raise AssertionError(f"{args}: status {ran.returncode}: {ran.stderr.decode()}")
        return ran.stdout if status == 0 else ran.stderr

    def count(self, name, *args, **more):
        self.counter.take()
        out = self.run(*args, **more)
        counted = self.counter.take()
        self.rows.append((name, counted["requests"], counted["bytes"], counted["uploaded"]))
        return out, counted

    def check(self, name, holds, detail=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {name} {detail}")


def verbs(checks, folder, store, size):
    model = folder / "graph.pb"
    model.write_bytes(message(size))
    typed = ["--message", "tensorflow.GraphDef"]
    url = "s3://models/some/graph"
    checks.count("split to a store", "split", model, "-o", url, "--max-chunk-size", "4MiB", *typed)
    checks.run("split", model, "-o", folder / "graph", "--max-chunk-size", "4MiB", *typed)
    here, there = folder / "graph.cpb", url + ".cpb"
    held = store.get_object(Bucket="models", Key="some/graph.cpb")["Body"].read()
    checks.check("a split gives the same bytes", held == here.read_bytes())
    error = checks.run("split", model, "-o", url, "--max-chunk-size", "4MiB", *typed, status=2)
    checks.check("nothing is overwritten", b"is there already" in error, error)

    for verb in ("ls", "tree", "verify"):
        got, counted = checks.count(verb, verb, there, "--json")
        want = checks.run(verb, here, "--json")
        [got, want] = [json.loads(report) for report in (got, want)]
        for report in (got, want):
            report.pop("file", None)
        if verb == "ls":
            # Objects are listed without the stored form of chunks, which would take a request per chunk.
            for chunk in want["chunks"]:
                chunk.update(stored_size=None, compression=None, ratio=None)
            checks.check("ls makes two requests", counted["requests"] == 2, counted)
        checks.check(f"{verb} is the same", got == want)
    out, counted = checks.count("get of 2 MiB", "get", there, 'node[1].attr["value"].tensor.tensor_content', "--format", "binary")
    want = checks.run("get", here, 'node[1].attr["value"].tensor.tensor_content', "--format", "binary")
    checks.check("a value is the same", out == want and len(want) == 2 * MIB)
    most = 1.1 * 2 * MIB + 320 * 1024
    checks.check("a value fetches only its bytes and the ends of the file", counted["bytes"] <= most, counted["bytes"])

    checks.count("merge to a file", "merge", there, "-o", folder / "back.pb")
    checks.check("a merge gives the same bytes", (folder / "back.pb").read_bytes() == model.read_bytes())
    checks.count("merge to a store", "merge", there, "-o", "s3://models/some/back.pb")
    held = store.get_object(Bucket="models", Key="some/back.pb")["Body"].read()
    checks.check("a merge to a store gives the same bytes", held == model.read_bytes())

    # The elements of each constant are one chunk, and the remaining fields another.
    named = ["--profile", "extended", "--value-chunk-size", "1MiB", "--max-chunk-size", "4MiB"]
    checks.run("split", model, "-o", "s3://models/named", *named, *typed)
    store.put_object(Bucket="models", Key="named.pb", Body=model.read_bytes())
    for what, extension in (("chunks", "cpb"), ("a message", "pb")):
        held = f"s3://models/named.{extension}"
        asked = typed if extension == "pb" else []
        got, _ = checks.count(f"tensors of {what}", "tensors", held, "--json", *asked)
        want = checks.run("tensors", model, "--json", *typed)
        listed = [json.loads(report)["tensors"] for report in (got, want)]
        checks.check(f"tensors of {what} are the same", listed[0] == listed[1], listed)
        get = ["--tensor", "node1", "--format", "binary", *asked]
        out, counted = checks.count(f"a tensor of {what}", "get", held, *get)
        want = checks.run("get", model, "--tensor", "node1", "--format", "binary", *typed)
        checks.check(f"a tensor of {what} is the same", out == want and len(want) == 2 * MIB, len(out))
        if extension == "cpb":
            most = 1.1 * 2 * MIB + 320 * 1024
            few = counted["bytes"] <= most and counted["requests"] <= 6
            checks.check("a tensor fetches only its bytes and the ends of the file", few, counted)

    small = "s3://models/small"
    saved = folder / "saved"
    (saved / "variables").mkdir(parents=True)
    (saved / "saved_model.pb").write_bytes(b"\x08\x01")
    (saved / "variables" / "variables.data-00000-of-00001").write_bytes(os.urandom(3 * MIB))
    checks.count("convert a folder", "convert", saved, small, "--to", "pb")
    listed = store.list_objects_v2(Bucket="models", Prefix="small/")["Contents"]
    keys = sorted(item["Key"] for item in listed)
    wanted = ["small/saved_model.pb", "small/variables/variables.data-00000-of-00001"]
    checks.check("a folder is copied with its variables", [key for key in keys if "fingerprint" not in key] == wanted, keys)
    checks.count("convert back", "convert", small, folder / "again", "--to", "pb")
    data = "variables/variables.data-00000-of-00001"
    checks.check("and back", (folder / "again" / data).read_bytes() == (saved / data).read_bytes())

    raced(checks, here, there, store)
    error = checks.run("ls", "s3://models/nothing", status=2)
    checks.check("the error names a missing object", b"s3://models/nothing: no such object" in error, error)
    stopped = interrupted(checks, there)
    checks.check("Ctrl-C stops an upload", -signal.SIGINT in stopped, stopped)
    uploads = store.list_multipart_uploads(Bucket="models").get("Uploads", [])
    checks.check("no upload is left", uploads == [], uploads)


def raced(checks, here, there, store):
    """Writes the object on behalf of another program, right before a split and a merge complete their uploads."""

    def has(key):
        return any(item["Key"] == key for item in store.list_objects_v2(Bucket="models").get("Contents", []))

    checks.counter.has = has
    for verb, file in (("split", here.with_name("graph.pb")), ("merge", there)):
        key = f"raced/{verb}" + (".cpb" if verb == "split" else ".pb")
        typed = ["--message", "tensorflow.GraphDef", "--max-chunk-size", "4MiB"] if verb == "split" else []
        command = [verb, file, "-o", f"s3://models/{key}", *typed]
        checks.counter.before = lambda key: store.put_object(Bucket="models", Key=key, Body=b"another's")
        error = checks.run(*command, status=2)
        checks.counter.before = lambda key: None
        checks.check(f"a {verb} that comes second is refused", b"is there already" in error, error)
        held = store.get_object(Bucket="models", Key=key)["Body"].read()
        checks.check(f"a {verb} that comes second replaces nothing", held == b"another's", len(held))
        checks.run(*command, "--force")
        held = store.head_object(Bucket="models", Key=key)["ContentLength"]
        checks.check(f"a {verb} that is forced replaces it", held > MIB, held)
    lost(checks, here.with_name("graph.pb"), store)
    checks.counter.has = lambda key: None


def lost(checks, model, store):
    """Loses the response to the request that completes an upload, which the client then sends again."""
    command = ["split", model, "-o", "s3://models/lost", "--message", "tensorflow.GraphDef", "--max-chunk-size", "4MiB"]
    for options in ([], ["--force"]):
        checks.counter.lost = 1
        checks.run(*command, *options)
        checks.check(f"an upload without a response is complete {options}", checks.counter.lost == 0)
        held = store.head_object(Bucket="models", Key="lost.cpb")["ContentLength"]
        checks.check(f"its object is whole {options}", held > model.stat().st_size, held)
    error = checks.run(*command, status=2)
    checks.check("a second upload is refused", b"is there already" in error, error)


def interrupted(checks, chunked):
    """Interrupts merges to a store at several moments, and returns their exit codes."""
    ended = []
    for at, requests in enumerate((1, 4, 6, 8)):
        checks.counter.take()
        command = [checks.protosplit, "merge", chunked, "-o", f"s3://models/some/stopped{at}.pb", "--quiet"]
        run = subprocess.Popen(command, env=checks.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while run.poll() is None and checks.counter.counted["requests"] < requests:
            time.sleep(0.005)
        run.send_signal(signal.SIGINT)
        ended.append(run.wait())
    return ended


def in_parts(checks, folder, store, size):
    """Splits, verifies and merges in parts. The source, target, plans and reports are objects."""
    model = folder / "parts.pb"
    model.write_bytes(message(size))
    store.put_object(Bucket="models", Key="parts/source.pb", Body=model.read_bytes())
    typed = ["--message", "tensorflow.GraphDef", "--max-chunk-size", "4MiB", "--profile", "extended"]
    url = "s3://models/parts"

    def shared(verb, *args):
        plan = f"{url}/{verb}.plan"
        out, _ = checks.count(f"plan a {verb}", verb, *args, "--plan-only", plan, "--parts", "3", "--json")
        parts = json.loads(out)["parts"]
        checks.check(f"a {verb} has several parts", parts > 1, parts)
        error = checks.run(verb, "--plan", plan, "--commit", status=2)
        checks.check(f"a {verb} without its parts is refused", b"no report of part 0" in error, error)
        # Runs the parts in reverse order, and the first part again, twice at the same time.
        for part in reversed(range(parts)):
            checks.count(f"part {part} of a {verb}", verb, "--plan", plan, "--part", part)
        command = [checks.protosplit, verb, "--plan", plan, "--part", "0", "--quiet"]
        hosts = [subprocess.Popen(command, env=checks.env, stdout=subprocess.DEVNULL) for _ in range(2)]
        checks.check(f"part 0 of a {verb} runs twice at once", [host.wait() for host in hosts] == [0, 0])
        # Kills a host at the start of its part, which must leave no visible object.
        host = subprocess.Popen(command, env=checks.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.2)
        host.kill()
        host.wait()
        out, _ = checks.count(f"commit a {verb}", verb, "--plan", plan, "--commit", "--json")
        again = json.loads(checks.run(verb, "--plan", plan, "--commit", "--json"))
        checks.check(f"a {verb} is committed twice", again["parts"] == parts)
        return json.loads(out)

    shared("split", f"{url}/source.pb", "-o", f"{url}/graph", *typed)
    report = shared("verify", f"{url}/graph.cpb")
    checks.check("a verification by parts is of the right bytes", report["byte_exact"] and not report["problems"], report)
    report = shared("merge", f"{url}/graph.cpb", "-o", f"{url}/merged.pb")
    held = store.get_object(Bucket="models", Key="parts/merged.pb")["Body"].read()
    checks.check("a merge by parts gives the same bytes", held == model.read_bytes() and report["byte_exact"])
    late = checks.run("merge", "--plan", f"{url}/merge.plan", "--part", "0", status=2)
    checks.check("a late host is told of the commit", b"was committed" in late, late)
    # Another plan doesn't overwrite existing objects.
    plan = f"{url}/second.plan"
    error = checks.run("merge", f"{url}/graph.cpb", "-o", f"{url}/merged.pb", "--plan-only", plan, status=2)
    checks.check("a merge by parts overwrites nothing", b"is there already" in error, error)
    changed = bytearray(model.read_bytes())
    changed[-1] ^= 1
    store.put_object(Bucket="models", Key="parts/source.pb", Body=bytes(changed))
    error = checks.run("split", "--plan", f"{url}/split.plan", "--part", "0", status=2)
    checks.check("a replaced source is detected by its ETag", b"it was replaced" in error, error)
    checks.count("split a store's", "split", f"{url}/source.pb", "-o", f"{url}/whole", *typed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    parser.add_argument("--size", type=int, default=40, help="MiB of the message")
    args = parser.parse_args()
    counter = Counter(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, counter, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    store = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    store.create_bucket(Bucket="models")
    checks = Checks(args.protosplit, endpoint, counter)
    with tempfile.TemporaryDirectory() as folder:
        verbs(checks, pathlib.Path(folder), store, args.size * MIB)
        in_parts(checks, pathlib.Path(folder), store, args.size * MIB)
    print(f"{'verb':24} {'requests':>8} {'MiB down':>9} {'MiB up':>8}   of a message of {args.size} MiB")
    for name, requests, down, up in checks.rows:
        print(f"{name:24} {requests:8} {down / MIB:9.2f} {up / MIB:8.2f}")
    print(f"{checks.passed} passed, {checks.failed} failed")
    server.shutdown()
    raise SystemExit(checks.failed > 0)


main()
