#!/usr/bin/env bash
# Makes tables of messages with `protosplit cat --format parquet|arrow|csv`, and reads them with pyarrow, Polars and DuckDB, from PyPI.
# The tables must contain the values that protobuf itself reads, for a type with every kind of field and for many random types. Also
# reads tables through the Python package, without files. `--seeds N` sets the number of random types; PYTHON names an interpreter.
# Needs Rust and python3 (3.11 or later). Ends with `N passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../../.." && pwd)
cd "$top"
python=${PYTHON:-python3}
venv=$("$here/../environment.sh" columns "$python" pyarrow polars duckdb protobuf grpcio-tools perfetto==0.59.1)
# Checks that the schema of traces equals that of the package perfetto.
"$venv/bin/python" crates/perfetto/schema.py --check
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${PROTOSPLIT:-}" ]; then
  cargo build --quiet --release --bin protosplit
  PROTOSPLIT=$target/release/protosplit
fi
WHEEL=$("$here/../wheel.sh" "$work")
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$work/site" "$WHEEL"
PYTHONPATH=$work/site exec "$venv/bin/python" "$here/run.py" --protosplit "$PROTOSPLIT" --work "$work" "$@"
