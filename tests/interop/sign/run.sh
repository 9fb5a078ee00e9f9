#!/usr/bin/env bash
# Signs models with the command and checks the signatures with PyPI's model-signing, and the reverse: a file in chunks, a folder and
# an externalized model, with keys of both curves; then flips bits of the models and of the signatures, which both must refuse. Needs
# Rust and python3. Ends with `N passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
# It imports pyOpenSSL without asking for it.
venv=$("$here/../environment.sh" sign python3 model-signing==1.1.1 pyOpenSSL)
cargo build --quiet --release --bin protosplit --manifest-path "$root/Cargo.toml"
target=${CARGO_TARGET_DIR:-$root/target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
exec "$venv/bin/python" "$here/run.py" --protosplit "$target/release/protosplit" --data "$root/tests/data" --work "$work"
