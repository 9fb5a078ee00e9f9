#!/usr/bin/env bash
# Makes every system call of every command that writes fail, or kill the command, one call after the
# other, and runs two processes at once. In each case a reader must find the old or the new file.
# Needs Rust and strace; takes about an hour on two cores. With a number N as the argument, only one
# call in N is tried, as in `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/../.."

command -v strace >/dev/null || { echo "tests/faults: strace is needed" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if PROTOSPLIT_FAULTS=${1:-1} cargo test --quiet -p proto-splitter-cli --test cli -- faults --nocapture >"$log" 2>&1; then
  runs=$(sed -n 's/^\([0-9]*\) runs, .*/\1/p' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
  [ "$runs" -gt 0 ] || { cat "$log"; exit 1; }
  echo "$runs passed, 0 failed"
else
  tail -40 "$log"
  echo "0 passed, 1 failed"
  exit 1
fi
