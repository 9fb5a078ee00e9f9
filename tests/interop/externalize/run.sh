#!/usr/bin/env bash
# Externalizes SavedModels and has TensorFlow 2.21 run them: see check.py, which gets all arguments.
# Shares the TensorFlow that ../setup.sh installs; needs python3, g++ for that, and cargo.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/../setup.sh"
cd "$here/../../.."
cargo build --quiet --release -p proto-splitter-cli
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec .interop/venv/bin/python "$here/check.py" --protosplit "$target/release/protosplit" "$@"
