#!/usr/bin/env bash
# Signs models with the command and verifies the signatures with PyPI's model-signing, and the reverse. The models are a file in chunks, a
# folder and an externalized model, signed with keys of both curves. Then flips bits of the models and of the signatures, which both
# programs must detect. Needs Rust and python3. Ends with `N passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
# model-signing imports pyOpenSSL, but doesn't declare the dependency.
venv=$("$here/../environment.sh" sign python3 model-signing==1.1.1 pyOpenSSL)
cargo build --quiet --release --bin protosplit --manifest-path "$root/Cargo.toml"
target=${CARGO_TARGET_DIR:-$root/target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
exec "$venv/bin/python" "$here/run.py" --protosplit "$target/release/protosplit" --data "$root/tests/data" --work "$work"
