#!/usr/bin/env bash
# Checks our files and descriptors against TensorFlow 2.21: see run.py, which gets all arguments.
# Needs python3 and g++ for setup.sh, and cargo.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh"
cd "$here/../.."
cargo build --quiet --release --bin protosplit
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec .interop/tensorflow-venv/bin/python "$here/run.py" --protosplit "$target/release/protosplit" "$@"
