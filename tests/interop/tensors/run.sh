#!/usr/bin/env bash
# Exports tensors by name and reads them with NumPy and the safetensors package, which must agree with each other and with the list of
# `protosplit tensors`. Ends with `N passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
venv=$("$here/../environment.sh" tensors python3 ml_dtypes numpy safetensors)
cargo build --quiet --release --bin protosplit --manifest-path "$root/Cargo.toml"
target=${CARGO_TARGET_DIR:-$root/target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
exec "$venv/bin/python" "$here/judge.py" "$target/release/protosplit" "$root/tests/data/tensorflow" "$work"
