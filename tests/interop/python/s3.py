"""Saves to `s3://` and loads from there, with moto's store and tensorflow-io, which supports TensorFlow 2.16 and earlier.

Ends with one line, `N passed, 0 failed`.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

with socket.create_server(("127.0.0.1", 0)) as free:
    ADDRESS = f"127.0.0.1:{free.getsockname()[1]}"
for name in list(os.environ):
    # Removes the user's settings for S3 and for proxies from the environment.
    if name.startswith("AWS_") or name.lower().endswith("_proxy"):
        del os.environ[name]
os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_REGION="us-east-1", S3_ENDPOINT=f"http://{ADDRESS}",
                  AWS_EC2_METADATA_DISABLED="true")

# Must come first, since it checks which modules the package imports.
from again import Checks, Dense, check_remote, pst, remote_files, tf  # noqa: E402

import tensorflow_io  # noqa: E402, F401: this adds the scheme


def wait_for(store):
    """Creates a bucket as soon as the store answers."""
    while store.poll() is None:
        try:
            return urllib.request.urlopen(urllib.request.Request(f"http://{ADDRESS}/bucket", method="PUT"))
        except urllib.error.URLError:
            time.sleep(0.2)
    raise RuntimeError("the store has ended")


def check_variables(checks, path):
    with checks.check("captured constants become variables there, too"):
        model, x = Dense(64), tf.ones([2, 256])
        pst.save(model, path, model.call, min_size="1KiB", format="variables")
        assert len(remote_files(path)) == 4, remote_files(path)
        assert (tf.saved_model.load(path).call(x)["y0"].numpy() == model.call(x)["y0"].numpy()).all()


def main():
    checks = Checks()
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", ADDRESS.rpartition(":")[2]]
        store = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(store)
            check_remote(checks, "s3://bucket/models")
            check_variables(checks, "s3://bucket/variables")
        finally:
            store.kill()
            store.wait()
    print(f"{checks.passed} passed, {checks.failed} failed", flush=True)
    # At a normal exit, tensorflow-io's client aborts the process with "pure virtual method called".
    os._exit(bool(checks.failed))


if __name__ == "__main__":
    main()
