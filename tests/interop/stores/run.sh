#!/usr/bin/env bash
# Checks the command against moto's S3 server, installed from PyPI into a separate environment below .interop. See run.py.
# Needs python3 and cargo.
#
# If PROTOSPLIT is set, it is the path of the command to check.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
cd "$root"
mkdir -p .interop

venv=$("$here/../environment.sh" stores python3 'moto[server,s3]==5.2.5')
if [ -z "${PROTOSPLIT:-}" ]; then
  cargo build --quiet --release --bin protosplit
  target=$(cargo metadata --no-deps --format-version 1 | "$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
  PROTOSPLIT=$target/release/protosplit
fi
exec "$venv/bin/python" "$here/run.py" --protosplit "$PROTOSPLIT" "$@"
