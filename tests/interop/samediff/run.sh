#!/usr/bin/env bash
# Checks SameDiff models against a reader and writer in Python that shares nothing with ours: zipfile, the runtime of
# flatbuffers, and code that flatc generated (generated/, by `flatc --python` from crates/samediff/schemas). See run.py.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
venv=.interop/samediff-venv
if ! "$venv/bin/python" -c 'import flatbuffers, numpy' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'flatbuffers==25.12.19' numpy
fi
cargo build --quiet --release -p proto-splitter-cli
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec "$venv/bin/python" "$here/run.py" --protosplit "$target/release/protosplit" "$@"
