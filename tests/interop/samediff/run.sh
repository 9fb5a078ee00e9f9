#!/usr/bin/env bash
# Checks SameDiff models against a reader and writer in Python that shares nothing with ours: zipfile, the runtime of
# flatbuffers, and code that flatc generated (generated/, see generate.sh). See run.py. Where Debian's flatc is to be had, it
# also generates that code anew, and reads and writes graphs itself.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
venv=$("$here/../environment.sh" samediff python3 'flatbuffers==25.12.19' numpy)
flatc=.interop/flatc/usr/bin/flatc
if [ ! -x "$flatc" ]; then
  mkdir -p .interop/flatc
  (cd .interop/flatc && apt-get download --quiet --quiet flatbuffers-compiler && dpkg -x flatbuffers-compiler_*.deb . && rm ./*.deb) || true
fi
more=()
if [ "$("$flatc" --version 2>/dev/null)" = "flatc version 2.0.8" ]; then
  FLATC=$flatc "$here/generate.sh" --check
  more=(--flatc "$flatc")
else
  echo "skipped: flatc 2.0.8 is not there"
fi
cargo build --quiet --release --bin protosplit
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec "$venv/bin/python" "$here/run.py" --protosplit "$target/release/protosplit" "${more[@]}" "$@"
