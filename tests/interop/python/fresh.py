"""Runs the README's Python code in a new virtual environment that contains only a wheel.

    python3 fresh.py WHEEL

Without NumPy, the code must run up to the first array, and name the missing module; with the wheel's extra `numpy`, all of it runs.
"""

import os
import re
import struct
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
#: Size of a tensor that is larger than the README's chunks.
ROWS, COLUMNS = 5 << 10, 4 << 10


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def graph():
    """Returns a tensorflow.GraphDef with one constant that is too large for one chunk."""
    shape = b"".join(field(2, field(1, size)) for size in (ROWS, COLUMNS))
    weights = struct.pack("<f", 1.5) * (ROWS * COLUMNS)
    tensor = field(1, 1) + field(2, shape) + field(4, weights)
    value = field(5, field(1, b"value") + field(2, field(8, tensor)))
    return field(1, field(1, b"weights") + field(2, b"Const") + value)


def blocks():
    with open(os.path.join(TOP, "README.md")) as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)


def run(*command, **options):
    ran = subprocess.run(command, capture_output=True, text=True, **options)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {ran.returncode}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.stdout


def pasted(python, folder, block):
    """Runs a code block in a folder with a graph. Returns its status, its output and the last line of its errors."""
    work = os.path.join(folder, "work")
    os.makedirs(os.path.join(work, "chunked"))
    with open(os.path.join(work, "graph.pb"), "wb") as file:
        file.write(graph())
    ran = subprocess.run([python, "-c", block], cwd=work, capture_output=True, text=True)
    subprocess.run(["rm", "-r", work], check=True)
    return ran.returncode, ran.stdout, (ran.stderr.strip().splitlines() or [""])[-1]


def main():
    (wheel,) = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="fresh-") as folder:
        python = os.path.join(folder, "venv/bin/python")
        run(sys.executable, "-m", "venv", os.path.join(folder, "venv"))
        run(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
        there = set(re.findall(r"^([\w-]+)==", run(python, "-m", "pip", "list", "--format", "freeze"), re.MULTILINE))
        assert there <= {"pip", "setuptools", "proto-splitter", "proto_splitter"}, there
        print(run(python, "-m", "proto_splitter", "--version").strip(), "in a new environment, with", sorted(there))
        print(run(python, os.path.join(TOP, "tests/interop/python/import_time.py")).strip())
        assert blocks(), "README.md has no lines for Python"
        for block in blocks():
            status, output, error = pasted(python, folder, block)
            # Without NumPy, only the code before the first array runs.
            assert status == 0 or error == "ModuleNotFoundError: No module named 'numpy'", error
            assert output.startswith("weights\n"), output
        run(python, "-m", "pip", "install", "--quiet", f"{wheel}[numpy]")
        for block in blocks():
            status, output, error = pasted(python, folder, block)
            assert status == 0, error
            assert output == f"weights\n({ROWS}, {COLUMNS}) float32\n", output
    print("the README's lines run as they are pasted")


if __name__ == "__main__":
    main()
