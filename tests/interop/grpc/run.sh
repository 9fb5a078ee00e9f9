#!/usr/bin/env bash
# Runs the tests of the Python module and the example. Then sends messages between Rust, Python and a peer that was written from the
# documentation of the format, over gRPC with its default limits, also over connections that are cut. With --whole, sends a GraphDef of
# 3 GiB and a message of 5 GiB, which takes 12 GiB of disk. Needs Rust and python3 (3.11 or later). Ends with `N passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
venv=$("$here/../environment.sh" grpc python3 'grpcio>=1.68' 'protobuf>=5.29' google-crc32c numpy pytest)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$top/target}
WHEEL=$("$here/../wheel.sh" "$work")
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$work/site" "$WHEEL"
cargo build --quiet --release --manifest-path "$top/Cargo.toml" --example grpc --example interop
examples=$CARGO_TARGET_DIR/release/examples
export PYTHONPATH=$work/site
"$venv/bin/python" -m pytest --quiet -p no:cacheprovider --rootdir "$top/crates/python" "$top/crates/python/tests/test_grpc.py"

address=127.0.0.1:$("$venv/bin/python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$examples/grpc" server "$address" &
server=$!
trap 'kill "$server"; rm -rf "$work"' EXIT
until (exec 3<>"/dev/tcp/${address/://}") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done
"$examples/grpc" client "$address" 64 | tee "$work/said"
grep -q 'equal: true' "$work/said"

# The chunks of transfers are stored in the same folder as the messages.
TMPDIR=$work "$venv/bin/python" "$here/run.py" --work "$work" --rust "$examples/interop" "$@"
