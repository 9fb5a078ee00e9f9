#!/usr/bin/env bash
# Sends messages from Rust to Rust, from Rust to Python and from Python to Rust over gRPC with its default limits, also over
# connections that are cut. With --whole a GraphDef of 3 GiB and a message of 5 GiB, which takes 12 GiB of disk. Needs
# Rust and python3 (3.11 or later). Ends with `N passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
venv=$top/.interop/grpc-venv
if ! "$venv/bin/pip" show --quiet grpcio maturin 2>/dev/null; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'grpcio>=1.68' 'protobuf>=5.29' 'maturin>=1.14,<2'
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$top/target}
if [ -z "${WHEEL:-}" ]; then
  (cd "$top/crates/python" && "$venv/bin/maturin" build --quiet --release --out "$work" --interpreter "$venv/bin/python")
  WHEEL=$(echo "$work"/*.whl)
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$work/site" "$WHEEL"
cargo build --quiet --release --manifest-path "$top/Cargo.toml" -p proto-splitter-tonic --example interop
# Chunks of transfers go where the messages do.
TMPDIR=$work PYTHONPATH=$work/site "$venv/bin/python" "$here/run.py" --work "$work" --rust "$CARGO_TARGET_DIR/release/examples/interop" "$@"
