"""An in-memory store on the loopback, with the part of Google's JSON API that TensorFlow's `gs://` uses.

TensorFlow can't send its requests to other hosts than Google's, but it can use a proxy with certificates that it is told to trust. This
store is a proxy that answers the requests to those hosts itself.
"""

import contextlib
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

HOSTS = ("www.googleapis.com", "storage.googleapis.com")


class Store:
    """Objects by bucket and name, each with its generation number and bytes."""

    def __init__(self, buckets):
        self.buckets = {name: {} for name in buckets}
        self.uploads, self.number, self.lock = {}, 0, threading.Lock()
        #: A pattern of methods and paths, and the status of the answers to matching requests.
        self.failure = None

    def next_number(self):
        self.number += 1
        return self.number

    def put(self, bucket, name, data):
        self.buckets[bucket][name] = (self.next_number(), bytes(data))


def certificates(folder):
    """Creates an authority and a certificate for the hosts. Returns the files of both, and of the key."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    with open(os.path.join(folder, "names"), "w") as file:
        file.write("subjectAltName=" + ",".join(f"DNS:{host}" for host in HOSTS))
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=loopback", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={HOSTS[0]}", "-keyout", "host.key", "-out", "host.csr")
    openssl("x509", "-req", "-in", "host.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "host.pem")
    return [os.path.join(folder, name) for name in ("ca.pem", "host.pem", "host.key")]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store, tls = None, None

    def log_message(self, *arguments):
        pass

    def do_CONNECT(self):
        host = self.path.rpartition(":")[0]
        if host not in HOSTS:
            self.answer(403)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        try:
            self.connection = self.tls.wrap_socket(self.connection, server_side=True)
            self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        except OSError:
            pass
        self.close_connection = False

    def answer(self, status, body=b"", **headers):
        if isinstance(body, dict):
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def respond(self):
        store = self.store
        body = self.body()
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        with store.lock:
            if url.path.startswith("/-/"):
                return self.control(url.path[3:], query)
            if store.failure and re.search(store.failure[0], f"{self.command} {self.path}"):
                return self.answer(store.failure[1], {"error": {"code": store.failure[1], "message": "asked for"}})
            return self.route(url.path, query, body)

    do_GET = do_PUT = do_POST = do_DELETE = respond

    def control(self, what, query):
        if what == "fail":
            pattern = query.get("pattern")
            self.store.failure = (pattern, int(query["status"])) if pattern else None
            return self.answer(200, {})
        return self.answer(200, {name: len(data) for name, (_, data) in self.store.buckets[query["bucket"]].items()})

    def route(self, path, query, body):
        unquote = urllib.parse.unquote
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)", path):
            return self.answer(200, {"location": "US"}) if found[1] in self.store.buckets else self.missing()
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)/o/?", path):
            return self.list(found[1], query)
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)", path):
            return self.rewrite(found[1], unquote(found[2]), found[3], unquote(found[4]))
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)/o/([^/]+)", path):
            return self.object(found[1], unquote(found[2]))
        if found := re.fullmatch(r"/upload/storage/v1/b/([^/]+)/o", path):
            return self.begin(found[1], query["name"])
        if found := re.fullmatch(r"/resumed/(\d+)", path):
            return self.resume(found[1], body)
        if found := re.fullmatch(r"/([^/]+)/(.+)", path):
            return self.read(found[1], unquote(found[2]))
        return self.missing()

    def missing(self):
        self.answer(404, {"error": {"code": 404, "message": "Not Found"}})

    def described(self, name, number, data):
        return {"name": name, "size": str(len(data)), "generation": str(number), "updated": "2026-01-01T00:00:00.000Z"}

    def list(self, bucket, query):
        if bucket not in self.store.buckets:
            return self.missing()
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        items, prefixes = [], []
        for name, (number, data) in sorted(self.store.buckets[bucket].items()):
            if not name.startswith(prefix):
                continue
            inner, slash, _ = name[len(prefix):].partition(delimiter) if delimiter else (name, "", "")
            if slash:
                prefixes += [prefix + inner + slash] if prefix + inner + slash not in prefixes else []
            else:
                items.append(self.described(name, number, data))
        if "maxResults" in query:
            items = items[:int(query["maxResults"])]
        return self.answer(200, {"items": items, "prefixes": prefixes})

    def object(self, bucket, name):
        objects = self.store.buckets.get(bucket, {})
        if name not in objects:
            return self.missing()
        if self.command == "DELETE":
            del objects[name]
            return self.answer(204)
        return self.answer(200, self.described(name, *objects[name]))

    def rewrite(self, bucket, name, to, new):
        if name not in self.store.buckets.get(bucket, {}) or to not in self.store.buckets:
            return self.missing()
        self.store.put(to, new, self.store.buckets[bucket][name][1])
        return self.answer(200, {"done": True})

    def begin(self, bucket, name):
        if bucket not in self.store.buckets:
            return self.missing()
        key = str(self.store.next_number())
        self.store.uploads[key] = (bucket, name, bytearray())
        return self.answer(200, Location=f"https://{HOSTS[0]}/resumed/{key}")

    def resume(self, key, body):
        bucket, name, data = self.store.uploads[key]
        place = self.headers.get("Content-Range", "")
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", place)
        # If the range doesn't match, the body is the whole object, or empty in a request for the upload's state (`bytes */0`).
        start, end, total = map(int, found.groups()) if found else (0, len(body) - 1, len(body))
        if start != len(data) or end + 1 - start != len(body):
            return self.answer(400, {"error": {"code": 400, "message": f"{place!r} after {len(data)} bytes, with {len(body)}"}})
        data += body
        if len(data) < total:
            return self.answer(308, Range=f"bytes=0-{len(data) - 1}")
        self.store.put(bucket, name, data)
        return self.answer(200, {})

    def read(self, bucket, name):
        objects = self.store.buckets.get(bucket, {})
        if name not in objects:
            return self.missing()
        number, data = objects[name]
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not found:
            return self.answer(200, data, x_goog_generation=str(number))
        start, end = int(found[1]), min(int(found[2] or len(data) - 1), len(data) - 1)
        if start >= len(data):
            return self.answer(416)
        return self.answer(206, data[start:end + 1], Content_Range=f"bytes {start}-{end}/{len(data)}", x_goog_generation=str(number))


class Running:
    """A store that runs in another process."""

    def __init__(self, port):
        self.port = port

    def ask(self, what, **query):
        url = f"http://127.0.0.1:{self.port}/-/{what}?{urllib.parse.urlencode(query)}"
        # Bypasses a proxy that the environment configures.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as answer:
            return json.load(answer)

    def names(self, bucket):
        """Returns the names of a bucket's objects, with their sizes."""
        return self.ask("names", bucket=bucket)

    def fail(self, pattern, status):
        """Answers requests whose method and path match the pattern with this status. Without a pattern, all requests succeed again."""
        self.ask("fail", pattern=pattern, status=status)


@contextlib.contextmanager
def running(folder, *buckets):
    """Runs a store with these buckets, and makes this process's TensorFlow use it. Creates certificates in the folder."""
    authority, certificate, key = certificates(folder)
    # TensorFlow holds the GIL during its requests, so a thread of this process couldn't answer them.
    child = subprocess.Popen([sys.executable, __file__, certificate, key, *buckets], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    port = int(child.stdout.readline())
    settings = {
        "https_proxy": f"http://127.0.0.1:{port}",
        "no_proxy": "",
        "CURL_CA_BUNDLE": authority,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "loopback",
        "GCS_RETRY_CONFIG_INIT_DELAY_TIME_US": "1000",
        "GCS_RETRY_CONFIG_MAX_DELAY_TIME_US": "1000",
        "GCS_RETRY_CONFIG_MAX_RETRIES": "2",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield Running(port)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        child.stdin.close()
        child.wait()


def main():
    certificate, key, *buckets = sys.argv[1:]
    Handler.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    Handler.tls.load_cert_chain(certificate, key)
    Handler.store = Store(buckets)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    # Waits for the end of the parent process, which closes this pipe.
    sys.stdin.read()


if __name__ == "__main__":
    main()
