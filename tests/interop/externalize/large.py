"""Externalizes and runs a model near or over TensorFlow's limit, which the project's example writes."""

import os
import shutil
import subprocess
import sys
import time

import loaders

RUN = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import loaders
bits = loaders.run_v2(loaders.load_v2(sys.argv[1]))["serving_default"]["y"]
print(bits[2].hex())
"""


def expected(prefix):
    """Returns the input plus the largest element of each constant, as read by TensorFlow's own reader."""
    import numpy as np
    import tensorflow as tf
    reader = tf.train.load_checkpoint(prefix)
    value = np.float64(loaders.inputs(7, [], np.float32))
    for key in sorted(reader.get_variable_to_shape_map()):
        value += np.float64(reader.get_tensor(key).max())
    return value


def watched(*command):
    """Runs a command. Returns its time in seconds, and the largest anonymous memory observed."""
    start, most = time.monotonic(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as status:
                for line in status:
                    if line.startswith("RssAnon:"):
                        most = max(most, int(line.split()[1]) << 10)
        except FileNotFoundError:
            pass
        time.sleep(0.002)
    if process.returncode:
        raise RuntimeError(f"{command}: {process.returncode}")
    return time.monotonic() - start, most


def check_large(checks, example, mib, name):
    import numpy as np
    model, out = os.path.join(checks.work, "made"), os.path.join(checks.work, "by_example")
    with checks.check(f"the example's model of {mib} MiB, in Python and in C++"):
        subprocess.run([example, out, "--mib", str(mib), "--keep", model], check=True, stdout=subprocess.DEVNULL)
        by_command = os.path.join(checks.work, "by_command")
        plain = os.path.join(model, "saved_model.pb")
        copying, _ = watched("sh", "-c", 'cp "$1" "$1.copy" && sync "$1.copy"', "sh", plain)
        os.remove(plain + ".copy")
        took, memory = watched(checks.protosplit, "externalize", model, "-o", by_command)
        print(f"{os.path.getsize(plain)} bytes: cp and sync {copying:.2f} s; externalize {took:.2f} s, {took / copying:.2f}x, "
              f"{memory / (1 << 20):.1f} MiB of anonymous memory", flush=True)
        assert memory <= 64 << 20, memory
        for file in ("saved_model.pb", name + ".index"):
            with open(os.path.join(out, file), "rb") as a, open(os.path.join(by_command, file), "rb") as b:
                assert a.read() == b.read(), file
        shutil.rmtree(by_command)
        shutil.rmtree(model)
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
        ran = subprocess.run([sys.executable, "-c", RUN, out], stdout=subprocess.PIPE, text=True, check=True, env=env)
        in_python = ran.stdout.strip()
        in_cpp = loaders.run_c(out, ["serve"])["results"]["serving_default"]["y"]
        wanted = expected(os.path.join(out, name))
        for found in (in_python, in_cpp):
            # The results of the two loaders can differ in the last bit of this sum, so each is compared with the expected value.
            value = np.frombuffer(bytes.fromhex(found), np.float32)[0]
            assert np.isclose(value, wanted, rtol=1e-6), (value, wanted)
    shutil.rmtree(out, ignore_errors=True)
