"""Checks that `import proto_splitter` takes at most 30 ms of processor time beyond the start of the interpreter.

The median of several runs counts. Processor time doesn't depend on other work on the machine.
"""

import os
import statistics
import subprocess
import sys

#: Maximum time, in milliseconds.
MOST = 30
RUNS = 11


def spent(code):
    """Returns the processor time of a new interpreter that runs this code, in milliseconds."""
    child = subprocess.Popen([sys.executable, "-c", code])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{code}: exit {child.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def beyond(code):
    return statistics.median(spent(code) - spent("pass") for _ in range(RUNS))


def main():
    package = beyond("import proto_splitter")
    # Also imports the native module and everything that a call needs.
    used = beyond("from proto_splitter import split, merge, open")
    print(f"import proto_splitter: {package:.1f} ms; with its functions: {used:.1f} ms")
    sys.exit(package > MOST)


if __name__ == "__main__":
    main()
