#!/usr/bin/env bash
# Merges CASES files made at random (100,000, or the first argument) with ours and with TensorFlow's Merger, from a SEED (1, or
# the second argument), and says each way in which they differ: see crates/testkit/examples/differential.rs. Fails if there is
# one that isn't explained there.
# Needs what setup.sh needs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh"
cd "$here/../.."
exec cargo run --quiet --release -p proto-splitter-testkit --example differential .interop/tf_read "${1:-100000}" "${2:-1}"
