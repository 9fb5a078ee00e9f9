#!/usr/bin/env bash
# Checks the command against an S3 server: moto, installed from PyPI into an environment of its own below .interop. See run.py.
# Needs python3 and cargo.
#
# PROTOSPLIT may name a build of the command.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
cd "$root"
mkdir -p .interop

venv=$root/.interop/stores-venv
if ! "$venv/bin/python" -c 'import boto3, moto.server' 2>/dev/null; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 --no-compile 'moto[server,s3]==5.2.5'
fi
if [ -z "${PROTOSPLIT:-}" ]; then
  cargo build --quiet --release -p proto-splitter-cli
  target=$(cargo metadata --no-deps --format-version 1 | "$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
  PROTOSPLIT=$target/release/protosplit
fi
exec "$venv/bin/python" "$here/run.py" --protosplit "$PROTOSPLIT" "$@"
