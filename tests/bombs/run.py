"""Tries commands on the bombs of a folder: run.py PROTOSPLIT FOLDER [TABLE]

FOLDER contains list.tsv, which `crates/testkit/examples/bombs.rs` writes. Each command gets 1 GiB of address space and 20 seconds,
and must end with an answer or a one-line error. The table has, for each bomb and command, the outcome, the peak memory and the
time.
"""

import collections
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MEMORY = 1 << 30
SECONDS = 20


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(program, arguments, folder):
    """Runs a command. Returns its exit status, the lines on standard error, its peak memory in MiB, and its time in seconds."""
    with open(os.path.join(folder, "stderr"), "w+b") as said:
        start = time.monotonic()
        process = subprocess.Popen([program, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=said, preexec_fn=limit)  # fmt: skip
        signal.signal(signal.SIGALRM, lambda *_: process.kill())
        signal.alarm(SECONDS)
        _, status, used = os.wait4(process.pid, 0)
        signal.alarm(0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - start
        said.seek(0)
        return process.returncode, said.read().decode(errors="replace").splitlines(), used.ru_maxrss / 1024, took


def main():
    program, folder, *rest = sys.argv[1:]
    rows, failed = [], 0
    worst = collections.defaultdict(lambda: [0, 0.0])
    for line in open(os.path.join(folder, "list.tsv")):
        name, *arguments = line.rstrip("\n").split("\t")
        working = tempfile.mkdtemp(dir=folder)
        status, said, memory, took = run(program, arguments, working)
        shutil.rmtree(working)
        command = " ".join(os.path.basename(argument) if os.sep in argument else argument for argument in arguments)
        if status == 0:
            ended = "answered"
        elif status in (1, 2) and not any("panicked" in line for line in said):
            ended = said[-1].removeprefix("protosplit: ") if said else "bad"
            # `verify` and `diff` report what is wrong with a file in their answer, so they may print no error.
            if len(said) != 1 and arguments[0] not in ("verify", "diff"):
                ended = f"FAILED with {len(said)} lines: {ended}"
        else:
            ended = f"FAILED with {status}: {said[-1:]}"
        failed += ended.startswith("FAILED")
        rows.append((name, command, ended.replace(folder + os.sep, "")[:100], memory, took))
        most = worst[arguments[0]]
        most[:] = max(most[0], memory), max(most[1], took)
        if ended.startswith("FAILED"):
            print(f"{name}: {command}: {ended}", file=sys.stderr)
    if rest:
        with open(rest[0], "w") as table:
            table.write("| bomb | command | it ended | MiB | seconds |\n| --- | --- | --- | ---: | ---: |\n")
            for name, command, ended, memory, took in rows:
                table.write(f"| {name} | `{command}` | {ended} | {memory:.0f} | {took:.1f} |\n")
    print("| command | most MiB | most seconds |\n| --- | ---: | ---: |")
    for command, (memory, took) in sorted(worst.items()):
        print(f"| {command} | {memory:.0f} | {took:.1f} |")
    print(f"{len(rows) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
